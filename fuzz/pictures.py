"""Opens damaged pictures, and encoders of pictures with wrong keys and tensors: each works or raises ValueError.

    python fuzz/pictures.py --seconds 600

Pictures are mutants of small files of the formats that Pillow writes, models that compare texts with pictures mutants
of GGUF files and of one in the format of the bindings' example clip. Encoders are those of tests/hf_images.py with
other values of keys, without some, and with other tensors. The exit status is 1 if something else is raised; the input
is then in the file --last. It needs Pillow and gguf.
"""

from __future__ import annotations

import argparse
import io
import random
import resource
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parent.parent / "tests")  # not the folder of gguf.py, which is no package
import bindings_clip  # noqa: E402
import gguf  # noqa: E402
import gguf_files  # noqa: E402
import hf_images  # noqa: E402
import hf_search  # noqa: E402
import numpy as np  # noqa: E402
from PIL import Image  # noqa: E402

from ggml.models import convert, load  # noqa: E402
from ggml.models.vision.pictures import open_picture  # noqa: E402
from ggml.models.vision.tower import Tower  # noqa: E402

MEMORY = 6 << 30
FORMATS = ["PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM", "TGA", "ICO", "JPEG2000", "PCX", "DDS", "AVIF"]
INTEGERS = [0, 1, 2, 3, 5, 7, 1000, 1 << 14, 1 << 24, (1 << 32) - 1]
FLOATS = [0.0, -1.0, float("nan"), float("inf"), 1e30, 1e-30]
TEXTS = ["", "x", "mlp", "gemma3", "idefics3", "internvl", "pixtral", "gemma4v", "clip", "siglip",
         "resampler", "minicpmv4_6"]  # fmt: skip
PICTURES = [(30, 40), (8, 8), (3, 200), (100, 17)]


def pictures() -> list[bytes]:
    """Files of the formats that this Pillow writes."""
    found = []
    image = Image.fromarray(hf_images.picture(40, 31))
    exif = image.getexif()
    exif[0x0112] = 6
    for name in FORMATS:
        file = io.BytesIO()
        try:
            image.save(file, name, **({"exif": exif} if name in ("PNG", "JPEG", "WEBP", "TIFF") else {}))
        except (KeyError, OSError):  # a library that this Pillow lacks
            continue
        found.append(file.getvalue())
    return found


def damaged(rng: random.Random, data: bytes) -> bytes:
    """A mutant of a file."""
    out = bytearray(data)
    for _ in range(rng.choice([1, 2, 4, 8])):
        kind, place = rng.random(), rng.randrange(min(len(out), rng.choice([64, 400, 10000])) + 1)
        if kind < 0.7 and place < len(out):
            out[place] = rng.choice([0, 255, rng.randrange(256)])
        elif kind < 0.85:
            del out[rng.randrange(len(out) + 1) :]
        else:
            out[place:place] = rng.randbytes(4)
    return bytes(out)


def encoders(folder: Path) -> list[tuple[dict, dict]]:
    """The keys and tensors of encoders of all kinds."""
    found = []
    for kind in hf_images.KINDS:
        hf_images.write_folder(folder / kind, hf_images.record(kind))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the folder has no tokenizer
            convert(folder / kind, folder / "text.gguf", mmproj=folder / f"{kind}.gguf")
    hf_images.write_resampler(folder / "resampler.gguf")
    for kind in [*hf_images.KINDS, "resampler"]:
        reader = gguf.GGUFReader(folder / f"{kind}.gguf")
        keys = {name: field.contents() for name, field in reader.fields.items() if name.startswith("clip.")}
        found.append((keys, {t.name: np.array(t.data) for t in reader.tensors}))
    return found


def searchers(folder: Path) -> list[bytes]:
    """Files of models that compare texts with pictures, one of them in the format of the bindings' example."""
    found = []
    for kind in hf_search.TOKENIZERS:
        hf_search.write_folder(folder / f"search-{kind}", hf_search.record(kind), tokenizer=True)
        convert(folder / f"search-{kind}", folder / "search.gguf")
        found.append((folder / "search.gguf").read_bytes())
    bindings_clip.write(folder / "example", bindings_clip.random_weights())
    return [*found, (folder / "example").read_bytes()]


def search(path: Path) -> None:
    """Opens a model and compares a text with a picture."""
    with load(path, threads=1) as model:
        try:
            model.similarity("a cat", hf_images.picture(30, 40))
        finally:
            model.similarity([[3, 4, 5]], hf_images.picture(30, 40))


def other(rng: random.Random, value: object) -> object:
    """Another value of a key."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return rng.choice([*INTEGERS, value + 1, max(0, value - 1)]) % (1 << 32)
    if isinstance(value, (float, str)):
        return rng.choice(FLOATS if isinstance(value, float) else TEXTS)
    return [rng.choice(FLOATS)] * rng.choice([1, 3, 4])


def write_encoder(rng: random.Random, encoder: tuple[dict, dict], path: Path) -> None:
    """Writes a mutant of an encoder."""
    keys, tensors = map(dict, encoder)
    for _ in range(rng.choice([1, 1, 2, 3])):
        kind, name, tensor = rng.random(), rng.choice(list(keys)), rng.choice(list(tensors))
        if kind < 0.6:
            keys[name] = other(rng, keys[name])
        elif kind < 0.7 and len(keys) > 1:
            del keys[name]
        elif kind < 0.85 and len(tensors) > 1:
            del tensors[tensor]
        else:
            values = tensors[tensor]
            half = values[: max(1, len(values) // 2)]
            tensors[tensor] = rng.choice(
                [values.T.copy(), values.reshape(-1), half, values.astype(np.float16), np.full_like(values, np.nan)]
            )
    writer = gguf.GGUFWriter(path, "clip")
    add = {bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32, str: writer.add_string}
    for name, value in keys.items():
        add.get(type(value), writer.add_array)(name, value)
    for name, values in tensors.items():
        writer.add_tensor(name, values)
    gguf_files.finish(writer)


def encode(path: Path, size: tuple[int, int]) -> None:
    """Opens an encoder and encodes a picture."""
    tower = Tower(path)
    try:
        tower.encode(hf_images.picture(*size), "fuzz")
    finally:
        tower.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--last", type=Path, default=Path("picture"), help="file for the input that failed")
    options = parser.parse_args()
    rng, found = random.Random(options.seed), Counter[str]()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    end = time.monotonic() + options.seconds
    with tempfile.TemporaryDirectory() as name:
        files, models, path = pictures(), encoders(Path(name)), Path(name) / "mutant"
        searching = searchers(Path(name))
        while time.monotonic() < end:
            try:
                kind = rng.random()
                if kind < 0.1:
                    path.write_bytes(damaged(rng, rng.choice(searching)))
                    search(path)
                elif kind < 0.8:
                    path.write_bytes(damaged(rng, rng.choice(files)))
                    open_picture(path, "fuzz")
                else:
                    write_encoder(rng, rng.choice(models), path)
                    encode(path, rng.choice(PICTURES))
                found["works"] += 1
            except ValueError:
                found["ValueError"] += 1
            except Exception:
                traceback.print_exc()
                options.last.write_bytes(path.read_bytes())
                print(f"the input is in {options.last}")
                return 1
    print(", ".join(f"{kind}: {count}" for kind, count in found.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
