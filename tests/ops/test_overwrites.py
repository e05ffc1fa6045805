"""OVERWRITES of the table of operations, held against computed results.

The allocator lets a result take the memory of an operand where the table says that the kernel may write over it. Here
every operation computes with its result in the memory of each operand of equal shape, type and strides. The result must
be that of a computation with memory of its own for each operand that the table names, on every instruction set, with
one thread and with two; for every other operand it must differ in some large sample.
"""

import ctypes
from functools import cache

import numpy as np
import pytest
from cases import Random, rows
from cases.harness import ISAS, Call, compute, context, graph_of, isa, memory, store

import ggml
from ggml import _core

TABLE = {row["name"]: row for row in _core.op_table()}
LARGE = 100_000  # elements: enough that two threads share a node
# Operands that the table does not name although the results of these samples agree
CAUTION = {
    "SOLVE_TRI": {1},  # threads that solve one system together read rows of b that others have overwritten
    "CONV_2D_DW": {1},  # strips of an image read the rows of their neighbours
    "PAGED_ATTN": {0},  # sequences of the table may have rows in common
    "MAP_CUSTOM1": {0},
    "MAP_CUSTOM2": {0, 1},
    "MAP_CUSTOM3": {0, 1, 2},  # the user's function may read any element
}
# Operations that only gradients make, computed in place of a node with the same operands.
INTERNAL = {"rms_norm_back": ("NORM_BACK",)}
# Arguments with many elements where rows cannot be repeated: other operands depend on their number.
MANY = {
    "add_id": lambda r: (r(64, 4, 800), r(64, 9), r.ints(9, 4, 800)),
    "repeat": lambda r: (r(64, 4, 800), r(64, 4, 800)),
    "repeat_back": lambda r: (r(64, 4, 800), r(64, 4, 800)),
    "fill": lambda r: (r(512, 400), 1.5),  # the cheapest operation
    "tri": lambda r: (r(320, 320), ggml.GGML_TRI_TYPE_LOWER),
    "pad": lambda r: (r(512, 400), 0, 0, 0, 0),
    "add_rel_pos": lambda r: (r(256, 256, 4), r(16, 16, 16, 4), r(16, 16, 16, 4)),
    "soft_max_ext": lambda r: (r(512, 400), r(512, 400), 0.5, 0.0),
}


def enlarged(args, shape):
    """The arguments with the operands of one shape repeated along dimension 1, up to LARGE elements."""
    factor = -(-LARGE // max(int(np.prod(shape)), 1))
    return [
        np.tile(a, (1, 1, factor, 1)) if isinstance(a, np.ndarray) and a.dtype == np.float64 and a.shape == shape else a
        for a in args
    ]


def samples(op):
    """Arguments of the samples, each as it is and with many rows."""
    if op.fn in MANY:
        yield list(MANY[op.fn](Random(1)))
    for i in range(len(op.samples)):
        args = op.args(i)
        yield args
        shapes = {a.shape for a in args if isinstance(a, np.ndarray) and a.dtype == np.float64 and a.size}
        yield from (enlarged(args, shape) for shape in shapes)


def calls(ctx, op):
    """Calls of the constructor, in each type; those that it does not take with many rows are left out."""
    for args in samples(op):
        for types in op.types or ("F32",):
            try:
                yield Call(ctx, op, args, types=types, param=op.params)
            except ValueError:
                continue


def may_share(out, operand):
    """Whether the allocator could give the operand's memory to the result."""
    a, b = out.contents, operand.contents
    equal = a.type == b.type and list(a.ne) == list(b.ne) and list(a.nb) == list(b.nb)
    return equal and not a.view_src and 0 not in a.ne[:4]


def operands(call):
    """The operands 0 to 2 of the node, by number."""
    sources = [call.out.contents.src[k] for k in range(3)]
    return {
        k: t
        for k, t in enumerate(sources)
        if t and [ctypes.addressof(s.contents) for s in sources if s].count(ctypes.addressof(t.contents)) == 1
    }


def computed(call, threads):
    call.reset()
    compute(call.ctx, graph_of(call.ctx, call.out), threads)
    return memory(call.out).copy()


def agreement(call):
    """By number of operand and threads: whether the result in the operand's memory is that in memory of its own."""
    own, agree = call.out.contents.data, {}
    shareable = {k: t for k, t in operands(call).items() if may_share(call.out, t)}
    for name in ISAS if shareable else ():
        with isa(name):
            want = computed(call, 1)
            for k, operand in shareable.items():
                for threads in (1, 2):
                    call.out.contents.data = operand.contents.data
                    equal = np.array_equal(computed(call, threads), want)
                    call.out.contents.data = own
                    agree[k, threads] = agree.get((k, threads), True) and equal
    return agree


@cache
def observed(fn):
    """By operation: {(operand, threads, is large): whether all results agreed} over all rows of a constructor."""
    found = {}
    for op in (op for op in rows().values() if op.fn == fn):
        with context() as ctx:
            for call in calls(ctx, op):
                made = ggml.ggml_op_name(call.out.contents.op).decode()
                for name in (made, *INTERNAL.get(fn, ())):
                    call.out.contents.op = TABLE[name]["id"]
                    large = ggml.ggml_nelements(call.out) >= LARGE
                    for (k, threads), equal in agreement(call).items():
                        here = found.setdefault(name, {})
                        here[k, threads, large] = here.get((k, threads, large), True) and equal
    return found


def test_the_tables_rows_are_covered():
    """Every operand that the table names was tried with a node that two threads share."""
    named = {(name, k) for name, row in TABLE.items() for k in row["overwrites"]}
    tried = {(name, k) for fn in CONSTRUCTORS for name, found in observed(fn).items() for k, n, large in found if large}
    assert named <= tried


CONSTRUCTORS = sorted({op.fn for op in rows().values()})


@pytest.mark.parametrize("fn", CONSTRUCTORS)
def test_overwrites(fn):
    for name, found in observed(fn).items():
        allowed = TABLE[name]["overwrites"]
        for (k, threads, large), equal in found.items():
            if k in allowed:
                assert equal, f"{name} overwrites operand {k}: with {threads} threads the result changes"
            elif large and threads == 1 and equal and k not in CAUTION.get(name, ()):
                pytest.fail(f"{name} may overwrite operand {k}, which the table does not say")


def test_steps_of_optimisers_change_their_parameter_in_place():
    """Their result is the parameter itself, so that OVERWRITES does not concern them."""
    steps = [row for row in TABLE.values() if "STEP" in row["flags"]]
    assert {row["name"] for row in steps} == {"OPT_STEP_ADAMW", "OPT_STEP_SGD"}
    assert not any(row["overwrites"] for row in steps)
    with context() as ctx:
        a, grad = (ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_F32, 300) for _ in range(2))
        settings = ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_F32, 2)
        ggml.ggml_set_param(a)
        store(a, np.ones(300)), store(grad, np.full(300, 0.5)), store(settings, np.array([0.1, 0.0]))
        step = ggml.ggml_opt_step_sgd(ctx, a, grad, settings)
        assert step.contents.data == a.contents.data
        compute(ctx, graph_of(ctx, step), 2)
        np.testing.assert_allclose(memory(a).view(np.float32), 0.95, rtol=1e-6)
