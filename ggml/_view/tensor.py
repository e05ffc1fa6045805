"""A tensor in a notebook: its properties, statistics of its values, and a picture of a matrix."""

from __future__ import annotations

import base64
import struct
import zlib
from html import escape
from typing import Any

import numpy as np

import ggml

SAMPLE = 1 << 20  # most values that are looked at
EDGE = 96  # pixels of a picture


def html(tensor: Any) -> str:
    """The HTML of a tensor pointer. A tensor that cannot be read shows its one line only."""
    line = f"<code>{escape(repr(tensor))}</code>"
    try:
        rows, values = properties(tensor)
    except (ValueError, RuntimeError, TypeError, MemoryError):
        return line
    cells = "".join(f"<tr><th style='text-align:left'>{k}</th><td>{escape(str(v))}</td></tr>" for k, v in rows.items())
    picture = matrix_picture(values) if values is not None else ""
    return f"<div>{line}<div style='display:flex;gap:1em'><table>{cells}</table>{picture}</div></div>"


def properties(tensor: Any) -> tuple[dict[str, Any], np.ndarray | None]:
    """What is shown of a tensor, and its values [ne1, ne0] as far as they are looked at."""
    from ggml.utils import to_numpy

    dims = max(1, ggml.ggml_n_dims(tensor))  # raises if the tensor was freed: nothing may be read then
    t = tensor.contents
    rows: dict[str, Any] = {
        "shape (ne)": list(t.ne[:dims]),
        "type": (ggml.ggml_type_name(t.type) or b"?").decode(),
        "strides (nb)": list(t.nb),
        "bytes": f"{ggml.ggml_nbytes(tensor):,}",
        "buffer": (ggml.ggml_backend_buffer_name(t.buffer) or b"").decode() if t.buffer else "context or none",
    }
    if not t.data:
        return rows | {"values": "no data yet"}, None
    ne0, rows_of_all = t.ne[0], t.ne[1] * t.ne[2] * t.ne[3]
    if ne0 * rows_of_all == 0:
        return rows, None
    if ggml.ggml_is_quantized(t.type) and ne0 * rows_of_all > SAMPLE:
        return rows | {"values": "not decoded: the tensor is large"}, None
    values = np.asarray(to_numpy(tensor)).reshape(-1, ne0)
    if values.size > SAMPLE:
        values = values[:: -(-values.size // SAMPLE)]
    return rows | statistics(values), values


def statistics(values: np.ndarray) -> dict[str, str]:
    """Minimum, maximum, mean and deviation of the finite values, and how many are not finite."""
    numbers = values.astype(np.float64) + 0.0  # -0.0 becomes 0.0
    finite = numbers[np.isfinite(numbers)]
    found = {"min, max": f"{finite.min():.6g}, {finite.max():.6g}", "mean": f"{finite.mean():.6g}",
             "deviation": f"{finite.std():.6g}"} if finite.size else {}  # fmt: skip
    bad = numbers.size - finite.size
    return found | ({"not finite": f"{bad:,} of {numbers.size:,}"} if bad else {})


def matrix_picture(values: np.ndarray) -> str:
    """A picture of a matrix, of at most EDGE rows and columns: blue below zero, red above, white at zero."""
    if min(values.shape) < 2:
        return ""
    step = [-(-n // EDGE) for n in values.shape]
    part = values[:: step[0], :: step[1]].astype(np.float64)
    part = np.where(np.isfinite(part), part, 0)
    most = max(np.abs(part).max(), 1e-300)
    scaled = part / most
    fade = (255 * (1 - np.abs(scaled))).astype(np.uint8)
    full = np.full_like(fade, 255)
    rgb = np.where((scaled < 0)[..., None], np.stack([fade, fade, full], -1), np.stack([full, fade, fade], -1))
    data = base64.b64encode(png(np.ascontiguousarray(rgb))).decode()
    size = f"width='{3 * rgb.shape[1]}' height='{3 * rgb.shape[0]}'"
    image = f"<img alt='values' style='image-rendering:pixelated' {size} src='data:image/png;base64,{data}'>"
    legend = f"blue: to {-most:.3g}, white: 0, red: to {most:.3g}; ne0 to the right"
    return f"<figure style='margin:0'>{image}<figcaption style='font-size:smaller'>{legend}</figcaption></figure>"


def png(rgb: np.ndarray) -> bytes:
    """The PNG file of an image [height, width, 3] (u8)."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    height, width, _ = rgb.shape
    lines = b"".join(b"\0" + row.tobytes() for row in rgb)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")
