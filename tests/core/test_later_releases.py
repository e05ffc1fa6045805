"""What later releases of the C library added, and the script that compares their headers with the manifest."""

import ctypes
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cases.rope import NEOX, NORMAL, YARN, rotate

import ggml
from ggml.utils import from_numpy, to_numpy

F32 = ggml.GGML_TYPE_F32
SCRIPT = Path(__file__).parents[2] / "scripts" / "upstream.py"


# ---- types and constants ---------------------------------------------------------------------------------------------
def test_the_new_type_leaves_the_numbers_of_the_bindings_alone():
    assert ggml.GGML_TYPE_Q2_0 == 42 and ggml.GGML_TYPE_COUNT == 42 and ggml.GGML_FTYPE_MOSTLY_Q2_0 == 28
    assert ggml.ggml_type_name(42) == b"q2_0" and ggml.ggml_type_name(43) is None
    assert (ggml.ggml_blck_size(42), ggml.ggml_type_size(42)) == (64, 18)
    assert ggml.ggml_ftype_to_ggml_type(ggml.GGML_FTYPE_MOSTLY_Q2_0) == ggml.GGML_TYPE_Q2_0
    assert ggml.ggml_cpu_has_sme2() == 0


def test_all_four_codes_of_the_new_type(ctx):
    tensor = ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_Q2_0, 64)
    block = np.float16(0.5).tobytes() + bytes([0b11100100] * 16)
    ctypes.memmove(tensor.contents.data, block, 18)
    assert to_numpy(tensor).tolist() == [-0.5, 0.0, 0.5, 1.0] * 16


# ---- shapes ----------------------------------------------------------------------------------------------------------
def test_contiguous_up_to_a_dimension(ctx):
    x = ggml.ggml_new_tensor_4d(ctx, F32, 6, 4, 3, 2)
    functions = [getattr(ggml, f"ggml_is_contiguous_to_{n}") for n in (1, 2, 3)]

    def check(tensor):
        return [f(tensor) for f in functions]

    assert check(x) == [True] * 3
    row, matrix, cube = x.contents.nb[1:4]
    assert check(ggml.ggml_view_4d(ctx, x, 3, 4, 3, 2, row, matrix, cube, 0)) == [True, False, False]
    assert check(ggml.ggml_view_4d(ctx, x, 6, 2, 3, 2, row, matrix, cube, 0)) == [True, True, False]
    assert check(ggml.ggml_view_4d(ctx, x, 6, 4, 2, 2, row, matrix, cube, 0)) == [True, True, True]
    assert check(ggml.ggml_transpose(ctx, x)) == [False] * 3
    assert check(ggml.ggml_transpose(ctx, ggml.ggml_new_tensor_2d(ctx, F32, 1, 5))) == [True] * 3
    with pytest.raises(TypeError, match="^ggml_is_contiguous_to_2: "):
        functions[1](5)


def test_shape_of_a_tensor_in_a_file(ctx):
    file = ggml.gguf_init_empty()
    try:
        tensor = ggml.ggml_new_tensor_3d(ctx, F32, 5, 1, 3)
        ggml.ggml_set_name(tensor, b"t")
        ggml.gguf_add_tensor(file, tensor)
        ne = ggml.gguf_get_tensor_ne(file, 0)
        assert list(ne) == [5, 1, 3, 1] and ne._type_ is ctypes.c_int64
        with pytest.raises(ValueError, match="^gguf_get_tensor_ne: "):
            ggml.gguf_get_tensor_ne(file, 1)
    finally:
        ggml.gguf_free(file)


# ---- graphs ----------------------------------------------------------------------------------------------------------
def test_order_without_computing(ctx):
    x = from_numpy(np.array([1, 2], np.float32), ctx)
    first, skipped = ggml.ggml_sqr(ctx, x), ggml.ggml_neg(ctx, x)
    last = ggml.ggml_add(ctx, x, x)
    to_numpy(skipped)[:] = 7
    graph = ggml.ggml_new_graph(ctx)
    for tensor in (first, skipped):
        assert ggml.ggml_build_forward_order(graph, tensor) is None
    ggml.ggml_build_forward_expand(graph, last)
    ggml.ggml_build_forward_expand(graph, first)
    order = [ggml.ggml_graph_node(graph, i) for i in range(ggml.ggml_graph_n_nodes(graph))]
    assert order == [first, skipped, last]
    ggml.ggml_graph_compute_with_ctx(ctx, graph, 1)
    assert to_numpy(first).tolist() == [1, 4] and to_numpy(last).tolist() == [2, 4]
    assert to_numpy(skipped).tolist() == [7, 7]
    with pytest.raises(TypeError, match="^ggml_build_forward_order: "):
        ggml.ggml_build_forward_order(graph, None)


# ---- rotary embeddings with an offset --------------------------------------------------------------------------------
SHAPE, N_DIMS = (3, 2, 22), 8  # tokens, heads, elements of a row


def shifted(x, positions, factors, offset, mode, sign=1):
    """The reference: elements offset to offset + N_DIMS - 1 are rotated, the others copied."""
    y, part = x.astype(np.float64)[None].copy(), slice(offset, offset + N_DIMS)
    y[..., part] = rotate(y[..., part], positions, factors, N_DIMS, None, mode, *YARN, sign=sign)
    return y[0]


@pytest.mark.parametrize("mode", [NORMAL, NEOX])
@pytest.mark.parametrize("offset", [0, 4, 7, 14])
def test_rotation_of_a_part(ctx, mode, offset):
    rng = np.random.default_rng(offset)
    x, w = (rng.standard_normal(SHAPE).astype(np.float32) for _ in "xw")
    positions, factors = np.array([0, 5, 9], np.int32), rng.uniform(0.5, 2, N_DIMS // 2).astype(np.float32)
    a, p, c = from_numpy(x, ctx), from_numpy(positions, ctx), from_numpy(factors, ctx)
    ggml.ggml_set_param(a)
    ggml.ggml_set_param(c)
    out = ggml.ggml_rope_ext(ctx, a, p, c, N_DIMS, mode, *YARN)
    assert ggml.ggml_rope_set_offset(out, offset) == out
    loss = ggml.ggml_sum(ctx, ggml.ggml_mul(ctx, out, from_numpy(w, ctx)))
    ggml.ggml_set_loss(loss)
    graph = ggml.ggml_new_graph_custom(ctx, 64, True)
    ggml.ggml_build_forward_expand(graph, loss)
    ggml.ggml_build_backward_expand(ctx, graph, None)
    back = ggml.ggml_rope_set_offset(ggml.ggml_rope_ext_back(ctx, a, p, c, N_DIMS, mode, *YARN), offset)
    inplace = ggml.ggml_rope_ext_inplace(ctx, ggml.ggml_dup(ctx, a), p, c, N_DIMS, mode, *YARN)
    ggml.ggml_rope_set_offset(inplace, offset)
    for tensor in (back, inplace):
        ggml.ggml_build_forward_expand(graph, tensor)
    ggml.ggml_graph_compute_with_ctx(ctx, graph, 2)

    want = shifted(x, positions, factors, offset, mode)
    np.testing.assert_allclose(to_numpy(out), want, atol=1e-5)
    np.testing.assert_allclose(to_numpy(inplace), want, atol=1e-5)
    np.testing.assert_allclose(to_numpy(back), shifted(x, positions, factors, offset, mode, -1), atol=1e-5)
    gradient = shifted(w, positions, factors, offset, mode, -1)  # the transposed rotation
    np.testing.assert_allclose(to_numpy(ggml.ggml_graph_get_grad(graph, a)), gradient, atol=1e-5)
    for i in range(len(factors)):
        moved = [factors.astype(np.float64) + d * (np.arange(len(factors)) == i) for d in (1e-5, -1e-5)]
        up, down = ((shifted(x, positions, f, offset, mode) * w).sum() for f in moved)
        found = to_numpy(ggml.ggml_graph_get_grad(graph, c))[i]
        assert abs(found - (up - down) / 2e-5) < 1e-3 * max(1, abs(found))


def test_invalid_offsets_change_nothing(ctx):
    a, p = ggml.ggml_new_tensor_3d(ctx, F32, 22, 2, 3), ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_I32, 3)
    out = ggml.ggml_rope(ctx, a, p, N_DIMS, 0)
    ggml.ggml_rope_set_offset(out, 3)
    for offset in (-1, 15, 2**31 - 1):
        with pytest.raises(ValueError, match=f"^ggml_rope_set_offset: n_offs is {offset}, n_dims is 8, a is f32"):
            ggml.ggml_rope_set_offset(out, offset)
    assert out.contents.op_params[15] == 3
    with pytest.raises(ValueError, match="need the result of a ggml_rope function"):
        ggml.ggml_rope_set_offset(a, 0)
    four = ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_I32, 12)
    sections = (ctypes.c_int * 4)(3, 3, 0, 0)
    vision = ggml.ggml_rope_multi(ctx, a, four, None, 10, sections, 8, 0, 1e4, 1, 0, 1, 0, 0)
    ggml.ggml_rope_set_offset(vision, 2)
    whole = ggml.ggml_new_tensor_3d(ctx, F32, 12, 2, 3)
    mode = ggml.GGML_ROPE_TYPE_VISION
    vision = ggml.ggml_rope_multi(ctx, whole, four, None, 6, sections, mode, 0, 1e4, 1, 0, 1, 0, 0)
    with pytest.raises(ValueError, match="mode VISION rotates whole rows"):
        ggml.ggml_rope_set_offset(vision, 2)


# ---- the script ------------------------------------------------------------------------------------------------------
HEADER = """
#define GGML_ROPE_TYPE_NEW 64
#define GGML_MAX_DIMS 4
enum ggml_type {
    GGML_TYPE_F32 = 0, // as before
    GGML_TYPE_I32,
    GGML_TYPE_Q2_0 = 42, /* ggml_comment(void); */
    GGML_TYPE_COUNT = 43,
};
typedef void (*ggml_log_callback)(int level, const char * text, void * user_data);
GGML_API void ggml_build_forward_order(struct ggml_cgraph * cgraph, struct ggml_tensor * tensor);
GGML_DEPRECATED(GGML_API struct ggml_tensor * ggml_of_another_planet(
        struct ggml_context * ctx, int64_t ne[4], void (*f)(int, void *)),
    "use none");
GGML_API int64_t ggml_nelements (const struct ggml_tensor * tensor);
GGML_API int ggml_cpu_has_avx2(int extra);
static inline int ggml_inline(void) { return ggml_nrows(NULL); }
"""


def test_headers_are_compared_with_the_manifest(tmp_path):
    (tmp_path / "ggml.h").write_text(HEADER)
    done = subprocess.run([sys.executable, SCRIPT, tmp_path / "ggml.h"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [line.split(maxsplit=2) for line in done.stdout.splitlines()] == [
        ["new", "function", "have  ggml_build_forward_order(cgraph, tensor)"],
        ["new", "function", "ggml_of_another_planet(ctx, ne, f)"],
        ["changed", "ggml_cpu_has_avx2(extra),", "before ()"],
        ["new", "constant", "GGML_ROPE_TYPE_NEW = 64"],
        ["changed", "GGML_TYPE_I32", "= 1, before 26"],
        ["new", "constant", "have  GGML_TYPE_Q2_0 = 42"],
        ["changed", "GGML_TYPE_COUNT", "= 43, before 42"],
    ]
    (tmp_path / "empty.h").write_text("int main(void);")
    done = subprocess.run([sys.executable, SCRIPT, tmp_path / "empty.h"], capture_output=True, text=True)
    assert done.returncode == 1 and "need headers of ggml" in done.stderr
    done = subprocess.run([sys.executable, SCRIPT, tmp_path / "missing.h"], capture_output=True, text=True)
    assert done.returncode == 2 and "missing.h is not read: No such file" in done.stderr and "Trace" not in done.stderr
