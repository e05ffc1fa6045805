"""Records what llama.cpp's samplers make of random distributions, for tests/models/test_samplers.py.

    python scripts/record_samplers.py

Needs llama-cpp-python and gguf. Writes tests/data/samplers.npz: for each case the settings of `ggml.models.Sampler`,
the tokens so far, the logits, and the result of COUNT applications of the same chain of llama.cpp's functions: the
tokens that remain with their logits, or the token that was drawn.
"""

import ctypes
import json
import sys
import tempfile
from pathlib import Path

import llama_cpp
import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
import model_vocabularies  # noqa: E402

CASES, COUNT = 1000, 2
DRAWS = 8  # of a case that draws


def settings_of(kind, rng):
    """Random settings of one step."""
    u = lambda low, high: round(float(rng.uniform(low, high)), 3)  # noqa: E731
    return {
        "penalties": lambda: {"repeat_penalty": u(0.8, 2), "frequency_penalty": u(-1, 1), "presence_penalty": u(-1, 1),
                              "repeat_last_n": int(rng.integers(1, 40))},
        "dry": lambda: {"dry_multiplier": u(0.3, 2), "dry_base": u(1, 2), "dry_allowed_length": int(rng.integers(1, 4)),
                        "dry_penalty_last_n": int(rng.integers(5, 60)),
                        "dry_sequence_breakers": [[], ["e"], ["th", " a"], ["\n", ":", '"', "*"]][rng.integers(4)]},
        "top_n_sigma": lambda: {"top_n_sigma": u(0.2, 3)},
        "top_k": lambda: {"top_k": int(rng.integers(-1, 60))},
        "typ_p": lambda: {"typical_p": u(0.05, 1.05)},
        "top_p": lambda: {"top_p": u(0, 1)},
        "min_p": lambda: {"min_p": u(0, 1)},
        "xtc": lambda: {"xtc_probability": u(0, 1), "xtc_threshold": u(0.01, 0.55)},
        "temperature": lambda: {"temperature": u(-0.2, 3)},
        "dynatemp": lambda: {"temperature": u(0.1, 2), "dynatemp_range": u(0.01, 2), "dynatemp_exponent": u(0.2, 3)},
        "infill": dict,
        "logit_bias": lambda: {"logit_bias": {str(rng.integers(CANDIDATES)): u(-5, 5) for _ in range(3)}},
        "mirostat1": lambda: {"mirostat": 1, "mirostat_tau": u(0.5, 5), "mirostat_eta": u(0.05, 1)},
        "mirostat2": lambda: {"mirostat": 2, "mirostat_tau": u(0.5, 5), "mirostat_eta": u(0.05, 1)},
        "adaptive_p": lambda: {"adaptive_target": u(-0.2, 1), "adaptive_decay": u(0, 0.99)},
        "dist": dict,
    }[kind]()  # fmt: skip


CANDIDATES = 48
STEPS = "penalties dry top_n_sigma top_k typ_p top_p min_p xtc temperature dynatemp infill".split()
DRAWING = "mirostat1 mirostat2 adaptive_p dist".split()
NEUTRAL = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0}


def samplers_of(kind, s, seed, keep, vocab, n_vocab):
    """llama.cpp's sampler for the settings of one step."""
    C = llama_cpp
    breakers = [text.encode() for text in s.get("dry_sequence_breakers", ())]
    bias = [C.llama_logit_bias(int(i), v) for i, v in s.get("logit_bias", {}).items()]
    return {
        "penalties": lambda: C.llama_sampler_init_penalties(n_vocab, s["repeat_last_n"], s["repeat_penalty"],
                                                            s["frequency_penalty"], s["presence_penalty"]),
        "dry": lambda: C.llama_sampler_init_dry(vocab, s["dry_multiplier"], s["dry_base"], s["dry_allowed_length"],
                                                s["dry_penalty_last_n"], (ctypes.c_char_p * len(breakers))(*breakers),
                                                len(breakers)),
        "top_n_sigma": lambda: C.llama_sampler_init_top_n_sigma(s["top_n_sigma"]),
        "top_k": lambda: C.llama_sampler_init_top_k(s["top_k"]),
        "typ_p": lambda: C.llama_sampler_init_typical(s["typical_p"], keep),
        "top_p": lambda: C.llama_sampler_init_top_p(s["top_p"], keep),
        "min_p": lambda: C.llama_sampler_init_min_p(s["min_p"], keep),
        "xtc": lambda: C.llama_sampler_init_xtc(s["xtc_probability"], s["xtc_threshold"], keep, seed),
        "temperature": lambda: C.llama_sampler_init_temp_ext(s["temperature"], 0.0, 1.0),
        "dynatemp": lambda: C.llama_sampler_init_temp_ext(s["temperature"], s["dynatemp_range"],
                                                          s["dynatemp_exponent"]),
        "infill": lambda: C.llama_sampler_init_infill(vocab),
        "logit_bias": lambda: C.llama_sampler_init_logit_bias(n_vocab, len(bias),
                                                             (C.llama_logit_bias * len(bias))(*bias)),
        "mirostat1": lambda: C.llama_sampler_init_mirostat(n_vocab, seed, s["mirostat_tau"], s["mirostat_eta"], 100),
        "mirostat2": lambda: C.llama_sampler_init_mirostat_v2(seed, s["mirostat_tau"], s["mirostat_eta"]),
        "adaptive_p": lambda: C.llama_sampler_init_adaptive_p(s["adaptive_target"], s["adaptive_decay"], seed),
        "dist": lambda: C.llama_sampler_init_dist(seed),
    }[kind]()  # fmt: skip


def distinct(rng, n):
    """Logits in float16 of which no two are equal."""
    while True:
        logits = (rng.standard_normal(n) * rng.choice([0.5, 2, 6])).astype(np.float16)
        if np.unique(logits).size == n:
            return logits


def applied(chain, ids, logits):
    """The tokens and logits that a chain leaves, and the token that it draws or -1."""
    n = len(ids)
    data = (llama_cpp.llama_token_data * n)(*((int(i), float(v), 0.0) for i, v in zip(ids, logits)))
    array = llama_cpp.llama_token_data_array(data, n, -1, False)
    llama_cpp.llama_sampler_apply(chain, ctypes.byref(array))
    found = [(array.data[i].id, array.data[i].logit) for i in range(array.size)]
    drawn = found[array.selected][0] if array.selected >= 0 else -1
    return sorted((i, v) for i, v in found if v > -np.inf), drawn


def record(case, rng, vocab, n_vocab):
    """One case: settings as JSON, history, ids, logits, results."""
    order = [*STEPS, "logit_bias", *DRAWING, "chain", "draws"]
    kind = order[case % len(order)]
    seed, keep = int(rng.integers(1 << 32)), int(rng.choice([0, 1, 5]))
    kinds = [kind]
    if kind == "chain":
        chosen = [step for step in STEPS[:9] if rng.random() < 0.5]
        if rng.random() < 0.5:
            rng.shuffle(chosen)
        if "top_n_sigma" in chosen and "typ_p" in chosen:  # with logits of -inf its entropy is NaN
            chosen.remove("typ_p")
        kinds = chosen
    elif kind == "draws":  # tokens are drawn in the order of their logits
        kinds = ["top_k", "top_p", "min_p", "temperature", "dist"]
    settings: dict = dict(NEUTRAL)
    for name in kinds:
        settings |= settings_of(name, rng)
    if kind == "draws":
        settings["top_k"] = int(rng.integers(1, CANDIDATES))
    if kind == "infill":
        ids = np.sort(rng.choice(n_vocab, CANDIDATES - 1, replace=False))
        end = n_vocab - 4  # <|endoftext|>
        ids = np.unique(np.append(ids, end))
    else:
        ids = np.arange(CANDIDATES)
    logits = distinct(rng, len(ids))
    if kind == "infill":
        logits[ids == end] = rng.choice([-20, 0, 3])
    words = rng.integers(0, CANDIDATES, 4)
    history = (rng.choice(words, 50) if rng.random() < 0.7 else rng.integers(0, CANDIDATES, 30)).tolist()
    settings |= {"seed": seed, "min_keep": keep}
    names = {"dynatemp": "temperature", "logit_bias": None, "mirostat1": None, "mirostat2": None, "dist": None}
    settings["samplers"] = [name for name in (names.get(k, k) for k in kinds) if name]
    chain = llama_cpp.llama_sampler_chain_init(llama_cpp.llama_sampler_chain_default_params())
    for name in kinds:
        llama_cpp.llama_sampler_chain_add(chain, samplers_of(name, settings, seed, keep, vocab, n_vocab))
    for token in history:
        llama_cpp.llama_sampler_accept(chain, token)
    found, drawn = [], []
    for _ in range(DRAWS if kinds[-1] in DRAWING else COUNT):
        left, token = applied(chain, ids, logits.astype(np.float32))
        if token >= 0:
            llama_cpp.llama_sampler_accept(chain, token)
            drawn.append(token)
        else:
            found.append(left)
    llama_cpp.llama_sampler_free(chain)
    settings["n_vocab"] = n_vocab
    return settings, history, ids, logits, found, drawn


def main():
    vocabulary = model_vocabularies.bpe("gpt-2")
    n_vocab = len(vocabulary["tokenizer.ggml.tokens"])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vocabulary.gguf"
        model_vocabularies.write(vocabulary, path)
        model = llama_cpp.Llama(str(path), vocab_only=True, verbose=False)
        vocab = llama_cpp.llama_model_get_vocab(model._model.model)
        rng = np.random.default_rng(42)
        cases = [record(case, rng, vocab, n_vocab) for case in range(CASES)]
    flat = [entry for case in cases for left in case[4] for entry in left]
    np.savez_compressed(
        ROOT / "tests" / "data" / "samplers.npz",
        settings=np.frombuffer(json.dumps([case[0] for case in cases]).encode(), np.uint8),
        history=np.concatenate([case[1] for case in cases]).astype(np.int16),
        ids=np.concatenate([case[2] for case in cases]).astype(np.int16),
        logits=np.concatenate([case[3] for case in cases]),
        drawn=np.concatenate([case[5] for case in cases]).astype(np.int16),
        left_ids=np.array([i for i, _ in flat], np.int16),
        left_logits=np.array([v for _, v in flat], np.float32),
        sizes=np.array([[len(case[1]), len(case[2]), len(case[5])] for case in cases], np.int16),
        left_sizes=np.array([[len(c[4]), *(list(map(len, c[4])) + [0] * COUNT)[:COUNT]] for c in cases], np.int16),
        checksum=np.array(model_vocabularies.checksum(vocabulary)),
    )  # fmt: skip


if __name__ == "__main__":
    main()
