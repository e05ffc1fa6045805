"""Fuzzer of `ggml convert`: folders whose settings, tokenizers, indexes and shards are damaged at random.

    python fuzz/folders.py [--seed N] [--seconds S]

A folder becomes a file, or is refused by ValueError or OSError in one line; anything else is reported.
"""

import argparse
import json
import random
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tests"))

import hf_models  # noqa: E402

from ggml.models import convert  # noqa: E402

VALUES = [None, 0, -1, 1, 2, 3, 7, 1e300, float("nan"), float("inf"), 0.5, 1 << 31, 10**40, True, False, "", "x", [],
          [1], ["a"], [None], [[]], {}, {"a": 1}, "yarn", "longrope", "llama3", {"rope_type": "yarn"},
          {"rope_type": "longrope", "long_factor": [1], "short_factor": [1]}]  # fmt: skip
TOKENIZER = {
    "added_tokens": [{"id": 0, "content": "<s>", "special": True}],
    "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}]},
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
    "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {}}, {"Sequence": {}}]},
    "model": {"type": "BPE", "ignore_merges": False, "vocab": {"<s>": 0, "a": 1, "b": 2, "ab": 3}, "merges": ["a b"]},
}


def damaged(value, rng):
    """A value with something in it exchanged or left out."""
    if isinstance(value, dict) and value and rng.random() < 0.85:
        key, value = rng.choice(list(value)), dict(value)
        if rng.random() < 0.15:
            del value[key]
        else:
            value[key] = damaged(value[key], rng)
        return value
    if isinstance(value, list) and value and rng.random() < 0.7:
        i, value = rng.randrange(len(value)), list(value)
        value[i] = damaged(value[i], rng)
        return value
    return rng.choice(VALUES)


def damage_file(path, rng):
    """Cuts a file off, or changes some of its bytes."""
    data = bytearray(path.read_bytes())
    if rng.random() < 0.3:
        del data[rng.randrange(len(data)) :]
    for _ in range(rng.randrange(1, 8)):
        if data:
            data[rng.randrange(min(len(data), 2000))] = rng.randrange(256)
    path.write_bytes(data)


def attempt(folder, rng):
    """Writes a damaged folder and converts it; returns "converted", "refused", or what was wrong."""
    kind = rng.choice(list(hf_models.KINDS))
    record = hf_models.record(kind)
    hf_models.write_folder(folder, record["config"], record["shapes"], shards=2)
    (folder / "tokenizer.json").write_text(json.dumps(TOKENIZER))
    (folder / "tokenizer_config.json").write_text('{"bos_token": "<s>", "chat_template": "x"}')
    for _ in range(rng.choice([1, 1, 2, 3])):
        path = rng.choice(sorted(folder.iterdir()))
        if path.suffix == ".json" and rng.random() < 0.9:
            try:
                path.write_text(json.dumps(damaged(json.loads(path.read_bytes()), rng)))
            except (ValueError, RecursionError):  # it has been damaged before
                continue
        else:
            damage_file(path, rng)
    try:
        convert(folder, folder.parent / "out.gguf")
    except (ValueError, OSError) as error:
        text = str(error)
        fine = "\n" not in text and len(text) < 2000 and "convert: " in text
        return "refused" if fine else f"{kind}: a message {text[:200]!r}"
    except Exception as error:
        return f"{kind}: {type(error).__name__}: {str(error)[:200]}"
    return "converted"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=30)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rng, found, end = random.Random(options.seed), Counter(), time.monotonic() + options.seconds
    with tempfile.TemporaryDirectory() as folder:
        while time.monotonic() < end:
            found[attempt(Path(folder) / "folder", rng)] += 1
    for what, count in found.most_common():
        print(count, what)
    return int(bool(found.keys() - {"converted", "refused"}))


if __name__ == "__main__":
    sys.exit(main())
