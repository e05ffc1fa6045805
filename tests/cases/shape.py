"""Copies, views, repetition and concatenation: operations that move elements and compute nothing."""

import numpy as np

from . import As, Op
from .harness import from_bf16, to_bf16, type_id
from .samples import sized, tiled, with_numbers

SIZES = sized()


def permute(x, *axes):
    """The reference of ggml_permute: dimension i of the operand becomes dimension axes[i] of the result."""
    source = [0] * 4
    for i, axis in enumerate(axes):
        source[3 - axis] = 3 - i
    return x.transpose(source)


def strided_view(x, *where):
    """The elements of a view of contiguous f32 memory, given by ne, the strides from nb[1] on, and the offset."""
    n = len(where) // 2
    ne, nb, offset = where[:n], where[n:-1], where[-1]
    flat = np.ascontiguousarray(x).ravel()[offset // 4 :]
    return np.lib.stride_tricks.as_strided(flat, ne[::-1], (8, *(2 * step for step in nb))[::-1]).copy()


def into_view(f):
    """A reference of ggml_set and ggml_acc: f(old, b) replaces the elements of a view of a. Its byte strides are nb1 to
    nb3, and it begins at an offset; both operands are f32.
    """

    def ref(a, b, *where):
        nb1, nb2, nb3, offset = {4: where, 2: (where[0], 0, 0, where[-1]), 1: (0, 0, 0, where[-1])}[len(where)]
        flat = a.copy().ravel()
        i3, i2, i1, i0 = np.indices(b.shape)
        at = (i0 * 4 + i1 * nb1 + i2 * nb2 + i3 * nb3 + offset) // 4
        flat[at] = f(flat[at], b)
        return flat.reshape(a.shape)

    return ref


PLACES = (
    lambda r: [r(20, 10), r(5, 4), 80, 800, 800, 3 * 4 + 2 * 80],
    lambda r: [r(7, 6, 3, 2), r(3, 2, 2, 2), 28, 168, 504, 4 + 28],
    lambda r: [r(1031, 97), r(515, 48), 2 * 4124, 0, 0, 8],
)
OUTSIDE = (
    (lambda r: [r(20, 10), r(5, 4), 80, 800, 800, 720], ValueError, "ends beyond"),
    (lambda r: [r(20, 10), r(5, 4), 80, 800, 800, -4], ValueError, "offset is -4"),
    (lambda r: [r(20, 10), r(5, 4), 80, 800, 800, 1 << 40], ValueError, "offset"),
)


def concat(dim):
    """A row of ggml_concat along one dimension."""

    def make(*ne):
        other = list(ne)
        other[dim] += 2
        return lambda r: [r(*ne), r(*other), dim]

    return Op(
        "concat",
        lambda a, b, d: np.concatenate([a, b], 3 - d),
        (make(7, 3, 2, 2), make(67, 5, 3, 2), make(515, 97, 2, 1), make(0, 3, 2, 1)),
        diff=(0, 1),
        bad=(
            (lambda r: [r(7, 3), r(6, 4), dim], ValueError, "a is f32 [7, 3], b is f32 [6, 4]"),
            (lambda r: [r(7), As("F16", r(7)), dim], ValueError, "types must be equal"),
            (lambda r: [r(7), r(7), 4], ValueError, "dim is 4"),
            (lambda r: [r(7), r(7), -1], ValueError, "dim is -1"),
        ),
        name=f"concat_{dim}",
    )


def cast(to):
    """A row of ggml_cast to a type. The reference rounds to that type."""

    def ref(x, _):
        if to == "BF16":
            return from_bf16(to_bf16(x)).astype(np.float64)
        if to.startswith("I"):
            return np.trunc(x).astype(np.int64)
        return x.astype({"F32": "f4", "F16": "f2"}[to]).astype(np.float64)

    return Op(
        "cast",
        ref,
        with_numbers(sized(scale=20.0), type_id(to)),
        diff=() if to == "I32" else (0,),
        smooth=lambda x, _: x,
        tol=0,
        name=f"cast_{to}",
    )


OPS = [
    Op("dup", lambda x: x, SIZES, diff=(0,), inplace="dup_inplace", tol=0),
    Op("cont", lambda x: x, SIZES, diff=(0,), tol=0),
    Op(
        "cont_2d",
        lambda x, a, b: x.reshape(b, a),
        (
            lambda r: [r(6, 4), 8, 3],
            lambda r: [r(7, 3, 2), 6, 7],
            lambda r: [r(515, 98), 1030, 49],
            lambda r: [r(0, 3), 5, 0],
        ),
        diff=(0,),
        tol=0,
        bad=((lambda r: [r(6, 4), 5, 5], ValueError, "elements"),),
    ),
    *(cast(to) for to in ("F32", "F16", "BF16", "I32")),
    Op(
        "cpy",
        lambda a, b: a.reshape(b.shape),
        (
            lambda r: [r(6, 4, 2), As("F32", r(6, 4, 2))],
            lambda r: [r(6, 4, 2), As("F32", r(12, 2, 2))],
            lambda r: [r(1031, 97), As("F32", r(1031, 97))],
        ),
        diff=(0,),
        aliased=True,
        tol=0,
        bad=((lambda r: [r(6, 4), r(6, 5)], ValueError, "as many elements"),),
    ),
    Op(
        "reshape",
        lambda a, b: a.reshape(b.shape),
        (lambda r: [r(6, 4, 2), r(8, 6)], lambda r: [r(0, 4), r(5, 0)]),
        diff=(0,),
        strided=(),
        aliased=True,
        tol=0,
        bad=((lambda r: [r(6, 4), r(5, 5)], ValueError, "elements"),),
    ),
    *(
        Op(
            f"reshape_{len(ne)}d",
            lambda a, *ne: a.reshape(ne[::-1]),
            (lambda r, ne=ne: [r(6, 4, 5, 2), *ne], lambda r, ne=ne: [r(6, 0), *ne[:-1], 0]),
            diff=(0,),
            strided=(),
            aliased=True,
            tol=0,
            bad=((lambda r, ne=ne: [r(7, 4, 5, 2), *ne], ValueError, "elements"),),
        )
        for ne in ((240,), (30, 8), (10, 12, 2), (2, 3, 4, 10))
    ),
    Op(
        "transpose",
        lambda a: a.swapaxes(-1, -2),
        (lambda r: [r(7, 3, 2)], lambda r: [r(67, 33)], lambda r: [r(0, 3)]),
        diff=(0,),
        aliased=True,
        tol=0,
    ),
    Op(
        "permute",
        permute,
        (
            lambda r: [r(7, 3, 2, 2), 2, 0, 3, 1],
            lambda r: [r(5, 3, 2), 0, 2, 1, 3],
            lambda r: [r(5, 4, 3, 2), 3, 2, 1, 0],
        ),
        diff=(0,),
        aliased=True,
        tol=0,
        bad=(
            (lambda r: [r(7, 3), 0, 0, 1, 2], ValueError, "need 0 to 3, each once"),
            (lambda r: [r(7, 3), 0, 1, 2, 4], ValueError, "need 0 to 3, each once"),
            (lambda r: [r(7, 3), 0, 1, 2, -1], ValueError, "need 0 to 3, each once"),
        ),
    ),
    Op(
        "view_1d",
        strided_view,
        (lambda r: [r(7, 4), 9, 20], lambda r: [r(7, 0), 0, 0]),
        diff=(0,),
        types=("F32",),
        strided=(),
        aliased=True,
        tol=0,
        bad=(
            (lambda r: [r(7, 4), 24, 20], ValueError, "at offset 20 ends beyond it"),
            (lambda r: [r(7, 4), 9, 1 << 62], ValueError, "ends beyond it"),
            (lambda r: [r(7, 4), -1, 0], ValueError, "ne0 is -1"),
        ),
    ),
    Op(
        "view_2d",
        strided_view,
        (lambda r: [r(7, 5), 3, 4, 28, 8], lambda r: [r(7, 0), 3, 0, 28, 0]),
        diff=(0,),
        types=("F32",),
        strided=(),
        aliased=True,
        tol=0,
        bad=((lambda r: [r(7, 4), 7, 5, 28, 0], ValueError, "at offset 0 ends beyond it"),),
    ),
    Op(
        "view_3d",
        strided_view,
        (lambda r: [r(7, 2, 3), 3, 2, 2, 28, 56, 4], lambda r: [r(7, 2, 0), 3, 2, 0, 28, 56, 0]),
        diff=(0,),
        types=("F32",),
        strided=(),
        aliased=True,
        tol=0,
    ),
    Op(
        "view_4d",
        strided_view,
        (lambda r: [r(7, 2, 2, 3), 3, 2, 2, 2, 28, 56, 112, 4], lambda r: [r(0, 2, 2, 3), 0, 2, 2, 3, 0, 0, 0, 0]),
        diff=(0,),
        types=("F32",),
        strided=(),
        aliased=True,
        tol=0,
    ),
    Op(
        "repeat",
        lambda a, b: tiled(a, b),
        (
            lambda r: [r(7, 2, 1, 2), r(14, 6, 3, 2)],
            lambda r: [r(1, 97), r(1031, 97)],
            lambda r: [r(67, 3), r(134, 9, 5, 2)],
        ),
        diff=(0,),
        tol=0,
        bad=(
            (lambda r: [r(7, 3), r(8, 3)], ValueError, "a is f32 [7, 3]"),
            (lambda r: [r(7, 0), r(7, 3)], ValueError, "a is f32 [7, 0]"),
        ),
    ),
    Op(
        "repeat_4d",
        lambda a, *ne: tiled(a, np.empty(ne[::-1])),
        (lambda r: [r(5, 3), 10, 6, 2, 2], lambda r: [r(5, 0), 10, 0, 2, 2]),
        diff=(0,),
        tol=0,
        bad=((lambda r: [r(7, 3), 8, 3, 1, 1], ValueError, "a is f32 [7, 3]"),),
    ),
    *(concat(dim) for dim in range(4)),
    Op("acc", into_view(np.add), PLACES, diff=(0, 1), types=("F32",), inplace="acc_inplace", strided=(1,), bad=OUTSIDE),
    Op(
        "set",
        into_view(lambda a, b: b),
        PLACES,
        diff=(0, 1),
        types=("F32",),
        inplace="set_inplace",
        strided=(1,),
        bad=OUTSIDE,
        tol=0,
    ),
    Op(
        "set_1d",
        into_view(lambda a, b: b),
        (lambda r: [r(30), r(7), 16],),
        diff=(0, 1),
        types=("F32",),
        inplace="set_1d_inplace",
        strided=(1,),
        tol=0,
    ),
    Op(
        "set_2d",
        into_view(lambda a, b: b),
        (lambda r: [r(20, 10), r(5, 4), 80, 84],),
        diff=(0, 1),
        types=("F32",),
        inplace="set_2d_inplace",
        strided=(1,),
        tol=0,
    ),
]
