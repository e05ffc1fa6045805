"""The table of architectures: what `general.architecture` of a GGUF file may be.

A row names the module whose functions build the graph, and what differs where a file has no key. A module has three
functions; x [C, N] is the residual stream (see Builder):

    embed(g) -> x           the embedding of the tokens
    layer(g, i, x) -> x     layer i
    head(g, x) -> x         what follows the last layer, without the output matrix
"""

from __future__ import annotations

from typing import Any, NamedTuple

import ggml

from . import bert, gemma, gpt2, llama


class Family(NamedTuple):
    """A row of the table."""

    module: Any
    rope: int | None = None  # GGML_ROPE_TYPE_*, or None without rotary positions
    rms: bool = True  # the norms are RMS norms
    causal: bool = True
    logits: bool = True  # the model has an output matrix: it predicts tokens
    window: int = 0  # default of attention.sliding_window
    window_pattern: int = 0  # every n-th layer attends globally; 0: no sliding windows
    rope_base_local: float = 0.0  # default base in layers with a sliding window; 0: as in the others
    attn_softcap: float = 0.0
    final_softcap: float = 0.0


NORMAL, NEOX = ggml.GGML_ROPE_TYPE_NORMAL, ggml.GGML_ROPE_TYPE_NEOX

FAMILIES = {
    "llama": Family(llama, NORMAL),  # also Mistral, SmolLM, Mixtral
    "qwen2": Family(llama, NEOX),
    "qwen3": Family(llama, NEOX),
    "gemma2": Family(gemma, NEOX, window=4096, window_pattern=2, attn_softcap=50.0, final_softcap=30.0),
    "gemma3": Family(gemma, NEOX, window_pattern=6, rope_base_local=10000.0),
    "gpt2": Family(gpt2, rms=False),
    "bert": Family(bert, rms=False, causal=False, logits=False),
    "nomic-bert": Family(bert, NEOX, rms=False, causal=False, logits=False),
}
