"""Operators that run on the host on whole arrays: those of ai.onnx.ml, of text, boxes and shapes, and scattering.

An operator is a function that prepares a node, once: it takes a Node and returns a function of the operands (arrays,
lists, dicts; None for an omitted one), which returns a value, or a tuple of values for several outputs.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

OPERATORS: dict[str, Callable[..., Any]] = {}
THREADS: ContextVar = ContextVar("threads", default=None)  # as many as an operator may use; None: one per usable CPU
FAMILIES = "columns labels linear svm ensemble text boxes deform scatter shapes parts whole".split()


def available(threads):
    """A number of threads that a caller gave; None: that of usable CPUs."""
    if threads is not None:
        return threads
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def operator(name, domain="ai.onnx.ml"):
    """Decorator: registers a function that prepares the nodes of an operator; domain: "" is ONNX's own."""

    def register(prepare):
        OPERATORS[f"{domain}.{name}" if domain else name] = prepare
        return prepare

    return register


def kept(make):
    """Decorator: what a function makes of a node is made once, and kept with the node."""

    def function(node):
        found = node.attrs.get("ggml.kept")
        if found is None:
            found = node.attrs["ggml.kept"] = make(node)
        return found

    return function


def load():
    """Imports the families, once."""
    for family in FAMILIES:
        importlib.import_module(f"{__name__}.{family}")
    return OPERATORS
