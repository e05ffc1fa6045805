"""The logger of programs that set llama-cpp-python's."""

import logging

logger = logging.getLogger("llama-cpp-python")


def set_verbose(verbose: bool) -> None:
    """Sets the level of the logger."""
    logger.setLevel(logging.DEBUG if verbose else logging.ERROR)
