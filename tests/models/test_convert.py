"""`ggml convert`: files, types, tokenizers, and folders that are damaged or contradict themselves."""

import importlib.util
import json
import os
import random
import subprocess
import sys
import tracemalloc
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

for library in ("safetensors", "tokenizers", "jinja2"):  # of the extra [test]; not installed on emulated CPUs
    pytest.importorskip(library)

import gguf  # noqa: E402
import hf_models  # noqa: E402
import model_vocabularies  # noqa: E402
import tokenizers  # noqa: E402
from tokenizers import decoders, normalizers, pre_tokenizers, processors, trainers  # noqa: E402
from tokenizers import models as token_models  # noqa: E402

from ggml._cli import main  # noqa: E402
from ggml.models import ARCHITECTURES, Tokenizer, convert, load  # noqa: E402
from ggml.models.conversion.pretokenizer import name_of  # noqa: E402
from ggml.models.conversion.rows import BY_CLASS, ROWS  # noqa: E402
from ggml.models.text.pretokenizers import PRE_TOKENIZERS  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.*has no tokenizer")


def folder_of(path, kind="llama", change=None, drop=(), shapes=None, **options):
    """Writes the folder of a kind with other settings or shapes; returns it."""
    record = hf_models.record(kind)
    config = {name: value for name, value in {**record["config"], **(change or {})}.items() if name not in drop}
    return hf_models.write_folder(path, config, {**record["shapes"], **(shapes or {})}, **options)


def tensors_of(path):
    """The tensors of a GGUF file as floats, by PyPI gguf."""
    return {t.name: gguf.quants.dequantize(t.data, t.tensor_type).reshape(t.shape[::-1])
            for t in gguf.GGUFReader(path).tensors}  # fmt: skip


# ---- names and keys --------------------------------------------------------------------------------------------------
def test_rows_have_architectures_that_load_knows():
    assert {row.arch for row in ROWS} <= set(ARCHITECTURES)
    assert {hf_models.class_of(kind) for kind in hf_models.KINDS} <= set(BY_CLASS)


def test_the_documentation_lists_the_rows():
    script = Path(__file__).resolve().parents[2] / "scripts" / "make_architectures.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


# Keys that gguf has no name for
OURS = ("attention.bidirectional_images", "attention.chunk_size", "hidden_activation", "rope.scaling.yarn_truncate",
        "swiglu_alpha", "swiglu_limit")  # fmt: skip


@pytest.mark.parametrize("kind", hf_models.KINDS)
def test_names_and_keys_are_those_of_gguf(kind, tmp_path):
    convert(folder_of(tmp_path / "folder", kind), tmp_path / "model.gguf")
    reader = gguf.GGUFReader(tmp_path / "model.gguf")
    arch = reader.fields["general.architecture"].contents()
    number = {name: key for key, name in gguf.MODEL_ARCH_NAMES.items()}[arch]
    known = {gguf.TENSOR_NAMES[tensor] for tensor in gguf.MODEL_TENSORS[number]} | {
        "rope_freqs",
        "rope_factors_long",
        "rope_factors_short",
        "cls.output",
    }
    for tensor in reader.tensors:
        stem = tensor.name.removesuffix(".weight").removesuffix(".bias").removesuffix(".scale")
        stem = ".".join("{bid}" if part.isdigit() else part for part in stem.split("."))
        assert stem in known, tensor.name
    groups = (gguf.Keys.LLM, gguf.Keys.Attention, gguf.Keys.Rope, gguf.Keys.General, gguf.Keys.Tokenizer, gguf.Keys.SSM,
              gguf.Keys.ShortConv, gguf.Keys.Classifier)  # fmt: skip
    keys = {str(key).replace("{arch}", arch) for group in groups for key in vars(group).values()}
    keys |= {f"{arch}.{key}" for key in OURS}
    assert {key for key in reader.fields if not key.startswith("GGUF.")} <= keys


def test_the_file_says_where_it_is_from(tmp_path):
    folder = folder_of(tmp_path / "tiny-model")
    (folder / "generation_config.json").write_text('{"temperature": 0.5, "top_k": 7, "do_sample": true}')
    convert(folder, tmp_path / "model.gguf")
    fields = gguf.GGUFReader(tmp_path / "model.gguf").fields
    found = {
        key: fields[f"general.{key}"].contents()
        for key in ("name", "type", "file_type", "sampling.top_k", "sampling.temp")
    }
    assert found == {"name": "tiny-model", "type": "model", "file_type": 0, "sampling.top_k": 7, "sampling.temp": 0.5}


# ---- types -----------------------------------------------------------------------------------------------------------
def test_matrices_get_the_type_and_vectors_are_f32(tmp_path):
    shapes = {name: [256 if n == 80 else n for n in shape[:-1]] + [256 if shape[-1] in (64, 80) else shape[-1]]
              for name, shape in hf_models.record("llama")["shapes"].items()}  # fmt: skip
    for name, shape in shapes.items():
        if name.endswith(("o_proj.weight", "down_proj.weight")):
            shape[0] = 256
    folder = folder_of(tmp_path / "folder", change={"intermediate_size": 256, "hidden_size": 256}, shapes=shapes)
    convert(folder, tmp_path / "plain.gguf")
    exact = tensors_of(tmp_path / "plain.gguf")
    for kind, bound in {"F16": 1e-7, "BF16": 1e-5, "Q8_0": 1e-4, "q4_k_m": 1e-2}.items():
        convert(folder, tmp_path / "model.gguf", kind)
        reader, found = gguf.GGUFReader(tmp_path / "model.gguf"), tensors_of(tmp_path / "model.gguf")
        types = {t.name: t.tensor_type.name for t in reader.tensors}
        assert types["blk.0.attn_norm.weight"] == "F32"
        assert types["blk.0.ffn_gate.weight"] == kind.upper().removesuffix("_M")
        assert types["blk.0.attn_output.weight"] == {"q4_k_m": "Q5_0"}.get(kind, kind)  # rows of 96
        for name, values in exact.items():
            assert ((found[name] - values) ** 2).sum() <= bound * (values**2).sum(), name


@pytest.mark.parametrize("kind", [np.float16, np.uint16])
def test_weights_of_half_precision_stay_as_they_are(kind, tmp_path):
    record = hf_models.record("llama")
    folder = hf_models.write_folder(tmp_path / "folder", record["config"], record["shapes"])
    values = {name: hf_models.weight(name, tuple(shape), 0) for name, shape in record["shapes"].items()}
    halves = {name: (v.view(np.uint32) >> 16).astype(np.uint16) if kind is np.uint16 else v.astype(np.float16)
              for name, v in values.items()}  # fmt: skip
    hf_models.write_shard(folder / "model.safetensors", halves)
    convert(folder, tmp_path / "model.gguf")
    reader = gguf.GGUFReader(tmp_path / "model.gguf")
    found = {t.name: t for t in reader.tensors}
    assert found["blk.1.ffn_up.weight"].tensor_type.name == ("BF16" if kind is np.uint16 else "F16")
    raw = np.frombuffer(found["blk.1.ffn_up.weight"].data.tobytes(), kind)
    assert np.array_equal(raw, halves["model.layers.1.mlp.up_proj.weight"].ravel())
    norm = halves["model.layers.1.input_layernorm.weight"]
    wide = (norm.astype(np.uint32) << 16).view(np.float32) if kind is np.uint16 else norm.astype(np.float32)
    assert np.array_equal(found["blk.1.attn_norm.weight"].data, wide)


FP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)


def mxfp4_folders(path):
    """Two folders with the same weights: experts of MXFP4, and of F32, as gpt-oss has either."""
    record, rng = hf_models.record("gpt-oss"), np.random.default_rng(5)
    config = {**record["config"], "intermediate_size": 96}
    shapes = {name: [{80: 96, 160: 192}.get(n, n) for n in shape] for name, shape in record["shapes"].items()}
    plain = {name: hf_models.weight(name, tuple(shape), 0) for name, shape in shapes.items()}
    packed = dict(plain)
    for name in shapes:
        if name.endswith(("gate_up_proj", "down_proj")):
            experts, columns, rows = shapes[name]
            blocks = rng.integers(0, 256, (experts, rows, columns // 32, 16), np.uint8)
            scales = rng.integers(120, 124, (experts, rows, columns // 32), np.uint8)
            pairs = np.stack([FP4[blocks & 15], FP4[blocks >> 4]], -1).reshape(*scales.shape, 32)
            values = np.ldexp(pairs, scales[..., None].astype(np.int32) - 127).reshape(experts, rows, columns)
            del packed[name]
            packed |= {f"{name}_blocks": blocks, f"{name}_scales": scales}
            plain[name] = np.ascontiguousarray(values.swapaxes(1, 2))
    for folder, tensors in (("packed", packed), ("plain", plain)):
        (path / folder).mkdir()
        method = {"quantization_config": {"quant_method": "mxfp4"}} if folder == "packed" else {}
        (path / folder / "config.json").write_text(json.dumps({**config, **method}))
        hf_models.write_shard(path / folder / "model.safetensors", tensors)
    return packed


def test_experts_of_mxfp4_keep_their_values(tmp_path):
    mxfp4_folders(tmp_path)
    for name in ("packed", "plain"):
        convert(tmp_path / name, tmp_path / f"{name}.gguf")
    types = {t.name: t.tensor_type.name for t in gguf.GGUFReader(tmp_path / "packed.gguf").tensors}
    assert types["blk.1.ffn_up_exps.weight"] == types["blk.3.ffn_down_exps.weight"] == "MXFP4"
    assert types["blk.1.ffn_up_exps.bias"] == "F32"
    found, expected = tensors_of(tmp_path / "packed.gguf"), tensors_of(tmp_path / "plain.gguf")
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        assert np.array_equal(found[name], values), name
    ids = hf_models.tokens(48)
    with load(tmp_path / "packed") as folder, load(tmp_path / "packed.gguf") as file:
        assert np.array_equal(folder.logits(ids), file.logits(ids))
    convert(tmp_path / "packed", tmp_path / "wide.gguf", "F32")
    for name, values in tensors_of(tmp_path / "wide.gguf").items():
        assert np.array_equal(values, expected[name]), name


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t, name: t.pop(f"{name}_scales"), "has no .*_scales' beside it"),
        (lambda t, name: t.update({f"{name}_scales": t[f"{name}_scales"][:, :-1]}), "need U8, and 16 bytes for each"),
        (lambda t, name: t.update({f"{name}_blocks": t[f"{name}_blocks"].astype(np.float32)}), "of F32.*need U8"),
    ],
)
def test_damaged_mxfp4_is_refused(change, message, tmp_path):
    tensors = mxfp4_folders(tmp_path)
    change(tensors, "model.layers.1.mlp.experts.down_proj")
    hf_models.write_shard(tmp_path / "packed" / "model.safetensors", tensors)
    refused(tmp_path / "packed", tmp_path, message)


def test_importance_weighs_the_rounding(tmp_path):
    """A column that counts for all is kept best: the error in it falls."""
    folder = folder_of(tmp_path / "folder")
    convert(folder, tmp_path / "exact.gguf")
    exact = tensors_of(tmp_path / "exact.gguf")
    writer = gguf.GGUFWriter(tmp_path / "imatrix.gguf", "imatrix")
    for name in exact:
        if name.startswith("blk.") and exact[name].ndim == 2:
            sums = np.full(exact[name].shape[-1], 1e-6, np.float32)
            sums[5] = 1
            writer.add_tensor(f"{name}.in_sum2", sums[None])
            writer.add_tensor(f"{name}.counts", np.ones((1, 1), np.float32))
    for step in ("header", "kv_data", "tensors"):
        getattr(writer, f"write_{step}_to_file")()
    writer.close()
    convert(folder, tmp_path / "plain.gguf", "Q4_0")
    convert(folder, tmp_path / "weighed.gguf", "Q4_0", imatrix=tmp_path / "imatrix.gguf")
    plain, weighed = tensors_of(tmp_path / "plain.gguf"), tensors_of(tmp_path / "weighed.gguf")
    name = "blk.0.ffn_up.weight"
    error = [((found[name] - exact[name])[:, 5] ** 2).sum() for found in (plain, weighed)]
    assert error[1] < 0.2 * error[0]


def test_memory_stays_below_twice_the_largest_tensor(tmp_path):
    shapes = {name: [6000 if n == hf_models.VOCAB and len(shape) == 2 and n != shape[-1] else n for n in shape]
              for name, shape in hf_models.record("llama")["shapes"].items()}  # fmt: skip
    shapes |= {"model.embed_tokens.weight": [6000, 64], "lm_head.weight": [6000, 64]}
    shapes = {name: shape if "proj" not in name else hf_models.record("llama")["shapes"][name]
              for name, shape in shapes.items()}  # fmt: skip
    folder = folder_of(tmp_path / "folder", change={"vocab_size": 6000}, shapes=shapes)
    convert(folder, tmp_path / "first.gguf", "Q8_0")  # imports
    tracemalloc.start()
    try:
        convert(folder, tmp_path / "model.gguf", "Q8_0")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2 * 6000 * 64 * 4 + 500_000


# ---- bad folders -----------------------------------------------------------------------------------------------------
def damage(name, change):
    """A function that changes the bytes of a file of a folder."""

    def apply(folder):
        path = folder / name
        path.write_bytes(change(path.read_bytes()))

    return apply


def reindex(change):
    """A function that changes the index of a folder with shards."""

    def apply(folder):
        path = folder / "model.safetensors.index.json"
        index = json.loads(path.read_text())
        change(index)
        path.write_text(json.dumps(index))

    return apply


def first_place(name):
    def change(index):
        index["weight_map"][next(iter(index["weight_map"]))] = name

    return reindex(change)


Q = "model.layers.0.self_attn.q_proj.weight"
SETTINGS = {  # settings that are wrong, and what the message says
    "no layers": ({"num_hidden_layers": None}, "config.json: 'num_hidden_layers' is missing"),
    "negative": ({"num_hidden_layers": -1}, "'num_hidden_layers' is -1: need an integer from 1 to 4096"),
    "text": ({"hidden_size": "64"}, "'hidden_size' is '64': need an integer"),
    "huge": ({"intermediate_size": 10**30}, "'intermediate_size' is 1000"),
    "more layers": ({"num_hidden_layers": 4}, "the shards have 3 layers, config.json 4"),
    "heads": ({"num_attention_heads": 3}, "head_count_kv' is 2: need a divisor of the 3 heads"),
    "width": ({"hidden_size": 128}, "tensor .* is 64 .*: need 128"),
    "vocabulary": ({"vocab_size": 1000}, "'vocab_size' is 1000: need at most the embedding's 64 rows"),
    "nan": ({"rms_norm_eps": float("nan")}, "'rms_norm_eps' is nan: need a number"),
    "class": ({"architectures": ["MyOwnModel"]}, "class 'MyOwnModel' is not known: need one of Llama"),
    "no class": ({"architectures": None}, "'architectures' is missing"),
    "activation": ({"hidden_act": "relu"}, "'hidden_act' is 'relu': need 'silu'"),
    "rope": ({"rope_parameters": {"rope_type": "spiral"}}, "'rope_type' is 'spiral': need default, linear"),
    "factor": ({"rope_parameters": {"rope_type": "linear"}}, "rope_parameters: 'factor' is missing"),
    "rope is a list": ({"rope_parameters": [1]}, r"'rope_parameters' is \[1\]: need an object"),
    "head": ({"head_dim": 7}, "48 rows are no whole number of heads of 7"),
    "quantised": ({"quantization_config": {"bits": 4}}, "quantization_config: 'quant_method' is None: need 'fp8' or"),
}
FOLDERS = {  # what is done to a folder of 3 shards, and what the message says
    "no config": (lambda f: (f / "config.json").unlink(), "the folder has no config.json"),
    "no json": (damage("config.json", lambda data: data[:-3]), "config.json: not a JSON file"),
    "deep json": (damage("config.json", lambda data: b"[" * 100000), "config.json: not a JSON file"),
    "a list": (damage("config.json", lambda data: b"[1]"), "config.json: the file has a list: need a JSON object"),
    "truncated": (damage("model-00002-of-00003.safetensors", lambda data: data[:-5]), "not a complete file"),
    "half a header": (damage("model-00002-of-00003.safetensors", lambda data: data[:40]), "not a complete file"),
    "longer": (damage("model-00002-of-00003.safetensors", lambda data: data + b"x"), "not a complete file"),
    "a pickle": (damage("model-00002-of-00003.safetensors", lambda data: b"PK\x03\x04" + data[4:]), "not a complete"),
    "empty": (damage("model-00002-of-00003.safetensors", lambda data: b""), "not a complete file"),
    "missing": (lambda f: (f / "model-00002-of-00003.safetensors").unlink(), "a shard is missing"),
    "outside": (first_place("../secret.safetensors"), "'../secret.safetensors' is no file of the folder"),
    "absolute": (first_place("/etc/passwd"), "'/etc/passwd' is no file of the folder"),
    "another shard": (first_place("model-00003-of-00003.safetensors"), "tensor .* is not in this file"),
    "number": (first_place(3), "'3' is no file of the folder"),
    "no map": (reindex(lambda index: index.pop("weight_map")), "'weight_map' is missing"),
}
SHAPES = {  # tensors of other shapes, and what the message says
    "wide": ({"model.layers.1.mlp.up_proj.weight": [80, 63]}, "'blk.1.ffn_up.weight' is 63 x 80: need 64 x 80"),
    "rows": ({Q: [95, 64]}, "q_proj.weight': 95 rows are no whole number of heads of 24"),
    "norm": ({"model.norm.weight": [64, 1]}, "'output_norm.weight' is 1 x 64: need 64"),
    "scalar": ({"model.norm.weight": []}, r"'model.norm.weight' is \[\]: need 1 to 3 dimensions"),
    "empty": ({"model.norm.weight": [0]}, r"'model.norm.weight' is \[0\]: need 1 to 3 dimensions"),
    "foreign": ({"model.layers.0.mamba.A_log": [4]}, "'model.layers.0.mamba.A_log' is not one of LlamaForCausalLM"),
    "layer": ({"model.layers.3.input_layernorm.weight": [64]}, "the shards have 4 layers, config.json 3"),
    "unused": ({"model.layers.0.block_sparse_moe.gate.weight": [4, 64]},
               "does not use tensor 'blk.0.ffn_gate_inp.weight'"),
}  # fmt: skip


def refused(folder, tmp_path, message):
    """Whether a folder is refused in one line, and nothing is written."""
    before = sorted(os.listdir(tmp_path))
    with pytest.raises((ValueError, OSError), match=message) as caught:
        convert(folder, tmp_path / "out.gguf")
    text = str(caught.value if isinstance(caught.value, ValueError) else caught.value.strerror)
    assert text.startswith("convert: ") and "\n" not in text and len(text) < 1500
    assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.parametrize("what", SETTINGS)
def test_wrong_settings_are_named(what, tmp_path):
    change, message = SETTINGS[what]
    refused(folder_of(tmp_path / "folder", change=change), tmp_path, message)


SCALED = {"full_attention": {"rope_type": "default", "rope_theta": 1e6},
          "sliding_attention": {"rope_type": "linear", "rope_theta": 1e4, "factor": 2.0}}  # fmt: skip
OF_KINDS = [  # kind, setting, value, what is needed
    ("gemma2", "query_pre_attn_scalar", 32, "24"),
    ("gemma3", "query_pre_attn_scalar", 32, "24"),
    ("gemma", "hidden_act", "silu", "'gelu' or 'gelu_pytorch_tanh'"),
    ("gpt2", "scale_attn_weights", False, "True"),
    ("t5", "is_gated_act", True, "False"),
    ("umt5", "dense_act_fn", "silu", "'gelu_new'"),
    ("nemotron_h", "tie_word_embeddings", True, "False"),
    *((kind, "rope_parameters", SCALED, "'default'") for kind in ("gemma3", "gemma3n", "olmo3", "modern-bert")),
]


@pytest.mark.parametrize(("kind", "name", "value", "need"), OF_KINDS)
def test_settings_that_an_architecture_does_not_have_are_refused(kind, name, value, need, tmp_path):
    name_of_error, given = ("rope_type", "linear") if value is SCALED else (name, value)
    folder = folder_of(tmp_path / "folder", kind, {name: value})
    refused(folder, tmp_path, f"{name_of_error!r} is {given!r}: need {need}")


@pytest.mark.parametrize("what", FOLDERS)
def test_damaged_folders_are_refused(what, tmp_path):
    change, message = FOLDERS[what]
    folder = folder_of(tmp_path / "folder", shards=3)
    change(folder)
    refused(folder, tmp_path, message)


@pytest.mark.parametrize("what", SHAPES)
def test_wrong_tensors_are_named(what, tmp_path):
    shapes, message = SHAPES[what]
    refused(folder_of(tmp_path / "folder", shapes=shapes), tmp_path, message)


def test_missing_tensors_are_named(tmp_path):
    record = hf_models.record("llama")
    del record["shapes"]["model.layers.2.mlp.down_proj.weight"]
    folder = hf_models.write_folder(tmp_path / "folder", record["config"], record["shapes"])
    refused(folder, tmp_path, "tensor 'blk.2.ffn_down.weight' is missing")


def test_missing_experts_are_named(tmp_path):
    record = hf_models.record("mixtral")
    del record["shapes"]["model.layers.1.block_sparse_moe.experts.2.w1.weight"]
    folder = hf_models.write_folder(tmp_path / "folder", record["config"], record["shapes"])
    refused(folder, tmp_path, "'blk.1.ffn_gate_exps.weight' lacks its part 2")


def test_keys_of_layers_that_read_those_of_others_are_spare(tmp_path):
    more = {f"model.layers.5.self_attn.{name}.weight": shape
            for name, shape in {"k_proj": [64, 64], "v_proj": [64, 64], "k_norm": [32]}.items()}  # fmt: skip
    convert(folder_of(tmp_path / "more", "gemma4", shapes=more), tmp_path / "more.gguf")
    convert(folder_of(tmp_path / "plain", "gemma4"), tmp_path / "plain.gguf")
    assert len(tensors_of(tmp_path / "more.gguf")) == len(tensors_of(tmp_path / "plain.gguf")) + 3
    ids = hf_models.tokens(48)
    with load(tmp_path / "more.gguf") as more_, load(tmp_path / "plain.gguf") as plain:
        assert np.array_equal(more_.logits(ids), plain.logits(ids))


def test_tokens_without_an_input_of_layers_get_the_first(tmp_path):
    """As transformers: the vocabulary of the inputs of layers lacks the last tokens, those of images and sounds."""
    change, shapes = {"vocab_size_per_layer_input": 60}, {"model.embed_tokens_per_layer.weight": [60, 72]}
    convert(folder_of(tmp_path / "folder", "gemma3n", change, shapes=shapes), tmp_path / "model.gguf")
    table = tensors_of(tmp_path / "model.gguf")["per_layer_token_embd.weight"]
    given = hf_models.weight("model.embed_tokens_per_layer.weight", (60, 72), 0)
    assert np.array_equal(table, np.concatenate([given, np.repeat(given[:1], 4, 0)]))


def test_experts_may_be_stored_either_way(tmp_path):
    """The published Qwen 3 VL has [experts, inputs, outputs], transformers saves [experts, outputs, inputs]."""
    record = hf_models.record("qwen3vlmoe")
    values = {name: hf_models.weight(name, tuple(shape), 0) for name, shape in record["shapes"].items()}
    for name, way in (("saved", lambda v: v), ("published", lambda v: np.ascontiguousarray(v.swapaxes(1, 2)))):
        folder = hf_models.write_folder(tmp_path / name, record["config"], {})
        tensors = {n: way(v) if ".experts." in n else v for n, v in values.items()}
        hf_models.write_shard(folder / "model.safetensors", tensors)
        convert(folder, tmp_path / f"{name}.gguf")
    saved, published = tensors_of(tmp_path / "saved.gguf"), tensors_of(tmp_path / "published.gguf")
    assert all(np.array_equal(published[name], tensor) for name, tensor in saved.items())


def test_integers_are_no_weights(tmp_path):
    folder = folder_of(tmp_path / "folder")
    hf_models.write_shard(folder / "model.safetensors", {"model.embed_tokens.weight": np.ones((64, 64), np.int64)})
    refused(folder, tmp_path, "'model.embed_tokens.weight' is I64: need F32, F16, BF16")


def test_errors_of_an_importance_matrix_name_it(tmp_path):
    folder = folder_of(tmp_path / "folder")
    (tmp_path / "bad.gguf").write_bytes(b"GGUF\3\0")
    with pytest.raises(ValueError, match="bad.gguf: "):
        convert(folder, tmp_path / "out.gguf", "Q8_0", imatrix=tmp_path / "bad.gguf")
    with pytest.raises(OSError, match="convert: "):
        convert(folder, tmp_path / "out.gguf", "Q8_0", imatrix=tmp_path / "none.gguf")


def test_pickles_are_refused_with_the_way_out(tmp_path):
    folder = folder_of(tmp_path / "folder")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    refused(folder, tmp_path, "pytorch_model.bin is a pickle, which may run code: .*save_pretrained")


def test_arguments_are_checked(tmp_path):
    folder = folder_of(tmp_path / "folder")
    with pytest.raises(ValueError, match="^convert: type is 'Q9': need None or one of F32"):
        convert(folder, tmp_path / "out.gguf", "Q9")
    with pytest.raises(TypeError, match="^convert: folder is 3: need a str"):
        convert(3, tmp_path / "out.gguf")
    with pytest.raises(NotADirectoryError, match="need a folder"):
        convert(tmp_path / "nothing", tmp_path / "out.gguf")
    with pytest.raises(ValueError, match="^convert: IQ2_XXS needs an importance matrix"):
        convert(folder_of(tmp_path / "wide", change={"intermediate_size": 256},
                          shapes={n: [256 if d == 80 else d for d in s]
                                  for n, s in hf_models.record("llama")["shapes"].items()}),
                tmp_path / "out.gguf", "IQ2_XXS")  # fmt: skip
    assert sorted(os.listdir(tmp_path)) == ["folder", "wide"]


def test_an_existing_file_stays_when_the_conversion_fails(tmp_path, capsys):
    folder = folder_of(tmp_path / "folder", change={"num_hidden_layers": 9})
    (tmp_path / "out.gguf").write_text("mine")
    assert main(["convert", str(folder), str(tmp_path / "out.gguf")]) == 1
    assert capsys.readouterr().err == f"ggml convert: {tmp_path}/out.gguf exists: --force replaces it\n"
    assert main(["convert", str(folder), str(tmp_path / "out.gguf"), "--force"]) == 1
    assert (tmp_path / "out.gguf").read_text() == "mine"
    assert capsys.readouterr().err == f"ggml convert: {folder}: the shards have 3 layers, config.json 9\n"


def test_the_command_writes_a_file(tmp_path, capsys):
    folder = folder_of(tmp_path / "folder")
    assert main(["convert", str(folder), str(tmp_path / "out.gguf"), "--type", "q8_0"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith(f"{tmp_path}/out.gguf: ") and err.count("\n") <= 1
    with load(tmp_path / "out.gguf") as model:
        assert model.config.n_layer == 3 and np.isfinite(model.logits([5, 6])).all()


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_random_damage_is_refused_in_one_line(tmp_path):
    path = Path(__file__).resolve().parents[2] / "fuzz" / "folders.py"
    spec = importlib.util.spec_from_file_location("folders", path)
    folders = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(folders)
    rng = random.Random(0)
    found = Counter(folders.attempt(tmp_path / "folder", rng) for _ in range(60))
    assert found.keys() == {"converted", "refused"}


# ---- tokenizers ------------------------------------------------------------------------------------------------------
LINES = model_vocabularies.corpus(3, 200)
CL100K = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def split(pattern):
    return pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated")


BYTES = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
GPT2 = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
DIGITS = pre_tokenizers.Digits(individual_digits=True)
PRE = {  # what does the same as a name of tokenizer.ggml.pre
    "gpt-2": GPT2,
    "qwen2": pre_tokenizers.Sequence([split(CL100K.replace("{1,3}", "")), BYTES]),
    "dbrx": pre_tokenizers.Sequence([split(CL100K), BYTES]),
    "starcoder": pre_tokenizers.Sequence([DIGITS, GPT2]),
}


def bpe_folder(path, pre, special=("<s>", "</s>"), **settings):
    """Writes a folder with a tokenizer that is trained on the spot, as large as the embedding's rows allow."""
    tokenizer = tokenizers.Tokenizer(token_models.BPE())
    tokenizer.pre_tokenizer, tokenizer.decoder = pre, decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=600, special_tokens=list(special), show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())  # fmt: skip
    tokenizer.train_from_iterator(LINES[:100], trainer)
    folder = path
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(hf_models.record("llama")["config"]))
    (folder / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<s>", "eos_token": "</s>", **settings}))
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder, tokenizer


def metadata_of(path):
    """The keys of a GGUF file, by PyPI gguf."""
    return {key: field.contents() for key, field in gguf.GGUFReader(path).fields.items()}


@pytest.mark.parametrize("name", PRE)
def test_byte_level_tokens_are_those_of_the_library(name, tmp_path):
    folder, library = bpe_folder(tmp_path / "folder", PRE[name])
    convert(folder, tmp_path / "vocab.gguf", vocab_only=True)
    metadata = metadata_of(tmp_path / "vocab.gguf")
    assert metadata["tokenizer.ggml.pre"] == name and metadata["tokenizer.ggml.eos_token_id"] == 1
    assert metadata["tokenizer.ggml.token_type"][:3] == [3, 3, 1]
    ours = Tokenizer(metadata)
    for line in LINES:
        assert ours.encode(line, special=True) == library.encode(line, add_special_tokens=False).ids, line


def test_sentencepiece_tokens_are_those_of_the_library(tmp_path):
    """A tokenizer.json whose BPE falls back to bytes: its merges give the scores."""
    library = tokenizers.Tokenizer(token_models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    library.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    names = ["<unk>", "<s>", "</s>", *(f"<0x{i:02X}>" for i in range(256))]
    trainer = trainers.BpeTrainer(vocab_size=700, special_tokens=names, show_progress=False)
    library.train_from_iterator([line.replace(" ", "\u2581") for line in LINES[:100]], trainer)
    saved = json.loads(library.to_str())
    saved["added_tokens"] = saved["added_tokens"][:3]
    library = tokenizers.Tokenizer.from_str(json.dumps(saved))
    library.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    folder = folder_of(tmp_path / "folder")
    library.save(str(folder / "tokenizer.json"))
    convert(folder, tmp_path / "vocab.gguf", vocab_only=True)
    metadata = metadata_of(tmp_path / "vocab.gguf")
    assert metadata["tokenizer.ggml.model"] == "llama" and metadata["tokenizer.ggml.add_bos_token"]
    assert metadata["tokenizer.ggml.token_type"][:4] == [2, 3, 3, 6]
    ours = Tokenizer(metadata)
    for line in LINES:
        assert ours.encode(line, special=True) == library.encode(line).ids, line


def test_word_pieces_are_those_of_the_library(tmp_path):
    library = tokenizers.Tokenizer(token_models.WordPiece(unk_token="[UNK]"))
    library.normalizer = normalizers.BertNormalizer(lowercase=True)
    library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=500, special_tokens=special, show_progress=False)
    words = ["The quick brown fox jumps over the lazy dog.", "Packed with five dozen liquor jugs!", "Ärger über Öl"] * 9
    library.train_from_iterator(words, trainer)
    library.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]",
                                                           special_tokens=[("[CLS]", 2), ("[SEP]", 3)])  # fmt: skip
    folder = folder_of(tmp_path / "folder", "bert")
    library.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "[UNK]", "pad_token": "[PAD]"})
    )
    convert(folder, tmp_path / "vocab.gguf", vocab_only=True)
    metadata = metadata_of(tmp_path / "vocab.gguf")
    assert metadata["tokenizer.ggml.token_type_count"] == 2 and metadata["tokenizer.ggml.bos_token_id"] == 2
    ours = Tokenizer(metadata)
    for line in [*words[:3], "a quick Öl jug", "five foxes, über-lazy", "dozens"]:
        assert ours.encode(line) == library.encode(line).ids, line


def test_unigram_tokens_are_those_of_the_library(tmp_path):
    """As XLM-RoBERTa's: words at white space, U+2581 before each."""
    library = tokenizers.Tokenizer(token_models.Unigram())
    library.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(),
                                                     pre_tokenizers.Metaspace(prepend_scheme="always")])  # fmt: skip
    trainer = trainers.UnigramTrainer(vocab_size=300, special_tokens=["<s>", "<pad>", "</s>", "<unk>"],
                                      unk_token="<unk>", show_progress=False)  # fmt: skip
    words = [" ".join(line.split()) for line in LINES if line.isascii() and "<" not in line and "[" not in line]
    library.train_from_iterator(words[: len(words) // 2], trainer)
    library.post_processor = processors.TemplateProcessing(single="<s> $A </s>",
                                                           special_tokens=[("<s>", 0), ("</s>", 2)])  # fmt: skip
    folder = folder_of(tmp_path / "folder", "roberta")
    library.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"})
    )
    convert(folder, tmp_path / "vocab.gguf", vocab_only=True)
    metadata = metadata_of(tmp_path / "vocab.gguf")
    assert metadata["tokenizer.ggml.model"] == "t5" and metadata["tokenizer.ggml.unknown_token_id"] == 3
    assert metadata["tokenizer.ggml.add_bos_token"] and metadata["tokenizer.ggml.add_eos_token"]
    ours = Tokenizer(metadata)
    assert len(words) > 20
    for line in words:
        assert ours.encode(line) == library.encode(line).ids, line


def test_models_of_sentencepiece_are_read(tmp_path):
    """A message of protocol buffers, written here field by field."""

    def field(number, wire, data):
        return bytes([number << 3 | wire]) + (bytes([len(data)]) if wire == 2 else b"") + data

    def piece(text, score, kind):
        inner = field(1, 2, text.encode()) + field(2, 5, np.float32(score).tobytes()) + field(3, 0, bytes([kind]))
        return field(1, 2, inner)

    pieces = [("<unk>", 0, 2), ("<s>", 0, 3), ("</s>", 0, 3), ("<0x41>", 0, 6), ("\u2581a", -1.5, 1), ("b", -2.5, 1)]
    data = b"".join(piece(*p) for p in pieces) + field(2, 2, field(3, 0, b"\x02")) + field(3, 2, field(3, 0, b"\x00"))
    folder = folder_of(tmp_path / "folder")
    (folder / "tokenizer.model").write_bytes(data)
    convert(folder, tmp_path / "model.gguf")
    metadata = metadata_of(tmp_path / "model.gguf")
    found = {key: metadata[f"tokenizer.ggml.{key}"] for key in ("model", "add_space_prefix", "add_bos_token")}
    assert found == {"model": "llama", "add_space_prefix": False, "add_bos_token": True}
    assert metadata["tokenizer.ggml.tokens"][:6] == [p[0] for p in pieces]
    assert metadata["tokenizer.ggml.scores"][:6] == [0, 0, 0, 0, -1.5, -2.5]
    assert metadata["tokenizer.ggml.token_type"] == [p[2] for p in pieces] + [5] * (hf_models.VOCAB - 6)
    (folder / "tokenizer.model").write_bytes(data[:50])
    with pytest.raises(ValueError, match="tokenizer.model: not a model of SentencePiece, or an incomplete one"):
        convert(folder, tmp_path / "model.gguf")


def test_unknown_pre_tokenizers_are_shown(tmp_path):
    folder, _ = bpe_folder(tmp_path / "folder", pre_tokenizers.Sequence([split(r"\d\d"), BYTES]))
    with pytest.raises(ValueError, match=r"the pre-tokenizer is not known: patterns \['.*d.*d'\], ignore_merges False"):
        convert(folder, tmp_path / "vocab.gguf", vocab_only=True)
    assert os.listdir(tmp_path) == ["folder"]


def test_every_known_pattern_is_recognised():
    for rules in PRE_TOKENIZERS.values():
        if rules.plain:
            continue
        parts = [json.loads(split(pattern).__getstate__()) for pattern in rules.patterns]
        found = name_of({"type": "Sequence", "pretokenizers": parts}, rules.ignore_merges, "file")
        assert PRE_TOKENIZERS[found][:2] == rules[:2]


def test_too_many_tokens_are_refused(tmp_path):
    folder, _ = bpe_folder(tmp_path / "folder", GPT2)
    record = hf_models.record("llama")
    hf_models.write_folder(folder, record["config"], record["shapes"])
    with pytest.raises(ValueError, match="the vocabulary has 600 tokens, the embedding 64 rows"):
        convert(folder, tmp_path / "model.gguf")


def test_templates_are_kept(tmp_path):
    named = [{"name": "default", "template": "A"}, {"name": "tools", "template": "B"}]
    folder, _ = bpe_folder(tmp_path / "folder", GPT2, chat_template=named)
    convert(folder, tmp_path / "vocab.gguf", vocab_only=True)
    metadata = metadata_of(tmp_path / "vocab.gguf")
    assert metadata["tokenizer.chat_template"] == "A" and metadata["tokenizer.chat_template.tools"] == "B"
    (folder / "chat_template.jinja").write_text("C")
    convert(folder, tmp_path / "vocab.gguf", vocab_only=True)
    assert metadata_of(tmp_path / "vocab.gguf")["tokenizer.chat_template"] == "C"


def test_a_folder_without_a_tokenizer_is_told(tmp_path):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        convert(folder_of(tmp_path / "folder"), tmp_path / "model.gguf")
    assert any("has no tokenizer" in str(item.message) for item in caught)


def test_a_window_that_is_left_out_is_told(tmp_path):
    with pytest.warns(UserWarning, match="'sliding_window' is 20: architecture 'llama' has none"):
        convert(folder_of(tmp_path / "folder", "mistral", {"sliding_window": 20}), tmp_path / "model.gguf")


def test_pooling_is_that_of_sentence_transformers(tmp_path):
    folder = folder_of(tmp_path / "folder", "bert")
    modules = [{"idx": 1, "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    convert(folder, tmp_path / "model.gguf")
    assert metadata_of(tmp_path / "model.gguf")["bert.pooling_type"] == 2
    modules[0]["path"] = "../1_Pooling"
    (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(ValueError, match="'../1_Pooling' is no folder inside"):
        convert(folder, tmp_path / "model.gguf")
