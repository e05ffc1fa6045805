"""The results of the page docs/performance.md: tables and plots (SVG, by matplotlib) of the files in
benchmarks/results.

`python benchmarks/run.py --json FILE` writes rates of several libraries: a plot shows those of one unit, with the limit
of the machine as a line. `python benchmarks/scale.py --json FILE` writes how rates change with the size of the work.
"""

import io
import json
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"
RESULTS = BENCHMARKS / "results"
sys.path.insert(0, str(BENCHMARKS))

import scale  # noqa: E402

COLOURS = {"ours": "#4c6ef5", "NumPy": "#868e96", "PyTorch": "#f08c00", "bindings": "#2f9e44"}
NEUTRAL, LIMIT = "#808890", "#e03131"  # readable on light and on dark ground


def recorded(key):
    """{name: content} of the files with this key, the newest first."""
    found = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in RESULTS.glob("*.json")}
    found = {name: content for name, content in found.items() if key in content}
    return dict(sorted(found.items(), key=lambda item: item[1]["date"], reverse=True))


def svg(make, *arguments):
    """The text of an SVG of the figure that `make` gives."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    style = {
        "svg.hashsalt": "ggml",
        "svg.fonttype": "none",
        "text.color": NEUTRAL,
        "axes.labelcolor": NEUTRAL,
        "axes.titlecolor": NEUTRAL,
        "xtick.color": NEUTRAL,
        "ytick.color": NEUTRAL,
        "axes.edgecolor": NEUTRAL,
        "axes.facecolor": "none",
        "legend.frameon": False,
    }
    with matplotlib.rc_context(style):
        figure, out = make(*arguments), io.StringIO()
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None})
        pyplot.close(figure)
    return out.getvalue()


# ---- rates of several libraries (run.py) -----------------------------------------------------------------------------
def group(name, unit):
    """The plot that a workload belongs to: products of one kind, or everything with one unit."""
    kind = name.split()[0]
    return kind if kind in ("GEMM", "GEMV") else unit


def groups(result):
    """{plot: names of its workloads}: the plots with at least two workloads that two libraries have."""
    found: dict[str, list[str]] = {}
    others = [rows for library, rows in result["results"].items() if library != "ours"]
    for name, ours in result["results"]["ours"].items():
        if "rate" in ours and any("rate" in rows.get(name, {}) for rows in others):
            found.setdefault(group(name, ours["unit"]), []).append(name)
    return {key: names for key, names in found.items() if len(names) > 1}


def bars(result, names):
    """A figure with a horizontal bar for each workload and library, and a line for each limit."""
    from matplotlib import pyplot

    ours, limits = result["results"]["ours"], result["limits"]
    libraries = [key for key, rows in result["results"].items() if any("rate" in rows.get(name, {}) for name in names)]
    scale, prefix = (1e-6, "M") if max(ours[name]["rate"] for name in names) > 1e6 else (1, "")
    figure, axes = pyplot.subplots(figsize=(8, 0.9 + 0.14 * (len(libraries) + 1) * len(names)), layout="constrained")
    height = 0.8 / len(libraries)
    for i, library in enumerate(libraries):
        rates = [result["results"][library].get(name, {}).get("rate", 0) * scale for name in names]
        axes.barh([y + i * height for y in range(len(names))], rates, height, label=library, color=COLOURS[library])
    lines = [(y, limits[name][0] * scale) for y, name in enumerate(names) if name in limits]
    if lines:
        tops = [y - height / 2 for y, _ in lines]
        axes.vlines(
            [rate for _, rate in lines],
            tops,
            [top + 0.8 for top in tops],
            color=LIMIT,
            linestyle="--",
            label="limit of the machine",
        )
    axes.set_yticks([y + 0.4 - height / 2 for y in range(len(names))], names)
    axes.set_ylim(len(names) - height / 2, -height)
    axes.set_xlabel(prefix + ours[names[0]]["unit"])
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(frameon=False, loc="outside upper center", ncols=5)
    return figure


def rate_text(rate):
    return f"{rate:,.3g}" if rate < 1000 else f"{rate:,.0f}"


def cell(row):
    if "rate" not in row:
        return "fails" if "error" in row else "–"
    return rate_text(row["rate"])


def table(result):
    libraries, limits = list(result["results"]), result["limits"]
    lines = [
        "| workload | " + " | ".join(libraries) + " | limit | unit |",
        "| --- |" + " ---: |" * (len(libraries) + 1) + " --- |",
    ]
    for name, ours in result["results"]["ours"].items():
        cells = [cell(result["results"][library].get(name, {})) for library in libraries]
        cells.append(rate_text(limits[name][0]) if name in limits else "–")
        lines.append(f"| {name} | " + " | ".join(cells) + f" | {ours.get('unit', '')} |")
    return "\n".join(lines)


# ---- the page --------------------------------------------------------------------------------------------------------
def picture(name, key):
    return f"{name}-{key.replace('/', '-per-')}.svg"


def files():
    """{path: SVG} of all plots."""
    of_rates = {
        picture(name, key): svg(bars, result, names)
        for name, result in recorded("results").items()
        for key, names in groups(result).items()
    }
    of_sizes = {
        picture(name, key): svg(scale.draw, key, data)
        for name, result in recorded("plots").items()
        for key, data in result["plots"].items()
    }
    return {f"docs/plots/{path}": text for path, text in (of_rates | of_sizes).items()}


def heading(result):
    versions = ", ".join(f"{library} {version}" for library, version in result["versions"].items())
    return [
        f"### {result['machine']}, {result['date']}",
        f"{result['threads']} threads; {versions}. Measured by `{result['command']}`.",
        result.get("note", ""),
    ]


def tables():
    """The Markdown of the rates of several libraries: where they were measured, the command, plots, the table."""
    parts = []
    for name, result in recorded("results").items():
        parts += heading(result)
        parts += [f"![{key}](plots/{picture(name, key)})" for key in groups(result)]
        parts.append(table(result))
    return "\n\n".join(parts)


def sizes():
    """The Markdown of how rates change with the size of the work: where that was measured, plots, where rates fall."""
    parts = []
    for name, result in recorded("plots").items():
        parts += heading(result)
        for key, data in result["plots"].items():
            parts.append(f"![{key}](plots/{picture(name, key)})")
            parts.append("\n".join(f"- {sentence}" for sentence in scale.falls(key, data)))
    return "\n\n".join(parts)
