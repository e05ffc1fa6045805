"""Three views of the structs agree byte for byte: C (what the engine writes), Cython (through the package) and
ctypes (the mirrors).
"""

import ctypes
import json
from pathlib import Path

import numpy as np
import pytest
from cases.harness import context, graph_of

import ggml
from ggml._params import params_of

pytestmark = pytest.mark.core
STRUCTS = json.loads((Path(__file__).parents[1] / "data" / "api_current.json").read_text())["structs"]


def raw(struct, address):
    """The recorded fields, read from memory at the recorded offsets."""
    fields = {}
    for name, _, offset, size in STRUCTS[struct]["fields"]:
        data = ctypes.string_at(address + offset, size)
        fields[name] = (
            int.from_bytes(data, "little", signed=name in ("type", "op", "flags")) if size in (4, 8) else data
        )
    return fields


@pytest.mark.parametrize("name", STRUCTS)
def test_mirror_has_the_recorded_layout(name):
    struct, facts = getattr(ggml, name), STRUCTS[name]
    assert ctypes.sizeof(struct) == facts["size"]
    mirror = [(field, getattr(struct, field).offset, getattr(struct, field).size) for field, *_ in struct._fields_]
    assert mirror == [(field, offset, size) for field, _, offset, size in facts["fields"]]


def test_tensor_in_memory(ctx):
    """The engine writes every field of a node that uses all of them at the recorded offset."""
    a = ggml.ggml_new_tensor_4d(ctx, ggml.GGML_TYPE_F16, 5, 4, 3, 2)
    ggml.ggml_set_name(a, b"a name")
    ggml.ggml_set_input(a)
    ggml.ggml_set_output(a)
    address = ctypes.cast(a, ctypes.c_void_p).value
    facts = raw("ggml_tensor", address)
    assert (facts["type"], facts["op"], facts["flags"]) == (ggml.GGML_TYPE_F16, 0, 3)
    assert np.frombuffer(facts["ne"], np.int64).tolist() == [5, 4, 3, 2]
    assert np.frombuffer(facts["nb"], np.uint64).tolist() == [2, 10, 40, 120]
    assert facts["name"] == b"a name".ljust(64, b"\0") and facts["buffer"] == facts["extra"] == 0
    assert facts["data"] == ggml.ggml_get_data(a) and facts["view_src"] == facts["view_offs"] == 0

    v = ggml.ggml_view_1d(ctx, a, 4, 12)
    facts = raw("ggml_tensor", ctypes.cast(v, ctypes.c_void_p).value)
    assert (facts["view_src"], facts["view_offs"], facts["op"]) == (address, 12, ggml.GGML_OP_VIEW)
    assert int.from_bytes(facts["src"][:8], "little") == address and not any(facts["src"][8:])

    s = ggml.ggml_scale_bias(ctx, a, 2.5, -1.5)
    facts = raw("ggml_tensor", ctypes.cast(s, ctypes.c_void_p).value)
    assert (
        np.frombuffer(facts["op_params"][:8], np.float32).tolist() == [2.5, -1.5] and facts["op"] == ggml.GGML_OP_SCALE
    )


def test_the_engine_reads_what_the_mirror_writes(ctx):
    t = ggml.ggml_new_tensor_2d(ctx, ggml.GGML_TYPE_F32, 6, 4)
    t.contents.ne[0] = 3
    t.contents.nb[1] = 12
    t.contents.name = b"new"
    t.contents.flags = ggml.GGML_TENSOR_FLAG_PARAM
    assert ggml.ggml_nelements(t) == 12 and ggml.ggml_get_name(t) == b"new" and ggml.ggml_nbytes(t) == 48
    t.contents.type = ggml.GGML_TYPE_I32
    assert ggml.ggml_element_size(t) == 4 and "i32" in repr(t)


@pytest.mark.parametrize("grads", [False, True])
def test_graph_in_memory(ctx, grads):
    a = ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_F32, 4)
    b = ggml.ggml_sqr(ctx, a)
    graph = graph_of(ctx, b, grads=grads)
    facts = raw("ggml_cgraph", ctypes.cast(graph, ctypes.c_void_p).value)
    assert (facts["size"], facts["n_nodes"], facts["n_leafs"]) == (2048, 1, 1)
    pointer = ctypes.POINTER(ctypes.c_void_p)
    assert ctypes.cast(facts["nodes"], pointer)[0] == ctypes.cast(b, ctypes.c_void_p).value
    assert ctypes.cast(facts["leafs"], pointer)[0] == ctypes.cast(a, ctypes.c_void_p).value
    assert bool(facts["grads"]) == bool(facts["grad_accs"]) == grads
    mirror = graph.contents
    assert mirror.nodes[0] == b and mirror.leafs[0] == a and mirror.visited_hash_set.size >= 1024
    known = mirror.visited_hash_set
    slots = [i for i in range(known.size) if known.used[i // 32] >> i % 32 & 1]
    seen = {ctypes.cast(known.keys[i], ctypes.c_void_p).value for i in slots}
    assert seen == {ctypes.cast(t, ctypes.c_void_p).value for t in (a, b)}


def test_objects_in_memory():
    """A tensor follows its object header; the header's size covers the tensor and its padded data."""
    with context(1 << 14) as ctx:
        base = ggml.ggml_get_mem_buffer(ctx)
        t = ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_F32, 5)
        address = ctypes.cast(t, ctypes.c_void_p).value
        header = ggml.ggml_object.from_address(address - ctypes.sizeof(ggml.ggml_object))
        assert header.type == ggml.GGML_OBJECT_TYPE_TENSOR and header.offs == address - base
        assert header.size == ctypes.sizeof(ggml.ggml_tensor) + 32
        assert ggml.ggml_tensor_overhead() == ctypes.sizeof(ggml.ggml_tensor) + ctypes.sizeof(ggml.ggml_object)


def test_plan_fields(ctx):
    graph = graph_of(ctx, ggml.ggml_sqr(ctx, ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_F32, 4)))
    plan = ggml.ggml_graph_plan(graph, 3, None)
    facts = raw("ggml_cplan", ctypes.addressof(plan))
    assert (
        facts["n_threads"] == plan.n_threads == 3 and facts["work_size"] == plan.work_size and facts["work_data"] == 0
    )


def test_parameters_have_the_names_of_the_arguments():
    with context() as ctx:
        x = ggml.ggml_new_tensor_4d(ctx, ggml.GGML_TYPE_F32, 8, 4, 2, 2)
        kernel = ggml.ggml_new_tensor_4d(ctx, ggml.GGML_TYPE_F32, 3, 2, 2, 5)
        positions = ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_I32, 2)
        q = params_of(ggml.ggml_rope_ext(ctx, x, positions, None, 6, 2, 77, 1e4, 0.5, 0.25, 2, 32, 1).contents)
        assert [q.n_dims, q.mode, q.n_ctx_orig, q.freq_base, q.freq_scale] == [6, 2, 77, 1e4, 0.5]
        assert [q.ext_factor, q.attn_factor, q.beta_fast, q.beta_slow] == [0.25, 2, 32, 1]
        q = params_of(ggml.ggml_conv_2d_direct(ctx, kernel, x, 2, 1, 3, 4, 1, 2).contents)
        assert [list(q.s), list(q.p), list(q.d), q.function] == [[2, 1], [3, 4], [1, 2], 0]
        q = params_of(ggml.ggml_view_1d(ctx, x, 3, 20).contents)
        assert q.offset == 20
        scaled = ggml.ggml_scale(ctx, x, 3)
        params_of(scaled.contents).factor = 2.5
        assert np.array(scaled.contents.op_params[:1], np.int32).view(np.float32) == 2.5
        assert params_of(x.contents) is None
