"""Characters as Unicode 15 classifies them, which llama.cpp uses, in Python versions with an older or newer Unicode.

Token ids must not depend on the Python version: 3.10 knows Unicode 13, 3.14 knows Unicode 16.
"""

from __future__ import annotations

import unicodedata

# What Unicode 14 and 15 added, without the letters and symbols: BERT treats these like unassigned code points.
_ADDED = {
    "Po": "61d 1b7d-1b7e 2e53-2e5d 10f86-10f89 116b9 11b00-11b09 11f43-11f4f 12ff1-12ff2",
    "Cf": "890-891 13439-1343f",
    "Mn": "898-89f 8ca-8d2 c3c cf3 ece 1715 180f 1ac1-1ace 1dfa 10efd-10eff 10f82-10f85 11070 11073-11074 110c2 11241"
    " 11f00-11f01 11f03 11f34-11f3a 11f3e-11f42 13440 13447-13455 1cf00-1cf2d 1cf30-1cf46 1e08f 1e2ae 1e4ec-1e4ef",
    "Lu": "2c2f a7c0 a7d0 a7d6 a7d8 10570-1057a 1057c-1058a 1058c-10592 10594-10595",
}
# What Unicode 16 to 18 added, except symbols, and letters that have neither case nor a decomposition.
_LATER = (
    "5c8-5c9 897 b53-b54 1acf-1af0 1b4e-1b4f 1b7f 1c89 2e60-2e63 a7cb-a7ce a7d2 a7d4 a7da-a7e2 ab6c-ab6d 105c9-105e4"
    " 10d50-10d6e 10ecb-10efc 11383-113e2 11b60-11be1 11df0 11f5a 1611e-1612f 16d68-16d6f 16ea0-16eb8 1d127-1d128"
    " 1d250-1d281 1df40-1df7e 1e5ee-1e6f5"
)


def _characters(ranges: str) -> list[str]:
    """The characters of ranges such as `61d 1b7d-1b7e`."""
    bounds = [[int(point, 16) for point in part.split("-")] for part in ranges.split()]
    return [chr(point) for part in bounds for point in range(part[0], part[-1] + 1)]


_CATEGORIES = {c: kind for kind, ranges in {**_ADDED, "Cn": _LATER}.items() for c in _characters(ranges)}
_LOWER = {c: chr(ord(c) + (0x30 if c == "\u2c2f" else 0x27 if c > "\uffff" else 1)) for c in _characters(_ADDED["Lu"])}


def category(character: str) -> str:
    """The general category, such as `Lu`."""
    return _CATEGORIES.get(character) or unicodedata.category(character)


def lower(character: str) -> str:
    """The first character of the lower case form."""
    if category(character) == "Cn":
        return character
    return _LOWER.get(character) or character.lower()[0]


def base(character: str) -> str:
    """The first character of the canonical decomposition: a letter without its accents."""
    return character if category(character) == "Cn" else unicodedata.normalize("NFD", character)[0]
