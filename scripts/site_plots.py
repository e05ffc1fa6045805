"""The results of the page docs/performance.md: a table and plots for each file in benchmarks/results.

`python benchmarks/run.py --json FILE` writes such a file. A plot (SVG, by matplotlib) shows the rates of one unit for
each library. Where the file has a limit of that unit (`--limit`), it is drawn as a line.
"""

import io
import json
from pathlib import Path

RESULTS = Path(__file__).resolve().parent.parent / "benchmarks" / "results"
COLOURS = {"ours": "#4c6ef5", "NumPy": "#868e96", "PyTorch": "#f08c00", "bindings": "#2f9e44"}
NEUTRAL = "#808890"  # readable on light and on dark ground


def results():
    """{name: content} of the recorded results, the newest first."""
    found = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in RESULTS.glob("*.json")}
    return dict(sorted(found.items(), key=lambda item: item[1]["date"], reverse=True))


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


def plot(result, names):
    """A horizontal bar for each workload and library, as SVG."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    style = {"svg.hashsalt": "ggml", "svg.fonttype": "none", "text.color": NEUTRAL, "axes.labelcolor": NEUTRAL,
             "xtick.color": NEUTRAL, "ytick.color": NEUTRAL, "axes.edgecolor": NEUTRAL}
    libraries = [key for key, rows in result["results"].items() if any("rate" in rows.get(name, {}) for name in names)]
    unit = result["results"]["ours"][names[0]]["unit"]
    scale, prefix = (1e-6, "M") if max(result["results"]["ours"][name]["rate"] for name in names) > 1e6 else (1, "")
    with matplotlib.rc_context(style):
        figure, axes = plt.subplots(figsize=(8, 0.9 + 0.14 * (len(libraries) + 1) * len(names)), layout="constrained")
        height = 0.8 / len(libraries)
        for i, library in enumerate(libraries):
            rates = [result["results"][library].get(name, {}).get("rate", 0) * scale for name in names]
            axes.barh([y + i * height for y in range(len(names))], rates, height, label=library, color=COLOURS[library])
        limit = result["limits"].get(unit)
        if limit:
            axes.axvline(limit * scale, color="#e03131", linestyle="--", label="limit of the machine")
        axes.set_yticks([y + 0.4 - height / 2 for y in range(len(names))], names)
        axes.set_ylim(len(names) - height / 2, -height)
        axes.set_xlabel(prefix + unit)
        axes.spines[["top", "right"]].set_visible(False)
        figure.legend(frameon=False, loc="outside upper center", ncols=5)
        out = io.StringIO()
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None})
        plt.close(figure)
    return out.getvalue()


def picture(name, key):
    return f"{name}-{key.replace('/', '-per-')}.svg"


def files():
    """{path: SVG} of all plots."""
    return {f"docs/plots/{picture(name, key)}": plot(result, names)
            for name, result in results().items() for key, names in groups(result).items()}


def rate_text(row):
    if "rate" not in row:
        return "fails" if "error" in row else "–"
    return f"{row['rate']:,.3g}" if row["rate"] < 1000 else f"{row['rate']:,.0f}"


def table(result):
    libraries = list(result["results"])
    lines = ["| workload | " + " | ".join(libraries) + " | unit |", "| --- |" + " ---: |" * len(libraries) + " --- |"]
    for name, ours in result["results"]["ours"].items():
        cells = [rate_text(result["results"][library].get(name, {})) for library in libraries]
        lines.append(f"| {name} | " + " | ".join(cells) + f" | {ours.get('unit', '')} |")
    return "\n".join(lines)


def tables():
    """The Markdown of all results: where they were measured, the command, plots, the table."""
    parts = []
    for name, result in results().items():
        versions = ", ".join(f"{library} {version}" for library, version in result["versions"].items())
        parts += [f"## {result['machine']}, {result['date']}",
                  f"{result['threads']} threads; {versions}. Measured by `{result['command']}`.",
                  result.get("note", "")]
        parts += [f"![{key}](plots/{picture(name, key)})" for key in groups(result)]
        parts.append(table(result))
    return "\n\n".join(parts)
