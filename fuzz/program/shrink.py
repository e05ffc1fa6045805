"""Makes a failing program shorter, and prints one as a Python script."""

import base64
import copy
import inspect
import time

import numpy as np

from . import execute
from .make import decoded, is_tensor, operands_in


def without(program, gone):
    """A copy of the program without some items and without all that depends on them."""
    gone, numbers = set(gone), {}
    for i, item in enumerate(program.items):
        if i in gone or any(is_tensor(a) and a["t"] in gone for a in item.get("args", ())):
            gone.add(i)
        else:
            numbers[i] = len(numbers)
    made = copy.copy(program)
    made.items, made.calls = [], []
    for i in numbers:
        item = dict(program.items[i])
        if "fn" in item:
            item["args"] = [{"t": numbers[a["t"]]} if is_tensor(a) else a for a in item["args"]]
        made.items.append(item)
        made.calls.append(program.calls[i])
    made.outputs = [numbers[k] for k in program.outputs if k in numbers]
    made.grads = None
    if program.grads and program.grads[1] in numbers:
        parameters = [numbers[k] for k in program.grads[0] if k in numbers]
        made.grads = (parameters, numbers[program.grads[1]]) if parameters else None
    return made


def unused(program):
    """The leaves that nothing reads."""
    used = operands_in(program.items)
    return [i for i, item in enumerate(program.items) if "type" in item and i not in used]


def with_leaf(program, i, data):
    """A copy of the program in which a leaf with the computed bytes stands for call i."""
    made = copy.copy(program)
    made.items, made.calls = list(program.items), list(program.calls)
    text = base64.b64encode(data).decode()
    made.items[i] = {"type": program.calls[i].type, "ne": list(program.calls[i].ne), "a": text, "b": text}
    made.calls[i] = copy.copy(program.calls[i])
    made.calls[i].row = None
    made.outputs = [k for k in program.outputs if k != i]
    return made


def shrink(program, fails, values=None, seconds=60):
    """The shortest program found for which fails(program) stays true: items are dropped, half of them first, then one
    by one, and calls become leaves with the values that they gave.
    """
    end, size = time.monotonic() + seconds, max(1, len(program.items) // 2)
    values = dict(values or {})
    for i in sorted(map(int, values), reverse=True):
        if time.monotonic() < end and "fn" in program.items[i]:
            candidate = with_leaf(program, i, values[str(i)])
            if fails(candidate):
                program = candidate
    while size:
        start = len(program.items) - size
        while start > -size and time.monotonic() < end:
            candidate = without(program, range(max(0, start), start + size))
            candidate = without(candidate, unused(candidate))
            if len(candidate.items) < len(program.items) and candidate.items and fails(candidate):
                program = candidate
            start = min(start, len(program.items)) - size
        size //= 2
    return program


# ---- scripts ---------------------------------------------------------------------------------------------------------
HEAD = '''"""{title}"""

import base64
import ctypes

import ggml


def leaf(type, ne, data):
    """A tensor with these bytes, which are written by base64."""
    t = ggml.ggml_new_tensor_4d(ctx, getattr(ggml, "GGML_TYPE_" + type), *ne)
    data = base64.b64decode(data)
    ctypes.memmove(t.contents.data, data, len(data))
    return t


ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=0))
graph = ggml.ggml_new_graph_custom(ctx, 4096, {gradients})
'''
TAIL = """for threads in 1, 2, 3:
    {reset}ggml.ggml_graph_compute_with_ctx(ctx, graph, threads)
    for name in "{results}".split():
        t = globals()[name]
        print(threads, name, t, [ggml.ggml_get_f32_1d(t, k) for k in range(min(8, ggml.ggml_nelements(t)))])
"""
WIDTH = 8  # values of a leaf that a comment shows


def script(program, title):
    """A Python script that builds and computes the program."""
    lines = [HEAD.format(title=title, gradients=bool(program.grads))]
    parameters, loss = program.grads or ((), None)
    if any(callback_of(item) for item in program.items):
        used = (execute.type_name, execute.array_over, execute.product_part, execute.count_part)
        lines += ["import numpy as np", f"DTYPES = {execute.DTYPES}", *map(inspect.getsource, used)]
    for i, (item, made) in enumerate(zip(program.items, program.calls)):
        if "type" in item:
            first = decoded(base64.b64decode(item["a"]), made.type, made.ne).ravel()[:WIDTH]
            shown = np.array2string(first, precision=4, max_line_width=10**6)
            lines.append(f"# t{i}: {made.type} {list(made.ne)}, {shown} ...")
            lines.append(f"t{i} = leaf({item['type']!r}, {item['ne']}, {item['a']!r})")
            if item.get("param") or i in parameters:
                lines.append(f"ggml.ggml_set_param(t{i})")
        else:
            if callback := callback_of(item):
                kind = execute.callback_type(item["fn"])
                lines.append(f"f{i} = ggml.{kind}({execute.CALLBACKS[callback].__name__})")
            args = ", ".join(argument(a, i) for a in item["args"])
            lines.append(f"t{i} = ggml.ggml_{item['fn']}(ctx, {args})  # {made.type} {list(made.ne)}")
            lines.append(f"ggml.ggml_build_forward_expand(graph, t{i})")
    results = [f"t{i}" for i, item in enumerate(program.items) if "fn" in item]
    if program.grads:
        lines += [f"ggml.ggml_set_loss(t{loss})", "ggml.ggml_build_backward_expand(ctx, graph, None)"]
        lines += [f"g{k} = ggml.ggml_graph_get_grad(graph, t{k})" for k in parameters]
        results += [f"g{k}" for k in parameters]
    reset = "ggml.ggml_graph_reset(graph)\n    " if program.grads else ""
    return "\n".join(lines) + "\n" + TAIL.format(results=" ".join(results), reset=reset)


def callback_of(item):
    """The name of the callback of a call, or None."""
    return next((a["callback"] for a in item.get("args", ()) if isinstance(a, dict) and "callback" in a), None)


def argument(a, i):
    """An argument of call i as source text."""
    if not isinstance(a, dict):
        return f"float({str(a)!r})" if isinstance(a, float) and not np.isfinite(a) else repr(a)
    ((kind, value),) = a.items()
    if kind == "t":
        return f"t{value}"
    if kind == "callback":
        return f"f{i}"
    return f"(ctypes.c_int{'64' if kind == 'i64' else '32'} * {len(value)})(*{value})"


def listing(program):
    """One line for each item."""
    lines = []
    for i, (item, made) in enumerate(zip(program.items, program.calls)):
        args = [f"t{a['t']}" if is_tensor(a) else str(a) for a in item.get("args", ())]
        what = f"{item['fn']}({', '.join(args)})" if args else item.get("fn", "leaf")
        lines.append(f"  t{i} = {what}: {made.type} {list(made.ne)}")
    return "\n".join(lines)
