"""Makes random programs from the rows of tests/cases, which describe each operation with samples and a reference.

Every step takes a row, draws the arguments of one of its samples, and replaces operands by results of earlier steps,
which adapters (views, copies, casts, scaling) bring to the shape, the type and the range of values that the sample has.
The references compute along in float64: they tell the range of values, and later the correct gradients.
"""

import base64
import ctypes
import random
import re
from dataclasses import dataclass, field

import numpy as np
from cases import As, Op, Random, constructor, public_name, rows
from cases.harness import AXES, DTYPES, EPS, QUANTISED, memory, tensor, type_id, type_of, values_of

import ggml

from .execute import callback_type, numbers

ROWS = rows()
del ROWS["compiled"]  # takes the address of compiled code, which no file of a program can hold
NAMES = sorted(ROWS)
# What a program begins with: a row, or a step that no row describes.
OTHERS = ("quantised product", "quantised rows", "moved", "bare view")
SUBJECTS = [*NAMES, *OTHERS]
MOVED = ("I8", "I16", "I32", "I64", "F64")  # types that are copied and viewed, not computed with
# Rounds to a quantised type, with errors of any size below that of the largest value of a block.
QUANTISE = Op("cast", lambda x, _: x, (), tol=4.0, types=("F32",), name="quantise")
BARE_VIEW = Op("view_tensor", lambda a: a, (), tol=0)  # a view without an operation, of which there are no gradients
ROWS |= {row.name: row for row in (QUANTISE, BARE_VIEW)}
# Operands whose values have a meaning that no other values have: they stay those of the sample.
FIXED = {
    "solve_tri": {0}, "soft_max_ext_back": {1}, "cross_entropy_loss": {1}, "cross_entropy_loss_back": {2},
    "opt_step_adamw": {0, 1, 2, 3, 4}, "opt_step_sgd": {0, 1, 2}, "ssm_scan": {6}, "gated_delta_net": {3, 4},
    "pool_2d_back": {1},
}  # fmt: skip
INDEX = {"get_rows": 1, "get_rows_back": 1, "add_id": 2}  # the operand that may be any index in range
VIEWS = {"reshape", "reshape_1d", "reshape_2d", "reshape_3d", "reshape_4d", "view_1d", "view_2d", "view_3d", "view_4d",
         "permute", "transpose", "view_tensor"}  # fmt: skip
# The operands that a function writes to. The result lies in the memory of the first.
WRITES = {"cpy": (1,), "set_rows": (0,), "leaky_relu_over_a": (0,), "custom_inplace": (0,),
          "opt_step_adamw": (0, 2, 3), "opt_step_sgd": (0,)}  # fmt: skip
# Numbers that may change between two computes of a graph: {argument: factor}.
CHANGED = {
    "scale": {1: 0.5}, "scale_bias": {1: 0.5, 2: 2.0}, "norm": {1: 2.0}, "rms_norm": {1: 2.0}, "group_norm": {2: 2.0},
    "l2_norm": {1: 0.5}, "soft_max_ext": {2: 0.5}, "leaky_relu": {1: 0.5}, "fill": {1: 2.0}, "xielu": {1: 0.5},
    "clamp": {1: 0.5, 2: 0.5}, "flash_attn_ext": {4: 0.5},
}  # fmt: skip


def base_name(row):
    return row.name if row.name == "leaky_relu_over_a" else row.fn


@dataclass
class Value:
    """What is known of an item: its tensor without memory, its values in float64, and who shares its memory."""

    t: object
    values: object
    root: int
    alive: bool = True
    depends: frozenset = frozenset()


@dataclass
class Made:
    """What the references need to know of an item: the row that it comes from (None: a leaf), its type and sizes."""

    row: str | None
    type: str
    ne: tuple

    @property
    def shape(self):
        return self.ne[::-1]


@dataclass
class Program:
    """The items as execute.py reads them, and what is known of each."""

    seed: int
    items: list = field(default_factory=list)
    calls: list[Made] = field(default_factory=list)
    outputs: list = field(default_factory=list)
    grads: tuple | None = None
    stale: bool = False
    refused: list = field(default_factory=list)  # messages of calls that raised while the program was made

    def sent(self, noise):
        """What execute.py is sent."""
        return {"seed": self.seed, "items": self.items, "outputs": self.outputs, "grads": self.grads, "noise": noise,
                "variant": self.variant(), "grad_tol": 2e-5}  # fmt: skip

    def variant(self):
        """The items with other numbers, or None."""
        items = []
        for item in self.items:
            changes = CHANGED.get(item.get("fn", "").removesuffix("_inplace"), {})
            if changes:
                args = [a * changes[k] if k in changes and isinstance(a, float) else a
                        for k, a in enumerate(item["args"])]  # fmt: skip
                item = {**item, "args": args}
            items.append(item)
        return items if items != self.items else None


def packed(data):
    return base64.b64encode(data).decode()


def four(x):
    """An array with four dimensions."""
    return x.reshape((1,) * (4 - x.ndim) + x.shape)


class Builder:
    """Adds leaves and calls to a program. The calls are made with tensors without memory and show types and sizes;
    nothing is computed with ggml but conversions.
    """

    def __init__(self, program):
        self.program, self.known = program, []
        self.ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=0, mem_buffer=None, no_alloc=True))
        self.data = ggml.ggml_init(ggml.ggml_init_params(mem_size=0, mem_buffer=None, no_alloc=False))

    def close(self):
        ggml.ggml_free(self.ctx), ggml.ggml_free(self.data)

    def leaf(self, type, a, b, param=False):
        """A leaf with values a, and values b for the second compute."""
        t = ggml.ggml_new_tensor_4d(self.ctx, type_id(type), *four(a).shape[::-1])
        stored = [tensor(self.data, four(x), type) for x in (a, b)]
        item = {"type": type, "ne": list(four(a).shape[::-1])}
        item |= {name: packed(memory(x).tobytes()) for name, x in zip("ab", stored)}
        if param:
            item["param"] = True
            ggml.ggml_set_param(t)
        return self.add(item, None, t, values_of(self.data, stored[0]), None)

    def add(self, item, row, t, values, root):
        k = len(self.known)
        depends = frozenset({k}).union(*(self.known[a["t"]].depends for a in item.get("args", ()) if is_tensor(a)))
        self.program.items.append(item)
        self.program.calls.append(Made(row and row.name, type_of(t), tuple(t.contents.ne[:4])))
        ok = values is not None and np.isfinite(np.asarray(values, float)).all()
        self.known.append(Value(t, values, k if root is None else root, bool(ok), depends))
        return k

    def call(self, row, args, fn=None):
        """A call of the row's function with arguments in which {"t": k} stands for an item. Returns the item, or None
        where the function refuses.
        """
        fn = fn or row.fn
        try:
            t = constructor(fn)(self.ctx, *(self.passed(fn, a) for a in args))
        except (ValueError, TypeError, RuntimeError) as error:
            self.program.refused.append(f"{fn}: {error}")
            if not str(error).startswith(public_name(fn)):
                raise
            return None
        operands = [k["t"] for k in args if is_tensor(k)]
        written = WRITES.get(base_name(row), ())
        if row.inplace and fn == row.inplace:
            written = (row.target,)
        root = None
        if written or fn in VIEWS:
            first = written[0] if written else 0
            root = self.known[args[first]["t"]].root
        for k in written:
            self.overwrite(self.known[args[k]["t"]].root)
        exact = fn in VIEWS or row.tol == 0 and type_of(t) not in ("F16", "BF16")
        item = {"fn": fn, "args": args, "tol": 0.0 if exact else row.tol + 1.01 * EPS.get(type_of(t), 0)}
        if any(self.program.items[k].get("type") in QUANTISED for k in operands):
            item["tol"] = 0.03 if fn == "mul_mat" else max(item["tol"], 1e-6)
        return self.add(item, row, t, self.reference(row, args, t), root)

    def passed(self, fn, a):
        if not isinstance(a, dict):
            return a
        ((kind, value),) = a.items()
        if kind == "t":
            return self.known[value].t
        if kind == "callback":
            return getattr(ggml, callback_type(fn))(lambda *_: None)
        return numbers(kind, value)

    def overwrite(self, root):
        """Later steps do not read memory that a step has overwritten, unless the program may (`stale`)."""
        if not self.program.stale:
            for value in self.known:
                value.alive = value.alive and value.root != root

    def reference(self, row, args, t):
        """The values of a call in float64, with the overflow of its result's type; None where the reference fails."""
        values = reference_arguments(row.fn, args, lambda k, item: self.known[item].values, type_of(t))
        if any(v is None for a, v in zip(args, values) if is_tensor(a)):
            return None
        return evaluate(row, values, tuple(t.contents.ne[:4])[::-1], type_of(t))

    def apply(self, fn, k, *numbers):
        return k if k is None else self.call(ROWS[fn], [{"t": k}, *numbers])


class Feeder(Builder):
    """Makes the operands of calls: earlier results, adapted in shape, type and range of values, and new leaves."""

    def __init__(self, program, rng, peer):
        super().__init__(program)
        self.rng, self.peer = rng, peer

    def contiguous(self, k):
        return k if k is None or ggml.ggml_is_contiguous(self.known[k].t) else self.apply("cont", k)

    def f32(self, k):
        if k is not None and type_of(self.known[k].t) != "F32":
            return self.call(ROWS["cast_F32"], [{"t": k}, type_id("F32")])
        return k

    def shaped(self, k, shape, strided):
        """The item, or part or copies of it, with this shape (NumPy's order); None if that cannot be."""
        have, want = self.known[k].values, int(np.prod(shape))
        ne = shape[::-1]
        if have.shape == shape:
            return k if strided or ggml.ggml_is_contiguous(self.known[k].t) else self.contiguous(k)
        if have.swapaxes(-1, -2).shape == shape:
            k = self.apply("transpose", k)
            return k if strided else self.contiguous(k)
        k = self.contiguous(k)
        if k is None or have.size == want:
            return self.apply("reshape_4d", k, *ne)
        if have.size > want:
            k = self.f32(k)
            nb = [4 * int(np.prod(ne[:d])) for d in (1, 2, 3)]
            return self.apply("view_4d", k, *ne, *nb, 4 * self.rng.randint(0, have.size - want))
        if all(n % m == 0 for n, m in zip(shape, have.shape)):
            return self.apply("repeat_4d", self.f32(k), *ne)
        return None

    def ranged(self, k, like):
        """The item, with values in the range of an array: clearly so where its sign has a meaning."""
        if k is None:
            return None
        low, high, now = float(like.min()), float(like.max()), self.known[k].values
        if like.size > 2 and (low >= 0 or high <= 0) and not (now.min() >= low and now.max() <= high):
            k = self.apply("sigmoid", self.f32(k))
            return self.apply("scale_bias", k, (high - low) * 0.9375, low + (high - low) / 32)
        top = float(np.abs(now).max(initial=0))
        if top > 8 * max(abs(low), abs(high), 0.25):
            k = self.apply("scale", self.f32(k), float(2.0 ** -np.ceil(np.log2(top))))
        return k

    def fed(self, like, type, strided):
        """An earlier result that can stand for an operand, or None."""
        found = [k for k, v in enumerate(self.known) if v.alive and v.values.size and v.values.dtype.kind == "f"
                 and type_of(v.t) in EPS]  # fmt: skip
        if not found or not like.size or not np.isfinite(like).all():
            return None
        same = [k for k in found if self.known[k].values.shape == four(like).shape]
        late = found[-8:] if self.rng.random() < 0.7 else found
        k = self.rng.choice(same if same and self.rng.random() < 0.5 else late)
        k = self.ranged(self.shaped(k, four(like).shape, strided), like)
        if k is not None and type_of(self.known[k].t) != type:
            k = self.apply("cast_" + type, k, type_id(type))
        # an adapter may have failed, or have met a result that is not finite
        return k if k is not None and self.known[k].alive else None

    def laid_out(self, type, a, b):
        """A new leaf, sometimes in another layout."""
        how = self.rng.choice(("plain", "plain", "plain", *AXES, "padded"))
        a, b = four(a), four(b)
        if how == "plain" or type not in EPS or self.peer or not a.size:
            return self.leaf(type, a, b)
        if how == "padded":
            roots = [np.full((x.shape[0], x.shape[1] + 1, x.shape[2] + 1, x.shape[3] + 5), 9.0) for x in (a, b)]
            for root, x in zip(roots, (a, b)):
                root[:, :-1, :-1, 3:-2] = x
            k = self.leaf(type, *roots)
            nb = list(self.known[k].t.contents.nb[:4])
            return self.apply("view_4d", k, *a.shape[::-1], *nb[1:], 3 * nb[0])
        axes = AXES[how]
        order = [3 - axes[3 - p] for p in range(4)]
        k = self.leaf(type, a.transpose(order), b.transpose(order))
        return self.apply("permute", k, *axes)


class Maker(Feeder):
    """Makes one program, step by step.

    With peer, new operands under test are F32 in the plain layout, and the steps after the first are rows of
    tests/cases, so that the bindings can run the program too.
    """

    def __init__(self, seed, peer=False):
        rng = random.Random(seed)
        super().__init__(Program(seed, stale=rng.random() < 0.1 and not peer), rng, peer)
        self.subject, self.large = None, rng.random() < 0.1
        self.wants_gradients = not self.program.stale and rng.random() < 0.4

    def arguments(self, row):
        """The arguments of a sample of the row, drawn twice, and the type of each operand under test."""
        sizes, limit = range(len(row.samples)), 60_000 if self.large and not self.wants_gradients else 2500
        for i in self.rng.sample(sizes, len(sizes)):
            seed = self.rng.getrandbits(30)
            a, b = (row.samples[i](Random([seed, which])) for which in (1, 2))
            if sum(array_of(x).size for x in a if is_operand(x)) <= limit:
                break
        else:
            return None, None, {}
        under_test = [k for k, x in enumerate(a) if isinstance(x, np.ndarray) and x.dtype == np.float64]
        types = "F32" if self.peer or not row.types or self.rng.random() < 0.6 else self.rng.choice(row.types)
        types = [types] * len(under_test) if isinstance(types, str) else types
        return a, b, dict(zip(under_test, types))

    def operand(self, row, k, a, b, type):
        """Argument k of a row, as an item."""
        fixed, array = k in FIXED.get(row.fn, ()), array_of(a)
        free = row.strided is None or k in row.strided
        if not fixed and type and self.rng.random() < 0.8:
            fed = self.fed(array, type, free)
            if fed is not None:
                return fed
        if isinstance(a, As):
            other = k in WRITES.get(row.fn, ()) and not row.params and not self.peer and self.rng.random() < 0.3
            type = self.rng.choice(("F16", "BF16")) if other else a.type
            return self.leaf(type, a.array, b.array, param=k in row.params)
        if type is None:
            return self.indices(row, k, a, b)
        return self.laid_out(type, a, b) if free and not fixed else self.leaf(type, a, b)

    def indices(self, row, k, a, b):
        """An integer operand: a leaf, or earlier results that are indices."""
        if INDEX.get(row.fn) == k and a.size:
            fit = [i for i, v in enumerate(self.known) if v.alive and type_of(v.t) == "I32" and v.values.size
                   and v.values.shape == four(a).shape and v.values.max() <= a.max()]  # fmt: skip
            if fit:
                return self.rng.choice(fit)
        return self.leaf({"i4": "I32", "i8": "I64"}[a.dtype.str[1:]], a, b)

    def step(self, row):
        a, b, types = self.arguments(row)
        if a is None:
            return None
        args = []
        for k, (x, y) in enumerate(zip(a, b)):
            if is_operand(x):
                item = self.operand(row, k, x, y, types.get(k))
                if item is None:
                    return None
                args.append({"t": item})
            else:
                args.append(encoded(x))
        # what a call writes to must not be another of its operands: threads would read what others have written
        roots = [self.known[x["t"]].root if is_tensor(x) else None for x in args]
        if any(roots.count(roots[k]) > 1 for k in WRITES.get(base_name(row), ())):
            return None
        in_place = row.inplace and not self.wants_gradients and roots.count(roots[row.target]) == 1
        return self.call(row, args, row.inplace if in_place and self.rng.random() < 0.25 else None)

    def quantised_step(self, name):
        """A product with quantised weights, or their rows and values."""
        type, r = self.rng.choice(QUANTISED), self.rng.getrandbits(30)
        a, b = Random([r, 1]), Random([r, 2])
        k, m, n = 256, self.rng.choice((1, 5, 17)), self.rng.choice((1, 2, 3, 9, 33))
        w = self.leaf(type, a(k, m), b(k, m))
        if name == "quantised product":
            like = a(k, n)
            x = self.fed(like, "F32", True)
            return self.call(ROWS["mul_mat"], [{"t": w}, {"t": self.leaf("F32", like, b(k, n)) if x is None else x}])
        if self.rng.random() < 0.3:
            return self.apply("cast_F32", w, type_id("F32"))
        if self.rng.random() < 0.4 and not ggml.ggml_quantize_requires_imatrix(type_id(type)):
            x = self.fed(a(k, m), "F32", True)
            x = self.leaf("F32", a(k, m), b(k, m)) if x is None else x
            return self.apply("cast_F32", self.apply("quantise", x, type_id(type)), type_id("F32"))
        return self.call(ROWS["get_rows"], [{"t": w}, {"t": self.leaf("I32", a.ints(m, n), b.ints(m, n))}])

    def moved_step(self):
        """Views and copies of a tensor of a type without arithmetic."""
        type, r = self.rng.choice(MOVED), self.rng.getrandbits(30)
        a, b = Random([r, 1]), Random([r, 2])
        k = self.leaf(type, a.ints(100, 5, 4, 3, 2), b.ints(100, 5, 4, 3, 2))
        k = self.apply("permute", k, *self.rng.sample(range(4), 4))
        k = self.apply(self.rng.choice(("cont", "dup")), k)
        k = self.apply("reshape_2d", k, 12, 10)
        k = self.apply("transpose", k)
        return self.apply("cont", k)

    def bare_view_step(self):
        """A view without an operation, of the last result that may be read."""
        found = [k for k, v in enumerate(self.known) if v.alive and v.root == k and "fn" in self.program.items[k]]
        if not found:
            found = [self.apply("sqr", self.leaf("F32", np.ones((3, 40)), np.ones((3, 40))))]
        return None if self.wants_gradients else self.apply("view_tensor", self.rng.choice(found[-3:]))

    def other_step(self, name):
        if name == "moved":
            return self.moved_step()
        return self.bare_view_step() if name == "bare view" else self.quantised_step(name)

    def make(self, subject):
        """A program whose first step is the subject, of 5 to 40 calls."""
        wanted, chosen = self.rng.randint(5, 40), NAMES
        if self.wants_gradients:
            chosen = [n for n in chosen if ROWS[n].diff and not ROWS[n].params]
            wanted = min(wanted, 20)
        if subject in ROWS and self.wants_gradients and subject not in chosen:
            self.wants_gradients = False
        names = [subject]
        while sum("fn" in item for item in self.program.items) < wanted and len(names) < 3 * wanted:
            name = names[-1]
            with np.errstate(all="ignore"):
                made = self.other_step(name) if name in OTHERS else self.step(ROWS[name])
            self.subject = made if len(names) == 1 else self.subject
            other = not self.peer and self.rng.random() < 0.06
            names.append(self.rng.choice(OTHERS if other else chosen))
        if self.wants_gradients:
            with np.errstate(all="ignore"):
                self.loss()
        self.choose_outputs()
        return self.program

    def loss(self):
        """The sum of all results that nothing uses, each multiplied by weights, and the parameters."""
        items, total = self.program.items, None
        used = operands_in(items)
        for k in [k for k, v in enumerate(self.known) if k not in used and "fn" in items[k]]:
            v = self.known[k]
            if not v.alive or v.values.dtype.kind != "f" or not v.values.size or type_of(v.t) not in EPS:
                continue
            if np.abs(v.values).max() > 1e4:
                continue
            w = Random([self.program.seed, k])(*v.values.shape[::-1])
            part = self.call(ROWS["mul"], [{"t": self.f32(k)}, {"t": self.leaf("F32", w, w)}])
            part = part if part is None else self.apply("sum", part)
            total = part if total is None or part is None else self.call(ROWS["add"], [{"t": total}, {"t": part}])
        if total is None:
            return
        usable = [k for k in self.known[total].depends if items[k].get("type") in EPS and "param" not in items[k]
                  and np.isfinite(self.known[k].values).all()]  # fmt: skip
        if usable:
            chosen = self.rng.sample(usable, min(len(usable), self.rng.randint(1, 6)))
            if self.subject is not None:  # its gradients by all operands, if the loss depends on it
                chosen += [k for k in usable if k in self.known[self.subject].depends]
            self.program.grads = (sorted(set(chosen)), total)

    def choose_outputs(self):
        used = operands_in(self.program.items)
        for k, item in enumerate(self.program.items):
            if "fn" in item and (k not in used or self.rng.random() < 0.15):
                self.program.outputs.append(k)


# ---- values ----------------------------------------------------------------------------------------------------------
def is_tensor(a):
    return isinstance(a, dict) and "t" in a


def operands_in(items):
    """The items that a call reads."""
    return {a["t"] for item in items for a in item.get("args", ()) if is_tensor(a)}


def is_operand(x):
    """Whether an argument of a sample is a tensor."""
    return isinstance(x, As | np.ndarray)


def array_of(x):
    return x.array if isinstance(x, As) else x


def encoded(x):
    """An argument that is not a tensor, as execute.py reads it."""
    if isinstance(x, ctypes.Array):
        return {"i64" if x._type_ is ctypes.c_int64 else "i32": list(x)}
    if callable(x):
        return {"callback": x.__name__}
    return x.item() if isinstance(x, np.generic) else x


def reference_arguments(fn, args, value_of, type):
    """The arguments as a reference reads them: value_of(argument, item) gives the values of a tensor. The references of
    views count four bytes an element.
    """
    found = [value_of(k, a["t"]) if is_tensor(a) else next(iter(a.values())) if isinstance(a, dict) else a
             for k, a in enumerate(args)]  # fmt: skip
    if re.fullmatch(r"view_\dd", fn) and type in EPS:
        dims, size = int(fn[5]), np.dtype(DTYPES[type]).itemsize
        found[1 + dims :] = [n * 4 // size for n in found[1 + dims :]]
    return found


def rounded(x, type):
    """Float64 values, infinite where F32 or F16 would overflow; they are not rounded to the type's precision."""
    if type in ("F32", "F16"):
        narrow = x.astype({"F32": "f4", "F16": "f2"}[type])
        return np.where(np.isfinite(narrow), x, narrow.astype(float))
    return x


def evaluate(row, values, shape, type, smooth=False):
    """The reference of a row with these values, in the shape of the result; None where it cannot compute."""
    try:
        with np.errstate(all="ignore"):
            found = np.asarray((row.smooth or row.ref if smooth else row.ref)(*values))
            found = found.reshape(shape)
    except (ValueError, IndexError, ZeroDivisionError, np.linalg.LinAlgError):
        return None
    return found if found.dtype.kind == "i" else rounded(found.astype(float), type)


def decoded(data, type, ne):
    """The values of the bytes of a result."""
    shape = tuple(ne)[::-1]
    if type in ("F32", "F16", "F64", "I8", "I16", "I32", "I64"):
        x = np.frombuffer(data, {"F": "f", "I": "i"}[type[0]] + str(int(type[1:]) // 8)).reshape(shape)
        return x.astype(np.int64 if type[0] == "I" else float)
    ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=0, mem_buffer=None, no_alloc=False))
    t = ggml.ggml_new_tensor_4d(ctx, type_id(type), *ne)
    memory(t)[:] = np.frombuffer(data, np.uint8)
    values = values_of(ctx, t)
    ggml.ggml_free(ctx)
    return values
