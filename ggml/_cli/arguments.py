"""Types of command-line arguments that argparse lacks."""

import argparse


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


def add_model(parser, name="model", suffix=".gguf", **more):
    """Adds an argument for a model, which may be the name of an installed package with one.

    Args:
        parser: of the command.
        name: attribute of the options in which the command finds the path of the file.
        suffix: of the files that are models: ".gguf" or ".onnx".
        **more: what add_argument takes.
    """
    parser.add_argument(name, **more)
    name = name.lstrip("-").replace("-", "_")
    parser.set_defaults(models=[*(parser.get_default("models") or ()), (name, suffix)])
