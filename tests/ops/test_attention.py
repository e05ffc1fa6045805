"""Attention beyond the table of operations: sinks, precision, threads, and the corrections of YaRN."""

import ctypes

import numpy as np
import pytest
from cases import Random
from cases.attention import FLASH, attention, qkv
from cases.harness import (
    ISAS,
    close,
    compute,
    context,
    difference,
    elements,
    gradients,
    graph_of,
    isa,
    load,
    memory,
    tensor,
)
from cases.samples import tiled
from cases.softmax import slopes

import ggml

WITH_SINKS = (
    lambda r: [*qkv(r, 5, 3, 4, 6, (2, 1)), None, 0.5, 0.0, 0.0],
    lambda r: [*qkv(r, 4, 2, 2, 5, (6, 3), (2, 1)), r(7, 4, 1, 2), 0.7, 8.0, 3.0],
    lambda r: [*qkv(r, 64, 64, 1, 1500, (8, 2)), r(1500, 1), 0.12, 0.0, 0.0],
    lambda r: [*qkv(r, 64, 64, 150, 300, (2, 1)), np.where(r(300, 150) < 0, -np.inf, 0.0), 0.12, 0.0, 0.0],
    lambda r: [*qkv(r, 8, 8, 3, 5, (2, 2)), np.full((1, 1, 3, 5), -np.inf), 0.3, 0.0, 0.0],
)


def on_each_isa(ctx, graph, check):
    for name in ISAS:
        with isa(name):
            for threads in (1, 2, 3):
                ggml.ggml_graph_reset(graph)
                compute(ctx, graph, threads)
                check(f"{name}, {threads} threads")


@pytest.mark.parametrize("i", range(len(WITH_SINKS)))
def test_sinks(i):
    r = Random(i)
    args = WITH_SINKS[i](r)
    sinks = r(args[0].shape[1]) * 2
    want = attention(*args, sinks=sinks)
    with context() as ctx:
        out = ggml.ggml_flash_attn_ext(ctx, *(tensor(ctx, a, "F32") if isinstance(a, np.ndarray) else a for a in args))
        ggml.ggml_flash_attn_ext_add_sinks(out, tensor(ctx, sinks, "F32"))
        graph = graph_of(ctx, out, grads=True)
        on_each_isa(ctx, graph, lambda note: close(load(out), want, 1e-5, note))


@pytest.mark.parametrize("i", (0, 1))
def test_gradients_with_sinks(i):
    r = Random(i)
    args = WITH_SINKS[i](r)
    arrays = [*(a for a in args[:4] if a is not None), r(args[0].shape[1])]
    weights = r(*attention(*args).shape[::-1])

    def loss():
        mask = arrays[3] if args[3] is not None else None
        return float((attention(*arrays[:3], mask, *args[4:], sinks=arrays[-1]) * weights).sum())

    with context() as ctx:
        params = [tensor(ctx, a, "F32") for a in arrays]
        for t in params:
            ggml.ggml_set_param(t)
        out = ggml.ggml_flash_attn_ext(ctx, *params[:3], params[3] if args[3] is not None else None, *args[4:])
        ggml.ggml_flash_attn_ext_add_sinks(out, params[-1])
        check_gradients(ctx, out, weights, params, [difference(loss, a) for a in arrays])


@pytest.mark.parametrize("max_bias", (0.0, 8.0))
def test_gradients_of_soft_max_with_sinks(max_bias):
    r = Random(3)
    x, mask, sinks, weights = r(7, 3, 6, 2), r(7, 5, 2), r(6), r(7, 3, 6, 2)

    def loss():
        e = np.exp(x * 0.5 + slopes(6, max_bias)[:, None, None] * tiled(mask[:, :, :3], x))
        return float((e / (e.sum(-1, keepdims=True) + np.exp(sinks.reshape(-1, 1, 1))) * weights).sum())

    with context() as ctx:
        params = [tensor(ctx, a, "F32") for a in (x, mask, sinks)]
        for t in params:
            ggml.ggml_set_param(t)
        out = ggml.ggml_soft_max_ext(ctx, params[0], params[1], 0.5, max_bias)
        ggml.ggml_soft_max_add_sinks(out, params[2])
        check_gradients(ctx, out, weights, params, [difference(loss, a) for a in (x, mask, sinks)])


def check_gradients(ctx, out, weights, params, want):
    loss = ggml.ggml_sum(ctx, ggml.ggml_mul(ctx, out, tensor(ctx, weights, "F32")))
    ggml.ggml_set_loss(loss)
    graph = graph_of(ctx, loss, grads=True)
    ggml.ggml_build_backward_expand(ctx, graph, None)

    def check(note):
        for i, (t, w) in enumerate(zip(params, want)):
            close(load(ggml.ggml_graph_get_grad(graph, t)), w, 2e-4, f"{note}, operand {i}")

    on_each_isa(ctx, graph, check)


@pytest.mark.parametrize("queries", (1, 5, 70))
@pytest.mark.parametrize("type", ("F32", "F16", "Q8_0"))
def test_values_of_hidden_keys_do_not_matter(queries, type):
    """A cache is longer than the part that has been written."""
    r = Random(queries)
    q, k, v = qkv(r, 32, 32, queries, 300, (4, 2))
    mask = r(300, queries)
    mask[..., :40] = -np.inf
    mask[..., 100:240:3] = -np.inf
    mask[..., 270:] = -np.inf
    mask[..., -1, 50:] = -np.inf
    hidden = np.isinf(mask).all(axis=(0, 1, 2))
    with context() as ctx:
        parts = [tensor(ctx, q, "F32"), *(tensor(ctx, x, type) for x in (k, v)), tensor(ctx, mask, "F16")]
        graph = graph_of(ctx, out := ggml.ggml_flash_attn_ext(ctx, *parts, 0.2, 0.0, 0.0))
        clean = {}
        for rest in (0, 0xFF):
            for part in parts[1:3]:
                memory(part).reshape(2, 300, -1)[:, hidden] = rest
            for name in ISAS:
                with isa(name):
                    compute(ctx, graph, 2)
                    np.testing.assert_array_equal(load(out), clean.setdefault(name, load(out)))
        assert np.isfinite(load(out)).all()


def masks_of(keys, queries):
    """Masks by name: what a block of keys shows to a strip of rows, alone or beside rows that see something else."""
    key, query = np.arange(keys), np.arange(queries)[:, None]
    last = query + keys - queries
    shown = {
        "all": True,
        "causal": key <= last,
        "window": (key <= last) & (key > last - 70),
        "chunks": (key <= last) & (key >= last // 90 * 90),
        "two texts": (key < 150) == (query % 2 == 0),
        "some rows": (query % 3 > 0) & (key >= 130) & (key < 140 + query),
        "holes": (key % 97 != 5) & (key // 64 % 2 == 0),
    }
    return {name: np.where(np.broadcast_to(part, (queries, keys)), 0.0, -np.inf) for name, part in shown.items()}


@pytest.mark.parametrize("type", ("F16", "F32"))
@pytest.mark.parametrize("queries", (5, 75))
def test_masks(queries, type):
    r = Random(queries)
    q, k, v = qkv(r, 20, 37, queries, 330, (2, 1))
    for name, mask in masks_of(330, queries).items():
        if name == "some rows":
            mask = mask + r(330, queries).reshape(queries, 330).astype(np.float16)
        want = attention(q, k, v, mask[None, None], 0.3, 0.0, 0.0)
        with context() as ctx:
            parts = [*(tensor(ctx, x, "F32") for x in (q, k, v)), tensor(ctx, mask, type)]
            graph = graph_of(ctx, out := ggml.ggml_flash_attn_ext(ctx, *parts, 0.3, 0.0, 0.0))
            for each in ISAS:
                with isa(each):
                    compute(ctx, graph, 2)
                    close(load(out), want, 1e-5, f"{name}, {each}")


def test_exponentials_beside_masked_logits():
    """Those of hidden, subnormal and other logits do not depend on each other."""
    x = np.zeros((3, 96), np.float32)
    x[0], x[1], x[2] = -np.arange(96) * 0.7, -np.inf, np.where(np.arange(96) % 5 == 2, -95, -np.inf)
    x = np.ascontiguousarray(x.T).reshape(1, -1)
    x[0, 0] = 0
    want = np.exp(x.astype(np.float64))
    want /= want.sum()
    for name in ISAS:
        with isa(name), context() as ctx:
            graph = graph_of(ctx, out := ggml.ggml_soft_max(ctx, tensor(ctx, x, "F32")))
            compute(ctx, graph, 1)
            np.testing.assert_allclose(load(out).reshape(1, -1), want, rtol=1e-5, atol=3e-45, err_msg=name)


@pytest.mark.parametrize("i", range(len(FLASH)))
def test_results_do_not_depend_on_the_number_of_threads(i):
    with context() as ctx:
        args = FLASH[i](Random(i))
        out = ggml.ggml_flash_attn_ext(
            ctx,
            *(
                tensor(ctx, a, "F16" if 0 < k < 4 else "F32") if isinstance(a, np.ndarray) else a
                for k, a in enumerate(args)
            ),
        )
        graph = graph_of(ctx, out)
        compute(ctx, graph, 1)
        first = elements(out).copy()
        for threads in (2, 3, 5, 8):
            compute(ctx, graph, threads)
            np.testing.assert_array_equal(elements(out), first)


@pytest.mark.parametrize(
    "shape", ((64, 48, 150, 200, (6, 3)), (8, 8, 70, 300, (4, 2), (2, 1)), (16, 16, 9, 140, (1, 1)))
)
def test_gradients_do_not_depend_on_the_number_of_threads(shape):
    """Threads take whole sets of rows, or, if there are too few sets, go through the keys in a second pass."""
    r = Random(3)
    arrays = qkv(r, *shape)
    mask = np.where(r(arrays[1].shape[2], arrays[0].shape[2]) < -0.8, -np.inf, 0.0)
    mask[..., 130:] = -np.inf
    with context() as ctx:
        params = [tensor(ctx, a, "F32") for a in arrays]
        for t in params:
            ggml.ggml_set_param(t)
        out = ggml.ggml_flash_attn_ext(ctx, *params, tensor(ctx, mask, "F16"), 0.2, 0.0, 0.0)
        for note, got in gradients(ctx, ggml.ggml_sqr(ctx, out), params, (1, 2, 3, 4, 7)):
            assert all(np.isfinite(g).all() and g.any() for g in got), note


def test_precision_and_sinks_are_checked(ctx):
    r = Random(1)
    out = ggml.ggml_flash_attn_ext(
        ctx, *(tensor(ctx, a, "F32") for a in qkv(r, 4, 4, 2, 3, (2, 1))), None, 0.5, 0.0, 0.0
    )
    assert ggml.ggml_flash_attn_ext_get_prec(out) == ggml.GGML_PREC_DEFAULT
    ggml.ggml_flash_attn_ext_set_prec(out, ggml.GGML_PREC_F32)
    assert ggml.ggml_flash_attn_ext_get_prec(out) == ggml.GGML_PREC_F32
    with pytest.raises(ValueError, match=r"sinks is f32 \[3\]"):
        ggml.ggml_flash_attn_ext_add_sinks(out, tensor(ctx, r(3), "F32"))
    assert not out.contents.src[4]
    with pytest.raises(ValueError, match="not a result of ggml_flash_attn_ext"):
        ggml.ggml_flash_attn_ext_get_prec(tensor(ctx, r(3), "F32"))


def test_yarn_corr_dims():
    """32 turns and one turn within 4,096 positions, computed by hand: 128 ln(4096 / (2 pi n)) / (2 ln 10000)."""
    dims = (ctypes.c_float * 2)()
    ggml.ggml_rope_yarn_corr_dims(128, 4096, 10000.0, 32.0, 1.0, dims)
    assert list(dims) == [20.0, 46.0]
    with pytest.raises(ValueError, match="n_orig_ctx is 0"):
        ggml.ggml_rope_yarn_corr_dims(128, 0, 10000.0, 32.0, 1.0, dims)


def test_far_positions_are_exact():
    """The sine of the angle at position 10^9 is accurate to f32; an angle in f32 would have no correct digit."""
    with context() as ctx:
        position = tensor(ctx, np.array([[[[999_999_937]]]], np.int32), "I32")
        out = ggml.ggml_rope(ctx, tensor(ctx, np.array([[[[1.0, 0.0]]]]), "F32"), position, 2, 0)
        compute(ctx, graph_of(ctx, out))
        np.testing.assert_allclose(load(out).ravel(), [np.cos(999_999_937.0), np.sin(999_999_937.0)], atol=3e-7)


@pytest.mark.parametrize("heads", range(1, 9))
def test_few_rows_of_q8_0(heads):
    """Keys and values of Q8_0 are read where they lie: any number of rows and keys, as of the decoded floats."""
    r = Random(heads)
    for n_kv in (1, 3, 4, 18, 263):
        q, k, v = qkv(r, 64, 96, 1, n_kv, (heads, 1))
        with context() as ctx:
            parts = [tensor(ctx, x, "Q8_0") for x in (k, v)]
            floats = [ggml.ggml_cast(ctx, x, ggml.GGML_TYPE_F32) for x in parts]
            out = ggml.ggml_flash_attn_ext(ctx, tensor(ctx, q, "F32"), *parts, None, 0.2, 0.0, 0.0)
            compute(ctx, graph := graph_of(ctx, out, *floats))
            want = attention(q, *map(load, floats), None, 0.2, 0.0, 0.0)
            for name in ISAS:
                with isa(name):
                    compute(ctx, graph, 2)
                    close(load(out), want, 1e-5, f"{name}, {n_kv} keys")
