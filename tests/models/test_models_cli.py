"""The commands for language models: run, chat, bench, perplexity, embed, imatrix; wrong files and options."""

import builtins
import json
import re
import subprocess
import sys

import numpy as np
import pytest
import real_models

for library in ("gguf", "jinja2", "tokenizers"):  # of the extra [test]; not installed on emulated CPUs
    pytest.importorskip(library)

import tiny_models  # noqa: E402
from python_command import PYTHON  # noqa: E402

from ggml._cli import main  # noqa: E402
from ggml._cli.imatrix import collect  # noqa: E402
from ggml.models import load  # noqa: E402

TEMPLATE = "{% for m in messages %}{{ m.role[0] }}:{{ m.content }};{% endfor %}A:"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("commands")


@pytest.fixture(scope="module")
def model(folder):
    return tiny_models.write(folder / "tiny.gguf", "llama", change={"tokenizer.chat_template": TEMPLATE})


@pytest.fixture(scope="module")
def text(folder):
    path = folder / "text.txt"
    path.write_bytes(bytes(np.random.default_rng(2).integers(33, 120, 700).astype(np.uint8)))
    return path


@pytest.fixture
def command(capsys):
    """Runs a command; returns its output and error output."""

    def run(*arguments, code=0):
        try:
            result = main([str(a) for a in arguments])
        except SystemExit as end:
            result = end.code
        out, err = capsys.readouterr()
        assert result == code, out + err
        return out, err

    return run


def generated(model, prompt, **options):
    with load(model, threads=1) as m:
        return "".join(m.generate(prompt, **options))


# ---- run -------------------------------------------------------------------------------------------------------------
def test_run(command, model, folder):
    out, err = command("run", model, "-p", "abc", "-n", 10, "--temperature", 0, "--threads", 1)
    assert out == generated(model, "abc", max_tokens=10, temperature=0) + "\n"
    assert re.fullmatch(r"prompt 3 tokens in [\d.]+ s, then [\d.]+ tokens/s \(10 tokens\)\n", err)
    (folder / "prompt").write_text("abc")
    assert command("run", model, "-f", folder / "prompt", "-n", 10, "--temperature", 0, "--threads", 1)[0] == out
    more = ("--seed", 5, "--temperature", 2, "--stop", "zz")
    drawn = command("run", model, "-p", "abc", "-n", 10, "--threads", 1, *more)
    assert drawn[0] == generated(model, "abc", max_tokens=10, seed=5, temperature=2.0, stop=["zz"]) + "\n"


def test_run_to_the_end_of_the_context(command, model):
    """The text is printed; `tiny` does not end by itself within so many tokens."""
    arguments = ("run", model, "-p", "abcdefgh", "--temperature", 0, "--threads", 1, "--ctx", 16)
    out, err = command(*arguments)
    assert len(out) == 9 + 1 and "ggml run: the context of 16 tokens is full (see --ctx, --overflow)\n" in err
    assert command(*arguments, "--overflow", "stop")[0] == out
    assert "context" not in command(*arguments, "-n", 9)[1]
    shifted, err = command(*arguments, "--overflow", "shift", "-n", 30)
    assert shifted.startswith(out[:-1]) and len(shifted) == 31 and "context" not in err
    failed, err = command(*arguments, "--overflow", "error", code=1)
    assert failed == out and "ggml run: generate: the context of 16 tokens is full" in err
    assert "invalid choice: 'no'" in command(*arguments, "--overflow", "no", code=2)[1]


def test_run_with_an_adapter(command, model, folder):
    lora = tiny_models.write_lora(folder / "lora.gguf", "llama")
    arguments = ("run", model, "-p", "abc", "-n", 20, "--temperature", 0, "--threads", 1)
    assert command(*arguments, "--lora", lora)[0] != command(*arguments)[0]


# ---- chat ------------------------------------------------------------------------------------------------------------
def chat(command, monkeypatch, model, lines, *options):
    """A conversation with these lines; an exception among them is raised."""
    waiting = iter(lines)

    def read(prompt=""):
        line = next(waiting, EOFError())
        if isinstance(line, BaseException):
            raise line
        return line

    monkeypatch.setattr(builtins, "input", read)
    return command("chat", model, "--threads", 1, "--temperature", 0, "-n", 6, *options)


def test_chat_remembers(command, monkeypatch, model):
    options = {"max_tokens": 6, "temperature": 0}
    first = generated(model, "s:be;u:hi;A:", **options)
    second = generated(model, f"s:be;u:hi;a:{first};u:yo;A:", **options)
    lines = ["hi", "", "yo", "/reset", "hi", "/speed", "/exit", "no"]
    out, _ = chat(command, monkeypatch, model, lines, "--system", "be")
    assert out == f"{first}\n{second}\n{first}\n"


def test_ctrl_c_stops_the_answer_and_not_the_program(command, monkeypatch, model):
    from ggml.models.generate.text import Generation

    following, count = Generation.__next__, 0

    def interrupted(self):
        nonlocal count
        count += 1
        if count == 3:
            raise KeyboardInterrupt
        return following(self)

    monkeypatch.setattr(Generation, "__next__", interrupted)
    out, err = chat(command, monkeypatch, model, ["hi", KeyboardInterrupt(), "yo"])
    first, second = out.splitlines()
    assert len(first) == 2 and len(second) == 6 and "Ctrl-D or /exit ends" in err


def test_ctrl_c_before_the_answer_forgets_the_message(command, monkeypatch, model):
    from ggml._cli.chat import Conversation

    prompt, calls = Conversation.prompt, []

    def interrupted(self):
        calls.append([message["content"] for message in self.messages])
        if len(calls) == 1:
            raise KeyboardInterrupt
        return prompt(self)

    monkeypatch.setattr(Conversation, "prompt", interrupted)
    out, _ = chat(command, monkeypatch, model, ["hi", "yo"])
    assert calls == [["hi"], ["yo"]] and [bool(line) for line in out.splitlines()] == [False, True]


def test_a_long_conversation_drops_its_oldest_messages(command, monkeypatch, model):
    out, err = chat(command, monkeypatch, model, ["abcdefghij"] * 12 + ["x" * 100], "--ctx", 60, "--system", "s")
    assert len(out.splitlines()) == 13 and "ggml chat: generate: the prompt has" in err
    assert "ggml chat: the context of 60 tokens (--ctx) is full: the oldest 2 messages were dropped\n" in err
    out, err = chat(command, monkeypatch, model, ["abcdefghij"], "--ctx", 60)
    assert "ggml chat: " not in err


def test_an_answer_longer_than_the_context(command, monkeypatch, model):
    out, err = chat(command, monkeypatch, model, ["abcdefghij"], "--ctx", 32, "-n", 40)
    assert len(out.splitlines()[0]) > 30
    assert err.endswith("(--ctx) is full: older parts of the conversation were dropped during the answer\n")


def test_commands_of_a_chat(command, monkeypatch, model):
    """What begins with a slash and is one word is a command, known or not; a path is a message."""
    messages = []
    monkeypatch.setattr("ggml._cli.chat.Conversation.answer", lambda self, line, show: messages.append(line))
    lines = ["hi", "/help", "/Reset ", "/foo", "/speed", "/quit now", "/etc/fstab is", " /help", "/QUIT", "never"]
    _, err = chat(command, monkeypatch, model, lines)
    assert messages == ["hi", "/etc/fstab is", " /help"]
    assert err.count("/speed shows tokens/s") == 1 and "unknown command '/foo': /help lists" in err
    assert "unknown command '/quit now'" in err and "there is no answer yet" in err


def test_chat_without_a_template(command, monkeypatch, folder):
    plain = tiny_models.write(folder / "plain.gguf", "llama")
    monkeypatch.setattr(builtins, "input", lambda prompt="": "hi")
    assert "ggml chat: the file has no chat template" in command("chat", plain, code=1)[1]


# ---- bench, perplexity, embed ----------------------------------------------------------------------------------------
def test_bench(command, model):
    out, _ = command("bench", model, "--prompt", 100, "--gen", 20, "--threads", 2, "--json", "--repeat", 2)
    result = json.loads(out.splitlines()[-1])
    assert result.keys() == {"prefill_tok_s", "decode_tok_s", "load_s", "rss_mb", "tokens"}
    ids = np.random.default_rng(0).integers(3, tiny_models.VOCAB, 100).tolist()
    wanted = []
    with load(model, threads=1) as m:
        for _ in range(20):
            wanted.append(int(m.logits(ids + wanted)[-1].argmax()))
    assert result["tokens"] == wanted and min(result[k] for k in ("prefill_tok_s", "decode_tok_s", "load_s")) > 0
    out, _ = command("bench", model, "--prompt", 10, "--gen", 2)
    assert [line.split()[0] for line in out.splitlines()][:3] == ["load", "prefill", "decode"]
    assert "--ctx is 50: need 120" in command("bench", model, "--prompt", 100, "--gen", 20, "--ctx", 50, code=1)[1]


def test_bench_reports_progress(command, model, monkeypatch):
    """After each 512 tokens of a prompt and each token that is written, over all repetitions."""
    from contextlib import contextmanager

    from ggml._cli import bench

    calls = []

    @contextmanager
    def record(total, unit, what):
        calls.append(total)
        yield calls.append

    monkeypatch.setattr(bench, "progress", record)
    monkeypatch.setattr(bench, "CHUNK", 64)
    command("bench", model, "--prompt", 100, "--gen", 2, "--repeat", 2, "--threads", 1)
    assert calls == [204, 64, 100, 101, 102, 166, 202, 203, 204]


def test_progress_bars_name_their_rate(monkeypatch):
    """tqdm writes "4.13s/step" for slow steps: a unit with a space would make it "4.13s/ step"."""
    import io

    from ggml._cli.models import progress
    from ggml.models import FinetuneStep
    from ggml.models.train.report import FinetuneResult, progress_report

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    for unit in ("token", "step"):
        monkeypatch.setattr(sys, "stderr", Terminal())
        if unit == "step":
            with progress_report(FinetuneResult(), 3) as update:
                update(FinetuneStep(1, 3, 2.5, 0.1, 1.0, 10, None))
        else:
            with progress(3, unit, "bench") as advance:
                advance(1)
        assert re.search(rf"[\d?]({unit}/s|s/{unit})\b", sys.stderr.getvalue())


def test_perplexity(command, model, text):
    out, _ = command("perplexity", model, text, "--ctx", 128, "--threads", 1)
    with load(model, n_ctx=128, threads=1) as m:
        wanted = m.perplexity(text.read_bytes())
    assert re.match(rf"perplexity {wanted:.4f}  \(700 tokens in windows of 128", out)


def test_embed(command, model):
    rows = [json.loads(line) for line in command("embed", model, "abc", "xyz", "--normalize")[0].splitlines()]
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    table = command("embed", model, "abc", "xyz", "--similarity")[0]
    assert np.allclose(np.loadtxt(table.splitlines()), np.array(rows) @ np.array(rows).T, atol=1e-3)


# ---- merge -----------------------------------------------------------------------------------------------------------
def test_merge(command, model, folder):
    """Each matrix becomes W + scale * alpha / rank * B A."""
    import gguf

    lora, out = tiny_models.write_lora(folder / "pairs.gguf", "llama"), folder / "merged.gguf"
    printed, _ = command("merge", model, lora, out, "--scale", 0.5)
    assert re.fullmatch(rf"{re.escape(str(out))}: [\d.]+ KiB\n", printed)
    before, pairs = tiny_models.weights("llama"), tiny_models.lora_weights("llama")
    after = {t.name: t.data for t in gguf.GGUFReader(out).tensors}
    assert after.keys() == before.keys()
    for name, w in before.items():
        if f"{name}.lora_a" in pairs:
            a, b = pairs[f"{name}.lora_a"], pairs[f"{name}.lora_b"]
            w = w + 0.5 * tiny_models.LORA_ALPHA / tiny_models.LORA_RANK * (b.astype(np.float64) @ a)
        assert np.allclose(after[name], w, rtol=1e-5, atol=1e-6), name
    assert command("merge", model, lora, out, code=1)[1] == f"ggml merge: {out} exists: --force replaces it\n"
    command("merge", model, lora, out, "--force", "--type", "q8_0")
    assert {t.tensor_type.name for t in gguf.GGUFReader(out).tensors} == {"F32", "Q8_0"}
    assert "need None or one of F32" in command("merge", model, lora, out, "--force", "--type", "x", code=1)[1]
    assert "is the same file as" in command("merge", model, lora, lora, "--force", code=1)[1]
    assert "need 'adapter'" in command("merge", model, model, folder / "none.gguf", code=1)[1]


# ---- imatrix ---------------------------------------------------------------------------------------------------------
def test_imatrix_holds_the_squares_of_the_operands(model):
    ids = tiny_models.IDS
    with load(model, n_ctx=32, threads=1) as m:
        sums, windows, _ = collect(m, ids, 32, lambda done: None)
        assert windows == 2 and not any(m.runner.edits.values())
        matrices = {name for name, shape in tiny_models.shapes("llama").items() if len(shape) == 2}
        assert sums.keys() == matrices - {"token_embd.weight"}
        wanted = 0.0
        for part in (ids[:32], ids[32:]):
            with m.trace("blk.1.ffn_down.in", "output.in") as t:
                m.logits(part)
            wanted = wanted + np.square(t["blk.1.ffn_down.in"], dtype=np.float64).sum(0)
    squares, count = sums["blk.1.ffn_down.weight"]
    assert count == len(ids) and np.allclose(squares, wanted, rtol=1e-6)


@pytest.mark.parametrize("kind", ["llama", "mixtral"])
def test_imatrix_serves_quantize(kind, command, text, folder):
    from ggml._cli.quantize import read_importance

    source = tiny_models.write(folder / f"{kind}.gguf", kind)
    out = folder / f"{kind}-imatrix.gguf"
    printed, _ = command("imatrix", source, text, "-o", out, "--ctx", 128, "--threads", 1)
    assert re.match(rf"{re.escape(str(out))}: \d+ weights, 700 tokens, perplexity [\d.]+\n", printed)
    importance = read_importance(out)
    shapes = tiny_models.shapes(kind)
    assert all(len(values) == shapes[name][-1] * (shapes[name][0] if "exps" in name else 1)
               for name, values in importance.items())  # fmt: skip
    small, plain = folder / f"{kind}-q4.gguf", folder / f"{kind}-plain.gguf"
    command("quantize", "--imatrix", out, "--pure", source, small, "Q4_1")
    command("quantize", "--pure", source, plain, "Q4_1")
    assert small.read_bytes()[-20000:] != plain.read_bytes()[-20000:]
    with load(small, threads=1) as m:
        assert m.config.n_layer == 3


# ---- errors ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "-p", "x"),
        ("bench",),
        ("perplexity", __file__),
        ("embed", "x"),
        ("imatrix", __file__),
        ("chat",),
    ],
)
def test_wrong_files_are_named(arguments, command, folder):
    name, *rest = arguments
    _, err = command(name, folder / "missing.gguf", *rest, code=1)
    assert err == f"ggml {name}: {folder / 'missing.gguf'}: No such file or directory\n"
    (folder / "wrong.gguf").write_bytes(b"not a GGUF file")
    _, err = command(name, folder / "wrong.gguf", *rest, code=1)
    assert err.startswith(f"ggml {name}: ") and "Traceback" not in err


def test_models_that_cannot_be_loaded(command, folder):
    missing = tiny_models.write(folder / "tensor.gguf", "llama", drop=("blk.1.attn_k.weight",))
    assert "'blk.1.attn_k.weight' is missing" in command("run", missing, "-p", "x", code=1)[1]
    encoder = tiny_models.write(folder / "bert.gguf", "bert")
    assert "gives embeddings only" in command("run", encoder, "-p", "x", code=1)[1]


def test_defaults_suit_a_short_context(command, text, folder):
    """Neither a warning nor an error: the model has positions for fewer tokens than the usual window."""
    short = tiny_models.write(folder / "gpt2.gguf", "gpt2")
    out, err = command("imatrix", short, text, "-o", folder / "short.imatrix", "--threads", 1)
    assert "weights, 700 tokens" in out and "warning" not in err
    arguments = ("--lora", folder / "short.lora", "--steps", 1, "--threads", 1)
    out, err = command("finetune", short, text, *arguments)
    assert "trained numbers, 1 steps" in out and "warning" not in err


WRITERS = [
    ("imatrix", "MODEL", "TEXT", "-o"), ("finetune", "MODEL", "TEXT", "--lora"),
    ("finetune", "MODEL", "TEXT", "--lora", "x", "--state"), ("finetune", "MODEL", "TEXT", "--lora", "x", "--plot"),
    ("merge", "MODEL", "LORA"), ("run", "MODEL", "-p", "x", "--profile"), ("bench", "MODEL", "--profile"),
    ("view", "MODEL", "-o"),
]  # fmt: skip


@pytest.mark.parametrize("arguments", WRITERS, ids=lambda words: f"{words[0]} {words[-1]}")
def test_outputs_are_checked_before_the_work(arguments, command, model, text, folder, monkeypatch):
    """Nothing is written over a file that is read, and no hours are lost on a name that is no file's."""
    monkeypatch.chdir(folder)
    before = model.read_bytes(), text.read_bytes(), set(folder.iterdir())
    places = {"MODEL": model, "TEXT": text, "LORA": tiny_models.write_lora(folder.parent / "lora.gguf", "llama")}
    options = [places.get(word, word) for word in arguments]
    for out in (folder, folder / "none" / "out.png", model):
        _, err = command(*options, out, code=1)
        assert err.startswith(f"ggml {arguments[0]}: ") and err.count("\n") == 1, err
        assert str(out) in err and not re.search(r"Errno|step", err), err
    assert before == (model.read_bytes(), text.read_bytes(), set(folder.iterdir()))


def test_two_outputs_are_not_one_file(command, model, text, folder):
    out = folder / "both"
    _, err = command("finetune", model, text, "--lora", out, "--state", out, code=1)
    assert err == f"ggml finetune: {out} is the same file as {out}: the output needs another name\n"


@pytest.mark.parametrize("arguments", [("run", "-f"), ("perplexity",), ("imatrix",), ("finetune", "--lora", "x")])
def test_texts_that_are_empty_or_models_are_named(arguments, command, model, folder):
    (folder / "empty").touch()
    name, *rest = arguments
    assert command(name, model, *rest, folder / "empty", code=1)[1] == (
        f"ggml {name}: {folder / 'empty'}: the file is empty\n"
    )
    assert command(name, model, *rest, model, code=1)[1] == f"ggml {name}: {model} is a GGUF file: need a text\n"


@pytest.mark.filterwarnings("default:.* is not UTF-8")  # the command prints them
@pytest.mark.parametrize("arguments", [("run", "-n", 1, "-f"), ("perplexity",), ("imatrix", "-o", "x")])
def test_texts_that_are_not_utf_8(arguments, command, model, folder, monkeypatch):
    monkeypatch.chdir(folder)
    name, *rest = arguments
    for data, place, hint in (("café au lait".encode("latin1"), "0xe9 at offset 3", "Latin-1"),
                              ("cafe".encode("utf-16"), "0xff at offset 0", "UTF-16")):  # fmt: skip
        (folder / "latin1.txt").write_bytes(data)
        _, err = command(name, model, *rest, "latin1.txt")
        first = err.splitlines()[0]
        assert first.startswith(f"ggml {name}: warning: latin1.txt is not UTF-8 (byte {place}") and hint in first
    (folder / "latin1.txt").write_text("café au lait", encoding="utf-8")
    assert "warning" not in command(name, model, *rest, "latin1.txt")[1]


def test_a_missing_matplotlib_names_the_smallest_extra(command, model, text, folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    _, err = command("finetune", model, text, "--lora", folder / "x", "--plot", folder / "x.png", code=1)
    assert err == "ggml finetune: matplotlib is missing: pip install 'ggml-cython[profile]'\n"


def test_a_row_of_a_training_has_two_tokens_at_least(command, model, text, folder):
    assert (
        "'1' is not an integer from 2"
        in command("finetune", model, text, "--lora", folder / "x", "--tokens", 1, code=2)[1]
    )
    with load(model, threads=1) as m, pytest.raises(ValueError, match="^finetune: tokens is 1: need an integer from 2"):
        m.finetune(text.read_bytes(), folder / "x", tokens=1)


def test_chat_reads_lines_that_are_not_utf_8(model):
    program = [*PYTHON, "-m", "ggml", "chat", str(model), "-n", "1"]
    done = subprocess.run(program, input=b"a\xff\xfe\nb\n", capture_output=True, timeout=120, check=True)
    assert done.stderr == b""


def test_warnings_are_lines(model):
    program = [*PYTHON, "-m", "ggml", "run", str(model), "-p", "x", "-n", "1", "--ctx", "1000"]
    done = subprocess.run(program, capture_output=True, text=True, timeout=120, check=True)
    first, speed = done.stderr.splitlines()
    assert re.fullmatch(r"ggml run: warning: load: n_ctx is 1000: .* was trained with \d+ tokens", first)
    assert speed.startswith("prompt 1 tokens")


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "m"),
        ("run", "m", "-p", "x", "-f", "y"),
        ("run", "m", "-p", "x", "--temperature", "hot"),
        ("run", "m", "-p", "x", "--top-p", "2"),
        ("run", "m", "-p", "x", "--kv-type", "q4"),
        ("bench", "m", "--gen", "0"),
        ("chat",),
        ("perplexity", "m"),
        ("embed", "m"),
        ("imatrix", "m"),
        ("run", "m", "-p", "x", "--seed", "-1"),
    ],
)
def test_wrong_options_are_named(arguments, command):
    out, err = command(*arguments, code=2)
    assert out == "" and "usage: ggml" in err and "error: " in err


def test_a_missing_library_is_named(model, tmp_path):
    code = """
import sys
sys.modules["tokenizers"] = None
from ggml._cli import main
sys.exit(main(["run", sys.argv[1], "-p", "x"]))"""
    command = [sys.executable, "-c", code, model]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1 and done.stderr == "ggml run: tokenizers is missing: pip install 'ggml-cython[llm]'\n"


def test_smollm2_in_the_terminal(command, tmp_path):
    path = real_models.smollm2()
    out, _ = command("run", path, "-p", "The capital of France is", "-n", 6, "--temperature", 0)
    assert "Paris" in out
    words, values = "Alice was beginning to get very tired of sitting by her sister on the bank.".split(), []
    for i, text in enumerate((words, words[::-1])):
        (tmp_path / str(i)).write_text(" ".join(text))
        values.append(float(command("perplexity", path, tmp_path / str(i))[0].split()[1]))
    assert 1 < values[0] < values[1] / 4


def test_profile_of_commands(command, model, text, folder):
    """--profile writes a trace of what the command computes, and a summary to standard error."""
    runs = [
        ("run", model, "-p", "abc", "-n", 3, "--temperature", 0),
        ("bench", model, "--prompt", 8, "--gen", 2, "--repeat", 1),
        ("finetune", model, text, "--lora", folder / "p.gguf", "--steps", 1, "--tokens", 32, "--rank", 2),
    ]
    for name, *arguments in runs:
        out = folder / f"{name}.json"
        _, err = command(name, *arguments, "--threads", 1, "--profile", out)
        kinds = {e["cat"] for e in json.loads(out.read_text(encoding="utf-8"))["traceEvents"] if e["ph"] == "X"}
        assert {"MUL_MAT", "graph"} <= kinds
        assert "compute calls on up to 1 threads" in err and "(start and end)" in err
