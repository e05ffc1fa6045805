"""Small ONNX models for tests."""

import numpy as np
import onnx
from onnx import helper, numpy_helper

import ggml.onnx


def model(nodes, inputs, outputs=("y",), constants=(), opset=21, domains=(), functions=(), ir=10):
    """A ModelProto of nodes.

    inputs: arrays by name, which give types and shapes; or lists, whose type is open. domains: pairs of a name and a
    version.
    """

    def info(name, array):
        if not isinstance(array, np.ndarray):
            return onnx.ValueInfoProto(name=name)
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)

    tensors = [numpy_helper.from_array(np.asarray(v), k) for k, v in dict(constants).items()]
    results = [onnx.ValueInfoProto(name=name) for name in outputs]
    graph = helper.make_graph(nodes, "graph", [info(*i) for i in inputs.items()], results, tensors)
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, v) for d, v in domains)]
    made = helper.make_model(graph, opset_imports=opsets, functions=list(functions))
    made.ir_version = ir
    return made


def run(*args, **options):
    """The outputs of the model of `model` for its inputs."""
    return ggml.onnx.load(model(*args, **options)).run(args[1])


def one(op, *arrays, outputs=1, constants=(), opset=21, domain="", version=3, **attrs):
    """The outputs of one operator: a list, or the only one."""
    named = {f"x{i}": a for i, a in enumerate(arrays) if a is not None}
    names = ["" if a is None else f"x{i}" for i, a in enumerate(arrays)]
    results = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, [*names, *dict(constants)], results, domain=domain, **attrs)
    domains = [(domain, version)] if domain else []
    found = run([node], named, results, constants, opset, domains)
    return found[0] if outputs == 1 else found
