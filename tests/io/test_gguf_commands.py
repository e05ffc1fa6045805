"""`ggml inspect` and `ggml quantize`; invalid files for these, `ggml view` and `ggml dot`."""

import ctypes
import json
import os
import struct

import numpy as np
import pytest
from gguf_files import SAMPLES, all_kinds, finish

import ggml
from ggml._cli import main
from ggml._cli import quantize as _quantize

peer = pytest.importorskip("gguf")  # part of the [test] extra; not installed on emulated CPUs


def command(capsys, *arguments, code=0):
    assert main([str(a) for a in arguments]) == code
    return capsys.readouterr()


# ---- inspect ---------------------------------------------------------------------------------------------------------
@pytest.fixture
def every_kind(tmp_path):
    path = tmp_path / "kinds.gguf"
    path.write_bytes(all_kinds())
    return path


def test_inspect_as_json_has_everything(every_kind, capsys):
    about = json.loads(command(capsys, "inspect", every_kind, "--json").out)
    assert about["version"] == 3 and about["bytes"] == every_kind.stat().st_size and about["alignment"] == 32
    for kind, value in SAMPLES.items():
        assert about["keys"][f"key.{kind}"] == {"type": kind, "value": value}
        assert about["keys"][f"arr.{kind}"] == {"type": f"{kind}[3]", "value": [value] * 3}
    assert about["tensors"][2] == {"name": "c", "type": "Q8_0", "shape": [32, 1], "offset": 64, "bytes": 34}
    assert about["types"] == {
        "Q8_0": {"tensors": 1, "bytes": 34},
        "F32": {"tensors": 1, "bytes": 24},
        "F16": {"tensors": 1, "bytes": 10},
        "I32": {"tensors": 1, "bytes": 4},
    }


def test_long_arrays_are_marked_as_shortened(tmp_path, capsys):
    g = ggml.gguf_init_empty()
    words = [f"word{i}" for i in range(1000)]
    ggml.gguf_set_arr_str(g, "tokens", [w.encode() for w in words], len(words))
    ggml.gguf_set_arr_data(g, "short", ggml.GGUF_TYPE_INT32, (ctypes.c_int * 20)(*range(20)), 20)
    ggml.gguf_set_arr_data(g, "zeros", ggml.GGUF_TYPE_INT8, bytes(64), 64)
    ggml.gguf_write_to_file(g, str(tmp_path / "x.gguf"), True)
    ggml.gguf_free(g)
    lines = command(capsys, "inspect", tmp_path / "x.gguf").out.splitlines()
    assert next(line for line in lines if "tokens" in line).endswith(', "word6", ...]')
    assert next(line for line in lines if "short" in line).endswith(", 18, 19]")
    assert next(line for line in lines if "zeros" in line).endswith(" 0, 0, ...]")
    assert all(len(line) < 100 for line in lines[1:])
    keys = json.loads(command(capsys, "inspect", tmp_path / "x.gguf", "--json").out)["keys"]
    assert keys["tokens"] == {"type": "str[1000]", "first": words[:8]}
    assert keys["short"] == {"type": "i32[20]", "value": list(range(20))} and len(keys["zeros"]["value"]) == 64
    keys = json.loads(command(capsys, "inspect", tmp_path / "x.gguf", "--json", "--full").out)["keys"]
    assert keys["tokens"] == {"type": "str[1000]", "value": words}


def test_inspect_as_text(every_kind, capsys):
    out = command(capsys, "inspect", every_kind).out
    for line in (
        'key.str    str         "größe"',
        "a  F32       3 x 2",
        "Q8_0          1 tensors      34 bytes   47.2%",
        "4 tensors, 44 elements",
    ):
        assert line in out


def test_inspect_writes_infinity_as_json(tmp_path, capsys):
    g = ggml.gguf_init_empty()
    ggml.gguf_set_val_f32(g, b"x", float("-inf"))
    ggml.gguf_write_to_file(g, str(tmp_path / "x.gguf"), True)
    ggml.gguf_free(g)
    assert json.loads(command(capsys, "inspect", tmp_path / "x.gguf", "--json").out)["keys"]["x"]["value"] == "-inf"


@pytest.mark.parametrize(
    "arguments",
    [
        ("inspect", "{}/none"),
        ("inspect", "{}/bad"),
        ("quantize", "{}/none", "{}/out", "Q8_0"),
        ("quantize", "{}/bad", "{}/out", "Q8_0"),
        ("view", "{}/none"),
        ("view", "{}/bad"),
        ("dot", "{}/none"),
        ("dot", "{}/bad"),
    ],
)
def test_an_invalid_file_is_named_in_one_line(arguments, tmp_path, capsys):
    (tmp_path / "bad").write_bytes(b"GGUF" + bytes(20))
    done = command(capsys, *[a.format(tmp_path) for a in arguments], code=1)
    assert done.out == "" and done.err.count("\n") == 1
    assert done.err.startswith(f"ggml {arguments[0]}: {arguments[1].format(tmp_path)}: ")
    assert not (tmp_path / "out").exists()


# ---- quantize --------------------------------------------------------------------------------------------------------
SHAPES = {
    "token_embd.weight": (40, 256),
    "output.weight": (40, 256),
    "output_norm.weight": (256,),
    "odd.weight": (6, 96),
    "prime.weight": (5, 31),
    "experts.weight": (3, 8, 256),
    "bias": (256,),
    "table": (4, 256),
}
PARTS = ("attn_q", "attn_v", "ffn_up", "ffn_down")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "model.gguf"
    rng = np.random.default_rng(1)
    shapes = SHAPES | {f"blk.{i}.{part}.weight": (16, 256) for i in range(8) for part in PARTS}
    w = peer.GGUFWriter(path, "llama")
    w.add_array("words", ["a", "b"])
    for i, (name, shape) in enumerate(shapes.items()):
        w.add_tensor(
            name, rng.standard_normal(shape).astype(np.float16 if i % 3 == 0 and len(shape) > 1 else np.float32)
        )
    finish(w)
    return path


def types_of(path):
    return {t.name: t.tensor_type.name for t in peer.GGUFReader(path).tensors}


# error: the root mean square error, relative to the root mean square of the values
@pytest.mark.parametrize(
    ("kind", "file_type", "error"),
    [
        ("F16", 1, 1e-3),
        ("BF16", 32, 4e-3),
        ("F32", 0, 1e-6),
        ("Q8_0", 7, 0.01),
        ("Q4_0", 2, 0.12),
        ("q4_k", 15, 0.1),
        ("Q6_K", 18, 0.03),
        ("Q2_K", 10, 0.4),
        ("Q3_K_M", 12, 0.2),
        ("IQ4_XS", 30, 0.12),
        ("MXFP4", 38, 0.2),
    ],
)
def test_values_are_near_the_original(kind, file_type, error, model, tmp_path, capsys):
    command(capsys, "quantize", model, tmp_path / "out.gguf", kind)
    before, after = peer.GGUFReader(model), peer.GGUFReader(tmp_path / "out.gguf")
    assert after.fields["general.file_type"].contents() == file_type
    assert after.fields["general.quantization_version"].contents() == 2
    assert after.fields["words"].contents() == ["a", "b"]
    assert [t.name for t in after.tensors] == [t.name for t in before.tensors]
    for a, b in zip(before.tensors, after.tensors, strict=True):
        x, y = (peer.dequantize(t.data, t.tensor_type).astype(np.float64) for t in (a, b))
        assert np.sqrt(np.mean((x - y) ** 2) / np.mean(x**2)) < error, b.name


def test_which_tensor_gets_which_type(model, tmp_path, capsys):
    out = command(capsys, "quantize", model, tmp_path / "out.gguf", "Q4_K_M").out
    assert "40 tensors, 37 converted" in out
    types = types_of(tmp_path / "out.gguf")
    assert types["output_norm.weight"] == types["bias"] == types["table"] == "F32"
    assert types["token_embd.weight"] == "Q4_K" and types["output.weight"] == "Q6_K"
    assert types["odd.weight"] == "Q5_0" and types["prime.weight"] == "F16" and types["experts.weight"] == "Q4_K"
    better = [i for i in range(8) if types[f"blk.{i}.attn_v.weight"] == "Q6_K"]
    assert better == [i for i in range(8) if types[f"blk.{i}.ffn_down.weight"] == "Q6_K"] == [0, 3, 6, 7]
    assert all(types[f"blk.{i}.attn_q.weight"] == "Q4_K" for i in range(8))


def test_options_change_the_types(model, tmp_path, capsys):
    def types(*options):
        command(capsys, "quantize", "--force", model, tmp_path / "out.gguf", *options)
        return types_of(tmp_path / "out.gguf")

    pure = types("Q4_K_M", "--pure")
    assert {pure[n] for n in pure if n.startswith("blk") or n in ("output.weight", "token_embd.weight")} == {"Q4_K"}
    assert types("Q4_K", "--leave-output-tensor")["output.weight"] == types_of(model)["output.weight"]
    found = types(
        "Q8_0", "--output-tensor-type", "f16", "--token-embedding-type", "Q5_1", "--tensor-type", "blk.1.*=iq4_nl"
    )
    assert (found["output.weight"], found["token_embd.weight"], found["blk.1.ffn_up.weight"]) == (
        "F16",
        "Q5_1",
        "IQ4_NL",
    )
    assert found["blk.2.ffn_up.weight"] == "Q8_0"


def test_dry_run_writes_nothing(model, tmp_path, capsys):
    out = command(capsys, "quantize", model, tmp_path / "out.gguf", "Q8_0", "--dry-run").out
    assert "F32 -> Q8_0" in out and list(tmp_path.iterdir()) == []


def test_quantised_weights_are_quantised_again_only_if_asked(model, tmp_path, capsys):
    command(capsys, "quantize", model, tmp_path / "q8.gguf", "Q8_0")
    err = command(capsys, "quantize", tmp_path / "q8.gguf", tmp_path / "q4.gguf", "Q4_0", code=1).err
    assert "'token_embd.weight' is Q8_0 already" in err and not (tmp_path / "q4.gguf").exists()
    command(capsys, "quantize", tmp_path / "q8.gguf", tmp_path / "q4.gguf", "Q4_0", "--allow-requantize")
    assert types_of(tmp_path / "q4.gguf")["blk.0.attn_q.weight"] == "Q4_0"
    command(capsys, "quantize", tmp_path / "q8.gguf", tmp_path / "f32.gguf", "F32")  # loses nothing
    assert types_of(tmp_path / "f32.gguf")["blk.0.attn_q.weight"] == "F32"


def test_the_input_is_never_overwritten(model, tmp_path, capsys):
    source, link, hard = tmp_path / "a.gguf", tmp_path / "link.gguf", tmp_path / "hard.gguf"
    source.write_bytes(model.read_bytes())
    link.symlink_to(source)
    hard.hardlink_to(source)
    for output in (source, link, hard, tmp_path / "." / "x" / ".." / "a.gguf"):
        (tmp_path / "x").mkdir(exist_ok=True)
        err = command(capsys, "quantize", "--force", source, output, "Q4_0", code=1).err
        assert "is the same file as" in err and err.count("\n") == 1
    imatrix = tmp_path / "new.gguf"
    importance_files(tmp_path)
    err = command(capsys, "quantize", "--force", source, imatrix, "Q4_0", "--imatrix", imatrix, code=1).err
    assert "new.gguf is the same file as" in err
    assert source.read_bytes() == model.read_bytes()


def test_an_existing_output_needs_force(model, tmp_path, capsys):
    out = tmp_path / "out.gguf"
    out.write_text("precious")
    assert "out.gguf exists: --force replaces it" in command(capsys, "quantize", model, out, "Q8_0", code=1).err
    assert out.read_text() == "precious"
    command(capsys, "quantize", model, out, "Q8_0", "--dry-run")
    err = command(capsys, "quantize", model, out, "IQ2_XXS", "--force", code=1).err  # fails while it writes
    assert "needs an importance matrix" in err and out.read_text() == "precious"
    assert list(tmp_path.iterdir()) == [out]
    command(capsys, "quantize", model, out, "Q8_0", "--force")
    assert types_of(out)["blk.0.attn_q.weight"] == "Q8_0"


def test_a_tensor_beyond_the_range_of_the_type(tmp_path, capsys):
    w = peer.GGUFWriter(tmp_path / "large.gguf", "llama")
    values = np.random.default_rng(2).standard_normal((9, 64)).astype(np.float32)
    values[5] *= 1e6
    w.add_tensor("large.weight", values)
    finish(w)
    err = command(capsys, "quantize", tmp_path / "large.gguf", tmp_path / "out.gguf", "Q4_1", "--pure", code=1).err
    assert "tensor 'large.weight', slice 0 from row 0 on: row 5 of src holds" in err
    assert "beyond the range of q4_1" in err and not (tmp_path / "out.gguf").exists()
    command(capsys, "quantize", tmp_path / "large.gguf", tmp_path / "out.gguf", "BF16")


def test_the_summary_names_what_was_not_done(model, tmp_path, capsys):
    patterns = ["nothing.*=Q4_0", "bias=Q8_0", "blk.1.*=Q5_1"]
    options = [word for pattern in patterns for word in ("--tensor-type", pattern)]
    *_, summary, odd, prime, nothing, unchanged = command(
        capsys, "quantize", model, tmp_path / "out.gguf", "Q4_K_M", *options
    ).out.splitlines()
    assert "bits per weight" in summary
    assert odd == "Q5_0 instead of Q4_K: odd.weight, rows of 96 are not a multiple of 256"
    assert prime == "F16 instead of Q4_K: prime.weight, rows of 31 are not a multiple of 256"
    assert nothing == "--tensor-type nothing.*=Q4_0 matches no tensor"
    assert unchanged == "--tensor-type bias=Q8_0 matches only tensors that do not change"


def importance_files(tmp_path):
    """The same importance in both file formats: only the first half of the columns matters."""
    names = [f"blk.{i}.{part}.weight" for i in range(8) for part in PARTS] + ["experts.weight"]
    values = {n: np.tile(np.repeat(np.float32([100, 0.01]), 128), 3 if n == "experts.weight" else 1) for n in names}
    raw = struct.pack("<i", len(names))
    for n, v in values.items():
        raw += struct.pack("<i", len(n)) + n.encode() + struct.pack("<ii", 4, len(v)) + (4 * v).tobytes()
    (tmp_path / "old.dat").write_bytes(raw)
    w = peer.GGUFWriter(tmp_path / "new.gguf", "")
    w.add_type("imatrix")
    for n, v in values.items():
        w.add_tensor(n + ".in_sum2", 7 * v.reshape(-1, 256))
        w.add_tensor(n + ".counts", np.full((len(v) // 256, 1), 7, np.float32))
    finish(w)
    return values


def test_importance_helps_the_columns_that_matter(model, tmp_path, capsys):
    values = importance_files(tmp_path)
    for name in ("old.dat", "new.gguf"):
        found = _quantize.read_importance(tmp_path / name)
        assert found.keys() == values.keys()
        for n, v in values.items():
            np.testing.assert_allclose(np.frombuffer(found[n], np.float32), v, rtol=1e-6)

    def error(file, *options):
        command(capsys, "quantize", model, tmp_path / file, "Q4_K", "--pure", *options)
        files = [{t.name: t for t in peer.GGUFReader(p).tensors} for p in (model, tmp_path / file)]
        x, y = (peer.dequantize(f["experts.weight"].data, f["experts.weight"].tensor_type) for f in files)
        return np.square(x - y)[..., :128].mean()

    plain = error("plain.gguf")
    assert error("old.gguf", "--imatrix", tmp_path / "old.dat") < plain
    assert error("new_.gguf", "--imatrix", tmp_path / "new.gguf") < plain
    assert (tmp_path / "old.gguf").stat().st_size == (tmp_path / "new_.gguf").stat().st_size


def test_types_that_need_importance(model, tmp_path, capsys):
    importance_files(tmp_path)
    err = command(capsys, "quantize", model, tmp_path / "out.gguf", "IQ2_XXS", code=1).err
    assert "IQ2_XXS needs an importance matrix (--imatrix) with tensor" in err and not (tmp_path / "out.gguf").exists()
    command(capsys, "quantize", model, tmp_path / "out.gguf", "IQ2_XXS", "--imatrix", tmp_path / "new.gguf")
    types = types_of(tmp_path / "out.gguf")
    assert (types["blk.0.attn_q.weight"], types["token_embd.weight"], types["output.weight"]) == (
        "IQ2_XXS",
        "Q2_K",
        "Q5_K",
    )
    assert types["odd.weight"] == "IQ4_NL"


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "neither GGUF nor complete"),
        (struct.pack("<ii", 1, 1 << 30), "neither GGUF nor complete"),
        (struct.pack("<ii", 1, -5), "a count of -5"),
        (all_kinds(), "no tensor '*.in_sum2'"),
        (struct.pack("<ii14siif", 1, 14, b"experts.weight", 1, 1, 2), "has 1 values for tensor 'experts.weight'"),
    ],
)
def test_broken_importance(raw, message, model, tmp_path, capsys):
    (tmp_path / "bad").write_bytes(raw)
    assert (
        message
        in command(capsys, "quantize", model, tmp_path / "out.gguf", "Q4_0", "--imatrix", tmp_path / "bad", code=1).err
    )
    assert not (tmp_path / "out.gguf").exists()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_importance_in_a_pipe(model, tmp_path, capsys):
    os.mkfifo(tmp_path / "pipe")
    err = command(capsys, "quantize", model, tmp_path / "out.gguf", "Q4_0", "--imatrix", tmp_path / "pipe", code=1).err
    assert "/pipe: a pipe or device: need a regular file" in err and not (tmp_path / "out.gguf").exists()


@pytest.mark.parametrize("options", [["Q9"], ["Q4_0", "--output-tensor-type", "X"], ["Q4_0", "--tensor-type", "a=b"]])
def test_unknown_types_are_named(options, model, tmp_path, capsys):
    assert "is not a t" in command(capsys, "quantize", model, tmp_path / "out.gguf", *options, code=1).err


def test_files_that_cannot_be_mapped_are_quantised_too(tmp_path, capsys):
    w = peer.GGUFWriter(tmp_path / "big.gguf", "x", endianess=peer.GGUFEndian.BIG)
    w.add_tensor("w.weight", np.arange(64, dtype=np.float32).reshape(2, 32))
    finish(w)
    command(capsys, "quantize", tmp_path / "big.gguf", tmp_path / "out.gguf", "Q8_0")
    t = peer.GGUFReader(tmp_path / "out.gguf").tensors[0]
    np.testing.assert_allclose(peer.dequantize(t.data, t.tensor_type), np.arange(64).reshape(2, 32), atol=0.3)


def test_large_tensors_are_quantised_in_chunks(model, tmp_path, capsys, monkeypatch):
    command(capsys, "quantize", model, tmp_path / "whole.gguf", "Q4_K")
    monkeypatch.setattr("ggml._io.quantization.CHUNK", 256 * 3)
    command(capsys, "quantize", model, tmp_path / "pieces.gguf", "Q4_K")
    assert (tmp_path / "pieces.gguf").read_bytes() == (tmp_path / "whole.gguf").read_bytes()


def test_progress_is_shown_on_a_terminal(monkeypatch, capsys):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    bar = _quantize.Progress(200)
    bar(100)
    bar(100)
    assert " 50% [" in (err := capsys.readouterr().err) and "100% [" + 33 * "#" in err
