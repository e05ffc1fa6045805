"""The trained pairs of a fine-tuning, and its optimiser."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

import ggml
from ggml.utils import to_numpy

from ..._owners import keep
from ..arch.base import Pair
from ..arch.prepared import Prepared

F32 = ggml.GGML_TYPE_F32
BETAS, EPSILON = (0.9, 0.999), 1e-8  # of AdamW


class Adapter(Prepared):
    """The trained pairs of matrices, their gradients, and the optimiser's state.

    Args:
        shapes: (n_in, n_out, experts) of each weight that gets a pair, by its name.
        rank: inner dimension of the pairs.
        alpha: the pairs are scaled by alpha / rank.
        seed: seed of the first values: A is uniform in +-1 / sqrt(n_in), B is 0.
        threads: threads of the optimiser's steps.
    """

    def __init__(
        self, shapes: Mapping[str, tuple[int, int, int]], rank: int, alpha: float, seed: int, threads: int
    ) -> None:
        self.alpha, self.threads, self.iteration = alpha, threads, 0
        super().__init__()
        keep(self, "ctx", ggml.ggml_init, ggml.ggml_init_params(mem_size=0))
        try:
            self._build(shapes, rank, seed)
        except BaseException:
            self.close()
            raise

    def _build(self, shapes: Mapping[str, tuple[int, int, int]], rank: int, seed: int) -> None:
        self.pairs: dict[str, Pair] = {}
        self.tensors: dict[str, Any] = {}  # by the names that they have in a file
        rng = np.random.default_rng([seed, 0])
        for name, (n_in, n_out, experts) in shapes.items():
            a = self._matrix(f"{name}.lora_a", n_in, rank, experts)
            b = self._matrix(f"{name}.lora_b", rank, n_out, experts)
            values = to_numpy(a)
            values[...] = rng.uniform(-1, 1, values.shape) / np.sqrt(n_in)
            self.pairs[name] = Pair(a, b, self.alpha / rank)
        kinds = ({name: ggml.ggml_dup_tensor(self.ctx, t) for name, t in self.tensors.items()} for _ in range(3))
        self.gradients, self.first_moments, self.second_moments = kinds
        self._gradient_arrays = [to_numpy(t) for t in self.gradients.values()]
        for kind in (self.gradients, self.first_moments, self.second_moments):
            for tensor in kind.values():
                ggml.ggml_set_zero(tensor)
        rates = ggml.ggml_new_tensor_1d(self.ctx, F32, 7)
        self._rates = to_numpy(rates)
        self._graph = ggml.ggml_new_graph_custom(self.ctx, 4 * len(self.tensors) + 16, False)
        for name, tensor in self.tensors.items():
            moments = self.first_moments[name], self.second_moments[name]
            step = ggml.ggml_opt_step_adamw(self.ctx, tensor, self.gradients[name], *moments, rates)
            ggml.ggml_build_forward_expand(self._graph, step)

    def _matrix(self, name: str, *ne: int) -> Any:
        """A trained tensor of zeros; the third dimension is there for experts only."""
        if ne[2] == 1:
            tensor = ggml.ggml_new_tensor_2d(self.ctx, F32, *ne[:2])
        else:
            tensor = ggml.ggml_new_tensor_3d(self.ctx, F32, *ne)
        ggml.ggml_set_name(tensor, name.encode())
        ggml.ggml_set_param(tensor)
        ggml.ggml_set_zero(tensor)
        self.tensors[name] = tensor
        return tensor

    def arrays(self) -> dict[str, np.ndarray]:
        """Views of everything that a resumed training needs, by names that are unique."""
        kinds = {"value": self.tensors, "m": self.first_moments, "v": self.second_moments}
        return {f"{kind}/{name}": to_numpy(t) for kind, tensors in kinds.items() for name, t in tensors.items()}

    def zero_gradients(self) -> None:
        for values in self._gradient_arrays:
            values[...] = 0

    def step(self, rate: float, decay: float, clip: float) -> float:
        """One step of AdamW; returns the norm of all gradients, which are first scaled down to `clip` if it is larger.

        Args:
            rate: learning rate.
            decay: weight decay.
            clip: largest norm of the gradients; 0 for no limit.
        Raises:
            ValueError: a gradient is NaN or infinite; no step was taken.
        """
        norm = self._norm(np.float32)
        if not math.isfinite(norm):  # squares of numbers beyond 1e19 exceed f32
            norm = self._norm(np.float64)
        if not math.isfinite(norm):
            raise ValueError(f"finetune: the norm of the gradients of step {self.iteration + 1} is {norm}: "
                             "the matrices were not changed; try a lower rate")  # fmt: skip
        if clip and norm > clip:
            for values in self._gradient_arrays:
                values *= np.float32(clip / norm)
        self.iteration += 1
        corrections = [1 / (1 - beta**self.iteration) for beta in BETAS]
        self._rates[:] = [rate, *BETAS, EPSILON, decay, *corrections]
        ggml.ggml_graph_compute_with_ctx(self.ctx, self._graph, self.threads)
        return norm

    def _norm(self, dtype: type) -> float:
        """The norm of all gradients, whose squares are computed in `dtype`."""
        gradients: Iterator[np.ndarray] = (g.astype(dtype, copy=False) for g in self._gradient_arrays)
        with np.errstate(over="ignore", invalid="ignore"):
            return math.sqrt(sum(float(np.vdot(g, g)) for g in gradients))

    def nbytes(self) -> int:
        """The bytes of the matrices."""
        return sum(ggml.ggml_nbytes(tensor) for tensor in self.tensors.values())

    def close(self) -> None:
        self._gradient_arrays, self._rates, self.tensors = [], np.empty(0), {}
        self.free()
