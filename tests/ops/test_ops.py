"""Runs every row of tests/cases: values, layouts, types, in-place forms, gradients and invalid input."""

import ctypes
from contextlib import nullcontext
from itertools import chain, cycle, product, repeat

import numpy as np
import pytest
from cases import As, Random, constructor, public_name, rows
from cases.harness import (
    AXES,
    EPS,
    ISAS,
    LAYOUTS,
    SANITIZED,
    Call,
    close,
    compute,
    context,
    difference,
    elements,
    graph_of,
    isa,
    load,
    memory,
    shape,
    tensor,
    type_of,
)

import ggml

OPS = rows()


def each(keep=lambda op: True):
    return pytest.mark.parametrize("op", [pytest.param(op, id=name) for name, op in OPS.items() if keep(op)])


def behind(t):
    """The bytes that follow the data of the tensor in its arena."""
    return ctypes.string_at(t.contents.data + ggml.ggml_nbytes(t), 96)


def check(ctx, call, tol, note):
    """Computes on every ISA with 1 and 2 threads. The result must be close to the reference and must not depend on
    the number of threads, and no byte behind the result may change.
    """
    want, out = call.expected(), call.out
    tol += 1.01 * EPS.get(type_of(out), 0)
    graph = graph_of(ctx, out)
    ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_I8, 128)  # provides memory behind the result
    # the address sanitizer watches over these bytes itself, and lets nobody read them
    own = not SANITIZED and not out.contents.view_src and not ggml.ggml_is_empty(out)
    for name in ISAS:
        with isa(name):
            first = None
            for threads in (1, 2):
                call.reset()
                before = behind(out) if own else None
                compute(ctx, graph, threads)
                close(load(out), want, tol, f"{note}, {name}, {threads} threads")
                assert not own or behind(out) == before, f"{note}, {name}, {threads} threads: wrote behind the result"
                bits = elements(out).copy()
                first = bits if first is None else first
                np.testing.assert_array_equal(
                    bits.view(f"u{bits.itemsize}"), first.view(f"u{bits.itemsize}"), f"{note}, {name}: threads"
                )


@each()
def test_values(op):
    for i in range(len(op.samples)):
        with context() as ctx:
            check(ctx, Call(ctx, op, op.args(i), param=op.params), op.tol, f"sample {i}")


@each(lambda op: op.strided != ())
@pytest.mark.parametrize("layout", LAYOUTS[1:])
def test_operands_of_any_layout(op, layout):
    for i in range(len(op.samples)):
        with context() as ctx:
            check(ctx, Call(ctx, op, op.args(i), layout=layout), op.tol, f"sample {i}")


# Functions that sum in another order if rows are not contiguous. All others give equal bits.
SUMMED_BY_LAYOUT = ("sum", "mul_mat", "mul_mat_id", "out_prod", "flash_attn_ext")


@each(lambda op: op.strided != ())
def test_layout_changes_nothing(op):
    """Operands in different layouts give the same result as their contiguous copies. The types of the row are used
    alternately.
    """
    mixes = cycle((("permuted", "padded"), ("transposed", "permuted", "plain"), ("padded", "transposed")))
    for i, types, mix in zip(range(len(op.samples)), cycle(op.types[::-1] or ("F32",)), mixes):
        with context() as ctx:
            call = Call(ctx, op, op.args(i), types, mix)
            packed = call.contiguous()
            graphs = graph_of(ctx, packed), graph_of(ctx, call.out)
            for name, threads in product(ISAS, (1, 2)):
                call.reset()
                with isa(name):
                    for graph in graphs:
                        compute(ctx, graph, threads)
                note = f"sample {i}, {types}, {mix}, {name}, {threads} threads"
                if op.fn in SUMMED_BY_LAYOUT:
                    close(load(call.out), load(packed), op.tol, note)
                else:
                    np.testing.assert_array_equal(elements(call.out), elements(packed), note)


@each(lambda op: set(op.types) - {"F32"})
def test_types(op):
    for types in op.types:
        layouts = chain(("plain", "padded", "plain", "transposed"), repeat("plain"))
        for i, layout in zip(range(len(op.samples)), layouts):
            if types != "F32":
                with context() as ctx:
                    check(
                        ctx,
                        Call(ctx, op, op.args(i), types, layout if op.strided is None else "plain"),
                        op.tol,
                        f"sample {i}, {types}",
                    )


def without_elements(args, axis):
    """The arguments, where the operands that are longest along an axis have length 0 there."""
    arrays = {i: a.array if isinstance(a, As) else a for i, a in enumerate(args) if isinstance(a, As | np.ndarray)}
    arrays = {i: x.reshape((1,) * (4 - x.ndim) + x.shape) for i, x in arrays.items()}
    longest = max(x.shape[axis] for x in arrays.values())
    for i, x in arrays.items():
        x = np.take(x, [], axis) if x.shape[axis] == longest else x
        args[i] = As(args[i].type, x) if isinstance(args[i], As) else x
    return args


@each(lambda op: isinstance(op.args(0)[0], As | np.ndarray))
@pytest.mark.filterwarnings("ignore:.*(empty slice|invalid value|divide by zero):RuntimeWarning")
def test_operands_without_elements(op):
    """Each dimension has length 0 once. Shapes that do not fit raise an error; all others are computed."""
    done = 0
    for axis in range(4):
        with context() as ctx:
            args = without_elements(op.args(0), axis)
            try:
                call = Call(ctx, op, args, param=op.params)
            except ValueError as e:
                assert str(e).startswith(f"{op.public_name}: "), e
                continue
            try:
                call.expected()
            except (ValueError, IndexError, ZeroDivisionError) as e:  # NumPy raises, too
                index = isinstance(e, IndexError) and not ggml.ggml_is_empty(call.out)
                with pytest.raises(RuntimeError, match="node 0") if index else nullcontext():
                    compute(ctx, graph_of(ctx, call.out), 2)
                assert index or ggml.ggml_is_empty(call.out)
            else:
                check(ctx, call, op.tol, f"dimension {3 - axis}")
            done += 1
    assert done or any(0 in np.shape(getattr(a, "array", a)) for i in range(len(op.samples)) for a in op.args(i))


# (the argument that holds indices, the argument that they index, its axis)
INDEXED = {
    "get_rows": (1, 0, -2),
    "get_rows_back": (1, 2, -2),
    "set_rows": (2, 0, -2),
    "add_id": (2, 1, -2),
    "mul_mat_id": (2, 0, -3),
    "ssm_scan": (6, 0, -4),
}


@pytest.mark.parametrize("name", INDEXED)
def test_index_out_of_range(name):
    """Indices are checked while computing: the compute fails and names the node and the index. Another index is
    accepted.
    """
    at, counted, axis = INDEXED[name]
    with context() as ctx:
        call = Call(ctx, OPS[name], OPS[name].args(1))
        graph, index, n = graph_of(ctx, call.out), call.tensors[at], call.values[counted].shape[axis]
        for isa_name, threads, bad in product(ISAS, (1, 2), (n, -1, 2**31 - 1, -(2**31))):
            call.reset()
            elements(index).flat[-1] = bad
            with (
                isa(isa_name),
                pytest.raises(RuntimeError, match=rf"^ggml_graph_compute_with_ctx: node 0 \({name.upper()}.* {bad}\b"),
            ):
                compute(ctx, graph, threads)
        call.reset()
        compute(ctx, graph)
        close(load(call.out), call.expected(), OPS[name].tol)


@each(lambda op: op.inplace)
def test_in_place(op):
    """The in-place form gives the same values as the plain form, bit by bit, in the memory of the operand. Gaps
    between the operand's elements keep their bytes.
    """
    layouts = cycle(("plain", "padded") if op.strided is None else ("plain",))
    for (i, types), layout in zip(product(range(len(op.samples)), op.types), layouts):
        with context() as ctx:
            plain, over = (Call(ctx, op, op.args(i), types, layout, fn=fn) for fn in (op.fn, op.inplace))
            a, root = over.tensors[op.target], over.roots[op.target]
            before = memory(root).copy()
            assert over.out.contents.data == a.contents.data and shape(over.out) == shape(a)
            assert over.out.contents.view_src == root
            assert ggml.ggml_get_name(over.out) == ggml.ggml_get_name(a) + b" (view)"
            first, second = graph_of(ctx, plain.out), graph_of(ctx, over.out)
            for name in ISAS:
                with isa(name):
                    compute(ctx, first)
                    for threads in (1, 2):
                        over.reset()
                        compute(ctx, second, threads)
                        np.testing.assert_array_equal(
                            elements(over.out),
                            elements(plain.out),
                            f"sample {i}, {types}, {layout}, {name}, {threads} threads",
                        )
            over.reset()
            np.testing.assert_array_equal(memory(root), before, f"sample {i}, {types}: gaps of a {layout} operand")


@each(lambda op: op.aliased)
def test_result_lies_in_an_operand(op):
    for i in range(len(op.samples)):
        with context() as ctx:
            call = Call(ctx, op, op.args(i), param=op.params)
            roots = [t for t in call.tensors.values() if t == call.out.contents.view_src]
            assert len(roots) == 1
            start, size = roots[0].contents.data, ggml.ggml_nbytes(roots[0])
            assert start <= call.out.contents.data <= start + size


# ---- gradients -------------------------------------------------------------------------------------------------------
def off_kinks(op, args):
    for k in op.diff:
        for kink in op.kinks:
            near = np.abs(args[k] - kink) < 0.02
            args[k] = np.where(near, kink + np.where(args[k] < kink, -0.04, 0.04), args[k])
    return args


def weighted(ctx, out, weights, seen):
    """A loss: the sum of out * weights. With seen = "transposed" the loss reads out transposed, so that the gradient
    of out is strided.
    """
    if type_of(out) != "F32":
        out = ggml.ggml_cast(ctx, out, ggml.GGML_TYPE_F32)
    if seen == "transposed":
        out = ggml.ggml_cont(ctx, ggml.ggml_transpose(ctx, out))
        weights = weights.swapaxes(-1, -2)
    loss = ggml.ggml_sum(ctx, ggml.ggml_mul(ctx, out, tensor(ctx, weights, "F32")))
    ggml.ggml_set_loss(loss)
    return loss


def laid_out(gradient, operand):
    """The gradient of a contiguous parameter in the element order of the operand, which is a view of the parameter."""
    flat = load(gradient).ravel()
    size = elements(operand).itemsize
    steps = tuple(s // size * 8 for s in tuple(operand.contents.nb[:4])[::-1])
    return np.lib.stride_tricks.as_strided(flat, shape(operand)[::-1], steps).copy()


def gradients(op, args, types, layout, seen, tol, note):
    with context() as ctx:
        call = Call(ctx, op, args, types, layout, param=op.diff)
        want = call.expected()
        weights = Random(7)(*want.shape[::-1])
        loss = weighted(ctx, call.out, weights, seen)
        graph = ggml.ggml_new_graph_custom(ctx, 512, True)
        ggml.ggml_build_forward_expand(graph, loss)
        ggml.ggml_build_backward_expand(ctx, graph, None)
        values = [v.copy() if isinstance(v, np.ndarray) else v for v in call.values]
        ref = op.smooth or op.ref
        numeric = {
            k: difference(lambda: float((ref(*values).reshape(want.shape) * weights).sum()), values[k]) for k in op.diff
        }
        for name in ISAS:
            with isa(name):
                for threads in (1, 2):
                    call.reset()
                    ggml.ggml_graph_reset(graph)
                    compute(ctx, graph, threads)
                    for k in op.diff:
                        gradient = ggml.ggml_graph_get_grad(graph, call.roots[k])
                        got = laid_out(gradient, call.tensors[k]) if gradient else np.zeros(numeric[k].shape)
                        close(
                            got,
                            numeric[k],
                            tol,
                            f"{note}, {name}, {threads} threads, argument {k}",
                            least=float(types != "F32"),
                        )


@each(lambda op: op.diff)
@pytest.mark.parametrize("seen", ["straight", "transposed"])
def test_gradient(op, seen):
    done = [
        gradients(op, off_kinks(op, args), "F32", "plain", seen, op.grad_tol, f"sample {i}") for i, args in op.small()
    ]
    assert done, "no sample is small enough"


@each(lambda op: op.diff and (op.strided is None or set(op.diff) & set(op.strided)))
@pytest.mark.parametrize("layout", AXES)
def test_gradient_through_permuted_operands(op, layout):
    for i, args in list(op.small())[:2]:
        gradients(op, off_kinks(op, args), "F32", layout, "straight", op.grad_tol, f"sample {i}")


@each(lambda op: op.diff and set(op.types) - {"F32"})
def test_gradient_of_half_precision(op):
    """Parameters in F16 and BF16. Their gradients are F32, but depend on the rounded result."""
    for types in op.types:
        for i, args in list(op.small())[:2]:
            if types != "F32":
                tol = 0.06 if "BF16" in types else 0.01
                gradients(op, off_kinks(op, args), types, "plain", "straight", tol, f"sample {i}, {types}")


# ---- invalid input ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "op, i", [pytest.param(op, i, id=f"{name}-{i}") for name, op in OPS.items() for i in range(len(op.bad))]
)
def test_bad_input(op, i, ctx):
    make, error, part = op.bad[i]
    args = []
    for a in make(Random(i)):
        if isinstance(a, As | np.ndarray):
            array = a.array if isinstance(a, As) else a
            a = tensor(
                ctx, array, a.type if isinstance(a, As) else {"i4": "I32", "i8": "I64"}.get(a.dtype.str[1:], "F32")
            )
        args.append(a)
    for fn in [op.fn, *([op.inplace] if op.inplace else [])]:
        used = ggml.ggml_used_mem(ctx)
        with pytest.raises(error) as caught:
            constructor(fn)(ctx, *args)
        assert part in str(caught.value)
        assert str(caught.value).startswith(public_name(fn)) or not part
        assert ggml.ggml_used_mem(ctx) == used
    assert ggml.ggml_nelements(ggml.ggml_dup_tensor(ctx, tensor(ctx, np.ones((3, 2)), "F32"))) == 6


@each()
def test_operands_of_a_freed_context(op):
    with context() as gone:
        args = op.args(0)
        tensors = {
            i: tensor(gone, np.ones((3, 2)), "F32") for i, a in enumerate(args) if isinstance(a, As | np.ndarray)
        }
    with context() as ctx:
        for i, t in tensors.items():
            passed = [
                ggml.ggml_new_tensor_2d(ctx, ggml.GGML_TYPE_F32, 2, 3) if k in tensors and k != i else a
                for k, a in enumerate(args)
            ]
            passed[i] = t
            with pytest.raises(RuntimeError, match=f"^{op.public_name}: .* is not a tensor of a live context"):
                constructor(op.fn)(ctx, *passed)
    with pytest.raises(RuntimeError, match=f"^{op.public_name}: ctx"):
        constructor(op.fn)(gone, *args)


@pytest.mark.parametrize("name", ISAS)
def test_one_number_for_each_short_row(name):
    shapes = [((14, 200, 3), (1, 200, 1)), ((49, 300), (1, 300)), ((7, 7, 90, 2), (1, 1, 90, 2)), ((2, 999), (1, 999)),
              ((255, 5, 4), (1, 5, 4)), ((256, 9), (1, 9)), ((3, 4, 50), (1, 4, 1))]  # fmt: skip
    for whole, column in shapes:
        with isa(name), context() as ctx:
            r = Random(whole[0])
            a, b = (r(*s, *(1,) * (4 - len(s))).astype(np.float32) for s in (whole, column))
            x, y = tensor(ctx, a, "F32"), tensor(ctx, b, "F32")
            pairs = [
                (ggml.ggml_add(ctx, x, y), a + b),
                (ggml.ggml_mul(ctx, x, y), a * b),
                (ggml.ggml_sub(ctx, x, y), a - b),
            ]
            for threads in (1, 2, 3):
                compute(ctx, graph_of(ctx, *(t for t, _ in pairs)), threads)
                for t, want in pairs:
                    np.testing.assert_array_equal(load(t), want)


@pytest.mark.parametrize("name", ISAS)
def test_short_rows_with_gaps(name):
    """Operands that are parts of rows: one, both, and the same part twice."""
    for n, gap, high, planes in [(2, 1, 300, 2), (3, 5, 129, 4), (4, 1, 129, 20), (7, 1, 33, 3), (15, 2, 70, 1)]:
        with isa(name), context() as ctx:
            r = Random(n)
            a, b, c = (r(n + more, high, planes, 1).astype(np.float32) for more in (gap, gap, 0))
            x, y = (
                ggml.ggml_view_3d(ctx, t, n, high, planes, t.contents.nb[1], t.contents.nb[2], 4)
                for t in (tensor(ctx, v, "F32") for v in (a, b))
            )
            z, a, b = tensor(ctx, c, "F32"), a[..., 1 : n + 1], b[..., 1 : n + 1]
            pairs = [(ggml.ggml_add(ctx, x, y), a + b), (ggml.ggml_mul(ctx, x, x), a * a),
                     (ggml.ggml_sub(ctx, z, y), c - b), (ggml.ggml_sub(ctx, x, z), a - c),
                     (ggml.ggml_sqr(ctx, x), a * a)]  # fmt: skip
            for threads in (1, 2, 3):
                compute(ctx, graph_of(ctx, *(t for t, _ in pairs)), threads)
                for t, want in pairs:
                    np.testing.assert_array_equal(load(t), want)
