"""Chat templates are rendered in child processes with limits on time, memory and stack, which stay ready between calls.

There is one process for each template, so one from a stranger cannot change what another renders, and at most PROCESSES
of them. A process gets JSON and answers with text: nothing that it writes is evaluated. It ends with this one, and the
children of a fork start processes of their own.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..text.encoders import optional_module
from . import sandbox
from .sandbox import REFUSAL, SIZE, TEXT, MessagesError, Template, TemplateError, require_total, too_slow

PROCESSES = 4
GRACE = 0.5  # seconds after which a process is ended that did not notice that its time is over
START = 60.0  # seconds that a busy machine may need to start a process
REQUEST = 6 * SIZE  # bytes; JSON may need 6 for a character
ANSWER = 4 * SIZE + (1 << 16)  # bytes; most of an answer, which has at most SIZE characters
DEPTH = 200  # of lists and dicts in one another
KEPT = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT", "TZ")  # what a process needs of the environment
# A Python without a GIL would reserve 1 GiB of addresses, which count as memory.
ADDED = {"MIMALLOC_ARENA_RESERVE": "0"}


def plain(value: Any, name: str, depth: int = 0) -> Any:
    """A value as JSON can express it: dicts, lists, strings, numbers, booleans and None.

    Args:
        value: any of these, other mappings and sequences, numbers of NumPy, data classes, and models of pydantic.
        name: what it is, for messages.

    Raises:
        TypeError: a value is of another type, or the key of a mapping is not a string.
        ValueError: the value is nested too deeply.
    """
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    if depth > DEPTH:
        raise ValueError(f"chat: {name} is nested more than {DEPTH} times")
    if isinstance(value, Mapping):
        if wrong := [key for key in value if not isinstance(key, str)]:
            raise TypeError(f"chat: {name} has the key {wrong[0]!r}: need strings")
        return {str(key): plain(item, f"{name}[{key!r}]", depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item, f"{name}[{i}]", depth + 1) for i, item in enumerate(value)]
    if is_dataclass(value) and not isinstance(value, type):
        return plain({field.name: getattr(value, field.name) for field in fields(value)}, name, depth + 1)
    for method in ("model_dump", "item", "tolist"):  # of pydantic, of NumPy's numbers, of its arrays
        convert = getattr(value, method, None)
        if callable(convert) and not isinstance(value, type) and (method != "item" or getattr(value, "ndim", 1) == 0):
            return plain(convert(), name, depth + 1)
    raise TypeError(f"chat: {name} is a {type(value).__name__}: need strings, numbers, lists, dicts, bool or None")


def to_request(variables: Mapping[str, Any]) -> bytes:
    """The message with the values of a template's variables."""
    try:
        data = json.dumps(variables).encode()
    except ValueError as error:  # a number of thousands of digits
        raise ValueError(f"chat: {error}") from None
    if len(data) > REQUEST:
        raise ValueError(f"chat: the messages have {len(data):,} bytes in JSON: need at most {REQUEST:,}")
    return data


def interpreter() -> str | None:
    """The program that runs Python, None if this one is not known to.

    `multiprocessing.set_executable` names it in programs that are frozen or embed Python.
    """
    from multiprocessing import spawn

    path = os.fsdecode(spawn.get_executable() or "")
    own = path == (sys.executable or "")
    if own and (getattr(sys, "frozen", False) or not Path(path).name.lower().startswith(("python", "pypy"))):
        return None
    return path


def search_path() -> list[str]:
    """The folders of jinja2 and of what it needs."""
    folders = []
    for name in ("jinja2", "markupsafe"):
        spec = find_spec(name)
        if spec is None or not spec.origin:
            optional_module(name)
            raise ModuleNotFoundError(f"chat: {name} has no folder", name=name)
        folders.append(str(Path(spec.origin).parent.parent))
    return list(dict.fromkeys(folders))


class Process:
    """A child process that renders one template. One thread at a time talks to it.

    Args:
        source: the template.
        program: the Python interpreter.
    """

    def __init__(self, source: str, program: str) -> None:
        self.lock = threading.Lock()
        self._source, self._program = source, program
        self._child: subprocess.Popen[bytes] | None = None
        self._owner = 0

    def render(self, request: bytes | None) -> str:
        """The text for a message of `to_request`; None to compile the template only.

        Raises:
            TemplateError: the template is not valid, fails, or exceeds a limit.
            OSError: the process cannot be started.
        """
        with self.lock:
            for again in (True, False):
                if self._child is None or self._child.poll() is not None:
                    self._start()
                if request is None:
                    return ""
                text = self._ask(request, again)
                if text is not None:
                    return text
        raise AssertionError("the second attempt returned nothing")

    def close(self) -> None:
        """Ends the process, or only forgets it if it is one of the parent before a fork."""
        child, self._child = self._child, None
        if child is None:
            return
        if self._owner == os.getpid():
            child.kill()
        for stream in (child.stdin, child.stdout):
            if stream is not None:
                stream.close()
        if self._owner == os.getpid():
            child.wait()
        else:
            child.returncode = 0  # or else it would be waited for

    __del__ = close

    def _start(self) -> None:
        self.close()
        command = [self._program, "-I", "-S", "-B", "-X", "utf8", sandbox.__file__, str(sandbox.SECONDS)]
        self._owner = os.getpid()
        try:
            self._child = subprocess.Popen(
                [*command, *search_path()],
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=os.path.abspath(os.sep),
                env=ADDED | {name: os.environ[name] for name in KEPT if name in os.environ},
                start_new_session=os.name != "nt",  # Ctrl-C is for this process
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            )
        except OSError as error:
            raise OSError(f"chat: {self._program}, which renders templates, does not start: {error.strerror}") from None
        begin = time.monotonic()
        try:
            self._ask(None, seconds=START)
        except TemplateError as error:
            late = time.monotonic() - begin >= START
            wrong = f"did not start within {START:g} seconds" if late else "does not run Python with jinja2"
            raise OSError(f"chat: {self._program}, which renders templates, {wrong}") from error
        try:
            self._ask(self._source.encode(errors="surrogatepass"))
        except TemplateError:
            self.close()
            raise

    def _ask(self, request: bytes | None, again: bool = False, seconds: float | None = None) -> str | None:
        """The answer to a message, None if the process ended from outside and `again` allows another attempt.

        Raises:
            TemplateError: it is an error, or did not come within `seconds`; None for the limit of templates.
        """
        child, late = self._child, threading.Event()
        seconds = sandbox.SECONDS if seconds is None else seconds
        assert child is not None and child.stdin is not None and child.stdout is not None

        def stop() -> None:
            late.set()
            child.kill()

        timer = threading.Timer(seconds + GRACE, stop)
        timer.daemon = True
        try:
            timer.start()
        except RuntimeError as error:  # there are too many
            raise RuntimeError(f"chat: {error}, which ends templates that take too long") from None
        answer = None
        try:
            if request is not None:
                sandbox.send(child.stdin, request)
            answer = sandbox.receive(child.stdout, ANSWER)
        except BrokenPipeError:
            pass
        finally:  # also after Ctrl-C, when the answer may come at any time
            timer.cancel()
            timer.join()
            if not answer or late.is_set():
                self.close()
        if not answer:
            return self._ended(child.returncode, late.is_set(), seconds, again)
        text = answer[1:].decode(errors="surrogatepass")
        if answer[:1] != TEXT:
            raise (MessagesError if answer[:1] == REFUSAL else TemplateError)(text)
        return text

    @staticmethod
    def _ended(status: int, late: bool, seconds: float, again: bool) -> None:
        """Raises for a process that ended; not if it need not be the template's fault and another attempt is made."""
        if late or -status == getattr(signal, "SIGXCPU", None):
            raise too_slow(seconds)
        if not again or -status not in (0, getattr(signal, "SIGKILL", None), signal.SIGTERM):
            raise TemplateError(
                f"chat: the template ended the process that renders it (status {status}): its values are too large or "
                "nested too deeply"
            )


class Processes:
    """The processes of the templates that were used last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of: dict[tuple[str, str], Process] = {}  # by source and interpreter, the last used at the end

    def get(self, source: str, program: str) -> Process:
        """The process of a template."""
        with self._lock:
            key = source, program
            process = self._of.pop(key, None) or Process(source, program)
            self._of[key] = process
            for other in list(self._of)[:-PROCESSES]:
                old = self._of[other]
                if old.lock.acquire(blocking=False):  # no thread waits for it
                    del self._of[other]
                    old.close()
                    old.lock.release()
        return process

    def close(self) -> None:
        """Ends all processes, or forgets them in the child of a fork."""
        self._lock = threading.Lock()  # another thread may hold it for ever
        while self._of:
            self._of.popitem()[1].close()


PROCESSES_OF_TEMPLATES = Processes()
atexit.register(PROCESSES_OF_TEMPLATES.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=PROCESSES_OF_TEMPLATES.close)


class Renderer:
    """Renders a template in a process of its own.

    In a program that is frozen or embeds Python and has not named an interpreter by `multiprocessing.set_executable`,
    templates are rendered in this process, with a warning: only the limits that are checked beforehand hold there.

    Args:
        source: the template.

    Raises:
        TemplateError: the template is not valid.
        OSError: the process cannot be started.
        ModuleNotFoundError: jinja2 is missing (extra `llm`).
    """

    def __init__(self, source: str) -> None:
        require_total(len(source))
        search_path()
        self._source, self._program = source, interpreter()
        self._own = None
        if self._program is not None:
            PROCESSES_OF_TEMPLATES.get(source, self._program).render(None)
            return
        warnings.warn(
            f"chat: {sys.executable!r} is not known to be Python, so chat templates are rendered in this process, "
            "where fewer limits hold: name an interpreter with jinja2 by multiprocessing.set_executable",
            RuntimeWarning,
            stacklevel=4,
        )
        self._own = Template(source, sandbox.SECONDS)

    def render(self, variables: Mapping[str, Any]) -> str:
        """The text for the values of the template's variables, which `plain` has made.

        Raises:
            TemplateError: the template fails, refuses the values, or exceeds a limit.
            OSError: the process cannot be started.
        """
        request = to_request(variables)
        if self._own is not None:
            return self._own.render(json.loads(request))
        assert self._program is not None
        return PROCESSES_OF_TEMPLATES.get(self._source, self._program).render(request)
