"""Recurrent operations against results of the C library 0.15.3 (tests/data/recurrent.npz: each call's arguments and result)."""

from pathlib import Path

import numpy as np
import pytest
from cases.harness import ISAS, close, compute, context, graph_of, isa, load, tensor

import ggml

with np.load(Path(__file__).parent / "data" / "recurrent.npz") as recorded:
    ARRAYS = dict(recorded)
CASES = sorted(name[: -len("/out")] for name in ARRAYS if name.endswith("/out"))


@pytest.mark.parametrize("case", CASES)
def test_like_the_c_library(case):
    fn = getattr(ggml, "ggml_" + case.rstrip("_12"))
    values = [ARRAYS[f"{case}/{i}"] for i in range(sum(name.startswith(case + "/") for name in ARRAYS) - 1)]
    with context() as ctx:
        types = {"f": "F32", "i": "I32"}
        out = fn(ctx, *(tensor(ctx, x, types[x.dtype.kind]) if x.ndim else int(x) for x in values))
        graph = graph_of(ctx, out)
        for name in ISAS:
            with isa(name):
                compute(ctx, graph, 2)
                close(load(out).ravel(), ARRAYS[case + "/out"].astype(np.float64), 2e-5, name)
