"""ggml.legacy: every function of May 2023 against NumPy, gradients against finite differences, results recorded from
the library of May 2023, its memory use, its optimisers, and the docstrings.
"""

import ctypes
import inspect
import json
import re
from ctypes import POINTER, byref, c_float, c_int64
from pathlib import Path

import numpy as np
import pytest

import ggml.legacy as G

DATA = Path(__file__).parents[1] / "data"
F32, F16, I32 = 0, 1, 12
NUMPY = {F32: np.float32, F16: np.float16, I32: np.int32}
RNG = np.random.default_rng(5)


def context(megabytes=16, **kwargs):
    return G.ggml_init(G.ggml_init_params(mem_size=megabytes << 20, mem_buffer=None, no_alloc=False, **kwargs))


HEADER = json.loads((DATA / "api_ggml_h_2023_05.json").read_text())


@pytest.mark.parametrize("facts", HEADER["functions"], ids=lambda facts: facts["name"])
def test_parameters_are_those_of_the_header(facts):
    declared = [text for text in facts["params"] if text not in ("void", "...")]
    names = [re.search(r"(\w+)(\[\w*\])?$", text.strip())[1] for text in declared]
    if facts["name"] in ("ggml_norm", "ggml_rms_norm"):
        names.append("eps")  # of later headers, with a default
    assert list(inspect.signature(getattr(G, facts["name"])).parameters) == names


@pytest.mark.parametrize("name", ["ggml_norm", "ggml_rms_norm"])
def test_norms_take_eps_as_from_august_2023_on(name):
    """Without it, it is that of May 2023."""
    c, x = context(), np.float32([[1e-3, -1e-3, 2e-3], [1, 2, 6]])
    function, centred = getattr(G, name), x - x.mean(-1, keepdims=True) if name == "ggml_norm" else x
    for arguments, eps in (((), 1e-5 if name == "ggml_norm" else 1e-6), ((1e-2,), 1e-2), ((c_float(0.5),), 0.5)):
        want = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + eps)
        same(compute(c, function(c, tensor(c, x), *arguments)), want)
    with pytest.raises(ValueError, match=f"^{name}: .*eps"):
        function(c, tensor(c, x), -1.0)
    with pytest.raises(TypeError, match=f"^{name}: .*eps"):
        function(c, tensor(c, x), "small")
    G.ggml_free(c)


def test_constants_are_those_of_the_header():
    wanted = {name: int(text, 0) for name, text in HEADER["defines"].items() if text != "restrict"}
    for values in HEADER["enums"].values():
        wanted |= values
    assert len(wanted) > 100 and {name: getattr(G, name, None) for name in wanted} == wanted


@pytest.mark.parametrize("name", HEADER["structs"])
def test_fields_are_those_of_the_header(name):
    text = "; ".join(HEADER["structs"][name])
    text = re.sub(r"\{[^}]*\}", "", text)  # the fields of inner structs
    names = [re.search(r"(\w+)(\[\w+\])?$", field.strip())[1] for field in text.split(";")]
    assert [field for field, *_ in getattr(G, name)._fields_] == names


@pytest.fixture
def c():
    handle = context()
    yield handle
    G.ggml_free(handle)


def tensor(c, values, kind=F32):
    """A tensor with the values of a NumPy array, whose last axis is dimension 0."""
    a = np.ascontiguousarray(values, NUMPY[kind])
    t = G.ggml_new_tensor(c, kind, a.ndim, (c_int64 * a.ndim)(*a.shape[::-1]))
    ctypes.memmove(G.ggml_get_data(t), a.ctypes.data, a.nbytes)
    return t


def values(t):
    s = t.contents
    n = G.ggml_nelements(t)
    flat = np.frombuffer((ctypes.c_uint8 * (n * np.dtype(NUMPY[s.type]).itemsize)).from_address(s.data), NUMPY[s.type])
    return flat.reshape(s.ne[:][::-1]).copy()


def compute(c, t, threads=2):
    graph = G.ggml_build_forward(t)
    graph.n_threads = threads
    G.ggml_graph_compute(c, byref(graph))
    return values(t)


def same(got, want, tolerance=1e-5):
    want = np.asarray(want, float)
    assert np.allclose(got.reshape(want.shape), want, rtol=tolerance, atol=tolerance)


# ---- operations against NumPy ----------------------------------------------------------------------------------------
def normal(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def soft_max(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def silu(x):
    return x / (1 + np.exp(-x))


def silu_back(x, g):
    s = 1 / (1 + np.exp(-x))
    return g * s * (1 + x * (1 - s))


def rms(x):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6)


def rms_back(x, g):
    m = (x**2).mean(-1, keepdims=True) + 1e-6
    return (g - x * (x * g).mean(-1, keepdims=True) / m) / np.sqrt(m)


def norm(x):
    d = x - x.mean(-1, keepdims=True)
    return d / np.sqrt((d**2).mean(-1, keepdims=True) + 1e-5)


def mask(x, fill, past):
    return np.where(np.arange(x.shape[-1]) > past + np.arange(x.shape[-2])[:, None], fill, x)


def rope(x, past, dims, neox=False, sign=1):
    """x [tokens, heads, n]; the first `dims` of n are rotated."""
    y = x.astype(float).copy()
    angle = (past + np.arange(len(x)))[:, None, None] * 10000.0 ** (-np.arange(0, dims, 2) / dims) * sign
    first = np.arange(dims // 2) if neox else np.arange(0, dims, 2)
    second = first + (dims // 2 if neox else 1)
    y[..., first] = x[..., first] * np.cos(angle) - x[..., second] * np.sin(angle)
    y[..., second] = x[..., first] * np.sin(angle) + x[..., second] * np.cos(angle)
    return y


def conv(kernel, data, stride):
    """kernel [oc, ic, k], data [ic, n]"""
    half = kernel.shape[2] // 2
    padded = np.pad(data, ((0, 0), (half, half)))
    at = range(0, data.shape[1] // stride * stride, stride)
    return np.array([[(padded[:, i : i + kernel.shape[2]] * w).sum() for i in at] for w in kernel])


def replaced(x, part, index, add=False):
    y = x.copy()
    y[index] = y[index] + part if add else part
    return y


X, Y, POSITIVE, ONE = normal(2, 3, 4), normal(2, 3, 4), np.abs(normal(2, 3, 4)) + 0.1, normal(1)
MATRIX, ROWS, PART = normal(5, 4), np.array([3, 0, 3]), normal(2, 3)
Q, K, V = normal(2, 3, 8), normal(2, 5, 8), normal(2, 8, 5)
KERNEL, SIGNAL = normal(2, 3, 5), normal(3, 9)
A, B0, B1, C0, C1 = normal(3, 4), normal(6, 4), normal(6), normal(4, 6), normal(4)
NB = [16, 80, 80]  # the strides of MATRIX


def attention(masked):
    scores = np.einsum("hnd,hmd->hnm", Q, K) / np.sqrt(8)
    return np.einsum("hnm,hdm->hnd", soft_max(mask(scores, -np.inf, 2) if masked else scores), V)


# name: (arguments, expected values); arrays become tensors, integer arrays i32 tensors
OPERATIONS = {
    "ggml_dup": ([X], X),
    "ggml_add": ([X, Y], X + Y),
    "ggml_add_inplace": ([X, Y], X + Y),
    "ggml_add1": ([X, ONE], X + ONE),
    "ggml_sub": ([X, Y], X - Y),
    "ggml_mul": ([X, Y], X * Y),
    "ggml_div": ([X, Y], X / Y),
    "ggml_sqr": ([X], X**2),
    "ggml_sqrt": ([POSITIVE], np.sqrt(POSITIVE)),
    "ggml_log": ([POSITIVE], np.log(POSITIVE)),
    "ggml_log_inplace": ([POSITIVE], np.log(POSITIVE)),
    "ggml_sum": ([X], X.sum()),
    "ggml_sum_rows": ([X], X.sum(-1)),
    "ggml_mean": ([X], X.mean(-1)),
    "ggml_repeat": ([PART, normal(4, 6)], np.tile(PART, (2, 2))),
    "ggml_abs": ([X], np.abs(X)),
    "ggml_sgn": ([X], np.sign(X)),
    "ggml_neg": ([X], -X),
    "ggml_step": ([X], X > 0),
    "ggml_relu": ([X], np.maximum(X, 0)),
    "ggml_gelu": ([X], gelu(X), 2e-3),
    "ggml_silu": ([X], silu(X), 2e-3),
    "ggml_silu_back": ([X, Y], silu_back(X, Y), 2e-3),
    "ggml_norm": ([X], norm(X)),
    "ggml_rms_norm": ([X], rms(X)),
    "ggml_rms_norm_back": ([X, Y], rms_back(X, Y)),
    "ggml_mul_mat": ([X, Y], np.einsum("bmk,bnk->bnm", X, Y)),
    "ggml_scale": ([X, ONE], X * ONE),
    "ggml_scale_inplace": ([X, ONE], X * ONE),
    "ggml_acc": ([MATRIX, PART, *NB, 20], replaced(MATRIX, PART, np.s_[1:3, 1:], True)),
    "ggml_acc_inplace": ([MATRIX, PART, *NB, 20], replaced(MATRIX, PART, np.s_[1:3, 1:], True)),
    "ggml_set": ([MATRIX, PART, *NB, 20], replaced(MATRIX, PART, np.s_[1:3, 1:])),
    "ggml_set_inplace": ([MATRIX, PART, *NB, 20], replaced(MATRIX, PART, np.s_[1:3, 1:])),
    "ggml_set_1d": ([MATRIX, PART[0], 20], replaced(MATRIX, PART[0], np.s_[1, 1:])),
    "ggml_set_1d_inplace": ([MATRIX, PART[0], 20], replaced(MATRIX, PART[0], np.s_[1, 1:])),
    "ggml_set_2d": ([MATRIX, PART, 16, 20], replaced(MATRIX, PART, np.s_[1:3, 1:])),
    "ggml_set_2d_inplace": ([MATRIX, PART, 16, 20], replaced(MATRIX, PART, np.s_[1:3, 1:])),
    "ggml_cpy": ([X, Y], X),
    "ggml_cont": ([X], X),
    "ggml_reshape": ([X, normal(6, 4)], X.reshape(6, 4)),
    "ggml_reshape_1d": ([X, 24], X.ravel()),
    "ggml_reshape_2d": ([X, 8, 3], X.reshape(3, 8)),
    "ggml_reshape_3d": ([X, 2, 4, 3], X.reshape(3, 4, 2)),
    "ggml_reshape_4d": ([X, 2, 2, 3, 2], X.reshape(2, 3, 2, 2)),
    "ggml_view_1d": ([MATRIX, 6, 8], MATRIX.ravel()[2:8]),
    "ggml_view_2d": ([MATRIX, 3, 2, 16, 20], MATRIX[1:3, 1:]),
    "ggml_view_3d": ([X, 2, 3, 2, 16, 48, 8], X[:, :, 2:]),
    "ggml_view_4d": ([X, 2, 3, 2, 1, 16, 48, 96, 8], X[:, :, 2:]),
    "ggml_permute": ([X, 2, 0, 1, 3], X.transpose(2, 0, 1)),
    "ggml_transpose": ([X], X.swapaxes(1, 2)),
    "ggml_get_rows": ([MATRIX, ROWS], MATRIX[ROWS]),
    "ggml_get_rows_back": ([normal(3, 4) * 0 + 1, ROWS, MATRIX], MATRIX + np.array([1, 0, 0, 2, 0])[:, None]),
    "ggml_diag": ([C1], np.diag(C1)),
    "ggml_diag_mask_inf": ([MATRIX, 1], mask(MATRIX, -np.inf, 1)),
    "ggml_diag_mask_inf_inplace": ([MATRIX, 1], mask(MATRIX, -np.inf, 1)),
    "ggml_diag_mask_zero": ([MATRIX, 0], mask(MATRIX, 0, 0)),
    "ggml_diag_mask_zero_inplace": ([MATRIX, 0], mask(MATRIX, 0, 0)),
    "ggml_soft_max": ([X], soft_max(X)),
    "ggml_soft_max_inplace": ([X], soft_max(X)),
    "ggml_rope": ([Q, 3, 6, 0], rope(Q, 3, 6)),
    "ggml_rope_inplace": ([Q, 3, 6, 2], rope(Q, 3, 6, neox=True)),
    "ggml_rope_back": ([Q, 3, 8, 0], rope(Q, 3, 8, sign=-1)),
    "ggml_alibi": (
        [normal(2, 3, 5) * 0, 2, 2, 8.0],
        np.array([2**-4.0, 2**-8.0])[:, None, None] * np.arange(-4, 1) + np.zeros((2, 3, 5)),
    ),
    "ggml_clamp": ([X, -0.4, 0.9], X.clip(-0.4, 0.9)),
    "ggml_conv_1d_1s": ([KERNEL, SIGNAL], conv(KERNEL, SIGNAL, 1), 2e-3),
    "ggml_conv_1d_2s": ([KERNEL, SIGNAL], conv(KERNEL, SIGNAL, 2), 2e-3),
    "ggml_flash_attn": ([Q, K, V, True], attention(True)),
    "ggml_flash_ff": ([A, B0, B1, C0, C1], gelu(A @ B0.T + B1) @ C0.T + C1, 5e-3),
    "ggml_map_unary_f32": (
        [X, G.ggml_unary_op_f32_t(lambda n, d, a: [d.__setitem__(i, 2 * a[i]) for i in range(n)] and None)],
        2 * X,
    ),
    "ggml_map_binary_f32": (
        [X, Y, lambda n, d, a, b: [d.__setitem__(i, a[i] - b[i]) for i in range(n)] and None],
        X - Y,
    ),
}


def arguments(c, given):
    for a in given:
        yield tensor(c, a, I32 if a.dtype.kind == "i" else F32) if isinstance(a, np.ndarray) else a


@pytest.mark.parametrize("name", OPERATIONS)
def test_operation(c, name):
    given, want, *tolerance = OPERATIONS[name]
    args = list(arguments(c, given))
    result = getattr(G, name)(c, *args)
    if "view" in name or name in ("ggml_permute", "ggml_transpose"):
        result = G.ggml_cont(c, result)
    got = compute(c, result)
    same(got, want, *tolerance)
    if name.endswith("_inplace") or name in ("ggml_clamp", "ggml_alibi"):
        assert result.contents.data == args[0].contents.data
        same(values(args[0]), want, *tolerance)


def test_rope_of_more_tokens_than_positions(c):
    a = tensor(c, normal(2, 3, 4))
    with pytest.raises(ValueError, match="^ggml_rope: a is .*: positions must be less than 2\\^31"):
        G.ggml_rope(c, a, 2**31 - 2, 4, 0)
    a.contents.ne[2] = 1 << 40
    for rope in (G.ggml_rope, G.ggml_rope_inplace, G.ggml_rope_back):
        with pytest.raises(ValueError, match=rf"^{rope.__name__}: a is .*: positions must be less than 2\^31"):
            rope(c, a, 0, 4, 0)


def test_rope_of_own_positions(c):
    """With bit 0 of mode, tokens before n_past are skipped, and the position of the others is their index."""
    x = normal(5, 2, 8)
    want = np.concatenate([np.zeros((2, 2, 8)), rope(x, 0, 8)[2:]])
    same(compute(c, G.ggml_rope(c, tensor(c, x), 2, 8, 1)), want)
    inplace = np.concatenate([x[:2], rope(x, 0, 8)[2:]])
    same(compute(c, G.ggml_rope_inplace(c, tensor(c, x), 2, 8, 1)), inplace)


# ---- gradients against finite differences ----------------------------------------------------------------------------
GRADIENTS = {
    "ggml_view_1d": [MATRIX, 6, 8],
    "ggml_view_2d": [MATRIX, 3, 2, 16, 20],
    "ggml_view_3d": [X, 2, 3, 2, 16, 48, 8],
    "ggml_view_4d": [X, 2, 3, 2, 1, 16, 48, 96, 8],
    "ggml_permute": [X, 2, 0, 1, 3],
    "ggml_rope": [Q, 2, 6, 0],
    "ggml_rope of own positions": [normal(5, 2, 8), 2, 6, 1],
    "ggml_rope of own positions, NeoX": [normal(5, 2, 8), 3, 8, 3],
    "ggml_flash_attn": [Q, K, V, False],
    "ggml_flash_attn with a mask": [Q, K, V, True],
    "ggml_flash_ff": [A, B0, B1, C0, C1],
    "ggml_conv_1d_1s": [KERNEL, SIGNAL],
    "ggml_conv_1d_2s": [KERNEL, SIGNAL],
    "ggml_conv_1d_2s of an even length": [KERNEL, SIGNAL[:, :8]],
    "ggml_set_2d": [MATRIX, PART, 16, 20],
    "ggml_get_rows": [MATRIX, ROWS],
}


def weighted_sum(c, name, args, weights):
    """The scalar sum(weights * function(args)). Weights are drawn for the first call, which gives None."""
    result = getattr(G, name.split()[0])(c, *args)
    if "view" in name or "permute" in name:
        result = G.ggml_cont(c, result)
    if weights is None:
        weights = np.random.default_rng(1).standard_normal(result.contents.ne[::-1])
    return G.ggml_sum(c, G.ggml_mul(c, result, tensor(c, weights))), weights


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradient(c, name):
    args = list(arguments(c, GRADIENTS[name]))
    inputs = [t for t in args if isinstance(t, G.ggml_tensor_p) and t.contents.type == F32]
    f, weights = weighted_sum(c, name, args, None)
    forward = G.ggml_build_forward(f)
    numeric, step = [], 1e-2
    for t in inputs:
        x = np.ctypeslib.as_array(G.ggml_get_data_f32(t), (G.ggml_nelements(t),))
        for i in range(x.size):
            start, ends = x[i].item(), []
            for x[i] in (start + step, start - step):
                G.ggml_graph_compute(c, byref(forward))
                ends.append(G.ggml_get_f32_1d(f, 0))
            x[i] = start
            numeric.append((ends[0] - ends[1]) / (2 * step))
    for t in inputs:
        G.ggml_set_param(c, t)
    f, _ = weighted_sum(c, name, args, weights)
    forward = G.ggml_build_forward(f)
    backward = G.ggml_build_backward(c, byref(forward), False)
    for _ in range(2):  # twice: the second time, the graph is one that the context keeps
        G.ggml_graph_reset(byref(forward))
        G.ggml_set_f32(f.contents.grad, 1.0)
        G.ggml_graph_compute(c, byref(backward))
        gradient = np.concatenate([values(t.contents.grad).ravel() for t in inputs])
        assert np.abs(gradient).max() > 0.1
        assert np.abs(gradient - numeric).max() < 5e-3 * max(1, np.abs(gradient).max())


def test_inner_views_follow_the_data_of_their_source():
    """ggml_rope of a part of its argument makes a view of it; the caller gives the argument its data later."""
    c = G.ggml_init(G.ggml_init_params(mem_size=1 << 20, mem_buffer=None, no_alloc=True))
    x = normal(5, 2, 8)
    a = G.ggml_new_tensor_3d(c, F32, 8, 2, 5)
    y = G.ggml_rope(c, a, 2, 8, 1)
    result = np.empty_like(x)
    y.contents.data = result.ctypes.data
    graph = G.ggml_build_forward(y)
    for given in (x, 2 * x):
        a.contents.data = given.ctypes.data
        G.ggml_graph_compute(c, byref(graph))
        same(result, np.concatenate([np.zeros((2, 2, 8)), rope(given, 0, 8)[2:]]))
    G.ggml_free(c)


# ---- messages --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "name, shapes, message",
    [
        ("ggml_silu_back", [(3, 4), (3, 5)], r"b is f32 \[5, 3\], a is f32 \[4, 3\]: shapes must be equal"),
        ("ggml_rms_norm_back", [(3, 4), (3, 5)], r"b is f32 \[5, 3\], a is f32 \[4, 3\]: shapes must be equal"),
        ("ggml_flash_ff", [(3, 4), (6, 4), (5,), (4, 6), (4,)], r"a is .*, b1 is f32 \[5\], .*: need a \[n_in, n\], "),
        ("ggml_conv_1d_1s", [(2, 3, 5), (2, 3, 9)], r"b is f32 \[9, 3, 2\]: need one signal \[length, in_channels\]"),
        ("ggml_conv_1d_2s", [(2, 3, 5), (2, 3, 9)], r"b is f32 \[9, 3, 2\]: need one signal \[length, in_channels\]"),
        ("ggml_scale", [(3, 4), (2,)], r"b is f32 \[2\]: need one element"),
    ],
    ids=lambda x: x if str(x).startswith("ggml_") else "",
)
def test_messages_name_the_arguments_of_this_surface(c, name, shapes, message):
    with pytest.raises(ValueError, match=f"^{name}: {message}"):
        getattr(G, name)(c, *[tensor(c, normal(*shape)) for shape in shapes])


def test_flash_attn_names_its_operands(c):
    with pytest.raises(ValueError, match=r"^ggml_flash_attn: q is f32 \[8, 3, 2\], .*: need q \[D, N\], .*, M >= N$"):
        G.ggml_flash_attn(c, tensor(c, Q), tensor(c, K[:, :2]), tensor(c, V[:, :, :2]), True)


# ---- contexts, tensors, values ---------------------------------------------------------------------------------------
def test_new_tensors(c):
    shapes = [
        (G.ggml_new_tensor_1d(c, F32, 3), [3, 1, 1, 1]),
        (G.ggml_new_tensor_2d(c, F16, 3, 4), [3, 4, 1, 1]),
        (G.ggml_new_tensor_3d(c, F32, 3, 4, 5), [3, 4, 5, 1]),
        (G.ggml_new_tensor_4d(c, I32, 3, 4, 5, 6), [3, 4, 5, 6]),
        (G.ggml_new_tensor(c, 2, 2, [64, 2]), [64, 2, 1, 1]),
    ]
    copied = G.ggml_cpy(c, shapes[1][0], G.ggml_new_tensor_3d(c, F32, *shapes[1][1][:2], 1))
    assert copied.contents.n_dims == 3, "the result of ggml_cpy is a view of its destination"
    for n_dims, (t, ne) in zip((1, 2, 3, 4, 2), shapes):
        assert t.contents.ne[:] == ne and t.contents.n_dims == n_dims and G.ggml_nelements(t) == np.prod(ne)
    assert G.ggml_nbytes(shapes[4][0]) == 72 and G.ggml_element_size(shapes[1][0]) == 2
    like, view = G.ggml_dup_tensor(c, shapes[3][0]), G.ggml_view_tensor(c, shapes[3][0])
    assert like.contents.type == view.contents.type == I32
    assert view.contents.data == shapes[3][0].contents.data != like.contents.data
    assert G.ggml_get_i32_1d(G.ggml_new_i32(c, -7), 0) == -7 and G.ggml_get_f32_1d(G.ggml_new_f32(c, 2.5), 0) == 2.5


def test_values(c):
    t, i = G.ggml_new_tensor_1d(c, F32, 4), G.ggml_new_tensor_1d(c, I32, 4)
    assert G.ggml_set_f32(t, 1.5) == t and G.ggml_set_i32(i, 3) == i
    G.ggml_set_f32_1d(t, 2, 9.0)
    G.ggml_set_i32_1d(i, 1, 8)
    assert values(t).ravel().tolist() == [1.5, 1.5, 9, 1.5] and values(i).ravel().tolist() == [3, 8, 3, 3]
    assert G.ggml_get_f32_1d(t, 2) == 9 and G.ggml_get_i32_1d(i, 1) == 8 and G.ggml_get_data_f32(t)[2] == 9
    assert not values(G.ggml_set_zero(t)).any() and G.ggml_get_data(t) == t.contents.data
    for value, error in ((np.inf, OverflowError), (np.nan, ValueError)):
        with pytest.raises(error, match="^ggml_get_i32_1d: the element is"):
            G.ggml_get_i32_1d(G.ggml_set_f32(t, value), 0)
    with pytest.raises(IndexError, match="^ggml_get_i32_1d: i is 4"):
        G.ggml_get_i32_1d(t, 4)
    G.ggml_set_name(t, b"n" * 40)
    assert G.ggml_get_name(t) == b"n" * 31 == t.contents.name
    assert G.ggml_get_tensor(c, b"n" * 31) == t and not G.ggml_get_tensor(c, b"none")


def test_types():
    assert [G.ggml_type_size(k) for k in (0, 1, 2, 3, 6, 7, 8, 10, 11, 12)] == [4, 2, 18, 20, 22, 24, 34, 1, 2, 4]
    assert G.ggml_blck_size(2) == 32 and G.ggml_type_sizef(2) == 18 / 32 and G.ggml_type_name(12) == b"i32"
    assert G.ggml_is_quantized(8) and not G.ggml_is_quantized(12) and G.ggml_op_name(26) == b"MUL_MAT"
    assert [G.ggml_ftype_to_ggml_type(f) for f in (0, 1, 2, 3, 7, 8, 9, 4)] == [0, 1, 2, 3, 8, 6, 7, 13]
    assert G.GGML_TYPE_I32 == 12 and G.GGML_TYPE_I32.value == 12 and G.GGML_LINESEARCH_FAIL == -128


def test_memory_sums(c):
    """Each call takes as many bytes of the arena as in the library of May 2023, from which they were recorded."""

    def grew(make, *args):
        before = G.ggml_used_mem(c)
        result = make(c, *args)
        return G.ggml_used_mem(c) - before, result

    n, a = grew(G.ggml_new_tensor_3d, F32, 8, 2, 3)
    assert n == 448 and G.ggml_tensor_overhead() == 272
    n, b = grew(G.ggml_new_tensor_1d, F32, 1)
    assert n == 272
    sums = [
        (G.ggml_rope, (a, 2, 4, 0), 720), (G.ggml_scale, (a, b), 448), (G.ggml_scale_inplace, (a, b), 256),
        (G.ggml_set_1d, (a, b, 0), 736), (G.ggml_set_1d_inplace, (a, b, 0), 544), (G.ggml_view_1d, (a, 4, 0), 256),
        (G.ggml_diag_mask_inf_inplace, (a, 1), 528), (G.ggml_clamp, (a, -0.5, 0.5), 528), (G.ggml_mean, (a,), 288),
        (G.ggml_repeat, (a, a), 0), (G.ggml_set_param, (a,), 448), (G.ggml_add_inplace, (a, a), 256),
        (G.ggml_add, (a, a), 896), (G.ggml_rope, (a, 0, 8, 0), 1168), (G.ggml_soft_max_inplace, (a,), 704),
        (G.ggml_view_1d, (a, 8, 0), 544), (G.ggml_sum, (a,), 544), (G.ggml_set_1d, (a, b, 0), 1184),
    ]  # fmt: skip
    for function, args, want in sums:
        assert (function.__name__, grew(function, *args)[0]) == (function.__name__, want)
    assert G.ggml_get_mem_size(c) == 16 << 20 and a.contents.data > G.ggml_get_mem_buffer(c)


def test_arena_is_full():
    c = G.ggml_init(G.ggml_init_params(mem_size=448, mem_buffer=None, no_alloc=False))
    G.ggml_new_tensor_1d(c, F32, 8)
    with pytest.raises(MemoryError, match=r"^ggml_new_tensor_1d: the context is full"):
        G.ggml_new_tensor_1d(c, F32, 8)
    G.ggml_free(c)


def test_buffer_scratch_and_no_alloc():
    memory, spare = ctypes.create_string_buffer(1 << 16), ctypes.create_string_buffer(256)
    c = G.ggml_init(G.ggml_init_params(1 << 16, ctypes.cast(memory, ctypes.c_void_p), False))
    a = G.ggml_set_f32(G.ggml_new_tensor_1d(c, F32, 10), 3)
    assert ctypes.addressof(memory) <= a.contents.data < ctypes.addressof(memory) + (1 << 16)
    at = ctypes.addressof(spare)
    assert G.ggml_set_scratch(c, G.ggml_scratch(16, 256, at)) == 0
    b = G.ggml_sqr(c, a)
    assert b.contents.data == at + 16
    assert at + 256 < G.ggml_new_f32(c, 1.0).contents.data or G.ggml_new_f32(c, 1.0).contents.data < at
    with pytest.raises(MemoryError, match="^ggml_new_tensor_1d: the scratch buffer is full"):
        G.ggml_new_tensor_1d(c, F32, 64)
    assert G.ggml_set_scratch(c, G.ggml_scratch(0, 0, None)) == 16 + 48
    assert compute(c, b).ravel().tolist() == [9] * 10
    G.ggml_set_no_alloc(c, True)
    t = G.ggml_new_tensor_1d(c, F32, 10)
    assert t.contents.data is None
    t.contents.data = a.contents.data
    assert G.ggml_get_f32_1d(t, 9) == 3
    G.ggml_free(c)


def test_fields_written_by_callers_are_used(c):
    a = tensor(c, np.arange(6))
    other = (c_float * 6)(*range(10, 16))
    a.contents.data = ctypes.addressof(other)
    a.contents.name = b"mine"
    assert compute(c, G.ggml_neg(c, a)).ravel().tolist() == [-10.0, -11, -12, -13, -14, -15]
    a.contents.ne[0] = 3
    assert G.ggml_nelements(a) == 3
    b = G.ggml_sqr(c, a)
    graph = G.ggml_build_forward(b)
    assert [t.contents.name for t in graph.leafs[: graph.n_leafs]] == [b"mine"] and b.contents.name == b"node_0"
    b.contents.src0 = b
    with pytest.raises(ValueError, match="^ggml_graph_compute: .*sources were rewritten"):
        G.ggml_graph_compute(c, byref(graph))


def test_freed_context():
    c = context()
    t = G.ggml_new_tensor_1d(c, F32, 4)
    G.ggml_free(c)
    for call in (lambda: G.ggml_new_f32(c, 1), lambda: G.ggml_nbytes(t), lambda: G.ggml_free(c)):
        with pytest.raises(RuntimeError, match="^ggml_"):
            call()
    G.ggml_free(None)


# ---- graphs ----------------------------------------------------------------------------------------------------------
def test_graphs(c, capsys, tmp_path):
    x = tensor(c, [2.0])
    G.ggml_set_param(c, x)
    y = G.ggml_sqr(c, x)
    z = G.ggml_mul(c, y, x)
    gf = G.ggml_build_forward(y)
    G.ggml_build_forward_expand(byref(gf), z)
    assert gf.n_nodes == 3 and gf.n_leafs == 0 and gf.n_threads == 4
    gb = G.ggml_build_backward(c, byref(gf), False)
    for run in (1, 2):
        G.ggml_graph_reset(byref(gf))
        G.ggml_set_f32(z.contents.grad, 1.0)
        G.ggml_graph_compute(c, ctypes.pointer(gb))
        assert gb.perf_runs == run and values(z).item() == 8 and values(x.contents.grad).item() == 12
        same(values(y.contents.grad), [2.0])
    G.ggml_set_name(y, "square")
    assert G.ggml_graph_get_tensor(byref(gb), b"square") == y and not G.ggml_graph_get_tensor(byref(gb), b"?")
    G.ggml_graph_print(byref(gb))
    G.ggml_print_objects(c)
    G.ggml_print_object(G.ggml_object(1, 2))
    text = capsys.readouterr().out
    assert "square" in text and f"n_nodes = {gb.n_nodes}" in text and "offset = 1, size = 2" in text
    G.ggml_graph_dump_dot(byref(gb), byref(gf), str(tmp_path / "g.dot"))
    dot = (tmp_path / "g.dot").read_text()
    assert dot.startswith("digraph") and "square" in dot and dot.count("->") >= 3


def test_kept_gradients(c):
    """With keep, the nodes get new gradients. The backward pass may begin at a node that is not a scalar."""
    x = tensor(c, [1.0, 2, 3])
    G.ggml_set_param(c, x)
    y = G.ggml_sqr(c, x)
    gf = G.ggml_build_forward(y)
    before = x.contents.grad.contents.data
    gb = G.ggml_build_backward(c, byref(gf), True)
    assert x.contents.grad.contents.data != before
    G.ggml_graph_reset(byref(gf))
    G.ggml_set_f32(y.contents.grad, 0.5)
    G.ggml_graph_compute(c, byref(gb))
    same(values(x.contents.grad), [1.0, 2, 3])


# ---- recorded from the library of May 2023 ---------------------------------------------------------------------------
RECORDED = json.loads((DATA / "legacy.json").read_text())["cases"]


@pytest.fixture(scope="module")
def arrays():
    with np.load(DATA / "legacy.npz") as z:
        return {k: z[k] for k in z.files}


def replay(c, case, arrays):
    t = {n: tensor(c, arrays[s["data"]].reshape(s["ne"][::-1]), s["type"]) for n, s in case["tensors"].items()}
    for n, axes in case.get("perm", {}).items():
        t[n] = G.ggml_permute(c, t[n], *axes)
    args = [t[a["t"]] if isinstance(a, dict) else a for a in case["args"]]
    if case["fn"] == "ggml_map_unary_f32":
        args[-1] = lambda n, d, a: [d.__setitem__(i, a[i] * 2 + 1) for i in range(n)] and None
    if case["fn"] == "ggml_map_binary_f32":
        args[-1] = lambda n, d, a, b: [d.__setitem__(i, a[i] * b[i]) for i in range(n)] and None
    for n in case.get("grad", ()):
        G.ggml_set_param(c, t[n])
    result = getattr(G, case["fn"])(c, *args)
    if "grad" not in case:
        if case["fn"] in ("ggml_view_2d", "ggml_permute", "ggml_transpose"):
            result = G.ggml_cont(c, result)
        return compute(c, result).ravel()
    loss = G.ggml_sum(c, G.ggml_mul(c, result, t["w"]))
    gf = G.ggml_build_forward(loss)
    gb = G.ggml_build_backward(c, byref(gf), False)
    G.ggml_graph_reset(byref(gf))
    G.ggml_set_f32(loss.contents.grad, 1.0)
    G.ggml_graph_compute(c, byref(gb))
    return np.concatenate([values(t[n].contents.grad).ravel() for n in case["grad"]])


@pytest.mark.parametrize("case", [x for x in RECORDED if x["fn"] not in ("OPT", "QUANT")], ids=lambda x: x["id"])
def test_recorded(c, case, arrays):
    got, want = replay(c, case, arrays), arrays[case["id"] + "/out"].astype(float)
    if got.dtype == np.float16:  # recorded as their bytes
        got = got.view(np.uint8)
    got, finite = got.astype(float), np.isfinite(want)
    assert got.shape == want.shape and (np.isfinite(got) == finite).all()
    rounded = case["id"] in ("gelu", "silu", "grad_silu") or any(s["type"] == F16 for s in case["tensors"].values())
    error = ((got[finite] - want[finite]) ** 2).sum()
    assert error <= (5e-4 if rounded else 1e-6) * (want[finite] ** 2).sum()


@pytest.mark.parametrize("case", [x for x in RECORDED if x["fn"] == "QUANT"], ids=lambda x: x["id"])
def test_recorded_quantised(case, arrays):
    x, want = arrays[case["tensors"]["a"]["data"]], arrays[case["id"] + "/out"]
    for quantise in (getattr(G, case["args"][0]), None):
        out, hist = np.zeros(x.size * 2, np.uint8), np.zeros(16, np.int64)
        where = x.ctypes.data_as(POINTER(c_float)), ctypes.c_void_p(out.ctypes.data)
        counts = hist.ctypes.data_as(POINTER(c_int64))
        if quantise:
            n = quantise(*where, x.size, 64, counts)
        else:
            kind = {"q4_0": 2, "q4_1": 3, "q5_0": 6, "q5_1": 7, "q8_0": 8}[case["id"][-4:]]
            n = G.ggml_quantize_chunk(kind, *where, 0, 64, counts)
            n += G.ggml_quantize_chunk(kind, *where, 64, x.size - 64, counts)
        assert (out[:n] == want[:-16]).all() and (hist == want[-16:]).all()


# ---- optimisers ------------------------------------------------------------------------------------------------------
def quiet(kind, **fields):
    p = G.ggml_opt_default_params(kind)
    p.print_forward_graph = p.print_backward_graph = False
    for name, value in fields.items():
        setattr(p if hasattr(p, name) else p.lbfgs if kind == G.GGML_OPT_LBFGS else p.adam, name, value)
    return p


def parameter(c, start):
    t = tensor(c, start)
    G.ggml_set_param(c, t)
    return t


def rosenbrock(c):
    x, y = parameter(c, [-1.2]), parameter(c, [1.0])
    u, v = G.ggml_sub(c, tensor(c, [1.0]), x), G.ggml_sub(c, y, G.ggml_sqr(c, x))
    f = G.ggml_sum(c, G.ggml_add(c, G.ggml_sqr(c, u), G.ggml_scale(c, G.ggml_sqr(c, v), tensor(c, [100.0]))))
    return f, lambda x: (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2, [-1.2, 1.0]


def least_squares_data():
    rng = np.random.default_rng(1)
    a = rng.standard_normal((40, 8)).astype(np.float32)
    return a, (a @ rng.standard_normal(8) + 0.1 * rng.standard_normal(40)).astype(np.float32)


def least_squares(c):
    a, b = least_squares_data()
    w = parameter(c, np.zeros((1, 8)))
    f = G.ggml_sum(c, G.ggml_sqr(c, G.ggml_sub(c, G.ggml_mul_mat(c, tensor(c, a), w), tensor(c, b[None]))))
    return f, lambda x: ((a @ x - b) ** 2).sum(), np.zeros(8)


def logistic_regression(c):
    """Labels are -1 or 1. The loss is the mean of -log(sigmoid(m)) over the margins m = y * (A w), as a soft-max
    over (m, 0).
    """
    rng = np.random.default_rng(2)
    a = rng.standard_normal((60, 5)).astype(np.float32)
    y = np.where(a @ rng.standard_normal(5) + rng.standard_normal(60) > 0, 1, -1).astype(np.float32)
    w = parameter(c, np.zeros((1, 5)))
    margins = G.ggml_reshape_2d(c, G.ggml_mul_mat(c, tensor(c, a * y[:, None]), w), 1, 60)
    pairs = G.ggml_mul_mat(c, G.ggml_transpose(c, tensor(c, [[1.0, 0.0]])), margins)
    first = G.ggml_mul_mat(c, tensor(c, [[1.0, 0.0]]), G.ggml_soft_max(c, pairs))
    penalty = G.ggml_scale(c, G.ggml_sum(c, G.ggml_sqr(c, w)), tensor(c, [0.01]))
    f = G.ggml_add(c, G.ggml_scale(c, G.ggml_sum(c, G.ggml_log(c, first)), tensor(c, [-1 / 60])), penalty)
    return f, lambda x: np.log1p(np.exp(-y * (a @ x))).mean() + 0.01 * (x**2).sum(), np.zeros(5)


@pytest.mark.parametrize("problem", [rosenbrock, least_squares, logistic_regression])
@pytest.mark.parametrize("search", ["ARMIJO", "WOLFE", "STRONG_WOLFE"])
def test_lbfgs_converges_like_scipy(c, problem, search):
    minimize = pytest.importorskip("scipy.optimize").minimize
    f, reference, start = problem(c)
    best = minimize(reference, start, method="L-BFGS-B")
    limit = int(1.5 * best.nit) + 1
    search = getattr(G, "GGML_LINESEARCH_BACKTRACKING_" + search)
    result = G.ggml_opt(c, quiet(G.GGML_OPT_LBFGS, n_iter=limit, linesearch=search), f)
    if problem is rosenbrock and search == G.GGML_LINESEARCH_BACKTRACKING_STRONG_WOLFE:  # at the minimum within f32
        assert result in (G.GGML_OPT_OK, G.GGML_LINESEARCH_MAXIMUM_ITERATIONS)
    else:
        assert result == G.GGML_OPT_OK
    first = reference(np.asarray(start))
    assert G.ggml_get_f32_1d(f, 0) <= best.fun + 1e-6 * first


def test_adam_converges(c):
    f, _, _ = least_squares(c)
    best = np.linalg.lstsq(*least_squares_data(), rcond=None)[1].item()
    assert G.ggml_opt(c, quiet(G.GGML_OPT_ADAM, alpha=0.05, eps_f=1e-7), f) == G.GGML_OPT_OK
    assert G.ggml_get_f32_1d(f, 0) < best * 1.001


@pytest.mark.parametrize("case", [x for x in RECORDED if x["fn"] == "OPT"], ids=lambda x: x["id"])
def test_recorded_optimiser(c, case, arrays):
    t = {n: tensor(c, arrays[s["data"]].reshape(s["ne"][::-1])) for n, s in case["tensors"].items()}
    kind, _, search = case["args"][0].partition("_")
    p = quiet(G.GGML_OPT_ADAM if kind == "adam" else G.GGML_OPT_LBFGS)
    p.lbfgs.linesearch = {"armijo": 0, "strong": 2}.get(search, 1)
    for n in "ab":
        G.ggml_set_param(c, t[n])
    f = G.ggml_sum(c, G.ggml_sqr(c, G.ggml_sub(c, t["c"], G.ggml_mul_mat(c, t["a"], t["b"]))))
    _, start, end = arrays[case["id"] + "/out"]
    same(compute(c, f), start)
    G.ggml_opt(c, p, f)
    assert compute(c, f).item() <= max(1.5 * end, 1e-4 * start)


def test_result_codes(c, monkeypatch):
    def code(kind=G.GGML_OPT_LBFGS, f=None, **fields):
        return G.ggml_opt(c, quiet(kind, **fields), f or rosenbrock(c)[0])

    lbfgs, adam = G.GGML_OPT_LBFGS, G.GGML_OPT_ADAM
    assert code(lbfgs, n_iter=2) == code(adam, n_iter=2) == G.GGML_OPT_DID_NOT_CONVERGE
    assert code(lbfgs, wolfe=1.5) == code(lbfgs, wolfe=1e-5) == G.GGML_OPT_INVALID_WOLFE
    assert code(lbfgs, max_linesearch=1) == G.GGML_LINESEARCH_MAXIMUM_ITERATIONS
    assert code(lbfgs, min_step=1e3) == G.GGML_LINESEARCH_MINIMUM_STEP
    assert code(lbfgs, max_step=1e-9, linesearch=0) == G.GGML_LINESEARCH_MAXIMUM_STEP
    assert code(lbfgs, past=1, delta=0.9) == code(adam, past=3, delta=0.1) == G.GGML_OPT_OK
    assert code(adam, max_no_improvement=1, alpha=10.0) == G.GGML_OPT_OK
    assert code(f=G.ggml_log(c, parameter(c, [-1.0]))) == G.GGML_OPT_FAIL
    assert G.ggml_opt(None, quiet(lbfgs), rosenbrock(c)[0]) == G.GGML_OPT_OK
    monkeypatch.setattr(G._opt, "DEFAULT_ARENA", 1 << 61)
    assert G.ggml_opt(None, quiet(lbfgs), rosenbrock(c)[0]) == G.GGML_OPT_NO_CONTEXT


def test_gradients_after_a_temporary_context(c):
    """ggml_opt(None, ...) leaves the gradients of the nodes as they were: a backward graph can use them."""
    f = rosenbrock(c)[0]
    graph = G.ggml_build_forward(f)
    before = [t.contents.grad for t in graph.nodes[: graph.n_nodes]]
    for kind in (G.GGML_OPT_LBFGS, G.GGML_OPT_ADAM):
        assert G.ggml_opt(None, quiet(kind, n_iter=2), f) == G.GGML_OPT_DID_NOT_CONVERGE
        assert [t.contents.grad for t in graph.nodes[: graph.n_nodes]] == before
    backward = G.ggml_build_backward(c, byref(graph), False)
    G.ggml_graph_reset(byref(graph))
    G.ggml_set_f32(f.contents.grad, 1.0)
    G.ggml_graph_compute(c, byref(backward))
    (x, dx), (y, dy) = (
        (values(t).item(), values(t.contents.grad).item()) for t in graph.nodes[: graph.n_nodes] if t.contents.is_param
    )
    same(np.array([dx, dy]), [2 * (x - 1) - 400 * x * (y - x * x), 200 * (y - x * x)], 1e-3)


def test_default_params(capsys, c):
    p = G.ggml_opt_default_params(G.GGML_OPT_ADAM)
    assert (p.adam.n_iter, p.past, p.max_no_improvement) == (10000, 0, 100) and p.adam.beta2 == np.float32(0.999)
    p = G.ggml_opt_default_params(G.GGML_OPT_LBFGS)
    assert (p.lbfgs.m, p.lbfgs.n_iter, p.lbfgs.max_linesearch, p.lbfgs.linesearch) == (6, 100, 20, 1)
    G.ggml_opt(c, p, rosenbrock(c)[0])
    assert capsys.readouterr().out.count("=== GRAPH ===") == 2


# ---- other functions -------------------------------------------------------------------------------------------------
def test_half_precision():
    assert G.ggml_fp16_to_fp32(G.ggml_fp32_to_fp16(1.5)) == 1.5
    x = RNG.standard_normal(100).astype(np.float32)
    h, y = (G.ggml_fp16_t * 100)(), (c_float * 100)()
    G.ggml_fp32_to_fp16_row(x.ctypes.data_as(POINTER(c_float)), h, 100)
    G.ggml_fp16_to_fp32_row(h, y, 100)
    assert (np.array(y) == x.astype(np.float16)).all()


def test_time_and_cpu():
    G.ggml_time_init()
    before, ms, after = G.ggml_time_us(), G.ggml_time_ms(), G.ggml_time_us()
    assert before // 1000 <= ms <= after // 1000 and G.ggml_cycles_per_ms() > 0
    assert G.ggml_cycles() <= G.ggml_cycles()
    features = [n for n in dir(G) if n.startswith("ggml_cpu_has_")]
    assert len(features) == 17 and all(getattr(G, n)() in (0, 1) for n in features)
    import ggml

    assert G.ggml_cpu_has_avx2() == ggml.ggml_cpu_has_avx2() and G.ggml_cpu_has_cublas() == G.ggml_cpu_has_blas() == 0


@pytest.mark.parametrize("kind", [2, 3, 6, 7, 8])
def test_quantize_functions(kind):
    fns = G.ggml_internal_get_quantize_fn(kind)
    x, y = RNG.standard_normal((2, 64)).astype(np.float32)
    floats = [a.ctypes.data_as(POINTER(c_float)) for a in (x, y)]
    qx, qy, back, dot = (
        ctypes.create_string_buffer(256),
        ctypes.create_string_buffer(256),
        (c_float * 64)(),
        c_float(),
    )
    for quantise in (fns.quantize_row_q, fns.quantize_row_q_reference):
        quantise(floats[0], qx, 64)
        fns.dequantize_row_q(qx, back, 64)
        assert np.abs(np.array(back) - x).max() < (0.02 if kind == 8 else 0.3)
    fns.quantize_row_q_dot(floats[1], qy, 64)
    fns.vec_dot_q(64, byref(dot), qx, qy)
    assert abs(dot.value - np.array(back) @ y) < 0.2 and fns.vec_dot_type in (8, 9)
    assert not G.ggml_internal_get_quantize_fn(0).vec_dot_q


TESTED = set(OPERATIONS) | set(
    """
    ggml_init ggml_free ggml_used_mem ggml_set_scratch ggml_print_object ggml_print_objects ggml_nelements ggml_nbytes
    ggml_blck_size ggml_type_size ggml_type_sizef ggml_type_name ggml_element_size ggml_is_quantized ggml_new_tensor
    ggml_ftype_to_ggml_type ggml_new_tensor_1d ggml_new_tensor_2d ggml_new_tensor_3d ggml_new_tensor_4d ggml_new_i32
    ggml_new_f32 ggml_dup_tensor ggml_view_tensor ggml_set_zero ggml_set_i32 ggml_set_f32 ggml_get_i32_1d
    ggml_set_i32_1d ggml_get_f32_1d ggml_set_f32_1d ggml_get_data ggml_get_data_f32 ggml_get_name ggml_set_name
    ggml_set_param ggml_build_forward ggml_build_forward_expand ggml_build_backward ggml_graph_compute ggml_graph_reset
    ggml_graph_print ggml_graph_dump_dot ggml_opt ggml_opt_default_params ggml_quantize_q4_0 ggml_quantize_q4_1
    ggml_quantize_q5_0 ggml_quantize_q5_1 ggml_quantize_q8_0 ggml_quantize_chunk ggml_internal_get_quantize_fn
    ggml_fp16_to_fp32 ggml_fp32_to_fp16 ggml_fp16_to_fp32_row ggml_fp32_to_fp16_row ggml_time_init ggml_time_ms
    ggml_time_us ggml_cycles ggml_cycles_per_ms ggml_cpu_has_avx ggml_cpu_has_avx2 ggml_cpu_has_avx512
    ggml_cpu_has_avx512_vbmi ggml_cpu_has_avx512_vnni ggml_cpu_has_fma ggml_cpu_has_neon ggml_cpu_has_arm_fma
    ggml_cpu_has_f16c ggml_cpu_has_fp16_va ggml_cpu_has_wasm_simd ggml_cpu_has_blas ggml_cpu_has_cublas
    ggml_cpu_has_clblast ggml_cpu_has_gpublas ggml_cpu_has_sse3 ggml_cpu_has_vsx""".split()
)
LATER = set(
    """ggml_op_name ggml_tensor_overhead ggml_set_no_alloc ggml_get_mem_buffer ggml_get_mem_size ggml_get_tensor
    ggml_graph_get_tensor""".split()
)  # in bindings to a header that is a few days younger
FUNCTIONS = sorted(n for n in dir(G) if inspect.isfunction(getattr(G, n)) and n.startswith("ggml_"))


def test_every_function_exists():
    assert set(FUNCTIONS) == TESTED | LATER and len(TESTED) == 148


def docstring_sections(text):
    """The lines of a docstring by the section that they belong to; those of the description are under ""."""
    sections, current = {"": []}, ""
    for line in text.splitlines():
        heading = re.fullmatch(r"(Args|Returns|Raises|Example|See also):", line)
        if heading:
            current = heading[1]
            assert current not in sections, f"{current} appears twice"
            sections[current] = []
        elif current and line and not line.startswith("    "):
            raise AssertionError(f"{line!r} is not indented below {current}")
        else:
            sections[current].append(line)
    return sections


@pytest.mark.parametrize("name", FUNCTIONS)
def test_docstring(name):
    """Each has a summary in one line, its arguments in order, its result and its errors."""
    text = inspect.getdoc(getattr(G, name))
    parameters = list(inspect.signature(getattr(G, name)).parameters)
    summary, *rest = text.splitlines()
    assert re.fullmatch(r"[A-Z].*\.", summary) and (not rest or rest[0] == ""), "summary"
    sections = docstring_sections(text)
    entries = [re.match(r"    (\w+): \S", line) for line in sections.get("Args", ()) if line[4:5] != " "]
    assert [entry and entry[1] for entry in entries] == parameters, "Args"
    assert "".join(sections["Returns"]).strip().endswith("."), "Returns"
    errors = [line for line in sections.get("Raises", ()) if line[4:5] != " "]
    assert all(re.match(r"    \w+Error: \S", line) for line in errors), "Raises"
    assert len(errors) >= bool(parameters), "Raises"


def test_docstrings_differ():
    texts = [inspect.getdoc(getattr(G, name)) for name in FUNCTIONS]
    assert len(set(texts)) == len(texts)
    summaries = [text.splitlines()[0] for text in texts]
    assert len(set(summaries)) == len(summaries)


def test_bad_input_raises(child):
    """Every function with invalid objects, in a child process that must survive. Errors begin with the function's
    name.
    """
    code = """
import ctypes, inspect, itertools, sys
import ggml.legacy as G
c = G.ggml_init(G.ggml_init_params(1 << 20, None, False))
t = G.ggml_new_tensor_2d(c, 0, 4, 4)
gone = G.ggml_init(G.ggml_init_params(1 << 20, None, False))
stale = G.ggml_new_tensor_2d(gone, 0, 4, 4)
G.ggml_free(gone)
bad = [None, -1, 1 << 70, 5, 2.5, "x", object(), ctypes.c_void_p(64), G.ggml_tensor_p(), stale,
       ctypes.cast(4096, ctypes.POINTER(G.ggml_cgraph)), G.ggml_cgraph(n_nodes=-1), G.ggml_cgraph(n_nodes=2),
       float("nan")]
raised = 0
for name in sys.argv[1].split():
    function = getattr(G, name)
    n = len(inspect.signature(function).parameters)
    for first, rest in itertools.product([c, t, *bad], bad):
        args = ([first] + [t if i == 1 and rest is bad[3] else rest for i in range(1, n)])[:n]
        if name == "ggml_free" and first == c:
            continue
        try:
            function(*args)
        except Exception as e:
            raised += 1
            assert str(e).startswith(name + ":"), (name, args, repr(e))
print(raised)
"""
    assert int(child(code, " ".join(FUNCTIONS), timeout=120).split()[-1]) > 10000
