"""GGUF: reading and writing every type in both byte orders and versions, interchange with the package gguf of PyPI,
and broken files.
"""

import contextlib
import ctypes
import os
import re
import struct
import sys
import time
import types

import numpy as np
import pytest
from blocks import BLOCKS, dtype
from cases.harness import not_sanitized
from gguf_files import F16, F32, I32, Q4_0, SAMPLES, TYPES, all_kinds, finish, gguf, pair, tensor, text

import ggml
from ggml.utils import from_numpy, to_numpy

peer = pytest.importorskip("gguf")  # part of the [test] extra; not installed on emulated CPUs

NAMES = dict(enumerate(TYPES))
linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self")
# Defines grown() for a child process: by how many bytes a peak of its memory has grown, VmHWM for the resident memory
# and VmPeak for the address space.
GROWN = """
import sys, ggml
def peak(name):
    return next(int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith(name))
before = {name: peak(name) for name in ("VmHWM", "VmPeak")}
def grown(name="VmHWM"):
    return peak(name) - before[name]
"""


def params(no_alloc=True, ctx=None):
    return ggml.gguf_init_params(no_alloc=no_alloc, ctx=None if ctx is None else ctypes.pointer(ctx))


@contextlib.contextmanager
def opened(data, no_alloc=True, ctx=None):
    """Opens a context from bytes or from a path."""
    if isinstance(data, bytes):
        handle = ggml.gguf_init_from_buffer(data, len(data), params(no_alloc, ctx))
    else:
        handle = ggml.gguf_init_from_file(os.fsencode(data), params(no_alloc, ctx))
    yield handle
    ggml.gguf_free(handle)
    if ctx is not None:
        ggml.ggml_free(ctx.value)


def item(g, i):
    """The value of key i; an array as a list."""
    kind = ggml.gguf_get_kv_type(g, i)
    if NAMES[kind] != "arr":
        return getattr(ggml, f"gguf_get_val_{NAMES[kind]}")(g, i)
    n, kind = ggml.gguf_get_arr_n(g, i), NAMES[ggml.gguf_get_arr_type(g, i)]
    if kind == "str":
        return [ggml.gguf_get_arr_str(g, i, k) for k in range(n)]
    size = struct.calcsize("BbHhIif?--Qqd"[TYPES.index(kind)])
    raw = ctypes.string_at(ggml.gguf_get_arr_data(g, i), n * size) if n else b""
    return list(struct.unpack(f"<{n}{'BbHhIif?--Qqd'[TYPES.index(kind)]}", raw))


def everything(g):
    keys = {ggml.gguf_get_key(g, i): (ggml.gguf_get_kv_type(g, i), item(g, i)) for i in range(ggml.gguf_get_n_kv(g))}
    tensors = [
        (ggml.gguf_get_tensor_name(g, i), ggml.gguf_get_tensor_type(g, i), ggml.ext.gguf_get_tensor_shape(g, i),
         ggml.gguf_get_tensor_offset(g, i), ggml.gguf_get_tensor_size(g, i))
        for i in range(ggml.gguf_get_n_tensors(g))
    ]  # fmt: skip
    return keys, tensors, ggml.gguf_get_alignment(g)


def encoded(v):
    return v.encode() if isinstance(v, str) else v


def written(g, tmp_path, only_meta=False):
    path = tmp_path / "written.gguf"
    assert ggml.gguf_write_to_file(g, os.fsencode(path), only_meta) is True
    return path.read_bytes()


# ---- reading ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("order", "version"), [("<", 3), (">", 3), ("<", 2), (">", 2)])
def test_every_type_in_both_byte_orders(order, version):
    ctx = ctypes.c_void_p()
    with opened(all_kinds(order, version), no_alloc=False, ctx=ctx) as g:
        keys, tensors, alignment = everything(g)
        assert ggml.gguf_get_version(g) == version and alignment == 32
        assert ggml.gguf_get_data_offset(g) % 32 == 0
        for kind, v in SAMPLES.items():
            number = TYPES.index(kind)
            assert keys[f"key.{kind}".encode()] == (number, encoded(v))
            assert keys[f"arr.{kind}".encode()] == (ggml.GGUF_TYPE_ARRAY, [encoded(v)] * 3)
            assert ggml.gguf_get_arr_type(g, ggml.gguf_find_key(g, f"arr.{kind}")) == number
        assert keys[b"empty"] == (9, []) and keys[b"empty.str"] == (8, b"")
        assert tensors == [
            (b"a", F32, (3, 2), 0, 24),
            (b"b", F16, (5,), 32, 10),
            (b"c", 8, (32, 1), 64, 34),
            (b"d", I32, (), 128, 4),
        ]
        found = {n: to_numpy(ggml.ggml_get_tensor(ctx, n)) for n in (b"a", b"b", b"c", b"d")}
        np.testing.assert_array_equal(found[b"a"], np.arange(6, dtype=np.float32).reshape(2, 3))
        np.testing.assert_array_equal(found[b"b"], np.arange(5, dtype=np.float16))
        np.testing.assert_array_equal(found[b"c"].ravel(), 0.5 * np.arange(-16, 16))
        assert found[b"d"].tolist() == [-7]


def read_swapped(type, raw):
    """The bytes of a tensor that a big-endian file holds as `raw`, as they are in memory."""
    kind = getattr(ggml, f"GGML_TYPE_{type}")
    shape = (raw.size // dtype(type).itemsize * ggml.ggml_blck_size(kind),)
    data = gguf([], [tensor("t", shape, kind, 0, ">")], raw.tobytes() + bytes(-raw.size % 32), order=">")
    ctx = ctypes.c_void_p()
    with opened(data, no_alloc=False, ctx=ctx):
        return np.frombuffer(memoryview(ggml.ggml_get_tensor(ctx, b"t")).tobytes(), np.uint8)


@pytest.mark.parametrize("type", BLOCKS)
def test_every_type_of_tensor_in_the_other_byte_order(type):
    raw = np.random.default_rng(1).integers(0, 256, 7 * dtype(type).itemsize).astype(np.uint8)
    swapped = read_swapped(type, raw)
    np.testing.assert_array_equal(swapped, raw.view(dtype(type)).byteswap().view(np.uint8))
    np.testing.assert_array_equal(read_swapped(type, swapped), raw)


def test_byte_order_as_the_gguf_package_converts_it():
    convert = pytest.importorskip("gguf.scripts.gguf_convert_endian")
    for kind, function in convert.byteswap_tensors.items():
        raw = np.random.default_rng(2).integers(0, 256, dtype(kind.name).itemsize).astype(np.uint8)
        swapped = read_swapped(kind.name, raw)
        function(types.SimpleNamespace(data=raw), 0)  # in place
        np.testing.assert_array_equal(swapped, raw, kind.name)


def through_pointer(data, tmp_path, p):
    path = tmp_path / "in.gguf"
    path.write_bytes(b"\0" * 64 + data)
    file = ggml.ggml_fopen(os.fsencode(path), b"rb")
    libc = ctypes.CDLL(None)
    libc.fseek(ctypes.c_void_p(file), ctypes.c_long(64), 0)
    try:
        return ggml.gguf_init_from_file_ptr(file, p)
    finally:
        libc.fclose(ctypes.c_void_p(file))


def through_callback(data, chunk, expected):
    asked = []

    def read(userdata, output, offset, size):
        asked.append(size)
        part = data[offset : offset + size]
        ctypes.memmove(output, part, len(part))
        return len(part)

    def init(_, tmp_path, p):
        handle = ggml.gguf_init_from_callback(read, None, chunk, expected, p)
        assert not chunk or max(asked) <= chunk
        return handle

    return init


def from_path(function):
    def init(data, tmp_path, p):
        path = tmp_path / "in.gguf"
        path.write_bytes(data)
        return function(path, p)

    return init


WAYS = {
    "file": from_path(ggml.gguf_init_from_file),
    "mmap": from_path(ggml.ext.gguf_init_from_file_mmap),
    "pointer": through_pointer,
    "buffer": lambda data, tmp_path, p: ggml.gguf_init_from_buffer(np.frombuffer(data, np.uint8), len(data), p),
    "callback": lambda data, tmp_path, p: through_callback(data, 0, len(data))(data, tmp_path, p),
    "callback in pieces": lambda data, tmp_path, p: through_callback(data, 7, 0)(data, tmp_path, p),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_read_gives_the_same(way, tmp_path):
    data = all_kinds()
    ctx = ctypes.c_void_p()
    g = WAYS[way](data, tmp_path, params(False, ctx))
    with opened(data) as expected:
        assert everything(g) == everything(expected)
        assert ggml.gguf_get_data_offset(g) == ggml.gguf_get_data_offset(expected) + 64 * (way == "pointer")
    np.testing.assert_array_equal(to_numpy(ggml.ggml_get_tensor(ctx, b"a")).ravel(), np.arange(6))
    first = ggml.ggml_get_first_tensor(ctx).contents.name
    assert first == (b"a" if way == "mmap" else b"GGUF tensor data binary blob")
    assert written(g, tmp_path) == data
    ggml.gguf_free(g)
    ggml.ggml_free(ctx.value)


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_read_names_what_is_wrong(way, tmp_path):
    data = all_kinds()
    with pytest.raises(ValueError, match="tensor 'd' at offset .*end beyond the file|the tensor data end at offset"):
        WAYS[way](data[:-30], tmp_path, params(False, ctypes.c_void_p()))
    with pytest.raises(ValueError, match=r"^(ggml.ext.)?gguf_init_from_\w+: (key .*version.* at|header at) offset"):
        WAYS[way](b"GGUF\1" + data[5:], tmp_path, params())


def test_metadata_longer_than_the_first_read(tmp_path):
    words = [f"word number {i}" for i in range(200_000)]
    data = gguf(
        [pair("before", "u8", 1), pair("words", "arr:str", words), pair("after", "u32", 7)],
        [tensor("t", (8,), F32, 0)],
        bytes(32),
    )
    assert len(data) > 4 << 20
    for way in WAYS:
        if way != "callback in pieces":
            g = WAYS[way](data, tmp_path, params())
            assert ggml.gguf_get_arr_str(g, 1, 123_456) == b"word number 123456"
            assert ggml.gguf_get_val_u32(g, 2) == 7
            ggml.gguf_free(g)


def test_no_alloc_gives_tensors_without_data():
    ctx = ctypes.c_void_p()
    with opened(all_kinds(), no_alloc=True, ctx=ctx) as g:
        t = ggml.ggml_get_first_tensor(ctx)
        assert t.contents.name == b"a" and t.contents.ne[:] == [3, 2, 1, 1] and not t.contents.data
        assert ggml.ggml_get_no_alloc(ctx) and ggml.gguf_get_data(g) is None


@pytest.mark.parametrize("alignment", [1, 2, 4, 8, 16, 64, 4096])
def test_alignment(alignment, tmp_path):
    after = -3 % alignment
    tensors = [tensor("small", (3,), 24, 0), tensor("t", (2,), F32, 3 + after)]
    body = b"abc" + bytes(after) + struct.pack("<2f", 1, 2) + bytes(-8 % alignment)
    data = gguf([pair("general.alignment", "u32", alignment)], tensors, body, alignment=alignment)
    ctx = ctypes.c_void_p()
    with opened(data, False, ctx) as g:
        assert ggml.gguf_get_alignment(g) == alignment
        assert to_numpy(ggml.ggml_get_tensor(ctx, b"t")).tolist() == [1, 2]
        assert ggml.ggml_get_tensor(ctx, b"t").contents.data % 4 == 0
        assert written(g, tmp_path) == data


# ---- interchange with the gguf package -------------------------------------------------------------------------------
def peer_file(path, order=peer.GGUFEndian.LITTLE):
    rng = np.random.default_rng(0)
    w = peer.GGUFWriter(path, "test", endianess=order)
    for kind in (
        "uint8",
        "int8",
        "uint16",
        "int16",
        "uint32",
        "int32",
        "float32",
        "uint64",
        "int64",
        "float64",
        "bool",
        "string",
    ):
        sample = SAMPLES[
            {"float32": "f32", "float64": "f64", "bool": "bool", "string": "str"}.get(
                kind, kind[0] + kind.strip("uint")
            )
        ]
        getattr(w, f"add_{kind}")(f"key.{kind}", sample)
    w.add_array("words", ["one", "", "zwölf"])
    w.add_array("numbers", [1, -2, 3])
    w.add_array("floats", [0.5, -1.5])
    w.add_array("bools", [True, False])
    w.add_custom_alignment(64)
    arrays = {
        "f32": rng.random((3, 4, 5), np.float32),
        "f16": rng.random((1, 7)).astype(np.float16),
        "f64": rng.random(3),
    }
    arrays |= {f"i{n}": rng.integers(-100, 100, (2, 3)).astype(f"i{n // 8}") for n in (8, 16, 32, 64)}
    raw = {}  # not Q8_1: the package assumes blocks of 40 bytes
    for kind, (block, size) in peer.GGML_QUANT_SIZES.items():
        if kind.name not in ("Q8_1", *map(str.upper, arrays)) and order == peer.GGUFEndian.LITTLE:
            raw[kind] = rng.integers(0, 256, (2, size if block > 1 else 4 * size), dtype=np.uint8)
    for name, a in arrays.items():
        w.add_tensor(name, a)
    for kind, bytes_ in raw.items():
        w.add_tensor(f"raw.{kind.name}", bytes_, raw_dtype=kind)
    finish(w)
    return arrays, raw


def test_files_of_the_gguf_package_are_read_and_written_byte_for_byte(tmp_path):
    arrays, raw = peer_file(tmp_path / "peer.gguf")
    assert len(raw) > 20
    data = (tmp_path / "peer.gguf").read_bytes()
    ctx = ctypes.c_void_p()
    with opened(tmp_path / "peer.gguf", False, ctx) as g:
        for name, a in arrays.items():
            t = ggml.ggml_get_tensor(ctx, name.encode())
            np.testing.assert_array_equal(to_numpy(t).reshape(a.shape), a)
        for kind, a in raw.items():
            i = ggml.gguf_find_tensor(g, f"raw.{kind.name}")
            assert ggml.gguf_get_tensor_type(g, i) == kind and ggml.gguf_get_tensor_size(g, i) == a.nbytes
            assert bytes(memoryview(ggml.ggml_get_tensor(ctx, f"raw.{kind.name}".encode()))) == a.tobytes()
        assert item(g, ggml.gguf_find_key(g, "words")) == [b"one", b"", "zwölf".encode()]
        assert written(g, tmp_path) == data


def test_big_endian_file_of_the_gguf_package(tmp_path):
    arrays, _ = peer_file(tmp_path / "peer.gguf", peer.GGUFEndian.BIG)
    ctx = ctypes.c_void_p()
    with opened(tmp_path / "peer.gguf", False, ctx) as g:
        for name, a in arrays.items():
            np.testing.assert_array_equal(to_numpy(ggml.ggml_get_tensor(ctx, name.encode())).reshape(a.shape), a)
        assert ggml.gguf_get_val_i64(g, ggml.gguf_find_key(g, "key.int64")) == -(2**63)


def test_the_gguf_package_reads_what_is_written(ctx, tmp_path):
    g = ggml.gguf_init_empty()
    for kind, v in SAMPLES.items():
        getattr(ggml, f"gguf_set_val_{kind}")(g, f"key.{kind}", v)
    ggml.gguf_set_arr_str(g, b"words", [b"one", "zwölf"], 2)
    ggml.gguf_set_arr_data(g, b"numbers", ggml.GGUF_TYPE_INT32, np.array([1, -2, 3], np.int32), 3)
    ggml.gguf_set_val_u32(g, b"general.alignment", 128)
    arrays = {"a": np.arange(12, dtype=np.float32).reshape(3, 4), "b": np.arange(6, dtype=np.int16)}
    for name, a in arrays.items():
        t = from_numpy(a, ctx)
        ggml.ggml_set_name(t, name.encode())
        ggml.gguf_add_tensor(g, t)
    written(g, tmp_path)
    reader = peer.GGUFReader(tmp_path / "written.gguf")
    assert reader.alignment == 128
    for kind, v in SAMPLES.items():
        assert reader.fields[f"key.{kind}"].contents() == v
    assert reader.fields["words"].contents() == ["one", "zwölf"] and reader.fields["numbers"].contents() == [1, -2, 3]
    assert [t.name for t in reader.tensors] == ["a", "b"]
    for t in reader.tensors:
        np.testing.assert_array_equal(t.data, arrays[t.name])
    ggml.gguf_free(g)


# ---- changes and writing ---------------------------------------------------------------------------------------------
def keys_of(g):
    return [ggml.gguf_get_key(g, i) for i in range(ggml.gguf_get_n_kv(g))]


def test_keys_are_set_replaced_removed_and_copied():
    g, other = ggml.gguf_init_empty(), ggml.gguf_init_empty()
    for key in (b"a", b"b", b"c"):
        ggml.gguf_set_val_u8(g, key, 1)
    ggml.gguf_set_val_str(g, b"a", b"now a string")
    assert keys_of(g) == [b"b", b"c", b"a"]
    assert ggml.gguf_remove_key(g, b"c") == 1 and ggml.gguf_remove_key(g, b"c") == -1
    assert ggml.gguf_find_key(g, b"a") == 1 and ggml.gguf_find_key(g, b"none") == -1
    ggml.gguf_set_val_f32(other, b"b", 2.5)
    ggml.gguf_set_arr_str(other, b"d", (ctypes.c_char_p * 2)(b"x", b"yy"), 2)
    ggml.gguf_set_kv(g, other)
    assert keys_of(g) == [b"a", b"b", b"d"]
    ggml.gguf_free(other)
    assert ggml.gguf_get_val_f32(g, 1) == 2.5 and item(g, 2) == [b"x", b"yy"]
    assert ggml.gguf_get_val_data(g, 1) and ctypes.c_float.from_address(ggml.gguf_get_val_data(g, 1)).value == 2.5
    ggml.gguf_free(g)


def test_alignment_moves_the_tensors(ctx):
    g = ggml.gguf_init_empty()
    for name in (b"s", b"t"):
        ggml.gguf_add_tensor(g, ggml.ggml_set_name(ggml.ggml_new_tensor_1d(ctx, F32, 3), name))
    assert ggml.gguf_get_tensor_offset(g, 1) == 32
    ggml.gguf_set_val_u32(g, b"general.alignment", 256)
    assert ggml.gguf_get_tensor_offset(g, 1) == 256 and ggml.gguf_get_meta_size(g) == 256
    for bad in (0, 3, 1 << 31):
        with pytest.raises(ValueError, match="power of two"):
            ggml.gguf_set_val_u32(g, b"general.alignment", bad)
    with pytest.raises(ValueError, match="need u32"):
        ggml.gguf_set_val_u64(g, b"general.alignment", 64)
    assert ggml.gguf_get_alignment(g) == 256
    ggml.gguf_remove_key(g, b"general.alignment")
    assert ggml.gguf_get_tensor_offset(g, 1) == 32
    ggml.gguf_free(g)


def test_retyped_tensors_need_new_data(ctx, tmp_path):
    g = ggml.gguf_init_empty()
    for name in ("w", "x"):
        t = from_numpy(np.arange(64, dtype=np.float32), ctx)
        ggml.gguf_add_tensor(g, ggml.ggml_set_name(t, name.encode()))
    ggml.gguf_set_tensor_type(g, b"w", Q4_0)
    assert ggml.gguf_get_tensor_size(g, 0) == 36 and ggml.gguf_get_tensor_offset(g, 1) == 64
    with pytest.raises(ValueError, match="tensor 'w' has no data"):
        ggml.gguf_write_to_file(g, os.fsencode(tmp_path / "x"), False)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ValueError, match="35 bytes: need 36"):
        ggml.gguf_set_tensor_data(g, b"w", bytes(35))
    ggml.gguf_set_tensor_data(g, b"w", bytes(range(36)))
    out = ctypes.c_void_p()
    with opened(written(g, tmp_path), False, out):
        assert bytes(memoryview(ggml.ggml_get_tensor(out, b"w"))) == bytes(range(36))
        np.testing.assert_array_equal(to_numpy(ggml.ggml_get_tensor(out, b"x")), np.arange(64))
    ggml.gguf_free(g)


def test_metadata_alone_and_data_appended(ctx, tmp_path):
    g = ggml.gguf_init_empty()
    t = from_numpy(np.arange(8, dtype=np.float32), ctx)
    ggml.gguf_add_tensor(g, ggml.ggml_set_name(t, b"t"))
    meta = written(g, tmp_path, only_meta=True)
    buffer = ctypes.create_string_buffer(ggml.gguf_get_meta_size(g))
    ggml.gguf_get_meta_data(g, buffer)
    assert buffer.raw == meta and len(meta) % 32 == 0
    with opened(meta, no_alloc=True) as again:
        assert everything(again) == everything(g)
    with pytest.raises(ValueError, match="no tensor data: no_alloc must be True"):
        ggml.gguf_init_from_buffer(meta, len(meta), params(False))
    assert written(g, tmp_path) == meta + np.arange(8, dtype=np.float32).tobytes()
    with pytest.raises(ValueError, match=f"bytes: need {len(meta)}"):
        ggml.gguf_get_meta_data(g, ctypes.create_string_buffer(len(meta) - 1))
    ggml.gguf_free(g)


def test_writing_through_a_c_file(tmp_path):
    path, libc = tmp_path / "out.gguf", ctypes.CDLL(None)
    ctx = ctypes.c_void_p()
    with opened(all_kinds(), False, ctx) as g:
        file = ggml.ggml_fopen(os.fsencode(path), b"wb")
        assert ggml.gguf_write_to_file_ptr(g, file, False) is True
        libc.fclose(ctypes.c_void_p(file))
        assert path.read_bytes() == all_kinds()
        for bad in (5, 1 << 46):
            with pytest.raises(ValueError, match="not a C FILE"):
                ggml.gguf_write_to_file_ptr(g, bad, False)


def test_a_file_that_cannot_be_written_is_reported(tmp_path, capfd):
    g = ggml.gguf_init_empty()
    assert ggml.gguf_write_to_file(g, os.fsencode(tmp_path / "no" / "such"), False) is False
    assert "gguf_write_to_file: No such file" in capfd.readouterr().err
    ggml.gguf_free(g)


def test_data_of_a_freed_context_are_not_written(tmp_path):
    c = ggml.ggml_init(ggml.ggml_init_params(1 << 16, None, False))
    g = ggml.gguf_init_empty()
    ggml.gguf_add_tensor(g, ggml.ggml_set_name(ggml.ggml_new_tensor_1d(c, F32, 3), b"t"))
    ggml.ggml_free(c)
    with pytest.raises(RuntimeError, match="'t' has data in memory that was freed"):
        ggml.gguf_write_to_file(g, os.fsencode(tmp_path / "x"), False)
    ggml.gguf_free(g)


def test_wrong_calls(ctx):
    g = ggml.gguf_init_empty()
    ggml.gguf_set_val_u8(g, b"a", 1)
    t = ggml.ggml_set_name(ggml.ggml_new_tensor_2d(ctx, F32, 3, 4), b"t")
    ggml.gguf_add_tensor(g, t)
    result = ggml.ggml_opt_result_init()
    calls = [
        (ValueError, "there is a tensor named 't' already", lambda: ggml.gguf_add_tensor(g, t)),
        (
            ValueError,
            "not contiguous",
            lambda: ggml.gguf_add_tensor(g, ggml.ggml_set_name(ggml.ggml_transpose(ctx, t), b"u")),
        ),
        (ValueError, "the tensor has no name", lambda: ggml.gguf_add_tensor(g, ggml.ggml_new_tensor_1d(ctx, F32, 3))),
        (ValueError, "no tensor is named 'x'", lambda: ggml.gguf_set_tensor_type(g, b"x", F16)),
        (ValueError, "multiple of q4_0's block of 32", lambda: ggml.gguf_set_tensor_type(g, b"t", Q4_0)),
        (ValueError, "key_id is 1: there are 1", lambda: ggml.gguf_get_key(g, 1)),
        (ValueError, "key_id is -1", lambda: ggml.gguf_get_val_u8(g, -1)),
        (ValueError, "key 'a' is u8: need f32", lambda: ggml.gguf_get_val_f32(g, 0)),
        (ValueError, "key 'a' is u8: need str", lambda: ggml.gguf_get_val_str(g, 0)),
        (ValueError, "need an array", lambda: ggml.gguf_get_arr_type(g, 0)),
        (ValueError, "tensor_id is 1", lambda: ggml.gguf_get_tensor_name(g, 1)),
        (ValueError, "does not fit into u8", lambda: ggml.gguf_set_val_u8(g, b"k", 256)),
        (TypeError, "need a number", lambda: ggml.gguf_set_val_u8(g, b"k", "x")),
        (ValueError, "need 1 to 65535 bytes", lambda: ggml.gguf_set_val_u8(g, b"", 1)),
        (ValueError, "UTF-8", lambda: ggml.gguf_set_val_str(g, b"k", b"\xff")),
        (ValueError, "neither 0 nor 1", lambda: ggml.gguf_set_arr_data(g, b"k", ggml.GGUF_TYPE_BOOL, b"\2", 1)),
        (ValueError, "fixed size", lambda: ggml.gguf_set_arr_data(g, b"k", ggml.GGUF_TYPE_STRING, b"\2", 1)),
        (ValueError, "has 3 bytes: need 4", lambda: ggml.gguf_set_arr_data(g, b"k", ggml.GGUF_TYPE_UINT32, b"abc", 1)),
        (ValueError, "data has 1 strings", lambda: ggml.gguf_set_arr_str(g, b"k", [b"a"], 2)),
        (TypeError, "need gguf_init_params", lambda: ggml.gguf_init_from_buffer(b"", 0, None)),
        (
            FileNotFoundError,
            "gguf_init_from_file: No such file",
            lambda: ggml.gguf_init_from_file(b"/no/such", params()),
        ),
        (OSError, "need a regular file", lambda: ggml.gguf_init_from_file(b"/dev", params())),
        (TypeError, "need a GGUF context", lambda: ggml.gguf_get_n_kv(None)),
        (TypeError, "gguf_get_n_kv: ctx is a training result: need a GGUF context", lambda: ggml.gguf_get_n_kv(result)),
        (RuntimeError, "not a live GGUF context", lambda: ggml.gguf_get_n_kv(12345)),
    ]
    for error, message, call in calls:
        with pytest.raises(error, match=re.escape(message)):
            call()
    assert keys_of(g) == [b"a"] and ggml.gguf_get_n_tensors(g) == 1
    assert ggml.gguf_type_name(13) is None and ggml.gguf_type_name(8) == b"str"
    ggml.ggml_opt_result_free(result)
    ggml.gguf_free(g)
    ggml.gguf_free(None)
    with pytest.raises(RuntimeError, match="freed"):
        ggml.gguf_free(g)


VALUES = [kind for kind in TYPES if kind not in ("str", "arr")]


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize(
    ("value", "errors"),
    [
        ("x", {"bool": None}),
        (None, {"bool": None}),
        (np.zeros(3), {}),
        (10**400, {"bool": None, "": ValueError}),
    ],
    ids=["text", "None", "array", "large"],
)
def test_errors_of_setters_name_the_function(kind, value, errors):
    """A value of the wrong kind is a TypeError, one that does not fit a ValueError; every object is true or false."""
    g = ggml.gguf_init_empty()
    error = errors.get(kind, errors.get("", TypeError))
    if error:
        with pytest.raises(error, match=rf"^gguf_set_val_{kind}: val is "):
            getattr(ggml, f"gguf_set_val_{kind}")(g, "k", value)
    else:
        getattr(ggml, f"gguf_set_val_{kind}")(g, "k", value)
        assert ggml.gguf_get_val_bool(g, 0) is bool(value)
    ggml.gguf_free(g)


def test_floats_beyond_32_bits_become_infinite():
    g = ggml.gguf_init_empty()
    ggml.gguf_set_val_f32(g, "k", 1e300)
    assert ggml.gguf_get_val_f32(g, 0) == float("inf")
    ggml.gguf_free(g)


@pytest.mark.parametrize("kind", [kind for kind in VALUES if kind[0] in "ui"])
def test_integers_are_accepted_in_their_range_only(kind):
    bits = int(kind[1:])
    low, high = (0, 2**bits - 1) if kind[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    set_value, g = getattr(ggml, f"gguf_set_val_{kind}"), ggml.gguf_init_empty()
    for value in (low, high):
        set_value(g, "k", value)
        assert getattr(ggml, f"gguf_get_val_{kind}")(g, 0) == value
    for value in (low - 1, high + 1):
        with pytest.raises(ValueError, match=rf"^gguf_set_val_{kind}: val is {value}: it does not fit into {kind}$"):
            set_value(g, "k", value)
    ggml.gguf_free(g)


@pytest.mark.parametrize("kind", VALUES)
def test_getters_and_setters_are_documented_by_type(kind):
    constant = next(name for name, n in vars(ggml).items() if name[:10] == "GGUF_TYPE_" and n == TYPES.index(kind))
    get, set_value = (getattr(ggml, f"gguf_{verb}_val_{kind}") for verb in ("get", "set"))
    assert get.__name__ == f"gguf_get_val_{kind}" and set_value.__name__ == f"gguf_set_val_{kind}"
    assert f"its value is not of the type {constant}." in get.__doc__ and "    val: " in set_value.__doc__
    for doc in (get.__doc__, set_value.__doc__):
        assert kind[1:] in doc and "{" not in doc and max(map(len, doc.splitlines())) <= 120


def test_an_exception_in_the_callback_reaches_the_caller():
    def read(userdata, output, offset, size):
        raise KeyError("disk")

    with pytest.raises(KeyError, match="disk"):
        ggml.gguf_init_from_callback(read, None, 0, 100, params())


# ---- mapped files ----------------------------------------------------------------------------------------------------
def test_mapped_tensors_show_the_file_and_outlive_the_contexts(tmp_path):
    path = tmp_path / "in.gguf"
    path.write_bytes(all_kinds())
    ctx = ctypes.c_void_p()
    g = ggml.ext.gguf_init_from_file_mmap(path, params(False, ctx))
    t = ggml.ggml_get_tensor(ctx, b"a")
    assert t.contents.data == ggml.gguf_get_data(g) and t.contents.data % 32 == 0
    if sys.platform == "linux":
        assert str(path) in next(x for x in mappings() if x[0] <= t.contents.data < x[1])[2]
    view = to_numpy(t)
    view[0, 0] = 42
    assert path.read_bytes() == all_kinds()
    ggml.gguf_free(g)
    assert view[0, 0] == 42
    ggml.ggml_free(ctx.value)
    assert view.tolist() == [[42, 1, 2], [3, 4, 5]]
    del view, t
    if sys.platform == "linux":
        assert not any(str(path) in x[2] for x in mappings())


def mappings():
    """The parts of this process's address space: begin, end and description."""
    with open("/proc/self/maps") as f:
        for line in f:
            low, high = (int(x, 16) for x in line.split()[0].split("-"))
            yield low, high, line


def test_a_mapped_file_can_be_rewritten_under_its_own_name(tmp_path):
    path = tmp_path / "in.gguf"
    path.write_bytes(all_kinds())
    ctx = ctypes.c_void_p()
    g = ggml.ext.gguf_init_from_file_mmap(path, params(False, ctx))
    ggml.gguf_set_val_u8(g, b"new", 1)
    assert ggml.gguf_write_to_file(g, os.fsencode(path), False)
    np.testing.assert_array_equal(to_numpy(ggml.ggml_get_tensor(ctx, b"a")).ravel(), np.arange(6))
    with opened(path) as again:
        assert everything(again)[1] == everything(g)[1] and ggml.gguf_find_key(again, b"new") >= 0
    assert list(tmp_path.iterdir()) == [path]


def test_mapped_tensors_compute(tmp_path):
    data = gguf([], [tensor("w", (4, 2), F32, 0)], np.arange(8, dtype=np.float32).tobytes())
    (tmp_path / "in.gguf").write_bytes(data)
    weights = ctypes.c_void_p()
    g = ggml.ext.gguf_init_from_file_mmap(tmp_path / "in.gguf", params(False, weights))
    ggml.gguf_free(g)
    c = ggml.ggml_init(ggml.ggml_init_params(0, None, False))
    total = ggml.ggml_sum(c, ggml.ggml_get_tensor(weights, b"w"))
    graph = ggml.ggml_new_graph(c)
    ggml.ggml_build_forward_expand(graph, total)
    ggml.ggml_graph_compute_with_ctx(c, graph, 1)
    assert to_numpy(total).tolist() == [28]
    ggml.ggml_free(c)
    ggml.ggml_free(weights.value)


LARGE = 2 << 20


def test_mapped_tensors_in_large_pages(tmp_path):
    values = np.random.default_rng(0).random(9 * LARGE // 4, np.float32)
    path = tmp_path / "in.gguf"
    path.write_bytes(gguf([], [tensor("w", (values.size,), F32, 0)], values.tobytes()))
    weights = ctypes.c_void_p()
    g = ggml.ext.gguf_init_from_file_mmap(path, params(False, weights))
    view = to_numpy(ggml.ggml_get_tensor(weights, b"w"))
    view[5 * LARGE // 4] = 2  # a page that is no longer the file's
    use = ggml.ext.gguf_use_large_pages
    moved = [use(g, start, LARGE // 2) for start in range(0, values.nbytes, LARGE // 2)]
    if sum(moved):  # the system has such pages
        begin = view.ctypes.data - ggml.gguf_get_data_offset(g)
        end = begin + path.stat().st_size
        assert sum(moved) == end // LARGE * LARGE - -(-view.ctypes.data // LARGE) * LARGE and set(moved) == {0, LARGE}
        assert sum(str(path) in x[2] for x in mappings() if x[0] < end and begin < x[1]) <= 2  # what lies around them
    assert use(g, 0, 0) == 0
    values[5 * LARGE // 4] = 2
    np.testing.assert_array_equal(view, values)
    view[:] = 3
    assert path.read_bytes().count(values[-1000:].tobytes()) == 1
    ggml.gguf_free(g)
    ggml.ggml_free(weights.value)
    assert (view == 3).all()


def test_what_has_no_large_pages(tmp_path):
    path = tmp_path / "in.gguf"
    path.write_bytes(gguf([], [tensor("w", (LARGE,), F32, 0)], bytes(4 * LARGE)))
    use = ggml.ext.gguf_use_large_pages
    with opened(path) as read, pytest.raises(ValueError, match="^ggml.ext.gguf_use_large_pages: .*need one of"):
        use(read, 0, LARGE)
    g = ggml.ext.gguf_init_from_file_mmap(path, params(False, ctypes.c_void_p()))
    for start, size in ((0, 4 * LARGE + 1), (4 * LARGE + 1, 0), (1, 2**63 - 1)):
        with pytest.raises(ValueError, match="the tensor data have 8388608 bytes"):
            use(g, start, size)
    with pytest.raises((ValueError, OverflowError)):
        use(g, -1, 1)
    with open(path, "r+b") as f:
        f.truncate(LARGE)
    with pytest.raises(RuntimeError, match="shortened"):
        use(g, 0, 4 * LARGE)
    ggml.gguf_free(g)
    with pytest.raises(RuntimeError, match="freed"):
        use(g, 0, LARGE)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (all_kinds(">"), "byte order"),
        (
            gguf([pair("general.alignment", "u32", 4)], [tensor("t", (1,), F32, 0)], bytes(4), alignment=4),
            "alignment is 4",
        ),
    ],
)
def test_what_cannot_be_mapped(data, message, tmp_path):
    (tmp_path / "in.gguf").write_bytes(data)
    with pytest.raises(ValueError, match=f"can't be used in place: .*{message}"):
        ggml.ext.gguf_init_from_file_mmap(tmp_path / "in.gguf", params(False, ctypes.c_void_p()))


@linux
def test_sparse_file_beyond_4_gib(child, tmp_path):
    """Two tensors of 2.5 GiB are used in place: opening the file neither copies nor reads them."""
    path, half = tmp_path / "big.gguf", 5 << 29
    data = gguf([], [tensor("a", (half // 4,), F32, 0), tensor("b", (half // 4,), F32, half)])
    with open(path, "wb") as f:
        f.write(data)
        f.truncate(len(data) + 2 * half)
        f.seek(len(data) + 2 * half - 4)
        f.write(struct.pack("<f", 1.5))
    code = """
import ctypes
from ggml.utils import to_numpy
ctx = ctypes.c_void_p()
g = ggml.ext.gguf_init_from_file_mmap(sys.argv[1], ggml.gguf_init_params(no_alloc=False, ctx=ctypes.pointer(ctx)))
b = to_numpy(ggml.ggml_get_tensor(ctx, b"b"))
print(b[-1], b[0], ggml.gguf_get_tensor_offset(g, 1), grown())"""
    last, first, offset, memory = child(GROWN + code, str(path)).split()
    assert (float(last), float(first), int(offset)) == (1.5, 0, half)
    assert int(memory) < 64 << 20


# ---- broken files ----------------------------------------------------------------------------------------------------
HUGE = 2**63
BROKEN = {
    "no magic": (b"GGML" + bytes(40), "header at offset 0: this is not a GGUF file"),
    "empty": (b"", "header at offset 0: 4 bytes are needed"),
    "version 1": (gguf(version=1), "version 1 is not known"),
    "version 4": (gguf(version=4), "version 4 is not known"),
    "too many keys": (gguf(counts=(0, 2**60)), "header at offset 16: 1152921504606846976 keys"),
    "negative keys": (gguf(counts=(0, 2**64 - 1)), "keys can't be in the 0 bytes left"),
    "too many tensors": (gguf(counts=(2**62, 0)), "header at offset 8: .* tensors"),
    "empty key": (gguf([pair("", "u8", 1)], data=b"?"), "key 0 at offset 24: the key is empty"),
    "long key": (gguf([pair("k" * 65536, "u8", 1)]), "at most 65535"),
    "key of invalid UTF-8": (gguf([pair(b"k\xff", "u8", 1)]), "key 0 at offset 24: .*UTF-8"),
    "key with a zero byte": (gguf([pair(b"k\0", "u8", 1)]), "zero byte"),
    "key twice": (gguf([pair("k", "u8", 1), pair("k", "u8", 2)]), "key 'k' at offset 38: there is one"),
    "value type": (gguf([text("k") + struct.pack("<IB", 13, 0)]), "key 'k' at offset 33: value type 13"),
    "bool of 2": (gguf([text("k") + struct.pack("<IB", 7, 2)]), "key 'k' at offset 37: the bool is 2"),
    "bool of 2 in an array": (gguf([text("k") + struct.pack("<IIQ2B", 9, 7, 2, 1, 2)]), "the bool is 2"),
    "string of invalid UTF-8": (gguf([pair("k", "str", b"\xc0\x80")]), "key 'k' at offset 37: .*UTF-8"),
    "surrogate": (gguf([pair("k", "arr:str", [b"ok", b"\xed\xa0\x80"])]), "UTF-8"),
    "long string": (
        gguf([text("k") + struct.pack("<IQ", 8, 2**62)]),
        "key 'k' at offset 45: 4611686018427387904 bytes are needed",
    ),
    "array of arrays": (gguf([text("k") + struct.pack("<IIQ", 9, 9, 0)]), "array of arrays"),
    "long array": (
        gguf([text("k") + struct.pack("<IIQ", 9, 12, 2**61)]),
        "key 'k' at offset 41: an array of 2305843009213693952 items",
    ),
    "long array of strings": (
        gguf([text("k") + struct.pack("<IIQ", 9, 8, 2**63)]),
        "an array of 9223372036854775808 items",
    ),
    "alignment 0": (gguf([pair("general.alignment", "u32", 0)]), "key 'general.alignment' is 0: need a power of two"),
    "alignment 48": (gguf([pair("general.alignment", "u32", 48)]), "is 48: need a power of two"),
    "alignment huge": (gguf([pair("general.alignment", "u32", 1 << 31)]), "need a power of two up to"),
    "alignment a string": (
        gguf([pair("general.alignment", "str", "32")]),
        "'general.alignment' is of type str: need u32",
    ),
    "empty name": (gguf([], [tensor("", (1,), F32, 0)], bytes(32)), "tensor 0 at offset 24: the name is empty"),
    "long name": (gguf([], [tensor("n" * 64, (1,), F32, 0)], bytes(32)), "64 bytes: at most 63"),
    "name of invalid UTF-8": (gguf([], [tensor(b"\x80", (1,), F32, 0)], bytes(32)), "tensor 0 at offset 24: .*UTF-8"),
    "name twice": (
        gguf([], [tensor("t", (1,), F32, 0), tensor("t", (1,), F32, 32)], bytes(64)),
        "tensor 't' at offset .*there is one",
    ),
    "five dimensions": (gguf([], [tensor("t", (1,) * 5, F32, 0)], bytes(32)), "tensor 't' at offset 33: 5 dimensions"),
    "dimension of 2^63": (gguf([], [tensor("t", (HUGE,), F32, 0)], bytes(32)), "larger than any file"),
    "dimension of 2^62 - 1": (gguf([], [tensor("t", (2**62 - 1,), F32, 0)], bytes(32)), "larger than any file"),
    "product too large": (
        gguf([], [tensor("t", (2**31, 2**31, 2**31), F32, 0)], bytes(32)),
        r"\[2147483648, 2147483648, .*any file",
    ),
    "product that wraps": (gguf([], [tensor("t", (2**40, 2**40), F32, 0)], bytes(32)), "larger than any file"),
    "tensor type": (gguf([], [tensor("t", (1,), 99, 0)], bytes(32)), "tensor 't' at offset .*type 99"),
    "removed type": (gguf([], [tensor("t", (32,), 4, 0)], bytes(32)), "type 4"),
    "part of a block": (gguf([], [tensor("t", (33,), Q4_0, 0)], bytes(64)), "q4_0's block of 32"),
    "offset": (gguf([], [tensor("t", (1,), F32, 32)], bytes(64)), "tensor 't' at offset .*need 0"),
    "overlapping": (
        gguf([], [tensor("s", (1,), F32, 0), tensor("t", (1,), F32, 0)], bytes(64)),
        "tensor 't' .*need 32",
    ),
    "data beyond the end": (gguf([], [tensor("t", (9,), F32, 0)], bytes(35)), "tensor 't' at offset .*beyond the file"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_file(name):
    data, message = BROKEN[name]
    for no_alloc in (False, True):
        ctx = ctypes.c_void_p()
        with pytest.raises(ValueError, match=message):
            ggml.gguf_init_from_buffer(data, len(data), params(no_alloc, ctx))
        assert not ctx


@linux
def test_broken_files_take_no_memory(child, tmp_path):
    """No memory is allocated for the sizes that a file states but does not have."""
    not_sanitized()
    for i, (data, _) in enumerate(BROKEN.values()):
        (tmp_path / f"{i}.gguf").write_bytes(data)
    code = """
import glob
for path in glob.glob(sys.argv[1] + "/*.gguf"):
    try:
        ggml.gguf_init_from_file(path, ggml.gguf_init_params(no_alloc=True))
    except ValueError:
        continue
    sys.exit(path + " was accepted")
print(grown("VmPeak"))"""
    assert int(child(GROWN + code, str(tmp_path))) < 16 << 20


def test_empty_tensors_are_valid(tmp_path):
    data = gguf(
        [], [tensor("t", (0, 5), F32, 0), tensor("u", (3, 0, 2**40), F32, 0), tensor("v", (1,), F32, 0)], bytes(32)
    )
    ctx = ctypes.c_void_p()
    with opened(data, False, ctx) as g:
        assert [ggml.gguf_get_tensor_size(g, i) for i in range(3)] == [0, 0, 4]
        assert ggml.ggml_get_tensor(ctx, b"u").contents.ne[:] == [3, 0, 2**40, 1]
        assert written(g, tmp_path) == data


@pytest.mark.parametrize("order", "<>")
def test_cut_at_every_byte(order):
    data = all_kinds(order)
    with opened(data) as g:
        meta, end = ggml.gguf_get_data_offset(g), ggml.gguf_get_data_offset(g) + 128 + 4
    for n in range(len(data)):
        sound = {False: n >= end, True: n >= end or meta - 32 < n <= meta}
        for no_alloc in (False, True):
            try:
                ggml.gguf_free(ggml.gguf_init_from_buffer(data[:n], n, params(no_alloc)))
            except ValueError as error:
                assert re.search("at offset|no tensor data", str(error)), error
                assert n < meta or not sound[no_alloc], n
            else:
                assert sound[no_alloc], n


def test_mutants(child, tmp_path):
    """Runs fuzz/gguf.py for a few seconds."""
    fuzz = os.path.join(os.path.dirname(os.path.dirname(__file__)), "..", "fuzz", "gguf.py")
    code = "import runpy, sys; del sys.argv[0]; runpy.run_path(sys.argv[0], run_name='__main__')"
    out = child(
        code, fuzz, "--seconds", "3", "--seed", str(time.time_ns() % 10**6), "--last", str(tmp_path / "last.gguf")
    )
    assert "no fault" in out and int(re.search(r"(\d+) kinds", out)[1]) > 25


@linux
def test_memory_is_a_small_multiple_of_the_file(child, tmp_path):
    """The worst files: only the shortest keys, only the shortest tensor names, and an array of empty strings."""
    not_sanitized("it adds memory to each block")
    keys = [pair(f"{i:x}", "u8", 1) for i in range(200_000)]
    (tmp_path / "keys").write_bytes(gguf(keys))
    (tmp_path / "tensors").write_bytes(gguf([], [tensor(f"{i:x}", (0,), F32, 0) for i in range(200_000)]))
    (tmp_path / "strings").write_bytes(gguf([pair("k", "arr:str", [b""] * 1_000_000)]))
    code = """
import os
g = ggml.gguf_init_from_file(sys.argv[1], ggml.gguf_init_params(no_alloc=True))
if ggml.gguf_get_n_kv(g) == 1: ggml.gguf_get_arr_str(g, 0, 5)
print(grown() / os.path.getsize(sys.argv[1]))"""
    factors = {name: float(child(GROWN + code, str(tmp_path / name))) for name in ("keys", "tensors", "strings")}
    assert factors["strings"] < 5 and max(factors.values()) < 25, factors


# ---- many tensors ----------------------------------------------------------------------------------------------------
def test_ten_thousand_tensors_are_read_once():
    """The prefix with the metadata grows geometrically: a byte is not read again for every tensor."""
    names = [f"model.layers.{i}.weight" for i in range(10_000)]
    data = gguf([], [tensor(name, (8,), F32, 32 * i) for i, name in enumerate(names)], bytes(32 * 10_000))
    sizes = []

    def read(userdata, output, offset, size):
        sizes.append(size)
        ctypes.memmove(output, data[offset : offset + size], size)
        return size

    ctx = ctypes.c_void_p()
    g = ggml.gguf_init_from_callback(read, None, 0, len(data), params(False, ctx))
    assert sum(sizes) < 2 * len(data) and len(sizes) < 10, sizes
    assert [ggml.gguf_find_tensor(g, name) for name in names] == list(range(10_000))
    assert ggml.ggml_get_tensor(ctx, names[-1].encode()).contents.ne[0] == 8
    ggml.gguf_free(g)
    ggml.ggml_free(ctx.value)
