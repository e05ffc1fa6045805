"""Adapters of PEFT (https://github.com/huggingface/peft) as GGUF files, and GGUF adapters as folders of PEFT."""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
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
from .parts import Part, Row, Share, slices
from .plan import NUMBER, bare, row_of, targets_of

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
OUTER = "base_model.model."
# Endings of the names of pairs: which matrix, and whether it is of an embedding
ENDS = {".lora_A.weight": ("a", False), ".lora_B.weight": ("b", False), ".lora_embedding_A": ("a", True),
        ".lora_embedding_B": ("b", True)}  # fmt: skip
BASE = ".base_layer.weight"  # copies of matrices of the model, which PEFT keeps beside changed embeddings
TABLE = "token_embd.weight"
# Parameters of all experts of a layer, in the order in which PEFT wraps them (the first innermost), and what they are
# in the GGUF file if no row says it. The pair of one is A [experts * rank, n_in], B [n_out, rank * experts].
EXPERTS, INNER = ".experts", ".base_layer"
PARAMETERS: dict[str, Any] = {
    "gate_up_proj": [Part("blk.{}.ffn_gate_exps", slices(2, 0)), Part("blk.{}.ffn_up_exps", slices(2, 1))],
    "up_proj": "blk.{}.ffn_up_exps",
    "down_proj": "blk.{}.ffn_down_exps",
}
# Architectures whose experts transformers holds as [n_in, n_out] and PEFT takes for [n_out, n_in]
SWAPPED = ("llama4",)


class Module(NamedTuple):
    """A pair of a module of the base model: the change of its matrix, or of each of a stack, is scale * B A.

    Attributes:
        a, b: f32 [matrices, rank, n_in] and [matrices, n_out, rank].
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
    i: int  # which slice of n equal ones of the rows of the tensor it is
    n: int


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
        self.names = self.row.names_of(self.config)

    def places(self, module: str) -> list[Place]:
        """Where the matrix of a module lies, or the matrices of a parameter of experts."""
        name = bare(module + ".weight")
        pattern = NUMBER.sub("{}", name).removesuffix(".weight")
        names, own = self.names, self.row.modules.get(pattern)
        stem, _, parameter = pattern.rpartition(".")
        if own is None and pattern not in names and stem.endswith(EXPERTS):
            own = PARAMETERS.get(parameter)
        i, n = own[1:] if isinstance(own, Share) else (0, 1)
        if own is not None:
            names = {pattern: own.name if isinstance(own, Share) else own}
        return [Place(*target, i, n) for target in targets_of(names, name)]

    def modules(self) -> dict[str, str]:
        """The modules that have a matrix, by their names in adapters, and the names of their tensors."""
        found: dict[str, str] = {}
        tensors, modules = self.row.outer
        for stored in self.checkpoint.stored:
            name = stored.removesuffix(".weight")
            if name.startswith(tensors):
                name = modules + name[len(tensors) :]
            inner, places = bare(stored).removesuffix(".weight"), {place.name for place in self.places(name)}
            numbers = NUMBER.findall(f".{inner}.")[:1]
            own = [pattern.format(*numbers) for pattern in self.row.modules if numbers or "{}" not in pattern]
            own = [module for module in own if any(place.name in places for place in self.places(module))]
            prefix = name[: len(name) - len(inner)]
            if places or stored.endswith(".weight"):
                found |= dict.fromkeys([prefix + module for module in own] or [name], stored)
        return found

    def rows(self, part: Part, count: int) -> np.ndarray:
        """The rows of the module's matrix that its place has, in their order there."""
        return np.arange(count) if part.rows is None else part.rows(self.config, count)

    def outputs(self, stored: str, part: Part) -> int:
        """The number of rows of the matrix in a tensor."""
        shape = part.reshaped(self.config, self.checkpoint.stored[stored].shape)
        return shape[-1] if part.transposed else shape[-2]

    @cached_property
    def experts(self) -> int:
        """The number of experts of a layer."""
        return int(self.row.keys(self.config).get("expert_count", 0))

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
    modules = read_modules(folder, model)
    pairs: dict[str, dict[int, list[Module]]] = {}
    for name, module in modules.items():
        places = model.places(name)
        if not places:
            raise ValueError(f"convert: {folder}: {name!r} is no matrix of architecture {model.row.arch!r}")
        for place in places:
            if place.name == TABLE:
                model.check_table(folder)
            try:
                rows = model.rows(place.part, module.b.shape[1])
            except ValueError as error:
                raise ValueError(f"convert: {folder}: {name!r}: {error}") from None
            b = np.zeros((len(module.b), place.n * len(rows), module.b.shape[2]), np.float32)
            b[:, place.i * len(rows) : (place.i + 1) * len(rows)] = module.b[:, rows]
            members = pairs.setdefault(place.name, {}).setdefault(place.number, [])
            members.append(Module(module.a, b, module.scale))
    first = next(iter(modules.values()))
    alpha = first.scale * first.a.shape[1]
    tensors: dict[str, np.ndarray] = {}
    for new, numbered in pairs.items():
        if len({(m.a.shape[2], m.b.shape[1]) for members in numbered.values() for m in members}) > 1:
            raise ValueError(f"convert: {folder}: {new!r} has matrices of several shapes")
        joined = {number: sum_of(members, alpha) for number, members in numbered.items()}
        if sorted(joined) != list(range(len(joined))) or len({a.shape for a, _ in joined.values()}) > 1:
            raise ValueError(f"convert: {folder}: {new!r} needs an adapter for each expert, of one rank")
        a, b = (np.concatenate([joined[i][half] for i in range(len(joined))]) for half in (0, 1))
        if new == TABLE:
            a = a.swapaxes(1, 2)
        stacked = "_exps." in new
        tensors[new + ".lora_a"], tensors[new + ".lora_b"] = (a, b) if stacked else (a[0], b[0])
    write_adapter(out, model.row.arch, alpha, tensors)


def sum_of(members: Sequence[Module], alpha: float) -> tuple[np.ndarray, np.ndarray]:
    """The sum of changes as one pair, whose factor is alpha divided by its rank."""
    rank = sum(m.a.shape[1] for m in members)
    a = np.concatenate([m.a for m in members], axis=1)
    return a, np.concatenate([m.b * np.float32(m.scale * rank / alpha) for m in members], axis=2)


def read_modules(folder: str, model: Base) -> dict[str, Module]:
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
        a, b = half["a"][None], half["b"][None]
        if name.endswith((EXPERTS, EXPERTS + INNER)):
            name = parameter_of(name, halves, config)
            a, b = stacks_of(half["a"], half["b"], model, f"convert: {where}: {name!r}")
        rank = a.shape[1]
        alpha = float(of_pattern(config, "alpha_pattern", name, config.number("lora_alpha", low=1e-9)))
        found[name] = Module(a, b, alpha / (math.sqrt(rank) if root else rank))
    return found


def parameter_of(name: str, names: Collection[str], config: Fields) -> str:
    """The name of the parameter of experts that a module stands for."""
    stem = name.removesuffix(INNER)
    wrappers = sorted((n for n in names if n.removesuffix(INNER) == stem), key=len, reverse=True)
    listed = config.array("target_parameters", str, default=None) or []
    given = [p for p in PARAMETERS if any(f".{stem}.{p}".endswith(f".{text.lstrip('.')}") for text in listed)]
    if len(given) != len(wrappers):
        raise config.wrong("target_parameters", listed, f"those of {stem!r}, of which the adapter has {len(wrappers)}")
    return f"{stem}.{given[wrappers.index(name)]}"


def stacks_of(a: np.ndarray, b: np.ndarray, model: Base, what: str) -> tuple[np.ndarray, np.ndarray]:
    """The pairs of all experts, [experts, rank, n_in] and [experts, n_out, rank]."""
    count = model.experts
    if not count or len(a) % count:
        raise ValueError(f"{what} has {len(a)} rows: need a multiple of the number of experts, {count}")
    a = a.reshape(count, -1, a.shape[1])
    b = b.reshape(len(b), -1, count).transpose(2, 0, 1)
    return (b.swapaxes(1, 2), a.swapaxes(1, 2)) if model.row.arch in SWAPPED else (a, b)


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
    names = model.modules()
    modules: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    for name in names:
        if any(place.name in pairs for place in model.places(name)):
            modules[name] = of_places(model, name, names[name], pairs, alpha)
    left = set(pairs) - {place.name for name in modules for place in model.places(name)}
    if left:
        raise ValueError(f"convert: {path}: the base has no matrix for {sorted(left)[0]!r}")
    ranks = {name: a.shape[1] for name, (a, _) in modules.items()}
    rank = Counter(ranks.values()).most_common(1)[0][0]
    others = {name: n for name, n in ranks.items() if n != rank}
    parameters = [name for name in modules if is_parameter(name)]
    config = {
        "peft_type": "LORA", "task_type": task_of(model.config), "base_model_name_or_path": model.checkpoint.folder,
        "r": rank, "lora_alpha": alpha or rank, "lora_dropout": 0.0, "bias": "none", "inference_mode": True,
        "use_rslora": False,
        "target_modules": sorted({shortest(name, modules, names) for name in modules if name not in parameters}),
        "rank_pattern": others, "alpha_pattern": {} if alpha else others,
        "fan_in_fan_out": any(place.part.transposed for name in modules if name not in parameters
                              for place in model.places(name)),
    }  # fmt: skip
    if parameters:
        config["target_parameters"] = parameters
    tensors: dict[str, np.ndarray] = {}
    for name, (a, b) in modules.items():
        tensors |= named_halves(model, name, a, b, modules)
    os.makedirs(out, exist_ok=True)
    from safetensors.numpy import save as packed

    save(os.path.join(out, WEIGHTS), memoryview(packed(tensors, {"format": "pt"})), "convert")
    save(os.path.join(out, CONFIG), memoryview(json.dumps(config, indent=2).encode()), "convert")


def is_parameter(name: str) -> bool:
    """Whether a module is a parameter of all experts of a layer."""
    stem, _, parameter = name.rpartition(".")
    return stem.endswith(EXPERTS) and parameter in PARAMETERS


def named_halves(model: Base, name: str, a: np.ndarray, b: np.ndarray, names: Collection[str]) -> dict[str, np.ndarray]:
    """The two tensors of a module, of its pair [matrices, rank, n_in] and [matrices, n_out, rank]."""
    if is_parameter(name):
        if model.row.arch in SWAPPED:
            a, b = b.swapaxes(1, 2), a.swapaxes(1, 2)
        stem, _, parameter = name.rpartition(".")
        order = list(PARAMETERS)
        name = stem + INNER * sum(f"{stem}.{outer}" in names for outer in order[order.index(parameter) + 1 :])
        a, b = a.reshape(-1, a.shape[2]), b.transpose(1, 2, 0).reshape(b.shape[1], -1)
        table = False
    else:
        a, b, table = a[0], b[0], model.places(name)[0].name == TABLE
    ends = {half: end for end, (half, of_table) in ENDS.items() if of_table == table}
    return {OUTER + name + ends["a"]: np.ascontiguousarray(a), OUTER + name + ends["b"]: np.ascontiguousarray(b)}


def shortest(name: str, modules: Collection[str], names: Collection[str]) -> str:
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


def of_places(
    model: Base, name: str, stored: str, pairs: Mapping[str, tuple[np.ndarray, np.ndarray]], alpha: float
) -> tuple[np.ndarray, np.ndarray]:
    """The pair of a module, of those of its places: their sum where there are several.

    Its factor is that of the others: alpha divided by its rank, or 1.
    """
    places, halves = model.places(name), []
    for place in places:
        if place.name not in pairs:
            continue
        a, b = pairs[place.name]
        if not is_parameter(name):
            a, b = a[place.number, None], b[place.number, None]
        if place.name == TABLE:
            model.check_table(place.name)
            a = a.swapaxes(1, 2)
        b = b[:, b.shape[1] // place.n * place.i : b.shape[1] // place.n * (place.i + 1)]
        count = model.outputs(stored, place.part) if len(places) > 1 else b.shape[1]
        back = np.zeros((len(b), count, b.shape[2]), np.float32)
        back[:, model.rows(place.part, count)] = b
        halves.append((a, back))
    rank = sum(a.shape[1] for a, _ in halves)
    scaled = [b * np.float32(rank / b.shape[2]) if alpha and b.shape[2] < rank else b for _, b in halves]
    return np.concatenate([a for a, _ in halves], axis=1), np.concatenate(scaled, axis=2)


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
