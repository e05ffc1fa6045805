"""Loads mutants of language models, adapters and states, and computes with them: results or an exception each time.

    python fuzz/models.py --seconds 600

The models are the tiny ones of tests/tiny_models.py. A mutant has keys or tensors changed, dropped or exchanged, or
bytes of its file. A crash leaves the mutant in the folder --last; a mutant that takes too long is reported. The exit
status is 1 if an exception has another type or message than it may have.
"""

import argparse
import faulthandler
import json
import random
import re
import resource
import sys
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path

import numpy as np

# In place of this folder, whose gguf.py would be imported instead of the package.
sys.path[0] = str(Path(__file__).resolve().parent.parent / "tests")
import tiny_models  # noqa: E402
from cases.harness import SANITIZED  # noqa: E402

from ggml.models import load  # noqa: E402

ALLOWED = (ValueError, TypeError, RuntimeError, MemoryError, OSError)
NAMED = re.compile(r"(ggml[.\w]*|gguf\w*|[A-Za-z_]+): ")
LIMIT = 60  # seconds for a mutant
NUMBERS = [0, 1, 2, 3, 5, 16, 63, 65, 255, 4096, 1 << 16, 1 << 24, (1 << 31) - 1, (1 << 32) - 1]
FLOATS = [0.0, -1.0, 1e-40, 1e-5, 1e30, float("inf"), float("-inf"), float("nan")]
TEMPLATES = ["{{ messages[0].content }}", "{% for m in messages %}{{ m.role * 3 }}", "{{ x.y.z }}", "{% raw"]
TEXTS = ["", "llama", "t5", "gemma3", "bert", "gpt2", "yarn", "linear", "x" * 1000, "\N{GREEK SMALL LETTER PHI}"]
VOCAB = tiny_models.VOCAB
LISTS = [[], [0], [1, 2, 3], [2] * tiny_models.LAYERS, [True, False] * 8, ["a", "b"], [""], [0.5],
         ["a b", "b a", "a b"] * VOCAB, ["x"] * VOCAB, [9] * VOCAB, [0.5] * VOCAB,
         [4, 0, 0, 0, 0, 0, 200, 12, 0], [252, 255, 255, 255, 0]]  # fmt: skip
VOCABULARY = ["model", "pre", "tokens", "token_type", "merges", "scores", "add_bos_token", "add_eos_token",
              "bos_token_id", "eos_token_id", "eot_token_id", "unknown_token_id", "add_space_prefix",
              "normalizer.lowercase", "precompiled_charsmap", "remove_extra_whitespaces"]  # fmt: skip
KEYS = ["general.alignment", "general.type", "split.count", "split.no", "split.tensors.count",
        "tokenizer.chat_template", *(f"tokenizer.ggml.{name}" for name in VOCABULARY)]  # fmt: skip
OPTIONS = ["attention.key_length", "attention.value_length", "attention.sliding_window", "rope.dimension_count",
           "attention.sliding_window_pattern", "rope.scaling.type", "rope.scaling.factor", "rope.freq_base_swa",
           "rope.scaling.original_context_length", "rope.scaling.attn_factor", "expert_count", "expert_used_count",
           "expert_weights_scale", "pooling_type", "attention.causal", "attn_logit_softcapping",
           "final_logit_softcapping"]  # fmt: skip


class SilentError(Exception):
    """A message of an exception that does not say where it is from."""


def value(dice):
    """A value of a key, of any kind."""
    return dice.choice([*NUMBERS, *FLOATS, *TEXTS, *LISTS, True, False])


def changed(array, dice):
    """A tensor of another shape or with other values."""
    how = dice.randrange(5)
    if how == 0:
        return np.ascontiguousarray(array.T)
    if how == 1:
        return np.ascontiguousarray(array[..., : dice.randrange(1, array.shape[-1] + 1)])
    if how == 2:
        return np.ascontiguousarray(array[: dice.randrange(1, len(array) + 1)])
    if how == 3:
        return array.reshape(*[1] * dice.randrange(4 - array.ndim + 1), *array.shape)
    out = array.copy()
    out.reshape(-1)[:: dice.choice([1, 7, 64])] = dice.choice(FLOATS)
    return out


def damaged(data, dice):
    """A file or state with some bytes changed, or cut off."""
    data = bytearray(data)
    for _ in range(dice.choice([0, 1, 3, 20])):
        data[dice.randrange(len(data))] = dice.randrange(256)
    if dice.random() < 0.1:
        del data[dice.randrange(len(data)) :]
    return bytes(data)


def damage_file(path, dice):
    """Changes bytes of a file, most often of its first part, which has the keys."""
    data = path.read_bytes()
    head = len(data) if dice.random() < 0.3 else min(len(data), 4096)
    path.write_bytes(damaged(data[:head], dice) + data[head:])


def mutant(path, dice):
    """Writes a mutant of a model and says what was changed."""
    kind, change, drop = dice.choice(list(tiny_models.SIZES)), {}, ()
    arch = tiny_models.architecture(kind)
    tensors = tiny_models.weights(kind)
    for _ in range(dice.choice([0, 1, 1, 2])):
        how = dice.randrange(4)
        name = dice.choice(list(tensors))
        if how == 0:
            known = [*tiny_models.keys(kind), *OPTIONS]
            change[dice.choice([*(f"{arch}.{key}" for key in known), *KEYS])] = value(dice)
        elif how == 1:
            drop = (*drop, dice.choice([name, *(f"{arch}.{key}" for key in tiny_models.keys(kind))]))
        elif how == 2:
            tensors[name] = changed(tensors[name], dice)
        else:
            other = dice.choice(list(tensors))
            tensors[name], tensors[other] = tensors[other], tensors[name]
    if dice.random() < 0.5:
        change.setdefault("tokenizer.chat_template", dice.choice(TEMPLATES))
    type_ = dice.choice(tiny_models.TYPES)
    tiny_models.write(path, kind, type_, drop=drop, change=change, tensors=tensors)
    if dice.random() < 0.4:
        damage_file(path, dice)
    return {"kind": kind, "type": type_, "change": change, "drop": drop}


def uses(model, dice):
    """What is done with a model that could be loaded: functions without arguments."""
    ids = [dice.randrange(model.config.n_vocab) for _ in range(dice.choice([1, 5, 40]))]

    def states():
        model.feed(ids)
        model.load_state(damaged(model.save_state(), dice))
        model.feed(ids[:1])

    return {
        "generate": lambda: list(model.generate(ids, max_tokens=4, seed=1)),
        "logits": lambda: model.logits(ids),
        "perplexity": lambda: model.perplexity(ids),
        "embed": lambda: model.embed([ids, "a b"]),
        "text": lambda: model.detokenize(model.tokenize("a b <s> \N{GREEK SMALL LETTER PHI}", special=True)),
        "chat": lambda: list(model.chat([{"role": "user", "content": "a"}], max_tokens=2)),
        "states": states,
    }


def attempt(path, adapter, dice, found):
    """Loads and uses a mutant, and counts how each part ended."""

    def count(name, function):
        try:
            result = function()
        except ALLOWED as error:
            if not NAMED.match(str(error)):
                raise SilentError(f"the message does not begin with a function's name: {error!r}") from error
            found[f"{name}: {type(error).__name__}"] += 1
            return None
        found[f"{name}: done"] += 1
        return result

    settings = {"n_ctx": dice.choice([None, 1, 8, 64]), "kv_type": dice.choice(["f16", "q8_0", "f32"]),
                "mmap": dice.random() < 0.7, "threads": 2, "lora": adapter}  # fmt: skip
    model = count("load", lambda: load(path, **settings))
    if model is not None:
        for name, use in uses(model, dice).items():
            count(name, use)
        model.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--last", type=Path, default=Path("last-model"), help="folder of the mutant that is tried")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if not SANITIZED:
        resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    options.last.mkdir(parents=True, exist_ok=True)
    path, adapter = options.last / "model.gguf", options.last / "adapter.gguf"
    found, tried, end = Counter(), 0, time.monotonic() + options.seconds
    while time.monotonic() < end:
        seed = options.seed + tried
        dice, note = random.Random(seed), {}
        faulthandler.dump_traceback_later(LIMIT, exit=True)
        try:
            note = mutant(path, dice)
            with_adapter = dice.random() < 0.2
            if with_adapter:
                tiny_models.write_lora(adapter, note["kind"])
                damage_file(adapter, dice)
            (options.last / "seed").write_text(json.dumps(note | {"seed": seed}))
            attempt(path, [adapter] * with_adapter, dice, found)
        except Exception:
            traceback.print_exc()
            print(f"seed {seed}: {note}; {options.last}")
            return 1
        tried += 1
    faulthandler.cancel_dump_traceback_later()
    print(f"{tried} mutants, no fault:", json.dumps(dict(sorted(found.items())), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
