"""Operations whose function is a Python callable. Here it computes a * a, or a * b, or a * b + c."""

import numpy as np

import ggml

from . import Op
from .harness import elements, shape


def product(x):
    """The function of the operands: x is a list of one to three arrays."""
    return x[0] * x[min(1, len(x) - 1)] + (x[2] if len(x) > 2 else 0)


def compute_part(dst, *args):
    """The callback of every row: task ith of nth computes every nth element along the innermost dimension.

    `ggml_map_custom*` pass the operands to the callback. `ggml_custom_*` pass only dst, which refers to its operands.
    """
    *operands, ith, nth, _ = args
    operands = operands or [t for t in dst.contents.src if t]
    part = (..., slice(ith, None, nth))
    elements(dst)[part] = product([elements(t)[part] for t in operands])


def counting(ne, first):
    """The numbers from `first` on, as an array of a tensor of size ne."""
    return first + np.arange(np.prod(ne), dtype=float).reshape(ne[::-1])


def count_part(dst, ith, nth, userdata):
    """A callback without operands."""
    elements(dst)[..., ith::nth] = counting(shape(dst), userdata)[..., ith::nth]


COMPILED = ggml.ggml_custom_op_t(count_part)  # stands for compiled code: it takes the GIL itself


def map_custom_row(n):
    """A row of the constructor of n operands, one of which is the target of the in-place form."""

    def sample(*ne, tasks=2):
        return lambda r: [*(r(*ne) for _ in range(n)), compute_part, tasks, None]

    return Op(
        f"map_custom{n}",
        lambda *args: product(args[:n]),
        (sample(7, 3, 2), sample(67, 5, 3, 2), sample(9, 4, tasks=ggml.GGML_N_TASKS_MAX), sample(5, 0)),
        inplace=f"map_custom{n}_inplace",
        types=("F32",),
        bad=(
            (lambda r: [*(r(3) for _ in range(n)), 1.5, 1, None], TypeError, "fun is 1.5"),
            (lambda r: [*(r(3) for _ in range(n)), compute_part, "1", None], TypeError, "n_tasks is '1'"),
        ),
    )


OPS = [
    *(map_custom_row(n) for n in (1, 2, 3)),
    Op(
        "custom_4d",
        lambda type, *args: counting(args[:4], args[-1]),
        (lambda r: [ggml.GGML_TYPE_F32, 7, 3, 2, 2, None, 0, count_part, 2, 5],),
        types=("F32",),
        tol=0,
        bad=(
            (lambda r: [ggml.GGML_TYPE_F32, 7, 3, 2, 2, None, 11, count_part, 2, 5], ValueError, "n_args is 11"),
            (lambda r: [ggml.GGML_TYPE_F32, 7, -3, 2, 2, None, 0, count_part, 2, 5], ValueError, "ne1 is -3"),
        ),
    ),
    Op(
        "ext.compiled",
        lambda type, *args: counting(args[:4], args[-1]),
        tuple(
            lambda r, n=n: [ggml.GGML_TYPE_F32, 7, 3, 2, 2, None, 0, COMPILED, n, 5]
            for n in (1, 2, ggml.GGML_N_TASKS_MAX)
        ),
        types=("F32",),
        tol=0,
        bad=(
            (lambda r: [ggml.GGML_TYPE_F32, 7, 3, 2, 2, None, 0, COMPILED, 0, 5], ValueError, "n_tasks is 0"),
            (lambda r: [ggml.GGML_TYPE_F32, 7, 3, 2, 2, None, 0, None, 2, 5], ValueError, "fun is NULL"),
        ),
    ),
    Op(
        "custom_inplace",
        lambda a, *_: a * a,
        (lambda r: [r(7, 3, 2), None, 0, compute_part, 2, None], lambda r: [r(67, 5), None, 0, compute_part, 3, None]),
        types=("F32",),
        aliased=True,
        bad=((lambda r: [r(7), None, -1, compute_part, 1, None], ValueError, "n_args is -1"),),
    ),
]
