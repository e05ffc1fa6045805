"""Control flow and sequences: If, Loop, Scan and SequenceMap are replaced by the nodes of their bodies.

These rules are called with the Lowering instead of the Builder and return nodes. A condition or a number of iterations
that is computed ends the plan first (NeedValue), so that the branch taken becomes part of the next plan. The body of a
long Loop, or of one without a limit, is a program of its own instead, which the host runs once per iteration.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from ..expand import private, subgraph
from ..program import RetraceError
from ..values import I64, Drive, Feed, Known, NeedValue, OnHost, Opaque, Sequence, Tensor, is_constant
from . import rule

UNROLLED = 64  # a Loop of at most so many iterations becomes part of the graph,
LONG = 20000  # and a longer one with values that decide shapes, while it has at most so many nodes in all,
OFTEN = 3  # or one that ran so many times with the same number of iterations
ANY, NEVER = np.inf, -1  # what unrolled loops note instead of a number of iterations


def truth(node, value):
    """A condition that is known; None is true."""
    if value is None:
        return True
    if not isinstance(value, Known):
        raise NeedValue(value)
    if value.array.size != 1:
        raise ValueError(f"{node}: its condition has the shape {list(value.shape)}: need one element")
    return bool(value.array.reshape(()))


@rule("If", expands=True)
def if_(lowering, node, condition):
    branch = "then_branch" if truth(node, condition) else "else_branch"
    return subgraph(lowering, node, node.attr(branch), [], node.outputs)


rule("ggml.Stack")(lambda b, node, *values: b.stack(values, node.attr("axis", 0)))
rule("ggml.Entry")(lambda b, node, x: b.entry(x, node.attr("axis"), node.attr("index")))


def driven(lowering, node, limit):
    """The step of a Loop whose body is a program of its own: arrays by name -> outputs by name."""
    body, outer = node.attr("body"), lowering.program
    inputs, outputs, kept = [i.name for i in body.inputs], [o.name for o in body.outputs], len(body.inputs) - 2
    fixed = {i: n for i, o, n in zip(inputs[2:], outputs[1:], node.inputs[2:]) if n and i == o}  # never change
    fixed.update((n, n) for n in body.captures())
    known = {i: lowering.env[n] for i, n in fixed.items() if is_constant(lowering.env.get(n))}
    known.update(body.constants)
    rest = sorted(fixed.keys() - known.keys())
    carried = [i for i in inputs[2:] if i not in fixed]
    results = [o for i, o in zip([None, *inputs[2:]], outputs) if i not in fixed] + outputs[1 + kept :]
    unrolled, runs = node.attrs.setdefault("ggml.unrolled", []), node.attrs.setdefault("ggml.runs", {})
    steady = endless(body) and (not node.inputs[1] or isinstance(lowering.env[node.inputs[1]], Known))
    program = type(outer)(lowering.model, body.nodes, known, [*inputs[:2], *carried, *rest], results)

    def step(values):
        state: dict[str, Any] = {i: values[n] if n else None for i, n in zip(inputs, node.inputs)}
        go = state[inputs[1]] is None or truth(node, Known(np.asarray(state[inputs[1]])))
        held, turn, plan, true = [values[fixed[n]] for n in rest], 0, None, np.array(True)
        scans: list[list] = [[] for _ in outputs[1 + kept :]]
        current, changed = [state[n] for n in carried], 2 + len(carried)
        while go and turn < limit:
            plan, found = program.again([np.array(turn, np.int64), true, *current, *held], plan, changed)
            go, turn, current = truth(node, Known(np.asarray(found[0]))), turn + 1, found[1 : changed - 1]
            for pieces, piece in zip(scans, found[changed - 1 :]):
                pieces.append(piece)
        state.update(zip(carried, current))
        runs[limit] = runs.get(limit, 0) + (steady and turn * len(body.nodes) <= LONG)
        own = plan and (plan.ending.rest or program.by_value)  # each turn needs a plan
        if not unrolled and (own or runs[limit] >= OFTEN):
            unrolled.append(ANY if own else limit)  # from the next run on
            outer.forget()
        stacked = [np.stack(p) if p else nothing(info) for p, info in zip(scans, body.outputs[1 + kept :])]
        return {n: a for n, a in zip(node.outputs, [*list(state.values())[2:], *stacked]) if n}

    return step


def endless(body):
    """Whether the condition of a Loop's body remains what it is, or is a constant."""
    name = source(makers_of(body), body.outputs[0].name)
    return name == body.inputs[1].name or name in body.constants


def makers_of(body):
    """The nodes of a body by the names that they compute."""
    return {o: n for n in body.nodes for o in n.outputs if o}


def source(makers, name):
    """The name of which another one is a copy."""
    while name in makers and makers[name].op == "Identity":
        name = makers[name].inputs[0]
    return name


def counters(lowering, body, makers):
    """The names in a Loop's body of the turn's number, and of values to which each turn adds 1."""
    found = {body.inputs[0].name}
    for i, o in zip(body.inputs[2:], body.outputs[1:]):
        step = makers.get(source(makers, o.name))
        if step and step.op == "Add" and i.name in step.inputs:
            other = step.inputs[1 - step.inputs.index(i.name)]
            value = body.constants.get(other) or lowering.env.get(other)
            if is_constant(value) and value.array.size == 1 and value.array.reshape(())[()] == 1:
                found.add(i.name)
    return found


def ahead(lowering, node, limit):
    """Products of a Loop's body that can be computed for all turns together, as nodes before it, and the Loop.

    They are those of an entry of a tensor, whose place is a counter, with a matrix that remains the same: entries of
    the product of the whole tensor, which reads the matrix once.
    """
    body, makers = node.attr("body"), makers_of(node.attr("body"))
    outside = {i.name: n for i, o, n in zip(body.inputs[2:], body.outputs[1:], node.inputs[2:]) if i.name == o.name}
    outside.update((n, n) for n in body.captures())
    places, before, entries = counters(lowering, body, makers), [], {}
    for product in body.nodes:
        entry = makers.get(product.inputs[0]) if product.op == "MatMul" and not product.parts else None
        if not entry or entry.op != "Gather" or entry.attr("axis", 0) or entry.inputs[1] not in places:
            continue
        names = [outside.get(n) for n in (entry.inputs[0], product.inputs[1])]
        x, matrix = (lowering.env.get(n) for n in names)
        if not isinstance(x, (Tensor, Feed)) or len(getattr(matrix, "shape", ())) != 2:
            continue
        fits = len(x.shape) > 1 and x.shape[-1] == matrix.shape[0]
        if fits and (limit == np.inf or x.shape[0] <= 2 * limit):
            whole = lowering.unique(node) + product.outputs[0]
            before.append(replace(product, inputs=names, outputs=[whole]))
            entries[id(product)] = replace(entry, inputs=[whole, entry.inputs[1]], outputs=product.outputs)
    if not before:
        return []
    for state, empty in (("ggml.unrolled", []), ("ggml.runs", {})):  # which all plans share
        node.attrs.setdefault(state, empty)
    body = replace(body, nodes=[entries.get(id(n), n) for n in body.nodes])
    return [*before, replace(node, attrs={**node.attrs, "body": body})]


def nothing(info):
    """The scan output of a loop without iterations."""
    return np.empty([0, *(d if isinstance(d, int) else 0 for d in info.shape or ())], info.dtype)


@rule("Loop", expands=True)
def loop(lowering, node, count=None, condition=None, *carried):
    body, turn = node.attr("body"), node.attr("ggml.turn", 0)
    kept = len(body.inputs) - 2
    node.inputs += [""] * (2 - len(node.inputs))
    scans = node.attr("ggml.scans") or [[] for _ in body.outputs[1 + kept :]]
    if count is not None and not isinstance(count, Known):
        raise NeedValue(count)
    limit = np.inf if count is None else int(np.ravel(count.array)[0])
    if not turn and (nodes := ahead(lowering, node, limit)):
        return nodes
    unrolled = node.attr("ggml.unrolled", ())
    if not turn and limit > UNROLLED and limit not in unrolled and ANY not in unrolled:
        raise Drive(driven(lowering, node, limit))
    if unrolled and turn * len(body.nodes) > LONG:
        unrolled[:] = [NEVER]
        raise RetraceError
    if turn >= limit or not truth(node, condition):
        done = [private(node, "Identity", [a], [o]) for a, o in zip(node.inputs[2:], node.outputs) if o]
        for pieces, info, output in zip(scans, body.outputs[1 + kept :], node.outputs[kept:]):
            if pieces:
                done.append(private(node, "ggml.Stack", pieces, [output]))
            else:
                lowering.env[output] = Known(nothing(info))
        return done
    prefix = lowering.unique(node)
    lowering.env[prefix + "turn"] = Known(np.array(turn, np.int64))
    inputs = [prefix + "turn", node.inputs[1], *node.inputs[2:]]
    if not node.inputs[1]:
        inputs[1] = prefix + "true"
        lowering.env[inputs[1]] = Known(np.array(True))
    outputs = [f"{prefix}{i}" for i in range(len(body.outputs))]
    nodes = subgraph(lowering, node, body, inputs, outputs)
    scans = [[*pieces, o] for pieces, o in zip(scans, outputs[1 + kept :])]
    following = replace(
        node,
        inputs=[node.inputs[0], outputs[0], *outputs[1 : 1 + kept]],
        attrs={**node.attrs, "ggml.turn": turn + 1, "ggml.scans": scans},
    )
    return [*nodes, following]


@rule("Scan", expands=True)
def scan(lowering, node, *values):
    if node.version < 9:
        return batched_scan(lowering, node, *values)
    body, n = node.attr("body"), node.attr("num_scan_inputs")
    kept = len(node.inputs) - n
    outs = len(body.outputs) - kept
    backward = node.attr("scan_input_directions") or [0] * n
    axes = node.attr("scan_input_axes") or [0] * n
    length = values[kept].shape[axes[0]]
    carried, nodes, pieces = node.inputs[:kept], [], []
    for turn in range(length):
        prefix, entries = lowering.unique(node), []
        for i in range(n):
            entries.append(f"{prefix}in{i}")
            index = length - 1 - turn if backward[i] else turn
            nodes.append(private(node, "ggml.Entry", [node.inputs[kept + i]], [entries[-1]], axis=axes[i], index=index))
        outputs = [f"{prefix}{i}" for i in range(len(body.outputs))]
        nodes += subgraph(lowering, node, body, [*carried, *entries], outputs)
        carried = outputs[:kept]
        pieces.append(outputs[kept:])
    nodes += [private(node, "Identity", [a], [o]) for a, o in zip(carried, node.outputs) if o]
    turned = node.attr("scan_output_directions") or [0] * outs
    axes = node.attr("scan_output_axes") or [0] * outs
    nodes += [
        private(node, "ggml.Stack", p[::-1] if t else p, [o], axis=a)
        for p, o, t, a in zip(zip(*pieces), node.outputs[kept:], turned, axes)
        if o
    ]
    return nodes


def batched_scan(lowering, node, lengths, *values):
    """Scan of operator set 8: every operand has a batch in front, whose entries are scanned one after the other."""
    batch, n = values[0].shape[0], node.attr("num_scan_inputs")
    results, nodes = [], []
    attrs = {"body": node.attr("body"), "num_scan_inputs": n, "scan_input_directions": node.attr("directions")}
    for i in range(batch):
        prefix = lowering.unique(node)
        entries = [f"{prefix}in{k}" for k in range(len(values))]
        nodes += [private(node, "ggml.Entry", [a], [e], axis=0, index=i) for a, e in zip(node.inputs[1:], entries)]
        outputs = [f"{prefix}out{k}" for k in range(len(node.outputs))]
        nodes.append(replace(node, inputs=entries, outputs=outputs, attrs=attrs, version=9))
        results.append(outputs)
    return nodes + [private(node, "ggml.Stack", r, [o]) for r, o in zip(zip(*results), node.outputs) if o]


def position(b, where, n, default):
    """A known position in a sequence of n elements."""
    i = default if where is None else int(np.ravel(b.known(where))[0])
    if not -n <= i <= n:
        raise ValueError(f"position {i} of a sequence of {n} elements")
    return i + n if i < 0 else i


rule("SequenceConstruct", sequences=True)(lambda b, node, *values: Sequence(values))
rule("SequenceEmpty", sequences=True)(lambda b, node: Sequence([]))
rule("SequenceLength", sequences=True)(lambda b, node, values: Known(np.array(len(values.items), I64)))


rule("ggml.Sequence", sequences=True)(lambda b, node, *values: Sequence(values))
rule("ggml.Item", sequences=True)(lambda b, node, values: values.items[node.attr("index")])


@rule("SequenceMap", expands=True)
def sequence_map(lowering, node, *values):
    """The nodes of the body for each element; ONNX's own expansion does not know what the body captures."""
    if any(isinstance(v, Opaque) for v in values):
        raise OnHost("strings, sequences and optionals are not tensors")
    body, nodes, results = node.attr("body"), [], [list[str]() for _ in node.outputs]
    lengths = [len(v.items) for v in values if isinstance(v, Sequence)]
    if len(set(lengths)) != 1:
        raise ValueError(f"the sequences have {lengths} elements: need as many in each, of one sequence or more")
    for turn in range(lengths[0]):
        prefix, inputs = lowering.unique(node), list(node.inputs)
        for i, value in enumerate(values):
            if isinstance(value, Sequence):
                inputs[i] = f"{prefix}in{i}"
                nodes.append(private(node, "ggml.Item", [node.inputs[i]], [inputs[i]], index=turn))
        outputs = [f"{prefix}out{i}" for i in range(len(body.outputs))]
        nodes += subgraph(lowering, node, body, inputs, outputs)
        for pieces, output in zip(results, outputs):
            pieces.append(output)
    return nodes + [private(node, "ggml.Sequence", r, [o]) for r, o in zip(results, node.outputs) if o]


@rule("SequenceInsert", sequences=True)
def insert(b, node, values, x, where=None):
    items = list(values.items)
    items.insert(position(b, where, len(items), len(items)), x)
    return Sequence(items)


@rule("SequenceErase", sequences=True)
def erase(b, node, values, where=None):
    items = list(values.items)
    items.pop(position(b, where, len(items), len(items) - 1))
    return Sequence(items)


rule("SequenceAt", sequences=True)(
    lambda b, node, values, where: values.items[position(b, where, len(values.items), 0)]
)
rule("ConcatFromSequence", sequences=True)(
    lambda b, node, values: (b.stack if node.attr("new_axis", 0) else b.concat)(values.items, node.attr("axis"))
)


@rule("SplitToSequence", sequences=True)
def split_to(b, node, x, split=None):
    axis = node.attr("axis", 0) % len(x.shape)
    n = x.shape[axis]
    keep = split is not None or node.attr("keepdims", 1)
    sizes = np.ones(n, int) if split is None else b.known(split)
    if sizes.ndim == 0:
        step = int(sizes)
        if step < 1:
            raise OnHost(f"parts of {step} entries")
        sizes = [min(step, n - i) for i in range(0, n, step)]
    parts = b.split(x, axis, sizes)
    return Sequence(parts if keep else [b.reshape(p, x.shape[:axis] + x.shape[axis + 1 :]) for p in parts])
