"""Work of several Python threads at a time, each on objects of its own. `speedups` tells what the threads are worth."""

import importlib.util
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from ggml.models.sample.choice import choose
from ggml.models.text.tokens import TokenTable

import ggml


def parameters(size):
    return ggml.ggml_init_params(mem_size=size, mem_buffer=None, no_alloc=False)


def building():
    """Graphs of 200 nodes, each in a context of its own."""
    params = parameters(1 << 20)

    def work():
        ctx = ggml.ggml_init(params)
        x = y = ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_F32, 16)
        for _ in range(200):
            y = ggml.ggml_add(ctx, y, x)
        graph = ggml.ggml_new_graph_custom(ctx, 512, False)
        ggml.ggml_build_forward_expand(graph, y)
        ggml.ggml_free(ctx)

    return work


def computing():
    """A graph of 20 small products, computed again and again on one thread."""
    ctx = ggml.ggml_init(parameters(1 << 20))
    x = y = ggml.ggml_new_tensor_2d(ctx, ggml.GGML_TYPE_F32, 32, 32)
    ggml.ggml_set_f32(x, 0.01)
    for _ in range(20):
        y = ggml.ggml_mul_mat(ctx, x, y)
    graph = ggml.ggml_new_graph_custom(ctx, 64, False)
    ggml.ggml_build_forward_expand(graph, y)
    return lambda: ggml.ggml_graph_compute_with_ctx(ctx, graph, 1)


def tokenising():
    """A text of 4,000 bytes over a vocabulary of short words."""
    texts = [bytes([b]) for b in range(256)] + [bytes([a, b]) for a in b"etaoins " for b in b"etaoins rhl"]
    table = TokenTable(texts, [-float(i) for i in range(len(texts))])
    data = b"not all that is on the list is a train to the north " * 80
    return lambda: table.merge(data)


def sampling():
    """A token of 32,000, by temperature and top_p."""
    logits = np.random.default_rng(0).standard_normal(32_000).astype(np.float32) * 3
    return lambda: choose(logits, 0.8, 40, 0.95, 0.05, 0.5)


def reading():
    """A GGUF file of 20 tensors, opened and closed."""
    folder = tempfile.TemporaryDirectory()
    name = str(Path(folder.name) / "small.gguf").encode()
    ctx = ggml.ggml_init(parameters(1 << 20))
    file = ggml.gguf_init_empty()
    for i in range(20):
        t = ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_F32, 256)
        ggml.ggml_set_name(t, f"t{i}".encode())
        ggml.gguf_add_tensor(file, t)
    ggml.gguf_write_to_file(file, name, False)
    ggml.gguf_free(file)
    ggml.ggml_free(ctx)
    params = ggml.gguf_init_params(no_alloc=True, ctx=None)

    def work():
        assert folder  # it is removed with the function
        ggml.gguf_free(ggml.gguf_init_from_file(name, params))

    return work


def onnx_models():
    """A model of two products with an activation."""
    from onnx import TensorProto, helper

    from ggml.onnx import load

    w = helper.make_tensor("w", TensorProto.FLOAT, [64, 64], np.full(4096, 0.01, np.float32))
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["r"]),
             helper.make_node("MatMul", ["r", "w"], ["y"])]  # fmt: skip
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [8, 64]) for name in "xy"]
    graph = helper.make_graph(nodes, "small", ends[:1], ends[1:], [w])
    model = load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), threads=1)
    x = np.ones((8, 64), np.float32)
    return lambda: model.run(x)


KINDS = {"building": building, "computing": computing, "tokenising": tokenising, "sampling": sampling,
         "GGUF files": reading}  # fmt: skip
if importlib.util.find_spec("onnx"):
    KINDS["ONNX"] = onnx_models


def rate(make, threads, seconds):
    """Calls per second of all threads, each with work of its own."""
    counts, ready, stop = [0] * threads, threading.Barrier(threads + 1), threading.Event()

    def run(k):
        work, n = make(), 0
        work(), work(), work()  # from the third on a graph is prepared
        ready.wait()
        while not stop.is_set():
            work()
            n += 1
        counts[k] = n

    workers = [threading.Thread(target=run, args=(k,)) for k in range(threads)]
    for worker in workers:
        worker.start()
    ready.wait()
    began = time.perf_counter()
    time.sleep(seconds)
    stop.set()
    for worker in workers:
        worker.join()
    return sum(counts) / (time.perf_counter() - began)


def speedups(threads, seconds, rounds):
    """{kind: [[threads, how many times the rate of one thread]]}: the best of rounds, which alternate."""
    found = {}
    for name, make in KINDS.items():
        best = dict.fromkeys(threads, 0.0)
        for _ in range(rounds):
            for n in threads:
                best[n] = max(best[n], rate(make, n, seconds))
        found[name] = [[n, best[n] / best[threads[0]]] for n in threads]
    return found
