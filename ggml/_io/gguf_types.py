"""The types of the values of GGUF keys: one row per type, from which functions and their documentation are made."""

from __future__ import annotations

import struct
import textwrap
from typing import NamedTuple

from .. import _constants


class ValueType(NamedTuple):
    """A row. Strings and arrays have no code, and functions of their own instead of generated ones."""

    constant: str  # GGUF_TYPE_*
    name: str  # as in gguf_get_val_NAME and gguf_type_name
    code: str = ""  # of one value, for the module struct
    kind: str = ""  # with its article
    values: str = ""  # what the setter accepts
    needed: str = ""  # the kind of object that the setter needs
    refused: str = ""  # values of the right kind that the setter does not accept

    @property
    def number(self) -> int:
        return getattr(_constants, self.constant)

    @property
    def size(self) -> int:
        """Bytes of one value; 0 if they vary."""
        return struct.calcsize(f"={self.code}")


INTEGER = "an integer", "is out of range"
TYPES = (
    ValueType("GGUF_TYPE_UINT8", "u8", "B", "an unsigned 8-bit integer", "an integer from 0 to 255", *INTEGER),
    ValueType("GGUF_TYPE_INT8", "i8", "b", "a signed 8-bit integer", "an integer from -128 to 127", *INTEGER),
    ValueType("GGUF_TYPE_UINT16", "u16", "H", "an unsigned 16-bit integer", "an integer from 0 to 65535", *INTEGER),
    ValueType("GGUF_TYPE_INT16", "i16", "h", "a signed 16-bit integer", "an integer from -32768 to 32767", *INTEGER),
    ValueType("GGUF_TYPE_UINT32", "u32", "I", "an unsigned 32-bit integer", "an integer from 0 to 2^32 - 1", *INTEGER),
    ValueType("GGUF_TYPE_INT32", "i32", "i", "a signed 32-bit integer", "an integer from -2^31 to 2^31 - 1", *INTEGER),
    ValueType(
        "GGUF_TYPE_FLOAT32", "f32", "f", "a 32-bit float",
        "a number, rounded to 32 bits; beyond their range it becomes infinite",
        "a number", "is an integer beyond the range of a 64-bit float",
    ),
    ValueType("GGUF_TYPE_BOOL", "bool", "?", "a bool", "True or False, or any object with a truth value",
              "an object with a truth value"),
    ValueType("GGUF_TYPE_STRING", "str"),
    ValueType("GGUF_TYPE_ARRAY", "arr"),
    ValueType("GGUF_TYPE_UINT64", "u64", "Q", "an unsigned 64-bit integer", "an integer from 0 to 2^64 - 1", *INTEGER),
    ValueType("GGUF_TYPE_INT64", "i64", "q", "a signed 64-bit integer", "an integer from -2^63 to 2^63 - 1", *INTEGER),
    ValueType("GGUF_TYPE_FLOAT64", "f64", "d", "a 64-bit float", "a number", "a number",
              "is an integer beyond the range of a 64-bit float"),
)  # fmt: skip
assert [t.number for t in TYPES] == list(range(_constants.GGUF_TYPE_COUNT))
NAMES = tuple(t.name for t in TYPES)  # by number

GETTER = """Reads a key's value, {kind}.

    Args:
        ctx: GGUF context.
        key_id: index of the key, 0 to gguf_get_n_kv(ctx) - 1.
    Returns:
        The value ({python}). For an array of exactly one {name}, its item.
    Raises:
        TypeError: ctx is not a handle, or key_id is not an integer.
        ValueError: there is no key with this index, or its value is not of the type {constant}.
        RuntimeError: ctx was freed, or is not a GGUF context.
    """

SETTER = """Sets a key to {kind}.

    A key of that name is replaced. The key becomes the last one; the indices of the keys after its old place
    decrease by 1.

    Args:
        ctx: GGUF context.
        key: name of the key, as bytes or str: 1 to 65535 bytes of UTF-8 without a zero byte.
        val: {values}.
    Returns:
        None.
    Raises:
        TypeError: ctx is not a handle, key is neither bytes nor str, or val is not {needed}.
{value_error}
        RuntimeError: ctx was freed, or is not a GGUF context.
    """


def getter_text(t: ValueType) -> str:
    """The docstring of gguf_get_val_NAME."""
    python = type(struct.unpack(f"={t.code}", bytes(t.size))[0]).__name__
    return GETTER.format(kind=t.kind, python=python, name=t.name, constant=t.constant)


def setter_text(t: ValueType) -> str:
    """The docstring of gguf_set_val_NAME."""
    reasons = ["key is not valid", *([f"val {t.refused}"] if t.refused else [])]
    other = " and val is not a power of two up to 2^24" if t.name == "u32" else ", which must be of type u32"
    text = f'ValueError: {", ".join(reasons)}, or key is "general.alignment"{other}.'
    value_error = textwrap.fill(text, 120, initial_indent=" " * 8, subsequent_indent=" " * 12)
    return SETTER.format(kind=t.kind, values=t.values, needed=t.needed, value_error=value_error)
