"""ggml.ext.paged_attention: against attention in float64, one sequence at a time."""

import cases.attention as reference
import numpy as np
import pytest

import ggml
from ggml.utils import to_numpy

TYPES = {"f32": ggml.GGML_TYPE_F32, "f16": ggml.GGML_TYPE_F16, "bf16": ggml.GGML_TYPE_BF16, "q8_0": ggml.GGML_TYPE_Q8_0}
BATCH = [(0, 1, 1), (1, 0, 0), (1, 5, 5), (6, 1, 300), (7, 40, 700), (47, 1, 90), (48, 200, 260)]  # first, rows, keys


def run(batch, types=("f32", "f32"), d=32, dv=32, heads=(4, 2), page=32, threads=1, seed=0, scattered=True, rows=0,
        sinks=None, **options):  # fmt: skip
    """The result of a batch of (first row, rows, keys), and that of attention in float64 to what the pool holds."""
    rng = np.random.default_rng(seed)
    rows = rows or max(first + n for first, n, _ in batch) + 2
    most = max(-(-keys // page) for *_, keys in batch)
    cells = page * (sum(-(-keys // page) for *_, keys in batch) + 3)
    queries = rng.standard_normal((rows, heads[0], d), np.float32)
    order = rng.permutation(cells // page) if scattered else np.arange(cells // page)
    table = np.full((len(batch), 3 + most), -7, np.int32)
    texts, taken = [], 0
    for i, (first, n, keys) in enumerate(batch):
        text = np.random.default_rng(100 + i)
        texts.append([text.standard_normal((heads[1], keys, size), np.float32) for size in (d, dv)])
        pages = order[taken : taken + -(-keys // page)]
        table[i, :3], table[i, 3 : 3 + len(pages)] = (first, n, keys), pages
        taken += len(pages)
    ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=256 << 20))
    try:
        pools, held = [], []
        for which, size in enumerate((d, dv)):
            values = np.full((heads[1], cells, size), np.nan, np.float32)
            for column, text in zip(table, texts, strict=True):
                for key in range(column[2]):
                    cell = column[3 + key // page] * page + key % page
                    values[:, cell] = text[which][:, key]
            if types[which] == "q8_0":
                values = np.nan_to_num(values)
            source = ggml.ggml_new_tensor_3d(ctx, ggml.GGML_TYPE_F32, size, cells, heads[1])
            to_numpy(source).reshape(values.shape)[...] = values
            pools.append(ggml.ggml_cast(ctx, source, TYPES[types[which]]))
            held.append(ggml.ggml_cast(ctx, pools[-1], ggml.GGML_TYPE_F32))
        q = ggml.ggml_new_tensor_3d(ctx, ggml.GGML_TYPE_F32, d, heads[0], rows)
        to_numpy(q)[...] = queries
        places = ggml.ggml_new_tensor_2d(ctx, ggml.GGML_TYPE_I32, table.shape[1], len(batch))
        to_numpy(places)[...] = table
        if sinks is not None:
            given = ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_F32, heads[0])
            to_numpy(given)[...] = sinks
            options["sinks"] = given
        y = ggml.ext.paged_attention(ctx, q, *pools, places, 0.3, page, **options)
        graph = ggml.ggml_new_graph(ctx)
        for t in (y, *held):
            ggml.ggml_build_forward_expand(graph, t)
        assert ggml.ggml_graph_compute_with_ctx(ctx, graph, threads) == 0
        result, (k, v) = (
            to_numpy(y).copy().reshape(rows, heads[0], dv),
            (to_numpy(t).copy().reshape(heads[1], cells, -1) for t in held),
        )
    finally:
        ggml.ggml_free(ctx)
    expected = np.zeros((rows, heads[0], dv))
    for first, n, keys, *pages in table.tolist():
        where = [pages[key // page] * page + key % page for key in range(keys)]
        hidden = np.arange(keys) > np.arange(keys - n, keys)[:, None]
        if options.get("window"):
            hidden |= np.arange(keys) <= np.arange(keys - n, keys)[:, None] - options["window"]
        x = reference.scores(
            queries[first : first + n].swapaxes(0, 1)[None].astype(float),
            k[None, :, where],
            np.where(hidden, -np.inf, 0)[None, None],
            0.3,
            0,
            options.get("logit_softcap", 0),
        )
        weights = reference.attention_weights(x, sinks)
        expected[first : first + n] = (weights @ reference.repeat_heads(v[None, :, where], x)).swapaxes(1, 2)[0]
    return result, expected


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("options", [
    {}, {"window": 1}, {"window": 50}, {"window": 280}, {"logit_softcap": 2.0}, {"sinks": np.array([-1.0, 0, 1, 5])},
    {"heads": (12, 1), "page": 64}, {"heads": (3, 3), "d": 40, "dv": 24, "page": 16}, {"page": 512}, {"page": 24},
    {"types": ("f16", "q8_0")}, {"types": ("q8_0", "f32")}, {"types": ("bf16", "f16"), "window": 70},
], ids=str)  # fmt: skip
def test_a_batch_equals_attention_of_each_sequence(options, exact):
    result, expected = run(BATCH, exact=exact, **options)
    assert np.allclose(result, expected, atol=2e-5, rtol=1e-5)
    assert not result[248:].any()


@pytest.mark.parametrize("batch", [BATCH, [(0, 1, 2000)], [(0, 1, 700), (1, 1, 1500)]])
def test_neither_threads_nor_places_of_pages_change_a_bit(batch):
    one = run(batch)[0]
    assert np.array_equal(one, run(batch, threads=2)[0])
    assert np.array_equal(one, run(batch, scattered=False)[0])


@pytest.mark.parametrize("options", [{}, {"window": 130}], ids=str)
def test_the_rows_that_a_thread_takes_together_change_no_bit(options):
    """All 300 of a head, 256 or 128: the more threads, the fewer."""
    one, expected = run([(0, 300, 310)], heads=(16, 16), **options)
    assert np.allclose(one, expected, atol=2e-5, rtol=1e-5)
    for threads in (8, 16):
        assert np.array_equal(one, run([(0, 300, 310)], heads=(16, 16), threads=threads, **options)[0])


@pytest.mark.parametrize("types", [("f32", "f32"), ("f16", "f16"), ("q8_0", "q8_0")])
@pytest.mark.parametrize("options", [{}, {"window": 100}])
def test_exact_rows_depend_on_their_sequence_alone(types, options):
    """The last of 400 tokens: computed with all before it, with two, alone, and among others."""
    whole = run([(0, 400, 400)], types, exact=True, rows=800, **options)[0]
    divided = run([(397, 3, 400)], types, exact=True, rows=800, **options)[0]
    alone = run([(399, 1, 400)], types, exact=True, rows=800, **options)[0]
    among = run([(399, 1, 400), (400, 300, 350)], types, exact=True, rows=800, threads=2, **options)[0]
    for other in (divided, alone, among):
        assert np.array_equal(whole[399], other[399])
    assert np.array_equal(whole[397], divided[397])


@pytest.mark.parametrize("batch", [[(0, 4, 3)], [(1, 3, 8)], [(-1, 2, 8)], [(0, -1, 8)]])
def test_tables_that_name_what_is_not_there(batch):
    with pytest.raises(RuntimeError, match="paged_attn|table"):
        run([*batch, (0, 0, 0)], rows=3)


def test_arguments_that_do_not_fit():
    ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=1 << 20))
    try:
        f32 = ggml.GGML_TYPE_F32
        q, k = ggml.ggml_new_tensor_3d(ctx, f32, 8, 4, 3), ggml.ggml_new_tensor_3d(ctx, f32, 8, 64, 2)
        table, other = ggml.ggml_new_tensor_2d(ctx, ggml.GGML_TYPE_I32, 4, 1), ggml.ggml_new_tensor_1d(ctx, f32, 4)
        for args, message in (
            ((q, k, k, other, 1.0, 32), "table is f32"),
            ((q, k, k, table, 1.0, 48), "page_size is 48"),
            ((q, k, q, table, 1.0, 32), "as many values as keys"),
            ((k, k, k, table, 1.0, 0), "page_size"),
            ((q, k, k, table, 1.0, 32, -1), "window is -1"),
        ):
            with pytest.raises(ValueError, match=message):
                ggml.ext.paged_attention(ctx, *args)
    finally:
        ggml.ggml_free(ctx)
