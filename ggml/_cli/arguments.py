"""Types of command-line arguments that argparse lacks, and errors of the files that arguments name."""

import argparse
import contextlib

from .._errors import without_function


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
        raise ValueError(f"{path}: {without_function(str(error))}") from None
