"""The encoder of a file `mmproj`: pictures as embeddings of a language model."""

from __future__ import annotations

import math
import mmap
import os
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

import ggml
from ggml.utils import to_numpy

from ..._owners import Owner, keep
from ..arch import Family
from ..arch.base import Builder, Inputs
from ..arch.prepared import Prepared
from ..files.config import Config, read_config
from ..files.model_file import ModelFile
from . import PROJECTORS, Projector, encoder, pixels
from .pictures import open_picture

ARCH = "clip.vision"
NODES_PER_LAYER = 64  # room in a graph
KEPT_BYTES = 32 << 20  # most embeddings that are kept
KEPT_GRAPHS = 2
MOST_PIXELS = 1 << 26  # of a picture in tiles
MOST_PATCHES = 1 << 12  # of a part of a picture, where no table of positions has one for each
MOST_ENLARGED = 1 << 14  # patches of the smallest picture, where pictures have any shape
LARGE_RESULT = 1 << 20  # bytes
LARGEST_SQUARE = 1 << 10  # pixels of the side of what becomes a token


class Encoded(NamedTuple):
    """A picture as embeddings.

    Attributes:
        tiles: f32 [tokens, dim] of each part that was encoded.
        prompt: what stands for the picture in a prompt: texts, and numbers of tiles.
        places: for each part time, row and column of its tokens [tokens, 3]; None if they are those of a text.
    """

    tiles: list[np.ndarray]
    prompt: list[str | int]
    places: list[np.ndarray] | None = None

    @property
    def rows(self) -> np.ndarray:
        """f32 [tokens, dim]: all of them, in the order of the prompt."""
        return np.concatenate([self.tiles[part] for part in self.prompt if isinstance(part, int)])


def vision_config(metadata: Mapping[str, Any], path: str) -> tuple[Projector, Config]:
    """The row and the settings of a file's encoder, checked."""
    if metadata.get("general.architecture") != "clip" or metadata.get("clip.has_vision_encoder", True) is not True:
        arch = str(metadata.get("general.architecture"))[:60]
        raise ValueError(f"load: {path}: the file is of architecture {arch!r}: need 'clip' with an encoder of pictures")
    kind = metadata.get("clip.vision.projector_type", metadata.get("clip.projector_type", "mlp"))
    if not isinstance(kind, str) or kind not in PROJECTORS:
        known = ", ".join(PROJECTORS)
        raise ValueError(f"load: {path}: key 'clip.projector_type' is {str(kind)[:60]!r}: need one of {known}")
    row = PROJECTORS[kind]
    family = Family(encoder, rms=False, causal=False, logits=False)
    config = read_config({**metadata, f"{ARCH}.context_length": 1}, ARCH, 0, path, family)
    axial = getattr(row.module, "rotated", None)
    if axial is not None and config.key_dim % 4:
        raise ValueError(f"load: {path}: heads of {config.key_dim} elements: need a multiple of 4")
    check_sizes(row, config, path)
    activation = ggml.ggml_gelu_quick
    for name, function in (("gelu", row.gelu), ("silu", ggml.ggml_silu)):
        if metadata.get(f"clip.use_{name}", False) is True:
            activation = function
    version = metadata.get("clip.minicpmv_version", 0)
    own = {"rms": row.rms, "activation": activation, "axial": axial, "version": version}
    return row, replace(config, own={**config.own, **own})


def check_sizes(row: Projector, config: Config, path: str) -> None:
    """Refuses a file that makes more pixels of each picture than any model takes."""
    own = config.own
    pixels_of_tiles = (own["largest"] or own["image"]) ** 2 * max(1, own["tiles"][1])
    if pixels_of_tiles > MOST_PIXELS:
        raise ValueError(f"load: {path}: pictures become {pixels_of_tiles} pixels: need at most {MOST_PIXELS}")
    count = (own["image"] // own["patch"]) ** 2
    if hasattr(row.module, "lookup") and count > MOST_PATCHES:
        raise ValueError(f"load: {path}: pictures become {count} patches: need at most {MOST_PATCHES}")
    if hasattr(row.module, "sides"):
        square = math.prod(row.module.sides(config))
        if square > LARGEST_SQUARE or own["largest"] % square:
            raise ValueError(
                f"load: {path}: a token is {square} x {square} pixels: need at most {LARGEST_SQUARE}, and tiles, "
                f"{own['largest']} (key 'clip.vision.preproc_image_size'), of whole ones"
            )
        area = row.module.area(config) if hasattr(row.module, "area") else own["pixels"][0]
        count = area // own["patch"] ** 2
        if count > MOST_ENLARGED:
            raise ValueError(
                f"load: {path}: the smallest picture becomes {area} pixels, {count} patches: need at most "
                f"{MOST_ENLARGED} (keys 'clip.vision.image_min_pixels' and 'clip.vision.image_max_pixels')"
            )


def smallest(row: Projector, config: Config) -> int:
    """Patches in a row and in a column of a picture that is encoded."""
    if hasattr(row.module, "sides"):  # pictures have any shape
        return row.module.sides(config)[1]
    return config.own["image"] // config.own["patch"]


class Graph(Prepared):
    """A prepared graph for tiles of one size.

    Args:
        tower: whose weights it uses.
        columns, rows: patches of a tile.

    Attributes:
        pixels: f32 [patches, 3 * P * P], filled in before `compute`.
        shape: tokens and dim of the result.
        points: the names of the values that can be traced and changed.
        traced: the values that are looked at, f32 [rows, elements].
    """

    def __init__(self, tower: Tower, columns: int, rows: int) -> None:
        super().__init__()
        self.pixels: np.ndarray = np.empty(0)
        self.shape = (0, 0)
        self._results: list[Any] = []  # the tensors that have the memory of the result, if that is not the graph's
        self._out: np.ndarray = np.empty(0)  # this memory, or that of the graph
        self.traced: dict[str, np.ndarray] = {}
        try:
            self._build(tower, columns, rows)
        except BaseException:
            self.close()
            raise

    def _build(self, tower: Tower, columns: int, rows: int) -> None:
        config = tower.config
        keep(self, "inputs_ctx", ggml.ggml_init, ggml.ggml_init_params(mem_size=0))
        keep(self, "ctx", ggml.ggml_init, ggml.ggml_init_params(mem_size=0, no_alloc=True))
        tracer = tower.tracer
        g, n, result = tower_nodes(
            self.inputs_ctx, self.ctx, tower.row, config, tower.file.tensors, columns, rows,
            traced=tracer.names if tracer is not None else (), edits=tower.edits,
        )  # fmt: skip
        self.points = list(g.points)
        self.graph = ggml.ggml_new_graph_custom(self.ctx, config.n_layer * NODES_PER_LAYER + 1024, False)
        ggml.ggml_set_output(result)
        ggml.ggml_build_forward_expand(self.graph, result)
        self.shape = ggml.ggml_nrows(result), result.contents.ne[0]
        values = {name: g.points[name] for name in self.points if name in g.traced}
        if not values and not result.contents.view_src:
            self._results = in_one_place(result)
            self._take()
        keep(self, "allocator", ggml.ggml_gallocr_new, ggml.ggml_backend_cpu_buffer_type())
        if not ggml.ggml_gallocr_alloc_graph(self.allocator, self.graph):
            raise MemoryError(f"load: no memory for a graph of {columns * rows} patches")
        self.pixels, self._out = (to_numpy(t).reshape(-1, t.contents.ne[0]) for t in (n, result))
        if self._results:
            self._give()
        self.traced = {name: to_numpy(t).reshape(-1, t.contents.ne[0]) for name, t in values.items()}

    def _take(self) -> None:
        """Gives the result memory that it does not share with other values, nor with results before."""
        self._out = memory_of_its_own(self.shape)
        for tensor in self._results:
            tensor.contents.data = self._out.ctypes.data

    def _give(self) -> np.ndarray:
        """What `_take` took, which is the caller's alone from now on."""
        out, self._out = self._out, np.empty(0)
        for tensor in self._results:
            tensor.contents.data = None
        return out

    def compute(self, threads: int) -> np.ndarray:
        """The result of the pixels, f32 [tokens, dim], which stays as it is.

        It is computed where it stays, as it may be larger than all else, unless the memory of other values holds it.
        """
        if not self._results:
            ggml.ggml_graph_compute_with_ctx(self.ctx, self.graph, threads)
            return self._out.copy()
        self._take()
        ggml.ggml_graph_compute_with_ctx(self.ctx, self.graph, threads)
        return self._give()

    def close(self) -> None:
        """Frees the graph and its memory."""
        self.pixels = self._out = np.empty(0)
        self._results, self.traced = [], {}
        self.free()


def tower_nodes(
    inputs_ctx: Any, ctx: Any, row: Projector, config: Config, weights: Mapping[str, Any], columns: int, rows: int,
    traced: Collection[str] = (), edits: Mapping[str, Sequence[Callable]] | None = None,
) -> tuple[Builder, Any, Any]:  # fmt: skip
    """Adds the nodes of an encoder with its projector to a context.

    Args:
        inputs_ctx: context for the inputs, whose tensors have memory.
        ctx: context for the nodes.
        columns, rows: patches of a tile.
        traced, edits: names of values that are looked at, and functions that change some.
    Returns:
        What built them, the pixels, f32 [3 P P, patches], and the result, f32 [dim, tokens].
    """
    patches, first = columns * rows, int("v.class_embd" in weights)
    inputs = ggml.ggml_new_tensor_2d(inputs_ctx, ggml.GGML_TYPE_F32, 3 * config.own["patch"] ** 2, patches)
    if first and hasattr(row.module, "sides"):
        raise ValueError("load: tensor 'v.class_embd' is there: need none, as it has no row and no column")
    module, ordered = row.module, np.arange(patches + first)
    if hasattr(module, "order"):
        ordered = module.order(config, columns, rows)
    values = ordered
    if hasattr(module, "lookup"):
        table = weights.get("v.position_embd.weight")
        values = module.lookup(columns, rows, table.contents.ne[1] if table is not None else 1)[ordered]
    if config.own["axial"]:  # a rotation takes four positions of each patch, or the first two of them
        values = np.zeros((4, patches), np.int32)
        values[:2] = module.positions(columns, rows)[:, ordered]
    ids, positions = (integers(inputs_ctx, array.reshape(-1)) for array in (ordered, values))
    g = Builder(ctx, config, weights, Inputs(ids, positions, {False: None}, 1), traced=traced, edits=edits)
    x = module.encode(g, inputs, columns) if hasattr(module, "encode") else encoder.encode(g, inputs)
    return g, inputs, g.point("v.result", module.project(g, x, columns))


def in_one_place(result: Any) -> list[Any]:
    """The tensors that lie where a result does: with a bias, also the product that it is added to."""
    t = result.contents
    product = t.op == ggml.GGML_OP_ADD and t.src[0].contents.op == ggml.GGML_OP_MUL_MAT
    return [result, t.src[0]] if product and t.src[1].contents.op == ggml.GGML_OP_NONE else [result]


def memory_of_its_own(shape: tuple[int, int]) -> np.ndarray:
    """An array f32. When a large one is dropped, the system has its memory back at once, whatever the heap does."""
    size = 4 * math.prod(shape)
    if size < LARGE_RESULT:
        return np.empty(shape, np.float32)
    private = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if os.name == "posix" else {}
    return np.frombuffer(mmap.mmap(-1, size, **private), np.float32).reshape(shape)


def integers(ctx: Any, values: np.ndarray) -> Any:
    """A tensor of integers; without values in a context without memory."""
    tensor = ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_I32, len(values))
    if tensor.contents.data:
        to_numpy(tensor)[...] = values
    return tensor


class Tower(Owner):
    """Encodes pictures. Calls of several threads must take turns.

    Args:
        file: path of a file, or one that is open and that the tower closes: its `metadata`, `tensors` and `path`.
        threads: threads to compute with.

    Attributes:
        row: of the table of projectors.
        config: sizes and settings.
        dim: elements of an embedding, with what layers of the language model add.
        points: the names of the values that can be traced and changed.
        edits, tracer: functions that change values, and what looks at some; see Model.edit and Model.trace.
    """

    def __init__(self, file: Any, threads: int = -1) -> None:
        self.threads = threads
        self.graphs: OrderedDict[tuple[int, int], Graph] = OrderedDict()
        self.known: OrderedDict[bytes, Encoded] = OrderedDict()
        self.edits: dict[str, list[Callable]] = {}
        self.tracer: Any = None
        self.file = ModelFile(file) if isinstance(file, (str, os.PathLike)) else file
        try:
            self.row, self.config = vision_config(self.file.metadata, self.file.path)
            side = smallest(self.row, self.config)
            first = self.graph(side, side)
            self.dim, self.points = first.shape[1], first.points
        except BaseException:
            self.close()
            raise

    def graph(self, columns: int, rows: int) -> Graph:
        """The graph for tiles of a size: one that was kept, or a new one."""
        key = columns, rows
        if key not in self.graphs:
            self.graphs[key] = Graph(self, columns, rows)
            while len(self.graphs) > KEPT_GRAPHS:
                self.graphs.popitem(last=False)[1].close()
        self.graphs.move_to_end(key)
        return self.graphs[key]

    def tiles(self, source: Any, caller: str) -> tuple[list[np.ndarray], Any]:
        """The pixels of the parts of a picture that are encoded, f32 [height, width, 3], and where they lie."""
        images, grid = self.row.module.tiles(self.config, open_picture(source, caller))
        own = self.config.own
        return [pixels.normalized(image, own["mean"], own["std"]) for image in images], grid

    def encode(self, source: Any, caller: str, most: int | None = None) -> Encoded:
        """A picture as embeddings; see open_picture for what it may be.

        Args:
            most: tokens that there is room for; a picture of any shape that has more is not computed.
        """
        tiles, grid = self.tiles(source, caller)
        if most is not None and hasattr(self.row.module, "sides"):
            square = math.prod(self.row.module.sides(self.config)) ** 2
            count = sum(tile.shape[0] * tile.shape[1] // square for tile in tiles)
            if count > most:
                raise ValueError(f"{caller}: a picture has {count} tokens, the context has room for {most} (n_ctx)")
        digest = blake2b(repr(([tile.shape for tile in tiles], grid)).encode())
        for tile in tiles:
            digest.update(np.ascontiguousarray(tile).data)
        key = digest.digest()
        found = self.known.get(key)
        if found is None:
            rows, module = [self._compute(tile) for tile in tiles], self.row.module
            rows = module.split(self.config, rows, grid) if hasattr(module, "split") else rows
            places = module.places(grid) if hasattr(module, "places") else None
            found = self.known[key] = Encoded(rows, module.prompt(grid), places)
        self.known.move_to_end(key)
        while len(self.known) > 1 and sum(t.nbytes for e in self.known.values() for t in e.tiles) > KEPT_BYTES:
            self.known.popitem(last=False)
        return found

    def _compute(self, tile: np.ndarray) -> np.ndarray:
        """The embeddings of a tile: f32 [tokens, dim]."""
        side = self.config.own["patch"]
        step = self.graph(tile.shape[1] // side, tile.shape[0] // side)
        pixels.patches(tile, side, step.pixels)
        out = step.compute(self.threads)
        if self.tracer is not None:
            self.tracer.collect(step)
        out.flags.writeable = False
        return out

    def forget(self) -> None:
        """Frees the graphs and forgets pictures: what graphs are built of changes."""
        self.known.clear()
        while self.graphs:
            self.graphs.popitem()[1].close()

    def close(self) -> None:
        """Frees the graphs, and the memory or the mapping of the file."""
        self.forget()
        if hasattr(self, "file"):
            self.file.close()
