"""Text: normalising, splitting and counting."""

from __future__ import annotations

import math
import re

import numpy as np

from ..._extras import require
from ..texts import Tokens, count
from . import operator
from .columns import vector
from .labels import Table, strings

# Single characters, of which the last one may be repeated: Python's `re` finds these in linear time, too.
CHARACTER = r"(?:\[(?:[^\]\[\\]|\\.)+\]|\\[wds]|\w)"
SIMPLE = re.compile(rf"{CHARACTER}*{CHARACTER}\+?")
REPEATED = re.compile(rf"{CHARACTER}\+")


def expression(text, whole=False):
    """A regular expression of a model, which RE2 matches in linear time; Python's `re` may take exponential.

    Args:
        text: the expression.
        whole: whether it must match as a whole, not be found.
    """
    if not whole and SIMPLE.fullmatch(text):
        return re.compile(text, re.ASCII)  # as in RE2, \w are letters of ASCII
    require("", ["re2"], "google-re2")
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(text, options)
    except re2.error as error:
        raise ValueError(f"the pattern is {text[:60]!r}: {str(error)[:200]}") from None


def members_of(text):
    """For each character of ASCII whether it is in the class of an expression that is a class, repeated; else None."""
    if not REPEATED.fullmatch(text):
        return None
    one = re.compile(text[:-1], re.ASCII)
    return bytes(one.fullmatch(chr(c)) is not None for c in range(128))


def separating(text):
    """A function that divides a string where a regular expression matches; between all characters for an empty one."""
    if text == "":
        return list
    if re.escape(text) == text or text.isspace():  # nothing but itself
        return lambda part: part.split(text)
    pattern = expression(text)

    def divide(part):
        ends = [0, *(end for m in pattern.finditer(part) for end in m.span()), len(part)]
        return [part[a:b] for a, b in zip(ends[::2], ends[1::2])]

    return divide


def tokenized(text, pattern, dividing):
    """The tokens of a text: what matches the pattern, or what lies between separators."""
    if pattern is not None:
        return pattern.findall(text) if not pattern.groups else [m.group() for m in pattern.finditer(text)]
    parts = [text]
    for divide in dividing:
        parts = [piece for part in parts for piece in divide(part)]
    return parts


@operator("RegexFullMatch", "")
def regex_full_match(node):
    """Whether each text matches a pattern as a whole."""
    pattern = expression(node.attr("pattern") or "", whole=True)

    def function(x):
        if x.dtype.kind not in "UO":
            raise TypeError(f"x is {x.dtype}: need texts")
        found = [pattern.fullmatch(str(text)) is not None for text in x.reshape(-1)]
        return np.array(found, bool).reshape(x.shape)

    return function


@operator("StringNormalizer", "")
def string_normalizer(node):
    """Texts in one case, without stop words; one empty text where none is left."""
    change = {"LOWER": str.lower, "UPPER": str.upper}.get(node.attr("case_change_action", "NONE"))
    compared = str if node.attr("is_case_sensitive", 0) else str.lower
    stops = {compared(word) for word in strings(node.attr("stopwords") or []).tolist()}

    def function(x):
        texts, shape = x.ravel().tolist(), x.shape
        if stops:
            if len(shape) not in (1, 2) or len(shape) == 2 and shape[0] != 1:
                raise ValueError(f"the texts are {list(shape)}: without stop words they can be [n] or [1, n]")
            texts = [t for t in texts if compared(t) not in stops] or [""] * bool(texts)
            shape = (*shape[:-1], len(texts))
        out = np.empty(len(texts), object)
        out[:] = list(map(change, texts)) if change else texts
        return out.reshape(shape)

    return function


@operator("StringSplit", "")
def string_split(node):
    """The parts of each text along one more axis, filled up with empty texts, and their numbers."""
    how = node.attr("delimiter") or None, node.attr("maxsplit", -1)

    def function(x):
        parts = [str(text).split(*how) for text in x.ravel().tolist()]
        counts = list(map(len, parts))
        most = max(counts, default=0)
        found = np.empty(len(parts) * most, object)
        found[:] = [text for p, n in zip(parts, counts) for text in (p if n == most else p + [""] * (most - n))]
        return found.reshape(*x.shape, most), np.array(counts, np.int64).reshape(x.shape)

    return function


@operator("StringConcat", "")
def string_concat(node):
    def function(x, y):
        if x.dtype.kind not in "UO" or y.dtype.kind not in "UO":
            raise TypeError(f"x is {x.dtype}, y is {y.dtype}: need texts")
        return np.add(x.astype(object), y.astype(object))

    return function


@operator("Tokenizer", "com.microsoft")
def tokenizer(node):
    """An array of one more dimension with the tokens of each string, filled up with a value."""
    ends, least = ([["\x02"], ["\x03"]] if node.attr("mark", 0) else [[], []]), node.attr("mincharnum", 1)
    pattern, separators = node.attr("tokenexp"), node.attr("separators")
    if (pattern is None) == (separators is None):
        raise ValueError("need one of tokenexp and separators")
    dividing = [separating(s) for s in separators or ()]
    if pattern == ".":
        pattern, dividing = None, [lambda part: list(part.replace("\n", ""))]
    elif pattern is not None:
        pattern = expression(pattern)
    members = members_of(node.attr("tokenexp") or "")

    def split(text):
        return [t for t in tokenized(text, pattern, dividing) if t and len(t) >= least]

    return Tokens(split, members, least, ends, node.attr("pad_value", ""))


class Grams:
    """Counts the n-grams of one length in rows of words.

    Args:
        grams: (count, n): the numbers of words.
        columns: of each n-gram.
        words: the number of all words.
    """

    def __init__(self, grams, columns, words):
        self.words, self.steps, code = words, [], grams[:, 0]
        for word in grams.T[1:]:  # a beginning and one more word have a number among all such pairs
            keys, code = np.unique(code * words + word, return_inverse=True)
            self.steps.append(keys)
        self.columns = np.full(len(self.steps[-1]) if self.steps else words, -1, np.int64)
        self.columns[code] = columns

    def count(self, rows, out, gap):
        """Adds 1 to a row of out, in the column of the n-gram, for each one that a row has, words a gap apart."""
        count(out, rows, self.steps, self.columns, self.words, gap)


@operator("TfIdfVectorizer", "")
def tf_idf_vectorizer(node):
    """Counts of the n-grams of a pool in each row: as they are, or as 0 and 1, or with weights."""
    texts = node.attr("pool_strings")
    pool = strings(texts) if texts else np.asarray(node.attr("pool_int64s") or [], np.int64)
    counts, columns = node.attr("ngram_counts"), np.asarray(node.attr("ngram_indexes"), np.int64)
    low, high, skips = (node.attr(n) for n in ("min_gram_length", "max_gram_length", "max_skip_count"))
    weights, mode, words = vector(node, "weights"), node.attr("mode"), Table(np.unique(pool))
    ends, found, done = [*counts, len(pool)], words.find(pool).astype(np.int64), 0
    grams = {}
    for n, (begin, end) in enumerate(zip(ends, ends[1:]), 1):
        size = (end - begin) // n
        if size < 0 or (end - begin) % n or done + size > len(columns):
            raise ValueError(f"ngram_counts are {counts}, ngram_indexes are {len(columns)}, for {len(pool)} words")
        if size and low <= n <= high:
            grams[n] = Grams(found[begin:end].reshape(size, n), columns[done : done + size], len(words))
        done += size
    if weights is not None and len(weights) != len(columns) or len(columns) and columns.min() < 0:
        raise ValueError(f"{0 if weights is None else len(weights)} weights for {len(columns)} columns")
    width = int(columns.max(initial=-1)) + 1
    factors = np.ones(width, np.float32)
    if weights is not None and mode != "TF":
        factors[columns] = weights

    def function(x):
        rows = x if x.ndim == 2 else x.reshape(math.prod(x.shape[:-1]), x.shape[-1] if x.ndim else 1)
        rows = np.ascontiguousarray(words.find(rows), np.int64)
        out = np.zeros((len(rows), width), np.float32)
        for n, table in grams.items():
            for gap in range(1, skips + 2 if n > 1 else 2):
                table.count(rows, out, gap)
        if mode == "IDF":
            np.minimum(out, 1, out=out)
        out = out if mode == "TF" else np.multiply(out, factors, out=out)
        return out if x.ndim == 2 else out.reshape(*x.shape[:-1], width)

    return function
