"""Models that compare texts with pictures: against what transformers computed, and the bindings' own file format."""

import json

import numpy as np
import pytest

for library in ("PIL", "gguf", "jinja2", "safetensors", "tokenizers"):  # of the extra [test]; not on emulated CPUs
    pytest.importorskip(library)

import bindings_clip  # noqa: E402
import gguf  # noqa: E402
import hf_images  # noqa: E402
import hf_search  # noqa: E402
import tiny_models  # noqa: E402
from PIL import Image  # noqa: E402

from ggml._cli import main  # noqa: E402
from ggml.models import Tokenizer, convert, load  # noqa: E402
from ggml.models.conversion.checkpoint import Checkpoint  # noqa: E402
from ggml.models.conversion.vocabulary import vocabulary  # noqa: E402
from ggml.models.text.encoders import merged_pairs  # noqa: E402

PICTURES = [hf_images.picture(*size) for size in hf_images.SIZES]
IDS = hf_search.texts()
END = "<|endoftext|>"
pytestmark = pytest.mark.filterwarnings("ignore:(load|convert).* has no tokenizer")


def error(values, wanted):
    """The mean square error in parts of the variance."""
    assert values.shape == wanted.shape and values.dtype == np.float32
    return np.square(values - wanted).mean() / wanted.var()


@pytest.fixture(scope="module", params=list(hf_search.KINDS))
def written(request, tmp_path_factory):
    """What was recorded of a kind, its folder, and the file that this becomes."""
    folder, record = tmp_path_factory.mktemp("search"), hf_search.record(request.param)
    hf_search.write_folder(folder / "model", record)
    convert(folder / "model", folder / "model.gguf")
    return record, folder / "model", folder / "model.gguf"


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    """A model of CLIP's kind with a vocabulary."""
    folder = tmp_path_factory.mktemp("clip")
    hf_search.write_folder(folder / "model", hf_search.record("clip"), tokenizer=True)
    convert(folder / "model", folder / "model.gguf")
    with load(folder / "model.gguf") as model:
        yield model


# ---- against transformers --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("form", [1, 2], ids=["folder", "file"])
def test_embeddings_and_scores_are_those_of_transformers(written, form):
    record = written[0]
    with load(written[form]) as model:
        assert error(model.embed(IDS), record["texts"]) < 1e-9
        assert error(model.embed_image(PICTURES), record["pictures"]) < 1e-9
        assert error(model.similarity(IDS, PICTURES), record["scores"]) < 1e-9
        cosine = model.similarity(IDS, PICTURES, scaled=False)
        a, b = model.embed(IDS, normalize=True), model.embed_image(PICTURES, normalize=True)
        np.testing.assert_allclose(cosine, a @ b.T, atol=1e-6)
        assert np.ptp((record["scores"] - cosine * record["scores"].std() / cosine.std()).ravel()) < 1e-3


def test_pixels_are_those_of_the_processor(written):
    record = written[0]
    with load(written[2]) as model:
        for image, wanted in zip(hf_images.odd_pictures(60), record["pixels"], strict=True):
            ((tile,), _) = model.images.tower.tiles(image, "test")
            found = hf_images.sample(tile.transpose(2, 0, 1))
            assert np.abs(found - wanted).max() < 1 / 255, (image.size, image.mode)


@pytest.mark.parametrize("kind", hf_search.TOKENIZERS)
def test_tokens_are_those_of_transformers(kind, tmp_path):
    record = hf_search.record(kind)
    hf_search.write_folder(tmp_path, record, tokenizer=True)
    with load(tmp_path) as model:
        for line, ids in zip(hf_search.LINES, record["ids"], strict=True):
            assert model.tokenize(line) == ids, line
        model.tokenize(b"\xff\xed\xa0\x80")
        (a,) = model.embed(["two cats"])
        assert np.array_equal(a, model.embed([model.tokenize("TWO  cats")])[0])


def test_other_files_of_a_tokenizer(tmp_path):
    record = hf_search.record("clip")
    hf_search.write_folder(tmp_path, record, tokenizer=True)
    keys = vocabulary(Checkpoint(tmp_path), 0)
    pairs = [" ".join(pair) for pair in merged_pairs(keys["tokenizer.ggml.tokens"], {})]
    assert pairs == keys["tokenizer.ggml.merges"]
    model = json.loads((tmp_path / "tokenizer.json").read_text())["model"]
    (tmp_path / "tokenizer.json").unlink()
    (tmp_path / "vocab.json").write_text(json.dumps(model["vocab"]))
    (tmp_path / "merges.txt").write_text("#version: 0.2\n" + "\n".join(map(" ".join, model["merges"])))
    tokenizer = Tokenizer(vocabulary(Checkpoint(tmp_path), 0))
    for line, ids in zip(hf_search.LINES, record["ids"], strict=True):
        assert tokenizer.encode(line) == ids, line
    assert tokenizer.decode(tokenizer.encode("Two cats")) == "two cats "


# ---- the bindings' format --------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def example(tmp_path_factory):
    """A file of the bindings' example, and the weights in it."""
    path, weights = tmp_path_factory.mktemp("example") / "clip.ggml", bindings_clip.random_weights()
    bindings_clip.write(path, weights)
    return path, weights


def test_files_of_the_bindings_example_are_opened(example):
    path, weights = example
    side = bindings_clip.RESOLUTION
    image = hf_images.picture(side, side)
    ids = [[int(token) for token in tokens] for tokens in bindings_clip.TOKENS]
    with load(path) as model:
        (tile,), _ = model.images.tower.tiles(image, "test")
        seen, read = bindings_clip.features(weights, tile.transpose(2, 0, 1)[None], bindings_clip.TOKENS)
        assert error(model.embed_image([image]), seen.astype(np.float32)) < 1e-9
        assert error(model.embed(ids), read.astype(np.float32)) < 1e-9
        assert model.similarity(ids, image).shape == (2, 1)


def test_damaged_files_of_the_bindings_example(example, tmp_path):
    data = example[0].read_bytes()
    found = {}
    for name, changed in {
        "short": data[:-1], "sizes": data[:4] + bytes(48) + data[52:], "header": data[:30], "magic": data[:4],
        "name": data[:52] + b"\xff\xff\xff\x7f" + data[56:], "other": data[:-40] + data[:40],
        "tensor": data.replace(b"ln_final.bias", b"ln_final.bass"),
    }.items():  # fmt: skip
        (tmp_path / "a.bin").write_bytes(changed)
        try:
            load(tmp_path / "a.bin").close()
        except ValueError as problem:
            assert str(problem).startswith("load: ")
            found[name] = str(problem)
    assert {"short", "sizes", "header", "magic", "name", "tensor"} <= found.keys()
    assert "bindings' example clip" in found["magic"] and "ln_final.bass" in found["tensor"]


# ---- what a model refuses --------------------------------------------------------------------------------------------
def test_shapes_of_results(clip):
    with pytest.raises(TypeError, match="need a list of texts"):
        clip.embed("a")
    assert clip.similarity("a cat", PICTURES[0]).shape == (1, 1)
    assert clip.similarity([], PICTURES).shape == (0, 2) and clip.similarity(["a", "b"], []).shape == (2, 0)
    assert clip.embed_image(PICTURES[0]).shape == (1, 40) and clip.embed_image([]).shape == (0, 40)
    many = clip.similarity(["a cat", b"dogs"], PICTURES * 50)
    assert many.shape == (2, 100) and np.array_equal(many[:, :2], many[:, -2:])


def test_bad_arguments(clip, written, tmp_path):
    with pytest.raises(ValueError, match="similarity: a text has .* tokens, the context 24"):
        clip.similarity("a photo " * 30, PICTURES)
    with pytest.raises(ValueError, match="similarity: .*damaged"):
        clip.similarity("a", [b"no picture"])
    with pytest.raises(TypeError, match="similarity: the tokens are"):
        clip.similarity([None], PICTURES)
    with pytest.raises(ValueError, match="image_tokens: .* no prompt"):
        clip.image_tokens(PICTURES[0])
    for call in (lambda: clip.generate("a"), lambda: clip.logits("a")):
        with pytest.raises(ValueError, match="gives embeddings only"):
            list(call())
    with pytest.raises(ValueError, match="load: mmproj is given"):
        load(written[2], mmproj=written[2])
    tiny_models.write(tmp_path / "text.gguf", "llama")
    with pytest.raises(ValueError, match="load: .* one embedding for a picture"):
        load(tmp_path / "text.gguf", mmproj=written[2])
    with load(tmp_path / "text.gguf") as model, pytest.raises(ValueError, match="similarity: .* 'llama' does not"):
        model.similarity("a", PICTURES)
    hf_images.write_folder(tmp_path / "llava", hf_images.record("llava"))
    convert(tmp_path / "llava", tmp_path / "llava.gguf", mmproj=tmp_path / "mmproj.gguf")
    with pytest.raises(ValueError, match="load: .*mmproj.gguf: the file is an encoder of pictures"):
        load(tmp_path / "mmproj.gguf")
    closed = load(written[2])
    closed.close()
    with pytest.raises(RuntimeError, match="similarity: the model is closed"):
        closed.similarity("a", PICTURES)


def test_encoders_of_different_sizes(tmp_path):
    record = hf_search.record("siglip")
    for name in ("text_model.head.weight", "text_model.head.bias"):
        record["shapes"][name][0] = 24
    hf_search.write_folder(tmp_path, record)
    with pytest.raises(ValueError, match=r"convert: .* have \[24, 32\] elements"):
        convert(tmp_path, tmp_path / "a.gguf")


@pytest.mark.parametrize("where, name, value, message", [
    ("vision_config", "num_patches", 15, "'num_patches' is 15: need a square"),
    ("vision_config", "vision_use_head", False, "'vision_use_head' is False"),
    ("vision_config", "patch_size", 0, "'patch_size' is 0"),
    (None, "patch_size", 9, "'patch_size' is 9: need 7"),
    (None, "max_num_patches", 1 << 20, "'max_num_patches' is 1048576"),
    (None, "max_num_patches", 0, "'max_num_patches' is 0"),
])  # fmt: skip
def test_wrong_settings_of_pictures_of_any_shape(where, name, value, message, tmp_path):
    record = hf_search.record("siglip2")
    (record["config"][where] if where else record["preprocessor"])[name] = value
    hf_search.write_folder(tmp_path, record)
    with pytest.raises(ValueError, match=f"^convert: .*{message}"):
        convert(tmp_path, tmp_path / "a.gguf")
    assert not (tmp_path / "a.gguf").exists()


def test_pictures_of_any_shape_have_at_most_so_many_patches(tmp_path):
    hf_search.write_folder(tmp_path, hf_search.record("siglip2"))
    with load(tmp_path) as model:
        for size in ((1, 1), (1, 190), (190, 1), (35, 28), (640, 480), (7, 140)):
            ((tile,), _) = model.images.tower.tiles(Image.new("RGB", size), "test")
            height, width = (n // 7 for n in tile.shape[:2])
            assert 0 < height * width <= 20 and tile.shape == (7 * height, 7 * width, 3)
        with model.trace("v.embd") as trace:
            model.embed_image(Image.new("RGB", (70, 14)))
        assert trace["v.embd"].shape == (20, 32)


def test_the_file_has_both_encoders(written, tmp_path):
    record, folder, path = written
    convert(folder, tmp_path / "half.gguf", "F16")
    reader = gguf.GGUFReader(tmp_path / "half.gguf")
    kinds = {t.name: t.tensor_type.name for t in reader.tensors}
    assert kinds["blk.1.ffn_up.weight"] == kinds["v.blk.1.ffn_up.weight"] == kinds["dense_2.weight"] == "F16"
    assert reader.fields["general.architecture"].contents() == "clip"
    with load(tmp_path / "half.gguf") as model:
        assert error(model.similarity(IDS, PICTURES), record["scores"]) < 1e-4
    with load(path) as model:
        assert "blk.1.attn_out" in model.points()


def test_the_command_embeds_texts(clip, tmp_path, capsys):
    path = tmp_path / "a.png"
    Image.fromarray(PICTURES[0]).save(path)
    assert main(["embed", clip.runner.file.path, "a cat", "dogs", "--threads", "1"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    np.testing.assert_allclose(rows, clip.embed(["a cat", "dogs"]), atol=1e-5)
