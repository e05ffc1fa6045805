"""A short run of fuzz/programs.py, and proof that it would notice what it looks for."""

import copy
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the fuzzer waits for its processes by Linux's means")

FUZZ = Path(__file__).resolve().parents[2] / "fuzz"


@pytest.fixture(scope="module")
def programs():
    with pytest.MonkeyPatch.context() as patch:  # fuzz/gguf.py would hide the library gguf from later tests
        patch.syspath_prepend(FUZZ)
        import programs
    return programs


@pytest.fixture(scope="module")
def scalar(programs):
    """An examiner with one process."""
    examiner = programs.Examiner()
    examiner.workers = examiner.workers[:1]
    yield examiner
    examiner.close()


def made(programs, seed, wanted=lambda program: True):
    """The first program from a seed on that has a property."""
    while True:
        maker = programs.make.Maker(seed)
        program = maker.make(programs.make.SUBJECTS[seed % len(programs.make.SUBJECTS)])
        maker.close()
        if wanted(program):
            return program
        seed += 1


def test_random_programs(tmp_path):
    command = [sys.executable, FUZZ / "programs.py", "--programs", "10", "--seed", "200", "--out", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-3000:]
    counts = dict(re.findall(r"^([a-z0-9:, ]+): (\d+)$", done.stdout, re.M))
    assert int(counts["programs"]) == 10
    assert int(counts["comparisons: results with float64"]) > 60


def test_programs_are_reproducible(programs):
    first, second = made(programs, 5), made(programs, 5)
    assert first.items == second.items and first.outputs == second.outputs and first.grads == second.grads


def test_a_wrong_result_is_found(programs, scalar):
    """Every result of a program, made wrong by a little in one element, is reported; the right ones are not."""
    program = made(programs, 12)
    answer = scalar.workers[0].ask(program.sent(noise=True))
    wrong, count = programs.judge.wrong_items(program, programs.judge.Values(program, answer["values"]))
    assert wrong == [] and count > 4
    found = tried = 0
    for k, item in enumerate(program.items):
        values = programs.judge.Values(program, answer["values"])
        if "fn" in item and values[k].dtype.kind == "f" and values[k].size and np.isfinite(values[k]).all():
            x = values[k].copy()
            x.flat[-1] += 0.05 * (np.abs(x).max() + 1)
            values.cache[k] = x
            tried += 1
            found += any(i == k for i, _ in programs.judge.wrong_items(program, values, [k])[0])
    assert tried > 3 and found >= 0.7 * tried


def test_a_wrong_gradient_is_found(programs, scalar):
    program = made(programs, 1, lambda program: program.grads)
    while True:
        answer = scalar.workers[0].ask(program.sent(noise=True))
        found = answer["gradients"]
        if "grads" in found and programs.judge.gradient_problem(program, found["grads"], found["noisy"]) == "checked":
            break
        program = made(programs, program.seed + 1, lambda program: program.grads)
    halved = {}
    for k, text in found["grads"].items():
        x = np.frombuffer(programs.judge.unpack(text), np.float32) * np.float32(0.5)
        halved[k] = programs.make.packed(x.tobytes())
    assert programs.judge.gradient_problem(program, halved, []).startswith("the gradient along a direction")


def test_shrinking_keeps_the_failure(programs):
    """Only the call that fails and what it needs remain, and the script that shows it can be compiled."""
    program = made(programs, 30, lambda program: sum("fn" in item for item in program.items) > 12)
    culprit = next(item["fn"] for item in reversed(program.items) if "fn" in item)

    def fails(candidate):
        return any(item.get("fn") == culprit for item in candidate.items)

    short = programs.shrink.shrink(program, fails)
    assert fails(short) and len(short.items) < len(program.items) / 2
    source = programs.shrink.script(short, "A program.")
    compile(source, "script", "exec")
    assert f"ggml.ggml_{culprit}(ctx" in source


def test_scripts_compute_what_the_fuzzer_computed(programs, tmp_path):
    """The printed script, run as it is, gives the values of the program."""
    maker = programs.make.Maker(1)
    a = maker.leaf("F32", *(np.arange(6.0).reshape(1, 1, 2, 3),) * 2)
    maker.call(programs.make.ROWS["sum_rows"], [{"t": a}])
    path = tmp_path / "script.py"
    path.write_text(programs.shrink.script(maker.program, "A program."))
    maker.close()
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "[3.0, 12.0]" in done.stdout


@pytest.mark.parametrize("script, what", [("exit 3", "ended with status 3"), ("sleep 60", "hung")])
def test_a_process_that_ends_or_hangs_is_reported(programs, monkeypatch, tmp_path, script, what):
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\necho '# node 7 add'\n{script}\n")
    python.chmod(0o700)
    monkeypatch.setattr(programs, "TIME_LIMIT", 2)
    worker = programs.Worker("broken", str(python))
    program = copy.copy(made(programs, 3))
    answer = worker.ask(program.sent(noise=False))
    assert what in answer["died"]
    worker.close()
