"""Comparisons whose results are bytes, and selection."""

import numpy as np

from . import As, Op
from .elementwise import MIXED, PAIRS, with_nan
from .samples import tiled

RELATIONS = {
    "==": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "and": np.logical_and,
    "or": np.logical_or,
}


def related(a, b, relation):
    return RELATIONS[relation](a, tiled(b, a))


def small(r, *ne):
    """Numbers that are often 0 and often equal."""
    return r.ints(3, *ne).astype(float)


def truth(r, *ne):
    """Bytes that are 0 where something is false, other numbers where it is true."""
    return As("I8", r.ints(3, *ne).astype(float))


def samples_of(relation):
    """Pairs of all kinds of repetition, equal numbers, numbers that are none, and bytes."""
    return (
        *(lambda r, pair=pair: [*pair(r), relation] for pair in PAIRS),
        lambda r: [*with_nan(r), relation],
        lambda r: [small(r, 67, 5), small(r, 67, 5), relation],
        lambda r: [truth(r, 1031, 3), truth(r, 1031, 1), relation],
        lambda r: [small(r, 9, 7), truth(r, 1), relation],
    )


def chosen(condition, a, b):
    """The reference of selection."""
    return np.where(condition != 0, a, b)


OPS = [
    *(
        Op(
            "ext.compare",
            related,
            samples_of(relation),
            types=MIXED,
            name=f"compare {relation}",
            bad=(
                (lambda r: [r(7, 3), r(7, 2), "<"], ValueError, "a is f32 [7, 3], b is f32 [7, 2]"),
                (lambda r: [r(7, 3), r.ints(4, 7, 3), "<"], ValueError, "b is i32"),
                (lambda r: [r(7, 3), r(7, 3), "=<"], ValueError, "relation is '=<': need one of '==', '!='"),
                (lambda r: [r(7, 3), r(7, 3), 2], TypeError, "relation is 2"),
            )
            if relation == "<"
            else (),
        )
        for relation in RELATIONS
    ),
    Op(
        "ext.select",
        chosen,
        (
            lambda r: [truth(r, 7, 3, 2), r(7, 3, 2), r(7, 3, 2)],
            lambda r: [truth(r, 7, 1, 2), r(1, 3), r(7, 3, 1)],
            lambda r: [truth(r, 1, 3), r(7, 1, 2), r(1)],
            lambda r: [truth(r, 1031, 97), r(1031, 97), r(1)],
            lambda r: [truth(r, 1029, 1, 3), r(1), r(1029, 9, 3)],
            lambda r: [truth(r, 3, 0), r(3, 1), r(1)],
        ),
        diff=(1, 2),
        types=MIXED[:3],
        bad=(
            (lambda r: [truth(r, 7, 3), r(7, 2), r(7, 3)], ValueError, "result is f32 [7, 3], b is f32 [7, 2]"),
            (lambda r: [r.ints(2, 7, 3), r(7, 3), r(7, 3)], ValueError, "a is i32"),
            (lambda r: [truth(r, 7, 3), r(7, 3), r.ints(2, 7, 3)], ValueError, "c is i32"),
        ),
    ),
    Op(
        "ext.select",
        chosen,
        (
            lambda r: [with_nan(r)[0], *with_nan(r)],
            lambda r: [small(r, 67, 5), r(67, 5), r(1, 5)],
        ),
        name="select by floats",
    ),
]
