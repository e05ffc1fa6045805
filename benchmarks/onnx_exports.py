"""Exports networks with random weights by PyTorch to ONNX files, for onnx_models.py --files.

    pip install torch torchvision timm transformers onnxscript
    python benchmarks/onnx_exports.py FOLDER
    python benchmarks/onnx_models.py --files FOLDER/*.onnx --length 24

Texts have any number of sequences and tokens, pictures and sounds the size that the network is made for. Names ending
in "_traced" are of the older exporter (dynamo=False). --only takes a part of the names.
"""

import argparse
import warnings
from pathlib import Path

import timm
import torch
import transformers

PICTURES = (
    "convnext_atto efficientnet_b0 ghostnet_100 mobilenetv3_small_100 mobilevit_xs regnety_002 resnet18 "
    "resnext50_32x4d swin_tiny_patch4_window7_224 vit_tiny_patch16_224"
).split()
SMALL = {"hidden_size": 384, "num_hidden_layers": 6, "vocab_size": 3000}
TEXTS = {
    "bert": (transformers.BertConfig, SMALL | {"num_attention_heads": 12, "intermediate_size": 1536}),
    "gpt2": (transformers.GPT2Config, {"n_embd": 384, "n_layer": 6, "n_head": 6, "vocab_size": 3000}),
    "llama": (
        transformers.LlamaConfig,
        SMALL | {"num_attention_heads": 6, "num_key_value_heads": 2, "intermediate_size": 1024},
    ),
}


class Hidden(torch.nn.Module):
    """The hidden states that a network of texts gives."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, ids, mask):
        return self.network(input_ids=ids, attention_mask=mask, use_cache=False).last_hidden_state


class First(torch.nn.Module):
    """The first result of a network."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, x):
        return self.network(x)[0]


def texts():
    """(name, network, inputs) of texts, with attention by PyTorch's function and in pieces."""
    ids = torch.randint(0, 1000, (2, 24))
    for name, (config, sizes) in TEXTS.items():
        for kind in "sdpa", "eager":
            network = transformers.AutoModel.from_config(config(**sizes), attn_implementation=kind)
            yield f"{name}_{kind}", Hidden(network), {"ids": ids, "mask": torch.ones_like(ids)}


def others():
    """(name, network, inputs) of pictures and sounds."""
    for name in PICTURES:
        network = timm.create_model(name, pretrained=False)
        yield name, network, {"x": torch.randn(1, *network.default_cfg["input_size"])}
    sizes = {"encoder_layers": 4, "encoder_attention_heads": 6, "encoder_ffn_dim": 1536, "decoder_layers": 1}
    whisper = transformers.WhisperModel(transformers.WhisperConfig(d_model=384, **sizes)).encoder
    yield "whisper", First(whisper), {"x": torch.randn(1, 80, 3000)}
    sizes = {"num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 1024, "num_conv_pos_embeddings": 32}
    config = transformers.Wav2Vec2Config(hidden_size=256, conv_dim=(256,) * 7, **sizes)
    yield "wav2vec2", First(transformers.Wav2Vec2Model(config)), {"x": torch.randn(1, 16000)}


def export(folder, name, network, inputs, free):
    """Writes two files; free: whether the batch and the length of inputs may change."""
    network.eval()
    values, names = tuple(inputs.values()), list(inputs)
    sizes = [{0: torch.export.Dim("batch"), 1: torch.export.Dim("tokens")}] * len(names) if free else None
    axes = dict.fromkeys(names, {0: "batch", 1: "tokens"}) if free else None
    for path, options in (
        (
            folder / f"{name}.onnx",
            {"dynamo": True, "opset_version": 20, "dynamic_shapes": sizes, "external_data": False},
        ),
        (folder / f"{name}_traced.onnx", {"dynamo": False, "opset_version": 17, "dynamic_axes": axes}),
    ):
        with torch.no_grad():
            torch.onnx.export(network, values, str(path), input_names=names, **options)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="part of the names of the networks")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    for networks, free in ((texts(), True), (others(), False)):
        for name, network, inputs in networks:
            if args.only in name:
                export(args.folder, name, network, inputs, free)


if __name__ == "__main__":
    main()
