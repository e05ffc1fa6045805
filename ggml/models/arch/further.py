"""Layers that predict further tokens (arXiv:2412.19437, section 2.2), behind those of the model.

From the state of a token at the end of the model and the embedding of the token after it, such a layer predicts the one
after that, and gives a state from which the same layer can go on. It is a layer of its architecture with norms and a
matrix before it, and a norm and an output matrix behind it: its own, or those of the model. Only the first is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import ggml

from ..files.config import Config


def tensor_names(config: Config) -> tuple[str, str]:
    """The beginnings of the names of the layer's tensors, and of those beside it."""
    return f"blk.{config.n_layer}.", f"blk.{config.n_layer}.nextn."


def has_further(config: Config, weights: Mapping[str, Any]) -> bool:
    """Whether a file has such a layer. Some have only its key."""
    return config.n_further > 0 and tensor_names(config)[1] + "eh_proj.weight" in weights


def config_of_further(config: Config, number: int = 0) -> Config:
    """A config in which the layer of a number, from 0 on, is the last one; such layers attend to all tokens."""
    n = number + 1
    local, yes = (*config.local, *[False] * n), [True] * n
    return replace(
        config, n_layer=config.n_layer + n, local=local, attends=(*config.attends, *yes), feeds=(*config.feeds, *yes)
    )


def build_further(g: Any, module: Any, result: str) -> list[Any]:
    """Adds the nodes of the layer; g has the config of config_of_further.

    Returns:
        The logits [vocabulary, M] and the states [C, M] of the tokens whose result is needed; the latter alone, before
        the norm, for the result "none".
    """
    c, i = g.config, g.config.n_layer - 1
    name = f"blk.{i}.nextn."
    table = name + "embed_tokens" if g.has(name + "embed_tokens.weight") else "token_embd"
    x = g.with_pictures(g.embedding(g.inputs.ids, table, c.n_vocab))
    both = g.rms_norm(x, name + "enorm"), g.rms_norm(g.inputs.before, name + "hnorm")
    x = g.linear(ggml.ggml_concat(g.ctx, *both, 0), name + "eh_proj", c.n_embd)
    x = g.last(module.layer(g, i, x))
    if result == "none":
        return [x]
    x = g.rms_norm(x, name + "shared_head_norm" if g.has(name + "shared_head_norm.weight") else "output_norm")
    if g.has(name + "shared_head_head.weight"):
        return [g.softcap(g.linear(x, name + "shared_head_head", c.n_vocab), c.final_softcap), x]
    return [g.output(x), x]
