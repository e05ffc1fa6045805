"""The processes that render chat templates: limits that hold for any template, restarts, forks, threads."""

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("jinja2")

from ggml.models.chat import renderer, sandbox  # noqa: E402
from ggml.models.chat.renderer import PROCESSES_OF_TEMPLATES, Renderer, plain  # noqa: E402
from ggml.models.chat.sandbox import TemplateError  # noqa: E402

LINUX = sys.platform.startswith("linux")
needs_limits = pytest.mark.skipif(not LINUX, reason="only Linux limits the memory of a process in this way")
PYTHON = sys.executable
LARGE = "{% set s = 'a' * 4000000 %}"
NESTED = (
    "{% set ns = namespace(t=()) %}{% macro m() %}{% set ns.t = varargs %}{% endmacro %}"
    "{% for i in range(75000) %}{{ m(ns.t) }}{{ m(ns.t) }}{% endfor %}{{ {}.get(ns.t) }}"
)


def child(renderer):
    """The child process of a renderer."""
    return PROCESSES_OF_TEMPLATES.get(renderer._source, renderer._program)._child


# ---- limits ----------------------------------------------------------------------------------------------------------
ENDLESS = (
    "{% set ns = namespace(t=(), u=()) %}{% macro m() %}{% set ns.t = varargs %}{% endmacro %}"
    "{% macro n() %}{% set ns.u = varargs %}{% endmacro %}"
    "{% for i in range(60) %}{{ m(ns.t, ns.t) }}{{ n(ns.u, ns.u) }}{% endfor %}{{ ns.t == ns.u }}"
)
LARGE_VALUES = [
    "{{ 'a'.encode().zfill(8000000000) }}",
    "{{ (1).to_bytes(8000000000, 'big') }}",
    "{{ ('%(a)9999s' * 400000) % {'a': 1} }}",
    "{{ range(60000)|list|tojson(indent=100000) }}",
    LARGE + "{{ " + "~".join(["s"] * 2000) + " }}",
    LARGE + "{{ ([namespace(x=s)] * 1500)|join(attribute='x') }}",
    LARGE + "{% set x %}{% for i in range(2000) %}{{ s }}{% endfor %}{% endset %}",
]


@needs_limits
@pytest.mark.parametrize("source", LARGE_VALUES)
def test_memory_is_limited_whatever_makes_the_value(source):
    code = """
import resource, sys
from ggml.models.chat.renderer import Renderer
try:
    Renderer(sys.argv[1]).render({})
except ValueError as error:
    print(error)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10)
"""
    done = subprocess.run([sys.executable, "-c", code, source], capture_output=True, text=True, timeout=120)
    message, peak = done.stdout.splitlines()
    assert message == "chat: the chat template makes values of more than 512 MiB", done.stderr
    assert int(peak) < 512


@needs_limits
def test_values_nested_in_c_end_the_child_alone():
    with pytest.raises(TemplateError, match=r"^chat: the template ended the process that renders it \(status -11\)"):
        Renderer(NESTED).render({})


def test_a_call_that_never_returns_is_ended(monkeypatch):
    """A comparison of tuples that takes 2**60 steps, in C: nothing checks the time there."""
    monkeypatch.setattr(sandbox, "SECONDS", 0.3)
    begin = time.monotonic()
    with pytest.raises(TemplateError, match="^chat: the template takes more than 0.3 seconds"):
        Renderer(ENDLESS).render({})
    assert time.monotonic() - begin < 20


@pytest.mark.parametrize(
    ("begin", "end", "count"),
    [
        ("{% for i in [1] %}", "{% endfor %}", 25),
        ("{% if 1 %}", "{% endif %}", 120),
        ("{{ (", ") }}", 1),
    ],
)
def test_deep_nesting_is_named(begin, end, count):
    middle, wanted = ("x", "the chat template is nested too deeply") if count > 1 else ("(" * 999 + "1" + ")" * 999, "")
    with pytest.raises(TemplateError, match=f"^chat: .*{wanted}"):
        Renderer(begin * count + middle + end * count)


@pytest.mark.parametrize("name", ["_items", "_check", "_small", "limited_items", "environment", "range", "context"])
def test_templates_cannot_rebind_the_sandbox(name, monkeypatch):
    monkeypatch.setattr(sandbox, "SECONDS", 0.3)
    endless = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"
    harmless = endless.replace("range(99999)", "'" + "a" * 99999 + "'")
    for rebind in (f"{{% set {name} = 3 %}}", f"{{% macro {name}() %}}{{% endmacro %}}"):
        assert Renderer(rebind + "{% for i in [1, 2] %}{{ i }}{{ [i] }}{% endfor %}").render({}) == "1[1]2[2]"
        with pytest.raises(TemplateError, match="takes more than 0.3 seconds"):
            Renderer(rebind + harmless).render({})


def test_messages_name_the_line():
    for source, message in [
        ("a\nb\n{{ messages[5].content.x }}", r"failed: list object has no element 5 \(line 3\)"),
        ("a\n{{ foo.bar }}", r"failed: 'foo' is undefined \(line 2\)"),
        ("\n\n{{ 1 / 0 }}", r"failed: ZeroDivisionError: division by zero \(line 3\)"),
    ]:
        with pytest.raises(TemplateError, match=message):
            Renderer(source).render({"messages": []})
    with pytest.raises(TemplateError, match=r"is not valid: .* \(line 3\)"):
        Renderer("\n\n{% if %}")


@pytest.mark.skipif(not LINUX, reason="reads /proc")
def test_the_child_has_no_secrets_and_opens_nothing():
    code = """
import os, sys
os.environ["TOKEN"] = "secret"
secret = os.open(os.devnull, os.O_RDONLY); os.set_inheritable(secret, True)
from ggml.models.chat.renderer import PROCESSES_OF_TEMPLATES, Renderer
renderer = Renderer("x")
pid = PROCESSES_OF_TEMPLATES.get("x", renderer._program)._child.pid
print(open(f"/proc/{pid}/environ").read().count("secret"), len(os.listdir(f"/proc/{pid}/fd")))
print([line.split()[4:6] for line in open(f"/proc/{pid}/limits") if line.startswith("Max open files")][0])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.split("\n")[:2] == ["0 3", "['3', 'files']"], done.stdout + done.stderr


# ---- the life of a process -------------------------------------------------------------------------------------------
def test_the_process_stays_and_is_restarted():
    renderer = Renderer("{{ x }} stays")
    assert renderer.render({"x": 1}) == "1 stays"
    first = child(renderer)
    assert renderer.render({"x": 2}) == "2 stays" and child(renderer) is first
    first.kill()
    assert renderer.render({"x": 3}) == "3 stays" and child(renderer) is not first
    with pytest.raises(TemplateError, match="failed"):
        Renderer("{{ 1 / x }} stays").render({"x": 0})
    assert Renderer("{{ 1 / x }} stays").render({"x": 1}) == "1.0 stays"


def test_few_processes_stay():
    for i in range(2 * renderer.PROCESSES):
        assert Renderer(f"{{{{ x }}}} few {i}").render({"x": 1}) == f"1 few {i}"
    assert len(PROCESSES_OF_TEMPLATES._of) <= renderer.PROCESSES


def test_threads_render_together():
    renderers, wrong = [Renderer("{{ x }}" + "!" * i) for i in range(6)], []

    def work(number):
        for i in range(30):
            which = (i + number) % len(renderers)
            text = renderers[which].render({"x": number})
            if text != f"{number}{'!' * which}":
                wrong.append(text)

    threads = [threading.Thread(target=work, args=[number]) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not wrong and not any(thread.is_alive() for thread in threads)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_child_of_a_fork_has_processes_of_its_own():
    renderer = Renderer("{{ x }} forks")
    assert renderer.render({"x": 1}) == "1 forks"
    mine = child(renderer).pid
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            gc.collect()
            status = 0 if renderer.render({"x": 2}) == "2 forks" and child(renderer).pid != mine else 2
            PROCESSES_OF_TEMPLATES.close()
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0
    assert renderer.render({"x": 3}) == "3 forks" and child(renderer).pid == mine


@pytest.mark.skipif(not LINUX, reason="reads /proc")
@pytest.mark.parametrize("end", ["pass", "os.kill(os.getpid(), 9)", "os._exit(3)"])
def test_the_process_ends_with_the_program(end):
    code = f"""
import os
from ggml.models.chat.renderer import PROCESSES_OF_TEMPLATES, Renderer
renderer = Renderer("x")
print(PROCESSES_OF_TEMPLATES.get("x", renderer._program)._child.pid, flush=True)
{end}
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stderr == ""
    pid, until = int(done.stdout), time.monotonic() + 20
    while time.monotonic() < until:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return
        except OSError:
            return
        time.sleep(0.02)
    raise AssertionError(f"process {pid} is still there")


@pytest.mark.skipif(not LINUX, reason="sends SIGINT to a process group")
def test_an_interrupt_leaves_no_answer_behind():
    renderer = Renderer("{% for i in range(n) %}{% for j in range(99999) %}{% endfor %}{% endfor %}{{ n }}")
    timer = threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGINT])
    former = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    try:
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            renderer.render({"n": 99999})
    finally:
        timer.join()
        signal.signal(signal.SIGINT, former)
    assert renderer.render({"n": 0}) == "0"


# ---- programs whose interpreter is not known -------------------------------------------------------------------------
@pytest.mark.parametrize("program", ["", "/usr/bin/uwsgi", "C:\\editor.exe"])
def test_programs_that_embed_python_render_themselves(program, monkeypatch):
    from multiprocessing import spawn

    monkeypatch.setattr(spawn, "_python_exe", program)
    monkeypatch.setattr(sys, "executable", program)
    with pytest.warns(RuntimeWarning, match="multiprocessing.set_executable"):
        renderer = Renderer("{{ x }} alone")
    assert renderer.render({"x": "\ud800"}) == "\ud800 alone"
    with pytest.raises(TemplateError, match="makes a value of"), pytest.warns(RuntimeWarning):
        Renderer("{{ 'a' * 10**9 }}").render({})
    monkeypatch.setattr(spawn, "_python_exe", PYTHON)  # as multiprocessing.set_executable does
    assert Renderer("{{ x }} together").render({"x": 1}) == "1 together"


def test_an_interpreter_that_does_not_work_is_named(monkeypatch, tmp_path):
    from multiprocessing import spawn

    monkeypatch.setattr(spawn, "_python_exe", str(tmp_path / "missing"))
    with pytest.raises(OSError, match="^chat: .*missing, which renders templates, does not start: No such file"):
        Renderer("{{ 'no interpreter' }}")


@pytest.mark.skipif(os.name == "nt", reason="runs a script")
@pytest.mark.parametrize("does, what", [("sleep 60", "did not start within 0.1 seconds"), ("true", "does not run Py")])
def test_an_interpreter_that_is_too_slow_or_another_program(does, what, monkeypatch, tmp_path):
    from multiprocessing import spawn

    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\nexec {does}\n")
    program.chmod(0o755)
    monkeypatch.setattr(spawn, "_python_exe", str(program))
    monkeypatch.setattr(renderer, "START", 0.1 if "sleep" in does else 60)
    with pytest.raises(OSError, match=f"^chat: .*program, which renders templates, {what}"):
        Renderer("{{ 'another' }}")


# ---- values ----------------------------------------------------------------------------------------------------------
def test_values_are_made_plain():
    @dataclass
    class Tool:
        name: str
        sizes: tuple

    class Model:
        def model_dump(self):
            return {"role": "user", "n": np.float32(0.5)}

    assert plain({"a": Tool("f", (1, 2)), "b": [Model()], "c": np.arange(2), "d": None}, "x") == {
        "a": {"name": "f", "sizes": [1, 2]}, "b": [{"role": "user", "n": 0.5}], "c": [0, 1], "d": None,
    }  # fmt: skip
    assert Renderer("{{ a }}{{ b }}{{ c }}").render(
        plain({"a": "\ud800\U0001f600", "b": float("inf"), "c": 10**30}, "x")
    ) == "\ud800\U0001f600inf" + str(10**30)
    for wrong, message in [
        ({"a": [object()]}, r"^chat: x\['a'\]\[0\] is a object: need strings"),
        ({1: 2}, "^chat: x has the key 1: need"),
        ({"a": b"x"}, r"^chat: x\['a'\] is a bytes"),
        ({"a": {1, 2}}, r"^chat: x\['a'\] is a set"),
    ]:
        with pytest.raises(TypeError, match=message):
            plain(wrong, "x")
    loop = []
    loop.append(loop)
    with pytest.raises(ValueError, match="^chat: x.* is nested more than 200 times"):
        plain(loop, "x")
    with pytest.raises(ValueError, match="^chat: "):
        renderer.to_request({"n": 10**5000})
    with pytest.raises(ValueError, match="^chat: the messages have 25,165,833 bytes in JSON: need at most 25,165,824"):
        renderer.to_request({"n": "a" * (renderer.REQUEST)})
