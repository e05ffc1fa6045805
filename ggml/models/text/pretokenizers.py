"""How text is cut into words before byte-level BPE merges characters, by the name in `tokenizer.ggml.pre`.

A pre-tokenizer is a sequence of regular expressions in Oniguruma's syntax. Each one cuts the pieces of the one before
it into its matches and what lies between them; merges never cross a cut. Where llama.cpp reads an expression in another
way than the model's authors (it knows one class of letters, not upper and lower case ones), llama.cpp's way is used.
"""

from __future__ import annotations

from typing import NamedTuple


class PreTokenizer(NamedTuple):
    """The rules for one kind of byte-level BPE vocabulary."""

    patterns: tuple[str, ...]
    ignore_merges: bool = False  # a word that is a token is that token, without merging
    add_bos: bool = False  # unless the file says otherwise
    plain: bool = False  # merges characters, not bytes; spaces become U+2581
    thousands: str = ""  # the digits of numbers that are cut into groups of three from the right


_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CLIP_WORDS = r"'s|'t|'re|'ve|'m|'ll|'d|\p{L}+|\p{N}|[^\s\p{L}\p{N}]+"  # of words, what lies between them is no text
BYTE_LEVEL = _GPT2  # what the library's ByteLevel splits at
_CASED = r"'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]"  # English contractions
_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_PUNCTUATION = r" ?[^\s\p{L}\p{N}]+[\r\n]*"
_LETTERS = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_LLAMA3 = rf"{_CASED}|{_LETTERS}|\p{{N}}{{1,3}}|{_PUNCTUATION}|{_SPACES}"
_QWEN2 = rf"{_CASED}|{_LETTERS}|\p{{N}}|{_PUNCTUATION}|{_SPACES}"
_QWEN35 = rf"{_CASED}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{_SPACES}"
_CONTRACTION = f"(?:{_CASED})?"


def _camel(contractions: str, digits: str, letters: str = r"\p{L}") -> str:
    """Words end where lower case ASCII letters are followed by upper case ones."""
    start = r"[^\r\n\p{L}\p{N}]?"
    upper, lower = rf"(?:(?=[{letters}])[^a-z])", rf"(?:(?=[{letters}])[^A-Z])"  # not lower, not upper case in ASCII
    words = rf"{start}{upper}*{lower}+{contractions}|{start}{upper}+{lower}*{contractions}"
    return rf"{words}|{digits}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_SPACES}"


def _words(contractions: str, digits: str, letters: str = r"\p{L}\p{M}", end: str = r"[\r\n/]*") -> str:
    """Words of letters with the character before them and a contraction after them."""
    word = rf"[^\r\n\p{{L}}\p{{N}}]?[{letters}]+{contractions}"
    return rf"{word}|{digits}| ?[^\s\p{{L}}\p{{N}}]+{end}|{_SPACES}"


_TEKKEN = _camel("", r"\p{N}")
_GPT4O = _camel(_CONTRACTION, r"\p{N}{1,3}")
_GPT4O_MARKS = _camel(_CONTRACTION, r"\p{N}{1,3}", r"\p{L}\p{M}")
_ASCII_PUNCTUATION = r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]"
_WORDS_OR_SIGNS = rf"{_ASCII_PUNCTUATION}[A-Za-z]+|[^\r\n\p{{L}}\p{{P}}\p{{S}}]?[\p{{L}}\p{{M}}]+| ?[\p{{P}}\p{{S}}]+"
_IDEOGRAPHS = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
_CJK_AND_SIGNS = (
    "[\uac00-\ud7a3\u3131-\u318e]+|[\uff01\u2026\u201c\u201d\u2018\u2019\u2014\uff1a\uff1b\uff0c\u3001-\u303f"
    f"\ufe30-\ufe4f]+|[\u3105-\u312f]+|{_IDEOGRAPHS}"
)
_NO_SPACES_BETWEEN_WORDS = (  # scripts of East and South East Asia
    "[\u4e00-\u9fff\u3400-\u4dbf\uf900-\ufaff\u3040-\u30ff\uff65-\uff9f\u2f00-\u2fdf\u0e40-\u0eff\u1780-\u17ff"
    "\u1000-\u109f\uaa60-\uaa7f\ua9e0-\ua9ff\uac00-\ud7af\u1100-\u11ff]+"
)
# cuts after digits, so that those that follow are groups of three; what precedes a number stays with its first group
_AFTER_DIGITS = r"(?<=\p{N})(?=(?:\p{N}{3})*(?!\p{N}))"
_CJK = "[[\u0800-\u9fa5\uac00-\ud7ff]&&[^\\s]]+"  # llama.cpp replaces white space before it looks
_BLOOM = " ?[^(\\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+"
# the letters with case of the Latin, Greek, Cyrillic, Armenian, Georgian, Cherokee, Coptic and related scripts
_DEEPSEEK_LETTERS = (
    "A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-\u0373"
    "\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f"
    "\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77"
    "\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d"
    "\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb"
    "\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128"
    "\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4"
    "\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf"
    "\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3"
    "\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943"
)

_DEFAULT = PreTokenizer((r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", r"[0-9][0-9][0-9]"))
_DIGIT_BY_DIGIT = PreTokenizer((r"\p{N}", _GPT2))
_LLAMA_BPE = PreTokenizer((_LLAMA3,), ignore_merges=True, add_bos=True)
_DEEPSEEK_V3 = PreTokenizer((r"\p{N}{1,3}", _IDEOGRAPHS, rf"{_WORDS_OR_SIGNS}[\r\n]*|{_SPACES}"))
_GEMMA4 = PreTokenizer((r"[^\n]+|\n+",), ignore_merges=True, plain=True, add_bos=True)
# letters may be separated by single spaces
_EXAONE = (
    rf"{_CASED}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}\p{{M}}*(?: ?\p{{L}}\p{{M}}*)*|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]?"
    r"|\s*[\r\n]|\s+(?!\S)|\s+"
)
_SPACES_BY_POWERS = "|".join(rf"\s{{{2**n}}}(?!\S)" for n in range(9, 1, -1))
_JAIS = rf"{_CASED}|{_LETTERS}|\p{{N}}{{1,3}}|{_PUNCTUATION}|\s*[\r\n]+|{_SPACES_BY_POWERS}|\s{{1,2}}(?!\S)|\s"
_KIMI = r"\p{Han}+|" + _words(_CONTRACTION, r"\p{N}{1,3}", r"\p{L}&&[^\p{Han}]", r"[\r\n]*")
_BAILING = (
    rf"'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|{_LETTERS}|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*"
    r"|\s*[\r\n]|\s+(?!\S)|\s+"
)

_AFMOE = PreTokenizer(
    (_AFTER_DIGITS, _NO_SPACES_BETWEEN_WORDS, rf"{_WORDS_OR_SIGNS}[\r\n]*|{_SPACES}"), thousands=r"\p{N}"
)

_GROUPS: list[tuple[str, PreTokenizer]] = [
    ("default", _DEFAULT),
    ("llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano", _LLAMA_BPE),
    ("dbrx smaug-bpe chatglm-bpe", PreTokenizer((_LLAMA3,))),
    ("glm4 glm5", PreTokenizer((_LLAMA3,), ignore_merges=True)),
    (
        "deepseek-llm",
        PreTokenizer(
            (
                r"[\r\n]",
                rf"\s?[{_DEEPSEEK_LETTERS}]+",
                "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3001\u3002]+",
                r"\s+$",
                _CJK,
                r"\p{N}+",
            )
        ),
    ),
    ("deepseek-coder", PreTokenizer((r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _CJK, r"\p{N}"))),
    ("deepseek-v3 hunyuan-dense joyai-llm hy_v4", _DEEPSEEK_V3),
    ("falcon", PreTokenizer((r"[\p{P}\$\+<=>\^~\|`]+", _GPT2, r"[0-9][0-9][0-9]"))),
    ("starcoder refact command-r smollm codeshell exaone minerva-7b mellum2", _DIGIT_BY_DIGIT),
    (
        "gpt-2 phi-2 jina-es jina-de gigachat jina-v2-es jina-v2-de a.x-4.0 mellum modern-bert jina-v1-en jina-v2-code"
        " roberta-bpe mpt olmo jais trillion granite-docling exaone4",
        PreTokenizer((_GPT2,)),
    ),
    ("qwen2 deepseek-r1-qwen kormo f2llmv2 megrez stablelm2 hunyuan solar-open grok-2", PreTokenizer((_QWEN2,))),
    ("qwen35", PreTokenizer((_QWEN35,))),
    ("ufakzeka", PreTokenizer((rf"{_LETTERS}|\p{{N}}|{_PUNCTUATION}|{_SPACES}",))),
    ("laguna", PreTokenizer((r"[^\n]+|\n+", _QWEN2))),
    ("minicpm5", PreTokenizer((r"\p{N}{1,3}", _LLAMA3.replace("{1,3}", "+")), ignore_merges=True)),
    (
        "seed-coder",
        PreTokenizer((rf"{_CASED}|{_LETTERS}|\p{{N}}| ?[^\s\p{{L}}\p{{N}}\r\n]+|{_SPACES}",)),
    ),
    ("bailingmoe bailingmoe2 llada-moe", PreTokenizer((_BAILING,))),
    ("poro-chat bloom gpt3-finnish", PreTokenizer((_BLOOM,))),
    ("viking", PreTokenizer((_BLOOM, r"\p{N}"))),
    ("tekken", PreTokenizer((_TEKKEN,), ignore_merges=True, add_bos=True)),
    ("gpt-4o llama4 kanana2 talkie minimax-m2", PreTokenizer((_GPT4O,))),
    ("superbpe", PreTokenizer((r"\p{N}+", r"(?=([0-9]{3})+(?![0-9]))"), thousands="[0-9]")),
    ("gemma4 granite-embed-multi-311m", _GEMMA4),
    ("granite-embed-multi-97m", PreTokenizer((_GPT4O_MARKS,), ignore_merges=True)),
    ("youtu", PreTokenizer((_CJK_AND_SIGNS, _words(_CONTRACTION, r"\p{N}")), ignore_merges=True)),
    ("tiny_aya cohere2moe", PreTokenizer((_AFTER_DIGITS, _words(_CONTRACTION, r"\p{N}{1,3}")), thousands=r"\p{N}")),
    ("afmoe", _AFMOE),
    ("exaone-moe", PreTokenizer((_EXAONE,))),
    ("jais-2", PreTokenizer((_JAIS,))),
    ("kimi-k2", PreTokenizer((_KIMI,))),
    ("sarvam-moe", PreTokenizer((r"[^\n]+|\n+",), plain=True)),
]
PRE_TOKENIZERS = {name: rules for names, rules in _GROUPS for name in names.split()}

_CASES = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"\p{Ll}\p{Lm}\p{Lo}\p{M}"


def contractions(pattern: str) -> str:
    """A pattern with English contractions of either case, and escapes, as they are written above."""
    insensitive = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
    alone = pattern.startswith(insensitive + "|")
    pattern = pattern.replace(insensitive, _CASED if alone else f"(?:{_CASED})")
    return pattern.replace('[!"#', r"[!\"#").replace("\r", r"\r").replace("\n", r"\n")


def _cased_words(end: str, digits: str) -> str:
    """Words that end where lower case letters of any script are followed by upper case ones."""
    start, (upper, lower) = r"[^\r\n\p{L}\p{N}]?", _CASES
    words = f"{start}[{upper}]*[{lower}]+{end}|{start}[{upper}]+[{lower}]*{end}"
    return rf"{words}|{digits}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_SPACES}"


# Patterns of the models' authors that llama.cpp reads in its own way
ORIGINALS: dict[tuple[str, ...], str] = {
    (_cased_words("", r"\p{N}"),): "tekken",
    (_cased_words(_CONTRACTION, r"\p{N}{1,3}"),): "gpt-4o",
    ("<punctuation> Contiguous", _GPT2, r"\p{N}+", r"[0-9][0-9][0-9]"): "default",
    ("<punctuation> Contiguous", _GPT2, r"[0-9][0-9][0-9]"): "falcon",
}
