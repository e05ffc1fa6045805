"""What the file of a folder will have: its keys, and its tensors, which are checked before any is read."""

from __future__ import annotations

import fnmatch
import math
import os
import re
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

import ggml

from ..._errors import bare as bare_message
from ..._io.tensor_types import UNCHANGED
from ..._owners import Held
from ..arch import FAMILIES, caches_of, heads
from ..arch.base import Builder, Inputs
from ..arch.further import build_further, config_of_further
from ..arch.keeps import Shared
from ..files.config import read_config
from . import fp8
from .checkpoint import SINGLE, TYPES, Checkpoint
from .classes import reranker
from .fields import Fields, optional_json
from .modules import Modules
from .parts import Keys, Part, Row
from .rows import BY_CLASS
from .stored import Stored, as_floats
from .t5 import with_output

# What class names put before the names of their parts: the first that fits is left out
PREFIXES = ("model.language_model.", "model.text_model.", "text_model.", "language_model.model.", "language_model.",
            "llm.model.", "llm.", "model.", "transformer.", "gpt_neox.", "backbone.", "bert.", "roberta.",
            "rwkv.")  # fmt: skip
IMAGES = ("vision_tower.", "multi_modal_projector.", "visual.", "vision_model.", "embed_vision.", "audio_tower.",
          "embed_audio.", "connector.", "image_newline", "merger.", "mm_projector.", "vpm.", "resampler.")  # fmt: skip
DENSE = {f"{name}.linear": name for name in heads.DENSE}
# Classes whose language model is of the class that the type in `text_config` names
OF_TEXT = ("LlavaForConditionalGeneration", "Idefics3ForConditionalGeneration", "SmolVLMForConditionalGeneration",
           "InternVLForConditionalGeneration", "LlavaNextForConditionalGeneration",
           "Lfm2VlForConditionalGeneration")  # fmt: skip
TEXT_CLASSES = {"llama": "LlamaForCausalLM", "mistral": "MistralForCausalLM", "qwen2": "Qwen2ForCausalLM",
                "qwen3": "Qwen3ForCausalLM", "gemma": "GemmaForCausalLM", "gemma2": "Gemma2ForCausalLM",
                "lfm2": "Lfm2ForCausalLM"}  # fmt: skip
# Of MiniCPM-V by its version: the class of its language model, and the number that llama.cpp has for the whole
MINICPM_V = {"2.5": ("LlamaForCausalLM", 2), "2.6": ("Qwen2ForCausalLM", 3), "4.0": ("LlamaForCausalLM", 5),
             "4.5": ("Qwen3ForCausalLM", 6)}  # fmt: skip
# of T5 and of RWKV as `fla` saves it: the second number tells parts apart
SUBLAYER = re.compile(r"(block\.\d+\.layer|[._]lora|x_proj)\.(\d)")
LAYER = re.compile(r"layers\.(\d+)\.")
# Parts beside Qwen's layers that predict further tokens, by the names that others have for them
BEHIND = {"fc": "eh_proj", "pre_fc_norm_embedding": "enorm", "pre_fc_norm_hidden": "hnorm", "norm": "shared_head.norm"}
ADAPTED = ".parametrizations.weight"
NUMBER = re.compile(r"(?<=\.)\d+(?=\.)")
ENDS = (".weight", ".bias", ".scale", ".")  # of names that are complete
F32, BF16 = ggml.GGML_TYPE_F32, ggml.GGML_TYPE_BF16
SAMPLING = {"temperature": "temp", "top_k": "top_k", "top_p": "top_p", "min_p": "min_p",
            "repetition_penalty": "penalty_repeat"}  # fmt: skip


class Weight(NamedTuple):
    """A tensor of the new file.

    Attributes:
        name: of the tensor.
        shape: in NumPy order.
        source: number of the type that the values have.
        kind: number of the type that they get, unless they are quantised.
        parts: the tensors that it is made of, one below the other.
        part: how each of them is changed.
        values: the values, in place of parts.
    """

    name: str
    shape: tuple[int, ...]
    source: int
    kind: int
    parts: tuple[Stored, ...] = ()
    part: Part = Part("")
    values: np.ndarray | None = None

    @property
    def is_stack_of_biases(self) -> bool:
        return self.name.endswith(".bias") and len(self.shape) == 2

    def matrices(self, checkpoint: Checkpoint) -> Iterator[np.ndarray]:
        """The matrices of the tensor one by one, of bf16 the bits."""
        if self.values is not None:
            yield np.require(self.values, requirements=["C", "A"])
        if self.part.order is not None:
            yield from self.reordered(checkpoint)
            return
        for stored in self.parts:
            for matrix in checkpoint.matrices(stored, self.part.reshaped(checkpoint.config, stored.shape)):
                if is_transposed(self.part, stored, checkpoint.config) and matrix.ndim == 2:
                    matrix = matrix.T
                if self.part.rows is not None and self.is_stack_of_biases:
                    matrix = matrix[:, self.part.rows(checkpoint.config, matrix.shape[1])]
                elif self.part.rows is not None:
                    matrix = matrix[self.part.rows(checkpoint.config, len(matrix))]
                if self.part.columns is not None:
                    matrix = np.take(matrix, self.part.columns(checkpoint.config, matrix.size // len(matrix)), -1)
                if self.part.plus and self.name.endswith(".weight"):
                    matrix = as_floats(matrix) + np.float32(self.part.plus)
                if self.part.function is not None:
                    matrix = self.part.function(checkpoint.config, as_floats(matrix))
                yield np.require(matrix, requirements=["C", "A"])

    def reordered(self, checkpoint: Checkpoint) -> Iterator[np.ndarray]:
        """The same, of a tensor whose elements get other places."""
        assert self.part.order is not None
        places = self.part.order(checkpoint.config, self.parts[0].shape)
        values = checkpoint.read(self.parts[0]).reshape(-1)[places]
        values[places < 0] = 0
        values = values if self.part.function is None else self.part.function(checkpoint.config, as_floats(values))
        yield from values.reshape(-1, *values.shape[-2:]) if values.ndim > 2 else [values]


def is_transposed(part: Part, stored: Stored, c: Fields) -> bool:
    """Whether a matrix is stored as [n_in, n_out]; blocks of MXFP4 lie along the inputs."""
    if part.n_in is not None and part.n_in(c) != stored.shape[-1]:
        return True
    return part.transposed and stored.dtype != "MXFP4"


def row_of(checkpoint: Checkpoint) -> Row:
    """The row of a model's class."""
    name = checkpoint.names[0]
    if name in OF_TEXT:
        name = TEXT_CLASSES.get(checkpoint.config.text("model_type", "llama"), name)
    elif name == "MiniCPMV":
        name = minicpm_v(checkpoint.config)[0]
    if name not in BY_CLASS:
        known = dict.fromkeys(re.sub(r"(For[A-Z]|Model$|LMHead).*", "", known) for known in BY_CLASS)
        raise ValueError(
            f"convert: {checkpoint.config.where}: class {name!r} is not known: need one of {', '.join(known)}; "
            "see docs/new_architecture.md"
        )
    row = next(row for row in BY_CLASS[name] if row.when(checkpoint.config))
    return with_output(checkpoint, reranker(checkpoint, row))


def minicpm_v(c: Fields) -> tuple[str, int]:
    """The row of a MiniCPM-V in MINICPM_V; its version is written as a number or as a text."""
    version = c.values.get("version")
    found = MINICPM_V.get(str(float(version)) if isinstance(version, int) else str(version))
    if found is None:
        raise c.wrong("version", version, f"one of {', '.join(MINICPM_V)}")
    return found


def bare(name: str) -> str:
    """The name of a tensor without a prefix; of a matrix with adapters for tasks (tasks.py) that of the matrix."""
    name = name.replace(ADAPTED + ".original", ".weight")
    name = next((name[len(prefix) :] for prefix in PREFIXES if name.startswith(prefix)), name)
    return SUBLAYER.sub(r"\1_\2", name)


def behind_layers(name: str, count: int) -> str:
    """The name of a tensor of Qwen's layers that predict further tokens, as those behind the layers have it."""
    _, part, rest = name.split(".", 2)
    if part != "layers":
        return f"layers.{count}.{BEHIND.get(part, part)}.{rest}"
    number, _, rest = rest.partition(".")
    return f"layers.{count + int(number) if number.isdecimal() else number}.{rest}"


def further_layers(checkpoint: Checkpoint) -> int:
    """How many layers behind those of the model predict further tokens."""
    count = checkpoint.config.integer("num_hidden_layers", high=4096)
    names = map(bare, checkpoint.stored)
    found = {behind_layers(name, count) if name.startswith("mtp.") else name for name in names}
    numbers = {int(match[1]) for name in found if (match := LAYER.match(name))}
    return len([number for number in numbers if number >= count])


def plan_weights(checkpoint: Checkpoint, row: Row) -> dict[str, Weight]:
    """The tensors of the new file, in the order of the names, layer by layer."""
    for name, folder in Modules(checkpoint).dense.items():
        checkpoint.add(os.path.join(checkpoint.folder, folder, SINGLE), f"{name}.")
    found: dict[str, tuple[Part, dict[int, Stored]]] = {}
    tied = checkpoint.config.flag("tie_word_embeddings", False)
    names = row.names_of(checkpoint.config)
    for stored in checkpoint.stored.values():
        name = bare(stored.name)
        if row.later and name.startswith("mtp."):
            name = behind_layers(name, checkpoint.config.integer("num_hidden_layers", high=4096))
        if checkpoint.has_images and name.startswith(IMAGES):
            continue
        pattern = NUMBER.sub("{}", name)
        if any(fnmatch.fnmatchcase(pattern, old) for old in row.dropped) or (tied and pattern == "lm_head.weight"):
            continue
        targets = targets_of(names, name)
        if not targets:
            raise ValueError(
                f"convert: {stored.path}: tensor {stored.name!r} is not one of {checkpoint.names[0]}, "
                f"architecture {row.arch!r}"
            )
        if stored.dtype not in TYPES:
            raise ValueError(
                f"convert: {stored.path}: tensor {stored.name!r} is {stored.dtype}: need {', '.join(TYPES)}"
            )
        for part, new, place in targets:
            members = found.setdefault(new, (part, {}))[1]
            if place in members:
                raise ValueError(f"convert: {stored.path}: {stored.name!r} and {members[place].name!r} are one tensor")
            members[place] = stored
    weights = {}
    for new, (part, members) in found.items():
        if sorted(members) != list(range(len(members))):
            missing = next(i for i in range(len(members)) if i not in members)
            raise ValueError(f"convert: {checkpoint.folder}: {new!r} lacks its part {missing}")
        parts = tuple(members[i] for i in range(len(members)))
        weights[new] = planned(checkpoint, new, part, parts, len(parts) > 1 or "_exps." in new)
    for new, values in row.tensors(checkpoint.config, row.keys(checkpoint.config)).items():
        weights[new] = Weight(new, values.shape, F32, F32, values=values)
    return dict(sorted(weights.items(), key=lambda item: order(item[0])))


def targets_of(names: Mapping[str, Any], name: str) -> list[tuple[Part, str, int]]:
    """What a tensor becomes, by its name without a prefix: how, the name of the new tensor, its place in that one."""
    numbers = [int(n) for n in NUMBER.findall(f".{name}")]
    pattern = NUMBER.sub("{}", name)
    stem, _, suffix = pattern.rpartition(".")
    if suffix not in ("weight", "bias"):
        stem, suffix = pattern, "weight"
    targets = DENSE.get(stem) or names.get(f"{stem}.{suffix}") or names.get(stem) or []
    found = []
    for target in targets if isinstance(targets, list) else [targets]:
        part = target if isinstance(target, Part) else Part(target)
        new = part.name.format(*numbers[:1])
        if not new.endswith(ENDS):
            new += f".{suffix}"
        place = numbers[-1] if len(numbers) > part.name.count("{}") else max(part.place, 0)
        found.append((part, new.removesuffix("."), place))
    return found


def order(name: str) -> tuple[bool, int]:
    """Sorts tensors by layers, after those that are of none."""
    match = re.match(r"(?:enc\.|dec\.)?blk\.(\d+)\.", name)
    return match is not None, int(match[1]) if match else 0


def planned(checkpoint: Checkpoint, name: str, part: Part, parts: tuple[Stored, ...], stacked: bool) -> Weight:
    """A tensor of the new file that is made of tensors of the folder."""
    first = parts[0]
    if part.order is not None and len(parts) == 1:
        return reordered(checkpoint, name, part, first)
    for other in parts:
        if other.shape != first.shape or other.dtype != first.dtype:
            raise ValueError(
                f"convert: {other.path}: tensor {other.name!r} is {list(other.shape)} of {other.dtype}, "
                f"{first.name!r} {list(first.shape)} of {first.dtype}: need equal ones"
            )
    given = part.reshaped(checkpoint.config, first.shape)
    if not 1 <= len(first.shape) <= 3 or 0 in first.shape or (len(given) == 3 and len(parts) > 1):
        raise ValueError(f"convert: {first.path}: tensor {first.name!r} is {list(first.shape)}: need 1 to 3 dimensions")
    if math.prod(given) != math.prod(first.shape):
        raise ValueError(f"convert: {first.path}: tensor {first.name!r} is {list(first.shape)}: need {list(given)}")
    vectors = len(given) == 1 or (name.endswith(".bias") and len(given) == 2)  # the latter of experts
    *outer, rows, columns = (*given, 1) if vectors else given
    if is_transposed(part, first, checkpoint.config) and not vectors:
        rows, columns = columns, rows
    if part.rows is not None or part.columns is not None:
        try:
            rows = len(part.rows(checkpoint.config, rows)) if part.rows is not None else rows
            columns = len(part.columns(checkpoint.config, columns)) if part.columns is not None else columns
        except ValueError as error:
            raise ValueError(f"convert: {first.path}: tensor {first.name!r}: {error}") from None
    shape: tuple[int, ...] = (*outer, rows) if vectors else (*outer, rows, columns)
    if stacked and len(given) == 2 and not vectors:
        shape = (len(parts), *shape)
    elif part.place >= 0:
        shape = (len(parts), 1, 1, rows)
    changed = part.function is not None or (part.plus and name.endswith(".weight"))
    source = F32 if changed else TYPES[first.dtype][0]
    plain = vectors or any(fnmatch.fnmatchcase(name, pattern) for pattern in UNCHANGED)
    wanted = BF16 if first.dtype in fp8.VALUES else source
    return Weight(name, shape, source, F32 if plain else wanted, parts, part)


def reordered(checkpoint: Checkpoint, name: str, part: Part, stored: Stored) -> Weight:
    """A tensor of the new file whose elements have other places in the folder."""
    assert part.order is not None
    try:
        shape = part.order(checkpoint.config, stored.shape).shape
    except ValueError:
        given = f"tensor {stored.name!r} is {list(stored.shape)}"
        raise ValueError(f"convert: {stored.path}: {given}, which the settings contradict") from None
    source = F32 if part.function is not None else TYPES[stored.dtype][0]
    plain = len(shape) == 1 or any(fnmatch.fnmatchcase(name, pattern) for pattern in UNCHANGED)
    return Weight(name, shape, source, F32 if plain else source, (stored,), part)


def plan_keys(checkpoint: Checkpoint, row: Row) -> Keys:
    """The keys that the settings give."""
    keys: Keys = {"general.architecture": row.arch, "general.type": "model"}
    keys["general.name"] = model_name(checkpoint)
    found = row.keys(checkpoint.config)
    if row.later and (further := further_layers(checkpoint)):
        found |= {"block_count": found["block_count"] + further, "nextn_predict_layers": further}
    for name, value in found.items():
        keys[name if name.startswith("tokenizer.") else f"{row.arch}.{name}"] = value
    where = os.path.join(checkpoint.folder, "generation_config.json")
    generation = Fields(optional_json(checkpoint.folder, "generation_config.json"), where)
    for name, key in SAMPLING.items():
        if generation.has(name):
            read = generation.integer if name == "top_k" else generation.number
            value = read(name, low=0)
            keys[f"general.sampling.{key}"] = value
    size, context = checkpoint.config.values.get("sliding_window"), keys.get(f"{row.arch}.context_length", 0)
    used = checkpoint.config.values.get("use_sliding_window", True)
    known = keys.get(f"{row.arch}.attention.sliding_window")
    if used and isinstance(size, int) and size < context and known is None:
        warnings.warn(
            f"convert: {checkpoint.config.where}: 'sliding_window' is {size}: architecture {row.arch!r} has none, and "
            "differs beyond so many tokens", stacklevel=3,
        )  # fmt: skip
    own = {f"{row.arch}.{name}": value for name, value in Modules(checkpoint).keys().items()}
    return own | keys


def model_name(checkpoint: Checkpoint) -> str:
    """The name of a model: where it came from, else that of its folder."""
    path = checkpoint.config.values.get("_name_or_path")
    name = path if isinstance(path, str) and path else checkpoint.folder
    return os.path.basename(os.path.normpath(os.path.abspath(name))) or "model"


def check(checkpoint: Checkpoint, keys: Mapping[str, Any], weights: Mapping[str, Weight], row: Row) -> None:
    """Builds the graph of the model, without memory, of tensors of the planned shapes: it names a missing or wrong one.

    Raises:
        ValueError: a key or tensor is missing or wrong, or a tensor is not used.
    """
    family = FAMILIES[row.arch]
    if "token_embd.weight" not in weights:
        raise ValueError(f"convert: {checkpoint.folder}: no tensor becomes 'token_embd.weight'")
    contexts = Held(ggml.ggml_free)
    try:
        ctx = contexts.new(ggml.ggml_init, ggml.ggml_init_params(mem_size=0, no_alloc=True))
        config = read_config(keys, row.arch, weights["token_embd.weight"].shape[0], checkpoint.folder, family)
        declared = keys.get(f"{row.arch}.vocab_size", config.n_vocab)
        if declared > config.n_vocab:
            raise checkpoint.config.wrong("vocab_size", declared, f"at most the embedding's {config.n_vocab} rows")
        layers = {match[1] for name in weights if (match := re.match(r"(?:enc\.)?blk\.(\d+)\.", name))}
        if len(layers) != config.n_layer + config.n_further:
            raise ValueError(f"the shards have {len(layers)} layers, config.json {config.n_layer}")
        tensors = Recorded({w.name: new_tensor(ctx, w.shape, w.kind) for w in weights.values()})
        ids, positions = (ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_I32, 1) for _ in range(2))
        g = Builder(ctx, config, tensors, Inputs(ids, positions, {False: None, True: None}, 1))
        x = family.module.embed(g)
        for i in range(config.n_layer):
            x = family.module.layer(g, i, x)
        x = family.module.head(g, x)
        if config.logits:
            g.output(x)
        heads.build(g, x)
        if hasattr(family.module, "beside"):
            family.module.beside(g, x)
        for number in range(config.n_further):
            before = ggml.ggml_new_tensor_2d(ctx, ggml.GGML_TYPE_F32, config.n_embd, 1)
            inputs = Inputs(ids, positions, {False: None, True: None}, 1, before=before)
            g = Builder(ctx, config_of_further(config, number), tensors, inputs)
            build_further(g, family.module, "logits")
        spare = {"rope_factors_long.weight", "rope_factors_short.weight", *getattr(family.module, "UNUSED", ())}
        for i, kept in enumerate(caches_of(config)):
            if isinstance(kept, Shared):  # the layer reads what another one has, and its own are not needed
                spare |= {f"blk.{i}.attn_{part}.weight" for part in ("k", "v", "k_norm")}
        unused = sorted(set(weights) - tensors.used - spare)
        if unused:
            raise ValueError(f"the architecture {row.arch!r} does not use tensor {unused[0]!r}")
    except ValueError as error:
        text = bare_message(error).removeprefix("convert: ").removeprefix(f"{checkpoint.folder}: ")
        raise ValueError(f"convert: {checkpoint.folder}: {text}") from None
    finally:
        contexts.free()


class Recorded(dict[str, Any]):
    """Tensors by name, and the names that were asked for."""

    def __init__(self, tensors: Mapping[str, Any]) -> None:
        super().__init__(tensors)
        self.used: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.used.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self.used.add(name)
        return super().get(name, default)


def new_tensor(ctx: Any, shape: tuple[int, ...], kind: int) -> Any:
    """A tensor of a shape in NumPy order."""
    return ggml.ggml_new_tensor_4d(ctx, kind, *(*shape[::-1], 1, 1, 1)[:4])
