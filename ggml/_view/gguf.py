"""What a GGUF file contains, for notebooks and pages: metadata, tensors, sizes, histograms of values."""

from __future__ import annotations

import os
from collections import Counter
from html import escape
from typing import Any

import numpy as np

import ggml

from .._io.gguf_report import read, short, size_text
from .._io.interop import dequantize_row, reverse_bytes
from .._io.tensor_types import NUMBERS
from .._profile.calls import layer_in

BINS, SAMPLE, MOST = 48, 1 << 16, 1000  # of histograms: bins, values that are looked at, tensors that have one


class File:
    """A GGUF file, which shows itself in notebooks.

    Args:
        path: the file.
    Attributes:
        about: what `ggml inspect --json` prints.
    Raises:
        OSError: the file cannot be read.
        ValueError: it is not a GGUF file.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self.about = read(self.path)
        with open(self.path, "rb") as file:
            version = np.frombuffer(file.read(8), np.uint32)[1]
        self._other_order = not version & 0xFFFF  # the byte order of the file is not this machine's

    def __repr__(self) -> str:
        a = self.about
        return f"<GGUF file {self.path!r}: {len(a['keys'])} keys, {len(a['tensors'])} tensors, {size_text(a['bytes'])}>"

    def _repr_html_(self) -> str:
        keys = "".join(
            f"<tr><td>{escape(k)}</td><td>{escape(v['type'])}</td><td>{escape(short(v['value']))}</td></tr>"
            for k, v in self.about["keys"].items()
        )
        tensors = "".join(
            f"<tr><td>{escape(t['name'])}</td><td>{escape(t['type'])}</td><td>{' x '.join(map(str, t['shape']))}</td>"
            f"<td>{size_text(t['bytes'])}</td></tr>"
            for t in self.about["tensors"]
        )
        return (
            f"<code>{escape(repr(self))}</code>"
            f"<details><summary>keys</summary><table>{keys}</table></details>"
            f"<details><summary>tensors</summary><table>{tensors}</table></details>"
        )

    def sizes(self) -> dict[str, dict[str, int]]:
        """Bytes by layer and type; the layer "" has the tensors outside layers."""
        found: dict[str, Counter[str]] = {}
        for t in self.about["tensors"]:
            layer = layer_in(t["name"])
            found.setdefault("" if layer < 0 else str(layer), Counter())[t["type"]] += t["bytes"]
        return {k: dict(v) for k, v in sorted(found.items(), key=lambda item: (item[0] != "", int(item[0] or 0)))}

    def histogram(self, tensor: dict[str, Any]) -> dict[str, Any] | None:
        """The distribution of a sample of the values of a tensor of about["tensors"]; None if it has no values.

        Returns:
            low and high of the range, counts by bin, mean, deviation, how many values are not finite, and the number of
            values that were looked at: rows at equal distances.
        """
        values = self._sample(tensor)
        if values is None or not values.size:
            return None
        finite = values[np.isfinite(values)].astype(np.float64)
        found: dict[str, Any] = {"n": int(values.size), "bad": int(values.size - finite.size)}
        if finite.size:
            counts, edges = np.histogram(finite, BINS)
            found |= {"low": float(edges[0]), "high": float(edges[-1]), "counts": counts.tolist()}
            found |= {"mean": float(finite.mean()), "std": float(finite.std())}
        return found

    def _sample(self, tensor: dict[str, Any]) -> np.ndarray | None:
        kind, shape = NUMBERS[tensor["type"]], tensor["shape"] or [1]
        n, rows = shape[0], int(np.prod(shape[1:], dtype=np.int64))
        size = ggml.ggml_row_size(kind, n)
        if not n or not rows:
            return None
        offset = self.about["data_offset"] + tensor["offset"]
        if self.about["bytes"] < offset + rows * size:  # a file of metadata alone
            return None
        data = np.memmap(self.path, np.uint8, "r", offset, (rows, size))
        count = min(rows, max(1, SAMPLE // n))
        if n > SAMPLE:
            n = SAMPLE - SAMPLE % 256
            size = ggml.ggml_row_size(kind, n)
        picked = np.ascontiguousarray(data[np.linspace(0, rows - 1, count).astype(np.int64), :size])
        if self._other_order:
            reverse_bytes(picked, count * n, kind)
        plain = {"F32": "f4", "F16": "f2", "F64": "f8", "I8": "i1", "I16": "i2", "I32": "i4", "I64": "i8"}
        if tensor["type"] in plain:
            return picked.view(plain[tensor["type"]])
        out = np.empty((count, n), np.float32)
        for i, row in enumerate(picked):
            dequantize_row(row, n, kind, out[i])
        return out
