"""The programs in benchmarks/ run, and their tables are right. No test depends on how fast the machine is."""

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"
pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or not any(map(shutil.which, ("cc", "gcc", "clang"))),
    reason="needs a C compiler with OpenMP",
)


@pytest.fixture
def load(monkeypatch):
    """A function that imports a program of benchmarks/ by name."""
    monkeypatch.syspath_prepend(str(FOLDER))

    def module(name):
        spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
        loaded = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(loaded)
        return loaded

    return module


def test_peaks_measures_every_limit_for_each_number_of_threads():
    command = [sys.executable, FOLDER / "peaks.py", "--json", "--threads", "2", "--megabytes", "2", "--rounds", "1"]
    rows = json.loads(subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout)
    limits = {n: {(row["name"], row["what"]) for row in rows if row["threads"] == n} for n in (1, 2)}
    assert limits[1] == limits[2] and ("memory", "read") in limits[1]
    assert all(row["rate"] > 0 for row in rows)


def test_peaks_without_a_compiler(load, monkeypatch):
    peaks = load("peaks")
    monkeypatch.setattr(peaks.shutil, "which", lambda name: None)
    with pytest.raises(RuntimeError, match=r"^peaks: no C compiler was found"):
        peaks.measure([1])


def test_scale_measures_every_plot(tmp_path):
    path = tmp_path / "scale.json"
    command = [sys.executable, FOLDER / "scale.py", "--json", path, "--tiny", "--threads", "1", "--machine", "any"]
    subprocess.run(command, capture_output=True, check=True, timeout=300)
    recorded = json.loads(path.read_text())
    plots = recorded["plots"]
    assert recorded["machine"].startswith("any (")
    assert recorded["command"].startswith("python benchmarks/scale.py --json")
    names = "gemm gemv attention decode graphs contexts threads regions pauses callers"
    assert set(plots) == set(names.split())
    for data in plots.values():
        for points in data["series"].values():
            sizes = [x for x, _ in points]
            assert sizes == sorted(set(sizes)) and len(sizes) <= 2 and all(rate > 0 for _, rate in points)
        assert any(len(points) == 2 for points in data["series"].values())
    assert "reading" in plots["gemv"]["limits"]


def test_scale_draws(tmp_path):
    pytest.importorskip("matplotlib")
    command = [
        sys.executable,
        FOLDER / "scale.py",
        "--tiny",
        "--threads",
        "1",
        "--only",
        "decode",
        "--output",
        tmp_path,
    ]
    subprocess.run([*command, "--format", "svg"], capture_output=True, check=True, timeout=300)
    svg = (tmp_path / "decode.svg").read_text()
    assert svg.startswith("<?xml") and "</svg>" in svg


def test_scale_says_where_growth_is_not_linear(load):
    scale = load("scale")
    points = {"steady": [[1, 4.0], [2, 3.5], [4, 4.5]], "falling": [[1, 4.0], [2, 8.0], [4, 5.0], [8, 2.0]]}
    sentences = list(scale.falls("gemm", scale.plot("rows", "GFLOP/s", points, {})))
    assert sentences == ["gemm, falling: 2 GFLOP/s at 8 rows is 0.25 of the 8 GFLOP/s at 2"]
    assert not list(scale.falls("threads", scale.plot("threads", "GFLOP/s", points, {}, linear=False)))


def test_shares_of_the_limits(load):
    run = load("run")
    isas = ("sse2", "avx2", "avx512", "neon")
    limits = [{"name": isa, "what": "fma", "threads": 2, "rate": 200.0, "unit": "GFLOP/s"} for isa in isas]
    limits.append({"name": "memory", "what": "read", "threads": 2, "rate": 10.0, "unit": "GB/s"})
    ours = {
        "GEMM F16 64x64 by 64": {"rate": 150.0, "unit": "GFLOP/s"},
        "GEMV F32 128x256": {"rate": 4.0, "unit": "GFLOP/s"},  # 2 operations take 4 bytes: at most 5
        "GEMV Q8_0 128x256": {"rate": 8.0, "unit": "GFLOP/s"},  # 34 bytes for 64 operations: at most 18.8
        "GEMM F32 32x32 by 4": {"error": "no memory"},
        "add": {"rate": 3.0, "unit": "GB/s"},
        "conv2d": {"rate": 50.0, "unit": "GFLOP/s"},
        "a call": {"rate": 7.0, "unit": "calls/s"},
    }
    lines = run.share_table(ours, limits, 2)
    assert [line.split(" | ")[1:4] for line in lines[2:]] == [
        ["150", "200", "0.75"],
        ["4", "5", "0.80"],
        ["8", "18.8", "0.42"],
        ["3", "10", "0.30"],
        ["50", "200", "0.25"],
    ]
    assert run.share_table(ours, limits, 1) == []  # nothing was measured with one thread


def test_models_measures_every_plot(tmp_path):
    path = tmp_path / "models.json"
    command = [sys.executable, FOLDER / "models.py", "--tiny", "--rounds", "1", "--threads", "1", "--json", path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert "memory ggml" in done.stdout
    plots = json.loads(path.read_text())["plots"]
    names = {"reading", "writing", "reading on", "writing on", "together", "reading by threads", "writing by threads"}
    assert set(plots) == names | {"reading, flat", "writing, flat"}
    assert all(rate > 0 for data in plots.values() for _, rate in data["series"]["ggml"])
    assert [x for x, _ in plots["together"]["series"]["ggml"]] == [1, 2]


def test_images_measures_both_types(tmp_path):
    path = tmp_path / "images.json"
    command = [sys.executable, FOLDER / "images.py", "--tiny", "--rounds", "1", "--threads", "1", "--json", path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert "ggml Q8_0" in done.stdout
    assert set(json.loads(path.read_text())["tiny"]) == {"ggml F16", "ggml Q8_0"}


def test_operations_are_those_of_onnx(load):
    """onnx_operations.py; the reference takes minutes for a Resize, and half a minute for a GridSample."""
    import numpy as np

    reference = pytest.importorskip("onnx.reference")
    import ggml.onnx

    operations = load("onnx_operations")
    cases = {name: make for name, make in operations.CASES.items() if not name.startswith(("Resize", "GridSample"))}
    assert len(cases) > 20
    for name, make in cases.items():
        nodes, given, kept, outputs = make()
        proto = operations.model_of(nodes, given, kept, outputs)
        (wanted,) = reference.ReferenceEvaluator(proto).run(None, given)
        (got,) = ggml.onnx.load(proto).run(given)
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4, err_msg=name)


def test_flat_functions_compute_what_models_does(load, tmp_path):
    """flat_model.py in pieces, as a whole and again after clear(), against ggml.models."""
    import numpy as np

    from ggml import models

    path = load("model_files").path_of(tmp_path, "tiny", "F32")
    flat, tokens = load("flat_model").Flat(path, 2, 64, 1), list(range(40, 61))
    with models.load(path, threads=1) as model:
        batch = models.Batch()
        batch.add(0, tokens)
        wanted = model.runner.decode(batch)[-1]
    whole = flat.logits(tokens)
    flat.clear()
    pieces = [flat.logits(piece) for piece in (tokens[:9], tokens[9:10], tokens[10:])][-1]
    for found in (whole, pieces):  # keys and values are rounded to F16
        assert np.square(found - wanted).sum() < 1e-6 * np.square(wanted).sum()


@pytest.mark.parametrize("kind", ["llama", "gemma3"])
def test_divergence_of_floats_is_small(tmp_path, kind):
    """A model of F32 has the probabilities of its float64 reference, in pieces and token by token."""
    import tiny_models

    text = tmp_path / "text"
    text.write_text("it is told by an idiot " * 40)
    tiny_models.write(tmp_path / "model.gguf", kind)
    command = [sys.executable, FOLDER / "divergence.py", tmp_path / "model.gguf", text, "--tokens", "40"]
    lines = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout.splitlines()
    assert [line.split(":")[0] for line in lines] == ["prefill ours", "decode ours"]
    assert all(0 <= float(line.split()[2]) < 1e-5 for line in lines)


def test_models_goes_on_without_a_library_that_ends(tmp_path):
    """A library that is not installed, or that aborts, has no rate."""
    path = tmp_path / "models.json"
    command = [sys.executable, FOLDER / "models.py", "--tiny", "--rounds", "1", "--threads", "1", "--json", path]
    command += ["--only", "sequences", "--llama-cpp", shutil.which("false") or "/bin/false"]
    subprocess.run(command, capture_output=True, timeout=300, check=True)
    assert set(json.loads(path.read_text())["plots"]["together"]["series"]) == {"ggml"}


def test_files_of_models_have_the_shapes_of_their_names(load):
    files = load("model_files")
    billions = {name: files.parameters(shape) / 1e9 for name, shape in files.SHAPES.items()}
    for name, expected in (("SmolLM2-135M", 0.135), ("Qwen3-0.6B", 0.6), ("LLaMA-1B", 1.24), ("LLaMA-8B", 8.03)):
        assert billions[name] == pytest.approx(expected, rel=0.01)


def test_files_of_architectures_are_those_that_convert_plans(load, tmp_path, monkeypatch):
    for library in ("safetensors", "tokenizers"):
        pytest.importorskip(library)
    import hf_models
    import numpy as np

    from ggml import models

    program, kind = load("architectures"), "granitehybrid"
    record = hf_models.record(kind)
    hf_models.write_folder(tmp_path / kind, record["config"], record["shapes"])
    program.write_file(tmp_path, kind)
    with models.load(tmp_path / f"{kind}.gguf", threads=1) as model:
        assert model.config.arch == kind and np.isfinite(model.logits([5, 6, 7])).all()
    (tmp_path / "rates.json").write_text(json.dumps({kind: {"read": {"ggml": 30, "llama_cpp": 20}, "write": {}}}))
    assert "| 30 | 1.50 |" in program.table(tmp_path)
    rates = {"bert": {"one": {"ggml": 30, "ik_llama_cpp": 20}, "many": {"ggml": 2000}}}
    (tmp_path / "rates-avx2.json").write_text(json.dumps(rates))
    monkeypatch.setenv("GGML_ISA", "avx2")
    found = program.table(tmp_path)
    assert "| to ik_llama.cpp |" in found and "| 30 | 1.50 | 2,000 |  |" in found and "| 1.50 |\n\n" not in found


def test_files_get_the_sizes_of_published_models_from_tiny_ones(load, tmp_path):
    for library in ("safetensors", "tokenizers"):
        pytest.importorskip(library)
    import numpy as np

    from ggml import models

    program, kind = load("architectures"), "jina-bert-v2"
    program.write_file(tmp_path, kind)
    with models.load(tmp_path / f"{kind}.gguf", threads=1) as model:
        assert (model.config.n_embd, model.config.n_head, model.config.n_vocab) == (768, 12, program.VOCAB)
        assert np.isfinite(model.embed([[5, 6, 7]])).all()
