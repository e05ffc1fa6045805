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


def test_index_out_of_range():
    """Of a state, of a matrix and of a row: the compute fails and names the index."""
    zeros = np.zeros
    with context() as ctx:
        ids = tensor(ctx, np.array([[0, 3]], np.int32), "I32")
        matrices, rows = (tensor(ctx, zeros(shape), "F32") for shape in ((3, 4, 5), (1, 2, 5)))
        states = [tensor(ctx, zeros(s), "F32") for s in ((3, 2, 4, 8), (2, 1, 2, 4), (2, 1, 2), (2, 1), (2, 1, 1, 8))]
        calls = {
            "ids[1, 0] is 3: there are 3 matrices": ggml.ggml_mul_mat_id(ctx, matrices, rows, ids),
            "index [1, 0] is 3: b has 3 rows": ggml.ggml_add_id(ctx, rows, tensor(ctx, zeros((3, 5)), "F32"), ids),
            "ids[1] is out of range: there are 3 states": ggml.ggml_ssm_scan(ctx, *states, states[-1], ggml.ggml_reshape_1d(ctx, ids, 2)),
        }
        for message, out in calls.items():
            for threads in (1, 2):
                with pytest.raises(RuntimeError) as caught:
                    compute(ctx, graph_of(ctx, out), threads)
                assert message in str(caught.value)
