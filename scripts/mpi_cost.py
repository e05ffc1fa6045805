"""Draws the model of cost of docs/distributed.md: a data-parallel training step on 1 to 1,024 ranks.

Usage: python scripts/mpi_cost.py docs/distributed_cost.png
"""

import sys
from math import ceil, log2

import numpy as np

PARAMETERS = 135e6  # all of them f32 and trained
TOKENS = (1024, 16384)  # of a step on each rank
NETWORKS = {"1 Gbit/s, 50 us": (0.125e9, 50e-6), "25 Gbit/s, 10 us": (3.1e9, 10e-6), "200 Gbit/s, 2 us": (25e9, 2e-6)}
SPEED = 1e12  # FLOP/s of a rank
OVERLAP = 0.5  # share of the compute time during which gradients can travel: the backward pass, less its beginning


def step(ranks: int, tokens: int, bandwidth: float, latency: float) -> tuple[float, float]:
    """Seconds that a rank computes, and that it waits for gradients."""
    compute = 6 * PARAMETERS * tokens / SPEED
    if ranks == 1:
        return compute, 0.0
    sent = 2 * (ranks - 1) / ranks * 4 * PARAMETERS
    buckets = ceil(4 * PARAMETERS / (4 << 20))
    messages = buckets * (ceil(log2(ranks)) + 2 * (ranks - 1))  # the comparison, N - 1 parts out, N - 1 parts back
    return compute, max(0.0, sent / bandwidth + messages * latency - OVERLAP * compute)


def main() -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, plots = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
    ranks = [2**k for k in range(11)]
    for axes, tokens in zip(plots, TOKENS, strict=True):
        title = f"{tokens:,} tokens per rank and step"
        for name, (bandwidth, latency) in NETWORKS.items():
            times = np.array([step(n, tokens, bandwidth, latency) for n in ranks])
            axes.plot(ranks, times[:, 0] / times.sum(1), "o-", markersize=3, label=name)
            print(title, name, " ".join(f"{n}: {c / (c + w):.2f}" for n, (c, w) in zip(ranks, times, strict=True)))
        axes.set(xscale="log", xlabel="ranks", title=title, ylim=(0, 1.05), xticks=ranks[::2], xticklabels=ranks[::2])
        axes.minorticks_off()
    plots[0].set_ylabel("compute time / step time")
    plots[0].legend()
    figure.savefig(sys.argv[1], dpi=100)


if __name__ == "__main__":
    main()
