"""Languages are compiled on trial, in a process of their own, where that may take for ever: see `trial`.

This file is also the program of that process. It imports the standard library and llguidance alone.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys

SECONDS = 20.0  # that compiling a language may take
MEMORY = 4 << 30  # bytes of the process, where the system limits them
# What takes time that no limit of llguidance bounds: intersections and complements of regular expressions, which it
# makes of these keywords of schemas, too.
LONG = re.compile(
    r"[&~]|allOf|patternProperties|multipleOf\W*[0.]*[1-9][\d.]{3}|\$ref.*(?<!_)pattern|(?<!_)pattern.*\$ref", re.S
)


def trial(grammar: str, program: str | None, folder: str) -> str:
    """What is wrong with compiling a language, nothing if it ends.

    Args:
        grammar: in llguidance's form.
        program: Python's; None if it is not known: then nothing is tried.
        folder: that of llguidance's package.
    """
    if program is None or not LONG.search(grammar):
        return ""
    command = [program, "-I", "-S", "-B", "-X", "utf8", __file__, folder]
    flags = getattr(subprocess, "CREATE_NO_WINDOW", 0)
    try:
        ended = subprocess.run(
            command, input=grammar.encode(errors="replace"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            timeout=SECONDS, creationflags=flags, start_new_session=os.name != "nt", check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"it takes more than {SECONDS:g} seconds to compile"
    except OSError as error:
        raise OSError(f"generate: {program}, which tries languages, does not start: {error.strerror}") from None
    return "" if ended.returncode == 0 else f"it takes more than {MEMORY >> 30} GiB to compile"


def main(folder: str) -> None:
    """Compiles the language that the standard input has."""
    grammar = sys.stdin.buffer.read().decode()
    sys.path.append(folder)
    from llguidance import LLMatcher, LLTokenizer

    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except (ImportError, OSError, ValueError):  # Windows; a lower limit
        pass
    matcher = LLMatcher(LLTokenizer("byte"), grammar, log_level=0)
    if not matcher.is_error():
        matcher.compute_bitmask()


if __name__ == "__main__":
    main(sys.argv[1])
    os._exit(0)
