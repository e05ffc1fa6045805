"""Shows how fast pictures are encoded, and in how much memory, beside PyTorch and llama.cpp's mtmd.

    python benchmarks/images.py [--torch PYTHON] [--mtmd PYTHON] [--threads N] [--rounds N] [--folder FOLDER]
                                [--only TEXT] [--tiny] [--json FILE]

Encoders of random weights at the sizes of CLIP's ViT-L/14 with a picture of 336 x 336 (as LLaVA 1.5 has it) and of
SigLIP-So400m with one of 896 x 896 (as Gemma 3 has it), F16 and Q8_0, are written to FOLDER on first use (2.4 GB).
PYTHON is the interpreter of an environment with torch and transformers, whose classes CLIPVisionModel and
SiglipVisionModel compute with F32, without a projector; that of --mtmd one with llama-cpp-python, which reads the same
files. Each computes in a process of its own; these take turns, and the best of the rounds counts. The memory is the
largest resident set of the process less that before the model is opened, with the pages of the file.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path

import numpy as np

# Name: projector, class of transformers, width, inner width, layers, heads, side of a patch, of the picture, embedding
SHAPES = {
    "ViT-L/14, 336": ("mlp", "CLIPVision", 1024, 4096, 24, 16, 14, 336, 4096),
    "SigLIP-So400m, 896": ("gemma3", "SiglipVision", 1152, 4304, 27, 16, 14, 896, 2560),
    "tiny": ("gemma3", "SiglipVision", 64, 128, 2, 4, 8, 64, 64),
}
TYPES = ("F16", "Q8_0")


# ---- files -----------------------------------------------------------------------------------------------------------
def tensors_of(name):
    """Names of tensors, with their shapes in NumPy order."""
    projector, _, width, inner, layers, _, patch, image, dim = SHAPES[name]
    clip = projector == "mlp"
    shapes = {
        "v.patch_embd.weight": (width, 3, patch, patch),
        "v.position_embd.weight": ((image // patch) ** 2 + clip, width),
    }
    vectors = {"v.pre_ln": width, "v.class_embd": width} if clip else {"v.post_ln": width}
    if clip:
        shapes |= {"mm.0.weight": (dim, width), "mm.2.weight": (dim, dim), "mm.0.bias": (dim,), "mm.2.bias": (dim,)}
    else:
        shapes |= {"mm.input_projection.weight": (width, dim), "mm.soft_emb_norm.weight": (width,)}
        shapes["v.patch_embd.bias"] = (width,)
    for i in range(layers - clip):
        b = f"v.blk.{i}."
        vectors |= {f"{b}ln1": width, f"{b}ln2": width}
        matrices = {f"{b}attn_{part}": (width, width) for part in ("q", "k", "v", "out")}
        matrices |= {f"{b}ffn_up": (inner, width), f"{b}ffn_down": (width, inner)}
        for matrix, shape in matrices.items():
            shapes |= {f"{matrix}.weight": shape, f"{matrix}.bias": shape[:1]}
    for vector, size in vectors.items():
        names = [vector] if vector == "v.class_embd" else [f"{vector}.weight", f"{vector}.bias"]
        shapes |= dict.fromkeys(names, (size,))
    return shapes


def keys_of(name):
    """The keys of a file."""
    projector, _, width, inner, layers, heads, patch, image, dim = SHAPES[name]
    sizes = {"image_size": image, "patch_size": patch, "embedding_length": width, "feed_forward_length": inner,
             "block_count": layers - (projector == "mlp"), "attention.head_count": heads,
             "projection_dim": dim}  # fmt: skip
    return sizes | ({"projector.scale_factor": 2} if name == "tiny" else {})


def write(path, name, kind):
    """Writes an encoder of random weights."""
    import ggml

    rng, projector = np.random.default_rng(0), SHAPES[name][0]
    ctx, file = ggml.ggml_init(ggml.ggml_init_params(mem_size=0)), ggml.gguf_init_empty()
    for key, value in {"general.architecture": "clip", "clip.projector_type": projector}.items():
        ggml.gguf_set_val_str(file, key, value)
    ggml.gguf_set_val_bool(file, "clip.has_vision_encoder", True)
    ggml.gguf_set_val_bool(file, "clip.use_gelu", projector != "mlp")
    for key, value in keys_of(name).items():
        ggml.gguf_set_val_u32(file, f"clip.vision.{key}", value)
    ggml.gguf_set_val_f32(file, "clip.vision.attention.layer_norm_epsilon", 1e-5)
    for key in ("image_mean", "image_std"):
        values = np.full(3, 0.5, np.float32)
        ggml.gguf_set_arr_data(file, f"clip.vision.{key}", ggml.GGUF_TYPE_FLOAT32, values.ctypes.data, 3)
    for tensor_name, shape in tensors_of(name).items():
        matrix = len(shape) == 2 and "position" not in tensor_name
        # Gemma 3 needs the transpose of its projection, and rows of 4304 are no whole number of blocks
        used = "F16" if "input_projection" in tensor_name or shape[-1] % 32 else kind
        number = getattr(ggml, f"GGML_TYPE_{used}") if matrix else ggml.GGML_TYPE_F32
        tensor = ggml.ggml_new_tensor_4d(ctx, number, *(*shape[::-1], 1, 1, 1)[:4])
        ggml.ggml_set_name(tensor, tensor_name)
        scale = 1 / np.sqrt(shape[-1]) if len(shape) > 1 else 0.1
        values = (rng.standard_normal(shape, np.float32) * np.float32(scale)).reshape(-1, shape[-1])
        values += 1 if tensor_name.endswith(("ln1.weight", "ln2.weight", "_ln.weight", "norm.weight")) else 0
        if number == ggml.GGML_TYPE_F16:
            values = values.astype(np.float16)
        elif matrix:
            blocks = np.empty(ggml.ggml_nbytes(tensor), np.uint8)
            ggml.ggml_quantize_chunk(
                number, values.ctypes.data, blocks.ctypes.data, 0, len(values), values.shape[1], None
            )
            values = blocks
        ggml.ggml_backend_tensor_set(tensor, values.ctypes.data, 0, values.nbytes)
        ggml.gguf_add_tensor(file, tensor)
    ggml.gguf_write_to_file(file, str(path), False)
    ggml.gguf_free(file)
    ggml.ggml_free(ctx)


# ---- one process of each ---------------------------------------------------------------------------------------------
def encoder_of_ggml(path, name, threads):
    from ggml.models.vision.tower import Tower

    tower = Tower(path, threads)
    side = SHAPES[name][7]
    picture = np.random.default_rng(1).integers(0, 256, (side, side, 3)).astype(np.uint8)

    def run():
        tower.known.clear()
        tower.encode(picture, "benchmark")

    return run


def encoder_of_torch(path, name, threads):
    import torch
    import transformers

    torch.set_num_threads(threads)
    _, kind, width, inner, layers, heads, patch, image, _ = SHAPES[name]
    sizes = {"hidden_size": width, "intermediate_size": inner, "num_attention_heads": heads, "patch_size": patch}
    config = getattr(transformers, f"{kind}Config")(
        **sizes, image_size=image, num_hidden_layers=layers - (kind == "CLIPVision")
    )
    model = getattr(transformers, f"{kind}Model")(config).eval()
    pixels = torch.rand(1, 3, image, image)

    def run():
        with torch.inference_mode():
            model(pixel_values=pixels)

    return run


def write_text(path, name):
    """Writes a tiny language model for these embeddings, without which mtmd opens no encoder."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
    import tiny_models

    tiny_models.WIDTH, tiny_models.LAYERS = SHAPES[name][8], 1
    tiny_models.write(path, "llama")


def encoder_of_mtmd(path, name, threads):
    import ctypes

    import llama_cpp
    from llama_cpp import mtmd_cpp as mtmd

    text_model = f"{path}.text"
    model = llama_cpp.Llama(text_model, n_ctx=64, n_threads=threads, verbose=False)
    before = resident("VmRSS")  # the text model's memory is not the encoder's
    options = mtmd.mtmd_context_params_default()
    options.use_gpu, options.n_threads, options.warmup, options.print_timings = False, threads, False, False
    ctx = mtmd.mtmd_init_from_file(str(path).encode(), model._model.model, options)
    side = SHAPES[name][7]
    picture = np.random.default_rng(1).integers(0, 256, (side, side, 3)).astype(np.uint8)
    bitmap = mtmd.mtmd_bitmap_init(side, side, picture.ctypes.data_as(ctypes.POINTER(ctypes.c_uint8)))
    prompt = mtmd.mtmd_default_marker()
    text = mtmd.mtmd_input_text(text=prompt, text_len=len(prompt), add_special=False, parse_special=True)
    chunks = mtmd.mtmd_input_chunks_init()
    mtmd.mtmd_tokenize(ctx, chunks, ctypes.byref(text), (mtmd.mtmd_bitmap_p_ctypes * 1)(bitmap), 1)
    all_chunks = [mtmd.mtmd_input_chunks_get(chunks, i) for i in range(mtmd.mtmd_input_chunks_size(chunks))]
    pictures = [chunk for chunk in all_chunks if mtmd.mtmd_input_chunk_get_type(chunk) != 0]

    def run():
        for chunk in pictures:
            if mtmd.mtmd_encode_chunk(ctx, chunk):
                raise SystemExit("mtmd does not encode the picture")

    run.kept, run.before = (model, picture), before
    return run


def resident(name):
    """VmRSS or VmHWM of this process in MiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1]) / 1024


def work(library, path, name, threads):
    """Answers each line of standard input by the seconds of an encoding and the memory."""
    make = {"ggml": encoder_of_ggml, "torch": encoder_of_torch, "mtmd": encoder_of_mtmd}[library]
    modules = {"ggml": ("ggml.models.vision.tower", "PIL.Image"), "torch": ("torch", "transformers")}
    for module in modules.get(library, ("llama_cpp",)):
        import_module(module)  # whose memory is not the model's
    before = resident("VmRSS")
    run = make(path, name, threads)
    before = getattr(run, "before", before)
    run()
    print(json.dumps("ready"), flush=True)
    for _ in sys.stdin:
        start = time.perf_counter()
        run()
        print(json.dumps([time.perf_counter() - start, resident("VmHWM") - before]), flush=True)


class Process:
    """A process that encodes."""

    def __init__(self, python, library, path, name, threads):
        env = os.environ | {"OMP_NUM_THREADS": str(threads), "HF_HUB_OFFLINE": "1"}
        if python != sys.executable:
            env.pop("PYTHONPATH", None)
        command = [python, __file__, "--worker", library, str(path), name, str(threads)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env
        )
        if self.answer() is None:
            raise SystemExit(f"{python}: {library} can't compute {name}")

    def answer(self):
        for line in self.process.stdout:
            with contextlib.suppress(ValueError):
                return json.loads(line)
        return None

    def ask(self):
        print("go", file=self.process.stdin, flush=True)
        return self.answer()

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def measure(args, name, folder):
    """The best seconds and the memory of each, by their labels."""
    processes = {}
    try:
        for kind in TYPES:
            path = folder / f"{name.split(',')[0].replace('/', '-')}-{kind}.gguf"
            if not path.exists():
                write(path, name, kind)
            processes[f"ggml {kind}"] = Process(sys.executable, "ggml", path, name, args.threads)
            if args.mtmd:
                if not Path(f"{path}.text").exists():
                    write_text(f"{path}.text", name)
                processes[f"mtmd {kind}"] = Process(args.mtmd, "mtmd", path, name, args.threads)
        if args.torch:
            processes["torch F32"] = Process(args.torch, "torch", "-", name, args.threads)
        found = {}
        for _ in range(args.rounds):
            for label, process in processes.items():
                seconds, memory = process.ask()
                found[label] = min(seconds, found.get(label, (seconds, 0))[0]), memory
        return found
    finally:
        for process in processes.values():
            process.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--torch", metavar="PYTHON", help="interpreter of an environment with torch and transformers")
    parser.add_argument("--mtmd", metavar="PYTHON", help="interpreter of an environment with llama-cpp-python")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="folder for the files (default: a temporary one)")
    parser.add_argument("--only", default="", help="names that contain this text")
    parser.add_argument("--tiny", action="store_true", help="a tiny encoder alone, to try the program")
    parser.add_argument("--json", type=Path, help="file for the results")
    args = parser.parse_args()
    names = ["tiny"] if args.tiny else [name for name in SHAPES if name != "tiny" and args.only in name]
    results = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for name in names:
            found = results[name] = measure(args, name, folder)
            base = found.get("torch F32", (0, 0))[0]
            for label, (seconds, memory) in found.items():
                ratio = f"  {base / seconds:5.2f} times torch" if base else ""
                print(f"{name:20} {label:10} {seconds * 1000:9.1f} ms {memory:7.0f} MiB{ratio}", flush=True)
    if args.json:
        args.json.write_text(json.dumps(results))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        work(*sys.argv[2:5], int(sys.argv[5]))
    else:
        main()
