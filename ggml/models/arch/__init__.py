"""The table of architectures: what `general.architecture` of a GGUF file may be.

A row names the module whose functions build the graph, and what differs where a file has no key. A module has three
functions; g is a Builder and x [C, N] the residual stream:

    embed(g) -> x           the embedding of the tokens
    layer(g, i, x) -> x     layer i
    head(g, x) -> x         what follows the last layer, without the output matrix

and, where the file has keys of its own for the architecture, a fourth:

    keys(k) -> dict         values read with k, a Keys: of fields of Config, which they replace, or for `Config.own`

and, where layers keep something else of the tokens before than keys and values, a fifth:

    caches(c) -> list       for each layer of a model with Config c what it keeps, see keeps.py

and, where the embedding of a text depends on the first of its tokens alone, a sixth:

    text(c, ids) -> list    those of them
"""

from __future__ import annotations

from typing import Any, NamedTuple

import ggml

from ..files.config import Config
from . import (
    bert,
    bitnet,
    clip,
    deepseek2,
    dense_first,
    falcon_h1,
    gemma,
    gemma3n,
    gemma4,
    glm4,
    gpt2,
    gpt_oss,
    granite,
    granite_hybrid,
    hunyuan,
    jina_bert,
    keeps,
    lfm2,
    llama,
    llama4,
    mamba,
    minicpm3,
    mistral3,
    modern_bert,
    nemotron_h,
    olmo2,
    parallel,
    phi3,
    phimoe,
    qwen_moe,
    qwen_next,
    qwen_vl,
    rwkv6,
    rwkv7,
    smollm3,
    t5,
)


class Family(NamedTuple):
    """A row of the table: an architecture.

    Attributes:
        module: module, or another object, with the functions embed, layer and head, and perhaps keys and caches.
        rope: GGML_ROPE_TYPE_*, or None without rotary positions.
        rms: whether the norms are RMS norms: the file's epsilon is that of RMS norms, else that of layer norms.
        causal: whether tokens see only those before them, where the file does not say.
        logits: whether the model predicts tokens; else it gives embeddings only.
        window: default of attention.sliding_window.
        window_pattern: every n-th layer attends to everything; 0 if no layer has a sliding window.
        rope_base_local: default of rope.freq_base_swa; 0 if layers with a sliding window rotate like the others.
        scaled_local: False if layers with a sliding window have positions without scaling, as with rope_base_local.
        attention: False if no layer has attention or a feed-forward part.
        linked: True if layers read what earlier ones computed beside x.
        attn_softcap, final_softcap: defaults of attn_logit_softcapping and final_logit_softcapping; 0 for none.
    """

    module: Any
    rope: int | None = None
    rms: bool = True
    causal: bool = True
    logits: bool = True
    window: int = 0
    window_pattern: int = 0
    rope_base_local: float = 0.0
    scaled_local: bool = True
    attn_softcap: float = 0.0
    final_softcap: float = 0.0
    attention: bool = True
    linked: bool = False


NORMAL, NEOX = ggml.GGML_ROPE_TYPE_NORMAL, ggml.GGML_ROPE_TYPE_NEOX

FAMILIES = {
    "llama": Family(llama, NORMAL),  # also Mistral, SmolLM, Mixtral
    "qwen2": Family(llama, NEOX),
    "qwen3": Family(llama, NEOX),
    "qwen2moe": Family(qwen_moe, NEOX),
    "qwen3moe": Family(qwen_moe, NEOX),
    "qwen2vl": Family(qwen_vl.DENSE, ggml.GGML_ROPE_TYPE_MROPE),  # also Qwen 2.5
    "qwen3vl": Family(qwen_vl.DENSE, ggml.GGML_ROPE_TYPE_IMROPE),
    "qwen3vlmoe": Family(qwen_vl.EXPERTS, ggml.GGML_ROPE_TYPE_IMROPE),
    "ernie4_5": Family(llama, NORMAL),
    "ernie4_5-moe": Family(dense_first, NORMAL),
    "deepseek2": Family(deepseek2, NORMAL),  # V2, V3, R1
    "minicpm3": Family(minicpm3, NEOX),
    "glm4moe": Family(dense_first, NEOX),
    "gpt-oss": Family(gpt_oss, NEOX, window_pattern=2),
    "smollm3": Family(smollm3, NORMAL),
    "llama4": Family(llama4, NORMAL),
    "mistral3": Family(mistral3, NORMAL),
    "hunyuan-dense": Family(hunyuan, NEOX),
    "granite": Family(granite, NORMAL),
    "granitemoe": Family(granite, NORMAL),
    "minicpm": Family(granite, NORMAL),
    "phimoe": Family(phimoe, NEOX),
    "phi3": Family(phi3, NEOX, window_pattern=1),
    "bitnet": Family(bitnet, NEOX),
    "glm4": Family(glm4, NORMAL),
    "olmo2": Family(olmo2, NEOX, window_pattern=4, scaled_local=False),  # also OLMo 3
    "exaone4": Family(olmo2, NEOX, window_pattern=4),
    "qwen3next": Family(qwen_next, NEOX),
    "qwen35": Family(qwen_vl.WITH_STATES, ggml.GGML_ROPE_TYPE_IMROPE),
    "qwen35moe": Family(qwen_vl.WITH_STATES, ggml.GGML_ROPE_TYPE_IMROPE),
    "mamba": Family(mamba, attention=False),
    "mamba2": Family(mamba, attention=False),
    "granitehybrid": Family(granite_hybrid, NORMAL),
    "falcon-h1": Family(falcon_h1, NEOX),
    "nemotron_h": Family(nemotron_h),
    "nemotron_h_moe": Family(nemotron_h),
    "rwkv6": Family(rwkv6, rms=False, attention=False),
    "rwkv7": Family(rwkv7, rms=False, attention=False, linked=True),
    "lfm2": Family(lfm2, NEOX),
    "lfm2moe": Family(lfm2, NEOX),
    "phi2": Family(parallel, NEOX, rms=False),
    "gptneox": Family(parallel, NEOX, rms=False),
    "stablelm": Family(parallel, NEOX, rms=False),
    "starcoder2": Family(parallel, NEOX, rms=False),
    "falcon": Family(parallel, NEOX, rms=False),
    "nemotron": Family(parallel, NEOX, rms=False),
    "command-r": Family(parallel, NORMAL, rms=False),
    "cohere2": Family(parallel, NORMAL, rms=False, window_pattern=4),
    "gemma": Family(gemma, NEOX),
    "gemma2": Family(gemma, NEOX, window=4096, window_pattern=2, attn_softcap=50.0, final_softcap=30.0),
    "gemma3": Family(gemma, NEOX, window_pattern=6, rope_base_local=10000.0),
    "gemma-embedding": Family(gemma, NEOX, causal=False, logits=False, window_pattern=6, rope_base_local=10000.0),
    "gemma3n": Family(gemma3n, NEOX, window_pattern=5, rope_base_local=10000.0, final_softcap=30.0),
    "gemma4": Family(gemma4, NEOX, window_pattern=6, rope_base_local=10000.0),
    "gpt2": Family(gpt2, rms=False),
    "clip": Family(clip, rms=False, logits=False),  # the encoder of texts; also SigLIP
    "bert": Family(bert, rms=False, causal=False, logits=False),
    "nomic-bert": Family(bert, NEOX, rms=False, causal=False, logits=False),
    "nomic-bert-moe": Family(bert, NEOX, rms=False, causal=False, logits=False),
    "jina-bert-v2": Family(jina_bert, rms=False, causal=False, logits=False),
    "jina-bert-v3": Family(bert, NEOX, rms=False, causal=False, logits=False),
    "t5": Family(t5, causal=False, logits=False),
    "t5encoder": Family(t5, causal=False, logits=False),
    "modern-bert": Family(
        modern_bert, NEOX, rms=False, causal=False, logits=False, window_pattern=3, rope_base_local=10000.0
    ),  # fmt: skip
}


def register(name: str, family: Family) -> None:
    """Adds an architecture, so that `load` opens files of it.

    Args:
        name: value of general.architecture; one that is known already is replaced.
        family: its functions and settings.
    Raises:
        TypeError: name is not a string, family is not a Family, or its module lacks a function.
    """
    if not isinstance(name, str) or not isinstance(family, Family):
        raise TypeError(f"register: got {name!r} and {type(family).__name__}: need a string and a Family")
    for function in ("embed", "layer", "head"):
        if not callable(getattr(family.module, function, None)):
            raise TypeError(f"register: the module of architecture {name!r} has no function {function!r}")
    FAMILIES[name] = family


def text_of(config: Config, ids: list[int]) -> list[int]:
    """The tokens of a text that its embedding depends on."""
    module = FAMILIES[config.arch].module
    return list(module.text(config, ids)) if hasattr(module, "text") else ids


def caches_of(config: Config) -> list[Any]:
    """What the layers of a model keep of the tokens before; one for each layer."""
    module = FAMILIES[config.arch].module
    found = list(module.caches(config)) if hasattr(module, "caches") else list(keeps.usual(config))
    if len(found) != config.n_layer:
        raise ValueError(f"load: architecture {config.arch!r} says what {len(found)} of {config.n_layer} layers keep")
    return found
