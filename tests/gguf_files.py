"""Makes valid and invalid GGUF files byte by byte; ends files of the writer of PyPI gguf."""

import struct

TYPES = ["u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "str", "arr", "u64", "i64", "f64"]
FORMATS = dict(zip(TYPES, "BbHhIif?--Qqd", strict=True))
F32, F16, Q4_0, Q8_0, I8, I16, I32, I64, F64 = 0, 1, 2, 8, 24, 25, 26, 27, 28


def finish(writer):
    """Writes the file of a gguf.GGUFWriter that has all keys and tensors, and closes it."""
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def text(raw, order="<"):
    raw = raw.encode() if isinstance(raw, str) else raw
    return struct.pack(order + "Q", len(raw)) + raw


def value(kind, v, order="<"):
    return text(v, order) if kind == "str" else struct.pack(order + FORMATS[kind], v)


def pair(key, kind, v, order="<"):
    """A key with a value. The kind of an array is written "arr:u8"."""
    head = text(key, order)
    if kind.startswith("arr:"):
        item = kind[4:]
        items = b"".join(value(item, x, order) for x in v)
        return head + struct.pack(order + "IIQ", TYPES.index("arr"), TYPES.index(item), len(v)) + items
    return head + struct.pack(order + "I", TYPES.index(kind)) + value(kind, v, order)


def tensor(name, shape, kind, offset, order="<"):
    dims = struct.pack(f"{order}I{len(shape)}Q", len(shape), *shape)
    return text(name, order) + dims + struct.pack(order + "IQ", kind, offset)


def gguf(pairs=(), tensors=(), data=b"", version=3, order="<", alignment=32, counts=None):
    """A file. pairs and tensors are bytes from the functions above; data follows the padded metadata."""
    n_tensors, n_pairs = counts or (len(tensors), len(pairs))
    head = b"GGUF" + struct.pack(order + "IQQ", version, n_tensors, n_pairs) + b"".join(pairs) + b"".join(tensors)
    return head + (b"\0" * (-len(head) % alignment) if tensors else b"") + data


SAMPLES = {
    "u8": 200,
    "i8": -100,
    "u16": 60000,
    "i16": -30000,
    "u32": 4_000_000_000,
    "i32": -2_000_000_000,
    "f32": 0.25,
    "bool": True,
    "str": "größe",
    "u64": 2**64 - 5,
    "i64": -(2**63),
    "f64": 1e-300,
}


def all_kinds(order="<", version=3):
    """A file with every type of value and array, and with four tensors."""
    pairs = [pair(f"key.{k}", k, v, order) for k, v in SAMPLES.items()]
    pairs += [pair(f"arr.{k}", "arr:" + k, [v, v, SAMPLES[k]], order) for k, v in SAMPLES.items()]
    pairs += [pair("empty", "arr:u32", [], order), pair("empty.str", "str", "", order)]
    tensors = [
        tensor("a", (3, 2), F32, 0, order),
        tensor("b", (5,), F16, 32, order),
        tensor("c", (32, 1), Q8_0, 64, order),
        tensor("d", (), I32, 128, order),
    ]
    data = struct.pack(order + "6f8x", *range(6)) + struct.pack(order + "5e22x", *range(5))
    data += struct.pack(order + "e32b30x", 0.5, *range(-16, 16)) + struct.pack(order + "i28x", -7)
    return gguf(pairs, tensors, data, version, order)
