"""RWKV-7 against its equations in NumPy (arXiv:2503.14456, section 4)."""

import numpy as np
import pytest

for library in ("gguf", "jinja2", "tokenizers"):  # of the extra [test]; not installed on emulated CPUs
    pytest.importorskip(library)

import hf_models  # noqa: E402
import tiny_models  # noqa: E402
from tiny_models import VOCAB  # noqa: E402

from ggml.models import Tokenizer, convert, load  # noqa: E402

C, SIZE, FF, LAYERS, EPS = 128, 64, 160, 3, 1e-5
RANKS = {"w": 12, "a": 8, "v": 6, "g": 10}
KEYS = {
    "embedding_length": C, "block_count": LAYERS, "feed_forward_length": FF, "attention.head_count": 0,
    "attention.layer_norm_epsilon": EPS, "wkv.head_size": SIZE, "attention.decay_lora_rank": RANKS["w"],
    "attention.iclr_lora_rank": RANKS["a"], "attention.value_residual_mix_lora_rank": RANKS["v"],
    "attention.gate_lora_rank": RANKS["g"],
}  # fmt: skip


def weights():
    shapes = {"token_embd.weight": (VOCAB, C), "output.weight": (VOCAB, C)}
    norms = ["token_embd_norm", "output_norm"]
    for i in range(LAYERS):
        b = f"blk.{i}."
        norms += [b + "attn_norm", b + "attn_norm_2", b + "time_mix_ln"]
        for part, rank in RANKS.items():
            shapes |= {f"{b}time_mix_{part}1.weight": (rank, C), f"{b}time_mix_{part}2.weight": (C, rank)}
        vectors = ["w0", "a0", "v0", "k_k", "k_a", "r_k"]
        shapes |= {f"{b}time_mix_{name}.weight": (C,) for name in vectors}
        shapes |= {f"{b}time_mix_{name}.weight": (C, C) for name in ("receptance", "key", "value", "output")}
        shapes |= {b + "time_mix_lerp_fused.weight": (6, 1, 1, C), b + "channel_mix_lerp_k.weight": (C,),
                   b + "channel_mix_key.weight": (FF, C), b + "channel_mix_value.weight": (C, FF)}  # fmt: skip
    shapes |= {f"{name}.{end}": (C,) for name in norms for end in ("weight", "bias")}
    rng, out = np.random.default_rng(11), {}
    for name, shape in shapes.items():
        values = rng.standard_normal(shape)
        if len(shape) == 2:
            values /= np.sqrt(shape[1])
        elif name.endswith(("norm.weight", "norm_2.weight", "ln.weight", "k_k.weight")):
            values = 1 + 0.2 * values
        else:
            values = 0.5 + 0.3 * values if "lerp" in name else 0.3 * values
        out[name] = values.astype(np.float32)
    # the first layer has no share of its own values; files have something there
    return out | {f"blk.0.time_mix_v{i}.weight": out[f"blk.0.time_mix_a{i}.weight"] for i in (0, 1, 2)}


W = weights()


def reference(ids):
    """The logits of all tokens, in float64."""

    def linear(x, name):
        return x @ W[name + ".weight"].T.astype(float)

    def norm(x, name):
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + EPS)
        return x * W[name + ".weight"] + W[name + ".bias"]

    def sigmoid(x):
        return 1 / (1 + np.exp(-x))

    def mixed(x, share):
        return x + (np.concatenate([np.zeros((1, C)), x[:-1]]) - x) * share

    x, n, first = norm(W["token_embd.weight"][ids].astype(float), "token_embd_norm"), len(ids), None
    for i in range(LAYERS):
        b = f"blk.{i}.time_mix_"
        h = norm(x, f"blk.{i}.attn_norm")
        r, w, k, v, a, g = (mixed(h, share) for share in W[b + "lerp_fused.weight"][:, 0, 0])

        def low(x, part, f=lambda x: x, b=b):
            return linear(f(linear(x, f"{b}{part}1")), f"{b}{part}2")

        decay = np.exp(-np.exp(-0.5) * sigmoid(low(w, "w", np.tanh) + W[b + "w0.weight"]))
        share = sigmoid(low(v, "v") + W[b + "v0.weight"])
        r, k, v = linear(r, b + "receptance"), linear(k, b + "key"), linear(v, b + "value")
        first = v if first is None else first
        v = v + (first - v) * share
        a, gate = sigmoid(low(a, "a") + W[b + "a0.weight"]), low(g, "g", sigmoid)
        d = (k * W[b + "k_k.weight"]).reshape(n, -1, SIZE)
        d /= np.linalg.norm(d, axis=-1, keepdims=True)
        k = k * (1 + (a - 1) * W[b + "k_a.weight"])
        r, k, v, a, decay = (t.reshape(n, -1, SIZE) for t in (r, k, v, a, decay))
        state, y = np.zeros((C // SIZE, SIZE, SIZE)), np.empty((n, C // SIZE, SIZE))
        for t in range(n):
            removed = np.einsum("hij,hj->hi", state, -d[t])[:, :, None] * (d[t] * a[t])[:, None]
            state = state * decay[t][:, None] + removed + v[t][:, :, None] * k[t][:, None]
            y[t] = np.einsum("hij,hj->hi", state, r[t])
        y = (y - y.mean(-1, keepdims=True)) / np.sqrt(y.var(-1, keepdims=True) + 64e-5)
        y = y.reshape(n, C) * W[b + "ln.weight"] + W[b + "ln.bias"]
        bonus = (r * k * W[b + "r_k.weight"].reshape(-1, SIZE)).sum(-1, keepdims=True) * v
        x = x + linear((y + bonus.reshape(n, C)) * gate, b + "output")
        b = f"blk.{i}.channel_mix_"
        h = mixed(norm(x, f"blk.{i}.attn_norm_2"), W[b + "lerp_k.weight"])
        x = x + linear(np.maximum(linear(h, b + "key"), 0) ** 2, b + "value")
    return linear(norm(x, "output_norm"), "output")


IDS = np.random.default_rng(6).integers(3, VOCAB, 120).tolist()
EXPECTED = reference(IDS)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    tiny_models.SIZES["rwkv7"] = KEYS
    path = tiny_models.write(tmp_path_factory.mktemp("rwkv") / "rwkv7.gguf", "rwkv7", tensors=W)
    del tiny_models.SIZES["rwkv7"]
    with load(path, threads=1, n_seq=3) as model_:
        yield model_


def test_logits_equal_numpy(model):
    model.reset()
    assert hf_models.error(model.logits(IDS), EXPECTED) < 1e-9
    model.reset()
    assert hf_models.error([model.feed([token]) for token in IDS[:60]], EXPECTED[:60]) < 1e-9
    assert hf_models.error(model.feed(IDS[60:90]), EXPECTED[89]) < 1e-9
    assert model.reset(70) == 70 and hf_models.error(model.feed(IDS[70:72]), EXPECTED[71]) < 1e-9


def test_sequences_of_different_lengths_together(model):
    hf_models.check_together(model, [IDS[:50], IDS[:21], IDS[30:34]])


def test_a_state_is_saved(model):
    model.reset()
    model.feed(IDS[:40])
    state, expected = model.save_state(), model.feed(IDS[40:44])
    model.load_state(state)
    assert np.allclose(model.feed(IDS[40:44]), expected, atol=1e-5)


@pytest.mark.parametrize("checkpoint", [True, False])
def test_adapters_learn(model, tmp_path, checkpoint):
    """Layers read the values of the first one in training too."""
    text, path = IDS[:48], tmp_path / "lora.gguf"
    result = model.finetune([text] * 8, path, rank=4, steps=8, tokens=48, rate=2e-2, validation=[text],
                            checkpoint=checkpoint, targets="blk.[12].*")  # fmt: skip
    before, after = result.validation[0][1], result.validation[-1][1]
    assert -model.log_probabilities(text).mean() == pytest.approx(before, rel=1e-4)
    assert after < 0.9 * before
    model.set_lora(path)
    try:
        assert -model.log_probabilities(text).mean() == pytest.approx(after, rel=1e-3)
    finally:
        model.set_lora()


# ---- folders ---------------------------------------------------------------------------------------------------------
CONFIG = {
    "architectures": ["RWKV7ForCausalLM"], "model_type": "rwkv7", "hidden_size": C, "head_dim": SIZE, "norm_eps": EPS,
    "num_hidden_layers": LAYERS, "intermediate_size": FF, "hidden_act": "sqrelu", "norm_bias": True, "attn": None,
    "decay_low_rank_dim": RANKS["w"], "a_low_rank_dim": RANKS["a"], "v_low_rank_dim": RANKS["v"],
    "gate_low_rank_dim": RANKS["g"], "vocab_size": VOCAB, "tie_word_embeddings": False,
}  # fmt: skip


def published(together):
    """The weights by the names that `fla` has for them; with `together` the six shares are one tensor."""
    names = {"token_embd": "model.embeddings", "output": "lm_head", "output_norm": "model.norm",
             "token_embd_norm": "model.layers.0.pre_norm"}  # fmt: skip
    found = {}
    for i in range(LAYERS):
        new, old = f"model.layers.{i}.", f"blk.{i}."
        names |= {old + "attn_norm": new + "attn_norm", old + "attn_norm_2": new + "ffn_norm",
                  old + "time_mix_ln": new + "attn.g_norm", old + "channel_mix_key": new + "ffn.key",
                  old + "channel_mix_value": new + "ffn.value"}  # fmt: skip
        projections = {"receptance": "r", "key": "k", "value": "v", "output": "o"}
        names |= {f"{old}time_mix_{a}": f"{new}attn.{b}_proj" for a, b in projections.items()}
        for part in "wavg" if i else "wag":  # the first layer has no share of its own values
            lora = f"{new}attn.{part}_lora.lora."
            names |= {f"{old}time_mix_{part}1": lora + "0", f"{old}time_mix_{part}2": lora + "2"}
            if part != "g":
                found[lora + "2.bias"] = W[f"{old}time_mix_{part}0.weight"]
        found |= {f"{new}attn.{name}": W[f"{old}time_mix_{name}.weight"] for name in ("k_k", "k_a")}
        found[new + "attn.r_k"] = W[old + "time_mix_r_k.weight"].reshape(-1, SIZE)
        found[new + "ffn.x_k"] = W[old + "channel_mix_lerp_k.weight"]
        shares = W[old + "time_mix_lerp_fused.weight"].reshape(6, C)
        found |= (
            {new + "attn.x_x": shares}
            if together
            else {f"{new}attn.x_{part}": row.reshape(1, 1, C) for part, row in zip("rwkvag", shares)}
        )
    ends = ("weight", "bias")
    return found | {f"{b}.{end}": W[f"{a}.{end}"] for a, b in names.items() for end in ends if f"{a}.{end}" in W}


def write_folder(folder, together=False):
    hf_models.write_folder(folder, CONFIG, {})
    hf_models.write_shard(folder / "model.safetensors", published(together))
    return folder


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.filterwarnings("ignore:.*has no tokenizer")
def test_folders_are_converted(tmp_path, together):
    pytest.importorskip("safetensors")
    folder = write_folder(tmp_path / "folder", together)
    convert(folder, tmp_path / "model.gguf")
    for path in (tmp_path / "model.gguf", folder):
        with load(path, threads=1) as model:
            assert hf_models.error(model.logits(IDS), EXPECTED) < 1e-9
    convert(folder, tmp_path / "small.gguf", "Q8_0")
    with load(tmp_path / "small.gguf", threads=1) as model:
        assert 1e-9 < hf_models.error(model.logits(IDS), EXPECTED) < 1e-2
    hf_models.write_folder(folder, CONFIG | {"norm_eps": 1e-3}, {})
    with pytest.raises(ValueError, match="convert: .*'norm_eps' is 0.001: need 1e-05 for heads of 64"):
        convert(folder, tmp_path / "other.gguf")


# ---- the vocabulary --------------------------------------------------------------------------------------------------
PIECES = [bytes([b]) for b in range(256)] + [b"ab", b"abcd", b"\n\n", b" the", b"'\"", b"\\x", "\u00e9".encode(), b"bc"]
WORLD = {
    "tokenizer.ggml.model": "rwkv",
    "tokenizer.ggml.tokens": ["<s>", *(repr(piece)[2:-1] for piece in PIECES)],  # as in files: Python's escapes
    "tokenizer.ggml.token_type": [3] + [1] * len(PIECES),
}


@pytest.mark.parametrize(
    "text, pieces",
    [
        ("abcx", [b"ab", b"c", b"x"]),  # "abcd" does not fit: the longest that does
        ("abcd", [b"abcd"]),
        ("xbc the\n\n\n", [b"x", b"bc", b" the", b"\n\n", b"\n"]),
        ("'\"\\x\t", [b"'\"", b"\\x", b"\t"]),
        ("\u00e9\u00e8", ["\u00e9".encode(), b"\xc3", b"\xa8"]),
        ("", []),
    ],
)
def test_the_longest_token_at_each_place(text, pieces):
    tokenizer = Tokenizer(WORLD)
    ids = tokenizer.encode(text)
    assert [PIECES[i - 1] for i in ids] == pieces
    assert tokenizer.decode(ids) == text


def test_bytes_without_a_token_are_unknown():
    fewer = {name: value[:2] if isinstance(value, list) else value for name, value in WORLD.items()}
    assert Tokenizer(fewer).encode("a") == []
    assert Tokenizer({**fewer, "tokenizer.ggml.unknown_token_id": 1}).encode("\0a\0")[1:2] == [1]
