"""Records what transformers computes from the tiny models of tests/hf_search.py, and how their tokenizers split texts.

It needs torch 2.13.0, transformers 5.24.0, safetensors, sentencepiece and Pillow 13.0.0:

    python scripts/record_hf_search.py [KIND...]

writes tests/data/hf_search/KIND.npz for each kind, or for those named. The weights and pictures come from NumPy.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece
import torch
import transformers
from PIL import Image
from record_hf import made, record_all
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import hf_images  # noqa: E402
import hf_search  # noqa: E402

CORPUS = ["a photo of a cat", "the cats and dogs on the beach", "two dogs", "it's a photo we'll like, don't you?"] * 3


def clip_tokenizer(folder: str) -> tuple[Any, int]:
    """A tokenizer of CLIP's kind: characters, characters that end words, merges, special tokens."""
    usual = transformers.CLIPTokenizer().backend_tokenizer
    trained = Tokenizer(models.BPE(end_of_word_suffix="</w>"))
    trained.normalizer, trained.pre_tokenizer = usual.normalizer, usual.pre_tokenizer
    characters = sorted(pre_tokenizers.ByteLevel.alphabet())
    trained.train_from_iterator(CORPUS, trainers.BpeTrainer(initial_alphabet=characters, end_of_word_suffix="</w>"))
    merges = [tuple(pair) for pair in json.loads(trained.to_str())["model"]["merges"]]
    tokens = [*characters, *(c + "</w>" for c in characters), *(a + b for a, b in merges)]
    tokens = [*dict.fromkeys(tokens), "<|startoftext|>", "<|endoftext|>"]
    tokenizer = transformers.CLIPTokenizer(vocab={text: i for i, text in enumerate(tokens)}, merges=merges)
    tokenizer.save_pretrained(folder)
    return tokenizer, len(tokens)


def siglip_tokenizer(folder: str) -> tuple[Any, int]:
    """A tokenizer of SigLIP's kind."""
    corpus = Path(folder) / "corpus"
    corpus.write_text("\n".join(CORPUS))
    sentencepiece.SentencePieceTrainer.train(
        input=str(corpus), model_prefix=str(Path(folder) / "spiece"), vocab_size=30, model_type="unigram", pad_id=-1,
        eos_id=1, unk_id=2, bos_id=-1, control_symbols=["<x>"], minloglevel=2, normalization_rule_name="identity",
    )  # fmt: skip
    tokenizer = transformers.SiglipTokenizer(str(Path(folder) / "spiece.model"))
    tokenizer.save_pretrained(folder)
    return tokenizer, len(tokenizer.get_vocab())


def tokenizer_of(kind: str) -> dict[str, np.ndarray]:
    """The files of a tokenizer, and ids of texts."""
    with tempfile.TemporaryDirectory() as folder:
        tokenizer, count = (clip_tokenizer if kind == "clip" else siglip_tokenizer)(folder)
        names = ("tokenizer.json", "tokenizer_config.json", "spiece.model")
        data = {name: (Path(folder) / name).read_bytes() for name in names if (Path(folder) / name).exists()}
        files = {name: d.hex() if name.endswith(".model") else d.decode() for name, d in data.items()}
        length = {"padding": "max_length", "max_length": hf_search.TEXT["max_position_embeddings"]}
        ids = [tokenizer(line, **({} if kind == "clip" else length)).input_ids for line in hf_search.LINES]
    return {"files": np.array(json.dumps(files)), "ids": np.array(json.dumps(ids)), "vocabulary": np.array(count)}


def pixels(pixel_values: torch.Tensor, spatial_shapes: Any = None, **_: Any) -> np.ndarray:
    """The pixels of a picture [3, height, width], which may be given patch by patch and pixel by pixel."""
    values = pixel_values[0].numpy()
    if spatial_shapes is None:
        return values
    rows, columns = spatial_shapes[0].tolist()
    side = int((values.shape[-1] // 3) ** 0.5)
    squares = values[: rows * columns].reshape(rows, columns, side, side, 3)
    return squares.transpose(4, 0, 2, 1, 3).reshape(3, rows * side, columns * side)


def results(kind: str) -> dict[str, np.ndarray]:
    """The record of a kind."""
    name, text, vision, others, settings = hf_search.KINDS[kind]
    cls = getattr(transformers, f"{name}Model")
    processor = getattr(transformers, f"{name}ImageProcessorPil")(**settings)
    config = getattr(transformers, f"{name}Config")(
        text_config={**hf_search.TEXT, **text, **others},
        vision_config={k: v for k, v in {**hf_search.VISION, **vision, **others}.items() if v is not None},
        **others,
    )
    found, model = made(cls, config, processor)

    def inputs(images: list[Any]) -> dict[str, torch.Tensor]:
        return dict(processor(images=images, return_tensors="pt"))

    odd = [pixels(**inputs([image])) for image in hf_images.odd_pictures(60)]
    found["pixels"] = np.array([hf_images.sample(values) for values in odd], np.float16)
    pictures = inputs([Image.fromarray(hf_images.picture(*size)) for size in hf_images.SIZES])
    ids = torch.tensor(hf_search.texts())
    with torch.no_grad():
        found["texts"] = model.get_text_features(input_ids=ids).pooler_output.numpy()
        found["pictures"] = model.get_image_features(**pictures).pooler_output.numpy()
        found["scores"] = model(input_ids=ids, **pictures).logits_per_text.numpy()
    return found | (tokenizer_of(kind) if kind in hf_search.TOKENIZERS else {})


if __name__ == "__main__":
    record_all(hf_search.DATA, hf_search.KINDS, results, "scores")
