"""Compares encoders of pictures, and prompts with pictures, with llama.cpp's mtmd: tiny models of tests/hf_images.py.

It needs llama-cpp-python 0.3.36 for the second step, gguf and Pillow for the first:

    python scripts/compare_mtmd.py write FOLDER      writes files and the embeddings that this package computes
    python scripts/compare_mtmd.py compare FOLDER    prints normalised square errors: of embeddings, and of logits

The two steps may run in two environments, which both have this package. Pictures need no resizing. Text models are tiny
ones of random weights; the last logits of a prompt with a picture between texts show whether its positions, and what
layers add, are those of llama.cpp. The process ends where llama.cpp aborts.
"""

import ctypes
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

MARKS = ["<image>", "</image>", "<slice>", "</slice>"]  # tokens that llama.cpp wants around pictures of MiniCPM-V
TABLE = 70  # llama.cpp takes positions of MiniCPM-V for that of a square of so many patches
IMAGE = 256  # pixels of the side of a picture for the resampler

# Kind: (tiny text model, value of general.architecture and its further keys; changes of the encoder's settings and of
# the preprocessor's; width and height of the picture)
KINDS: dict[str, tuple[str, str, dict[str, Any], dict[str, Any], dict[str, Any], tuple[int, int]]] = {
    "qwen2vl": ("qwen2", "qwen2vl", {"rope.dimension_sections": [4, 2, 2, 0]}, {}, {}, (48, 64)),
    "qwen25vl": (
        "qwen2", "qwen2vl", {"rope.dimension_sections": [4, 2, 2, 0]},
        {"window_size": 112, "fullatt_block_indexes": [1, 3]}, {"size": {"shortest_edge": 64, "longest_edge": 40000}},
        (136, 160)),
    "qwen3vl": (
        "qwen3", "qwen3vl", {"rope.dimension_sections": [6, 5, 5, 0], "n_deepstack_layers": 2}, {}, {}, (72, 48)),
    "lfm2vl": (
        "llama", "llama", {}, {}, {"min_image_tokens": 64, "max_image_tokens": 256, "tile_size": 512}, (64, 96)),
    "minicpmv46": ("llama", "llama", {}, {"image_size": TABLE * 4}, {"scale_resolution": 64}, (64, 64)),
}  # fmt: skip

MOBILE_VLM = ("ldp", "ldpv2")


def write_text(path: Path, kind: str, arch: str, more: dict[str, Any]) -> None:
    """Writes a tiny model as one of another architecture, with the marks of pictures in its vocabulary."""
    import tiny_models

    tokens = tiny_models.vocabulary()
    tokens[-len(MARKS) :] = MARKS
    tiny_models.write_as(path, kind, arch, more, {"tokenizer.ggml.tokens": tokens})


def write_ours(place: Path, size: tuple[int, int]) -> None:
    """Writes a picture and its embeddings."""
    import hf_images

    from ggml.models.vision.tower import Tower

    picture = hf_images.picture(*size)
    tower = Tower(place / "mmproj.gguf")
    encoded = tower.encode(picture, "compare_mtmd")
    places = np.concatenate(encoded.places) if encoded.places else np.empty(0)
    np.savez(place / "ours.npz", picture=picture, rows=encoded.rows, places=places)
    tower.close()


def write(folder: Path) -> None:
    """The first step."""
    import hf_images
    import tiny_models

    from ggml.models import convert

    warnings.simplefilter("ignore")
    for kind, (text, arch, more, vision, preprocessor, size) in KINDS.items():
        record = hf_images.record(kind)
        record["config"]["vision_config"] |= vision
        record["preprocessor"] |= preprocessor
        for name in record["shapes"]:
            if kind == "minicpmv46" and name.endswith("position_embedding.weight"):
                record["shapes"][name][0] = TABLE**2
        place = folder / kind
        place.mkdir(parents=True, exist_ok=True)
        hf_images.write_folder(place / "model", record)
        convert(place / "model", place / "unused.gguf", mmproj=place / "mmproj.gguf")
        write_text(place / "text.gguf", text, arch, more)
        write_ours(place, size)
    for version, kind in enumerate(MOBILE_VLM, 1):
        place = folder / kind
        # without a class token, whose place llama.cpp sees elsewhere, and in F16, as it needs kernels of convolutions
        hf_images.write_mobile_vlm(place / "model", version, np.float16, False)
        convert(place / "model", place / "unused.gguf", mmproj=place / "mmproj.gguf")
        write_text(place / "text.gguf", "llama", "llama", {})
        write_ours(place, (24 * 7, 24 * 7))
    place = folder / "resampler"
    hf_images.write_minicpm(place / "model", side=TABLE, image=IMAGE)
    convert(place / "model", place / "unused.gguf", mmproj=place / "mmproj.gguf")
    tiny_models.WIDTH = 128  # that of the resampler
    write_text(place / "text.gguf", "llama", "llama", {})
    write_ours(place, (IMAGE, IMAGE))


def error(values: np.ndarray, wanted: np.ndarray) -> float:
    return float(np.square(values - wanted).mean() / wanted.var())


def errors(place: Path) -> tuple[float, float]:
    """The errors of the embeddings, and of the last logits."""
    import llama_cpp
    from llama_cpp import mtmd_cpp as mtmd

    from ggml.models import load
    from ggml.models.run.batch import image_tokens

    ours = np.load(place / "ours.npz")
    model = llama_cpp.Llama(str(place / "text.gguf"), n_ctx=512, n_threads=1, type_k=0, type_v=0, verbose=False)
    options = mtmd.mtmd_context_params_default()
    options.use_gpu, options.n_threads, options.warmup, options.print_timings = False, 1, False, False
    options.flash_attn_type = 0  # off: with it, attention to thousands of keys differs by 4e-3
    ctx = mtmd.mtmd_init_from_file(str(place / "mmproj.gguf").encode(), model._model.model, options)
    if ctx is None:
        raise ValueError("mtmd does not open the file")
    height, width = ours["picture"].shape[:2]
    pixels = np.ascontiguousarray(ours["picture"])
    data = pixels.ctypes.data_as(ctypes.POINTER(ctypes.c_uint8))
    bitmap = mtmd.mtmd_bitmap_init(width, height, data)
    prompt = b"ab" + mtmd.mtmd_default_marker() + b"cd"
    text = mtmd.mtmd_input_text(text=prompt, text_len=len(prompt), add_special=True, parse_special=True)
    chunks = mtmd.mtmd_input_chunks_init()
    bitmaps = (mtmd.mtmd_bitmap_p_ctypes * 1)(bitmap)
    if mtmd.mtmd_tokenize(ctx, chunks, ctypes.byref(text), bitmaps, 1):
        raise ValueError("mtmd refuses the picture")
    ids: list[int] = []
    rows: list[np.ndarray] = []
    width = ours["rows"].shape[1]
    for i in range(mtmd.mtmd_input_chunks_size(chunks)):
        chunk = mtmd.mtmd_input_chunks_get(chunks, i)
        count = mtmd.mtmd_input_chunk_get_n_tokens(chunk)
        if mtmd.mtmd_input_chunk_get_type(chunk) == 0:
            found = ctypes.c_size_t()
            tokens = mtmd.mtmd_input_chunk_get_tokens_text(chunk, ctypes.byref(found))
            ids += [tokens[j] for j in range(found.value)]
            continue
        if mtmd.mtmd_encode_chunk(ctx, chunk):
            raise ValueError("mtmd does not encode the picture")
        rows.append(np.ctypeslib.as_array(mtmd.mtmd_get_output_embd(ctx), (count, width)).copy())
        ids += image_tokens(ours["rows"], False, ours["places"] if ours["places"].size else None)
    position = llama_cpp.llama_pos()
    context = model._ctx.ctx
    if mtmd.mtmd_helper_eval_chunks(ctx, context, chunks, 0, 0, 512, True, ctypes.byref(position)):
        raise ValueError("llama.cpp refuses the prompt")
    logits = np.ctypeslib.as_array(llama_cpp.llama_get_logits_ith(context, -1), (model.n_vocab(),)).astype(float)
    with load(place / "text.gguf", kv_type="f32", n_ctx=512) as own:
        mine = own.logits(ids)[-1]
    return error(np.concatenate(rows), ours["rows"]), error(mine, logits)


def main() -> None:
    folder = Path(sys.argv[2])
    if sys.argv[1] == "write":
        write(folder)
        return
    for kind in sys.argv[3:] or (*KINDS, *MOBILE_VLM, "resampler"):
        try:
            print(kind, *(f"{value:.1e}" for value in errors(folder / kind)), flush=True)
        except ValueError as failure:
            print(kind, failure, flush=True)


if __name__ == "__main__":
    main()
