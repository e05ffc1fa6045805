"""Tensor parallelism: a model whose matrices are divided among the ranks of a communicator.

Every matrix is divided by its rows, the outputs of a linear layer; so each rank computes some of the outputs with the
whole of the input, and an all_gather joins them where the next layer needs all. No sum is divided: the results are
those of one rank, and rows are consecutive in the file, of which a rank therefore maps its part only.

    attn_q, attn_k, attn_v       the rows of this rank's heads, if the heads can be shared out; else equal shares
    ffn_gate, ffn_up             equal shares; what follows is computed on this rank's part. Beside experts: as those
    attn_output, ffn_down        equal shares; input and output are gathered
    ffn_*_exps, ffn_*_shexp      equal shares of each expert's rows; the output is gathered
    token_embd, output           equal shares of the vocabulary; the embeddings are summed, the logits gathered

Norms, position tables and routers are replicated. A norm of what the ranks have parts of gathers it first.
"""

from __future__ import annotations

import ctypes
import mmap
from dataclasses import replace
from typing import Any

import numpy as np

import ggml
from ggml.distributed import Communicator
from ggml.utils import to_numpy

from ..._owners import Held, Owner
from ...distributed._node_maker import custom_node
from ...distributed._reduce import shares
from ..arch import caches_of
from ..arch.base import Builder, Tensor
from ..arch.keeps import States, parts_of
from ..conversion.folder import FolderFile
from ..files.config import Config
from ..files.model_file import ModelFile

WHOLE_INPUT = ("attn_output", "ffn_down")  # their inputs are gathered
VOCABULARY = ("token_embd", "output")
EXPERTS = ("_exps", "_shexp")  # ends of the names of experts' matrices
ROUTERS = "gate_inp"
HEAD_VECTORS = ("attn_sinks",)  # an element for each head
Range = tuple[int, int]  # first row, number of rows


def share_of(n: int, comm: Communicator) -> Range:
    """This rank's share of n rows."""
    sizes = shares(n, comm.size)
    return sum(sizes[: comm.rank]), sizes[comm.rank]


class Split(Owner):
    """How a model is divided, and this rank's part of its tensors.

    Args:
        comm: the ranks.
        config: sizes of the whole model.
        file: the model file.
        copy: whether to copy this rank's parts into memory instead of using the file's pages.

    Attributes:
        config: sizes of this rank's part, with which its graphs are built.
        heads: whether the attention heads are shared out; else all ranks compute all heads.
        weights: this rank's parts of the tensors.
        replicated: sizes in bytes of the tensors that every rank has as a whole, by name.
        bytes: size of this rank's tensors.
    """

    def __init__(self, comm: Communicator, config: Config, file: ModelFile | FolderFile, copy: bool) -> None:
        self.comm, self.whole, self.file, self.copy = comm, config, file, copy
        if any(isinstance(kept, States) for spec in caches_of(config) for kept in parts_of(spec)):
            raise ValueError(f"load: comm: architecture {config.arch!r} can't be divided among ranks")
        n, g = comm.size, config.n_head_kv
        smallest = min(config.n_embd, config.n_vocab, config.n_ff)
        if n > smallest:
            raise ValueError(f"load: comm has {n} ranks: need {smallest} or fewer for this model")
        norm = file.tensors.get("blk.0.attn_k_norm.weight")
        together = norm is not None and norm.contents.ne[0] > config.key_dim  # a norm of all heads: each counts once
        self.heads = config.n_head % n == 0 and (g % n == 0 or (n % g == 0 and not together))
        local = replace(config, n_vocab=share_of(config.n_vocab, comm)[1])
        if not config.n_expert:
            local = replace(local, n_ff=share_of(config.n_ff, comm)[1])
        if self.heads:
            local = replace(local, n_head=config.n_head // n, n_head_kv=max(1, g // n))
        self.config = local
        self.cache_config = replace(local, n_vocab=config.n_vocab)  # tokens are those of the whole vocabulary
        self.replicated: dict[str, int] = {}
        self.weights: dict[str, Tensor] = {}
        self.bytes = 0
        self._contexts, self._buffers = Held(ggml.ggml_free), Held(ggml.ggml_backend_buffer_free)
        self.ctx = self._contexts.new(ggml.ggml_init, ggml.ggml_init_params(mem_size=0, no_alloc=True))
        try:
            for name, tensor in file.tensors.items():
                self._add(name, tensor)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self.weights.clear()
        self._contexts.free()
        self._buffers.free()

    # ---- which rows --------------------------------------------------------------------------------------------------
    def ranges(self, name: str, n: int) -> list[Range] | None:
        """This rank's rows of a tensor with n rows (the elements of a bias), or None for all of them."""
        c, (base, _, _) = self.whole, name.rpartition(".")
        part = base.rpartition(".")[2]
        if part in VOCABULARY or part in WHOLE_INPUT:
            return [share_of(n, self.comm)]
        if part in ("ffn_gate", "ffn_up") or (part.endswith(EXPERTS) and ROUTERS not in part):
            return self._halves(n) if self._is_fused(base) else [share_of(n, self.comm)]
        if part in HEAD_VECTORS:
            return [self._heads(n, 1)] if self.heads else None
        if part in ("attn_q", "attn_k", "attn_v", "attn_qkv"):
            if not self.heads:
                return [share_of(n, self.comm)]
            rows = {"attn_q": (c.n_head, c.key_dim), "attn_k": (c.n_head_kv, c.key_dim),
                    "attn_v": (c.n_head_kv, c.value_dim)}  # fmt: skip
            if part != "attn_qkv":
                return [self._heads(*rows[part])]
            found, first = [], 0
            for count, dim in rows.values():
                start, size = self._heads(count, dim)
                found.append((first + start, size))
                first += count * dim
            return found
        return None

    def _is_fused(self, base: str) -> bool:
        """Whether a matrix ffn_up also has the rows of the gate, which precede it."""
        gate = base.replace("ffn_up", "ffn_gate") + ".weight"
        up = self.file.tensors.get(base + ".weight")
        fused = not self.whole.n_expert and base.endswith("ffn_up") and gate not in self.file.tensors
        return fused and up is not None and up.contents.ne[1] == 2 * self.whole.n_ff

    def _halves(self, n: int) -> list[Range]:
        """This rank's rows of the gate, and of what it multiplies."""
        first, count = share_of(n // 2, self.comm)
        return [(first, count), (n // 2 + first, count)]

    def _heads(self, count: int, dim: int) -> Range:
        """The rows of this rank's heads, of `count` heads with `dim` rows each; several ranks may have the same one."""
        size = self.comm.size
        return self.comm.rank * count // size * dim, max(1, count // size) * dim

    def sizes(self, n: int) -> list[int]:
        """The ranks' shares of n rows."""
        return shares(n, self.comm.size)

    # ---- tensors -----------------------------------------------------------------------------------------------------
    def _add(self, name: str, tensor: Tensor) -> None:
        t = tensor.contents
        is_bias = t.ne[1] == 1 and (name.endswith(".bias") or name.rpartition(".")[0].endswith(HEAD_VECTORS))
        stacked = name.endswith("_exps.weight")
        whole = (t.ne[2] > 1) != stacked or name.endswith("_exps.bias") or not name.endswith((".weight", ".bias"))
        ranges = None if whole else self.ranges(name, t.ne[0] if is_bias else t.ne[1])
        if ranges is None:
            self.replicated[name] = ggml.ggml_nbytes(tensor)
            part = tensor
        else:
            part = self._part(name, tensor, ranges, is_bias)
        self.weights[name] = part
        self.bytes += ggml.ggml_nbytes(part)

    def _part(self, name: str, tensor: Tensor, ranges: list[Range], is_bias: bool) -> Tensor:
        """A tensor of some rows: in pages of the file that are mapped for it, or in memory of its own."""
        t, rows = tensor.contents, sum(count for _, count in ranges)
        stride = t.nb[0] if is_bias else t.nb[1]
        memory: Any
        if self.copy or len(ranges) > 1 or t.ne[2] > 1 or name not in self.file.places:
            memory = np.empty(rows * stride * t.ne[2], np.uint8)
            place = memory.ctypes.data
            for matrix in range(t.ne[2]):
                for first, count in ranges:
                    ctypes.memmove(place, t.data + matrix * t.nb[2] + first * stride, count * stride)
                    place += count * stride
        else:
            path, offset = self.file.places[name]
            memory = mapped(path, offset + ranges[0][0] * stride, rows * stride)
        buffer = self._buffers.new(ggml.ggml_backend_cpu_buffer_from_ptr, memory, memory.size)
        ne = (rows, 1, 1) if is_bias else (t.ne[0], rows, t.ne[2])
        part = ggml.ggml_new_tensor_3d(self.ctx, t.type, *ne)
        ggml.ggml_backend_tensor_alloc(buffer, part, memory.ctypes.data)
        return part

    def builder(self, *args: Any, **options: Any) -> SplitBuilder:
        return SplitBuilder(self, *args, **options)


def mapped(path: str, offset: int, size: int) -> np.ndarray:
    """Bytes of a file, in pages that are read on first use. A separate mapping keeps the system from reading more."""
    begin = offset // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
    with open(path, "rb") as file:
        pages = mmap.mmap(file.fileno(), offset + size - begin, access=mmap.ACCESS_READ, offset=begin)
    return np.frombuffer(pages, np.uint8)[offset - begin :]


class SplitBuilder(Builder):
    """Adds the nodes of this rank's part of a model to a context."""

    def __init__(self, split: Split, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.parted, self.comm, self.whole = split, split.comm, split.whole

    def gathered(self, x: Tensor, n: int) -> Tensor:
        """All n outputs, [n, N], of which x has this rank's."""
        return self.comm.all_gather(self.ctx, x, 0, self.parted.sizes(n))

    def linear(self, x: Tensor, name: str, n_out: int) -> Tensor:
        part = name.rpartition(".")[2]
        if part in VOCABULARY:  # Builder.output asks for this rank's share
            return super().linear(x, name, n_out)
        if part in WHOLE_INPUT and x.contents.ne[0] != self.n_in(name):
            x = self.gathered(x, self.n_in(name))
        ranges = self.parted.ranges(name + ".weight", n_out)
        beside_experts = part.endswith(EXPERTS) or (part in ("ffn_gate", "ffn_up") and self.whole.n_expert > 0)
        divided = part in WHOLE_INPUT or beside_experts or (part.startswith("attn_") and not self.parted.heads)
        if ranges is None or not divided:
            return super().linear(x, name, n_out)
        return self.gathered(super().linear(x, name, ranges[0][1]), n_out)

    def product_of_experts(self, x: Tensor, name: str, n_out: int, chosen: Tensor) -> Tensor:
        if self.parted.whole.n_expert == 1:
            return super().product_of_experts(x, name, n_out, chosen)
        return self.gathered(super().product_of_experts(x, name, share_of(n_out, self.comm)[1], chosen), n_out)

    def rms_norm(self, x: Tensor, name: str) -> Tensor:
        """The norm of all of x, of which this rank may have a part; then only that of q and k is divided again."""
        n, part = self.n_in(name), x.contents.ne[0]
        if n == part:
            return super().rms_norm(x, name)
        y = super().rms_norm(self.gathered(x, n), name)
        if not name.endswith(("attn_q_norm", "attn_k_norm")):
            return y
        rows = y.contents.ne[1]
        return ggml.ggml_cont(
            self.ctx, ggml.ggml_view_2d(self.ctx, y, part, rows, y.contents.nb[1], 4 * part * self.comm.rank)
        )

    def n_in(self, name: str) -> int:
        """The number of inputs of a linear layer."""
        weight = self.weights.get(name + ".weight")
        if weight is None:
            raise ValueError(f"load: tensor {name + '.weight'!r} is missing: {self.config.arch!r} needs it")
        return weight.contents.ne[0]

    def embedding(self, ids: Tensor, name: str, rows: int, width: int = 0) -> Tensor:
        """Each rank looks up the ids of its share of the vocabulary; the sum with the others' zeros has all."""
        if name != "token_embd":
            return super().embedding(ids, name, rows, width)
        first, count = share_of(self.whole.n_vocab, self.comm)
        comm = self.comm

        def own(result: Tensor, ith: int, nth: int, userdata: Any) -> None:
            values = to_numpy(result.contents.src[0])
            comm.agree(f"tokens {len(values)}: {values.tolist()}")
            np.clip(values - first, 0, count - 1, out=to_numpy(result))

        def clear(result: Tensor, ith: int, nth: int, userdata: Any) -> None:
            values = to_numpy(result.contents.src[1]) - first
            to_numpy(result).reshape(len(values), -1)[(values < 0) | (values >= count)] = 0

        operands: Any = [ids]
        local = custom_node(self.ctx, ggml.GGML_TYPE_I32, [self.n_tokens, 1, 1, 1], operands, own)
        x = super().embedding(local, name, rows, width)
        x = ggml.ggml_custom_inplace(self.ctx, x, operands, 1, clear, 1, None)
        return comm.all_reduce(self.ctx, x, order="rank")

    def output(self, x: Tensor) -> Tensor:
        return self.gathered(super().output(x), self.whole.n_vocab)
