"""Every command under encodings that lack characters: nothing ends early, nothing is lost but those characters."""

import io
import json
import os
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest

for library in ("gguf", "jinja2", "tokenizers", "onnx", "sklearn", "matplotlib", "tqdm"):  # of the extra [test]
    pytest.importorskip(library)

import hf_models  # noqa: E402
import tiny_models  # noqa: E402
from hf_tokenizers import word_pieces  # noqa: E402
from python_command import PYTHON  # noqa: E402

import ggml  # noqa: E402
from ggml._cli import COMMANDS, main  # noqa: E402
from ggml.models import convert  # noqa: E402

# Encoding and error handler of standard output: UTF-8, as the reference; Windows; LC_ALL=C
STREAMS = {"utf-8": "strict", "cp1252": "strict", "ascii": "surrogateescape"}
NAME = "Grüße 日本"  # cp1252 has some of these characters, ASCII fewer
TEMPLATE = "{% for m in messages %}{{ m.role[0] }}:{{ m.content }};{% endfor %}A:"
GREEDY = ["-n", "12", "--temperature", "0", "--threads", "1"]
ARGUMENTS = {
    "info": [],
    "demo": ["--epochs", "1", "--out", f"{NAME} demo"],
    "run": [f"{NAME}.gguf", "-f", f"{NAME}.txt", *GREEDY],
    "chat": [f"{NAME}.gguf", *GREEDY],
    "embed": [f"{NAME}.gguf", "é日", "日é", "--threads", "1"],
    "rank": [f"{NAME} classes.gguf", "one", "日é", "two", "--threads", "1"],
    "bench": [f"{NAME}.gguf", "--prompt", "4", "--gen", "2", "--repeat", "1"],
    "perplexity": [f"{NAME}.gguf", f"{NAME}.txt"],
    "finetune": [f"{NAME}.gguf", f"{NAME}.txt", "--lora", f"{NAME} new.gguf", "--steps", "1", "--tokens", "16"],
    "inspect": [f"{NAME}.gguf"],
    "view": [f"{NAME}.gguf"],
    "quantize": [f"{NAME}.gguf", f"{NAME} q8.gguf", "Q8_0", "--force", "--verbose"],
    "imatrix": [f"{NAME}.gguf", f"{NAME}.txt", "-o", f"{NAME} imatrix.gguf"],
    "merge": [f"{NAME}.gguf", f"{NAME} lora.gguf", f"{NAME} merged.gguf", "--force"],
    "convert": [f"{NAME} folder", f"{NAME} converted.gguf", "--force"],
    "dot": [f"{NAME}.graph"],
    "onnx": [f"{NAME}.onnx"],
    "replace-bindings": [],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a model whose tokens are mostly beyond ASCII, a text, an adapter, a graph and an ONNX model."""
    import onnx

    path = tmp_path_factory.mktemp("encodings")
    letters = [chr(start + i) for start in (0xE0, 0x65E5, 0x41) for i in range(31)]
    change = {
        "tokenizer.chat_template": TEMPLATE, "general.name": NAME,
        "tokenizer.ggml.tokens": ["<s>", "</s>", "?!", *letters],
        "tokenizer.ggml.token_type": [3, 3, 2] + [4] * len(letters), "tokenizer.ggml.merges": ["a b"],
    }  # fmt: skip
    tiny_models.write(path / f"{NAME}.gguf", "llama", change=change)
    tiny_models.write_lora(path / f"{NAME} lora.gguf", "llama")
    recorded = hf_models.record("llama")
    hf_models.write_folder(path / f"{NAME} folder", recorded["config"], recorded["shapes"])
    recorded = hf_models.record("bert+classes")
    classes = hf_models.write_folder(path / "classes", recorded["config"], recorded["shapes"])
    word_pieces(classes)
    convert(classes, path / f"{NAME} classes.gguf")
    (path / f"{NAME}.txt").write_text("".join(letters), encoding="utf-8")
    ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=0))
    x = ggml.ggml_set_name(ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_F32, 2), "日 é".encode())
    graph = ggml.ggml_new_graph(ctx)
    ggml.ggml_build_forward_expand(graph, ggml.ggml_set_name(ggml.ggml_sqr(ctx, x), NAME.encode()))
    ggml.ggml_graph_export(graph, os.fsencode(path / f"{NAME}.graph"))
    ggml.ggml_free(ctx)
    a, b = (onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [2]) for n in ("é日", "b"))
    nodes = [onnx.helper.make_node("NonZero", ["é日"], ["b"], name="nœud 日")]
    onnx.save(onnx.helper.make_model(onnx.helper.make_graph(nodes, "g", [a], [b])), path / f"{NAME}.onnx")
    return path


def printed(monkeypatch, arguments, encoding, code=0):
    """What a command writes to standard output in an encoding."""
    out = io.TextIOWrapper(io.BytesIO(), encoding, STREAMS[encoding], newline="")
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(io.BytesIO(), encoding, "backslashreplace", newline=""))
    try:
        assert main(arguments) == code, sys.stderr.buffer.getvalue()
        assert b"codec" not in sys.stderr.buffer.getvalue()
    finally:
        out.flush()
    return out.buffer.getvalue()


def without_numbers(text):
    """Times and addresses vary."""
    return re.sub(rb"[\d.,\s]+", b"#", re.sub(rb'"0x[0-9a-f]+"', b"#", text))


@pytest.mark.filterwarnings("ignore:convert. .* has no tokenizer")
@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "serve"])  # writes the log of uvicorn alone
def test_every_command(command, folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setattr("ggml._cli.replace_bindings.check_installed", lambda binding: None)
    monkeypatch.setattr("ggml._cli.replace_bindings.subprocess.run", lambda *_, **__: SimpleNamespace(returncode=0))
    texts = {}
    for encoding in STREAMS:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("é日ABC\n".encode()), "utf-8"))
        texts[encoding] = printed(monkeypatch, [command, *ARGUMENTS[command]], encoding)
    whole = texts["utf-8"].decode()
    assert whole
    for encoding, text in texts.items():
        assert without_numbers(text) == without_numbers(whole.encode(encoding, "replace")), encoding
    plain = ("info", "embed", "bench", "perplexity", "quantize", "replace-bindings")  # print no names and no text
    assert (b"?" in texts["ascii"]) == (command not in plain)


def test_json_is_ascii_where_needed(folder, monkeypatch):
    monkeypatch.chdir(folder)
    texts = {e: printed(monkeypatch, ["inspect", f"{NAME}.gguf", "--json", "--full"], e) for e in STREAMS}
    values = [json.loads(text.decode(encoding)) for encoding, text in texts.items()]
    assert values[0] == values[1] == values[2] and values[0]["keys"]["general.name"]["value"] == NAME
    assert NAME.encode() in texts["utf-8"] and texts["cp1252"].isascii() and texts["ascii"].isascii()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no locale of bytes")
def test_a_terminal_without_utf_8(folder):
    """In a process of its own: names of files stay as they are, a prompt and a stop are read as UTF-8."""
    program = [*PYTHON, "-m", "ggml"]

    def run(*arguments, **environment):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("LC_", "LANG", "PYTHON"))} | environment
        env |= {k: v for k, v in os.environ.items() if k == "PYTHONPATH"}
        done = subprocess.run([*program, *arguments], cwd=folder, env=env, capture_output=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout

    plain = {"LC_ALL": "C", "PYTHONUTF8": "0"}
    assert run("quantize", f"{NAME}.gguf", f"{NAME} c.gguf", "Q4_0", "--force", **plain)
    assert run("view", f"{NAME}.gguf", "-o", f"{NAME}.html", **plain) == f"{NAME}.html\n".encode()
    assert (folder / f"{NAME}.html").exists() and (folder / f"{NAME} c.gguf").exists()
    arguments = ["run", f"{NAME}.gguf", "-p", "é日", *GREEDY]
    whole = run(*arguments, PYTHONUTF8="1").decode()
    assert run(*arguments, **plain) == whole.encode("ascii", "replace") != whole.encode()
    stop = next(c for c in whole[1:] if not c.isascii())
    ended = whole.partition(stop)[0].encode("ascii", "replace") + b"\n"
    assert run(*arguments, "--stop", stop, **plain) == ended
    assert run(*arguments, PYTHONIOENCODING="cp1252") == whole.encode("cp1252", "replace")


def test_files_are_utf_8(folder, monkeypatch):
    """Files that commands write are UTF-8 whatever the encoding of the terminal is."""
    monkeypatch.chdir(folder)
    printed(monkeypatch, ["dot", f"{NAME}.graph", "-o", "graph.svg"], "ascii")
    assert "日 é" in (folder / "graph.svg").read_text(encoding="utf-8")
