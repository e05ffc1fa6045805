"""347 calls recorded from the C library (tests/data/ops.json, .npz), repeated on every ISA with 1 and 2 threads."""

import json
from pathlib import Path

import numpy as np
import pytest
from cases.harness import (
    DTYPES,
    ISAS,
    compute,
    context,
    elements,
    from_bf16,
    graph_of,
    isa,
    memory,
    shape,
    type_id,
    type_of,
)

import ggml

pytestmark = pytest.mark.core
DATA = Path(__file__).parents[1] / "data"
CASES = json.loads((DATA / "ops.json").read_text())["cases"]
PLAIN = {"F32", "I32", "I64"}


@pytest.fixture(scope="module")
def arrays():
    with np.load(DATA / "ops.npz") as z:
        return {name: z[name] for name in z.files}


def test_no_constructor_is_missing():
    assert {case["fn"] for case in CASES if not hasattr(ggml, case["fn"])} == set()


def values(raw, type):
    """Recorded or computed bytes as numbers; those of quantised types remain bytes."""
    raw = np.ascontiguousarray(raw).ravel()
    if type == "BF16":
        return from_bf16(raw.view(np.uint16)).astype(np.float64)
    return raw.view(DTYPES[type]).astype(np.float64) if type in DTYPES else raw.view(np.uint8).astype(np.float64)


def tolerance(case):
    """The limit of the normalised mean squared error. None: the values must be equal."""
    types = {t["type"] for t in case["tensors"].values()}
    if case["out_type"].startswith("I") and case["out_type"] in DTYPES:
        return None
    halves = types - PLAIN
    if "flash_attn" in case["fn"] or ("mul_mat" in case["fn"] and halves):
        return 5e-4
    if halves or case["out_type"] in ("F16", "BF16"):
        return 1e-5
    # The recorded geglu and geglu_quick used tables of half-precision values; exact functions differ by their rounding.
    return 1e-6 if case["fn"].startswith("ggml_geglu") and "erf" not in case["fn"] else 1e-7


def agree(got, want, case, note):
    limit = tolerance(case)
    if limit is None:
        np.testing.assert_array_equal(got, want, note)
        return
    if case["out_type"] not in DTYPES:  # bytes of blocks: ties may round either way
        assert np.mean(got != want) <= 0.02, f"{note}: {np.mean(got != want):.2%} of the bytes differ"
        return
    finite = np.isfinite(want)
    np.testing.assert_array_equal(got[~finite], want[~finite], note)
    error = np.sum((got[finite] - want[finite]) ** 2) / max(np.sum(want[finite] ** 2), 1e-30)
    assert error <= limit, f"{note}: normalised mean squared error {error:.2e}, allowed {limit:.0e}"


class Recorded:
    """A recorded call, built into a context."""

    def __init__(self, ctx, case, arrays):
        self.data = {name: arrays[facts["data"]] for name, facts in case["tensors"].items()}
        self.roots, operands = {}, {}
        for name, facts in case["tensors"].items():
            ne = [*facts["ne"], 1, 1, 1][:4]
            root = operands[name] = self.roots[name] = ggml.ggml_new_tensor_4d(ctx, type_id(facts["type"]), *ne)
            if "permute" in facts:
                operands[name] = ggml.ggml_permute(ctx, root, *facts["permute"])
            if facts.get("param"):
                ggml.ggml_set_param(root)
        args = [operands[a["t"]] if isinstance(a, dict) else a for a in case["args"]]
        out = getattr(ggml, case["fn"])(ctx, *args)
        self.params = [name for name, facts in case["tensors"].items() if facts.get("param")]
        if self.params:
            loss = ggml.ggml_sum(ctx, ggml.ggml_mul(ctx, out, operands["_w"]) if "_w" in operands else out)
            ggml.ggml_set_loss(loss)
            self.graph = ggml.ggml_new_graph_custom(ctx, 512, True)
            ggml.ggml_build_forward_expand(self.graph, loss)
            ggml.ggml_build_backward_expand(ctx, self.graph, None)
            self.results = [ggml.ggml_graph_get_grad(self.graph, self.roots[name]) for name in self.params]
        else:
            if not ggml.ggml_is_contiguous(out):
                out = ggml.ggml_cont(ctx, out)
            self.graph, self.results = graph_of(ctx, out), [out]
            assert type_of(out) == case["out_type"] and list(shape(out)) == case["out_ne"]

    def reset(self):
        for name, data in self.data.items():
            memory(self.roots[name])[:] = np.ascontiguousarray(data).ravel().view(np.uint8)
        if self.params:
            ggml.ggml_graph_reset(self.graph)

    def result(self, type):
        if self.params:
            return np.concatenate([elements(g).astype(np.float64).ravel() for g in self.results])
        return values(memory(self.results[0]).copy(), type)


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in CASES])
def test_recorded_call(case, arrays):
    want = values(arrays[case["out"]], case["out_type"])
    with context() as ctx:
        call = Recorded(ctx, case, arrays)
        for name in ISAS:
            with isa(name):
                for threads in (1, 2):
                    call.reset()
                    compute(ctx, call.graph, threads)
                    agree(call.result(case["out_type"]), want, case, f"{name}, {threads} threads")
