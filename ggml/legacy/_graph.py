"""Graphs by value: building, gradients, computing, printing. The engine computes them as graphs of engine tensors."""

import ctypes
import os
import time
from ctypes import c_void_p

import ggml

from .._io.files import save
from ._api import READERS, api
from ._arena import OP, Context, Tensor, address_of, by_engine, is_live, tensor_at, view_address
from ._structs import GGML_TENSOR_SIZE, MAX_NODES, constants, ggml_cgraph, ggml_tensor_p

OPERATIONS = list(OP)


def _array(graph, field, n):
    """The tensors of one of the graph's arrays, None for each NULL."""
    start = ctypes.addressof(graph) + getattr(ggml_cgraph, field).offset
    return [tensor_at(a, f"cgraph.{field}[{i}]") for i, a in enumerate((c_void_p * n).from_address(start))]


def _tensors(graph, field, n):
    """The tensors of one of the graph's arrays, refreshed. NULL is an error."""
    found = _array(graph, field, n)
    if None in found:
        raise ValueError(f"cgraph.{field}[{found.index(None)}] is NULL: need a tensor")
    return [t.refresh() for t in found]


def nodes_of(graph):
    return _tensors(graph, "nodes", graph.n_nodes)


def leafs_of(graph):
    return _tensors(graph, "leafs", graph.n_leafs)


# ---- building --------------------------------------------------------------------------------------------------------
def expand(graph, tensor):
    """Adds the tensor and all tensors that it depends on, each after its sources."""
    seen = {t.address for t in nodes_of(graph) + leafs_of(graph)}
    stack = [(tensor, False)]
    while stack:
        t, done = stack.pop()
        if done:
            _append(graph, t)
        elif t.address not in seen:
            seen.add(t.address)
            stack.append((t, True))
            sources = [tensor_at(address_of(s), "a source") for s in (t.struct.src0, t.struct.src1, *t.struct.opt)]
            stack += [(s, False) for s in reversed(sources) if s is not None and s.address not in seen]


def _append(graph, t):
    """Adds a tensor as the last leaf or node. One without a name is named after its index."""
    s = t.struct
    leaf = s.op == OP["NONE"] and not s.grad
    n = graph.n_leafs if leaf else graph.n_nodes
    if n == MAX_NODES:
        raise MemoryError(f"the graph is full: it has room for {MAX_NODES} nodes and as many leafs")
    if not s.name:
        s.name = b"%s_%d" % (b"leaf" if leaf else b"node", n)
        t.refresh()
    if leaf:
        graph.leafs[n] = t.pointer()
        graph.n_leafs = n + 1
    else:
        graph.nodes[n] = t.pointer()
        graph.grads[n] = s.grad
        graph.n_nodes = n + 1


@api
def ggml_build_forward_expand(cgraph: ggml_cgraph, tensor: Tensor):
    """Adds everything to a graph that computing a tensor needs and that it does not contain yet.

    Args:
        cgraph: ggml_cgraph, or a pointer or byref to one, for example one that ggml_build_forward returned.
        tensor: result to add, any shape and any type.
    Returns:
        None.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: the graph's counts are out of range, or it contains NULL.
        RuntimeError: tensor, one of its sources or a tensor of the graph was freed.
        MemoryError: the graph would have more than GGML_MAX_NODES (4096) nodes or leafs.
    """
    expand(cgraph, tensor)


@api
def ggml_build_forward(tensor: Tensor):
    """Builds the graph that computes a tensor.

    Sources come before the tensors that use them. Tensors without a name are named "node_0", "node_1" ... and
    "leaf_0", "leaf_1" ...

    Args:
        tensor: result of the computation, any shape and any type.
    Returns:
        ggml_cgraph by value, with n_threads = GGML_DEFAULT_N_THREADS (4).
    Raises:
        TypeError: tensor is not a tensor.
        RuntimeError: tensor or one of its sources was freed.
        MemoryError: there are more than GGML_MAX_NODES (4096) nodes or leafs.
    """
    graph = ggml_cgraph(n_threads=constants["GGML_DEFAULT_N_THREADS"])
    expand(graph, tensor)
    return graph


# ---- gradients -------------------------------------------------------------------------------------------------------
def _engine_graph(ctx, nodes, size):
    """An engine graph of the nodes with room for gradients.

    The engine needs a loss. It is the sum of the last node that has a gradient, and its own gradient stays zero:
    nothing but the gradients that the caller writes into the nodes is propagated.
    """
    result = next((t for t in reversed(nodes) if t.struct.grad), None)
    if result is None:
        raise ValueError("no node has a gradient: call ggml_set_param on the tensors to take gradients by")
    e = ctx.engine
    graph = ggml.ggml_new_graph_custom(e, size, True)
    for t in nodes:
        ggml.ggml_build_forward_expand(graph, t.engine)
    loss = ggml.ggml_sum(e, result.engine)
    ggml.ggml_set_loss(loss)
    ggml.ggml_build_forward_expand(graph, loss)
    return graph


@api
def ggml_build_backward(ctx: Context, gf: ggml_cgraph, keep: bool):
    """Builds the graph that computes gradients: the nodes of gf, then the nodes of its backward pass.

    Gradients are accumulated in the field `grad` of the nodes of gf. To compute them, call ggml_graph_reset(gf),
    set the gradient of the result (usually to 1), then call ggml_graph_compute with the returned graph.

    Args:
        ctx: context of the gradients.
        gf: forward graph, as ggml_cgraph, pointer or byref. It must depend on a tensor with ggml_set_param.
        keep: True to give the nodes of gf new tensors as `grad`, so that an earlier backward graph of them stays
            valid.
    Returns:
        ggml_cgraph by value.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: no node has a gradient, a node's operation has none, or a node needs values that an in-place
            node overwrites.
        RuntimeError: ctx or a tensor of the graph was freed.
        MemoryError: the graph would have more than GGML_MAX_NODES (4096) nodes, or the arena is full.
    """
    nodes = nodes_of(gf)
    if keep:
        for i, t in enumerate(nodes):
            if t.struct.grad:
                t.struct.grad = gf.grads[i] = ctx.like(t).pointer()
                t.refresh()
    graph = _engine_graph(ctx, nodes, 2 * MAX_NODES + 16 * len(nodes))
    n_forward = ggml.ggml_graph_n_nodes(graph)
    accumulators = (ggml.ggml_tensor_p * n_forward)()
    for i in range(n_forward):
        t = by_engine.get(ggml.ggml_graph_node(graph, i)._address())
        if t is not None and t.struct.grad:
            accumulators[i] = t.grad.refresh().engine
    ggml.ggml_build_backward_expand(ctx.engine, graph, accumulators)
    result = ggml_cgraph.from_buffer_copy(gf)
    for i in range(n_forward - 1, ggml.ggml_graph_n_nodes(graph)):  # the last forward node is the loss
        node = ggml.ggml_graph_node(graph, i)
        if not is_live(node):
            _append_hidden(result, _hidden(ctx, node))
    return result


def _hidden(ctx, node):
    """The tensor, outside the arena, of a node that the engine made."""
    t = ctx.tensor(node, 4, struct=ctx.outside(GGML_TENSOR_SIZE))
    name = ggml.ggml_op_name(node.contents.op).decode()
    t.struct.op = OP.get(name, OP["NONE"])
    t.seen = t.struct_bytes()
    return t


def _append_hidden(graph, t):
    """Adds a tensor of the backward pass as the last node: it is never a leaf, and has no gradient and no name."""
    if graph.n_nodes == MAX_NODES:
        raise MemoryError(f"the graph is full: it has room for {MAX_NODES} nodes")
    graph.nodes[graph.n_nodes] = t.pointer()
    graph.n_nodes += 1


# ---- computing -------------------------------------------------------------------------------------------------------
def _engine_nodes(nodes):
    """The engine tensors to compute for the nodes, in order and each once: inner nodes, then the node's own."""
    steps = {node._address(): node for t in nodes for node in (*t.inner, t.engine)}
    return [node for node in steps.values() if node.contents.op != ggml.GGML_OP_NONE]


def compute(ctx, graph):
    """Computes the nodes in their order. The context keeps the engine graph for later calls with the same nodes."""
    nodes = nodes_of(graph)
    leafs_of(graph)
    for t in nodes:
        for node in t.inner:  # views of tensors whose data address a caller may have changed
            if node.contents.view_src and is_live(node.contents.view_src):
                node.contents.data = None
                node.contents.data = view_address(node)
    key = tuple(t.address for t in nodes)
    engine_graph = ctx.graphs.get(key)
    if engine_graph is None:
        steps = _engine_nodes(nodes)
        engine_graph = ctx.graphs[key] = ggml.ggml_new_graph_custom(ctx.engine, max(1, len(steps)), False)
        for node in steps:
            ggml.ggml_graph_add_node(engine_graph, node)
    begin = time.perf_counter()
    ggml.ggml_graph_compute_with_ctx(ctx.engine, engine_graph, graph.n_threads)
    graph.perf_runs += 1
    graph.perf_time_us += int((time.perf_counter() - begin) * 1e6)


@api
def ggml_graph_compute(ctx: Context, cgraph: ggml_cgraph):
    """Computes the nodes of a graph in their order, with cgraph.n_threads threads.

    It adds 1 to perf_runs and the time to perf_time_us of the graph. Unlike the library of May 2023, it takes no
    work memory from the context's arena.

    Args:
        ctx: context that keeps what the engine needs to compute the graph again.
        cgraph: ggml_cgraph, pointer or byref. n_threads is 1 to 512, or negative for as many as the CPU has.
    Returns:
        None.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: n_threads is out of range, a tensor has no data, or a caller changed the operation or sources of
            a tensor.
        RuntimeError: a tensor was freed, or a node failed, for example because of an index that is out of range.
        MemoryError: there is not enough memory to compute.
    """
    compute(ctx, cgraph)


def reset(graph):
    for grad in _array(graph, "grads", graph.n_nodes):
        if grad is not None:
            ggml.ggml_set_zero(grad.refresh().engine)


@api
def ggml_graph_reset(cgraph: ggml_cgraph):
    """Sets the gradients of a graph's nodes to zero.

    Args:
        cgraph: ggml_cgraph, pointer or byref.
    Returns:
        None.
    Raises:
        TypeError: cgraph is not a ggml_cgraph.
        ValueError: the graph's counts are out of range.
        RuntimeError: a gradient was freed.
    """
    reset(cgraph)


@api
def ggml_graph_get_tensor(cgraph: ggml_cgraph, name: bytes):
    """Finds a tensor of a graph by its name, among the leafs first.

    Args:
        cgraph: ggml_cgraph, pointer or byref.
        name: name, as bytes or str.
    Returns:
        Pointer to the first leaf or node with this name; a NULL pointer if there is none.
    Raises:
        TypeError: cgraph is not a ggml_cgraph, or name is neither bytes nor str.
        ValueError: the graph's counts are out of range, or it contains NULL.
        RuntimeError: a tensor of the graph was freed.
    """
    for t in leafs_of(cgraph) + nodes_of(cgraph):
        if t.struct.name == name:
            return t.pointer()
    return ggml_tensor_p()


# ---- showing ---------------------------------------------------------------------------------------------------------
def print_graph(graph):
    print("=== GRAPH ===")
    print(f"n_nodes = {graph.n_nodes}")
    for i, t in enumerate(nodes_of(graph)):
        s, mark = t.struct, "x" if t.struct.is_param else "g" if t.struct.grad else " "
        shape = ", ".join(f"{n:5d}" for n in s.ne[:3])
        print(f" - {i:3d}: [ {shape}] {OPERATIONS[s.op]:>16s} {mark} {s.name.decode(errors='replace')}")
    print(f"n_leafs = {graph.n_leafs}")
    for i, t in enumerate(leafs_of(graph)):
        s = t.struct
        print(f" - {i:3d}: [ {s.ne[0]:5d}, {s.ne[1]:5d}] {OPERATIONS[s.op]:>8s} {s.name.decode(errors='replace')}")
    print("========================================", flush=True)


@api
def ggml_graph_print(cgraph: ggml_cgraph):
    """Prints a graph's nodes and leafs to stdout, with shapes, operations and names.

    Nodes are marked with x if they are parameters and with g if they have a gradient.

    Args:
        cgraph: ggml_cgraph, pointer or byref.
    Returns:
        None.
    Raises:
        TypeError: cgraph is not a ggml_cgraph.
        ValueError: the graph's counts are out of range, or it contains NULL.
        RuntimeError: a tensor of the graph was freed.
    """
    print_graph(cgraph)


def _quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _dot_lines(graph, forward):
    leafs = leafs_of(graph)
    for i, t in enumerate(nodes_of(graph) + leafs):
        s = t.struct
        colour = "yellow" if s.is_param else "pink" if i >= graph.n_nodes else (
            "green" if t.address in forward else "lightblue" if s.grad else "white")  # fmt: skip
        shape = ", ".join(str(n) for n in s.ne[: max(1, s.n_dims)])
        number = i if i < graph.n_nodes else i - graph.n_nodes
        label = f"{s.name.decode(errors='replace')}\n{number} [{shape}]\n{OPERATIONS[s.op]}"
        yield f'  "{t.address:#x}" [style=filled, fillcolor={colour}, shape=box, label={_quoted(label)}];'
        names = {"src0": s.src0, "src1": s.src1, **{f"opt[{k}]": x for k, x in enumerate(s.opt)}}
        for name, source in names.items():
            if source:
                yield f'  "{address_of(source):#x}" -> "{t.address:#x}" [label="{name}"];'


@api
def ggml_graph_dump_dot(gb: ggml_cgraph, gf, filename: bytes):
    """Writes a graph to a file in the DOT language of Graphviz.

    Parameters are yellow, leafs pink, nodes of gf green, other nodes with a gradient light blue.

    Args:
        gb: graph to write, as ggml_cgraph, pointer or byref.
        gf: graph whose nodes are green, of the same kinds; None or NULL for none.
        filename: path of the file, as bytes or str.
    Returns:
        None.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: a graph's counts are out of range, or it contains NULL.
        OSError: the file cannot be written.
        RuntimeError: a tensor of a graph was freed.
    """
    forward = set()
    if gf is not None and not (isinstance(gf, ctypes._Pointer) and not gf):
        forward = {t.address for t in nodes_of(READERS[ggml_cgraph](gf, "gf"))}
    lines = ["digraph G {", "  newrank = true;", "  rankdir = TB;", *_dot_lines(gb, forward), "}", ""]
    save(os.fsdecode(filename), "\n".join(lines).encode(), "ggml_graph_dump_dot")
