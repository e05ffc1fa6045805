"""Calls constructors for the tests: makes operands of any layout and type, selects the ISA, computes graphs, and
compares results and gradients with their references.
"""

import contextlib
import ctypes
import os
import re
from itertools import cycle
from pathlib import Path

import numpy as np

import ggml
from ggml import _core

from . import As, constructor

DTYPES = {"F32": "f4", "F16": "f2", "BF16": "u2", "F64": "f8", "I8": "i1", "I16": "i2", "I32": "i4", "I64": "i8"}
EPS = {"F32": 0.0, "F16": 2.0**-11, "BF16": 2.0**-8}  # relative error of one rounding to the type
TYPES = (Path(__file__).parents[2] / "ggml" / "_simd" / "tables" / "types.h").read_text(encoding="utf-8")
# the types in which weights are stored, by the table of types
QUANTISED = re.findall(r"^TYPE\([^,]+, *(\w+),(?:[^,]+,){3} *(?:WEIGHT|BOTH)\b", TYPES, re.M)
ISAS = [row["name"] for row in _core.isa_info() if row["supported"]]
LAYOUTS = ("plain", "permuted", "transposed", "padded")


@contextlib.contextmanager
def context(mem_size=0, no_alloc=False):
    """A context for the duration of a with block. Without a size it grows."""
    ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=mem_size, mem_buffer=None, no_alloc=no_alloc))
    try:
        yield ctx
    finally:
        ggml.ggml_free(ctx)


@contextlib.contextmanager
def isa(name):
    """Computes with the kernels of one ISA for the duration of a with block."""
    chosen = next(row["name"] for row in _core.isa_info() if row["chosen"])
    _core.isa_select(name)
    try:
        yield
    finally:
        _core.isa_select(chosen)


SANITIZED = "asan" in os.environ.get("LD_PRELOAD", "")  # the address sanitizer runs: see scripts/sanitize.sh


def not_sanitized(reason="its own memory needs more addresses than the limit leaves"):
    """Skips a test where the address sanitizer runs."""
    if SANITIZED:
        import pytest

        pytest.skip(f"the address sanitizer: {reason}")


def ramp(*shape, dtype=np.float32):
    """0, 1, 2, ... as an array of a shape."""
    return np.arange(np.prod(shape, dtype=int)).astype(dtype).reshape(shape)


def type_id(name):
    return getattr(ggml, "GGML_TYPE_" + name)


def type_of(t):
    return ggml.ggml_type_name(t.contents.type).decode().upper()


def shape(t):
    return tuple(t.contents.ne[:4])


def memory(t):
    """The bytes of the tensor as a NumPy array, including the gaps between its elements."""
    n = ggml.ggml_nbytes(t)
    return np.frombuffer((ctypes.c_uint8 * n).from_address(t.contents.data), np.uint8) if n else np.empty(0, np.uint8)


def elements(t):
    """The stored elements of the tensor, as a strided NumPy array over its memory."""
    dtype = np.dtype(DTYPES[type_of(t)])
    if 0 in shape(t):
        return np.empty(shape(t)[::-1], dtype)
    flat = memory(t)[: ggml.ggml_nbytes(t) // dtype.itemsize * dtype.itemsize].view(dtype)
    return np.lib.stride_tricks.as_strided(flat, shape(t)[::-1], tuple(t.contents.nb[:4])[::-1])


def to_bf16(x):
    bits = np.asarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def from_bf16(bits):
    return (np.asarray(bits, np.uint16).astype(np.uint32) << 16).view(np.float32)


def store(t, values):
    values = np.broadcast_to(values, shape(t)[::-1])
    with np.errstate(over="ignore"):  # what exceeds the range of the type is infinite
        elements(t)[...] = to_bf16(values) if type_of(t) == "BF16" else values.astype(DTYPES[type_of(t)])


def load(t):
    """The values of the tensor as float64, those of integers as int64."""
    x = elements(t)
    x = from_bf16(x.copy()) if type_of(t) == "BF16" else x
    return x.astype(np.int64 if x.dtype.kind == "i" else np.float64)


AXES = {"permuted": (2, 0, 3, 1), "transposed": (1, 0, 2, 3)}


def tensor(ctx, values, type, layout="plain", base=None):
    """A tensor with these values. In a layout other than "plain" its dimensions have another order in memory, or
    gaps between its elements hold NaN. Appends the tensor that owns the memory to `base`.
    """
    values = values.reshape((1,) * (4 - values.ndim) + values.shape)
    ne, ty = values.shape[::-1], type_id(type)
    if type not in DTYPES:
        return quantized(ctx, values, type)
    if layout == "padded":
        root = ggml.ggml_new_tensor_4d(ctx, ty, ne[0] + 5, ne[1] + 1, ne[2] + 1, max(1, ne[3]))
        memory(root)[:] = 0xFF
        nb = root.contents.nb
        t = ggml.ggml_view_4d(ctx, root, *ne, nb[1], nb[2], nb[3], 3 * nb[0])
    elif layout == "plain":
        t = root = ggml.ggml_new_tensor_4d(ctx, ty, *ne)
    else:
        axes = AXES[layout]
        root = ggml.ggml_new_tensor_4d(ctx, ty, *(ne[axis] for axis in axes))
        t = ggml.ggml_permute(ctx, root, *axes)
    store(t, values)
    if base is not None:
        base.append(root)
    return t


def quantized(ctx, values, type):
    t = ggml.ggml_new_tensor_4d(ctx, type_id(type), *values.shape[::-1])
    rows = np.ascontiguousarray(values.reshape(np.prod(values.shape[:-1]), values.shape[-1]), np.float32)
    weights = np.ones(rows.shape[1], np.float32)
    fp = ctypes.POINTER(ctypes.c_float)
    ggml.ggml_quantize_chunk(
        type_id(type), rows.ctypes.data_as(fp), ggml.ggml_get_data(t), 0, *rows.shape, weights.ctypes.data_as(fp)
    )
    return t


def values_of(ctx, t):
    """The values of the operand after rounding to its type."""
    if type_of(t) in DTYPES:
        return load(t)
    copy = ggml.ggml_cast(ctx, t, ggml.GGML_TYPE_F32)
    compute(ctx, graph_of(ctx, copy))
    return load(copy)


class Call:
    """One call of a constructor: the tensors and the result in `ctx`, and the arguments of the reference."""

    def __init__(self, ctx, op, args, types="F32", layout="plain", param=(), fn=None):
        """types: the types of the operands under test, one for all or one for each. layout: the layout of the
        operands that may have one, one for all or several to use alternately.
        """
        under_test = [i for i, a in enumerate(args) if isinstance(a, np.ndarray) and a.dtype == np.float64]
        types = dict(zip(under_test, [types] * len(under_test) if isinstance(types, str) else types))
        layouts = cycle([layout] if isinstance(layout, str) else layout)
        self.ctx, self.op, self.roots, self.tensors, self.passed, self.values = ctx, op, {}, {}, [], []
        for i, a in enumerate(args):
            if isinstance(a, As | np.ndarray):
                fixed = a.type if isinstance(a, As) else {"i4": "I32", "i8": "I64"}.get(a.dtype.str[1:], "F32")
                base = []
                free = op.strided is None or i in op.strided
                array = a.array if isinstance(a, As) else a
                t = tensor(ctx, array, types.get(i, fixed), next(layouts) if free else "plain", base)
                self.tensors[i], self.roots[i] = t, base[0] if base else t
                self.values.append(values_of(ctx, t))
                if i in param:
                    ggml.ggml_set_param(self.roots[i])
                a = t
            else:
                self.values.append(a)
            self.passed.append(a)
        self.build = constructor(fn or op.fn)
        self.out = self.build(ctx, *self.passed)

    def contiguous(self):
        """The result of the same call with contiguous copies of the operands."""
        copies = {i: ggml.ggml_cont(self.ctx, t) for i, t in self.tensors.items()}
        return self.build(self.ctx, *(copies.get(i, a) for i, a in enumerate(self.passed)))

    def expected(self):
        want = np.asarray(self.op.ref(*self.values))
        return want.reshape((1,) * (4 - want.ndim) + want.shape)

    def reset(self):
        """Restores the values of the operands, and fills the result with NaN, so that elements that are not written
        are found.
        """
        if self.out.contents.data and not self.out.contents.view_src:
            memory(self.out)[:] = 0xFF
        for i, t in self.tensors.items():
            if type_of(t) in DTYPES:
                store(t, self.values[i])


def graph_of(ctx, *results, size=2048, grads=False):
    graph = ggml.ggml_new_graph_custom(ctx, size, grads)
    for t in results:
        ggml.ggml_build_forward_expand(graph, t)
    return graph


def gradients_graph(ctx, out):
    """A graph of sum(out) and its gradients, to be reset before each compute."""
    loss = ggml.ggml_sum(ctx, out)
    ggml.ggml_set_loss(loss)
    graph = graph_of(ctx, loss, grads=True)
    ggml.ggml_build_backward_expand(ctx, graph, None)
    return graph


def compute(ctx, graph, threads=1):
    assert ggml.ggml_graph_compute_with_ctx(ctx, graph, threads) == ggml.GGML_STATUS_SUCCESS


def gradients(ctx, out, params, threads):
    """Yields a note and the gradients of sum(out) with respect to params, for each ISA and number of threads. Asserts
    that they do not depend on the number of threads.
    """
    graph = gradients_graph(ctx, out)
    for name in ISAS:
        with isa(name):
            first = None
            for n in threads:
                ggml.ggml_graph_reset(graph)
                compute(ctx, graph, n)
                got, note = [load(ggml.ggml_graph_get_grad(graph, t)) for t in params], f"{name}, {n} threads"
                first = first or got
                for one, other in zip(got, first):
                    np.testing.assert_array_equal(one, other, note)
                yield note, got


def close(got, want, tol, note="", least=0.0):
    """Asserts that the error is at most tol times the largest of the value's magnitude, the mean magnitude and
    `least`. Values that are not finite must be equal.
    """
    assert got.shape == want.shape, f"{note}: shape {got.shape}, expected {want.shape}"
    if np.issubdtype(got.dtype, np.integer):
        np.testing.assert_array_equal(got, want, err_msg=note)
        return
    finite = np.isfinite(want)
    np.testing.assert_array_equal(got[~finite], want[~finite], err_msg=note)
    if finite.any():
        w, g = want[finite], got[finite]
        allowed = tol * np.maximum(np.abs(w), max(least, np.mean(np.abs(w)))) + 1e-37
        worst = np.argmax(np.where(np.isnan(g), np.inf, np.abs(g - w) / allowed))
        assert np.abs(g[worst] - w[worst]) <= allowed[worst], (
            f"{note}: {g[worst]!r}, expected {w[worst]!r} (element {worst} of {w.size}); "
            f"{np.sum(~(np.abs(g - w) <= allowed))} are wrong"
        )


def difference(f, x, at=1e-4):
    """The gradient of a function of an array, by central differences of fourth order in float64."""
    grad = np.zeros_like(x)
    for i in np.ndindex(x.shape):
        keep, h = x[i], at * max(1.0, abs(x[i]))
        total = 0.0
        for k, weight in ((1, 8.0), (-1, -8.0), (2, -1.0), (-2, 1.0)):
            x[i] = keep + k * h
            total += weight * f()
        x[i] = keep
        grad[i] = total / (12 * h)
    return grad


def convolved(ctx, w, x, places, threads, winograd=2, *tail):
    """Computes a convolution of two tensors. winograd and tail: as in ggml.ext.conv_2d."""
    out = ggml.ext.conv_2d(ctx, w, x, *places, *(tail or (None, None)), 0, winograd)
    compute(ctx, graph_of(ctx, out), threads)
    return load(out)
