"""What layers keep of the tokens before, beside keys and values: an architecture with all kinds, against NumPy."""

import numpy as np
import pytest

for library in ("gguf", "jinja2", "tokenizers"):  # of the extra [test]; not installed on emulated CPUs
    pytest.importorskip(library)

import hf_models  # noqa: E402
import tiny_models  # noqa: E402
from tiny_models import VOCAB  # noqa: E402

import ggml  # noqa: E402
from ggml.models import Batch, Family, convert, load, register  # noqa: E402
from ggml.models.arch import FAMILIES  # noqa: E402
from ggml.models.arch.keeps import Paged, Recurrent, Shared, ShortConv, Window  # noqa: E402

C, H, D, TAPS, WINDOW = 32, 2, 16, 4, 70
SIZE = D * D * H
SOURCES = {3: 2, 7: 6}
KINDS = ["conv", "recurrent", "window", "shared", "both", "none", "paged", "shared"]


class Hybrid:
    """Layers x += f(norm(x)) of eight kinds."""

    @staticmethod
    def caches(c):
        sizes = c.n_head_kv, c.key_dim, c.value_dim
        return [ShortConv(C, TAPS), Recurrent(SIZE), Window(*sizes, WINDOW), Shared(2),
                (ShortConv(C, TAPS), Recurrent(SIZE)), None, Paged(*sizes), Shared(6)]  # fmt: skip

    @staticmethod
    def embed(g):
        return g.point("token_embd", g.embedding(g.inputs.ids, "token_embd", g.config.n_vocab))

    @staticmethod
    def layer(g, i, x):
        b, kind = f"blk.{i}.", KINDS[i]
        h = g.rms_norm(x, b + "attn_norm")
        q, k, v = (g.linear(h, b + name, C) for name in ("attn_q", "attn_k", "attn_v"))
        if kind in ("conv", "both"):
            k = g.short_conv(i, k, b + "conv", TAPS)
        if kind in ("conv", "none"):
            h = ggml.ggml_mul(g.ctx, ggml.ggml_mul(g.ctx, q, k), v)
        elif kind in ("recurrent", "both"):
            gate = g.heads(ggml.ggml_sigmoid(g.ctx, g.linear(h, b + "gate", C)), H)
            q, k, v = (g.heads(t, H) for t in (q, k, v))
            y = ggml.ggml_gated_linear_attn(g.ctx, k, v, q, gate, g.state(i, SIZE), 0.5)
            sequences, nb = g.inputs.n_sequences, y.contents.nb
            h = ggml.ggml_view_2d(g.ctx, y, C, g.n_tokens, nb[1], 0)
            g.keep(i, ggml.ggml_view_2d(g.ctx, y, SIZE, sequences, 4 * SIZE, g.n_tokens * nb[1]))
        elif kind == "shared":
            h = g.attention(i, g.heads(q, H), None, None, g.default_scale(), shared=SOURCES[i])
        else:
            h = g.attention(i, *(g.heads(t, H) for t in (q, k, v)), g.default_scale())
        h = g.linear(h, b + "attn_output", C)
        x, h = g.keep_last(i, x, h)
        return g.point(b + "out", g.add(x, h))

    @staticmethod
    def head(g, x):
        return g.rms_norm(x, "output_norm")


def weights():
    rng, out = np.random.default_rng(5), {"token_embd.weight": (VOCAB, C), "output_norm.weight": (C,)}
    for i, kind in enumerate(KINDS):
        names = ["attn_q", "attn_k", "attn_v", "attn_output", "gate"]
        out |= {f"blk.{i}.{name}.weight": (C, C) for name in names} | {f"blk.{i}.attn_norm.weight": (C,)}
        if kind in ("conv", "both"):
            out |= {f"blk.{i}.conv.weight": (C, TAPS), f"blk.{i}.conv.bias": (C,)}
    return {name: (rng.standard_normal(s) / np.sqrt(s[-1] if len(s) > 1 else 1)).astype(np.float32)
            for name, s in out.items()}  # fmt: skip


W = weights()


def reference(ids):
    """The logits of all tokens, in float64."""

    def linear(x, name):
        return x @ W[name + ".weight"].T.astype(float)

    def norm(x, name):
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * W[name + ".weight"]

    x, n, stored = W["token_embd.weight"][ids].astype(float), len(ids), {}
    age = np.arange(n)[:, None] - np.arange(n)
    for i, kind in enumerate(KINDS):
        b = f"blk.{i}."
        h = norm(x, b + "attn_norm")
        q, k, v = (linear(h, b + name) for name in ("attn_q", "attn_k", "attn_v"))
        if kind in ("conv", "both"):
            padded = np.concatenate([np.zeros((TAPS - 1, C)), k])
            k = W[b + "conv.bias"] + sum(W[b + "conv.weight"][:, j] * padded[j : j + n] for j in range(TAPS))
        if kind in ("conv", "none"):
            y = q * k * v
        elif kind in ("recurrent", "both"):
            gate = (1 / (1 + np.exp(-linear(h, b + "gate")))).reshape(n, H, D)
            q, k, v, state, y = *(t.reshape(n, H, D) for t in (q, k, v)), np.zeros((H, D, D)), np.empty((n, H, D))
            for t in range(n):
                state = gate[t][:, :, None] * state + k[t][:, :, None] * v[t][:, None]
                y[t] = 0.5 * np.einsum("hij,hi->hj", state, q[t])
            y = y.reshape(n, C)
        else:
            source = SOURCES.get(i, i)
            stored.setdefault(source, (k, v))
            q, k, v = (t.reshape(n, H, D) for t in (q, *stored[source]))
            hidden = (age < 0) | (age >= (WINDOW if KINDS[source] == "window" else n))
            scores = np.where(hidden, -np.inf, np.einsum("qhd,khd->hqk", q, k) / np.sqrt(D))
            p = np.exp(scores - scores.max(-1, keepdims=True))
            y = np.einsum("hqk,khd->qhd", p / p.sum(-1, keepdims=True), v).reshape(n, C)
        x = x + linear(y, b + "attn_output")
    return norm(x, "output_norm") @ W["token_embd.weight"].T


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    register("hybrid", Family(Hybrid))
    tiny_models.SIZES["hybrid"] = {"embedding_length": C, "attention.head_count": H, "block_count": len(KINDS)}
    yield tiny_models.write(tmp_path_factory.mktemp("caches") / "hybrid.gguf", "hybrid", tensors=W)
    del FAMILIES["hybrid"], tiny_models.SIZES["hybrid"]


@pytest.fixture
def open_model(path):
    models = []

    def run(**options):
        models.append(load(path, **{"threads": 1, "kv_type": "f32", "n_ctx": 256, **options}))
        return models[-1]

    yield run
    for model in models:
        model.close()


IDS = np.random.default_rng(6).integers(3, VOCAB, 200).tolist()
EXPECTED = reference(IDS)


def close(found, expected):
    return np.allclose(found, expected, atol=2e-4 * np.abs(EXPECTED).max())


def test_logits_equal_numpy(open_model):
    model = open_model()
    assert close(model.logits(IDS), EXPECTED)
    model.reset()
    assert close([model.feed([token]) for token in IDS[:90]], EXPECTED[:90])
    assert close(model.feed(IDS[90:150]), EXPECTED[149])
    hidden = model.embed([IDS[:50], IDS[:20]], pooling="last")
    assert close(hidden @ W["token_embd.weight"].T, EXPECTED[[49, 19]])
    step = model.runner.texts_graph(40, 2)  # as in fine-tuning: nothing is kept
    step.ids[:], step.positions[:] = IDS[:40] * 2, [*range(40)] * 2
    step.masks[False][...] = np.where(np.tri(40), 0, -np.inf)
    model.runner.run(step)
    for hidden in np.split(step.out, 2):
        assert close(hidden @ W["token_embd.weight"].T, EXPECTED[:40])


def test_sequences_of_different_lengths_together(open_model):
    model = open_model(n_seq=3)
    texts = [IDS, IDS[50:], [7, *IDS]]
    expected, done = [EXPECTED, reference(texts[1]), reference(texts[2])], [0, 0, 0]
    for counts in ((20, 20, 3), (1, 1, 1), (1, 7, 0), (40, 5, 1), (3, 3, 3)):
        batch, rows = Batch(), {}
        for s, n in enumerate(counts):
            if n:
                rows[s] = batch.add(s, texts[s][done[s] : done[s] + n], min(n, 2))
                done[s] += n
        logits = model.runner.decode(batch)
        for s, row in rows.items():
            assert close(logits[row], expected[s][done[s] - min(counts[s], 2) : done[s]])


def test_shortening_goes_to_a_snapshot_and_computes_again(open_model):
    model, counts = open_model(), []
    for first in range(0, 150, 25):
        model.feed(IDS[first : first + 25])
    slot = model.runner.sequences.items[0].slot
    assert sorted(slot.snapshots) == [50, 75, 100, 125]  # before each chunk; four are kept
    get = model.runner.graphs.get
    model.runner.graphs.get = lambda shape, memory: counts.append(shape.tokens) or get(shape, memory)
    for length, nearest in ((149, 125), (110, 100), (100, 100), (60, 50), (30, 0)):
        assert model.reset(length) == length and model.held() == IDS[:length]
        assert close(model.feed(IDS[length : length + 1]), EXPECTED[length])
        assert counts[-1] == length - nearest + 1
    assert model.reset(0) == 0 and close(model.feed(IDS[:3]), EXPECTED[2])


@pytest.mark.parametrize("snapshots", [0, 1, 9])
def test_the_number_of_snapshots_is_an_argument(open_model, snapshots):
    model = open_model(snapshots=snapshots)
    for first in range(0, 150, 25):
        model.feed(IDS[first : first + 25])
    kept = model.runner.sequences.items[0].slot.snapshots
    assert sorted(kept) == [25, 50, 75, 100, 125][max(0, 5 - snapshots) :]
    assert model.reset(110) == 110 and close(model.feed(IDS[110:111]), EXPECTED[110])
    with pytest.raises(ValueError, match="^load: snapshots is -1: need an integer from 0 "):
        open_model(snapshots=-1)


def test_states_are_saved_copied_and_taken_over(open_model):
    model, other = open_model(n_seq=2), open_model(n_seq=2)
    model.feed(IDS[:80])
    state = model.save_state()
    assert close(model.feed(IDS[80:82]), EXPECTED[81])
    for m, s in ((model, 1), (other, 0)):
        m.load_state(state, s)
        assert close(m.feed(IDS[80:81], s), EXPECTED[80])
        assert m.reset(80, s) == 80 and close(m.feed(IDS[80:83], s), EXPECTED[82])
    assert close(model.feed(IDS[82:83]), EXPECTED[82])
    for bad in (state[:-1], state + b"\0"):
        with pytest.raises(ValueError, match="^load_state: the state is incomplete"):
            model.load_state(bad)
    hf_models.check_together(model, [IDS[:120], [*IDS[:100], 5], IDS[:119]], open_model())


def test_texts_that_alternate(open_model):
    model, alone = open_model(), open_model()
    texts = [model.generate(IDS[i : i + 9], max_tokens=12, temperature=0) for i in (0, 50)]
    for _ in range(20):
        pieces = [next(text, None) for text in texts]
    assert pieces == [None, None]
    for i, text in zip((0, 50), texts, strict=True):
        alone.reset()
        expected = alone.generate(IDS[i : i + 9], max_tokens=12, temperature=0)
        list(expected)
        assert text.ids == expected.ids and text.ids


def test_an_interrupted_compute_leaves_the_tokens(open_model):
    model, armed = open_model(), False

    def stop(values):
        if armed:
            raise KeyboardInterrupt

    with model.edit("blk.4.out", stop):
        model.feed(IDS[:60])
        model.feed(IDS[60:62])
        armed = True
        for call in (lambda: model.feed(IDS[62:70]), lambda: model.feed([5])):
            with pytest.raises(KeyboardInterrupt):
                call()
            assert model.held() == IDS[:62]
        armed = False
        assert close(model.feed(IDS[62:64]), EXPECTED[63])


def test_exact_results(open_model):
    model = open_model(n_seq=3)
    whole = model.logits(IDS[:100], exact=True)
    assert close(whole, EXPECTED[:100])
    model.reset()
    found = []
    for first, end in ((0, 3), (3, 60), (60, 100)):
        batch = Batch()
        other, row = batch.add(2, IDS[first : first + 2]), batch.add(0, IDS[first:end], end - first)
        assert other.stop == 1
        found.append(model.runner.decode(batch, exact=True)[row].copy())
    assert np.array_equal(np.concatenate(found), whole)


@pytest.mark.parametrize("caches, error, message", [
    (lambda c: [], ValueError, "says what 0 of 8 layers keep"),
    (lambda c: [Shared(1)] * 8, ValueError, "shares the keys of layer 1: need a layer before it"),
    (lambda c: ["paged"] * 8, TypeError, "a layer keeps 'paged': need one of"),
])  # fmt: skip
def test_mistakes(caches, error, message, open_model, monkeypatch):
    monkeypatch.setattr(Hybrid, "caches", staticmethod(caches))
    with pytest.raises(error, match=f"^load: .*{message}"):
        open_model()


def test_latent_vectors_are_stored_once(tmp_path):
    pytest.importorskip("safetensors")
    record = hf_models.record("deepseek3")
    folder = hf_models.write_folder(tmp_path / "folder", record["config"], record["shapes"])
    with pytest.warns(UserWarning, match="has no tokenizer"):
        convert(folder, tmp_path / "model.gguf")
    width = record["config"]["kv_lora_rank"] + record["config"]["qk_rope_head_dim"]
    for kinds, size in (("f16", 2), (("f32", "f16"), 4)):
        with load(tmp_path / "model.gguf", threads=1, kv_type=kinds) as model:
            logits = model.logits(hf_models.tokens(48))
            for cache in model.runner.memory.paged:
                (tensor,) = cache.tensors
                assert ggml.ggml_nbytes(tensor) == size * width * tensor.contents.ne[1]
            assert np.mean((logits[hf_models.rows(48)] - record["48"]) ** 2) < 1e-3
