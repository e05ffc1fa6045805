"""Records the logits (of encoders: the embeddings) that llama.cpp computes from the models of tests/tiny_models.py.

It needs llama-cpp-python 0.3.36, gguf and numpy:

    python scripts/record_models.py

writes tests/data/models/logits.npz with an array f32 [tokens, vocabulary] or [width] for each architecture and type,
and with an adapter for some. Keys and values are stored in F32.
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
    OUT.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(OUT, **results)  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
