"""SVG pictures of graphs: boxes in rows, and arrows between them."""

from collections.abc import Iterable, Mapping
from xml.sax.saxutils import escape

LINE, CHARACTER, MARGIN, ROW = 16, 7.5, 10, 110  # in pixels: line height, character width, margin, distance of rows
KEY = 4  # characters that the mark of a colour and the gap behind its words take in a legend
ARROW = (
    '<marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
    '<path d="M0 0L8 4L0 8z" fill="gray" stroke="none"/></marker>'
)


def rows(boxes, edges):
    """Arranges the boxes in rows.

    A box is below all of its sources; a box without sources is just above the first box that uses it. Within a row,
    boxes are sorted by the mean position of their sources.
    """
    sources: dict[str, list[str]] = {b: [] for b in boxes}
    users: dict[str, list[str]] = {b: [] for b in boxes}
    for a, b in edges:
        sources[b].append(a)
        users[a].append(b)
    level = dict.fromkeys(boxes, 0)
    for b in boxes:  # nodes come after their sources; boxes without sources get their final level below
        level[b] = max((level[a] + 1 for a in sources[b]), default=0)
    for b in boxes:
        if not sources[b]:
            level[b] = min((level[u] for u in users[b]), default=1) - 1
    found: list[list[str]] = [[] for _ in range(max(level.values(), default=-1) + 1)]
    place: dict[str, float] = {}
    for b in boxes:
        found[level[b]].append(b)
    for row in found:
        row.sort(key=lambda b: sum(place.get(a, 0) for a in sources[b]) / max(len(sources[b]), 1))
        place.update((b, i - len(row) / 2) for i, b in enumerate(row))
    return found


def printable(line: str) -> str:
    """The line without control characters, which XML does not have."""
    return "".join(c if c.isprintable() else "\ufffd" for c in line)


def draw(
    boxes: Mapping[str, tuple[str, list[str]]], edges: Iterable[tuple[str, str]], meaning: Mapping[str, str]
) -> str:
    """An SVG of a graph.

    Args:
        boxes: colour and lines of text by the name of the box.
        edges: pairs of names; those of boxes that do not exist are ignored.
        meaning: words by colour, for a legend of the colours that occur.
    """
    used = {colour for colour, _ in boxes.values()}
    legend = [(colour, words) for colour, words in meaning.items() if colour in used]
    first = MARGIN + (LINE + MARGIN) * bool(legend)  # the top of the first row
    edges = [(a, b) for a, b in edges if a in boxes and b in boxes]
    at: dict[str, tuple[float, float, float, float]] = {}  # left, top, width, height
    for y, row in enumerate(rows(boxes, edges)):
        widths = [CHARACTER * max(map(len, boxes[b][1])) + 2 * MARGIN for b in row]
        x: float = -(sum(widths) + MARGIN * (len(row) - 1)) / 2
        for b, width in zip(row, widths, strict=True):
            at[b] = x, first + ROW * y, width, LINE * len(boxes[b][1]) + MARGIN
            x += width + MARGIN
    left: float = min((x for x, *_ in at.values()), default=0) - MARGIN
    width = max((x + w for x, _, w, _ in at.values()), default=0) + MARGIN - left
    height = max((y + h for _, y, _, h in at.values()), default=0) + MARGIN
    width = max(width, CHARACTER * sum(len(words) + KEY for _, words in legend) + MARGIN)
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="{left:.0f} 0 {width:.0f} {height:.0f}"'
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" {size}>', f"<defs>{ARROW}</defs>"]
    out.append(f'<rect x="{left:.0f}" width="{width:.0f}" height="{height:.0f}" fill="white"/>')  # for dark viewers
    out.append('<g stroke="gray" fill="none">')
    for a, b in edges:
        (x1, y1, w1, h1), (x2, y2, w2, _) = at[a], at[b]
        x1, y1, x2, bend = x1 + w1 / 2, y1 + h1, x2 + w2 / 2, ROW / 3
        curve = f"M{x1:.0f} {y1:.0f}C{x1:.0f} {y1 + bend:.0f} {x2:.0f} {y2 - bend:.0f} {x2:.0f} {y2:.0f}"
        out.append(f'<path d="{curve}" marker-end="url(#arrow)"/>')
    out.append('</g>\n<g stroke="black" font-family="monospace" font-size="12">')
    x = left + MARGIN
    for fill, words in legend:
        out.append(f'<circle cx="{x + 6:.0f}" cy="{MARGIN + 6}" r="6" fill="{fill}"/>')
        out.append(f'<text x="{x + 18:.0f}" y="{MARGIN + 10}" stroke="none">{escape(words)}</text>')
        x += CHARACTER * (len(words) + KEY)
    for b, (left, top, w, h) in at.items():
        colour, lines = boxes[b]
        out.append(f'<rect x="{left:.0f}" y="{top:.0f}" width="{w:.0f}" height="{h:.0f}" fill="{colour}"/>')
        for i, line in enumerate(lines):
            words = escape(printable(line))
            out.append(f'<text x="{left + MARGIN:.0f}" y="{top + LINE * (i + 1):.0f}" stroke="none">{words}</text>')
    return "\n".join([*out, "</g>", "</svg>", ""])
