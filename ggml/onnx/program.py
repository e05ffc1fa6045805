"""Programs and plans: lowering a list of nodes for operands of given shapes, and running the result.

A `Program` is a list of nodes with named inputs and outputs. For every signature of its inputs (shapes, types, and the
values of the few operands that decide shapes) it lowers the nodes once, into a `Plan`: one ggml graph. Where a node
must run on the host, or the values of something computed decide what comes next, the plan ends, and the remaining nodes
are another Program, whose inputs are the values that are alive there.
"""

from __future__ import annotations

import ctypes
from collections import OrderedDict, deque
from typing import Any, NamedTuple

import numpy as np

import ggml

from .._graph.alloc import alloc_graph_once
from .._owners import Owner, keep
from . import expand, folding, host
from .builder import Builder
from .graph import numpy_type
from .layout import Home
from .opsets import ALIGN, aligned
from .recording import Recipe, pattern_of, sized
from .repeating import Ending, Repeat, Step, owned, signature
from .replaying import graph_of, is_numbers, kind_of, names_of, result_tensor, shape_of
from .rules import doubles
from .signatures import require_types
from .sizes import Size, Terms, UnrecordedError, int_of
from .transfer import Transfer
from .values import (
    F64,
    WIDENED,
    Drive,
    Feed,
    InPieces,
    Known,
    NeedValue,
    OnHost,
    Opaque,
    Parameter,
    Sequence,
    Tensor,
    count,
    is_constant,
    is_float,
    place_of,
    require_held,
)

PLANS = 16  # prepared graphs that a program keeps
RECORDINGS = 6  # attempts of a program to make a recipe of a graph for operands of several shapes
ALONG = set(
    "ArgMax ArgMin Compress Concat Gather GatherElements Hardmax LayerNormalization LogSoftmax LpNormalization "
    "RMSNormalization ScatterElements Softmax Split TopK".split()
)  # operators along an axis of their operand
TEXTS = set(
    "Flatten Gather Reshape StringNormalizer ai.onnx.ml.ArrayFeatureExtractor com.microsoft.Tokenizer".split()
)  # operators that give texts for texts
MOVES = {"Concat", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"}
LAST = 3  # operators that only move elements: as many take less time on the host than another graph
KNOWN = {Known, type(None)}
LARGE = 1 << 13  # elements from which leaving the graph is worth the time
ROOT = 64  # integer inputs of up to this many elements are read by value if they decide a shape


class HostRefused(RuntimeError):
    """A strict model has a node that would run on the host."""


class NodeError(ValueError):
    """A node whose operands or attributes do not fit."""


class RetraceError(Exception):
    """The signature of the program has changed: an input is now read by value."""


class Entry(NamedTuple):
    """One line of a report: a node, where it runs ("graph", "host", "folded", "expanded", "control"), and why."""

    name: str
    op: str
    where: str
    why: str = ""


class Program(Owner):
    """Nodes to run, with names of inputs and outputs; known: values by name that do not change between runs.

    model: what all its programs share (model.Engine); by_value: inputs whose values are part of the signature.
    """

    def __init__(self, model, nodes, known, inputs, outputs, by_value=()):
        self.model, self.nodes, self.known = model, nodes, known
        self.inputs, self.outputs, self.by_value = inputs, outputs, set(by_value)
        self.plans: OrderedDict[Any, Plan] = OrderedDict()
        self.last: tuple[Any, Any] = (None, None)  # the signature and the plan of the last run
        self.recipes: list[Recipe] = []
        self.attempts = RECORDINGS  # to make one, that are left
        self.repeat = Repeat(True)  # of iterations
        self.following = Repeat()  # of runs after another plan
        self.memory: Any = None  # of the graph of the last plan that was made
        self.pools: dict = {}  # memory of large results by their names

    def place(self, graph):
        """Memory for the tensors of a graph, which plans share, because one of them computes at a time.

        Where sizes change, it is twice as large as needed: pages that were used before take less time than new ones.
        """
        if self.memory is None or not self.memory.place(graph):
            self.memory = Memory(graph, 1 if self.memory is None else 2)
        return self.memory

    def forget(self):
        """Drops the plans, which were made under conditions that do not hold any more."""
        self.plans.clear()
        self.recipes.clear()
        self.last = (None, None)

    def part(self, outputs):
        """The program of those nodes that some of the outputs need, with those inputs that they read."""
        needed, nodes = set(outputs), []
        for node in reversed(self.nodes):
            if needed.intersection(node.outputs):
                nodes.append(node)
                needed |= node.reads()
        inputs = [n for n in self.inputs if n in needed]
        return Program(self.model, nodes[::-1], self.known, inputs, list(outputs))

    def signature(self, values):
        """What plans depend on: for each operand "opaque", or its shape, type, and bytes or an interval."""
        return signature(self.inputs, self.by_value, values)

    def plan(self, values):
        """The plan for operands, made if there is none yet."""
        while True:
            key = self.signature(values)
            if key == self.last[0]:
                return self.last[1]
            plan = self.plans.get(key)
            if plan is not None:
                self.plans.move_to_end(key)
                self.last = key, plan
                return plan
            try:
                plan = self.repeated(key) or self.recorded(values, key) or Lowering(self, values, key).plan()
            except RetraceError:
                self.forget()
                continue
            self.plans[key] = plan
            if len(self.plans) > PLANS:
                self.plans.popitem(last=False)
            self.last = key, plan
            return plan

    def repeated(self, key):
        """The plan of a recipe, if there is one for operands of these shapes."""
        for recipe in self.recipes:
            values = recipe.values(key)
            if not values:
                continue
            home = Home()
            try:
                built = recipe.built(home, values)
                if built is not None:
                    return Plan(self, home, recipe.ending, *built)
            except Exception:  # a function refuses the sizes: lowering says why, or does without
                continue
        return None

    def recorded(self, values, key):
        """A plan, whose making becomes a recipe; None if it cannot, or the last operands were of another kind."""
        before = self.last[0]
        if not (self.attempts and before and list(map(kind_of, before)) == list(map(kind_of, key))):
            return None
        pattern = pattern_of(list(map(shape_of, before)), list(map(shape_of, key)))
        if pattern is None or any(isinstance(v, Parameter) for v in self.known.values()):
            return None
        self.attempts -= 1
        try:
            return Recording(self, values, key, self.last[1], *pattern).plan()
        except (RetraceError, MemoryError):
            raise
        except Exception:  # of rules that need numbers: without a recording, they get them
            self.attempts = 0
            return None

    def run(self, values, report=None):
        """The outputs for one array (or list, str, None) per input; appends Entry objects to a list, report."""
        program = self
        while True:
            plan = program.plan(values)
            if report is not None:
                report.extend(Entry(*e) for e in plan.ending.entries)
            results, ending = plan.compute(values), plan.ending
            if ending.rest is None:
                return [results[n] for n in program.outputs]
            if ending.step is not None:
                results.update(ending.step(results))
            if ending.ends:  # the caller may write into outputs
                return [owned(results[n]) for n in program.outputs]
            program, values = ending.rest, [results[n] for n in ending.rest.inputs]

    def again(self, values, last, changed):
        """The plan and the outputs for values, of which only the first `changed` are new to the plan that ran last."""
        found = self.repeat.again(values, changed if last is self.repeat.plan else len(values))
        if found is not None:
            return self.repeat.plan, found
        plan = self.plan(values)
        if plan.ending.rest is not None:
            return plan, self.run(values)
        results = plan.compute(values, changed if plan is last else None)
        self.repeat.keep(self)
        return plan, [results[n] for n in self.outputs]


def least(value):
    """The form of a value with the fewest bytes, which a graph gives."""
    return value.least if isinstance(value, Tensor) else value


def where_of(results):
    """Where the results of a rule come from."""
    return "folded" if all(type(r) is Known for r in results) else "graph"


class Lowering:
    """One pass over the nodes of a program, for operands of one signature."""

    def __init__(self, program, values, key):
        self.program, self.model = program, program.model
        self.nodes, self.env = deque(program.nodes), dict(program.known)
        self.makers: dict[str, Any] = {}  # name -> node that it is computed by
        for name, value, part in zip(program.inputs, values, key):
            if part == "opaque":
                self.env[name] = Opaque(name)
            elif name in program.by_value or not value.size:  # an empty array is known by its shape
                self.env[name] = Known(value.copy())  # the caller may write into its own
            else:
                self.env[name] = Feed(name, value.shape, value.dtype, part[2])
        self.entries: list[tuple] = []  # the fields of an Entry each
        trains = any(isinstance(v, Parameter) for v in self.env.values())
        self.builder = Builder(self.model.weights, trains, self.model.strict, self.model.workers)
        self.named = None  # the last tensor that label has seen

    @np.errstate(all="ignore")  # constants of the model may overflow
    def plan(self):
        """Lowers nodes until the end, or until one that the host must run."""
        while self.nodes:
            node = self.nodes.popleft()
            try:
                self.lower(node)
            except NeedValue as need:
                self.read_by_value(node, need.value)
                self.nodes.appendleft(node)
                return self.finish(None, {n for n in node.inputs if n and self.env[n] is need.value})
            except OnHost as reason:
                nodes = [node, *self.following(node)]
                return self.finish(self.on_host(nodes, str(reason)), (), nodes)
            except Drive as control:
                self.note(node, "control", str(control))
                return self.finish(control.step, (), [node])
            except (HostRefused, RetraceError, UnrecordedError, host.HostError, NodeError, MemoryError):
                raise
            except Exception as error:
                shapes = [getattr(self.env.get(n), "shape", ()) for n in node.inputs]
                host_knows = "." not in node.op or node.op in host.OPERATORS
                recorded = self.builder.recorder is not None  # which other sizes would get, too
                if host_knows and not recorded and any(0 in s for s in shapes):  # few rules expect no elements
                    return self.finish(self.on_host([node], f"an operand has no elements: {error}"), (), [node])
                raise NodeError(self.refusal(node, error)) from error
        return self.finish(None, ())

    def refusal(self, node, error):
        """What is wrong with the operands of a node: the words of its rule, if it has any for an error."""
        values = [self.env.get(n) for n in node.inputs]
        shapes = [(n, getattr(v, "shape", None)) for n, v in zip(node.inputs, values)]
        text = ", ".join(f"{n!r} {'' if s is None else list(s)}" for n, s in shapes)
        own = isinstance(error, ValueError) and not hasattr(error, "function") and "unpack" not in str(error)
        why = str(error).removeprefix(f"{node}: ") if own else host.misfit(node, values)
        return f"{node} with {text}: {why}"

    def lower(self, node):
        """Puts values into the environment for the outputs of one node."""
        if node.parts:
            self.lower_pattern(node)
        else:
            self.store(node, self.results(node, [self.env[n] if n else None for n in node.inputs]))

    def lower_pattern(self, node):
        """Lowers a node that a pattern made, or its parts if its rule does not compute the operands."""
        values = [self.env.get(n) for n in node.inputs]
        try:
            there = all(n in self.env for n in node.inputs if n)
            tensors = all(v is None or isinstance(v, (Known, Feed, Tensor)) for v in values)
            if there and tensors and any(isinstance(v, (Feed, Tensor)) for v in values):
                results = self.rule_results(node, values)
                self.entries += [(p.name, p.op, where_of(results)) for p in node.parts]
                self.store(node, results)
                return
        except (OnHost, ValueError):  # whose message names the node that the model has
            pass
        self.nodes.extendleft(reversed(node.parts))

    def store(self, node, results):
        """Puts the results of a node into the environment; None: the node was expanded."""
        if results is None:  # expanded
            return
        if len(node.outputs) > len(results) and any(node.outputs[len(results) :]):
            raise ValueError(f"it has {len(node.outputs)} outputs, the operator gives {len(results)}")
        for name, value in zip(node.outputs, results):
            if name:
                self.env[name] = value
                self.makers[name] = node

    def results(self, node, values):
        """One value per output, or None if the node was replaced by others."""
        if node.op == "Identity":
            return values
        rule = self.model.rules.get(node.op)
        if getattr(rule, "expands", False):
            return self.replace(node, rule(self, node, *values))
        require_types(node, values)
        if rule is None and node.function() is not None:  # of the model, which the host does not know
            return self.replace(node, expand.function(self, node, values))
        sequences, kinds = getattr(rule, "sequences", False), set(map(type, values))
        if Opaque in kinds or Sequence in kinds and rule and not sequences:
            raise OnHost("strings, sequences and optionals are not tensors")
        rank = max(len(getattr(values[0], "shape", ())), 1) if node.op in ALONG and values else 0
        if rank:
            place_of(node.attr("axis", 0), rank)
        if self.is_moved(node, values):
            raise OnHost("integers take less time there than their conversion to floats")
        known = kinds <= KNOWN and node.op not in host.RANDOM
        if known and not sequences and (rule is None or "." not in node.op):  # the host knows ONNX's own domain
            try:
                return self.folded(node, values)
            except host.HostError:  # the reference does not know a version or a case of the operator
                if rule is None:
                    raise
        try:
            if rule is not None:
                results = self.rule_results(node, values)
                self.note(node, where_of(results))
                return results
        except InPieces:
            pass
        for value in values:  # expanding a function whose operands stay on the host would gain nothing
            if isinstance(value, Feed):
                require_held(value)
        return self.replace(node, expand.function(self, node, values))

    def is_moved(self, node, values):
        """Whether the only node of a program has large operands of integers, which take less time on the host."""
        alone = [n is node for n in self.program.nodes] == [True]  # and not a part of a function
        if not alone or node.op not in host.OF_INTEGERS or self.builder.stays:
            return False
        grows, given = node.op in host.GROWING, values[:1] if node.op in host.TAKING else values
        types = [v.dtype for v in given if type(v) is Feed and (grows or count(v.shape) >= LARGE)]
        if types and node.op == "Cast":
            types.append(numpy_type(node.attr("to"), str(node)))
            if not WIDENED.isdisjoint(types):  # the engine converts half precision
                return False
        return any(not is_float(t) for t in types)

    def rule_results(self, node, values):
        """What the rule of a node makes of values, a tuple."""
        if ALIGN in node.attrs:
            values[1] = self.builder.reshape(values[1], aligned(node, values[0].shape, values[1].shape))
        results = None
        if any(getattr(v, "dtype", None) == F64 for v in values):
            results = doubles.results(self.builder, node, values)
        if results is None:
            results = self.model.rules[node.op](self.builder, node, *values)
        self.label(node)
        return results if isinstance(results, tuple) else (results,)

    def label(self, node):
        """Gives the tensors that the rule of a node made its name, which messages, profiles and drawings show."""
        ctx = self.builder.context
        t = ggml.ggml_get_next_tensor(ctx, self.named) if self.named else ggml.ggml_get_first_tensor(ctx)
        while t:
            ggml.ggml_set_name(t, node.name[-63:])
            self.named, t = t, ggml.ggml_get_next_tensor(ctx, t)

    def folded(self, node, values):
        """The outputs of a node whose inputs are known."""
        self.note(node, "folded")
        if self.builder.recorder and any(v is not None and v.trace for v in values):
            found = folding.fold(self.builder, node, values, lambda: self.rule_results(node, values))
            if found is not None:
                return found
        arrays = host.evaluate(node, [None if v is None else v.array for v in values])
        if any(a is not None and (not isinstance(a, np.ndarray) or a.dtype.kind in "OUS") for a in arrays):
            raise OnHost("strings, sequences and optionals are not tensors")
        return [a if a is None else Known(a) for a in arrays]

    def replace(self, node, expansion):
        """Puts nodes in place of one; a list is nodes, a tuple is results."""
        if isinstance(expansion, tuple):
            return expansion
        self.note(node, "expanded")
        self.nodes.extendleft(reversed(expansion))
        return None

    def note(self, node, where, why=""):
        self.entries.append((node.name, node.op, where, why))

    def unique(self, node):
        """A prefix for the names of nodes that replace this one."""
        self.model.expansions += 1
        return f"{node.name}#{self.model.expansions}/"

    # Where a plan ends

    def roots(self, names):
        """The inputs of the program that some names are computed from."""
        found, left = set(names), list(names)
        while left:
            node = self.makers.get(left.pop())
            new = node.reads() - found if node else ()
            found.update(new)
            left.extend(new)
        return found.intersection(self.program.inputs)

    def read_by_value(self, node, value):
        """Makes the inputs that decide a shape part of the signature, if they are few and small."""
        names = [n for n in node.inputs if n and self.env[n] is value]
        if not names:
            raise OnHost("the values of an operand decide the shape of the result")
        roots = self.roots(names)
        feeds = [self.env[r] for r in roots]
        small = all(
            isinstance(f, Known)
            or isinstance(f, Feed)
            and np.prod(f.shape) <= ROOT
            and (f is value or f.dtype.kind in "biu")
            for f in feeds
        )
        if isinstance(value, Feed):
            self.program.by_value.add(value.name)
            raise RetraceError
        if small and not all(isinstance(f, Known) for f in feeds):
            self.program.by_value |= roots
            raise RetraceError

    def following(self, node):
        """Takes the nodes after one that runs on the host, as long as they run there whatever their operands are.

        Their operators do, or they read texts, or they are the last ones.
        """
        rules, texts = self.model.rules, {n for n, v in self.env.items() if isinstance(v, Opaque)}
        while True:
            if node.op in TEXTS and node.inputs[0] in texts:
                texts.update(node.outputs)
            if not self.nodes:
                return
            node = self.nodes[0]
            if len(self.nodes) <= LAST and all(n.op in MOVES and not n.parts for n in self.nodes):
                yield from self.nodes
                self.nodes.clear()
                return
            alone = node.op in host.OPERATORS and node.op not in rules
            rule = rules.get(node.op)
            called = rule is None and node.function() is not None
            plain = not (node.parts or called or getattr(rule, "expands", False))
            if not (alone or plain and texts.intersection(node.inputs)):
                return
            yield self.nodes.popleft()

    def on_host(self, nodes, reason):
        """The function that runs nodes on the host: arrays by name -> outputs by name."""
        if self.model.strict:
            raise HostRefused(f"{nodes[0]} would run on the host, which strict=True refuses: {reason}")
        for node in nodes:
            if node.op != "Identity":
                self.note(node, "host", reason)
        quietly, step = host.quiet(self.model.threads), Step(nodes, host.function_of, host.fail)
        return lambda values: quietly(step, values)

    def finish(self, step, by_value, nodes=()):
        """The plan of what was lowered, and the program of what remains.

        The function step, or None, runs nodes on the host in between; the program reads by_value by their values.
        """
        program = self.program
        if step is None and not self.nodes:
            missing = [n for n in program.outputs if n not in self.env]
            if missing:
                raise NodeError(f"no node gives {', '.join(map(repr, missing))}")
            return self.planned(program.outputs, None, None)
        remaining, made = list(self.nodes), {n for node in nodes for n in node.outputs} - {""}
        needed = set(program.outputs).union(*(n.reads() for n in remaining))
        names = [n for n in needed if n in self.env or n in made]
        there = {n: self.env[n] for n in names if n not in made}
        known = {n: v for n, v in there.items() if v is None or isinstance(v, Parameter) or is_constant(v)}
        by_value = {*by_value, *(n for n, v in there.items() if n not in known and isinstance(v, Known))}
        inputs = sorted(n for n in names if n not in known)
        live = [n for n in inputs if n not in made]
        uses = set().union(*(node.reads() for node in nodes)) - made
        live += [n for n in uses if n not in live]
        return self.planned(live, step, Program(self.model, remaining, known, inputs, program.outputs, by_value))

    def planned(self, live, step, rest):
        """The plan that gives the names in live, and what follows it."""
        ending, feeds, results, known = self.given(live, step, rest)
        return Plan(self.program, self.builder, ending, feeds, results, arrays_of(known))

    def given(self, live, step, rest):
        """What a plan gives: its Ending, its operands and results as `Transfer` takes them, and Known values by name.

        The graph is complete then.
        """
        inputs, builder, passed, lists, results, known = self.program.inputs, self.builder, [], [], [], {}
        places = [(name, self.env[name]) for name in live]
        for name, value in places:  # grows: the elements of a sequence are results of their own
            if isinstance(value, Sequence):
                names = [f"{name}[{i}]" for i in range(len(value.items))]
                places += zip(names, value.items)
                lists.append((name, names))
            elif isinstance(value, (Feed, Opaque)):
                passed.append((name, inputs.index(value.name)))
            elif value is None or isinstance(value, Known):
                known[name] = value
            else:
                value = least(value)
                t = builder.call(result_tensor, value.t, name[-63:].encode())
                results.append((name, value.shape, value.dtype, t))
        feeds = [(inputs.index(f.name), f.shape, f.dtype, f.tensor.t) for f in builder.feeds]
        own = {name for name, *_ in (*results, *lists)}
        outputs = [(name, name in own) for name in self.program.outputs]
        return Ending(passed, lists, own, outputs, self.entries, step, rest), feeds, results, known


class Recording(Lowering):
    """A pass over the nodes for operands whose shapes have a pattern; it makes a recipe for others of this pattern."""

    def __init__(self, program, values, key, before, pattern, symbols):
        super().__init__(program, values, key)
        self.key, self.pattern, self.terms = key, pattern, Terms(symbols)
        self.computed = {entry[0] for entry in before.ending.entries if entry[2] == "graph"}  # by the plan before
        self.builder.record(self.terms)
        for name, part, shape in zip(program.inputs, key, sized(pattern, self.terms)):
            if isinstance(value := self.env[name], Feed):
                value.shape = shape
            elif any(type(n) is Size for n in shape or ()):
                if not is_numbers(part):
                    raise UnrecordedError("an operand that is read by its values")
                self.env[name] = self.builder.recorder.numbers(list(shape), *part[:2])

    def on_host(self, nodes, reason):
        if nodes[0].name in self.computed:  # only a rule that needs numbers gives up where it has not before
            raise UnrecordedError(reason)
        return super().on_host(nodes, reason)

    def planned(self, live, step, rest):
        ending, feeds, results, known = self.given(live, step, rest)
        if ending.lists:
            raise UnrecordedError("a sequence")
        kinds, names = list(map(kind_of, self.key)), names_of(self.builder.context)
        recipe = Recipe(self.builder.stop(), kinds, self.pattern, feeds, results, known, names, ending)
        self.program.recipes.append(recipe)
        for value in filter(None, known.values()):
            value.trace = None
        feeds, results = ([(k, tuple(map(int_of, s)), *more) for k, s, *more in ends] for ends in (feeds, results))
        return Plan(self.program, self.builder, ending, feeds, results, arrays_of(known))


def arrays_of(known):
    """The arrays of Known values by name, None for None."""
    return {name: value and np.asarray(value.array) for name, value in known.items()}


class Plan(Owner):
    """A prepared graph and what follows it, an Ending. fixed: arrays by name that are known without computing.

    home: the layout.Home that owns the graph; feeds, results: as `Transfer` takes them.
    """

    def __init__(self, program, home, ending, feeds, results, fixed):
        self.home, self.ending, self.fixed, self.graph, self.memory = home, ending, fixed, None, None
        if results:
            self.graph = graph_of(home.context, [t for _, _, _, t in results])
            self.memory = program.place(self.graph)
        self.transfer = Transfer(program.model.backend, self.graph, feeds, results, program.pools)

    def compute(self, values, changed=None):
        """Runs the graph for operands, of which only the first `changed` are new (None: all); gives arrays by name."""
        results, ending = self.transfer(values, changed), self.ending
        if self.fixed or ending.passed or ending.lists:
            self.add_others(results, values, ending.rest is None and changed is None)
        return results

    def add_others(self, results, values, copied):
        """Adds what the graph does not compute; copied: the caller may write into outputs."""
        others = self.fixed | {name: values[place] for name, place in self.ending.passed}
        if copied:
            others = {n: v.copy() if isinstance(v, np.ndarray) else v for n, v in others.items()}
        results.update(others)
        for name, names in reversed(self.ending.lists):
            results[name] = [results.pop(n) for n in names]


class Memory(Owner):
    """The memory of a graph's tensors, shared between those that do not live together, and `times` as much."""

    def __init__(self, graph, times=1):
        self.allocator: Any = None
        keep(self, "allocator", ggml.ggml_gallocr_new, ggml.ggml_backend_cpu_buffer_type())
        self.size = times * self.needed(graph)
        if times > 1:
            self.reserve()
        if not ggml.ggml_gallocr_alloc_graph(self.allocator, graph):
            raise MemoryError("no memory for the graph's tensors")

    def needed(self, graph):
        """The bytes of a graph's tensors."""
        sizes = (ctypes.c_size_t * 1)()
        ggml.ggml_gallocr_reserve_n_size(self.allocator, graph, None, None, sizes)
        return sizes[0]

    def reserve(self):
        """Takes all memory at once, by a graph of one tensor."""
        ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=1 << 14, no_alloc=True))
        try:
            graph = ggml.ggml_new_graph_custom(ctx, 8, False)
            t = ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_I8, self.size)
            ggml.ggml_build_forward_expand(graph, t)
            ggml.ggml_gallocr_reserve(self.allocator, graph)
        finally:
            ggml.ggml_free(ctx)

    def place(self, graph):
        """Places another graph, and says whether there is enough memory."""
        return alloc_graph_once(self.allocator, graph, self.size)

    def __del__(self):
        if getattr(self, "allocator", None):
            keep(self, "allocator", ggml.ggml_gallocr_free, self.allocator)
