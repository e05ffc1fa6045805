"""Recurrent operations against results of the C library 0.15.3: tests/data/recurrent.npz holds the arguments and the
result of each call.
"""

import ctypes
from pathlib import Path

import numpy as np
import pytest
from cases.harness import ISAS, close, compute, context, graph_of, isa, load, tensor

import ggml

with np.load(Path(__file__).parents[1] / "data" / "recurrent.npz") as recorded:
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


def test_gradient_of_changed_operands():
    """The node of the gradient checks the operation's conditions on its operands again."""
    with context() as ctx:
        k, v, q, g = (tensor(ctx, np.ones((4, 2, 8)), "F32") for _ in range(4))
        state = tensor(ctx, np.ones((1, 2 * 8 * 8)), "F32")
        for t in (k, v, q, g, state):
            ggml.ggml_set_param(t)
        loss = ggml.ggml_sum(ctx, ggml.ggml_gated_linear_attn(ctx, k, v, q, g, state, 1.0))
        ggml.ggml_set_loss(loss)
        graph = ggml.ggml_new_graph_custom(ctx, 256, True)
        ggml.ggml_build_forward_expand(graph, loss)
        ggml.ggml_build_backward_expand(ctx, graph, None)
        ggml.ggml_graph_reset(graph)
        compute(ctx, graph, 1)
        nodes = [ggml.ggml_graph_node(graph, i) for i in range(ggml.ggml_graph_n_nodes(graph))]
        [at] = [i for i, t in enumerate(nodes) if ggml.ggml_op_name(t.contents.op) == b"RECURRENT_BACK"]
        alone = ggml.ggml_graph_view(graph, at, at + 1)
        compute(ctx, alone, 1)
        v.contents.ne[0] = 4
        with pytest.raises(ValueError, match=r"RECURRENT_BACK.*v is f32 \[4, 2, 4\].*shapes must be equal"):
            compute(ctx, alone, 1)


def test_results_whose_size_overflows():
    """Operands without tokens are empty whatever their other sizes are: a product of these must not wrap."""
    with context() as ctx:

        def new(*ne, kind=ggml.GGML_TYPE_F32):
            return ggml.ggml_new_tensor(ctx, kind, len(ne), (ctypes.c_int64 * len(ne))(*ne))

        n, seqs, slots = 989540, 8681, 2147418113  # n * seqs * slots is 2^64 + 4
        ids = new(seqs, kind=ggml.GGML_TYPE_I32)
        with pytest.raises((ValueError, MemoryError), match=r"^ggml_ssm_scan: "):
            ggml.ggml_ssm_scan(
                ctx,
                new(n),
                new(1, 1, 0, seqs),
                new(1, 0, seqs),
                new(1, 1),
                new(n, 1, 0, seqs),
                new(n, 1, 0, seqs),
                ids,
                slots,
            )
        empty = [new(3, 1, 0) for _ in range(4)]
        for t in empty:
            t.contents.ne[1] = 6148914691236517206  # 9 times that is 6 modulo 2^64
        with pytest.raises((ValueError, MemoryError), match=r"^ggml_gated_linear_attn: "):
            ggml.ggml_gated_linear_attn(ctx, *empty, new(6, 1), 1.0)
