"""Reads invalid GGUF files. Each is an error or a valid file: no crash, no hang, no excessive use of memory.

    python fuzz/gguf.py --seconds 3600
    python fuzz/gguf.py --atheris -max_total_time=3600      # libFuzzer's mutator (pip install atheris)

Inputs are mutants of the files in fuzz/corpus. A mutant that gives a new kind of error message is added to them during
the run. Each input ends at an inaccessible page. The memory is that of a file (--last), so that the input is available
after a crash: at the end of the first 64 KiB, followed by its length in 8 bytes.
"""

from __future__ import annotations

import argparse
import ctypes
import mmap
import os
import random
import re
import resource
import struct
import sys
import time
from pathlib import Path

import ggml

CORPUS = Path(__file__).resolve().parent / "corpus"
LONGEST = 1 << 16  # bytes of an input
SLOWEST = 20.0  # seconds of processor time: an input takes milliseconds, one that takes this long is in an endless loop
NUMBERS = [0, 1, 2, 3, 4, 5, 7, 8, 9, 12, 13, 31, 32, 33, 63, 64, 127, 128, 255, 256, 65535, 65536, 2**31 - 1, 2**31,
           2**32 - 1, 2**32, 2**61, 2**62 - 1, 2**62, 2**63 - 1, 2**63, 2**64 - 33, 2**64 - 8, 2**64 - 1]  # fmt: skip
GETTERS = {kind: getattr(ggml, f"gguf_get_val_{name}") for kind, name in enumerate(
    ["u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "str", None, "u64", "i64", "f64"]) if name}  # fmt: skip


def read_all(handle):
    """Reads everything that the file contains and returns it."""
    found = [ggml.gguf_get_version(handle), ggml.gguf_get_alignment(handle)]
    for i in range(ggml.gguf_get_n_kv(handle)):
        key, kind = ggml.gguf_get_key(handle, i), ggml.gguf_get_kv_type(handle, i)
        assert ggml.gguf_find_key(handle, key) == i
        if kind != ggml.GGUF_TYPE_ARRAY:
            found.append((key, kind, repr(GETTERS[kind](handle, i))))
            continue
        n, item = ggml.gguf_get_arr_n(handle, i), ggml.gguf_get_arr_type(handle, i)
        if item == ggml.GGUF_TYPE_STRING:
            found.append((key, [ggml.gguf_get_arr_str(handle, i, k) for k in range(n)]))
        else:
            found.append((key, item, n, ggml.gguf_get_arr_data(handle, i) is None))
    for i in range(ggml.gguf_get_n_tensors(handle)):
        name = ggml.gguf_get_tensor_name(handle, i)
        assert ggml.gguf_find_tensor(handle, name) == i
        found.append((name, ggml.gguf_get_tensor_type(handle, i), ggml.gguf_get_tensor_offset(handle, i),
                      ggml.gguf_get_tensor_size(handle, i), ggml.ext.gguf_get_tensor_shape(handle, i)))  # fmt: skip
    return found


class Guarded:
    """Memory for inputs, mapped from a file and followed by an inaccessible page."""

    def __init__(self, path):
        self.file = open(path, "w+b", buffering=0)  # it stays open while the memory is in use
        self.file.truncate(LONGEST + mmap.PAGESIZE)
        self.memory = mmap.mmap(self.file.fileno(), LONGEST + mmap.PAGESIZE)
        self.end = ctypes.addressof(ctypes.c_char.from_buffer(self.memory)) + LONGEST
        libc = ctypes.CDLL(None, use_errno=True)
        assert libc.mprotect(ctypes.c_void_p(self.end), ctypes.c_size_t(mmap.PAGESIZE), 0) == 0

    def put(self, data):
        """The address of a copy of `data` that ends at the inaccessible page."""
        self.memory[LONGEST - len(data) : LONGEST] = data
        os.pwrite(self.file.fileno(), struct.pack("<Q", len(data)), LONGEST)
        return self.end - len(data)


def attempt(data, address=None, chunk=None):
    """Reads an input. Returns the error message, or "" for a valid file, which must be the same after writing it.

    address: the address of a copy, to read from there. chunk: bytes per call, to read it through a callback.
    """
    out = ctypes.c_void_p()
    params = ggml.gguf_init_params(no_alloc=bool(len(data) & 1), ctx=ctypes.pointer(out))

    def read(userdata, output, offset, size):
        part = data[offset : offset + size]
        ctypes.memmove(output, part, len(part))
        return len(part)

    try:
        if chunk:
            handle = ggml.gguf_init_from_callback(read, None, chunk, len(data), params)
        else:
            handle = ggml.gguf_init_from_buffer(address or data, len(data), params)
    except ValueError as error:
        return str(error)
    found = read_all(handle)
    meta = ctypes.create_string_buffer(ggml.gguf_get_meta_size(handle))
    ggml.gguf_get_meta_data(handle, meta)
    again = ggml.gguf_init_from_buffer(meta, len(meta), ggml.gguf_init_params(no_alloc=True))
    assert read_all(again) == found, "the file differs after writing it"
    tensor, seen = ggml.ggml_get_first_tensor(out), 0
    while tensor:
        if tensor.contents.data and ggml.ggml_nbytes(tensor):
            ctypes.string_at(tensor.contents.data, ggml.ggml_nbytes(tensor))
        tensor, seen = ggml.ggml_get_next_tensor(out, tensor), seen + 1
    assert seen >= ggml.gguf_get_n_tensors(handle)
    for h in (again, handle):
        ggml.gguf_free(h)
    ggml.ggml_free(out.value)
    return ""


def mutate(rng, pool):
    """A copy of an input of the pool with one or more random changes."""
    data = bytearray(rng.choice(pool))
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        at = rng.randrange(len(data) + 1)
        how = rng.randrange(7)
        if how == 0 and data:
            data[at % len(data)] ^= 1 << rng.randrange(8)
        elif how == 1:
            size, order = rng.choice((1, 2, 4, 8)), rng.choice(("little", "big"))
            data[at : at + size] = (rng.choice(NUMBERS) % (1 << 8 * size)).to_bytes(size, order)
        elif how == 2:
            del data[at : at + rng.choice((1, 2, 4, 8, 32, 200))]
        elif how == 3:
            data[at:at] = data[at : at + rng.choice((1, 4, 8, 24, 100))]
        elif how == 4:
            del data[at:]
        elif how == 5:
            other = rng.choice(pool)
            data[at:] = other[rng.randrange(len(other) + 1) :]
        elif len(data) >= 24:  # changes a count or a length slightly
            at = rng.choice((8, 16, rng.randrange(len(data) - 7)))
            n = (struct.unpack_from("<Q", data, at)[0] + rng.choice((-33, -2, -1, 1, 2, 7, 33))) % 2**64
            struct.pack_into("<Q", data, at, n)
    return bytes(data[:LONGEST])


def kind_of(message):
    """An error message without its numbers and names."""
    return re.sub(r"'.*'|\"[^\"]*\"|\d+", "", message)


def run(seconds, seed, last):
    rng = random.Random(seed)
    pool = [p.read_bytes() for p in sorted(CORPUS.glob("*.gguf"))]
    kinds, tried, valid = {kind_of(attempt(p)) for p in pool}, 0, 0
    guarded = Guarded(last)
    start = time.monotonic()
    memory, slowest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, 0
    while time.monotonic() - start < seconds:
        data = mutate(rng, pool)
        address = guarded.put(data)
        began = time.thread_time()
        message = attempt(data, address)
        slowest = max(slowest, time.thread_time() - began)
        assert slowest < SLOWEST, f"{slowest:.1f} s for an input of {len(data)} bytes, which is in {last}"
        if tried % 16 == 0:  # reading through a callback gives the same
            other = attempt(data, chunk=rng.choice((1, 7, 100, 1 << 20)))
            assert other.partition(": ")[2] == message.partition(": ")[2], (other, message)
        kind = kind_of(message)
        tried, valid = tried + 1, valid + (not kind)
        if kind not in kinds:
            kinds.add(kind)
            pool.append(data)
        if tried % 1_000_000 == 0:
            grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory
            assert grown < 200_000, f"memory has grown by {grown} KiB"
            print(f"{time.monotonic() - start:.0f} s: {tried:,} inputs, {valid:,} valid, {len(kinds)} kinds of error, "
                  f"slowest {1e3 * slowest:.1f} ms, memory +{grown} KiB", flush=True)  # fmt: skip
    counts = f"{valid:,} valid, {len(kinds)} kinds of error"
    print(f"done: {tried:,} inputs in {time.monotonic() - start:.0f} s, {counts}, no fault")
    for kind in sorted(kinds):
        print("  " + (kind or "(valid)"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--last", default="last.gguf", help="file that contains the current input (%(default)s)")
    parser.add_argument("--atheris", action="store_true", help="mutate with libFuzzer, which gets other options")
    options, rest = parser.parse_known_args()
    if options.atheris:
        import atheris

        atheris.Setup([sys.argv[0], *rest, str(CORPUS)], attempt)
        atheris.Fuzz()
    elif rest:
        parser.error(f"unknown: {' '.join(rest)}")
    else:
        run(options.seconds, options.seed, options.last)


if __name__ == "__main__":
    main()
