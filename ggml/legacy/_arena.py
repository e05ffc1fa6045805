"""Contexts and tensors of May 2023 over those of the engine (the current surface).

A tensor of this surface is a struct in its context's arena, with the layout of May 2023, so that the memory estimates
of old programs hold. Each has an engine tensor outside the arena over the same data. Where the engine needs several
operations for one of this surface, the engine tensors of the others are its inner nodes. Values that a caller writes
into a struct reach the engine tensor the next time that a function receives the tensor (`Tensor.refresh`).
"""

import ctypes
import re
from contextlib import ExitStack, contextmanager
from ctypes import c_void_p
from typing import Any

import ggml

from ._structs import (
    GGML_OBJECT_SIZE,
    GGML_TENSOR_SIZE,
    MEM_ALIGN,
    OPERATIONS,
    TYPES,
    ggml_object,
    ggml_object_p,
    ggml_tensor,
    ggml_tensor_p,
)

OP = {name: i for i, name in enumerate(OPERATIONS.split())}
ENGINE_TYPE = {t: t for t in TYPES} | {10: ggml.GGML_TYPE_I8, 11: ggml.GGML_TYPE_I16, 12: ggml.GGML_TYPE_I32}
LEGACY_TYPE = {e: t for t, e in ENGINE_TYPE.items()}
tensors: dict[int, "Tensor"] = {}  # live tensors by the address of their struct
by_engine: dict[int, "Tensor"] = {}  # live tensors by the address of their engine tensor
contexts: dict[int, "Context"] = {}  # live contexts by their handle, which is that of the engine context


def address_of(pointer):
    """The address that a ctypes pointer holds, 0 for NULL."""
    return ctypes.cast(pointer, c_void_p).value or 0


def pad(n):
    """n rounded up to a multiple of MEM_ALIGN."""
    return (n + MEM_ALIGN - 1) // MEM_ALIGN * MEM_ALIGN


def is_live(engine):
    """Whether an engine tensor belongs to a live tensor of this surface, so that it is not an inner node."""
    return engine._address() in by_engine


def view_address(view):
    """The address of an engine view's first element; None if its source has no data."""
    t = view.contents
    source = t.view_src.contents.data
    return t.data or (None if source is None else source + t.view_offs)


# ---- tensors ---------------------------------------------------------------------------------------------------------
class Tensor:
    """A tensor: its struct, its engine tensor, and the inner nodes to compute before the engine tensor."""

    __slots__ = ("address", "ctx", "engine", "inner", "seen", "struct")

    def __init__(self, ctx, address, engine):
        self.ctx, self.address, self.engine = ctx, address, engine
        self.struct = ggml_tensor.from_address(address)
        self.inner = []
        self.seen = b""  # the struct's bytes when they were last compared with the engine tensor

    def struct_bytes(self):
        return ctypes.string_at(self.address, GGML_TENSOR_SIZE)

    def register(self):
        """Enters it among the live tensors once its struct is complete."""
        self.seen = self.struct_bytes()
        tensors[self.address] = by_engine[self.engine._address()] = self
        self.ctx.tensors.append(self)
        return self

    def bind(self, data):
        """Sets the data address of the engine tensor. If that is a view of an inner node, the inner node and the
        other views of it get their addresses too."""
        t = self.engine.contents
        t.data = data
        if t.view_src and not is_live(t.view_src):
            root = t.view_src.contents
            root.data = None if data is None else data - t.view_offs
            for node in self.inner:
                if node.contents.view_src == t.view_src and data is not None:
                    node.contents.data = root.data + node.contents.view_offs

    def refresh(self):
        """Copies the fields that a caller changed from the struct to the engine tensor."""
        current = self.struct_bytes()
        if current == self.seen:
            return self
        new, old, t = self.struct, ggml_tensor.from_buffer_copy(self.seen), self.engine.contents
        if (new.op, new.src0, new.src1, *new.opt) != (old.op, old.src0, old.src1, *old.opt):
            raise ValueError(f"{self.name_text()}: its operation or sources were rewritten; make a new tensor instead")
        if new.type not in TYPES:
            raise ValueError(f"{self.name_text()}: type is {new.type}: no tensor type has this number")
        t.type, t.ne[:], t.nb[:], t.name = ENGINE_TYPE[new.type], new.ne[:], new.nb[:], new.name
        if new.data != old.data:
            self.bind(new.data)
        if new.is_param and not old.is_param:
            ggml.ggml_set_param(self.engine)
        self.seen = current
        return self

    def name_text(self):
        """Describes it by its name in a message."""
        return f"tensor {self.struct.name.decode(errors='replace')!r}"

    @property
    def grad(self):
        return tensor_at(address_of(self.struct.grad), "grad")

    def pointer(self):
        return ctypes.cast(self.address, ggml_tensor_p)


def tensor_at(address, name):
    """The live tensor at an address; None for NULL. `name` is the argument that a message names."""
    if not address:
        return None
    found = tensors.get(address)
    if found is None:
        raise RuntimeError(f"{name} ({address:#x}) is not a tensor of a live context: freed, or never one")
    return found


# ---- contexts --------------------------------------------------------------------------------------------------------
class Arena:
    """Memory of fixed size, divided into objects that form a list, as in May 2023; or data in a scratch buffer."""

    def __init__(self, base, size):
        self.base, self.size = base, size
        self.end = -base % MEM_ALIGN  # offset of the first free byte
        self.first: Any = None  # ggml_object
        self.last: Any = None
        self.scratch: Any = None  # ggml_scratch

    def used(self):
        return 0 if self.last is None else self.last.offs + self.last.size

    def new_object(self, size):
        """Appends an object and returns the address of its payload of `size` bytes."""
        offs = self.end + GGML_OBJECT_SIZE
        if offs + size > self.size:
            raise MemoryError(f"the context is full: it would need mem_size={offs + size}, it has {self.size}")
        head = ggml_object.from_address(self.base + self.end)
        ctypes.memset(ctypes.addressof(head), 0, GGML_OBJECT_SIZE)
        head.offs, head.size = offs, size
        if self.last is None:
            self.first = head
        else:
            self.last.next = ggml_object_p(head)
        self.last, self.end = head, offs + size
        return self.base + offs

    def scratch_memory(self, nbytes):
        s = self.scratch
        if s.offs + nbytes > s.size:
            raise MemoryError(f"the scratch buffer is full: it would need size={s.offs + nbytes}, it has {s.size}")
        s.offs += nbytes
        return s.data + s.offs - nbytes

    def tensor_memory(self, nbytes, scratch=True):
        """The addresses of a new tensor's struct and of its data (None if nbytes is None: the struct alone)."""
        if nbytes is None:
            return self.new_object(GGML_TENSOR_SIZE), None
        if self.scratch is not None and scratch:
            data = self.scratch_memory(pad(nbytes))
            return self.new_object(GGML_TENSOR_SIZE), data
        struct = self.new_object(GGML_TENSOR_SIZE + pad(nbytes))
        return struct, struct + GGML_TENSOR_SIZE


class Context:
    """An arena, and two engine contexts: `engine` for tensors without data, `store` for data outside the arena."""

    def __init__(self, size, buffer, no_alloc):
        params = ggml.ggml_init_params
        with ExitStack() as made:  # frees the first contexts if another one cannot be made
            self.memory = ggml.ggml_init(params(mem_size=size or MEM_ALIGN, mem_buffer=buffer, no_alloc=True))
            made.callback(ggml.ggml_free, self.memory)
            self.engine = ggml.ggml_init(params(mem_size=0, mem_buffer=None, no_alloc=True))
            made.callback(ggml.ggml_free, self.engine)
            self.store = ggml.ggml_init(params(mem_size=0, mem_buffer=None, no_alloc=False))
            made.pop_all()
        self.arena = Arena(ggml.ggml_get_mem_buffer(self.memory), size)
        self.no_alloc = no_alloc
        self.kept: list[Any] = []  # objects that nodes refer to by address: scratch buffers, callbacks
        self.tensors: list[Tensor] = []
        self.graphs: dict[tuple[int, ...], Any] = {}  # engine graphs by the addresses of their nodes
        contexts[self.engine] = self

    def free(self):
        for t in self.tensors:
            if tensors.get(t.address) is t:
                del tensors[t.address]
            by_engine.pop(t.engine._address(), None)
        del contexts[self.engine]
        for handle in (self.engine, self.store, self.memory):
            ggml.ggml_free(handle)

    def outside(self, nbytes):
        """The address of zeroed memory outside the arena."""
        address = ggml.ggml_get_data(ggml.ggml_new_tensor_1d(self.store, ggml.GGML_TYPE_I8, max(1, nbytes)))
        ctypes.memset(address, 0, nbytes)  # memory of freed contexts is reused without being cleared
        return address

    def tensor(self, engine, n_dims, scratch=True, struct=None):
        """Creates the tensor of a finished engine tensor, with its struct in the arena or at the address `struct`."""
        t = engine.contents
        inner = inner_nodes(engine)
        if t.view_src and is_live(t.view_src):
            struct, data = struct or self.arena.tensor_memory(None)[0], view_address(engine)
        elif struct:
            data = t.data or self.outside(ggml.ggml_nbytes(engine))
        else:
            struct, data = self.arena.tensor_memory(None if self.no_alloc else ggml.ggml_nbytes(engine), scratch)
        new = Tensor(self, struct, engine)
        new.inner = inner
        new.bind(data)
        self.allocate(inner)
        ctypes.memset(struct, 0, GGML_TENSOR_SIZE)
        s = new.struct
        s.type, s.n_dims, s.ne[:], s.nb[:], s.data = LEGACY_TYPE[t.type], n_dims, t.ne[:], t.nb[:], data
        return new.register()

    def allocate(self, inner):
        """Gives the inner nodes that have no data memory outside the arena."""
        for node in inner:
            t = node.contents
            if t.data is None:
                t.data = view_address(node) if t.view_src else self.outside(ggml.ggml_nbytes(node))

    def node(self, op, engine, a, b=None, *opt, n_dims=None, grad=True):
        """Creates the tensor of an operation on a, b and opt.

        It has n_dims dimensions, by default as many as a. `grad`: it has a gradient if one of its sources has one.
        """
        new = self.tensor(engine, a.struct.n_dims if n_dims is None else n_dims)
        s = new.struct
        s.op, s.src0 = OP[op], a.pointer()
        if b is not None:
            s.src1 = b.pointer()
        for k, source in enumerate(opt):
            s.opt[k] = source.pointer()
        if grad and any(x.struct.grad for x in (a, b, *opt) if x is not None):
            s.grad = self.like(new).pointer()
        new.seen = new.struct_bytes()
        return new

    def like(self, t):
        """Creates a tensor with the type and shape of another one."""
        ne = (ctypes.c_int64 * 4)(*t.struct.ne)
        return self.tensor(ggml.ggml_new_tensor(self.engine, t.engine.contents.type, 4, ne), t.struct.n_dims)

    def filled(self, values):
        """Creates a tensor with the given values (a ctypes array of int32 or float), never in the scratch buffer."""
        kind = ggml.GGML_TYPE_I32 if values._type_ is ctypes.c_int32 else ggml.GGML_TYPE_F32
        t = self.tensor(ggml.ggml_new_tensor_1d(self.engine, kind, len(values)), 1, scratch=False)
        if t.struct.data is None:
            t.struct.data = self.outside(ctypes.sizeof(values))
            t.refresh()
        ctypes.memmove(t.struct.data, values, ctypes.sizeof(values))
        return t

    def ints(self, *values):
        """Creates the i32 tensor that holds an operation's parameters, as operations of May 2023 stored them."""
        return self.filled((ctypes.c_int32 * len(values))(*values))

    def constant(self, kind, values):
        """An engine tensor outside the arena that holds the values of a NumPy array."""
        t = ggml.ggml_new_tensor(self.engine, kind, values.ndim, (ctypes.c_int64 * 4)(*values.shape[::-1]))
        t.contents.data = self.outside(values.nbytes)
        ctypes.memmove(t.contents.data, values.ctypes.data, values.nbytes)
        return t


def inner_nodes(engine):
    """The engine tensors that an engine tensor depends on and that are not live tensors' own, sources first."""
    order, seen, stack = [], set(), [(engine, False)]
    while stack:
        t, done = stack.pop()
        if done:
            order.append(t)
        elif t._address() not in seen:
            seen.add(t._address())
            stack.append((t, True))
            sources = (t.contents.view_src, *t.contents.src)
            stack += [(s, False) for s in sources if s and s._address() not in by_engine]
    return order[:-1]


# ---- building operations ---------------------------------------------------------------------------------------------
def unary(ctx, name, op, a, grad=True, n_dims=None):
    """The node `op` of one source, built by the engine's function of the same name."""
    return ctx.node(op, getattr(ggml, name)(ctx.engine, a.engine), a, grad=grad, n_dims=n_dims)


def binary(ctx, name, op, a, b, grad=True):
    """The node `op` of two sources, built by the engine's function of the same name."""
    return ctx.node(op, getattr(ggml, name)(ctx.engine, a.engine, b.engine), a, b, grad=grad)


def exchanged(ctx, name, op, a, b, *args):
    """The node `op` of a and b, built by the engine's function that takes them in the other order, b first.

    The engine's messages name its own arguments: a and b are exchanged in them too.
    """
    try:
        engine = getattr(ggml, name)(ctx.engine, b.engine, a.engine, *args)
    except ValueError as error:
        names = {"a": "b", "b": "a"}
        raise ValueError(re.sub(r"\b[ab](?= is )", lambda found: names[found[0]], str(error))) from None
    return ctx.node(op, engine, a, b)


@contextmanager
def named_operands(needed, **operands):
    """Replaces the messages of inner nodes, which name their own operands, by one that describes these operands."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{shapes_text(**operands)}: need {needed}") from error


def shapes_text(**operands):
    """Describes operands in a message: "a is f32 [4, 3], b is f16 [4]"."""

    def text(t):
        n_dims = max([1, *(i + 1 for i, size in enumerate(t.ne) if size != 1)])
        return f"{ggml.ggml_type_name(t.type).decode()} {t.ne[:n_dims]}"

    return ", ".join(f"{name} is {text(tensor.engine.contents)}" for name, tensor in operands.items())
