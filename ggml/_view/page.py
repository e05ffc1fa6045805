"""Pages of HTML that need no network: of a GGUF file, and of an exported graph."""

from __future__ import annotations

import ctypes
import json
import os
from importlib import resources
from typing import Any

import ggml

from .._io.gguf_report import in_json, short, size_text
from .._profile.calls import shape_of
from .gguf import MOST, File
from .graph import Drawn, picture

SHOWN = 300  # characters of a value


def page(content: dict[str, Any]) -> str:
    """The page that shows some content (see page.html)."""
    template = resources.files(__package__).joinpath("page.html").read_text(encoding="utf-8")
    data = json.dumps(in_json(content), ensure_ascii=True, separators=(",", ":"))
    return template.replace("DATA", data.replace("<", "\\u003c"), 1)  # "</script>" in a name ends nothing


def of_file(path: str | os.PathLike[str], histograms: bool = True, graph: bool = True) -> str:
    """The page of a GGUF file.

    Args:
        path: the file.
        histograms: True for the distributions of the values of the first tensors.
        graph: True for a picture of the graph, if ggml.models knows the architecture.
    """
    file = File(path)
    about = file.about
    architecture = about["keys"].get("general.architecture", {}).get("value", "")
    parts = [f"GGUF version {about['version']}", size_text(about["bytes"]), f"{len(about['tensors']):,} tensors"]
    content: dict[str, Any] = {
        "title": os.path.basename(file.path),
        "about": ", ".join([*parts, f"architecture {architecture}"] if architecture else parts),
        "keys": [[key, v["type"], short(v["value"], SHOWN)] for key, v in about["keys"].items()],
        "sizes": list(file.sizes().items()),
        "columns": [["name", "text"], ["type", "text"], ["shape", "text"], ["size", "bytes"]],
        "tensors": [[t["name"], t["type"], " x ".join(map(str, t["shape"])), t["bytes"]] for t in about["tensors"]],
    }
    if histograms:
        content["histograms"] = [file.histogram(t) for t in about["tensors"][:MOST]]
    if graph and architecture:
        content |= model_graph(file.path)
    return page(content)


def model_graph(path: str) -> dict[str, str]:
    """The picture of the graph that computes one token; nothing if ggml.models cannot load the file."""
    try:
        from ggml.models import load

        with load(path, n_ctx=32, threads=1) as model:
            step = model.runner.graph_of_a_token()
            found = Drawn(step.graph)
            note = f"What computes one token; each box is {'a layer' if found.is_large else 'an operation'}."
            return {"graph": picture(found, {}), "graphnote": f"{note} Views of memory are left out."}
    except (ImportError, ValueError, KeyError, OSError, MemoryError, RuntimeError):
        return {}


def of_graph(path: str | os.PathLike[str]) -> str:
    """The page of a graph that ggml_graph_export wrote."""
    data, evaluated = ctypes.c_void_p(), ctypes.c_void_p()
    graph = ggml.ggml_graph_import(os.fsencode(path), ctypes.byref(data), ctypes.byref(evaluated))
    try:
        drawn = Drawn(graph)
        rows = [
            [i, op, name, kind, " x ".join(map(str, shape_of(t.contents.ne)))]
            for i, (op, name, kind, t) in enumerate(zip(drawn.ops, drawn.names, drawn.types, drawn.nodes))
        ]
        return page({
            "title": os.path.basename(os.fspath(path)),
            "about": f"graph of {len(drawn.nodes):,} nodes and {len(drawn.leafs):,} leafs",
            "columns": [["node", "number"], *([name, "text"] for name in ("operation", "name", "type", "shape"))],
            "tensors": rows, "graph": picture(drawn, {}), "graphnote": "Views of memory are left out.",
        })  # fmt: skip
    finally:
        ggml.ggml_free(evaluated)
        ggml.ggml_free(data)
