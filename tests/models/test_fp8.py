"""Checkpoints of 8-bit floats."""

import json

import numpy as np
import pytest

for library in ("safetensors", "tokenizers", "gguf"):  # of the extra [test]; not installed on emulated CPUs
    pytest.importorskip(library)

import gguf  # noqa: E402
import hf_models  # noqa: E402

from ggml.models import convert, load  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.*has no tokenizer")
# Values by their bits, from the definition of the formats (arXiv:2209.05433, table 1)
KNOWN = {
    "F8_E4M3": {0x00: 0.0, 0x01: 2.0**-9, 0x07: 7 * 2.0**-9, 0x08: 2.0**-6, 0x38: 1.0, 0x3C: 1.5, 0x7E: 448.0,
                0xB8: -1.0},
    "F8_E5M2": {0x00: 0.0, 0x01: 2.0**-16, 0x04: 2.0**-14, 0x3C: 1.0, 0x3E: 1.5, 0x7B: 57344.0, 0xBC: -1.0},
}  # fmt: skip
BLOCK = 32


def table(dtype):
    """The value of each byte, from the bits one by one."""
    bits, bias = (3, 7) if dtype == "F8_E4M3" else (2, 15)
    values = []
    for byte in range(256):
        exponent, fraction = byte % 128 >> bits, byte % (1 << bits) / (1 << bits)
        size = (1 + fraction) * 2.0 ** (exponent - bias) if exponent else fraction * 2.0 ** (1 - bias)
        values.append(-size if byte > 127 else size)
    for byte, value in KNOWN[dtype].items():
        assert values[byte] == value
    return np.array(values, np.float32)


def scaled(values, scales):
    """Values times the factor of their block, element by element of the factors."""
    out = np.array(values)
    for i in range(scales.shape[0]):
        for j in range(scales.shape[1]):
            out[i * BLOCK : (i + 1) * BLOCK, j * BLOCK : (j + 1) * BLOCK] *= scales[i, j]
    return out


def write(path, tensors):
    """Writes a shard with given types: (type, values) by name."""
    header, offset = {}, 0
    for name, (dtype, values) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(values.shape), "data_offsets": [offset, offset + values.nbytes]}
        offset += values.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(v.tobytes() for _, v in tensors.values()))


def folder_of(path, way, dtype="F8_E4M3", kind="llama", **config):
    """A folder of 8-bit floats, and the same as plain floats."""
    record, rng = hf_models.record(kind), np.random.default_rng(5)
    method = {"quant_method": "fp8", "weight_block_size": [BLOCK, BLOCK], **config}
    if way == "rows":
        groups = {"group_0": {"weights": {"type": "float", "num_bits": 8}}}
        method = {"quant_method": "compressed-tensors", "config_groups": groups, **config}
    small, plain = {}, {}
    for name, shape in record["shapes"].items():
        if not name.endswith("proj.weight"):
            values = hf_models.weight(name, tuple(shape), 0)
            small[name], plain[name] = ("F32", values), ("F32", values)
            continue
        finite = [i for i in range(256) if abs(table(dtype)[i]) <= 448 and (dtype != "F8_E4M3" or i % 128 != 127)]
        codes = rng.choice(np.array(finite, np.uint8), shape)
        small[name] = dtype, codes
        stem, floats = name.removesuffix(".weight"), table(dtype)[codes]
        if way == "blocks":
            scales = rng.uniform(1e-3, 2e-3, [-(-n // BLOCK) for n in shape]).astype(np.float32)
            small[f"{stem}.weight_scale_inv"], floats = ("F32", scales), scaled(floats, scales)
        elif way == "rows":
            scales = rng.uniform(1e-3, 2e-3, (shape[0], 1)).astype(np.float32)
            small[f"{stem}.weight_scale"], floats = ("F32", scales), floats * scales
        else:
            scales = np.float32(1.5e-3)
            small[f"{stem}.weight_scale"], floats = ("F32", np.array(scales)), floats * scales
            small[f"{stem}.input_scale"] = "F32", np.array(scales)
        plain[name] = "F32", floats
    for folder, tensors, more in ((path / "fp8", small, {"quantization_config": method}), (path / "plain", plain, {})):
        folder.mkdir(parents=True)
        (folder / "config.json").write_text(json.dumps({**record["config"], **more}))
        write(folder / "model.safetensors", tensors)
    return path / "fp8", path / "plain"


@pytest.mark.parametrize(
    "way, dtype", [("blocks", "F8_E4M3"), ("rows", "F8_E4M3"), ("tensor", "F8_E4M3"), ("blocks", "F8_E5M2")]
)
def test_values_are_those_times_their_factors(way, dtype, tmp_path):
    small, plain = folder_of(tmp_path, way, dtype)
    convert(small, tmp_path / "small.gguf", "F32")
    convert(plain, tmp_path / "plain.gguf", "F32")
    found, expected = ({t.name: t.data for t in gguf.GGUFReader(tmp_path / f"{name}.gguf").tensors}
                       for name in ("small", "plain"))  # fmt: skip
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        assert np.array_equal(found[name], values), name


def test_without_a_type_matrices_are_bf16(tmp_path):
    small, plain = folder_of(tmp_path, "blocks")
    convert(small, tmp_path / "small.gguf")
    convert(plain, tmp_path / "plain.gguf")
    readers = [{t.name: t for t in gguf.GGUFReader(tmp_path / f"{n}.gguf").tensors} for n in ("small", "plain")]
    types = {name.rsplit(".", 2)[-2]: tensor.tensor_type.name for name, tensor in readers[0].items()}
    assert {name for name, kind in types.items() if kind == "BF16"} == {
        "attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"}  # fmt: skip
    tensor, plain_tensor = (reader["blk.0.ffn_down.weight"] for reader in readers)
    assert tensor.tensor_type.name == "BF16"
    expected = gguf.quants.quantize(plain_tensor.data, gguf.GGMLQuantizationType.BF16)
    assert np.array_equal(tensor.data.reshape(-1).view(np.uint8), expected.reshape(-1).view(np.uint8))
    ids = hf_models.tokens(48)
    with load(small, threads=1) as folder, load(tmp_path / "small.gguf", threads=1) as file:
        assert np.array_equal(folder.logits(ids), file.logits(ids))


def test_other_ways_are_refused(tmp_path):
    small, _ = folder_of(tmp_path / "a", "blocks", quant_method="gptq")
    with pytest.raises(ValueError, match="quantization_config: 'quant_method' is 'gptq': need 'fp8' or"):
        convert(small, tmp_path / "out.gguf")
    small, _ = folder_of(tmp_path / "b", "blocks", weight_block_size=[BLOCK, 2 * BLOCK])
    with pytest.raises(
        ValueError, match=r"weight_scale_inv' is \[2, 3\] of F32: need factors for \[64, 80\] in blocks of"
    ):
        convert(small, tmp_path / "out.gguf")
    groups = {"group_0": {"weights": {"type": "int", "num_bits": 4}}}
    small, _ = folder_of(tmp_path / "c", "rows", config_groups=groups)
    with pytest.raises(ValueError, match="need weights of type 'float' with 8 bits"):
        convert(small, tmp_path / "out.gguf")
    assert not (tmp_path / "out.gguf").exists()
