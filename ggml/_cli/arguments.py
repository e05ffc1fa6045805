"""Types of command-line arguments that argparse lacks, and errors of the files that arguments name."""

import argparse
import contextlib
import re


def between(low, high):
    """Returns an argparse type: an integer from low to high."""

    def number(text):
        try:
            value = int(text)
        except ValueError:
            value = None
        if value is None or not low <= value <= high:
            raise argparse.ArgumentTypeError(f"{text!r} is not an integer from {low:,} to {high:,}")
        return value

    return number


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
        problem = re.sub(r"^(ggml|gguf)_\w+: ", "", str(error))
        raise ValueError(f"{path}: {problem}") from None
