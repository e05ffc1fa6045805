"""Categories, labels and maps."""

from __future__ import annotations

import functools

import numpy as np

from ..texts import OneHot, looked_up, zipped
from . import operator
from .columns import vector

F32 = np.dtype(np.float32)
FEW = 8  # keys that are compared with all elements in less time than these are looked up
TYPES = {"strings": np.dtype(object), "int64s": np.dtype(np.int64), "floats": np.dtype(np.float32)}


def strings(values):
    """An array of str."""
    out = np.empty(len(values), object)
    out[:] = [v.decode("utf-8", "replace") if isinstance(v, bytes) else v for v in values]
    return out


class Table:
    """Looks up numbers or strings in a list of keys.

    Args:
        keys: array of keys; of equal ones the last counts, and NaN is a key like others.
    """

    def __init__(self, keys):
        self.places = None
        if keys.dtype.kind in "OUS":
            self.places = {k: i for i, k in enumerate(keys.tolist())}
        else:
            self.order = np.argsort(keys, kind="stable")
            self.keys = keys[self.order]
        self.count = len(keys)

    def __len__(self):
        return self.count

    def find(self, x):
        """For each element the place of its key in the list, or -1."""
        if self.places is not None:
            return looked_up(self.places, -1, x)
        if not len(self.keys):
            return np.full(x.shape, -1)
        at = np.maximum(np.searchsorted(self.keys, x, "right") - 1, 0)
        found = self.keys[at]
        return np.where((found == x) | (found != found) & (x != x), self.order[at], -1)


def compared(keys, values, default, x):
    """The values for elements, each of which is compared with all keys; of equal ones the last counts."""
    y = np.full(x.shape, default, values.dtype)
    for key, value in zip(keys, values):
        np.putmask(y, x == key if key == key else x != x, value)
    return y


def mapping(keys, values, default):
    """A function that replaces keys by values, and all else by a default, a scalar of the type of values."""
    if keys.dtype.kind in "OUS" and values.dtype == np.int64:
        found = dict(zip(keys.tolist(), values.tolist()))
        return functools.partial(looked_up, found, default)
    if len(keys) <= FEW and keys.dtype.kind in "if" and values.dtype.kind in "if":
        return functools.partial(compared, keys, values, default)
    table, values = Table(keys), np.append(values, np.asarray([default], values.dtype))
    return lambda x: values[table.find(x)]


def listed(node, kind):
    """The keys or values of a LabelEncoder."""
    tensor = node.attr(f"{kind}_tensor")
    if tensor is not None:
        return strings(tensor.ravel().tolist()) if tensor.dtype.kind in "OUS" else tensor.ravel()
    for name, dtype in TYPES.items():
        value = node.attr(f"{kind}_{name}")
        if value is not None:
            return np.asarray(value, dtype)
    raise ValueError(f"need {kind}")


def encoding(node):
    """The keys, the values and the default of a LabelEncoder of version 2 or later."""
    keys, values = listed(node, "keys"), listed(node, "values")
    if len(keys) != len(values):
        raise ValueError(f"{len(keys)} keys for {len(values)} values")
    default = node.attr("default_tensor")
    if default is not None:
        default = default.reshape(-1)[0]
    elif values.dtype == object:
        default = node.attr("default_string", "_Unused")
    else:
        default = node.attr("default_int64", -1) if values.dtype.kind == "i" else node.attr("default_float", -0.0)
    return keys, values, default


@operator("LabelEncoder")
def label_encoder(node):
    if node.version < 2:
        return string_or_index(node, node.attr("classes_strings") or [], None)
    return mapping(*encoding(node))


@operator("CategoryMapper")
def category_mapper(node):
    return string_or_index(node, node.attr("cats_strings") or [], node.attr("cats_int64s"))


def string_or_index(node, names, numbers):
    """Strings to numbers (their places, if None) or back, by the type of the operand."""
    names = strings(names)
    numbers = np.arange(len(names)) if numbers is None else np.asarray(numbers, np.int64)
    forward = mapping(names, numbers, node.attr("default_int64", -1))
    back = mapping(numbers, names, node.attr("default_string", "_Unused"))
    return lambda x: (forward if x.dtype.kind in "OUS" else back)(x)


@operator("OneHotEncoder")
def one_hot_encoder(node):
    names, numbers = node.attr("cats_strings"), node.attr("cats_int64s")
    keys = strings(names) if names else np.asarray(numbers or [], np.int64)
    table, strict = Table(keys), not node.attr("zeros", 1)
    if names:
        return OneHot(table.places, len(keys), strict)
    rows = np.eye(len(keys) + 1, len(keys), dtype=np.float32)

    def function(x):
        place = table.find(x.astype(np.int64))
        if strict and (place < 0).any():
            raise ValueError(f"{x.ravel()[place.ravel() < 0][0]!r} is none of the categories")
        return rows[place]

    return function


# ---- maps: dicts, in lists for several rows --------------------------------------------------------------------------
@operator("ZipMap")
def zip_map(node):
    """A list with a dict for each row of x: numbers by the labels of the classes."""
    labels = tuple(node.attr("classlabels_int64s") or node.attr("classlabels_strings") or [])

    def function(x):
        if x.ndim > 2 or x.shape[-1] != len(labels):
            raise ValueError(f"{len(labels)} labels for an array of {list(x.shape)}")
        x = x if x.ndim == 2 else np.atleast_2d(x)
        quick = x.dtype == F32 and x.flags.c_contiguous and labels
        return zipped(labels, x) if quick else [dict(zip(labels, row)) for row in x.tolist()]

    return function


def rows_of(maps):
    """The dicts of a map, or of a sequence of maps."""
    return [maps] if isinstance(maps, dict) else list(maps)


@operator("DictVectorizer")
def dict_vectorizer(node):
    names = node.attr("string_vocabulary") or node.attr("int64_vocabulary") or []

    def function(maps):
        rows = rows_of(maps)
        some = next((v for row in rows for v in row.values()), 0.0)
        blank = "" if isinstance(some, str) else type(some)(0)
        table = [[row.get(name, blank) for name in names] for row in rows]
        dtype = (
            object
            if isinstance(some, str)
            else getattr(some, "dtype", np.int64 if isinstance(some, int) else np.float32)
        )
        return np.array(table, dtype)

    return function


@operator("CastMap")
def cast_map(node):
    kind, sparse = node.attr("cast_to", "TO_FLOAT"), node.attr("map_form", "DENSE") == "SPARSE"
    most = node.attr("max_map", 1)
    cast, dtype, blank = {
        "TO_FLOAT": (float, np.float32, 0.0),
        "TO_INT64": (int, np.int64, 0),
        "TO_STRING": (str, object, ""),
    }[kind]

    def function(maps):
        rows = []
        for row in rows_of(maps):
            items = sorted(row.items())
            values = dict(items) if sparse else dict(enumerate(v for _, v in items))
            n = most if sparse else len(values)
            rows.append([cast(values[i]) if i in values else blank for i in range(n)])
        return np.array(rows, dtype)

    return function


# ---- what classifiers return -----------------------------------------------------------------------------------------
def labels_of(node):
    """The labels of a classifier's classes as an array; None if it names none."""
    names = node.attr("classlabels_strings")
    numbers = vector(node, "classlabels_ints", "classlabels_int64s")
    return strings(names) if names else None if numbers is None else numbers.astype(np.int64)


@operator("Labels", "ggml")
def labels_by_number(node):
    """The texts that stand for the numbers of classes (prepare.labels_apart)."""
    names = strings(node.attr("names"))
    return lambda place: names[place]


def chosen(labels, place):
    """The labels at places; the places themselves if there are no labels."""
    return place.astype(np.int64) if labels is None else labels[place]
