"""ONNX's backend interface: `Backend` for programs, and test suites, that are written for onnx.backend.base."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.backend.base
from onnx import TensorProto, TypeProto, ValueInfoProto, helper, numpy_helper

from .graph import read_proto
from .model import load


class BackendRep(onnx.backend.base.BackendRep):
    """A prepared model.

    Attributes:
        model: ggml.onnx.Model.
        graph, inputs, outputs: the graph of the ModelProto, and its inputs and outputs.
    """

    def __init__(self, proto, model):
        super().__init__()
        self.model, self.graph = model, proto.graph
        self.inputs, self.outputs = list(proto.graph.input), list(proto.graph.output)

    def run(self, inputs: Any, **kwargs: Any):
        """Computes the outputs.

        Args:
            inputs: list of arrays in the model's order, dict of arrays by name, or one array. Values for constants of
                the model are ignored.
            kwargs: ignored, as other backends do.
        Returns:
            Tuple of arrays in the order of the outputs.
        Raises:
            TypeError, ValueError, RuntimeError: as ggml.onnx.Model.run.
        """
        return tuple(self.model.run(*self.operands(inputs)))

    def operands(self, inputs):
        """The arguments of Model.run for inputs of run."""
        if isinstance(inputs, dict):
            names = {i.name for i in self.inputs} - {i.name for i in self.model.inputs}
            return [{k: array_of(v) for k, v in inputs.items() if k not in names}]
        return [array_of(v) for v in (inputs if isinstance(inputs, (list, tuple)) else [inputs])]


def array_of(value):
    """An operand; tensors in messages become arrays."""
    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else value


class Backend(onnx.backend.base.Backend):
    """Runs ONNX models on ggml. Keyword arguments go to ggml.onnx.load (threads, weights, strict)."""

    representation = BackendRep

    @classmethod
    def is_compatible(cls, model, device="CPU", **kwargs: Any):
        """Whether a model can be loaded for a device."""
        try:
            cls.prepare(model, device or "CPU", **kwargs)
        except (ValueError, TypeError, RuntimeError):
            return False
        return True

    @classmethod
    def prepare(cls, model, device=None, **kwargs: Any):
        """Loads a model.

        Args:
            model: onnx.ModelProto, path or bytes.
            device: "CPU" or None.
            kwargs: threads, weights and strict, as ggml.onnx.load.
        Returns:
            BackendRep.
        Raises:
            ValueError, TypeError, OSError: the device is not supported, or the model is broken or cannot be read.
        """
        if not cls.supports_device(device or "CPU"):
            raise ValueError(f"Backend.prepare: device is {device!r}: ggml.onnx supports CPU only")
        return cls.representation(read_proto(model)[0], load(model, **kwargs))

    @classmethod
    def run_model(cls, model, inputs, device=None, **kwargs: Any):
        """Prepares a model and runs it once; the arguments are those of prepare and BackendRep.run."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(cls, node, inputs, device=None, outputs_info=None, **kwargs: Any):
        """Runs one node.

        Args:
            node: onnx.NodeProto.
            inputs: one array per input that is not omitted.
            device: "CPU" or None.
            outputs_info: ignored.
            kwargs: opset_version, and those of prepare.
        Returns:
            Tuple of arrays.
        Raises:
            TypeError, ValueError, RuntimeError: as ggml.onnx.Model.run.
        """
        version = kwargs.pop("opset_version", None) or onnx.defs.onnx_opset_version()
        names, arrays = [n for n in node.input if n], [np.asarray(v) for v in inputs]
        infos = [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for n, a in zip(names, arrays)
        ]
        results = [ValueInfoProto(name=n, type=TypeProto()) for n in node.output if n]
        opsets = [helper.make_opsetid("", version)]
        if node.domain:
            opsets.append(helper.make_opsetid(node.domain, 1))
        graph = helper.make_graph([node], "one node", infos, results)
        return cls.run_model(helper.make_model(graph, opset_imports=opsets), list(inputs), device, **kwargs)

    @classmethod
    def supports_device(cls, device):
        """Whether a device is supported: "CPU", with or without a number."""
        return device.partition(":")[0].upper() == "CPU"
