"""Types of command-line arguments that argparse lacks, and errors of the files that arguments name."""

import argparse
import contextlib
import os

from .._errors import without_function


def bounded(convert, low, high, words):
    """Returns an argparse type: what `convert` makes of a text, if it lies from low to high."""

    def parsed(text):
        try:
            value = convert(text)
        except ValueError:
            value = None
        if value is None or not low <= value <= high:
            raise argparse.ArgumentTypeError(f"{text!r} is not {words}")
        return value

    return parsed


def between(low, high):
    """Returns an argparse type: an integer from low to high."""
    return bounded(int, low, high, f"an integer from {low:,} to {high:,}")


def number(low, high):
    """Returns an argparse type: a number from low to high."""
    return bounded(float, low, high, f"a number from {low:g} to {high:g}")


def pattern_and_type(text):
    """An argparse type: the pair of pattern and type from PATTERN=TYPE."""
    pattern, _, kind = text.rpartition("=")
    if not pattern or not kind:
        raise argparse.ArgumentTypeError(f"{text!r} is not PATTERN=TYPE")
    return pattern, kind


@contextlib.contextmanager
def naming(path):
    """Puts a file's name before errors of its contents, in place of the function that reads it."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{path}: {without_function(str(error))}") from None


def same_file(a, b):
    """Whether two paths mean one file, which need not exist."""
    if os.path.exists(a) and os.path.exists(b):
        return os.path.samefile(a, b)
    return os.path.realpath(a) == os.path.realpath(b)


def check_outputs(outputs, inputs=()):
    """Refuses, before any work, files that could not be written after it or would replace what is read.

    Args:
        outputs: paths of files to write; None is skipped.
        inputs: paths of files that are read; None is skipped.

    Raises:
        OSError: a path is that of a folder, its folder does not exist, or writing is not permitted.
        ValueError: a path is that of an input or of another output.
    """
    known = [path for path in inputs if path is not None]
    for path in outputs:
        if path is None:
            continue
        folder = os.path.dirname(os.path.abspath(path))
        if os.path.isdir(path):
            raise IsADirectoryError(f"{path}: a folder: need a file")
        if not os.path.isdir(folder):
            raise FileNotFoundError(f"{path}: the folder {folder} does not exist")
        if not os.access(path if os.path.exists(path) else folder, os.W_OK):
            raise PermissionError(f"{path}: writing is not permitted")
        for other in known:
            if same_file(path, other):
                raise ValueError(f"{path} is the same file as {other}: the output needs another name")
        known.append(path)
