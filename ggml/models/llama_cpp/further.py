"""Further functions of llama.h: chat templates, names of files in parts, names of values, figures.

UNSUPPORTED has those that raise NotImplementedError, with the reasons.
"""

from __future__ import annotations

import ctypes
import os
import platform
from collections.abc import Callable
from typing import Any

import ggml

from ..chat.renderer import Renderer
from ..model import Model
from .constants import GROUPS
from .contexts import (
    Context,
    characters,
    context_of,
    llama_model_load_from_file,
    llama_token_p,
    model_of,
    path_of,
    write_items,
    write_text,
)

LOAD_MODES = {-1: b"auto", 0: b"none", 1: b"mmap", 2: b"mlock", 3: b"mmap+mlock", 4: b"dio"}
FLASH_ATTENTION = {-1: b"auto", 0: b"disabled", 1: b"enabled"}
SPLIT = "{}-{:05d}-of-{:05d}.gguf"  # the name of a part of a file
TEMPLATES = ("chatml",)  # that have a name here
UNSUPPORTED = {
    "llama_memory_seq_add": "positions of what is kept cannot be shifted",
    "llama_memory_seq_div": "positions of what is kept cannot be divided",
    "llama_set_adapter_cvec": "there are no control vectors: ggml.models.Model.edit changes the values of a layer",
    "llama_apply_adapter_cvec": "there are no control vectors: ggml.models.Model.edit changes the values of a layer",
    "llama_set_causal_attn": "the file says whether tokens see those after them",
    "llama_model_quantize": "the command `ggml quantize` and ggml.models.convert do it",
    "llama_model_save_to_file": "the command `ggml quantize` and ggml.models.convert write files",
    "llama_model_init_from_user": "models are made of files",
    "llama_model_load_from_file_ptr": "a FILE of C cannot be read: llama_model_load_from_file takes a path",
    "llama_adapter_lora_init_from_file_ptr": "a FILE of C cannot be read: llama_adapter_lora_init takes a path",
    "llama_adapter_get_alora_invocation_tokens": "adapters with tokens of their own are not known",
    "llama_opt_init": "ggml.models.Model.finetune trains adapters",
    "llama_opt_epoch": "ggml.models.Model.finetune trains adapters",
    "llama_opt_param_filter_all": "ggml.models.Model.finetune trains adapters",
    "llama_process": "llama_decode and llama_encode take batches",
    **{f"llama_batch_ext_{name}": "llama_batch_init makes batches" for name in
       ("init free clear add add_token add_embd add_seq set_embd_token set_embd_state set_output_embd"
        " set_output_logits set_pos").split()},
}  # fmt: skip
# Functions for samplers inside of graphs, which there are none of, and what they return.
WITHOUT_GRAPH_SAMPLERS = {
    "llama_set_sampler": False, "llama_get_sampled_token_ith": -1, "llama_get_sampled_probs_ith": None,
    "llama_get_sampled_probs_count_ith": 0, "llama_get_sampled_logits_ith": None,
    "llama_get_sampled_logits_count_ith": 0, "llama_get_sampled_candidates_ith": None,
    "llama_get_sampled_candidates_count_ith": 0,
}  # fmt: skip


class llama_chat_message(ctypes.Structure):  # noqa: N801 - the names of llama.h
    """A message of a conversation."""

    _fields_ = [("role", ctypes.c_char_p), ("content", ctypes.c_char_p)]


class llama_perf_context_data(ctypes.Structure):  # noqa: N801
    """Figures of a context; there are none here."""

    _fields_ = [
        *((name, ctypes.c_double) for name in ("t_start_ms", "t_load_ms", "t_p_eval_ms", "t_eval_ms")),
        *((name, ctypes.c_int32) for name in ("n_p_eval", "n_eval", "n_reused")),
    ]


ggml_abort_callback = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p)
ggml_backend_sched_eval_callback = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, ctypes.c_bool, ctypes.c_void_p)


# ---- chat templates --------------------------------------------------------------------------------------------------
def llama_chat_apply_template(tmpl: bytes | None, chat: Any, n_msg: int, add_ass: bool, buf: Any, length: int) -> int:
    """Writes a conversation as text, as much of it as there is room for.

    Args:
        tmpl: a template in Jinja, as llama_model_chat_template returns it; or "chatml", as does None.
        chat: array of llama_chat_message.
        n_msg: their number.
        add_ass: whether the text ends with the beginning of an answer.
        buf: where it is written, or None.
        length: its size.
    Returns:
        The length of the whole text; -1 for the name of a template that is not known.
    Raises:
        ValueError: the template cannot be parsed, or refuses the messages.
    """
    caller = "llama_chat_apply_template"
    if n_msg < 0 or isinstance(chat, ctypes.Array) and n_msg > len(chat):
        raise ValueError(f"{caller}: {n_msg} messages: the array has fewer")
    messages = [{"role": (chat[i].role or b"").decode(errors="replace"),
                 "content": (chat[i].content or b"").decode(errors="replace")} for i in range(n_msg)]  # fmt: skip
    template = (tmpl or b"chatml").decode(errors="replace")
    if template in TEMPLATES:
        text = "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in messages)
        text += "<|im_start|>assistant\n" if add_ass else ""
    elif "{" not in template:
        return -1
    else:
        given = {"messages": messages, "add_generation_prompt": bool(add_ass), "bos_token": "", "eos_token": ""}
        text = Renderer(template).render(given)
    data = text.encode()
    if buf is not None and length > 0:
        write_items(caller, buf, length, data[:length], characters)
    return len(data)


def llama_chat_builtin_templates(output: Any, len: int) -> int:  # noqa: A002 - llama.h's name
    """Writes the names of templates into an array of strings; returns their number."""
    for i, name in enumerate(TEMPLATES[: max(0, len)] if output is not None else ()):
        output[i] = name.encode()
    return sum(1 for _ in TEMPLATES)


# ---- files in parts --------------------------------------------------------------------------------------------------
def llama_split_path(split_path: Any, maxlen: int, path_prefix: bytes, split_no: int, split_count: int) -> int:
    """Writes the name of part `split_no`, from 0, of a file; returns its length, 0 if there is no room."""
    name = SPLIT.format(os.fsdecode(path_prefix), split_no + 1, split_count).encode()
    return write_text("llama_split_path", split_path, maxlen, name) if len(name) < maxlen else 0


def llama_split_prefix(split_prefix: Any, maxlen: int, split_path: bytes, split_no: int, split_count: int) -> int:
    """Writes what comes before the number of a part in the name of a file; returns its length, 0 if it is another."""
    name, end = os.fsdecode(split_path), SPLIT.format("", split_no + 1, split_count)
    prefix = name.removesuffix(end).encode()
    if not name.endswith(end) or not prefix or len(prefix) >= maxlen:
        return 0
    return write_text("llama_split_prefix", split_prefix, maxlen, prefix)


def llama_model_load_from_splits(paths: Any, n_paths: int, params: Any = None) -> Model:
    """Opens a file in parts, by the names that llama_split_path gives; the first is enough."""
    if n_paths < 1:
        raise ValueError(f"llama_model_load_from_splits: {n_paths} paths: need at least one")
    some = [path_of(paths[i]) for i in range(n_paths)]
    stem = some[0].removesuffix(SPLIT.format("", 1, n_paths))
    if some != [SPLIT.format(stem, i + 1, n_paths) for i in range(n_paths)] and n_paths > 1:
        raise ValueError(f"llama_model_load_from_splits: {some[0]}, ...: need names that llama_split_path gives")
    return llama_model_load_from_file(some[0].encode(), params)


# ---- names of values, figures ----------------------------------------------------------------------------------------
def llama_flash_attn_type_name(flash_attn_type: int) -> bytes | None:
    """The name of a value of LLAMA_FLASH_ATTN_TYPE."""
    return FLASH_ATTENTION.get(flash_attn_type)


def llama_load_mode_name(load_mode: int) -> bytes | None:
    """The name of a value of LLAMA_LOAD_MODE."""
    return LOAD_MODES.get(load_mode)


def llama_load_mode_from_str(str: bytes) -> int:  # noqa: A002 - llama.h's name
    """The value of LLAMA_LOAD_MODE of a name."""
    found = [mode for mode, name in LOAD_MODES.items() if name == str]
    if not found:
        raise ValueError(f"llama_load_mode_from_str: {str!r}: need one of {b', '.join(LOAD_MODES.values()).decode()}")
    return found[0]


def llama_model_meta_key_str(key: int) -> bytes | None:
    """The name of a key of a file for a value of LLAMA_MODEL_META_KEY."""
    names = (item.split("=")[0] for item in GROUPS["MODEL_META_KEY_SAMPLING_"].split())
    return dict(enumerate(f"general.sampling.{name.lower()}".encode() for name in names)).get(key)


def llama_model_cls_label(model: Model, i: int) -> bytes | None:
    """The name of a class of a model that classifies texts; None if there is none."""
    labels = model_of(model, "llama_model_cls_label").labels
    return labels[i].encode() if 0 <= i < len(labels) else None


def llama_vocab_get_suppress_tokens(vocab: Any, n_tokens: Any = None) -> Any:
    """Always NULL: the file has no tokens that never come."""
    model_of(vocab, "llama_vocab_get_suppress_tokens")
    return llama_token_p()


def llama_perf_context(ctx: Context) -> llama_perf_context_data:
    """Always zeros."""
    context_of(ctx, "llama_perf_context")
    return llama_perf_context_data()


def llama_perf_sampler_print(chain: Any) -> None:
    """Prints nothing."""


def llama_set_abort_callback(ctx: Context, abort_callback: Any, abort_callback_data: Any) -> None:
    """Of no effect: Ctrl-C ends a call."""
    context_of(ctx, "llama_set_abort_callback")


def llama_print_system_info() -> bytes:
    """The processor, and the instruction sets that are in use."""
    names = [name.removeprefix("ggml_cpu_has_") for name in dir(ggml) if name.startswith("ggml_cpu_has_")]
    has = [name.upper() for name in names if getattr(ggml, f"ggml_cpu_has_{name}")()]
    return f"CPU : {platform.machine()} | {' | '.join(f'{name} = 1' for name in has)} | ".encode()


def llama_version() -> bytes:
    """The version of this package."""
    return ggml.__version__.encode()


def _refusal(name: str, reason: str) -> Callable[..., Any]:
    def function(*args: Any) -> Any:
        raise NotImplementedError(f"{name}: not supported: {reason}")

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Raises NotImplementedError: {reason}."
    return function


def _constant(name: str, value: Any) -> Callable[..., Any]:
    def function(ctx: Context, *args: Any) -> Any:
        context_of(ctx, name)
        return value

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Always {value}."
    return function


globals().update({name: _refusal(name, reason) for name, reason in UNSUPPORTED.items()})
globals().update({name: _constant(name, value) for name, value in WITHOUT_GRAPH_SAMPLERS.items()})
