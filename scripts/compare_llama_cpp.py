"""Compares what llama.cpp computes from the converted models of tests/hf_models.py with what transformers computed.

Of models without a class in transformers the tests compute the values, by their equations in NumPy.

It needs llama-cpp-python 0.3.36, and the files that this package has converted:

    python scripts/compare_llama_cpp.py convert FOLDER [KIND...]    writes FOLDER/KIND.gguf
    python scripts/compare_llama_cpp.py compare FOLDER [KIND...]    prints the normalised mean square errors of each

The second step writes the larger error of each kind to tests/data/llama_cpp.json, null for one that llama.cpp does not
take, from which scripts/make_architectures.py makes a column. The two steps may run in two environments. Keys and
values are stored in F32. The process ends where llama.cpp aborts.

Two kinds of large errors are none of the code's, which other seeds than the recorded one show too:

- A mixture of experts jumps where two scores of a router are almost equal, or, in `phimoe`, one is at the threshold of
  SparseMixer: what rounds keys to F16 moves a state by 1e-3, and the token has another expert or other weights from
  there on. Of 25 seeds of `phimoe`, 12 with F16 keys had a logit that was off by 0.07 to 0.7 of the largest; in each
  of them the first token that was off had such scores, and the others, without one, were off by less than 1e-3.
- A classifier with one class gives one number. Where it is close to zero, the error relative to it is large:
  `modern-bert+classes` gave 0.003 in one case, 8e-9 from what float64 gives here, 3e-8 in PyTorch's float32.
"""

import json
import sys
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "models")]

import hf_models  # noqa: E402

BY_NUMPY = hf_models.BY_NUMPY
MEANS = (*hf_models.ENCODERS, *(kind for kind in BY_NUMPY if "bert" in kind))
POOLED = (*MEANS, *hf_models.CLASSIFIERS)


def convert(folder: Path, kinds: list[str]) -> None:
    from ggml.models import convert

    warnings.simplefilter("ignore")
    for kind in kinds:
        if kind in BY_NUMPY:
            np.savez(folder / f"{kind}.npz", **by_numpy(kind, folder / kind))  # type: ignore[arg-type]
        else:
            record = hf_models.record(kind)
            hf_models.write_folder(folder / kind, record["config"], record["shapes"])
        convert(folder / kind, folder / f"{kind}.gguf")


def by_numpy(kind: str, folder: Path) -> dict[str, np.ndarray]:
    """Writes the folder of a model; what NumPy computes from it."""
    encoders, rwkv6, rwkv7 = map(import_module, ("test_encoders", "test_rwkv6", "test_rwkv"))
    texts = {length: hf_models.tokens(length) for length in hf_models.LENGTHS}
    if kind.startswith("rwkv"):
        found = rwkv7 if kind == "rwkv7" else rwkv6
        of_fla = (rwkv6.FLA_CONFIG, rwkv6.fla_weights(rwkv6.SIZE)) if kind == "rwkv6+fla" else ()
        found.write_folder(folder, *of_fla)
        return {str(n): found.reference(ids)[hf_models.rows(n)] for n, ids in texts.items()}
    if kind == "nomic-bert-moe":
        encoders.nomic_folder(folder)
        return {str(n): encoders.nomic_states(encoders.nomic(), ids).mean(0) for n, ids in texts.items()}
    code = kind.endswith("code")
    encoders.jina_folder(folder, code)
    shapes = encoders.jina(code)
    return {str(n): encoders.jina_states(shapes, ids, code).mean(0) for n, ids in texts.items()}


def errors(path: Path, kind: str) -> list[float]:
    """The errors of a short and a long text."""
    import llama_cpp

    record = np.load(path.with_suffix(".npz")) if kind in BY_NUMPY else hf_models.record(kind)
    found: list[float] = []
    for length in hf_models.LENGTHS:
        ids, original = hf_models.tokens(length), hf_models.ORIGINAL_CONTEXTS.get(kind, 0)
        n_ctx = original if length <= original else 256
        pooled = kind in POOLED
        model = llama_cpp.Llama(
            str(path), n_ctx=n_ctx, n_batch=256, n_ubatch=256, n_threads=1, logits_all=not pooled, embedding=pooled,
            type_k=0, type_v=0, swa_full=True, verbose=False, pooling_type=1 if kind in MEANS else -1,
        )  # fmt: skip
        if kind in hf_models.ENCODER_DECODERS:
            got = of_decoder(model, ids, hf_models.decoder_tokens(length))[hf_models.rows(length)]
        elif pooled:
            model._batch.add_sequence(ids, 0, True)
            compute = llama_cpp.llama_encode if kind == "t5encoder" else llama_cpp.llama_decode
            compute(model._ctx.ctx, model._batch.batch)
            states = llama_cpp.llama_get_embeddings_seq(model._ctx.ctx, 0)
            got = np.ctypeslib.as_array(states, record[str(length)].shape).astype(np.float64)
        else:
            model.eval(ids)
            got = model.scores[hf_models.rows(length)].astype(np.float64)
        expected = record[str(length)].astype(np.float64)
        found.append(float(((got - expected) ** 2).sum() / (expected**2).sum()))
        model.close()
    return found


def of_decoder(model: Any, ids: list[int], text: list[int]) -> np.ndarray:
    """The logits of a decoder's text while its encoder has read ids."""
    import llama_cpp

    context, size = model._ctx.ctx, model.n_vocab()
    for tokens, compute in ((ids, llama_cpp.llama_encode), (text, llama_cpp.llama_decode)):
        model._batch.reset()
        model._batch.add_sequence(tokens, 0, True)
        if compute(context, model._batch.batch):
            raise RuntimeError("llama.cpp refuses the batch")
    logits = llama_cpp.llama_get_logits(context)
    return np.ctypeslib.as_array(logits, (len(text), size)).astype(np.float64)


def main() -> None:
    folder = Path(sys.argv[2])
    kinds = sys.argv[3:] or [*hf_models.KINDS, *BY_NUMPY]
    if sys.argv[1] == "convert":
        folder.mkdir(parents=True, exist_ok=True)
        convert(folder, kinds)
        return
    for kind in kinds:
        largest = None
        try:
            found = errors(folder / f"{kind}.gguf", kind)
            largest = float(f"{max(found):.1e}")
            print(kind, *(f"{error:.1e}" for error in found), flush=True)
        except (ValueError, RuntimeError) as error:
            print(kind, str(error).splitlines()[0][:100], flush=True)
        kept = json.loads(hf_models.LLAMA_CPP.read_text()) | {kind: largest}
        hf_models.LLAMA_CPP.write_text(json.dumps(kept, indent=0, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
