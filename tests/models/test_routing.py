"""Mixtures of experts with routings of their own, and keys that an architecture reads itself."""

import numpy as np
import pytest

import ggml
from ggml.utils import to_numpy

for library in ("jinja2", "tokenizers"):  # of the extra [test]; not installed on emulated CPUs
    pytest.importorskip(library)

from ggml.models import Builder, Family, Routing  # noqa: E402
from ggml.models.arch import llama  # noqa: E402
from ggml.models.arch.base import Inputs  # noqa: E402
from ggml.models.files.config import Config, Keys, read_config  # noqa: E402

EXPERTS, USED, WIDTH, TOKENS = 12, 3, 8, 7
KEYS = {"x.block_count": 1, "x.embedding_length": WIDTH, "x.attention.head_count": 1, "x.context_length": 16,
        "x.attention.layer_norm_rms_epsilon": 1e-5, "x.expert_count": EXPERTS, "x.expert_used_count": USED,
        "x.expert_weights_scale": 2.5, "x.special": 3}  # fmt: skip


class WithKeys:
    """The functions of LLaMA, and a key of its own."""

    embed, layer, head = llama.embed, llama.layer, llama.head

    @staticmethod
    def keys(k: Keys):
        return {"special": k.integer("special"), "attn_softcap": 7.0}


def config(module=WithKeys) -> Config:
    return read_config(KEYS, "x", 32, "file", Family(module))


def expected(logits, bias, routing):
    """The chosen experts of a token with their weights, one step after the other."""

    def score(x):
        return 1 / (1 + np.exp(-x)) if routing.score == "sigmoid" else np.exp(x) / np.exp(x).sum()

    scores = logits if routing.late else score(logits)
    choice = scores + bias if routing.bias else scores.copy()
    if routing.groups:
        groups = np.sort(choice.reshape(routing.groups, -1), 1)[:, -2:].sum(1)
        for group in np.argsort(-groups)[routing.groups_used :]:
            choice.reshape(routing.groups, -1)[group] = -np.inf
    chosen = np.argsort(-choice)[:USED]
    weights = score(scores[chosen]) if routing.late else scores[chosen]
    if routing.normalized:
        weights = weights / weights.sum()
    return chosen, 2.5 * weights


@pytest.mark.parametrize("routing", [
    Routing(), Routing("sigmoid"), Routing(late=True), Routing(normalized=False), Routing("sigmoid", bias="choice"),
    Routing("sigmoid", bias="choice", groups=4, groups_used=2), Routing(groups=3, groups_used=1, normalized=False),
    Routing(groups=12, groups_used=4), Routing("sigmoid", late=True),
], ids=str)  # fmt: skip
def test_routing(routing):
    rng = np.random.default_rng(0)
    ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=4 << 20))
    try:
        arrays = {"ffn_gate_inp.weight": (EXPERTS, WIDTH), "choice": (EXPERTS,), "x": (TOKENS, WIDTH)}
        arrays = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in arrays.items()}
        tensors = {}
        for name, values in arrays.items():
            tensors[name] = ggml.ggml_new_tensor(ctx, ggml.GGML_TYPE_F32, values.ndim, list(values.shape[::-1]))
            to_numpy(tensors[name])[...] = values
        ids = ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_I32, TOKENS)
        g = Builder(ctx, config(), tensors, Inputs(ids, ids, {False: None, True: None}, 1))
        results = g.routed(tensors["x"], "ffn", routing)
        graph = ggml.ggml_new_graph(ctx)
        for tensor in results:
            ggml.ggml_build_forward_expand(graph, tensor)
        assert ggml.ggml_graph_compute_with_ctx(ctx, graph, 1) == 0
        chosen = to_numpy(results[0]).copy()
        weights = to_numpy(results[1]).reshape(TOKENS, USED).copy()
    finally:
        ggml.ggml_free(ctx)
    logits = arrays["x"].astype(float) @ arrays["ffn_gate_inp.weight"].T
    for row, found, shares in zip(logits, chosen, weights, strict=True):
        experts, want = expected(row, arrays["choice"], routing)
        assert dict(zip(found.tolist(), shares)) == pytest.approx(dict(zip(experts.tolist(), want)), rel=1e-4)


def test_an_architecture_reads_its_own_keys():
    own = config()
    assert own.own == {"special": 3} and own.attn_softcap == 7.0
    assert config(llama).own == {} and config(llama).attn_softcap == 0
    with pytest.raises(ValueError, match=r"key 'x\.special' is 0: need an integer from 1"):
        read_config({**KEYS, "x.special": 0}, "x", 32, "file", Family(WithKeys))
