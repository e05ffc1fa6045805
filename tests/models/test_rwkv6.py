"""RWKV-6 against its equations in NumPy (arXiv:2404.05892, section 4), from folders of its authors and of `fla`."""

import shutil

import numpy as np
import pytest

for library in ("safetensors", "tokenizers", "jinja2"):  # of the extra [test]; not installed on emulated CPUs
    pytest.importorskip(library)

import gguf  # noqa: E402
import gguf_files  # noqa: E402
import hf_models  # noqa: E402

from ggml.models import convert, load  # noqa: E402

C, SIZE, FF, LAYERS, EPS, VOCAB, MIX, DECAY = 128, 64, 160, 3, 1e-5, 300, 12, 10
CONFIG = {
    "architectures": ["Rwkv6ForCausalLM"], "model_type": "rwkv6", "hidden_size": C, "attention_hidden_size": C,
    "head_size": SIZE, "head_size_divisor": 8, "layer_norm_epsilon": EPS, "num_hidden_layers": LAYERS,
    "intermediate_size": FF, "rescale_every": 2, "vocab_size": VOCAB, "lora_rank_tokenshift": MIX,
    "lora_rank_decay": DECAY, "bos_token_id": 0, "eos_token_id": 0, "tie_word_embeddings": False,
}  # fmt: skip
PIECES = [bytes([b]) for b in range(256)] + [b"\n\n", b" the", b"'\"", "\u00e9".encode(), b"bc", b"abcd"]
PARTS = "wkvrg"


def shapes():
    found = {"rwkv.embeddings.weight": (VOCAB, C), "head.weight": (VOCAB, C)}
    norms = ["rwkv.blocks.0.pre_ln", "rwkv.ln_out"]
    for i in range(LAYERS):
        a, f = f"rwkv.blocks.{i}.attention.", f"rwkv.blocks.{i}.feed_forward."
        norms += [f"rwkv.blocks.{i}.ln1", f"rwkv.blocks.{i}.ln2", a + "ln_x"]
        found |= {f"{a}time_maa_{part}": (1, 1, C) for part in "x" + PARTS}
        found |= {a + "time_maa_w1": (C, 5 * MIX), a + "time_maa_w2": (5, MIX, C), a + "time_decay": (1, 1, C),
                  a + "time_decay_w1": (C, DECAY), a + "time_decay_w2": (DECAY, C), a + "time_faaaa": (C // SIZE, SIZE),
                  f + "time_maa_k": (1, 1, C), f + "time_maa_r": (1, 1, C), f + "key.weight": (FF, C),
                  f + "receptance.weight": (C, C), f + "value.weight": (C, FF)}  # fmt: skip
        found |= {f"{a}{name}.weight": (C, C) for name in ("receptance", "key", "value", "gate", "output")}
    return found | {f"{name}.{end}": (C,) for name in norms for end in ("weight", "bias")}


W = {name: hf_models.weight(name, shape, 5) for name, shape in shapes().items()}
IDS = np.random.default_rng(6).integers(1, VOCAB, 100).tolist()


def reference(ids, weights=W):
    """The logits of all tokens, in float64."""
    w = {name: values.astype(float) for name, values in weights.items()}

    def norm(x, name):
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + EPS)
        return x * w[name + ".weight"] + w[name + ".bias"]

    def before(x):
        return np.concatenate([np.zeros((1, C)), x[:-1]]) - x

    def sigmoid(x):
        return 1 / (1 + np.exp(-x))

    x, n = norm(w["rwkv.embeddings.weight"][ids], "rwkv.blocks.0.pre_ln"), len(ids)
    for i in range(LAYERS):
        a, f = f"rwkv.blocks.{i}.attention.", f"rwkv.blocks.{i}.feed_forward."
        h = norm(x, f"rwkv.blocks.{i}.ln1")
        d = before(h)
        low = np.tanh((h + d * w[a + "time_maa_x"][0]) @ w[a + "time_maa_w1"]).reshape(n, 5, MIX)
        share = np.einsum("npr,prc->pnc", low, w[a + "time_maa_w2"])
        mixed = {part: h + d * (share[j] + w[f"{a}time_maa_{part}"][0]) for j, part in enumerate(PARTS)}
        r, k, v = (
            (mixed[part] @ w[f"{a}{name}.weight"].T).reshape(n, -1, SIZE)
            for part, name in zip("rkv", ("receptance", "key", "value"))
        )
        gate = mixed["g"] @ w[a + "gate.weight"].T
        decay = np.tanh(mixed["w"] @ w[a + "time_decay_w1"]) @ w[a + "time_decay_w2"] + w[a + "time_decay"][0]
        decay = np.exp(-np.exp(decay)).reshape(n, -1, SIZE)
        state, y = np.zeros((C // SIZE, SIZE, SIZE)), np.empty((n, C // SIZE, SIZE))
        for t in range(n):
            new = k[t][:, :, None] * v[t][:, None]
            y[t] = np.einsum("hij,hi->hj", state + w[a + "time_faaaa"][:, :, None] * new, r[t])
            state = state * decay[t][:, :, None] + new
        y = ((y - y.mean(-1, keepdims=True)) / np.sqrt(y.var(-1, keepdims=True) + 64e-5)).reshape(n, C)
        y = y * w[a + "ln_x.weight"] + w[a + "ln_x.bias"]
        x = x + (y * gate * sigmoid(gate)) @ w[a + "output.weight"].T
        h = norm(x, f"rwkv.blocks.{i}.ln2")
        d = before(h)
        k = np.maximum((h + d * w[f + "time_maa_k"][0]) @ w[f + "key.weight"].T, 0) ** 2
        r = sigmoid((h + d * w[f + "time_maa_r"][0]) @ w[f + "receptance.weight"].T)
        x = x + r * (k @ w[f + "value.weight"].T)
    return norm(x, "rwkv.ln_out") @ w["head.weight"].T


EXPECTED = reference(IDS)


def write_folder(folder, config=CONFIG, weights=W, **change):
    hf_models.write_folder(folder, {**config, **change}, {})
    hf_models.write_shard(folder / "model.safetensors", weights)
    lines = [f"{i + 1} {piece!r} {len(piece)}\n" for i, piece in enumerate(PIECES)]
    lines[PIECES.index(b" the")] = f"{1 + PIECES.index(b' the')} ' the' 4\n"  # texts occur too
    (folder / "rwkv_vocab_v20230424.txt").write_text("".join(lines), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rwkv6")
    convert(write_folder(folder / "folder"), folder / "model.gguf")
    return folder / "model.gguf"


@pytest.fixture(scope="module")
def model(path):
    with load(path, threads=1, n_seq=3) as model_:
        yield model_


def test_logits_equal_numpy(model):
    model.reset()
    assert hf_models.error(model.logits(IDS), EXPECTED) < 1e-9
    model.reset()
    assert hf_models.error([model.feed([token]) for token in IDS[:50]], EXPECTED[:50]) < 1e-9
    assert hf_models.error(model.feed(IDS[50:90]), EXPECTED[89]) < 1e-9
    assert model.reset(60) == 60 and hf_models.error(model.feed(IDS[60:62]), EXPECTED[61]) < 1e-9
    state, expected = model.save_state(), model.feed(IDS[62:66])
    model.load_state(state)
    assert np.allclose(model.feed(IDS[62:66]), expected, atol=1e-5)


# ---- as fla saves it -------------------------------------------------------------------------------------------------
FLA_CONFIG = {
    "architectures": ["RWKV6ForCausalLM"], "model_type": "rwkv6", "hidden_size": C, "num_heads": C // SIZE,
    "expand_k": 1.0, "expand_v": 1.0, "hidden_ratio": 3.5, "intermediate_size": FF, "num_hidden_layers": LAYERS,
    "proj_low_rank_dim": MIX, "gate_low_rank_dim": DECAY, "hidden_act": "sqrelu", "norm_first": True,
    "norm_bias": True, "norm_eps": EPS, "attn": None, "vocab_size": VOCAB, "tie_word_embeddings": False,
}  # fmt: skip


def fla_weights(size):
    """The same weights by fla's names, with keys of `size` elements; its norm of heads has the epsilon of others."""
    out = {"lm_head.weight": W["head.weight"], "model.embeddings.weight": W["rwkv.embeddings.weight"]}
    norms = {"blocks.0.pre_ln": "layers.0.pre_norm", "ln_out": "norm"}
    for i in range(LAYERS):
        a, new = f"rwkv.blocks.{i}.attention.", f"model.layers.{i}.attn."
        norms |= {f"blocks.{i}.ln1": f"layers.{i}.attn_norm", f"blocks.{i}.ln2": f"layers.{i}.ffn_norm",
                  f"blocks.{i}.attention.ln_x": f"layers.{i}.attn.g_norm"}  # fmt: skip

        def cut(values, size=size):
            """Of the rows of each head the first."""
            return np.ascontiguousarray(values.reshape(C // SIZE, SIZE, -1)[:, :size].reshape(-1, values.shape[-1]))

        w1, w2 = W[a + "time_maa_w1"].reshape(C, 5, MIX), W[a + "time_maa_w2"]
        places = [PARTS.index(part) for part in "rwkvg"]
        out |= {
            new + "x_proj.0.mu": W[a + "time_maa_x"][0, 0],
            new + "x_proj.0.linear.weight": np.ascontiguousarray(w1[:, places].reshape(C, -1).T),
            new + "x_proj.2.weight": np.ascontiguousarray(w2[places].transpose(2, 0, 1).reshape(C, -1)),
            new + "x_bias": np.concatenate([W[f"{a}time_maa_{part}"][0] for part in "rwkvg"]),
            new + "w_proj.linear.lora.0.weight": np.ascontiguousarray(W[a + "time_decay_w1"].T),
            new + "w_proj.linear.lora.2.weight": cut(W[a + "time_decay_w2"].T),
            new + "w_proj.linear.lora.2.bias": cut(W[a + "time_decay"].reshape(C, 1))[:, 0],
            new + "bonus": np.ascontiguousarray(W[a + "time_faaaa"][:, :size]),
            new + "r_proj.linear.weight": cut(W[a + "receptance.weight"]),
            new + "k_proj.linear.weight": cut(W[a + "key.weight"]),
            new + "v_proj.linear.weight": W[a + "value.weight"] / 8,
            new + "g_proj.linear.weight": W[a + "gate.weight"],
            new + "o_proj.weight": W[a + "output.weight"],
        }
        f, new = f"rwkv.blocks.{i}.feed_forward.", f"model.layers.{i}.ffn."
        for part, name in (("k", "key"), ("r", "receptance")):
            out |= {
                f"{new}{name}.mu": W[f"{f}time_maa_{part}"][0, 0],
                f"{new}{name}.linear.weight": W[f"{f}{name}.weight"],
            }
        out[new + "value.weight"] = W[f + "value.weight"]
    for old, name in norms.items():
        out |= {f"model.{name}.{end}": W[f"rwkv.{old}.{end}"] for end in ("weight", "bias")}
    return out


@pytest.mark.parametrize("size", [SIZE, SIZE // 2])
def test_folders_of_fla(size, tmp_path):
    folder = write_folder(tmp_path / "folder", FLA_CONFIG, fla_weights(size), expand_k=size / SIZE)
    convert(folder, tmp_path / "model.gguf")
    weights = {name: values.copy() for name, values in W.items()}
    for i in range(LAYERS):
        weights[f"rwkv.blocks.{i}.attention.key.weight"].reshape(-1, SIZE, C)[:, size:] = 0
    expected = reference(IDS[:60], weights)
    for path in (tmp_path / "model.gguf", folder):
        with load(path, threads=1) as model:
            assert hf_models.error(model.logits(IDS[:60]), expected) < 1e-9


def test_sequences_of_different_lengths_together(model):
    hf_models.check_together(model, [IDS[:50], IDS[:21], IDS[30:34]])


def test_adapters_learn(model, tmp_path):
    text = IDS[:40]
    result = model.finetune(
        [text] * 8, tmp_path / "lora.gguf", rank=4, steps=8, tokens=40, rate=2e-2, validation=[text]
    )
    assert result.validation[-1][1] < 0.9 * result.validation[0][1]
    model.set_lora(tmp_path / "lora.gguf")
    try:
        assert -model.log_probabilities(text).mean() == pytest.approx(result.validation[-1][1], rel=1e-3)
    finally:
        model.set_lora()


def test_texts_have_the_tokens_of_the_vocabulary(model):
    ids = model.tokenize("bc the\n\n\u00e9\u00e8'\"")
    assert [PIECES[i - 1] for i in ids] == [b"bc", b" the", b"\n\n", "\u00e9".encode(), b"\xc3", b"\xa8", b"'\""]
    assert model.detokenize(ids) == "bc the\n\n\u00e9\u00e8'\""
    assert model.metadata["tokenizer.ggml.eot_token_id"] == 1 + PIECES.index(b"\n\n")


def test_files_of_other_programs_are_read(path, tmp_path, model):
    """Shares in tensors of their own; layers that are halved, and matrices that are divided for that."""
    reader = gguf.GGUFReader(path)
    writer = gguf.GGUFWriter(tmp_path / "other.gguf", "rwkv6")
    writer.add_uint32("rwkv6.rescale_every_n_layers", 2)
    for key, field in reader.fields.items():
        if key.startswith("rwkv6."):
            value = field.contents()
            (writer.add_float32 if isinstance(value, float) else writer.add_uint32)(key, value)
    for tensor in reader.tensors:
        name, values = tensor.name, tensor.data
        if name.endswith("lerp_fused.weight"):
            for part, row in zip(PARTS, values.reshape(5, C)):
                writer.add_tensor(name.replace("fused", part), row.copy())
            continue
        halved = name.endswith(("time_mix_output.weight", "channel_mix_value.weight"))
        writer.add_tensor(name, values / 2 if halved and name.startswith("blk.2.") else values)
    gguf_files.finish(writer)
    with load(tmp_path / "other.gguf", threads=1) as other:
        assert hf_models.error(other.logits(IDS), EXPECTED) < 1e-8  # the epsilon of the norms counts a little more


def test_bad_folders(tmp_path):
    bad = {
        "head_size_divisor": (4, "'head_size_divisor' is 4"),
        "layer_norm_epsilon": (1e-3, "'layer_norm_epsilon' is 0.001: need 1e-05"),
        "lora_rank_decay": (11, "tensor 'blk.0.time_mix_decay_w1.weight' is 128 x 10: need 128 x 11"),
    }
    for name, (value, message) in bad.items():
        with pytest.raises(ValueError, match=message):
            convert(write_folder(tmp_path / name, **{name: value}), tmp_path / "out.gguf")
    of_fla = {
        "expand_v": (2.0, "'expand_v' is 2.0"),
        "expand_k": (0.25, r"is \[128, 10\], which the settings contradict"),
        "num_heads": (3, "'num_heads' is 3: need a divisor of 128"),
        "proj_low_rank_dim": (11, "need 128 x 55"),
    }
    for name, (value, message) in of_fla.items():
        folder = write_folder(tmp_path / name, FLA_CONFIG, fla_weights(SIZE), **{name: value})
        with pytest.raises(ValueError, match=message):
            convert(folder, tmp_path / "out.gguf")
    folder = write_folder(tmp_path / "vocabulary")
    (folder / "rwkv_vocab_v20230424.txt").write_text("1 'ab' 3\n")
    with pytest.raises(ValueError, match=r"rwkv_vocab_v20230424.txt: \"1 'ab' 3\" is no id with a text and its length"):
        convert(folder, tmp_path / "out.gguf")
    (folder / "rwkv_vocab_v20230424.txt").write_text("1 __import__('os') 3\n")
    with pytest.raises(ValueError, match="is no id with a text and its length"):
        convert(folder, tmp_path / "out.gguf")
    assert not (tmp_path / "out.gguf").exists()
    shutil.rmtree(folder)
