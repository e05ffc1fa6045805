"""Text for terminals, pipes and files of any encoding."""

import codecs
import io
import json
import os
import sys

from .._errors import bare

ESCAPED = range(0xDC80, 0xDD00)  # what stands for a byte that Python could not decode (PEP 383)


def bytes_or_question_mark(error):
    """A handler of codecs: the byte that an escape stands for, "?" for other characters that an encoding lacks."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    code = ord(error.object[error.start])
    return (bytes([code - 0xDC00]) if code in ESCAPED else "?"), error.start + 1


codecs.register_error("ggml.shown", bytes_or_question_mark)


def show_any_character():
    """Lets standard output replace characters that its encoding lacks, where they would end the command.

    Names of files remain as they are where the locale keeps bytes that it cannot decode (LC_ALL=C).
    """
    out = sys.stdout
    if isinstance(out, io.TextIOWrapper):
        out.reconfigure(errors="ggml.shown" if out.errors == "surrogateescape" else "replace")


def error_text(error, command):
    """The message of an error without the function's name; for one of the system, the file and the problem."""
    text = bare(error).removeprefix(f"{command}: ")
    system = isinstance(error, OSError) and error.strerror
    return f"{os.fsdecode(error.filename)}: {text}" if system and isinstance(error.filename, (str, bytes)) else text


def flush():
    """Writes what waits for standard output.

    Raises:
        BrokenPipeError: its reader has gone.
        OSError: it cannot be written, for example on a full disk; what waits is lost.
    """
    try:
        if sys.stdout:
            sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        discard_output()
        raise OSError(error.errno, error.strerror, "standard output") from None


def discard_output():
    """Lets standard output go nowhere: after an error of its file, what is left in its buffer is lost."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    except (OSError, ValueError, AttributeError):  # it is not a file
        pass


def unescaped(text):
    """A text of the user in which bytes that Python could not decode, but which are UTF-8, are characters."""
    try:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # half of a surrogate pair, from Windows
        return text


def json_text(value, **options):
    """A value as JSON, in ASCII if standard output cannot show all characters of it."""
    text = json.dumps(value, ensure_ascii=False, **options)
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        return json.dumps(value, **options)
    return text
