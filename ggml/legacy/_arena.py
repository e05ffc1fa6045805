"""Contexts and tensors of May 2023 over the engine's, and what makes a function of that surface.

A tensor of that time is a struct in its context's arena, laid out as it was then, so that the memory sums of old programs
fit. Behind each stands its twin: an engine tensor outside the arena that has the same data. Operations of that time that
the engine makes of several put the inner ones beside the twin. What a caller writes into a struct reaches the twin when a
function is next given that tensor (`Tensor.refresh`).
"""

import ctypes
import functools
import inspect
import re
from ctypes import c_void_p
from typing import Any

import ggml

from . import _memory
from ._structs import (
    GGML_OBJECT_SIZE,
    GGML_TENSOR_SIZE,
    MAX_NODES,
    MEM_ALIGN,
    OPERATIONS,
    TYPES,
    ggml_cgraph,
    ggml_object,
    ggml_object_p,
    ggml_tensor,
    ggml_tensor_p,
)

OP = {name: i for i, name in enumerate(OPERATIONS.split())}
ENGINE_TYPE = {t: t for t in TYPES} | {10: ggml.GGML_TYPE_I8, 11: ggml.GGML_TYPE_I16, 12: ggml.GGML_TYPE_I32}
LEGACY_TYPE = {e: t for t, e in ENGINE_TYPE.items()}
tensors: dict[int, "Tensor"] = {}  # by address of the struct
twins: dict[int, "Tensor"] = {}  # by address of the twin
contexts: dict[int, "Context"] = {}


def address_of(pointer):
    """The address that a ctypes pointer holds, 0 for NULL."""
    return ctypes.cast(pointer, c_void_p).value or 0


def pad(n):
    return (n + MEM_ALIGN - 1) // MEM_ALIGN * MEM_ALIGN


class Tensor:
    """A tensor: its struct, its twin, and the inner engine nodes to compute before the twin."""

    __slots__ = ("address", "ctx", "inner", "seen", "struct", "twin")

    def __init__(self, ctx, address, twin):
        self.ctx, self.address, self.twin = ctx, address, twin
        self.struct = ggml_tensor.from_address(address)
        self.inner = []
        self.seen = b""

    def _text(self):
        return ctypes.string_at(self.address, GGML_TENSOR_SIZE)

    def publish(self):
        """Enters it among the live tensors, its struct being complete."""
        self.seen = self._text()
        tensors[self.address] = twins[self.twin._address()] = self
        self.ctx.tensors.append(self)
        return self

    def bind(self, data):
        """Gives the twin its memory; of a twin that is a view of an inner node, that node."""
        twin = self.twin.contents
        twin.data = data
        if twin.view_src and twin.view_src._address() not in twins:
            root = twin.view_src.contents
            root.data = None if data is None else data - twin.view_offs
            for node in self.inner:
                if node.contents.view_src == twin.view_src and data is not None:
                    node.contents.data = root.data + node.contents.view_offs

    def refresh(self):
        """Takes over what the caller wrote into the struct."""
        text = self._text()
        if text == self.seen:
            return self
        new, old, twin = self.struct, ggml_tensor.from_buffer_copy(self.seen), self.twin.contents
        sources = (new.op, new.src0, new.src1, *new.opt) != (old.op, old.src0, old.src1, *old.opt)
        if sources:
            raise ValueError(f"{self.label()}: its operation or sources were rewritten; make a new tensor instead")
        if new.type not in TYPES:
            raise ValueError(f"{self.label()}: type is {new.type}: no tensor type has this number")
        twin.type, twin.ne[:], twin.nb[:], twin.name = ENGINE_TYPE[new.type], new.ne[:], new.nb[:], new.name
        if new.data != old.data:
            self.bind(new.data)
        if new.is_param and not old.is_param:
            ggml.ggml_set_param(self.twin)
        self.seen = text
        return self

    def label(self):
        return f"tensor {self.struct.name.decode(errors='replace')!r}"

    @property
    def grad(self):
        return tensor_at(address_of(self.struct.grad), "grad")

    def pointer(self):
        return ctypes.cast(self.address, ggml_tensor_p)


def tensor_at(address, name):
    """The live tensor at an address; None for NULL."""
    if not address:
        return None
    found = tensors.get(address)
    if found is None:
        raise RuntimeError(f"{name} ({address:#x}) is no tensor of a live context: freed, or never one")
    return found


class Context:
    """An arena of `size` bytes at `base`; the engine contexts for twins (no data) and for what has no place in the arena."""

    def __init__(self, size, buffer, no_alloc):
        params = ggml.ggml_init_params
        self.memory = ggml.ggml_init(params(mem_size=size or MEM_ALIGN, mem_buffer=buffer, no_alloc=True))
        self.engine = ggml.ggml_init(params(mem_size=0, mem_buffer=None, no_alloc=True))
        self.store = ggml.ggml_init(params(mem_size=0, mem_buffer=None, no_alloc=False))
        self.base, self.size, self.no_alloc = ggml.ggml_get_mem_buffer(self.memory), size, no_alloc
        self.end = -self.base % MEM_ALIGN
        self.first: Any = None  # ggml_object
        self.last: Any = None
        self.scratch: Any = None
        self.kept: list[Any] = []  # what nodes refer to: scratch buffers, callbacks
        self.tensors: list[Tensor] = []
        self.graphs: dict[tuple[int, ...], Any] = {}  # engine graphs by their nodes
        contexts[self.engine] = self

    def free(self):
        for t in self.tensors:
            if tensors.get(t.address) is t:
                del tensors[t.address]
            twins.pop(t.twin._address(), None)
        del contexts[self.engine]
        for handle in (self.engine, self.store, self.memory):
            ggml.ggml_free(handle)

    def used(self):
        return 0 if self.last is None else self.last.offs + self.last.size

    def outside(self, nbytes):
        """The address of zeroed memory outside the arena."""
        at = ggml.ggml_get_data(ggml.ggml_new_tensor_1d(self.store, ggml.GGML_TYPE_I8, max(1, nbytes)))
        ctypes.memset(at, 0, nbytes)  # pages of contexts that were freed come back as they were left
        return at

    # ---- the arena
    def _object(self, size):
        """A new object; the address of its payload."""
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

    def _scratch(self, nbytes):
        s = self.scratch
        if s.offs + nbytes > s.size:
            raise MemoryError(f"the scratch buffer is full: it would need size={s.offs + nbytes}, it has {s.size}")
        s.offs += nbytes
        return s.data + s.offs - nbytes

    def place(self, nbytes, scratch=True):
        """Struct and data of a new tensor; with nbytes None, the struct alone."""
        if nbytes is None or self.no_alloc:
            return self._object(GGML_TENSOR_SIZE), None
        if self.scratch is not None and scratch:
            data = self._scratch(pad(nbytes))
            return self._object(GGML_TENSOR_SIZE), data
        at = self._object(GGML_TENSOR_SIZE + pad(nbytes))
        return at, at + GGML_TENSOR_SIZE

    # ---- tensors
    def tensor(self, twin, n_dims, scratch=True, place=None):
        """A tensor for a finished twin: in the arena, or at `place`, outside it."""
        t = twin.contents
        inner = self._inner(twin)
        if t.view_src and t.view_src._address() in twins:
            at, data = place or self.place(None)[0], t.data
        elif place:
            at, data = place, t.data or self.outside(ggml.ggml_nbytes(twin))
        else:
            at, data = self.place(ggml.ggml_nbytes(twin), scratch)
        new = Tensor(self, at, twin)
        new.inner = inner
        new.bind(data)
        self._allot(inner)
        ctypes.memset(at, 0, GGML_TENSOR_SIZE)
        s = new.struct
        s.type, s.n_dims, s.ne[:], s.nb[:], s.data = LEGACY_TYPE[t.type], n_dims, t.ne[:], t.nb[:], data
        return new.publish()

    def _inner(self, twin):
        """The engine tensors that the twin needs and that are no tensor's twins, sources first."""
        order, seen, stack = [], set(), [(twin, False)]
        while stack:
            t, done = stack.pop()
            if done:
                order.append(t)
            elif t._address() not in seen:
                seen.add(t._address())
                stack.append((t, True))
                sources = (t.contents.view_src, *t.contents.src)
                stack += [(s, False) for s in sources if s and s._address() not in twins]
        return order[:-1]

    def _allot(self, inner):
        """Gives inner nodes memory outside the arena, where they have none."""
        for node in inner:
            t = node.contents
            if t.data:
                continue
            if t.view_src:
                t.data = (t.view_src.contents.data or 0) + t.view_offs
            else:
                t.data = self.outside(ggml.ggml_nbytes(node))

    def node(self, op, twin, a, b=None, *opt, n_dims=None, grad=True):
        """The tensor of an operation on a, b and opt; `grad`: it has a gradient when one of them has."""
        new = self.tensor(twin, a.struct.n_dims if n_dims is None else n_dims)
        s = new.struct
        s.op, s.src0 = OP[op], a.pointer()
        if b is not None:
            s.src1 = b.pointer()
        for k, source in enumerate(opt):
            s.opt[k] = source.pointer()
        if grad and any(x.struct.grad for x in (a, b, *opt) if x is not None):
            s.grad = self.like(new).pointer()
        new.seen = new._text()
        return new

    def like(self, t):
        """A new tensor of the type and shape of another."""
        ne = (ctypes.c_int64 * 4)(*t.struct.ne)
        return self.tensor(ggml.ggml_new_tensor(self.engine, t.twin.contents.type, 4, ne), t.struct.n_dims)

    def filled(self, values):
        """A tensor that holds the given numbers (a ctypes array of int32 or float), never in the scratch buffer."""
        kind = ggml.GGML_TYPE_I32 if values._type_ is ctypes.c_int32 else ggml.GGML_TYPE_F32
        t = self.tensor(ggml.ggml_new_tensor_1d(self.engine, kind, len(values)), 1, scratch=False)
        if t.struct.data is None:
            t.struct.data = self.outside(ctypes.sizeof(values))
            t.refresh()
        ctypes.memmove(t.struct.data, values, ctypes.sizeof(values))
        return t

    def ints(self, *values):
        """The parameters of an operation as a tensor, which is where they were kept then."""
        return self.filled((ctypes.c_int32 * len(values))(*values))

    def constant(self, kind, values):
        """An engine tensor outside the arena that holds a NumPy array."""
        t = ggml.ggml_new_tensor(self.engine, kind, values.ndim, (ctypes.c_int64 * 4)(*values.shape[::-1]))
        t.contents.data = self.outside(values.nbytes)
        ctypes.memmove(t.contents.data, values.ctypes.data, values.nbytes)
        return t


# ---- functions of the surface ----------------------------------------------------------------------------------------
def _plain(value):
    """What a ctypes scalar holds; other objects as they are."""
    return getattr(value, "value", value) if isinstance(value, ctypes._SimpleCData) else value


def _target(value):
    """The struct that byref() or a pointer argument refers to, as an address; None for other objects."""
    if isinstance(value, ctypes.Structure):
        return ctypes.addressof(value)
    if isinstance(getattr(value, "_obj", None), ctypes.Structure):
        return ctypes.addressof(value._obj)
    if isinstance(value, (ctypes._Pointer, c_void_p)):
        return address_of(value)
    return None


def _context(value, name):
    if _plain(value) is None:
        raise TypeError(f"{name} is None: need a context")
    handle = _plain(value)
    if not isinstance(handle, int):
        raise TypeError(f"{name} is {value!r:.60}: need a context")
    if handle not in contexts:
        raise RuntimeError(f"{name} ({handle}) is no live context: freed, or never made")
    return contexts[handle]


def _tensor(value, name):
    at = _target(value)
    if not at:
        raise TypeError(f"{name} is {value!r:.60}: need a tensor")
    return tensor_at(at, name).refresh()


def _graph(value, name):
    at = _target(value)
    kind = getattr(value, "_type_", type(getattr(value, "_obj", value)))
    if not at or kind is not ggml_cgraph:
        raise TypeError(f"{name} is {value!r:.60}: need a ggml_cgraph or a pointer to one")
    _memory.address(at, name, ctypes.sizeof(ggml_cgraph))
    graph = ggml_cgraph.from_address(at)
    if not (0 <= graph.n_nodes <= MAX_NODES and 0 <= graph.n_leafs <= MAX_NODES):
        raise ValueError(f"{name}.n_nodes is {graph.n_nodes}, n_leafs is {graph.n_leafs}: need 0 to {MAX_NODES}")
    return graph


def _int(value, name):
    value = _plain(value)
    try:
        number = value.__index__()
    except (AttributeError, TypeError):
        raise TypeError(f"{name} is {value!r:.60}: need an integer") from None
    if not -(1 << 63) <= number < 1 << 63:
        raise ValueError(f"{name} is {number!r:.60}: need a 64-bit integer")
    return number


def _float(value, name):
    try:
        return float(_plain(value))
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"{name} is {value!r:.60}: need a number") from None


def _bool(value, name):
    return bool(_plain(value))


def _bytes(value, name):
    value = _plain(value)
    if not isinstance(value, (bytes, str)):
        raise TypeError(f"{name} is {value!r:.60}: need bytes or str")
    try:
        return value.encode() if isinstance(value, str) else value
    except UnicodeEncodeError:
        raise ValueError(f"{name} is {value!r:.60}: it can't be encoded as UTF-8") from None


_ACCEPT: dict[Any, Any] = {
    Context: _context, Tensor: _tensor, ggml_cgraph: _graph, int: _int, float: _float, bool: _bool, bytes: _bytes,
}  # fmt: skip
_PREFIX = re.compile(r"(ggml|gguf)\w*: ")


def api(function):
    """Makes a function of the surface: arguments become what its annotations say, errors begin with its name."""
    signature = inspect.signature(function)
    accept = [(_ACCEPT.get(p.annotation), p.name) for p in signature.parameters.values()]
    name = function.__name__

    @functools.wraps(function)
    def call(*args, **kwargs):
        try:
            if kwargs or len(args) != len(accept):
                args = signature.bind(*args, **kwargs).args
            result = function(*[take(x, n) if take else x for x, (take, n) in zip(args, accept)])
        except (TypeError, ValueError, RuntimeError, MemoryError, OSError) as error:
            text = error.args[0] if len(error.args) == 1 else None
            if isinstance(error, MemoryError) and text is None:  # NumPy's, which has other arguments
                raise MemoryError(f"{name}: {error}") from error
            if isinstance(text, str) and not text.startswith(name + ":"):
                error.args = (f"{name}: {_PREFIX.sub('', text, count=1)}",)
            raise
        return result.pointer() if isinstance(result, Tensor) else result

    return call
