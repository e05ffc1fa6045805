"""Batches of ggml.models: any mixture of sequences, pages that they share, results that are exact to the last bit."""

import contextlib
import gc
import warnings

import numpy as np
import pytest

for library in ("gguf", "jinja2", "tokenizers"):  # of the extra [test]; not installed on emulated CPUs
    pytest.importorskip(library)

import tiny_models  # noqa: E402
from tiny_models import CONTEXT, VOCAB  # noqa: E402

from ggml.models import Batch, load  # noqa: E402
from ggml.models.run.batch import Limits, Piece, divided  # noqa: E402
from ggml.models.run.cache import PagedCache  # noqa: E402
from ggml.models.run.pages import PAGE, PagePool  # noqa: E402

KINDS = ["llama", "mixtral", "gemma2", "gpt2"]
RNG = np.random.default_rng(11)
TEXTS = [RNG.integers(3, VOCAB, n).tolist() for n in (150, 30, 90, 7)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("batches")
    for kind in KINDS:
        for type_ in ("F32", "F16", "Q8_0"):
            tiny_models.write(folder / f"{kind}-{type_}.gguf", kind, type_)
    tiny_models.write_lora(folder / "lora.gguf", "llama")
    return folder


@pytest.fixture
def open_model(folder):
    models = []

    def run(kind="llama", type_="F32", **options):
        options = {"n_ctx": CONTEXT, "threads": 1, "kv_type": "f32", **options}
        models.append(load(folder / f"{kind}-{type_}.gguf", **options))
        return models[-1]

    yield run
    for model in models:
        model.close()


def decode(model, *parts, exact=False):
    """The logits of parts (sequence, tokens, wanted), a list for each part."""
    batch = Batch()
    rows = [batch.add(*part) for part in parts]
    logits = model.runner.decode(batch, exact)
    return [logits[row].copy() for row in rows]


# ---- mixtures --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", KINDS)
def test_any_mixture_equals_each_sequence_alone(kind, open_model):
    model, alone = open_model(kind, n_seq=4), open_model(kind)
    expected = [alone.logits(text) for text in TEXTS]
    done = [0] * 4
    for counts in ((3, 0, 20, 1), (60, 1, 0, 2), (1, 1, 1, 1), (0, 28, 1, 0), (70, 0, 68, 1), (16, 0, 0, 2)):
        parts, wanted = [], []
        for s in np.random.default_rng(counts[0]).permutation(4):  # in any order of sequences
            if counts[s]:
                n = min(counts[s], 1 + s)
                parts.append((int(s), TEXTS[s][done[s] : done[s] + counts[s]], n))
                done[s] += counts[s]
                wanted.append(expected[s][done[s] - n : done[s]])
        for found, right in zip(decode(model, *parts), wanted, strict=True):
            assert np.allclose(found, right, atol=2e-4)
    assert [model.held(s) for s in range(4)] == TEXTS


def test_a_batch_of_more_tokens_than_a_graph_takes(open_model):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the context is longer than that of the training
        model = open_model(n_seq=2, n_ctx=1200)
    texts = [RNG.integers(3, VOCAB, n).tolist() for n in (700, 900)]
    expected = [model.logits(text) for text in texts]
    model.reset()
    results = decode(model, (1, texts[1], 500), (0, texts[0], 0))
    for found, right in zip(results, (expected[1][-500:], expected[0][:0]), strict=True):
        assert np.allclose(found, right, atol=2e-4)
    assert model.held(0) == texts[0] and model.held(1) == texts[1]
    assert decode(model, (0, [5], 0))[0].shape == (0, VOCAB)


def test_mistakes_in_batches(open_model):
    model = open_model(n_seq=2)
    batch = Batch()
    batch.add(0, [5, 6])
    for args, message in (((0, [7]), "sequence 0 is in the batch already"), ((1, []), "0 tokens"),
                          ((1, [5], 2), "1 tokens, of 2 of which logits"), ((1, [5], -1), "1 tokens")):  # fmt: skip
        with pytest.raises(ValueError, match=f"^Batch.add: {message}"):
            batch.add(*args)
    assert len(batch) == 2 and [(row.token, row.wanted) for row in batch.rows()] == [(5, False), (6, True)]
    for part, message in (((2, [5]), "sequence 2"), ((-1, [5]), "sequence -1"), ((0, [VOCAB]), "tokens 96"),
                          ((0, [5, -1]), "tokens -1"), ((0, [5] * 257), "0 . 257 tokens exceed")):  # fmt: skip
        with pytest.raises(ValueError, match=f"^decode: {message}"):
            decode(model, (1, [5, 6]) if part[0] == 0 else (0, [5]), part)
    assert model.held(0) == model.held(1) == []


@pytest.mark.parametrize("limits", [
    Limits(8, 2, 8), Limits(8, 3, 2), Limits(6, 2, 6, True), Limits(6, 9, 6, True, True)])  # fmt: skip
def test_batches_are_divided(limits):
    pieces = [Piece(0, range(20), 3, 0), Piece(1, range(100, 101), 1, 3), Piece(2, range(200, 213), 0, 4),
              Piece(3, range(300, 307), 7, 4)]  # fmt: skip
    seen, wanted = {piece.sequence: [] for piece in pieces}, {}
    for part in divided(pieces, limits):
        sizes = [len(piece.tokens) for piece in part]
        assert 0 < sum(sizes) <= limits.tokens and len(part) <= limits.sequences
        assert len({piece.sequence for piece in part}) == len(part)
        assert sum(piece.wanted for piece in part) <= limits.wanted
        assert not limits.even or len(set(sizes)) == 1
        assert not limits.whole or limits.tokens % sizes[0] == 0
        for piece in part:
            seen[piece.sequence] += piece.tokens
            last = piece.tokens[len(piece.tokens) - piece.wanted :]
            wanted |= {piece.first + i: token for i, token in enumerate(last)}
    assert seen == {piece.sequence: list(piece.tokens) for piece in pieces}
    assert [wanted[i] for i in range(11)] == [17, 18, 19, 100, *range(300, 307)]


# ---- bits ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind, type_, kv_type", [
    *((kind, type_, "f32") for kind in KINDS for type_ in ("F32", "F16", "Q8_0")), ("gemma2", "Q8_0", "q8_0"),
    ("llama", "F16", "f16"), ("gemma2", "Q8_0", "f16"), ("lora", "Q8_0", "f16"),
])  # fmt: skip
def test_exact_results_depend_on_their_sequence_alone(kind, type_, kv_type, open_model, folder):
    """The same bits all together, in parts, token by token, among others, and with more threads."""
    adapter = {"lora": [folder / "lora.gguf"]} if kind == "lora" else {}
    kind = "llama" if kind == "lora" else kind
    text, others = TEXTS[0][:70], TEXTS[1:]
    model = open_model(kind, type_, kv_type=kv_type, n_seq=4, **adapter)
    whole = model.logits(text, exact=True)
    assert np.allclose(whole, open_model(kind, type_, kv_type=kv_type, **adapter).logits(text), atol=0.3)
    assert np.array_equal(open_model(kind, type_, kv_type=kv_type, **adapter).logits(text, exact=True), whole)
    model.reset()
    ranges = (0, 3), (3, 52), (52, 70)
    parts = np.concatenate([decode(model, (0, text[a:b], b - a), exact=True)[0] for a, b in ranges])
    assert np.array_equal(parts, whole)
    model.reset()
    assert np.array_equal(decode(model, (0, text[:69], 0), exact=True)[0], whole[:0])
    assert np.array_equal(decode(model, (0, text[69:], 1), exact=True)[0][0], whole[69])
    busy = open_model(kind, type_, kv_type=kv_type, n_seq=4, threads=2, **adapter)
    found = []
    for i, token in enumerate(text):
        beside = [(s, others[s - 1][i : i + 1], 1) for s in (3, 1) if i < len(others[s - 1])]
        prompt = [(2, others[1][i : i + 3], 0)] if i % 7 == 0 else []
        found.append(decode(busy, *prompt, *beside, (0, [token], 1), exact=True)[-1][0])
    assert np.array_equal(found, whole)


def test_exact_texts_do_not_depend_on_what_is_known(open_model):
    """Of a quantised model, whose products of few rows are rounded otherwise than those of many."""
    model = open_model("llama", "Q8_0", n_seq=3)
    options = {"max_tokens": 12, "temperature": 0, "logprobs": 2, "exact": True}
    prompt = TEXTS[1]

    def text(model):
        found = model.generate(prompt, **options)
        list(found)
        return found.ids, found.logprobs

    expected = text(model)
    fresh = open_model("llama", "Q8_0", n_seq=3)
    fresh.feed(prompt[:20])  # not computed with exact=True: of no use
    assert text(fresh) == expected
    assert text(fresh) == expected  # all is known
    together = fresh.generate_many([TEXTS[2], prompt, prompt[:25]], **options)
    list(together)
    assert (together.texts[1].ids, together.texts[1].logprobs) == expected
    fresh.load_state(model.save_state())
    assert text(fresh) == expected


# ---- pages -----------------------------------------------------------------------------------------------------------
def used(model):
    """The number of pages in use, by window."""
    return {w: pool.pages - 1 - int(pool.free().sum()) for w, pool in model.runner.memory.pools.items()}


def test_memory_grows_with_the_sequences(open_model):
    model = open_model(n_ctx=CONTEXT, n_seq=64)
    pool, expected = model.runner.memory.pools[0], open_model().logits(TEXTS[0])[-1]
    assert pool.pages * PAGE < CONTEXT * 4 and used(model) == {0: 0}
    for s in range(8):  # keys and values are copied when the pool grows
        for first in range(0, 150, 50):
            logits = decode(model, (s, TEXTS[0][first : first + 50]))[0]
        assert np.allclose(logits, expected, atol=1e-4)
    assert used(model) == {0: 8 * 3} and 24 < pool.pages <= 40
    after = open_model().logits([*TEXTS[0], 5])[-1]
    for s in range(8):
        assert np.allclose(model.feed([5], s), after, atol=1e-4)
        model.reset(0, s)
    assert used(model) == {0: 0}


@pytest.mark.parametrize("kind", ["llama", "gemma2"])
def test_equal_beginnings_share_pages(kind, open_model):
    model, alone = open_model(kind, n_seq=3), open_model(kind)
    prompts = [TEXTS[0] + [5, 6], TEXTS[0] + [7] * 9, TEXTS[0][:140] + [9] * 5]
    expected = []
    for prompt in prompts:
        text = alone.generate(prompt, max_tokens=6, temperature=0)
        list(text)
        expected.append(text.ids)
    many = model.generate_many(prompts, max_tokens=6, temperature=0)
    pieces = [next(many) for _ in range(6)]
    assert pieces and used(model)[0] < 3 * 3
    list(many)
    assert [text.ids for text in many.texts] == expected
    for s, prompt in enumerate(prompts):  # the pages that are shared are as they were
        held = model.held(s)
        assert held[:140] == prompt[:140]
        logits = model.feed([8], s)
        assert np.allclose(logits, alone.logits([*held, 8])[-1], atol=1e-4)


def test_a_text_that_gave_its_sequence_away_frees_its_pages(open_model):
    model = open_model()
    text = model.generate(TEXTS[0], max_tokens=9, temperature=0)
    next(text)
    model.logits(TEXTS[1])
    assert used(model) == {0: 4}
    del text
    gc.collect()
    assert used(model) == {0: 1}
    model.reset()
    assert used(model) == {0: 0}


class Recorder:
    """A layer's memory that notes what is done with it."""

    def __init__(self):
        self.cells, self.copies = 0, []

    def resize(self, cells):
        self.cells = cells

    def copy_cells(self, source, target, count):
        self.copies.append((source // PAGE, target // PAGE, count))


def test_tables_of_pages():
    layer = Recorder()
    pool = PagePool([layer], 0, 40 * PAGE, 0, 4, lambda: None)
    one = pool.table()
    pool.reserve(one, 0, 3 * PAGE + 5)
    assert one.pages[:4].tolist() == [1, 2, 3, 4] and layer.cells == 9 * PAGE
    assert one.cells(2 * PAGE - 1, 2 * PAGE + 1).tolist() == [3 * PAGE - 1, 3 * PAGE]
    two = pool.copy(one, 3 * PAGE + 5)
    pool.reserve(two, 3 * PAGE + 5, 3 * PAGE + 6)  # the fourth page is copied, the first three are the same
    assert two.used()[:3].tolist() == [1, 2, 3] and two.used()[3] not in one.used()
    assert layer.copies == [(4, int(two.used()[3]), 5)]
    pool.reserve(one, 3 * PAGE + 5, 30 * PAGE)
    assert layer.cells >= 31 * PAGE and not set(one.used()[3:]) & set(two.used())
    assert len(set(one.used())) == 30 and 0 not in one.used()
    pool.shorten(one, PAGE + 1)
    copies = len(layer.copies)
    pool.reserve(one, PAGE + 1, PAGE + 2)
    assert layer.copies[copies:] == [(2, int(one.used()[1]), 1)] and two.used()[1] == 2
    del one
    gc.collect()
    assert (~pool.free()).sum() == 1 + 4  # the page of rows without a token, and those of the other table


def test_pages_of_a_window():
    pool = PagePool([Recorder()], 100, 40 * PAGE, 50, 1, lambda: None)
    table = pool.table()
    for start in range(0, 1000, 20):
        pool.reserve(table, start, start + 20)
        assert max(0, start - 150 - PAGE) // PAGE <= table.gone <= max(0, start - 150) // PAGE
        assert (table.pages[: table.gone] == -1).all() and (table.used() > 0).all()
    assert pool.pages <= 10
    kept = table.gone * PAGE
    assert pool.reachable(table, kept + 99) == kept + 99 and pool.reachable(table, kept + 98) == 0


@pytest.mark.parametrize("limit", [None, 100])
def test_a_pool_grows_seldom_also_beyond_the_usual(limit):
    sizes = []
    pool = PagePool([Recorder()], 0, 4 * PAGE, 0, 2, lambda: sizes.append(0))
    pool.limit = limit
    tables = []
    with pytest.raises(MemoryError) if limit else contextlib.nullcontext():
        for _ in range(100):
            tables.append(pool.table())
            pool.reserve(tables[-1], 0, PAGE)
    assert len(tables) == 100 and len(sizes) < 40  # 5, 8, 9 pages, then by an eighth
    assert pool.pages == limit if limit else 101 <= pool.pages < 114


def test_a_pool_grows_by_what_it_needs_where_there_is_no_memory_for_more():
    class Limited(Recorder):
        def resize(self, cells):
            if cells > 13 * PAGE:
                raise MemoryError("no memory")
            super().resize(cells)

    layer = Limited()
    pool = PagePool([layer], 0, 40 * PAGE, 0, 4, lambda: None)  # has 9 pages and would double
    table = pool.table()
    pool.reserve(table, 0, 12 * PAGE)
    assert layer.cells == 13 * PAGE and pool.pages == 13
    with pytest.raises(MemoryError):
        pool.reserve(table, 12 * PAGE, 13 * PAGE)
    assert pool.pages == 13


def test_no_memory_for_more_pages_loses_nothing(open_model, monkeypatch):
    model, expected = open_model(n_seq=8), open_model().logits(TEXTS[0])[-1]
    for s in range(3):
        model.feed(TEXTS[0][:149], s)

    def refuse(self, cells):
        raise MemoryError("load: no memory")

    with monkeypatch.context() as m:
        m.setattr(PagedCache, "resize", refuse)
        with pytest.raises(MemoryError):
            decode(model, (0, [5]), (3, TEXTS[0]))
        assert [model.held(s) for s in range(4)] == [TEXTS[0][:149]] * 3 + [[]]
        assert np.allclose(model.feed(TEXTS[0][149:], 0), expected, atol=1e-4)
    assert np.allclose(decode(model, (3, TEXTS[0]), (1, TEXTS[0][149:])), expected, atol=1e-4)


# ---- looking inside --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["llama", "mixtral"])
@pytest.mark.parametrize("exact", [False, True])
def test_traces_have_the_tokens_of_the_batch(kind, exact, open_model):
    """Not the rows that fill a graph; the points behind the last layer have those tokens that are wanted."""
    model = open_model(kind, n_seq=2)
    names = ["blk.0.out", "blk.2.ffn_out", "output_norm"]
    with model.trace(*names) as whole:
        model.logits(TEXTS[3], exact=exact)
    with model.trace(*names) as t:
        decode(model, (1, TEXTS[3], 2), (0, TEXTS[2][:5], 1), exact=exact)
    for name in names[:2]:
        assert t[name].shape == (12, tiny_models.WIDTH) and whole[name].shape == (7, tiny_models.WIDTH)
        assert np.allclose(t[name][:7], whole[name], atol=1e-4)
    assert t["output_norm"].shape[0] == 3
    assert np.allclose(t["output_norm"][:2], whole["output_norm"][-2:], atol=1e-4)
