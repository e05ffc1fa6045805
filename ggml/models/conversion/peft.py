"""Adapters of PEFT (https://github.com/huggingface/peft) as GGUF files, and GGUF adapters as folders of PEFT."""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

import ggml
from ggml.utils import dequantize_row, from_numpy, to_numpy

from ..._errors import named
from ..._extras import require
from ..._io.files import save
from ..._io.gguf_write import _write_to_file
from ..._owners import Held
from ..files.model_file import ModelFile
from .checkpoint import Checkpoint, Shards
from .fields import Fields, read_json
from .parts import Part, Row
from .plan import bare, row_of, targets_of

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
OUTER = "base_model.model."
# Endings of the names of pairs: which matrix, and whether it is of an embedding
ENDS = {".lora_A.weight": ("a", False), ".lora_B.weight": ("b", False), ".lora_embedding_A": ("a", True),
        ".lora_embedding_B": ("b", True)}  # fmt: skip
BASE = ".base_layer.weight"  # copies of matrices of the model, which PEFT keeps beside changed embeddings
TABLE = "token_embd.weight"


class Module(NamedTuple):
    """A pair of a module of the base model: the change of its matrix is scale * B A.

    Attributes:
        a, b: f32 [rank, n_in] and [n_out, rank].
        scale: factor.
    """

    a: np.ndarray
    b: np.ndarray
    scale: float


class Place(NamedTuple):
    """Where a module's matrix lies in the GGUF file."""

    part: Part
    name: str
    number: int  # of the expert


def is_adapter(folder: Any) -> bool:
    """Whether a folder has an adapter of PEFT."""
    return isinstance(folder, (str, bytes, os.PathLike)) and os.path.isfile(os.path.join(os.fsdecode(folder), CONFIG))


def is_gguf(path: Any) -> bool:
    """Whether a path is of a GGUF file."""
    if not isinstance(path, (str, bytes, os.PathLike)) or not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.read(4) == b"GGUF"


class Base:
    """The model that an adapter belongs to: a folder as Hugging Face saves it, of which the settings count.

    Args:
        folder: the folder; None for the one that the adapter names, or its own.
        adapter: folder of the adapter, or None.
    """

    def __init__(self, folder: str | os.PathLike[str] | None, adapter: str | None, weights: bool) -> None:
        if folder is None and adapter is not None:
            named_base = read_json(os.path.join(adapter, CONFIG)).get("base_model_name_or_path")
            places = [adapter, named_base] if isinstance(named_base, str) else [adapter]
            folder = next((place for place in places if os.path.isfile(os.path.join(place, "config.json"))), None)
        if folder is None:
            raise ValueError("convert: an adapter needs base: the folder of its model, with config.json")
        self.checkpoint = Checkpoint(folder, weights=weights)
        self.row: Row = row_of(self.checkpoint)
        self.config: Fields = self.checkpoint.config

    def places(self, module: str) -> list[Place]:
        """Where the matrix of a module lies."""
        return [Place(*target) for target in targets_of(self.row.names_of(self.config), bare(module + ".weight"))]

    def rows(self, part: Part, count: int) -> np.ndarray:
        """The rows of the module's matrix that its place has, in their order there."""
        return np.arange(count) if part.rows is None else part.rows(self.config, count)

    def check_table(self, what: str) -> None:
        """Of a model without an output matrix, the embedding is that too: PEFT changes only one of them."""
        if self.config.flag("tie_word_embeddings", False):
            raise ValueError(
                f"convert: {what}: the embedding is the output matrix too: an adapter can't be of one alone"
            )


# ---- PEFT to GGUF ----------------------------------------------------------------------------------------------------
def from_peft(folder: str, out: str, base: str | os.PathLike[str] | None) -> None:
    """Writes a GGUF adapter from a folder of PEFT; see convert."""
    model = Base(base, folder, weights=False)
    modules = read_modules(folder)
    pairs: dict[str, dict[int, Module]] = {}
    for name, module in modules.items():
        places = model.places(name)
        if not places:
            raise ValueError(f"convert: {folder}: {name!r} is no matrix of architecture {model.row.arch!r}")
        for part, new, number in places:
            if new == TABLE:
                model.check_table(folder)
            try:
                rows = model.rows(part, len(module.b))
            except ValueError as error:
                raise ValueError(f"convert: {folder}: {name!r}: {error}") from None
            pairs.setdefault(new, {})[number] = Module(module.a, module.b[rows], module.scale)
    first = next(iter(modules.values()))
    alpha = first.scale * len(first.a)
    tensors: dict[str, np.ndarray] = {}
    for new, members in pairs.items():
        if sorted(members) != list(range(len(members))) or len({m.a.shape for m in members.values()}) > 1:
            raise ValueError(f"convert: {folder}: {new!r} needs an adapter for each expert, of one rank")
        ordered = [members[i] for i in range(len(members))]
        a = np.stack([m.a for m in ordered])
        b = np.stack([m.b * np.float32(m.scale * len(m.a) / alpha) for m in ordered])
        if new == TABLE:
            a = a.swapaxes(1, 2)
        stacked = "_exps." in new
        tensors[new + ".lora_a"], tensors[new + ".lora_b"] = (a, b) if stacked else (a[0], b[0])
    write_adapter(out, model.row.arch, alpha, tensors)


def read_modules(folder: str) -> dict[str, Module]:
    """The pairs in a folder of PEFT by the names of the modules, without the outer name."""
    path = os.path.join(folder, CONFIG)
    config = Fields(read_json(path), path)
    config.require("peft_type", "LORA")
    config.require("use_dora", False, default=False)
    config.require("bias", "none", default="none")
    config.require("modules_to_save", None, [], default=None)
    require("convert: ", ["safetensors"], "'ggml-cython[llm]'")
    where, shards = os.path.join(folder, WEIGHTS), Shards()
    shards.add(where)
    halves: dict[str, dict[str, np.ndarray]] = {}
    for name, stored in shards.stored.items():
        if name.endswith(BASE):
            continue
        values = shards.floats(stored)
        end = next((end for end in ENDS if name.endswith(end)), None)
        if end is None or not name.startswith(OUTER) or values.ndim != 2:
            raise ValueError(f"convert: {where}: tensor {name!r} is none of an adapter of pairs")
        halves.setdefault(name[len(OUTER) : -len(end)], {})[ENDS[end][0]] = values
    if not halves:
        raise ValueError(f"convert: {where}: the adapter has no tensors")
    root, found = config.flag("use_rslora", False), {}
    for name, half in halves.items():
        if set(half) != {"a", "b"} or half["a"].shape[0] != half["b"].shape[1] or not half["a"].shape[0]:
            raise ValueError(f"convert: {where}: module {name!r} has no pair of matrices that fit")
        rank = half["a"].shape[0]
        alpha = float(of_pattern(config, "alpha_pattern", name, config.number("lora_alpha", low=1e-9)))
        found[name] = Module(half["a"], half["b"], alpha / (math.sqrt(rank) if root else rank))
    return found


def of_pattern(config: Fields, setting: str, module: str, default: float) -> float:
    """The value for a module: that of the name in a setting with which its name ends."""
    inside = config.inside(setting)
    for name in inside.values:
        if module == name.lstrip("^") or module.endswith("." + name.lstrip("^")):
            return inside.number(name, low=1e-9)
    return default


def write_adapter(out: str, arch: str, alpha: float, tensors: Mapping[str, np.ndarray]) -> None:
    """Writes a GGUF file with an adapter."""
    files, contexts = Held(ggml.gguf_free), Held(ggml.ggml_free)
    try:
        file, ctx = files.new(ggml.gguf_init_empty), contexts.new(ggml.ggml_init, ggml.ggml_init_params(mem_size=0))
        for key, value in {"general.architecture": arch, "general.type": "adapter", "adapter.type": "lora"}.items():
            ggml.gguf_set_val_str(file, key, value)
        ggml.gguf_set_val_f32(file, "adapter.lora.alpha", alpha)
        for name, values in tensors.items():
            tensor = from_numpy(np.ascontiguousarray(values, np.float32), ctx)
            ggml.ggml_set_name(tensor, name.encode())
            ggml.gguf_add_tensor(file, tensor)
        with named("convert", out):
            _write_to_file(file, os.fsencode(out), False)
    finally:
        files.free()
        contexts.free()


# ---- GGUF to PEFT ----------------------------------------------------------------------------------------------------
def to_peft(path: str, out: str, base: str | os.PathLike[str] | None) -> None:
    """Writes a folder of PEFT from a GGUF adapter; see convert."""
    model = Base(base, None, weights=True)
    arch, pairs, alpha = read_pairs(path)
    if arch != model.row.arch:
        raise ValueError(f"convert: {path} is for architecture {arch!r}, base is {model.row.arch!r}")
    modules: dict[str, Module] = {}
    names = [name.removesuffix(".weight") for name in model.checkpoint.stored if name.endswith(".weight")]
    left = set(pairs)
    for name in names:
        places = model.places(name)
        given = [place for place in places if place.name in pairs]
        if given and len(places) > 1:
            raise ValueError(f"convert: {path}: {given[0].name!r} is a part of {name!r}, which has other parts")
        for place in given:
            modules[name] = of_place(model, place, pairs[place.name])
            left.discard(place.name)
    if left:
        raise ValueError(f"convert: {path}: the base has no matrix for {sorted(left)[0]!r}")
    ranks = {name: len(module.a) for name, module in modules.items()}
    rank = Counter(ranks.values()).most_common(1)[0][0]
    others = {name: n for name, n in ranks.items() if n != rank}
    config = {
        "peft_type": "LORA", "task_type": task_of(model.config), "base_model_name_or_path": model.checkpoint.folder,
        "r": rank, "lora_alpha": alpha or rank, "lora_dropout": 0.0, "bias": "none", "inference_mode": True,
        "use_rslora": False,
        "target_modules": sorted({shortest(name, modules, names) for name in modules}), "rank_pattern": others,
        "alpha_pattern": {} if alpha else others,
        "fan_in_fan_out": any(place.part.transposed for name in modules for place in model.places(name)),
    }  # fmt: skip
    tensors = {}
    for name, module in modules.items():
        ends_of = {half: end for end, (half, table) in ENDS.items() if table == (model.places(name)[0].name == TABLE)}
        tensors[OUTER + name + ends_of["a"]], tensors[OUTER + name + ends_of["b"]] = module.a, module.b
    os.makedirs(out, exist_ok=True)
    from safetensors.numpy import save as packed

    save(os.path.join(out, WEIGHTS), memoryview(packed(tensors, {"format": "pt"})), "convert")
    save(os.path.join(out, CONFIG), memoryview(json.dumps(config, indent=2).encode()), "convert")


def shortest(name: str, modules: Collection[str], names: Sequence[str]) -> str:
    """The shortest end of a module's name that no other of the names has but those of modules."""
    parts = name.split(".")
    ends = (".".join(parts[i:]) for i in reversed(range(len(parts))))
    return next(end for end in ends if all(n in modules for n in names if n == end or n.endswith("." + end)))


def task_of(config: Fields) -> str | None:
    """What PEFT calls that for which a model is made; None for a classifier, to which it would add copies of heads."""
    (name, *_) = config.array("architectures", str, default=["ForCausalLM"])
    if name.endswith("Classification"):
        return None
    if name.endswith("Model") and not name.endswith("LMHeadModel"):
        return "FEATURE_EXTRACTION"
    return "SEQ_2_SEQ_LM" if config.flag("is_encoder_decoder", False) else "CAUSAL_LM"


def of_place(model: Base, place: Place, pair: tuple[np.ndarray, np.ndarray]) -> Module:
    """The pair of a module, of that of its place."""
    a, b = (half[place.number] for half in pair)
    if place.name == TABLE:
        model.check_table(place.name)
        a = a.T
    rows = model.rows(place.part, len(b))
    back = np.empty_like(b)
    back[rows] = b
    return Module(np.ascontiguousarray(a), back, 1.0)


def read_pairs(path: str) -> tuple[str, dict[str, tuple[np.ndarray, np.ndarray]], float]:
    """The architecture, the pairs [experts, rows, columns] and alpha (0 for a factor of 1) of a GGUF adapter."""
    file = ModelFile(path, True, "convert")
    try:
        if file.metadata.get("general.type") != "adapter" or file.metadata.get("adapter.type") != "lora":
            raise ValueError(f"convert: {path}: the file is no adapter")
        arch = str(file.metadata.get("general.architecture"))
        alpha = file.metadata.get("adapter.lora.alpha", 0.0)
        if isinstance(alpha, bool) or not isinstance(alpha, (int, float)):
            raise ValueError(f"convert: {path}: key 'adapter.lora.alpha' is {str(alpha)[:60]}: need a number")
        found = {}
        for name in sorted({name.rpartition(".lora_")[0] for name in file.tensors}):
            halves = [file.tensors.get(f"{name}.lora_{half}") for half in "ab"]
            if None in halves:
                raise ValueError(f"convert: {path}: need tensors '{name}.lora_a' and '{name}.lora_b'")
            found[name] = floats(halves[0]), floats(halves[1])
        if not found:
            raise ValueError(f"convert: {path}: the adapter has no tensors")
        return arch, found, float(alpha)
    finally:
        file.close()


def floats(tensor: Any) -> np.ndarray:
    """A copy of a tensor as f32 [ne2, ne1, ne0]."""
    t = tensor.contents
    out = np.empty((t.ne[2], t.ne[1], t.ne[0]), np.float32)
    if t.type == ggml.GGML_TYPE_F32:
        out[...] = to_numpy(tensor).reshape(out.shape)
    else:
        dequantize_row(t.data, out.size, t.type, out)
    return out
