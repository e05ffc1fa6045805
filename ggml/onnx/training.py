"""Training: a loss on the outputs of a model, its gradients by the parameters, and steps of AdamW."""

from __future__ import annotations

import numpy as np

import ggml

from .._errors import named
from .._owners import Owner
from ..utils import to_numpy
from .layout import Arena
from .program import Lowering, Memory, NodeError, RetraceError
from .transfer import compute
from .values import F32, extents


def cross_entropy(ctx, outputs, targets):
    """The mean over all rows of minus the sum of the targets times the logarithm of the softmax of the output."""
    return ggml.ggml_cross_entropy_loss(ctx, outputs[0], targets[0])


def mean_squared_error(ctx, outputs, targets):
    """The mean of the squares of output minus target."""
    difference = ggml.ggml_sub(ctx, outputs[0], targets[0])
    total = ggml.ggml_sum(ctx, ggml.ggml_sqr(ctx, difference))
    return ggml.ggml_scale(ctx, total, 1 / ggml.ggml_nelements(difference))


LOSSES = {"cross_entropy": cross_entropy, "mean_squared_error": mean_squared_error}


class OneGraph(Lowering):
    """Lowers a whole program into one graph, which gradients need."""

    def finish(self, step, by_value, node=None):
        if step is not None:
            name, op, _, why = self.entries[-1]
            raise NodeError(f"the model is not one graph: node {name!r} ({op}) runs outside of the graph: {why}")
        if self.nodes:
            raise NodeError(f"the model is not one graph: computed values decide {self.nodes[0]}")


class Training(Owner):
    """The graph of a training step, for batches of one shape.

    Args:
        model: Model; its parameters (Model.parameters, all of them unless that was called with names) are trained.
        loss: "cross_entropy" (a row of targets holds one probability per class), "mean_squared_error", or a function
            (ctx, outputs, targets) that builds a ggml tensor of one element from lists of ggml tensors.
        inputs: dict, list or tuple of arrays as Model.run takes, or one array: a batch, for its shapes.
        targets: array or list of arrays, for their shapes.
    Attributes:
        outputs: arrays of the model's outputs for the last batch.
        gradients: dict of the gradients for the last batch by the parameter's name, as views.
    Raises:
        TypeError, ValueError: arguments do not fit; NodeError if the model is not one graph.
    """

    def __init__(self, model, loss, inputs, targets):
        function = LOSSES.get(loss) if isinstance(loss, str) else loss
        if not callable(function):
            raise ValueError(f"ggml.onnx.Training: loss is {loss!r}: need one of {', '.join(LOSSES)}, or a function")
        self.model, self.parameters = model, model.parameters()
        lowering = None
        while lowering is None:
            values, self.key = self.batch(inputs)
            try:
                lowering = OneGraph(model.program, values, self.key)
                with named("ggml.onnx.Training"):
                    lowering.plan()
            except RetraceError:
                lowering = None
        self.builder, self.arena, ctx = lowering.builder, Arena(), lowering.builder.ctx
        outputs = [self.builder.contiguous(lowering.env[o.name]) for o in model.outputs]
        shapes = [np.shape(t) for t in listed(targets)]
        self.targets = [(ggml.ggml_new_tensor_4d(ctx, ggml.GGML_TYPE_F32, *extents(s)), s) for s in shapes]
        self.loss = function(ctx, [o.t for o in outputs], [t for t, _ in self.targets])
        self.build(outputs)
        self.feeds = [(model.program.inputs.index(f.name), to_numpy(f.tensor.t)) for f in self.builder.feeds]
        self.outputs = [to_numpy(o.t).reshape(o.shape) for o in outputs]
        self.steps = 0

    def batch(self, inputs):
        """The checked operands of a batch, and what of them the graph depends on."""
        values = self.model.operands((inputs,) if isinstance(inputs, dict) else listed(inputs), {})
        return values, self.model.program.signature(values)

    def build(self, outputs):
        """Appends the gradients and the steps of the optimiser to the graph of the loss, and gives it memory."""
        ctx, tensors = self.builder.ctx, self.model.trained
        for t, _ in self.targets:
            ggml.ggml_set_input(t)
        for t in (self.loss, *(o.t for o in outputs)):
            ggml.ggml_set_output(t)
        ggml.ggml_set_loss(self.loss)
        size = 16 * (ggml.ggml_used_mem(ctx) // ggml.ggml_tensor_overhead()) + 16 * len(tensors) + 64
        self.graph = ggml.ggml_new_graph_custom(ctx, size, True)
        ggml.ggml_build_forward_expand(self.graph, self.loss)
        ggml.ggml_build_backward_expand(ctx, self.graph, None)
        self.seed = ggml.ggml_graph_get_grad_acc(self.graph, self.loss)
        ggml.ggml_set_output(self.seed)
        found = {name: ggml.ggml_graph_get_grad(self.graph, p.t) for name, p in tensors.items()}
        found = {name: gradient for name, gradient in found.items() if gradient}
        for gradient in found.values():
            ggml.ggml_set_output(gradient)
            ggml.ggml_build_forward_expand(self.graph, gradient)
        backward = ggml.ggml_graph_n_nodes(self.graph)
        self.rates = self.arena.upload(np.zeros(7, np.float32))
        for name, gradient in found.items():
            p = tensors[name].t
            m, v = (self.arena.upload(np.zeros_like(to_numpy(p))) for _ in range(2))
            ggml.ggml_build_forward_expand(self.graph, ggml.ggml_opt_step_adamw(ctx, p, gradient, m, v, self.rates))
        self.memory = Memory(self.graph)
        self.backward = ggml.ggml_graph_view(self.graph, 0, backward)
        to_numpy(self.seed)[...] = 1
        self.gradients = {n: to_numpy(g).reshape(self.parameters[n].shape) for n, g in found.items()}

    def compute(self, inputs, targets, graph):
        """Computes a graph for a batch; returns the loss."""
        (values, key), targets = self.batch(inputs), [np.asarray(t, F32) for t in listed(targets)]
        shapes = [t.shape for t in targets], [shape for _, shape in self.targets]
        if key != self.key or shapes[0] != shapes[1]:
            given, need = ([p[0] for p in k if p != "opaque"] for k in (key, self.key))
            raise ValueError(
                f"ggml.onnx.Training: the batch has inputs {given} and targets {shapes[0]}: need inputs "
                f"{need} and targets {shapes[1]}, and equal values where they decide shapes"
            )
        with self.model._lock:
            for place, view in self.feeds:
                np.copyto(view, values[place].reshape(view.shape), casting="unsafe")
            for (t, _), array in zip(self.targets, targets):
                np.copyto(to_numpy(t), array.reshape(to_numpy(t).shape))
            compute(self.model.engine.backend, graph)
        return float(to_numpy(self.loss).item())

    def evaluate(self, inputs, targets):
        """Computes loss, outputs and gradients of a batch, and leaves the parameters as they are.

        Args:
            inputs, targets: a batch of the shapes that the constructor got.
        Returns:
            float, the loss.
        Raises:
            ValueError: the batch has other shapes.
        """
        return self.compute(inputs, targets, self.backward)

    def step(self, inputs, targets, rate=1e-3, decay=0.0, betas=(0.9, 0.999), epsilon=1e-8):
        """Computes loss, outputs and gradients of a batch, and changes the parameters by a step of AdamW.

        Args:
            inputs, targets: a batch of the shapes that the constructor got.
            rate: learning rate.
            decay: weight decay.
            betas, epsilon: AdamW's other parameters.
        Returns:
            float, the loss before the step.
        Raises:
            ValueError: the batch has other shapes.
        """
        corrections = [1 / (1 - b ** (self.steps + 1)) for b in betas]
        to_numpy(self.rates)[:] = rate, *betas, epsilon, decay, *corrections
        loss = self.compute(inputs, targets, self.graph)
        self.steps += 1
        return loss


def listed(value):
    """A list or tuple as it is, anything else as its only element."""
    return value if isinstance(value, (list, tuple)) else (value,)
