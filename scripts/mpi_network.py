"""Measures what collectives send over a network interface, and how long a training step takes. scripts/mpi.sh calls it.

Each of two ranks has one end of a link. The bytes that the kernel counted at rank 0's end are compared with the
formulas of docs/distributed.md; they may differ by 5 %, for headers and acknowledgements.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np

import ggml
from ggml.distributed import Communicator, mpi
from ggml.distributed._transport import Alone
from ggml.training import Session, adamw
from ggml.utils import from_numpy

TOLERANCE = 0.05
COUNTER = Path("/sys/class/net/veth0/statistics/tx_bytes")


def counted():
    """Bytes that left this end of the link. The file system of the first network namespace may hide its file."""
    for line in Path("/proc/self/net/dev").read_text().splitlines():
        if line.strip().startswith("veth0:"):
            return int(line.split(":")[1].split()[8])
    return int(COUNTER.read_text())


def formulas(n, size):
    """Bytes that each rank sends, of a tensor of n bytes on each rank (all_gather: the result has size n)."""
    part = n * (size - 1) // size
    return {
        "all_reduce": 2 * part,
        "reduce_scatter": part,
        "all_gather": part,
        "all_to_all": part,
        "broadcast": n,
    }


def traffic(comm, n, repeats=3):
    """The bytes that rank 0 sent for each collective, and those of the formula."""
    found = {}
    for name, wanted in formulas(n, comm.size).items():
        ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=0))
        length = n // 4 // (comm.size if name == "all_gather" else 1)
        y = getattr(comm, name)(ctx, from_numpy(np.ones(length, np.float32), ctx))
        graph = ggml.ggml_new_graph(ctx)
        ggml.ggml_build_forward_expand(graph, y)
        ggml.ggml_graph_compute_with_ctx(ctx, graph, 1)  # connections are made at the first message
        comm.barrier()
        before, begin = counted(), time.perf_counter()
        for _ in range(repeats):
            ggml.ggml_graph_compute_with_ctx(ctx, graph, 1)
        comm.barrier()
        seconds = (time.perf_counter() - begin) / repeats
        found[name] = {"formula": wanted, "counted": (counted() - before) / repeats, "seconds": seconds}
        ggml.ggml_free(ctx)
    return found


def step_time(comm, width, batch=64, steps=6):
    """Seconds of a training step of a network with three matrices [width, width], and the bytes of its gradients."""
    rng = np.random.default_rng(0)
    with Session(comm=comm, threads=1) as session:
        layers = [session.parameter(f"w{i}", rng.standard_normal((width, width)) / width**0.5) for i in range(3)]

        def forward(ctx, x):
            for w in layers:
                x = ggml.ggml_relu(ctx, ggml.ggml_mul_mat(ctx, w, x))
            return x

        loss = ggml.GGML_OPT_LOSS_TYPE_MEAN_SQUARED_ERROR
        session.start(forward, width, batch, loss, adamw(1e-4))
        x = rng.standard_normal((batch * comm.size * steps, width), dtype=np.float32)
        session.epoch(x[: batch * comm.size], x[: batch * comm.size])
        begin = time.perf_counter()
        session.epoch(x, x)
        return (time.perf_counter() - begin) / steps, 3 * 4 * width * width


def measure(rate, out):
    comm = mpi(timeout=120)
    result = {"rate": rate, "traffic": traffic(comm, 16 << 20)}
    result["step"], result["gradients"] = step_time(comm, 1024)
    result["alone"] = step_time(Communicator(Alone(), "rank"), 1024)[0]
    comm.barrier()
    if comm.rank:
        return
    Path(out).write_text(json.dumps(result, indent=1))
    wrong = False
    for name, row in result["traffic"].items():
        ratio = row["counted"] / row["formula"]
        wrong |= abs(ratio - 1) > TOLERANCE
        speed, milliseconds = row["formula"] * 8e-6 / row["seconds"], row["seconds"] * 1e3
        print(f"{rate:5d} Mbit/s {name:15} counted / formula {ratio:.3f}, {milliseconds:6.0f} ms, {speed:5.0f} Mbit/s")
    print(f"{rate:5d} Mbit/s step {result['step'] * 1e3:.0f} ms, of one rank {result['alone'] * 1e3:.0f} ms")
    if wrong:
        sys.exit(f"the bytes of a collective differ from the formula by more than {TOLERANCE:.0%}")


def plot(target, paths):
    """Step time against bandwidth: measured, and compute time + gradient bytes / bandwidth."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = sorted((json.loads(Path(path).read_text()) for path in paths), key=lambda row: row["rate"])
    rates = [row["rate"] for row in rows]
    grid = np.geomspace(rates[0], rates[-1], 100)
    alone = np.median([row["alone"] for row in rows])
    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    axes.plot(rates, [row["step"] for row in rows], "o", label="measured, 2 ranks")
    travel = rows[0]["gradients"] / (grid * 125e3)  # 2 (N - 1) / N is 1 for two ranks
    axes.plot(grid, alone + travel, label="compute + bytes / bandwidth")
    axes.plot(grid, np.maximum(alone, travel), ":", label="max of both (perfect overlap)")
    axes.axhline(alone, color="gray", linewidth=0.8, label="one rank")
    axes.set(xscale="log", yscale="log", xlabel="bandwidth, Mbit/s", ylabel="seconds per step",
             title=f"Training step, {rows[0]['gradients'] / 2**20:.0f} MiB of gradients")  # fmt: skip
    axes.legend()
    figure.savefig(target, dpi=100)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", type=int, help="Mbit/s of the link, for the report")
    parser.add_argument("--out", help="JSON file to write")
    parser.add_argument("--plot", nargs="+", metavar=("PNG", "JSON"), help="draws measurements instead")
    options = parser.parse_args()
    if options.plot:
        plot(options.plot[0], options.plot[1:])
    else:
        measure(options.rate, options.out)


if __name__ == "__main__":
    main()
