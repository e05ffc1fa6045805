"""The parts of which the architectures are built: each method adds the nodes of one part to a graph.

Shapes are in ggml order, innermost dimension first. N tokens are computed together, those of a sequence one after the
other. C is the width of the model, D the size of a head, H the number of heads of queries and G that of keys and
values. x [C, N] is the residual stream.

The same functions serve inference and training. With caches, the N tokens are any mixture of parts of sequences; what
layers keep of them is stored, and attention reads all of each sequence. Without caches, the tokens are T of each of S
texts, attention sees these only, and every node has a gradient.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import ggml
from ggml.utils import to_numpy

from ..files.config import Config, Rope

Tensor = Any  # POINTER(ggml_tensor)
SECTIONED = (ggml.GGML_ROPE_TYPE_MROPE, ggml.GGML_ROPE_TYPE_IMROPE)  # rotary positions of four dimensions
FLOATS = (ggml.GGML_TYPE_F32, ggml.GGML_TYPE_F16, ggml.GGML_TYPE_BF16)


class Pair(NamedTuple):
    """A low-rank adapter of one weight: W x + scale B (A x)."""

    a: Tensor  # [n_in, rank]
    b: Tensor  # [rank, n_out]
    scale: float
    name: str | None = None  # of an adapter that some of the tokens have, see Inputs.adapters; None: all have it


class Routing(NamedTuple):
    """How a mixture of experts chooses the experts of a token, and their weights.

    Attributes:
        score: "softmax" or "sigmoid": what makes scores of the router's logits.
        late: True to choose by the logits, and to make scores of those of the chosen experts only.
        bias: name of a bias [n_expert] that is added to choose, but not to weigh; "" for none.
        groups: experts are divided into so many groups; only those of the best ones can be chosen. 0 for no groups.
        groups_used: number of groups that are kept: those with the largest sums of their best scores.
        group_best: how many of the scores of a group are summed.
        normalized: True to divide the weights by their sum.
        before: True to multiply what the experts read by the weights, instead of what they give.
    """

    score: str = "softmax"
    late: bool = False
    bias: str = ""
    groups: int = 0
    groups_used: int = 0
    group_best: int = 2
    normalized: bool = True
    before: bool = False


USUAL_ROUTING = Routing()


EXPERT_ROWS = 48  # rows of an expert from which on products have the same bits for any number of them


class Pages(NamedTuple):
    """Where the keys and values of the sequences of a batch lie."""

    table: Tensor  # i32 [3 + pages, sequences], see ggml.ext.paged_attention
    cells: Tensor  # i64 [N]: the cells in which those of the batch are stored


class Inputs(NamedTuple):
    """The tensors that a step fills in.

    Attributes:
        ids, positions: i32 [N].
        types: without caches, i32 [N]: which text of a pair a token is of, 0 or 1; None if all are of the first.
        buckets: without caches, i32 [T T], of a model whose scores depend on the distance of tokens (arch/t5.py).
        masks: without caches, by "has a sliding window": f16 [T, T, 1, S], 0 or -inf.
        n_sequences: S; 1 for a batch whose sequences may have different numbers of tokens.
        outputs: i32 [M], the tokens whose result is needed; None for all.
        pages: with caches, by the window of layers, 0 for all tokens.
        slots: i32 [S], where the states of the sequences lie, of a model that has some.
        exact: True if no bit of a token's result may depend on the other tokens.
        vectors, texts: f32 [inputs, N] and [1, N]: embeddings in place of those of ids, each with the vectors that some
            layers add, and 0 where there is one, else 1.
        places: i32 [4 N], the positions of pictures' tokens in four dimensions; None where all are those of texts.
        before: of layers that predict further tokens, f32 [C, N]: the states of the tokens before, see further.py.
        states: True if the states of all tokens are needed beside the result.
        adapters: f32 [1, N] by the name of an adapter: 1 for tokens that have it, else 0.
    """

    ids: Tensor
    positions: Tensor
    masks: Mapping[bool, Tensor | None]
    n_sequences: int
    outputs: Tensor | None = None
    pages: Mapping[int, Pages] = {}
    slots: Tensor | None = None
    exact: bool = False
    types: Tensor | None = None
    vectors: Tensor | None = None
    texts: Tensor | None = None
    places: Tensor | None = None
    buckets: Tensor | None = None
    before: Tensor | None = None
    states: bool = False
    adapters: Mapping[str, Tensor] = {}


class Linear:
    """Weights, and the products with them."""

    def __init__(
        self,
        ctx: Any,
        config: Config,
        weights: Mapping[str, Tensor],
        inputs: Inputs,
        caches: Sequence[Mapping[str, Any]] | None = None,
        adapters: Mapping[str, Sequence[Pair]] | None = None,
        traced: Collection[str] = (),
        edits: Mapping[str, Sequence[Callable]] | None = None,
    ) -> None:
        self.ctx, self.config, self.weights, self.inputs, self.caches = ctx, config, weights, inputs, caches
        self.whole = config  # sizes of the whole model, where config has those of a rank's part
        self.adapters, self.edits = adapters or {}, edits or {}
        self.traced = set(traced)
        self.stored: dict[Any, Any] = {}  # keys and values, by the cache that has them; without caches by layer
        self.passed: dict[str, Any] = {}  # what a function of the architecture leaves for those that follow
        self.effects: list[Tensor] = []  # nodes beside those that the result depends on: what is stored for later
        self.points: dict[str, Tensor] = {}  # every point that was built
        self.points_of_results: Collection[str] = ()  # those that follow `last`
        self.n_tokens = inputs.ids.contents.ne[0]

    def has(self, name: str) -> bool:
        return name in self.weights

    def weight(self, name: str, *ne: int) -> Tensor:
        """The tensor of a name, whose shape must be `ne`."""
        tensor = self.weights.get(name)
        if tensor is None:
            raise ValueError(f"load: tensor {name!r} is missing: an architecture {self.config.arch!r} needs it")
        shape = list(tensor.contents.ne)
        if shape != [*ne, *[1] * (4 - len(ne))]:
            given = " x ".join(map(str, shape[: max(len(ne), 1 + max(i for i in range(4) if i == 0 or shape[i] != 1))]))
            raise ValueError(f"load: tensor {name!r} is {given}: need {' x '.join(map(str, ne))}")
        kind = tensor.contents.type
        if kind not in FLOATS and (len(ne) == 1 or not ggml.ggml_is_quantized(kind)):
            need = "f32, f16 or bf16" if len(ne) == 1 else "a float type or a quantised one"
            raise ValueError(f"load: tensor {name!r} is {ggml.ggml_type_name(kind).decode()}: need {need}")
        return tensor

    def check_undivided(self) -> None:
        """Refuses to build a rank's part, of an architecture whose matrices are divided otherwise."""
        if self.config is not self.whole:
            raise ValueError(f"load: comm: architecture {self.config.arch!r} can't be divided among ranks")

    def point(self, name: str, x: Tensor) -> Tensor:
        """Names a value: it can be traced, and edits change it on the way."""
        for edit in self.edits.get(name, ()):
            x = ggml.ggml_map_custom1(self.ctx, x, edited_by(edit, name), 1, None)
        self.points[name] = x
        if not x.contents.name and not name.endswith(".in"):
            ggml.ggml_set_name(x, name.encode()[:63])  # profiles show it
        if name in self.traced:
            if not ggml.ggml_is_contiguous(x):
                x = self.points[name] = ggml.ggml_cont(self.ctx, x)
            ggml.ggml_set_output(x)
        return x

    def linear(self, x: Tensor, name: str, n_out: int) -> Tensor:
        """W x + b, with the adapters of W: [n_out, N] from x [n_in, N]. b is added where the file has one."""
        w = self.weight(name + ".weight", x.contents.ne[0], n_out)
        x = self.point(name + ".in", x)
        y = ggml.ggml_mul_mat(self.ctx, w, x)
        for pair in self.adapters.get(name + ".weight", ()):
            low = self.of_its_tokens(ggml.ggml_mul_mat(self.ctx, pair.a, x), pair)
            low = ggml.ggml_mul_mat(self.ctx, pair.b, low)
            y = ggml.ggml_add(self.ctx, y, ggml.ggml_scale(self.ctx, low, pair.scale))
        return self.bias(y, name)

    def of_its_tokens(self, low: Tensor, pair: Pair) -> Tensor:
        """A x [rank, ...] of an adapter: 0 where a token does not have it."""
        if pair.name is None:
            return low
        mask, (count, *more) = self.inputs.adapters[pair.name], low.contents.ne[1:4]
        if self.inputs.outputs is not None and count * more[0] * more[1] == self.inputs.outputs.contents.ne[0]:
            mask = ggml.ggml_get_rows(self.ctx, mask, self.inputs.outputs)
        rows = mask.contents.ne[1]
        if count * more[0] * more[1] == rows:
            mask = ggml.ggml_reshape_4d(self.ctx, mask, 1, count, *more)
        elif more[0] == rows and more[1] == 1:  # several rows for each token
            mask = ggml.ggml_reshape_3d(self.ctx, mask, 1, 1, rows)
        else:
            shape = f"{count} x {more[0]} x {more[1]}"
            raise ValueError(f"add_adapter: {pair.name!r}: a matrix has {shape} rows, not {rows}: need load(lora=)")
        return ggml.ggml_mul(self.ctx, low, mask)

    def bias(self, y: Tensor, name: str) -> Tensor:
        """y + b, where the file has a bias of that name."""
        if not self.has(name + ".bias"):
            return y
        return ggml.ggml_add(self.ctx, y, self.weight(name + ".bias", y.contents.ne[0]))

    def embedding(self, ids: Tensor, name: str, rows: int, width: int = 0) -> Tensor:
        """Rows of a table [width, rows], C wide if 0 is given: [width, N]."""
        table = self.weight(name + ".weight", width or self.config.n_embd, rows)
        y = ggml.ggml_get_rows(self.ctx, table, ids)
        for pair in self.adapters.get(name + ".weight", ()):  # the table is transposed: A is [rank, rows], B [rank, C]
            low = self.of_its_tokens(ggml.ggml_get_rows(self.ctx, pair.a, ids), pair)
            low = ggml.ggml_mul_mat(self.ctx, pair.b, low)
            y = ggml.ggml_add(self.ctx, y, ggml.ggml_scale(self.ctx, low, pair.scale))
        return y

    def with_pictures(self, x: Tensor) -> Tensor:
        """x with embeddings of pictures in place of those of tokens, in graphs that may have some."""
        if self.inputs.vectors is None:
            return x
        return ggml.ggml_add(self.ctx, ggml.ggml_mul(self.ctx, x, self.inputs.texts), self.of_pictures(0))

    def of_pictures(self, layer: int) -> Tensor:
        """The vectors of a picture's tokens: for 0 their embeddings, else what layer - 1 adds; a text's are 0."""
        vectors, width = self.inputs.vectors, self.config.n_embd
        assert vectors is not None
        row = vectors.contents.nb[1]
        return ggml.ggml_view_2d(self.ctx, vectors, width, self.n_tokens, row, 4 * width * layer)


class Norms(Linear):
    """Sums, factors, norms, limits."""

    def add(self, a: Tensor, b: Tensor) -> Tensor:
        return ggml.ggml_add(self.ctx, a, b)

    def scale(self, x: Tensor, factor: float) -> Tensor:
        return ggml.ggml_scale(self.ctx, x, factor)

    def rms_norm(self, x: Tensor, name: str) -> Tensor:
        """x / sqrt(mean(x^2) + eps) * w, by rows."""
        w = self.weight(name + ".weight", x.contents.ne[0])
        return ggml.ggml_mul(self.ctx, ggml.ggml_rms_norm(self.ctx, x, self.config.eps), w)

    def layer_norm(self, x: Tensor, name: str) -> Tensor:
        """(x - mean(x)) / sqrt(variance(x) + eps) * w + b, by rows."""
        w = self.weight(name + ".weight", x.contents.ne[0])
        return self.bias(ggml.ggml_mul(self.ctx, ggml.ggml_norm(self.ctx, x, self.config.eps), w), name)

    def softcap(self, x: Tensor, limit: float) -> Tensor:
        """limit * tanh(x / limit); x itself for limit 0."""
        if limit == 0:
            return x
        return self.scale(ggml.ggml_tanh(self.ctx, self.scale(x, 1 / limit)), limit)

    def default_scale(self) -> float:
        """1 / sqrt(D), the usual factor of attention scores."""
        return 1 / math.sqrt(self.config.key_dim)


class Attention(Norms):
    """Heads, rotary positions, attention."""

    def heads(self, x: Tensor, n: int) -> Tensor:
        """The n heads of each token: [D, n, N] from x [D n, N]."""
        return ggml.ggml_reshape_3d(self.ctx, x, x.contents.ne[0] // n, n, self.n_tokens)

    def split(self, x: Tensor, *counts: int) -> list[Tensor]:
        """Consecutive heads of x [D sum(counts), N] as views [D, count, N]."""
        size, row = x.contents.ne[0] // sum(counts), x.contents.nb[1]
        parts, first = [], 0
        for count in counts:
            view = ggml.ggml_view_3d(self.ctx, x, size, count, self.n_tokens, 4 * size, row, 4 * size * first)
            parts.append(view)
            first += count
        return parts

    def rope(self, x: Tensor, mode: int, rope: Rope, factors: Tensor | None = None, n_rot: int = 0) -> Tensor:
        """Rotary positions (arXiv:2104.09864): pairs of elements of x [D, heads, N] are rotated by the position.

        factors: divisors of the frequencies, [n_rot / 2]; n_rot: elements that are rotated, those of the config for 0.
        """
        n_rot = n_rot or self.config.n_rot
        if mode in SECTIONED and self.inputs.places is not None:
            sections = (ctypes.c_int * 4)(*self.config.sections)
            return ggml.ggml_rope_multi(
                self.ctx, x, self.inputs.places, factors, n_rot, sections, mode, *rope.arguments()
            )
        if mode in SECTIONED:  # the positions of a text's token are equal
            mode = ggml.GGML_ROPE_TYPE_NEOX
        return ggml.ggml_rope_ext(self.ctx, x, self.inputs.positions, factors, n_rot, mode, *rope.arguments())

    def attention(
        self,
        layer: int,
        q: Tensor,
        k: Tensor | None,
        v: Tensor | None,
        scale: float,
        sinks: Tensor | None = None,
        shared: int | None = None,
    ) -> Tensor:
        """soft_max(scale k^T q + mask) v, the heads side by side: [D H, N] from q [D, H, N], k and v [D, G, N].

        sinks: f32 [H], a further score of each head without a value; or None.
        shared: the layer whose k and v this one reads, which has none then; see keeps.Shared.
        """
        if self.caches is not None:
            y = self.caches[layer]["attention"].attention(self, q, k, v, scale, sinks)
            return ggml.ggml_reshape_2d(self.ctx, y, y.contents.ne[0] * y.contents.ne[1], self.n_tokens)
        if shared is not None:
            k, v = self.stored[shared]
        self.stored[layer] = k, v
        sequences = self.inputs.n_sequences
        n = self.n_tokens // sequences

        def by_head(t: Tensor) -> Tensor:
            """[D, heads, N] as [D, T, heads, S]."""
            if sequences > 1:
                (size, count), nb = t.contents.ne[:2], t.contents.nb
                t = ggml.ggml_view_4d(self.ctx, t, size, count, n, sequences, nb[1], nb[2], n * nb[2], 0)
            return ggml.ggml_permute(self.ctx, t, 0, 2, 1, 3)

        mask = self.inputs.masks[self.config.local[layer]]
        alibi = self.config.own.get("alibi", 0.0) if mask is not None else 0.0
        y = ggml.ggml_flash_attn_ext(
            self.ctx, by_head(q), by_head(k), by_head(v), mask, scale, alibi, self.config.attn_softcap
        )  # [D, H, T, S]
        if sinks is not None:
            ggml.ggml_flash_attn_ext_add_sinks(y, sinks)
        return ggml.ggml_reshape_2d(self.ctx, y, y.contents.ne[0] * y.contents.ne[1], self.n_tokens)

    def short_conv(self, layer: int, x: Tensor, name: str, taps: int) -> Tensor:
        """A convolution over the tokens of each sequence, channel by channel: [channels, N] from x [channels, N].

        y[t] = b + sum over j of w[j] * x[t - taps + 1 + j]; what precedes the first token is zero.
        """
        w = self.weight(name + ".weight", taps, x.contents.ne[0])
        if self.caches is not None:
            return self.bias(self.caches[layer]["conv"].conv(self, x, w), name)
        (channels, n), nb, sequences = x.contents.ne[:2], x.contents.nb, self.inputs.n_sequences
        n //= sequences
        x = ggml.ggml_view_3d(self.ctx, x, channels, n, sequences, nb[1], n * nb[1], 0)
        x = ggml.ggml_cont(self.ctx, ggml.ggml_transpose(self.ctx, x))
        x = ggml.ggml_pad_ext(self.ctx, x, taps - 1, 0, 0, 0, 0, 0, 0, 0)
        y = ggml.ggml_ssm_conv(self.ctx, x, w)
        return self.bias(ggml.ggml_reshape_2d(self.ctx, y, channels, self.n_tokens), name)

    def state(self, layer: int, size: int) -> Tensor:
        """The states of a layer before the tokens of the batch: [size, S], f32; zeros at the beginning of a text."""
        if self.caches is not None:
            return self.caches[layer]["state"].state(self)
        zeros = ggml.ggml_new_tensor_2d(self.ctx, ggml.GGML_TYPE_F32, size, self.inputs.n_sequences)
        return ggml.ggml_fill(self.ctx, zeros, 0.0)

    def states_and_places(self, layer: int, size: int) -> tuple[Tensor, Tensor]:
        """The states of all sequences, [size, slots], and those of the batch among them, i32 [S]: nothing is copied."""
        if self.caches is not None:
            return self.caches[layer]["state"].tensor, self.inputs.slots
        numbers = ggml.ggml_arange(self.ctx, 0, self.inputs.n_sequences, 1)
        return self.state(layer, size), ggml.ggml_cast(self.ctx, numbers, ggml.GGML_TYPE_I32)

    def keep(self, layer: int, state: Tensor) -> None:
        """Keeps the states of a layer after the tokens of the batch, [size, S], for those that follow."""
        if self.caches is not None:
            self.caches[layer]["state"].keep(self, state)

    def queries_keys_values(self, layer: int, x: Tensor) -> list[Tensor]:
        """q [D, H, N], k and v [D, G, N] of x [C, N], by one matrix or by three."""
        c, b = self.config, f"blk.{layer}."
        if self.has(b + "attn_qkv.weight"):
            qkv = self.linear(x, b + "attn_qkv", (c.n_head + 2 * c.n_head_kv) * c.key_dim)
            return self.split(qkv, c.n_head, c.n_head_kv, c.n_head_kv)
        sizes = {"attn_q": (c.n_head, c.key_dim), "attn_k": (c.n_head_kv, c.key_dim),
                 "attn_v": (c.n_head_kv, c.value_dim)}  # fmt: skip
        return [self.heads(self.linear(x, b + name, n * dim), n) for name, (n, dim) in sizes.items()]

    def frequency_factors(self) -> Tensor | None:
        """The divisors of the frequencies that a file has, or None.

        LongRoPE (arXiv:2402.13753) has two sets: one for contexts up to that of the training, one for longer ones.
        """
        c = self.config
        if c.rope.ext_factor and not c.yarn_truncate:
            return self.yarn_divisors()
        names = ["rope_freqs.weight", f"rope_factors_{'long' if c.n_ctx > c.rope.n_ctx_orig else 'short'}.weight"]
        return next((self.weight(name, c.n_rot // 2) for name in names if self.has(name)), None)

    def yarn_divisors(self) -> Tensor:
        """The divisors of the frequencies by YaRN (arXiv:2309.00071) without rounding, which ggml_rope_ext does."""
        ctx, n, rope = self.ctx, self.config.n_rot, self.config.rope
        low, high = (
            n * math.log(rope.n_ctx_orig / (beta * 2 * math.pi)) / (2 * math.log(rope.freq_base))
            for beta in (rope.beta_fast, rope.beta_slow)
        )
        low, high = max(low, 0.0), min(high, n - 1.0)
        width = max(high - low, 1e-3)
        ramp = ggml.ggml_scale_bias(ctx, ggml.ggml_arange(ctx, 0, n // 2, 1), 1 / width, -low / width)
        ramp = ggml.ggml_clamp(ctx, ramp, 0.0, 1.0)
        frequencies = ggml.ggml_scale_bias(ctx, ramp, rope.freq_scale - 1, 1.0)
        return ggml.ggml_div(ctx, ggml.ggml_fill(ctx, ramp, 1.0), frequencies)

    def rotation(self, layer: int) -> tuple[Rope, Tensor | None]:
        """The rotary positions of a layer, and the divisors of their frequencies."""
        c = self.config
        if c.local[layer] and not c.scaled_local:
            return c.rope_local, None
        rope = c.rope
        if rope.ext_factor and not c.yarn_truncate:
            magnitude = rope.attn_factor * (1 - 0.1 * math.log(rope.freq_scale))
            rope = replace(rope, freq_scale=1.0, ext_factor=0.0, attn_factor=magnitude)
        return rope, self.frequency_factors()

    def rotated(self, layer: int, *heads: Tensor) -> list[Tensor]:
        """Rotary positions of q and k, as the layer has them."""
        rope, factors = self.rotation(layer)
        assert self.config.rope_mode is not None
        return [self.rope(x, self.config.rope_mode, rope, factors) for x in heads]

    def attended(
        self, layer: int, q: Tensor, k: Tensor, v: Tensor, scale: float = 0.0, sinks: Tensor | None = None
    ) -> Tensor:
        """Attention and its output matrix: [C, N]. Scores are multiplied by `scale`, by default_scale() for 0."""
        b = f"blk.{layer}."
        h = self.attention(layer, q, k, v, scale or self.default_scale(), sinks)
        return self.point(b + "attn_out", self.linear(h, b + "attn_output", self.config.n_embd))

    def head_norms(self, layer: int, q: Tensor, k: Tensor) -> list[Tensor]:
        """q and k with their norms."""
        return [self.rms_norm(x, f"blk.{layer}.attn_{name}_norm") for x, name in ((q, "q"), (k, "k"))]

    def self_attention(
        self, layer: int, x: Tensor, *, normed: str = "", rotates: bool = True, scale: float = 0.0,
        factor: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        """The first half of a layer, attention(norm(x)): [C, N] of the residual stream x [C, N].

        Args:
            layer: its number.
            x: the residual stream.
            normed: "before" or "after": when the heads of q and k are normed, before their rotation or after it.
            rotates: whether the layer has positions.
            scale: factor of the scores; 0 for default_scale().
            factor: factor of the queries of each token, [1, 1, N]; or None.
        """
        b = f"blk.{layer}."
        h = self.point(b + "attn_norm", self.rms_norm(x, b + "attn_norm"))
        q, k, v = self.queries_keys_values(layer, h)
        if normed == "before":
            q, k = self.head_norms(layer, q, k)
        if rotates:
            q, k = self.rotated(layer, q, k)
        if normed == "after":
            q, k = self.head_norms(layer, q, k)
        if factor is not None:
            q = ggml.ggml_mul(self.ctx, q, factor)
        if not self.has(b + "attn_sinks.weight"):
            return self.attended(layer, q, k, v, scale)
        return self.attended(layer, q, k, v, scale, self.weight(b + "attn_sinks.weight", self.config.n_head))


class FeedForward(Attention):
    """What follows attention in a layer."""

    def between(self, x: Tensor, name: str, activation: Callable) -> Tensor:
        """down(activation(up x)): [C, N] -> [C, N]."""
        return self.linear(activation(self.ctx, self.linear(x, name + "_up", self.config.n_ff)), name + "_down",
                           self.config.n_embd)  # fmt: skip

    def gated_together(self, x: Tensor, name: str, activation: Callable) -> Tensor:
        """As gated, with gate and up in one matrix: down(activation(up x)), whose activation takes both halves."""
        both = self.linear(x, name + "_up", 2 * self.config.n_ff)
        return self.linear(activation(self.ctx, both), name + "_down", self.config.n_embd)

    def gated(self, x: Tensor, name: str, activation: Callable, end: str = "", n_ff: int = 0) -> Tensor:
        """down(activation(gate x) * up x): [C, N] -> [C, N], with n_ff rows in between, those of the config for 0.

        The weights are name_gate, name_up and name_down, each followed by `end`: "_shexp" for an expert that all tokens
        share.
        """
        n_ff = n_ff or self.config.n_ff
        gate, up = self.linear(x, f"{name}_gate{end}", n_ff), self.linear(x, f"{name}_up{end}", n_ff)
        return self.linear(activation(self.ctx, gate, up), f"{name}_down{end}", self.config.n_embd)

    def routed(self, x: Tensor, name: str, routing: Routing) -> tuple[Tensor, Tensor]:
        """The experts of each token, i32 [used, N], and their weights, [1, used, N]."""
        c, ctx, n = self.config, self.ctx, x.contents.ne[1]
        score = {"softmax": ggml.ggml_soft_max, "sigmoid": ggml.ggml_sigmoid}[routing.score]
        scores = self.linear(x, name + "_gate_inp", c.n_expert)  # [experts, N]
        if not routing.late:
            scores = score(ctx, scores)
        choice = self.add(scores, self.weight(routing.bias, c.n_expert)) if routing.bias else scores
        if routing.groups:
            choice = self.best_groups(choice, routing)
        chosen = ggml.ggml_argsort_top_k(ctx, choice, c.n_expert_used)
        weights = ggml.ggml_get_rows(ctx, ggml.ggml_reshape_3d(ctx, scores, 1, c.n_expert, n), chosen)  # [1, used, N]
        weights = ggml.ggml_reshape_2d(ctx, weights, c.n_expert_used, n)
        if routing.late:
            weights = score(ctx, weights)
        if routing.normalized:
            weights = ggml.ggml_div(ctx, weights, ggml.ggml_sum_rows(ctx, weights))
        if self.has(name + "_down_exps.scale"):
            scales = ggml.ggml_reshape_2d(ctx, self.weight(name + "_down_exps.scale", c.n_expert), 1, c.n_expert)
            ids = ggml.ggml_reshape_1d(ctx, ggml.ggml_cont(ctx, chosen), c.n_expert_used * n)
            scales = ggml.ggml_reshape_2d(ctx, ggml.ggml_get_rows(ctx, scales, ids), c.n_expert_used, n)
            weights = ggml.ggml_mul(ctx, weights, scales)
        return chosen, ggml.ggml_reshape_3d(ctx, self.scale(weights, c.expert_scale), 1, c.n_expert_used, n)

    def best_groups(self, scores: Tensor, routing: Routing) -> Tensor:
        """Scores [experts, N] with -inf for the experts of all groups but the best."""
        ctx, (experts, n), groups = self.ctx, scores.contents.ne[:2], routing.groups
        size = experts // groups
        count = min(routing.group_best, size)
        by_group = ggml.ggml_reshape_3d(ctx, scores, size, groups, n)
        best = ggml.ggml_argsort_top_k(ctx, by_group, count)  # [count, groups, N]
        single = ggml.ggml_reshape_3d(ctx, scores, 1, size, groups * n)
        best = ggml.ggml_reshape_2d(ctx, ggml.ggml_cont(ctx, best), count, groups * n)
        best = ggml.ggml_reshape_3d(ctx, ggml.ggml_get_rows(ctx, single, best), count, groups, n)
        sums = ggml.ggml_sum_rows(ctx, best)  # [1, groups, N]
        kept = ggml.ggml_argsort_top_k(ctx, ggml.ggml_reshape_2d(ctx, sums, groups, n), routing.groups_used)
        kept = ggml.ggml_cont(ctx, kept)
        hidden = ggml.ggml_fill(ctx, by_group, -math.inf)
        result = ggml.ggml_set_rows(ctx, hidden, ggml.ggml_get_rows(ctx, by_group, kept), kept)
        return ggml.ggml_reshape_2d(ctx, result, experts, n)

    def experts(
        self, x: Tensor, name: str, activation: Callable, routing: Routing = USUAL_ROUTING,
        routed_by: Tensor | None = None, ungated: bool = False,
    ) -> Tensor:  # fmt: skip
        """A mixture of experts (arXiv:2401.04088): for each token the sum over its best experts of weight * gated(x).

        Without a routing of its own, the weights are the softmax over the router's scores, normalised over the chosen
        experts. The router reads `routed_by` if it is given, else x. With `ungated`, an expert is
        down(activation(up x)).
        """
        chosen, weights = self.routed(x if routed_by is None else routed_by, name, routing)
        return self.mixed(x, name, activation, chosen, weights, routing.before, ungated)

    def mixed(
        self, x: Tensor, name: str, activation: Callable, chosen: Tensor, weights: Tensor, before: bool = False,
        ungated: bool = False,
    ) -> Tensor:  # fmt: skip
        """The sum over the chosen experts, i32 [used, N], of weight * gated(x); of gated(weight * x) for `before`."""
        c, ctx, n = self.config, self.ctx, x.contents.ne[1]
        columns = ggml.ggml_reshape_3d(ctx, x, c.n_embd, 1, n)
        if before:
            columns = ggml.ggml_mul(ctx, ggml.ggml_repeat_4d(ctx, columns, c.n_embd, c.n_expert_used, n, 1), weights)
        if self.inputs.exact:
            columns, chosen = self.with_more_rows(columns, chosen)
        if ungated:
            parts = [self.linear_of_experts(columns, name + "_up_exps", c.n_ff, chosen)]
        else:
            parts = self.gates_of_experts(columns, name, chosen)  # [n_ff, used, N]
        y = self.linear_of_experts(activation(ctx, *parts), name + "_down_exps", c.n_embd, chosen)
        if self.inputs.exact:
            y = ggml.ggml_view_3d(ctx, y, c.n_embd, c.n_expert_used, n, y.contents.nb[1], y.contents.nb[2], 0)
        if not before:
            y = ggml.ggml_mul(ctx, y, weights)  # [C, used, N]
        nb, total = y.contents.nb, None
        for i in range(c.n_expert_used):
            part = ggml.ggml_view_2d(ctx, y, c.n_embd, n, nb[2], i * nb[1])
            total = part if total is None else self.add(total, part)
        return ggml.ggml_cont(ctx, total) if c.n_expert_used == 1 else total

    def gates_of_experts(self, x: Tensor, name: str, chosen: Tensor) -> list[Tensor]:
        """gate x and up x of the chosen experts, [n_ff, used, N] from x [C, 1, N], by two matrices or by one."""
        n = self.config.n_ff
        if not self.has(name + "_gate_up_exps.weight"):
            return [self.linear_of_experts(x, f"{name}_{part}_exps", n, chosen) for part in ("gate", "up")]
        y = self.linear_of_experts(x, name + "_gate_up_exps", 2 * n, chosen)
        (_, used, rows, _), nb = y.contents.ne, y.contents.nb
        return [ggml.ggml_view_3d(self.ctx, y, n, used, rows, nb[1], nb[2], 4 * n * i) for i in (0, 1)]

    def further_rows(self) -> int:
        """How many rows with_more_rows adds."""
        return -(-EXPERT_ROWS * self.config.n_expert // self.config.n_expert_used) if self.inputs.exact else 0

    def with_more_rows(self, x: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
        """x [C, 1 or used, N] and the experts [used, N] with further rows.

        In these, each expert occurs EXPERT_ROWS times. Few rows are multiplied in another order than many: with these,
        no expert has few.
        """
        c, ctx, more = self.config, self.ctx, self.further_rows()
        zeros = ggml.ggml_new_tensor_3d(ctx, ggml.GGML_TYPE_F32, c.n_embd, x.contents.ne[1], more)
        x = ggml.ggml_concat(ctx, x, ggml.ggml_fill(ctx, zeros, 0.0), 2)
        # 0, 1, ..., the number of experts - 1, again and again: floats hold them exactly
        numbers = ggml.ggml_arange(ctx, 0, c.n_expert, 1)
        numbers = ggml.ggml_repeat_4d(ctx, numbers, c.n_expert, -(-more * c.n_expert_used // c.n_expert), 1, 1)
        numbers = ggml.ggml_view_2d(ctx, numbers, c.n_expert_used, more, 4 * c.n_expert_used, 0)
        return x, ggml.ggml_concat(ctx, chosen, ggml.ggml_cast(ctx, numbers, ggml.GGML_TYPE_I32), 1)

    def linear_of_experts(self, x: Tensor, name: str, n_out: int, chosen: Tensor) -> Tensor:
        """W[expert] x + b[expert] for each chosen expert: [n_out, used, N] from x [n_in, 1 or used, N].

        b is added where the file has one.
        """
        x = self.point(name + ".in", x)
        y = self.product_of_experts(x, name, n_out, chosen)
        if self.has(name + ".bias"):
            y = ggml.ggml_add_id(self.ctx, y, self.weight(name + ".bias", n_out, self.config.n_expert), chosen)
        for pair in self.adapters.get(name + ".weight", ()):
            low = self.of_tokens_of_experts(ggml.ggml_mul_mat_id(self.ctx, pair.a, x, chosen), pair)
            low = ggml.ggml_mul_mat_id(self.ctx, pair.b, low, chosen)
            y = self.add(y, self.scale(low, pair.scale))
        return y

    def of_tokens_of_experts(self, low: Tensor, pair: Pair) -> Tensor:
        """A x [rank, used, N] of an adapter of experts: 0 where a token does not have it."""
        if pair.name is None:
            return low
        mask, outputs, more = self.inputs.adapters[pair.name], self.inputs.outputs, self.further_rows()
        if outputs is not None and low.contents.ne[2] - more == outputs.contents.ne[0]:
            mask = ggml.ggml_get_rows(self.ctx, mask, outputs)
        if more:
            mask = ggml.ggml_pad(self.ctx, mask, 0, more, 0, 0)
        return ggml.ggml_mul(self.ctx, low, ggml.ggml_reshape_3d(self.ctx, mask, 1, 1, low.contents.ne[2]))

    def product_of_experts(self, x: Tensor, name: str, n_out: int, chosen: Tensor) -> Tensor:
        """W[expert] x for each chosen expert."""
        w = self.weight(name + ".weight", x.contents.ne[0], n_out, self.config.n_expert)
        return ggml.ggml_mul_mat_id(self.ctx, w, x, chosen)


class Builder(FeedForward):
    """Adds the nodes of a model to a context.

    Args:
        ctx: context that receives the nodes.
        config: sizes of the model.
        weights: the tensors of the file by name.
        inputs: what a step fills in.
        caches: what the layers keep of the tokens, for each by what they do ("attention", "conv", "state"); or None.
        adapters: low-rank pairs by the name of the weight beside which they are added.
        traced: names of points whose values are kept.
        edits: functions by the name of the point whose values they change.
    """

    def last(self, x: Tensor) -> Tensor:
        """The tokens whose result is needed, [C, M] of x [C, N]."""
        if self.inputs.outputs is None or x.contents.ne[1] != self.n_tokens:
            return x
        return ggml.ggml_get_rows(self.ctx, x, self.inputs.outputs)

    def keep_last(self, layer: int, *tensors: Tensor) -> Sequence[Tensor]:
        """After the attention of the last layer: only the tokens whose result is needed; all if values are traced."""
        if layer != self.config.n_layer - 1 or self.traced or self.edits or self.inputs.states:
            return tensors
        return [self.last(x) for x in tensors]

    def output(self, x: Tensor) -> Tensor:
        """The logits [vocabulary, N] of x [C, N], by the output matrix or, without one, by the embedding's."""
        c = self.config
        name = "output" if self.has("output.weight") else "token_embd"
        w = self.weight(name + ".weight", c.n_embd, c.n_vocab)
        if name == "output":
            y = self.linear(x, name, c.n_vocab)
        else:
            x = self.point(name + ".in", x)
            y = ggml.ggml_mul_mat(self.ctx, w, x)
            for pair in self.adapters.get(name + ".weight", ()):  # of a table: the product is (scale A B^T) x
                b = ggml.ggml_cont(self.ctx, ggml.ggml_transpose(self.ctx, pair.b))
                low = self.of_its_tokens(ggml.ggml_mul_mat(self.ctx, b, x), pair)
                low = ggml.ggml_mul_mat(self.ctx, pair.a, low)
                y = ggml.ggml_add(self.ctx, y, ggml.ggml_scale(self.ctx, low, pair.scale))
        return self.softcap(y, c.final_softcap)


def edited_by(function: Callable, name: str) -> Callable:
    """The callback of a node that lets `function` change an array [n_tokens, dim] (f32): in place or by its result."""

    def run(result: Tensor, operand: Tensor, ith: int, nth: int, userdata: Any) -> None:
        out, values = to_numpy(result), to_numpy(operand)
        flat = out.reshape(-1, out.shape[-1]) if out.ndim != 2 else out
        flat[...] = values.reshape(flat.shape)
        changed = function(flat)
        if changed is not None:
            try:
                flat[...] = changed
            except ValueError as error:
                raise ValueError(f"edit: the function of point {name!r}: {error}") from None

    return run
