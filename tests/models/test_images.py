"""Pictures: pixels, embeddings and logits against those that transformers computed, prompts, and bad input."""

import base64
import fnmatch
import io
import json
import math
import pathlib
import re

import numpy as np
import pytest

for library in ("PIL", "gguf", "jinja2", "safetensors", "tokenizers"):  # of the extra [test]; not on emulated CPUs
    pytest.importorskip(library)

import gguf  # noqa: E402
import gguf_files  # noqa: E402
import hf_images  # noqa: E402
import hf_models  # noqa: E402
import safetensors  # noqa: E402
import tiny_models  # noqa: E402
from PIL import Image  # noqa: E402

from ggml._cli import main  # noqa: E402
from ggml.models import convert, load  # noqa: E402
from ggml.models.conversion.checkpoint import Checkpoint  # noqa: E402
from ggml.models.conversion.images import plan_images  # noqa: E402
from ggml.models.llama_cpp import Llama, LlamaRAMCache, llama_chat_format  # noqa: E402
from ggml.models.run.batch import Limits, Piece, divided, image_tokens, runs, whole_length  # noqa: E402
from ggml.models.vision import pixels  # noqa: E402
from ggml.models.vision.pictures import open_picture  # noqa: E402
from ggml.models.vision.tower import Tower  # noqa: E402

OF_LLAVA = {
    "clip.vision.image_aspect_ratio",
    "clip.vision.feature_layer",
    "clip.vision.image_grid_pinpoints",
    "clip.vision.mm_patch_merge_type",
}  # of an older converter
NEWER = {"minicpmv4_6", "v.vit_merger.*"}  # than the names in gguf on PyPI; llama.cpp's own copy has them
KINDS = list(hf_images.KINDS)
PICTURES = [hf_images.picture(*size) for size in hf_images.SIZES]
TEMPLATE = (
    "{% for m in messages %}[{{ m.role }}]{% if m.content is string %}{{ m.content }}{% else %}"
    "{% for p in m.content %}{% if p.type == 'image' %}<image>{% else %}{{ p.text }}{% endif %}{% endfor %}"
    "{% endif %}{% endfor %}{% if add_generation_prompt %}[bot]{% endif %}"
)
TEXTS_ALONE = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"


def error(values, wanted):
    """The mean square error in parts of the variance."""
    return np.square(values - wanted).mean() / wanted.var()


@pytest.fixture(scope="module", params=KINDS)
def converted(request, tmp_path_factory):
    """A kind, what was recorded of it, and the two files that its folder becomes."""
    folder = tmp_path_factory.mktemp("images")
    record = hf_images.record(request.param)
    hf_images.write_folder(folder / "model", record)
    with pytest.warns(UserWarning, match="no tokenizer"):
        convert(folder / "model", folder / "text.gguf", mmproj=folder / "mmproj.gguf")
    return request.param, record, folder


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A language model with a vocabulary and a template, and an encoder for it."""
    folder = tmp_path_factory.mktemp("chat")
    record = hf_images.record("llava")
    hf_images.write_folder(folder / "model", record)
    with pytest.warns(UserWarning, match="no tokenizer"):
        convert(folder / "model", folder / "unused.gguf", mmproj=folder / "mmproj.gguf")
    tiny_models.write(folder / "text.gguf", "llama", change={"tokenizer.chat_template": TEMPLATE})
    return folder / "text.gguf", folder / "mmproj.gguf"


@pytest.fixture
def model(files):
    with load(files[0], mmproj=files[1], n_seq=2) as model:
        yield model


def data_url(image):
    file = io.BytesIO()
    Image.fromarray(image).save(file, "PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


# ---- against transformers --------------------------------------------------------------------------------------------
def test_pixels_are_those_of_the_processor(converted):
    _, record, folder = converted
    tower = Tower(folder / "mmproj.gguf")
    odd = hf_images.odd_pictures(len(record["pixels"]))
    for image, wanted, count in zip(odd, record["pixels"], record["counts"], strict=True):
        tiles, _ = tower.tiles(image, "test")
        assert len(tiles) == count, image.size
        found = hf_images.sample([tile.transpose(2, 0, 1) for tile in tiles])
        assert np.abs(found - wanted).max() < 1 / 255, (image.size, image.mode)
    tower.close()


def test_embeddings_and_logits_are_those_of_transformers(converted):
    _, record, folder = converted
    with load(folder / "text.gguf", mmproj=folder / "mmproj.gguf", kv_type="f32") as model:
        rows = model.embed_image(PICTURES)
        assert [len(r) for r in rows] == record["tokens"].tolist() and rows[0].dtype == np.float32
        assert error(np.concatenate(rows), record["embeddings"]) < 1e-9
        ids = prompt_of(model)
        assert error(model.logits(ids)[::3], record["logits"]) < 1e-9
        # token by token, and with the picture in a chunk with what precedes it
        model.reset()
        first = model.feed(ids[:26])
        assert error(first, record["logits"][-1]) > 1e-3
        cut = whole_length(ids, 40, 512)
        model.reset()
        model.feed(ids[:cut])
        assert error(model.feed(ids[cut:]), record_end(model, ids)) < 1e-9


def prompt_of(model):
    """The recorded prompt, with the embeddings of its pictures."""
    ids, tower = [], model.images.tower
    for part in hf_images.parts(hf_models.tokens(31)):
        if isinstance(part, list):
            ids += part
            continue
        encoded = tower.encode(PICTURES[part], "test")
        places = encoded.places and np.concatenate(encoded.places)
        ids += image_tokens(encoded.rows, model.images.whole, places)
    return ids


def record_end(model, ids):
    with_all = model.logits(ids)[-1]
    model.reset()
    return with_all


def test_files_have_the_keys_that_are_known(converted):
    kind, _, folder = converted
    fields = gguf.GGUFReader(folder / "mmproj.gguf").fields
    known = {value for group in (gguf.Keys.Clip, gguf.Keys.ClipVision, gguf.Keys.ClipVision.Attention,
                                 gguf.Keys.ClipVision.Projector) for value in vars(group).values()
             if isinstance(value, str)}  # fmt: skip
    assert {name for name in fields if name.startswith("clip.")} - OF_LLAVA <= known
    assert fields["general.architecture"].contents() == "clip"
    projector = fields["clip.projector_type"].contents()
    assert projector == hf_images.PROJECTORS.get(kind, kind)
    assert projector == "mlp" or projector in {*vars(gguf.VisionProjectorType).values(), *NEWER}
    names = [tensor.name for tensor in gguf.GGUFReader(folder / "mmproj.gguf").tensors]
    families = {re.sub(r"\d+", "{bid}", name) for name in gguf.TENSOR_NAMES.values()}
    for name in names:
        if not name.endswith(("_min", "_max")) and not any(fnmatch.fnmatchcase(name, new) for new in NEWER):
            assert re.sub(r"\d+", "{bid}", re.sub(r"\.(weight(\.1)?|bias)$", "", name)) in families


def test_folders_are_opened_without_files(converted):
    kind, record, folder = converted
    with pytest.warns(UserWarning, match="no tokenizer"):
        model = load(folder / "model", mmproj=folder / "model")
    with model:
        assert error(np.concatenate(model.embed_image(PICTURES)), record["embeddings"]) < 1e-9


@pytest.mark.parametrize("kind", ["qwen2vl", "qwen25vl"])
def test_settings_of_texts_may_stand_beside_those_of_the_encoder(tmp_path, kind):
    record = hf_images.record(kind)
    config = record["config"]
    text = config.pop("text_config")
    rope = text.pop("rope_parameters")
    scaling = {"type": "mrope", "mrope_section": rope["mrope_section"]}
    record["config"] = {**text, "rope_theta": rope["rope_theta"], "rope_scaling": scaling, **config}
    folder = hf_images.write_folder(tmp_path / "model", record)
    with pytest.warns(UserWarning, match="no tokenizer"):
        model = load(folder, mmproj=folder, kv_type="f32")
    with model:
        assert error(model.logits(prompt_of(model))[::3], record["logits"]) < 1e-9


def test_the_width_of_the_feed_forward_part_is_that_of_the_tensors(tmp_path):
    record = hf_images.record("qwen2vl")
    hf_images.write_folder(tmp_path / "model", record)
    with pytest.warns(UserWarning, match="no tokenizer"):
        convert(tmp_path / "model", tmp_path / "text.gguf", mmproj=tmp_path / "mmproj.gguf")
    key = "clip.vision.feed_forward_length"
    path = changed_file((None, tmp_path / "mmproj.gguf"), tmp_path, {key: 999}, ())
    tower = Tower(path)
    assert error(tower.encode(PICTURES[0], "test").rows, record["embeddings"][:48]) < 1e-9
    tower.close()


def test_the_end_of_a_row_is_in_the_encoder(tmp_path):
    record = hf_images.record("pixtral")
    folder = hf_images.write_folder(tmp_path / "model", record)
    (folder / "tokenizer.json").write_text(json.dumps({"added_tokens": [{"content": "[IMG_BREAK]", "id": 9}]}))
    keys, weights = plan_images(Checkpoint(folder))
    rows = list(weights["v.token_embd.img_break"].matrices(Checkpoint(folder)))
    table = next(name for name in record["shapes"] if name.endswith("embed_tokens.weight"))
    assert np.array_equal(rows[0][0], hf_models.weight(table, (64, 64), 0)[9]) and weights["mm.2.weight"].shape[0] == 64
    assert keys["clip.projector_type"] == "pixtral"


def minicpm_in_numpy(pixels, w):
    """The results of this encoder, of the pixels [height, width, 3] of a tile."""
    rows, columns = pixels.shape[0] // 4, pixels.shape[1] // 4

    def linear(x, name):
        return x @ w[name + ".weight"].T.astype(float) + w.get(name + ".bias", np.zeros(1))

    def norm(x, name):
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-6)
        return x * w[name + ".weight"] + w[name + ".bias"]

    def attention(q, k, v, n_head):
        q, k, v = (h.reshape(len(h), n_head, -1).swapaxes(0, 1) for h in (q, k, v))
        scores = q @ k.swapaxes(1, 2) / np.sqrt(q.shape[-1])
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        y = weights / weights.sum(-1, keepdims=True) @ v
        return y.swapaxes(0, 1).reshape(q.shape[1], -1)

    x = pixels.astype(float).reshape(rows, 4, columns, 4, 3).transpose(0, 2, 4, 1, 3).reshape(rows * columns, 48)
    x = x @ w["v.patch_embd.weight"].reshape(32, 48).T + w["v.patch_embd.bias"]
    places = [(10 * r // rows) * 10 + 10 * c // columns for r in range(rows) for c in range(columns)]
    x = x + w["v.position_embd.weight"][places]
    h = norm(x, "v.blk.0.ln1")
    h = attention(*(linear(h, f"v.blk.0.attn_{name}") for name in "qkv"), 4)
    x = x + linear(h, "v.blk.0.attn_out")
    h = linear(norm(x, "v.blk.0.ln2"), "v.blk.0.ffn_up")
    h = 0.5 * h * (1 + np.tanh(np.sqrt(2 / np.pi) * (h + 0.044715 * h**3)))
    x = norm(x + linear(h, "v.blk.0.ffn_down"), "v.post_ln")
    v = norm(linear(x, "resampler.kv"), "resampler.ln_kv")
    row, column = np.indices((rows, columns)).reshape(2, -1, 1)
    frequencies = 10000.0 ** (-np.arange(32) / 32)
    angles = [place * frequencies for place in (column, row)]
    k = v + np.concatenate([function(angle) for angle in angles for function in (np.sin, np.cos)], -1)
    q = norm(w["resampler.query"].astype(float), "resampler.ln_q")
    q, k, v = (linear(h, f"resampler.attn.{name}") for h, name in ((q, "q"), (k, "k"), (v, "v")))
    h = norm(linear(attention(q, k, v, 1), "resampler.attn.out"), "resampler.ln_post")
    return linear(h, "resampler.proj")


def test_minicpm_agrees_with_its_formulas(tmp_path):
    tower, w = Tower(hf_images.write_resampler(tmp_path / "a.gguf")), hf_images.resampler()
    for size, count in (((40, 40), 1), ((37, 20), 1), ((200, 40), 6)):
        tiles, grid = tower.tiles(hf_images.picture(*size), "test")
        encoded = tower.encode(hf_images.picture(*size), "test")
        assert len(tiles) == count and math.prod(grid[:2]) == (count if count > 1 else 0) - (count > 1)
        for tile, rows in zip(tiles, encoded.tiles, strict=True):
            assert rows.shape == (6, 128) and error(rows, minicpm_in_numpy(tile, w)) < 1e-9
    assert encoded.prompt == ["<image>", 0, "</image>", *(part for i in range(1, 6) for part in
                                                          ("<slice>", i, "</slice>"))]  # fmt: skip
    tower.close()
    tower = Tower(hf_images.write_resampler(tmp_path / "b.gguf", 2))
    marks = tower.encode(hf_images.picture(70, 70), "test").prompt
    assert marks[:5] == ["<image>", 0, "</image>", "<slice>", "<image>"] and marks[-2:] == ["</image>", "</slice>"]
    assert [part for part in marks if isinstance(part, int)] == list(range(marks.count("<image>")))
    assert marks.count("\n") == 1
    tower.close()


@pytest.mark.parametrize(
    "change, drop, message",
    [
        ({"clip.vision.projector.scale_factor": 3}, (), "scale_factor' is 3: need 2 or 4"),
        ({"clip.vision.image_size": 1024}, (), "pictures become 65536 patches: need at most 4096"),
        ({"clip.vision.wa_layer_indexes": [7]}, (), r"wa_layer_indexes' is \[7\]: need a layer below 3"),
        ({}, ("v.vit_merger.ds_ffn_up.weight",), "tensor 'v.vit_merger.ds_ffn_up.weight' is missing"),
        ({}, ("v.position_embd.weight",), "need a square|'v.position_embd.weight' is missing"),
    ],
    ids=str,
)
def test_bad_files_of_minicpm(tmp_path, change, drop, message):
    hf_images.write_folder(tmp_path / "model", hf_images.record("minicpmv46"))
    with pytest.warns(UserWarning, match="no tokenizer"):
        convert(tmp_path / "model", tmp_path / "text.gguf", mmproj=tmp_path / "mmproj.gguf")
    files = tmp_path / "text.gguf", tmp_path / "mmproj.gguf"
    with pytest.raises(ValueError, match=message):
        load(files[0], mmproj=changed_file(files, tmp_path, change, drop))
    if "scale_factor" in str(change):  # with two patches in a row of a token, nothing merges in between
        tower = Tower(changed_file(files, tmp_path, {"clip.vision.projector.scale_factor": 2}))
        assert len(tower.encode(hf_images.picture(32, 48), "test").rows) in (24, 30, 35, 36)
        tower.close()


def mobile_vlm_in_numpy(x, w, version):
    """The results of these projectors, of patches [4, 4, 32]."""

    def linear(x, name):
        return x @ w[name + ".weight"].T.astype(float) + w.get(name + ".bias", np.zeros(1))

    def norm(x, name):
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
        return x * w[name + ".weight"] + w[name + ".bias"]

    def convolved(x, name, stride):
        padded = np.pad(x, ((1, 1), (1, 1), (0, 0)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (0, 1))[::stride, ::stride]
        return np.einsum("yxcij,cij->yxc", windows, w[name + ".weight"][:, 0])

    def block(x, b, stride):
        h = norm(convolved(x, b + "0.0", stride), b + "0.1")
        h = h * np.clip(h / 6 + 0.5, 0, 1)
        gate = linear(np.maximum(linear(h.mean((0, 1)), b + "1.fc1"), 0), b + "1.fc2")
        return norm(linear(h * np.clip(gate / 6 + 0.5, 0, 1), b + "2.0"), b + "2.1")

    first = 1 if version == 1 else 0
    h = linear(x.astype(float), f"mm.model.mlp.{first}")
    h = linear(h * 0.5 * (1 + np.vectorize(math.erf)(h / np.sqrt(2))), f"mm.model.mlp.{first + 2}")
    if version == 1:
        h = block(h + block(h, "mm.model.mb_block.1.block.", 1), "mm.model.mb_block.2.block.", 2)
    else:
        h = h.reshape(len(x) // 2, 2, len(x) // 2, 2, -1).mean((1, 3))
        h = h + convolved(h, "mm.model.peg.0", 1) + w["mm.model.peg.0.bias"]
    return h.reshape(-1, h.shape[-1])


def tensors_of(path):
    """The tensors of a file, in NumPy order, as f32."""
    return {t.name: np.array(t.data, np.float32).reshape(t.shape[::-1]) for t in gguf.GGUFReader(path).tensors}


@pytest.mark.filterwarnings("ignore:.*has no tokenizer")
@pytest.mark.parametrize("kind", ["llava", "gemma4v", "lfm2vl", "qwen25vl"])
def test_folders_of_half_precision(kind, tmp_path):
    """As published models are saved: what stays F32 in the file has the same values."""
    record = hf_images.record(kind)
    found = []
    for name, dtype in (("whole", np.float32), ("half", np.float16)):
        folder = hf_images.write_folder(tmp_path / name, record)
        hf_models.write_folder(folder, record["config"], record["shapes"], kind=dtype)
        convert(folder, tmp_path / "text.gguf", mmproj=tmp_path / f"{name}.gguf")
        found.append(tensors_of(tmp_path / f"{name}.gguf"))
    assert found[0].keys() == found[1].keys() and "v.patch_embd.weight" in found[0]
    for name, values in found[0].items():
        assert np.allclose(found[1][name], values, rtol=1e-3, atol=1e-6), name
    Tower(tmp_path / "half.gguf").close()


@pytest.mark.filterwarnings("ignore:.*has no tokenizer")
@pytest.mark.parametrize("version", [1, 2])
def test_folders_of_mobile_vlm(tmp_path, version):
    folder = hf_images.write_mobile_vlm(tmp_path / "model", version)
    convert(folder, tmp_path / "text.gguf", mmproj=tmp_path / "mmproj.gguf")
    found, wanted = tensors_of(tmp_path / "mmproj.gguf"), hf_images.mobile_vlm(version, 128)
    assert {name for name in found if name.startswith("mm.")} == set(wanted)
    assert all(np.array_equal(found[name].reshape(values.shape), values) for name, values in wanted.items())
    with load(tmp_path / "text.gguf", mmproj=tmp_path / "mmproj.gguf") as model:
        with model.trace("v.blk.1.out") as traced:
            (rows,) = model.embed_image(PICTURES[0])
    patches = traced["v.blk.1.out"][1:].reshape(24, 24, 128)
    assert rows.shape == (144, 64) and error(rows, mobile_vlm_in_numpy(patches, wanted, version)) < 1e-9
    keys = {name: field.contents() for name, field in gguf.GGUFReader(tmp_path / "mmproj.gguf").fields.items()}
    assert keys["clip.vision.image_aspect_ratio"] == "pad" and keys["clip.vision.block_count"] == 2
    half = hf_images.write_mobile_vlm(tmp_path / "half", version, np.float16)
    convert(half, tmp_path / "text.gguf", mmproj=tmp_path / "half.gguf")
    kernels = {t.name: t.tensor_type.name for t in gguf.GGUFReader(tmp_path / "half.gguf").tensors if len(t.shape) == 4}
    assert set(kernels.values()) == {"F16", "F32"} and kernels["v.patch_embd.weight"] == "F32"


@pytest.mark.filterwarnings("ignore:.*has no tokenizer")
def test_an_encoder_in_a_folder_of_its_own(tmp_path):
    """Weights of LLaVA's older format name their encoder, which may lie beside them."""
    folder = hf_images.write_mobile_vlm(tmp_path / "model", 1)
    convert(folder, tmp_path / "text.gguf", mmproj=tmp_path / "a.gguf")
    with safetensors.safe_open(folder / "model.safetensors", "np") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}
    own = {name.partition("vision_tower.vision_tower.")[2]: values for name, values in tensors.items()}
    tower = {name: values for name, values in own.items() if name}
    hf_models.write_shard(folder / "model.safetensors", {k: v for k, v in tensors.items() if "vision_tower" not in k})
    with pytest.raises(
        ValueError, match="the encoder 'openai/clip-vit-large-patch14-336' is not in the folder: need its"
    ):
        convert(folder, tmp_path / "text.gguf", mmproj=tmp_path / "b.gguf")
    inner = folder / "clip-vit-large-patch14-336"
    inner.mkdir()
    hf_models.write_shard(inner / "model.safetensors", tower | {"logit_scale": np.ones(1, np.float32)})
    convert(folder, tmp_path / "text.gguf", mmproj=tmp_path / "b.gguf")
    a, b = tensors_of(tmp_path / "a.gguf"), tensors_of(tmp_path / "b.gguf")
    assert set(a) == set(b) and all(np.array_equal(a[name], b[name]) for name in a)


@pytest.mark.filterwarnings("ignore:.*has no tokenizer")
def test_folders_of_minicpm(tmp_path):
    folder = hf_images.write_minicpm(tmp_path / "model")
    convert(folder, tmp_path / "text.gguf", mmproj=tmp_path / "mmproj.gguf")
    w, picture = tensors_of(tmp_path / "mmproj.gguf"), hf_images.picture(200, 40)
    given = hf_images.resampler()
    for name in ("resampler.query", "resampler.kv.weight", "resampler.attn.k.weight", "resampler.proj.weight"):
        assert np.array_equal(w[name], given[name])
    w = {
        name: values.reshape(values.shape[-1:] if name.endswith("bias") else values.shape) for name, values in w.items()
    }
    load(tmp_path / "text.gguf", mmproj=tmp_path / "mmproj.gguf").close()
    tower = Tower(tmp_path / "mmproj.gguf")
    tiles, _ = tower.tiles(picture, "test")
    encoded = tower.encode(picture, "test")
    tower.close()
    for tile, rows in zip(tiles, encoded.tiles, strict=True):
        assert rows.shape == (6, 128) and error(rows, minicpm_in_numpy(tile, w)) < 1e-9
    keys = {name: field.contents() for name, field in gguf.GGUFReader(tmp_path / "mmproj.gguf").fields.items()}
    assert keys["clip.minicpmv_version"] == 3 and keys["clip.minicpmv_query_num"] == 6
    folder = hf_images.write_minicpm(tmp_path / "other", "2.0")
    with pytest.raises(ValueError, match=r"'version' is '2.0': need one of 2.5, 2.6, 4.0, 4.5"):
        convert(folder, tmp_path / "text.gguf", mmproj=tmp_path / "b.gguf")
    assert not (tmp_path / "b.gguf").exists()


@pytest.mark.parametrize("version", [1, 2])
def test_projectors_of_mobile_vlm(files, tmp_path, version):
    tensors = hf_images.mobile_vlm(version)
    old = ("mm.0.weight", "mm.0.bias", "mm.2.weight", "mm.2.bias")
    kind = {"clip.projector_type": "ldp" if version == 1 else "ldpv2"}
    path = changed_file(files, tmp_path, kind, old, tensors)
    with load(files[0], mmproj=path) as model, model.trace("v.blk.1.out") as traced:
        (rows,) = model.embed_image(PICTURES[0])
    patches = traced["v.blk.1.out"][1:].reshape(4, 4, 32)
    assert rows.shape == (4, 64) and error(rows, mobile_vlm_in_numpy(patches, tensors, version)) < 1e-9


# ---- prompts ---------------------------------------------------------------------------------------------------------
def test_the_same_picture_has_the_same_tokens(model):
    a, b = model.image_tokens(PICTURES[0]), model.image_tokens(Image.fromarray(PICTURES[0]))
    assert a == b and len(a) == 16 and max(a) < 0
    assert not set(a) & set(model.image_tokens(PICTURES[1]))


def test_generation_sees_the_picture(model):
    text = model.tokenize("ab")
    ids = [*text, *model.image_tokens(PICTURES[0]), *text]
    tokens = list(ids)
    answer = model.generate(ids, max_tokens=6, temperature=0)
    list(answer)
    for token in answer.ids:
        assert token == model.logits(tokens)[-1].argmax()
        tokens.append(token)
    again = model.generate(ids, max_tokens=6, temperature=0, repeat_penalty=1.0)
    list(again)
    assert again.ids == answer.ids
    other = [*text, *model.image_tokens(PICTURES[1]), *text]
    assert error(model.logits(other)[-1], model.logits(ids)[-1]) > 1e-3


def test_texts_with_and_without_pictures_are_written_together(model):
    text = model.tokenize("ab")
    prompts = [[*text, *model.image_tokens(PICTURES[0]), *text], text * 3]
    alone = []
    for prompt in prompts:
        alone.append(model.generate(prompt, max_tokens=5, temperature=0))
        list(alone[-1])
    together = model.generate_many(prompts, max_tokens=5, temperature=0)
    list(together)
    assert [t.ids for t in together.texts] == [t.ids for t in alone]


@pytest.mark.parametrize("form", ["url", "path", "bytes", "array", "image"])
def test_messages_have_pictures_in_many_forms(model, tmp_path, form):
    path = tmp_path / "a.png"
    Image.fromarray(PICTURES[0]).save(path)
    parts = {
        "url": {"type": "image_url", "image_url": {"url": data_url(PICTURES[0])}},
        "path": {"type": "image", "image": pathlib.Path(path)},
        "bytes": {"type": "image", "image": path.read_bytes()},
        "array": {"type": "image", "image": PICTURES[0]},
        "image": {"type": "image", "image": Image.fromarray(PICTURES[0])},
    }
    content = [{"type": "text", "text": "see"}, parts[form], {"type": "text", "text": "it"}]
    answer = model.chat([{"role": "user", "content": content}], max_tokens=1)
    tokenizer = model.tokenizer
    wanted = [
        *([tokenizer.bos] if tokenizer.add_bos else []), *tokenizer.encode("[user]see", False, True),
        *model.image_tokens(PICTURES[0]), *tokenizer.encode("it[bot]", False, True),
    ]  # fmt: skip
    assert answer.prompt_ids == wanted


def test_templates_without_pictures_get_them_between_the_texts(model):
    content = [{"type": "text", "text": "a"}, {"type": "image", "image": PICTURES[0]}, {"type": "text", "text": "b"}]
    answer = model.chat([{"role": "user", "content": content}], chat_template=TEXTS_ALONE, max_tokens=1)
    picture = model.image_tokens(PICTURES[0])
    start = answer.prompt_ids.index(picture[0])
    assert answer.prompt_ids[start : start + 16] == picture and min(answer.prompt_ids[start + 16 :]) >= 0


def test_marks_in_texts_are_texts(model):
    content = [{"type": "text", "text": "<image>and<image>"}, {"type": "image", "image": PICTURES[0]}]
    answer = model.chat([{"role": "user", "content": content}], max_tokens=1)
    assert sum(token < 0 for token in answer.prompt_ids) == 16
    text = model.detokenize([token for token in answer.prompt_ids if token >= 0])
    assert "<image>and<image>" in text
    before = answer.prompt_ids.index(model.image_tokens(PICTURES[0])[0])
    assert "<image>and<image>" in model.detokenize(answer.prompt_ids[:before])


def test_pictures_are_encoded_once(model):
    first = model.embed_image(PICTURES[0])[0]
    assert np.array_equal(first, model.embed_image(PICTURES[0])[0])
    assert len(model.images.tower.known) == 1


@pytest.mark.parametrize("large", [0, 1 << 20])
def test_embeddings_stay_as_they_are(converted, monkeypatch, large):
    """Of every kind: a result is where it was computed, and no later one is there too."""
    monkeypatch.setattr("ggml.models.vision.tower.LARGE_RESULT", large)
    tower = Tower(converted[2] / "mmproj.gguf", 1)
    first = tower.encode(PICTURES[0], "test").rows
    kept = first.copy()
    second = tower.encode(PICTURES[0][::-1], "test").rows
    assert np.array_equal(first, kept) and not np.array_equal(first, second)
    tower.known.clear()
    again = tower.encode(PICTURES[0], "test")
    tower.close()
    assert np.array_equal(again.rows, kept)


def test_log_probabilities_are_those_of_texts(model):
    with pytest.raises(ValueError, match="log_probabilities: the tokens of pictures"):
        model.log_probabilities(model.image_tokens(PICTURES[0]))


@pytest.mark.parametrize("kind", ["gemma3", "qwen3vl", "qwen35", "lfm2vl"])
def test_states_with_pictures_are_saved(tmp_path, kind):
    folder = hf_images.write_folder(tmp_path / "model", hf_images.record(kind))
    with pytest.warns(UserWarning, match="no tokenizer"):
        model = load(folder, mmproj=folder, kv_type="f32")
    with model:
        ids = prompt_of(model)
        wanted = [model.feed(ids), model.feed([7])]
        for length in (len(ids), 60, 30, 9):  # also within pictures
            model.reset()
            model.feed(ids[:length])
            state = model.save_state()
            model.reset()
            model.feed(ids[20:30])
            model.load_state(state)
            held = model.held()
            assert held == ids[:length] and all(a.after == b.after for a, b in zip(held, ids) if a < 0)
            if length < len(ids):
                assert error(model.feed(ids[length:]), wanted[0]) < 1e-9
            assert error(model.feed([7]), wanted[1]) < 1e-9
            model.reset()
            model.feed(held)
            with pytest.raises(ValueError, match="load_state: the state is incomplete"):
                model.load_state(state[:-1])


def test_pictures_whose_tokens_see_each_other_are_not_divided():
    picture = image_tokens(np.arange(12, dtype=np.float32).reshape(6, 2), True)
    tokens = [1, 2, 3, *picture, 4, 5]
    assert runs(tokens) == [(0, 3, 0), *((3 + i, 1, 5 - i) for i in range(5)), (8, 3, 0)]
    lengths = [[len(p.tokens) for p in part] for part in divided([Piece(0, tokens, 1, 0)], Limits(8, 1, 8))]
    assert lengths == [[3], [8]]
    one = image_tokens(np.arange(12, dtype=np.float32).reshape(6, 2), False)
    lengths = [[len(p.tokens) for p in part] for part in divided([Piece(0, [1, *one, 2], 1, 0)], Limits(4, 1, 4))]
    assert lengths == [[4], [4]]
    with pytest.raises(ValueError, match="a picture has more than 4 tokens"):
        list(divided([Piece(0, tokens, 1, 0)], Limits(4, 1, 4)))


# ---- pictures --------------------------------------------------------------------------------------------------------
def test_orientation_and_first_frame(tmp_path):
    image = Image.fromarray(PICTURES[0])
    exif = image.getexif()
    exif[0x0112] = 6  # turned by a quarter to the right
    image.save(tmp_path / "a.png", exif=exif)
    assert np.array_equal(open_picture(tmp_path / "a.png", "test"), np.rot90(PICTURES[0], -1))
    frames = [Image.new("RGB", (8, 6), color) for color in ("red", "blue")]
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:])
    assert open_picture(str(tmp_path / "a.gif"), "test").getpixel((3, 3)) == (255, 0, 0)


def test_sixteen_bits_are_those_of_pillow():
    image = Image.fromarray(np.array([[0, 77, 255, 40000]] * 4, np.uint16))
    assert np.array_equal(open_picture(image, "test"), image.convert("RGB"))


@pytest.mark.parametrize(
    "source, message",
    [
        (b"no picture", "the picture is damaged or of an unknown format"),
        ("https://example.org/a.png", "is a URL: need a path"),
        ("data:image/png,abc", "no URL of the form data:"),
        ("data:image/png;base64,@@", "not base64"),
        (np.zeros((4, 4), np.float32), r"the array is float32 \[4, 4\]: need uint8"),
        (np.zeros((0, 4), np.uint8), r"the array is uint8 \[0, 4\]"),
        (np.zeros((2, 401), np.uint8), "401 x 2: need sides of at most 200 to 1"),
    ],
    ids=str,
)
def test_bad_pictures(source, message):
    with pytest.raises(ValueError, match="^test: .*" + message):
        open_picture(source, "test")


def test_what_is_no_picture():
    with pytest.raises(TypeError, match="test: the picture is a int: need a path"):
        open_picture(7, "test")
    with pytest.raises(FileNotFoundError, match="test: "):
        open_picture("/no/such/file.png", "test")


def test_truncated_and_huge_pictures(monkeypatch):
    file = io.BytesIO()
    Image.fromarray(PICTURES[0]).save(file, "PNG")
    for length in range(0, len(file.getvalue()), 97):
        with pytest.raises(ValueError, match="test: the picture is damaged"):
            open_picture(file.getvalue()[:length], "test")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    for source in (file.getvalue(), PICTURES[0], Image.fromarray(PICTURES[0])):
        with pytest.raises(ValueError, match="1000 pixels, the limit of Pillow"):
            open_picture(source, "test")


def test_decoders_may_raise_anything(monkeypatch):
    def fail(file):
        raise RuntimeError("no frame")

    monkeypatch.setattr(Image, "open", fail)
    with pytest.raises(ValueError, match="test: the picture is damaged or of an unknown format: no frame"):
        open_picture(b"x", "test")


def test_patches_are_in_the_order_of_a_convolution():
    values = np.arange(4 * 6 * 3, dtype=np.float32).reshape(4, 6, 3)
    found = np.empty((6, 12), np.float32)
    pixels.patches(values, 2, found)
    assert np.array_equal(found[4].reshape(3, 2, 2), values[2:4, 2:4].transpose(2, 0, 1))


# ---- bad input -------------------------------------------------------------------------------------------------------
def test_more_pictures_than_the_context_has_room_for(model):
    content = [{"type": "image", "image": PICTURES[0]}] * 100
    with pytest.raises(ValueError, match=r"chat: \d+ of 100 pictures have \d+ tokens .* the context 256"):
        model.chat([{"role": "user", "content": content}])


def test_pictures_of_any_shape_in_bounded_memory(converted):
    """Of every kind: the graphs that are kept are few, whatever sizes pictures have."""
    tower = Tower(converted[2] / "mmproj.gguf", 1)
    counts = [len(tower.encode(hf_images.picture(*size), "test").rows)
              for size in [(1, 1), (200, 1), (1, 200), (3, 599), (7, 41), (41, 7), (90, 80)]]  # fmt: skip
    assert min(counts) > 0 and len(tower.graphs) <= 2
    for data in (b"", b"\x89PNG", base64.b64decode(data_url(PICTURES[0]).partition(",")[2])[:200]):
        with pytest.raises(ValueError, match="test: the picture is damaged"):
            tower.encode(data, "test")
    tower.close()


def test_an_encoder_of_another_model(converted, files):
    """Where embeddings have the same size, the tokens that prompts need tell models apart."""
    kind, _, folder = converted
    if kind.startswith(("llava", "lfm2", "qwen")):  # around whose pictures are no marks, or marks that may be texts
        tower = Tower(folder / "mmproj.gguf")
        assert not tower.row.tokens
        tower.close()
        return
    with load(files[0], mmproj=folder / "mmproj.gguf") as model:
        content = [{"type": "image", "image": PICTURES[0]}]
        for call in (
            lambda: model.image_tokens(PICTURES[0]),
            lambda: model.chat([{"role": "user", "content": content}], max_tokens=1),
        ):
            with pytest.raises(ValueError, match="is an encoder for models that have a token '.*text.gguf has none"):
                call()


@pytest.mark.parametrize("url", ["/etc/hostname", "https://example.org/a.png", "file:///etc/hostname"])
def test_strings_in_messages_are_no_paths(model, url):
    for part in ({"type": "image_url", "image_url": {"url": url}}, {"type": "image", "image": url}):
        with pytest.raises(ValueError, match="chat: the picture of a message is .*: need a URL data:"):
            model.chat([{"role": "user", "content": [part]}])


def test_a_model_without_an_encoder_takes_no_pictures(files):
    with load(files[0]) as model:
        for call in (
            lambda: model.embed_image(PICTURES),
            lambda: model.image_tokens(PICTURES[0]),
            lambda: model.chat([{"role": "user", "content": [{"type": "image", "image": PICTURES[0]}]}]),
        ):
            with pytest.raises(ValueError, match="has no encoder of pictures: load it with mmproj=FILE"):
                call()
        with pytest.raises(ValueError, match="token -5: need ids from 0"):
            model.generate([1, -5])


def changed_file(files, tmp_path, change=None, drop=(), tensors=None):
    """The encoder with other or further keys and tensors, or without some."""
    reader, path = gguf.GGUFReader(files[1]), tmp_path / "changed.gguf"
    writer = gguf.GGUFWriter(path, "clip")
    values = {name: field.contents() for name, field in reader.fields.items()} | (change or {})
    for name, value in values.items():
        if name.startswith(("GGUF.", "general.arch")) or name in drop:
            continue
        if isinstance(value, list):
            writer.add_array(name, value)
        else:
            add = {bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32, str: writer.add_string}
            add[type(value)](name, value)
    for tensor in reader.tensors:
        if tensor.name not in drop:
            writer.add_tensor(tensor.name, tensor.data)
    for name, data in (tensors or {}).items():
        writer.add_tensor(name, data)
    gguf_files.finish(writer)
    return path


@pytest.mark.parametrize(
    "change, drop, message",
    [
        ({"clip.projector_type": "other"}, (), "'clip.projector_type' is 'other': need one of mlp"),
        ({"clip.vision.preproc_image_size": 16384}, (), "pictures become 268435456 pixels: need at most 67108864"),
        ({"clip.vision.image_grid_pinpoints": [28, 28, 0, 28]}, (), "image_grid_pinpoints' is .*: need sizes"),
        ({"clip.vision.wa_layer_indexes": [-1]}, (), "wa_layer_indexes' is .*: need layers"),
        (
            {"clip.projector_type": "lfm2", "clip.vision.projector.scale_factor": 64, "clip.vision.patch_size": 28},
            (),
            "a token is 1792 x 1792 pixels: need at most 1024",
        ),
        (
            {
                "clip.projector_type": "lfm2",
                "clip.vision.projector.scale_factor": 2,
                "clip.vision.image_min_pixels": 1 << 24,
            },
            (),
            "the smallest picture becomes 16777216 pixels, 342392 patches: need at most 16384",
        ),
        ({"clip.vision.patch_size": 0}, (), "'clip.vision.patch_size' is 0: need an integer from 1"),
        ({"clip.vision.image_mean": [0.5]}, (), r"'clip.vision.image_mean' is \[0.5\]: need three numbers"),
        ({"clip.vision.image_std": [0.0, 1.0, 1.0]}, (), "'clip.vision.image_std'"),
        ({"clip.vision.patch_size": 14}, (), "'v.patch_embd.weight' is 7 x 7 x 3 x 32: need 14 x 14 x 3 x 32"),
        ({"clip.vision.block_count": 9}, (), "tensor 'v.blk.2.ln1.weight' is missing"),
        ({"clip.projector_type": "pixtral"}, (), "tensor 'v.class_embd' is there: need none"),
        ({"clip.has_vision_encoder": False}, (), "need 'clip' with an encoder of pictures"),
        ({}, ("mm.2.weight",), "tensor 'mm.2.weight' is missing"),
        ({}, ("clip.vision.image_size",), "key 'clip.vision.image_size' is missing"),
    ],
    ids=str,
)
def test_bad_files(files, tmp_path, change, drop, message):
    with pytest.raises(ValueError, match="^load: .*" + message):
        load(files[0], mmproj=changed_file(files, tmp_path, change, drop))


def test_an_encoder_of_another_model_is_refused(files, tmp_path):
    with pytest.raises(ValueError, match="load: .*of architecture 'llama': need 'clip'"):
        load(files[0], mmproj=files[0])
    record = hf_images.record("llava")
    record["shapes"]["multi_modal_projector.linear_2.weight"] = [32, 64]
    record["shapes"]["multi_modal_projector.linear_2.bias"] = [32]
    hf_images.write_folder(tmp_path / "model", record)
    with pytest.raises(ValueError, match="convert: .*embeddings have 32 elements, the text model 64"):
        convert(tmp_path / "model", tmp_path / "a.gguf", mmproj=tmp_path / "b.gguf")


def test_a_folder_without_pictures_has_no_encoder(tmp_path):
    record = hf_models.record("llama")
    hf_models.write_folder(tmp_path / "model", record["config"], record["shapes"])
    with pytest.raises(ValueError, match="convert: .*class 'LlamaForCausalLM' has no known encoder of pictures"):
        convert(tmp_path / "model", tmp_path / "a.gguf", mmproj=tmp_path / "b.gguf")
    assert not (tmp_path / "a.gguf").exists()


# ---- commands --------------------------------------------------------------------------------------------------------
def test_commands_take_pictures(files, tmp_path, capsys, monkeypatch):
    path = tmp_path / "a.png"
    Image.fromarray(PICTURES[0]).save(path)
    options = [str(files[0]), "--mmproj", str(files[1]), "-n", "4", "--temperature", "0", "--threads", "1"]
    with load(files[0], mmproj=files[1]) as model:
        wanted = "".join(model.generate(model.image_tokens(path) + model.tokenize("ab"), max_tokens=4, temperature=0))
        content = [{"type": "image", "image": path}, {"type": "text", "text": "ab"}]
        answer = "".join(model.chat([{"role": "user", "content": content}], max_tokens=4, temperature=0))
    assert main(["run", *options, "-p", "ab", "--image", str(path)]) == 0
    assert capsys.readouterr().out == wanted + "\n"
    for more, lines in ((["--image", str(path)], "ab\n"), ([], f"/image {path}\nab\n")):
        monkeypatch.setattr("sys.stdin", io.StringIO(lines))
        assert main(["chat", *options, *more]) == 0
        assert answer in capsys.readouterr().out
    monkeypatch.setattr("sys.stdin", io.StringIO("/image /no/such/file.png\n"))
    assert main(["chat", *options]) == 0
    assert "ggml chat: " in capsys.readouterr().err
    assert main(["run", *options[:1], "-p", "ab", "--image", str(path)]) == 1
    assert "load it with mmproj=FILE" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore:convert.* has no tokenizer")
def test_convert_writes_both_files(tmp_path, capsys):
    folder = hf_images.write_folder(tmp_path / "model", hf_images.record("gemma3"))
    out = [str(tmp_path / name) for name in ("a.gguf", "b.gguf")]
    assert main(["convert", str(folder), out[0], "--mmproj", out[1], "--type", "Q8_0"]) == 0
    assert "b.gguf: " in capsys.readouterr().out
    kinds = {t.name: t.tensor_type.name for t in gguf.GGUFReader(out[1]).tensors}
    assert kinds["v.blk.1.attn_q.weight"] == "F32" and kinds["mm.input_projection.weight"] == "F32"
    with load(out[0], mmproj=out[1]) as model:
        assert model.embed_image(PICTURES[0])[0].shape == (16, 64)
    assert main(["convert", str(folder), str(tmp_path / "c.gguf"), "--mmproj", out[1]]) == 1
    assert "b.gguf" in capsys.readouterr().err


# ---- llama-cpp-python ------------------------------------------------------------------------------------------------
def test_handlers_answer_with_pictures(files):
    system = llama_chat_format.Llava15ChatHandler.DEFAULT_SYSTEM_MESSAGE.replace(" ", "")
    url = data_url(PICTURES[0])
    parts = [{"type": "text", "text": "ab"}, {"type": "image_url", "image_url": {"url": url}}]
    handler = llama_chat_format.Llava15ChatHandler(clip_model_path=str(files[1]), verbose=False)
    options = {"max_tokens": 4, "temperature": 0}
    with Llama(str(files[0]), chat_handler=handler, verbose=False, n_ctx=256) as llama:
        answer = llama.create_chat_completion([{"role": "user", "content": parts}], **options)
        model = llama.model
        encode = model.tokenizer.encode
        ids = [*encode(system + "\nUSER:", False), *model.image_tokens(PICTURES[0]), *encode("ab\nASSISTANT:", False)]
        assert answer["usage"]["prompt_tokens"] == len(ids)
        wanted = "".join(model.generate(ids, **options))
        assert answer["choices"][0]["message"]["content"] == wanted
        chunks = llama.create_chat_completion([{"role": "user", "content": parts}], stream=True, **options)
        assert "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks) == wanted
        llama.set_cache(LlamaRAMCache())
        again = llama.create_chat_completion([{"role": "user", "content": parts}], **options)
        assert again["choices"][0]["message"]["content"] == wanted
        with pytest.raises(ValueError, match="need a URL data:"):
            part = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
            llama.create_chat_completion([{"role": "user", "content": [part]}])


@pytest.mark.parametrize(
    "name", ["Llava16", "Obsidian", "Moondream", "NanoLlava", "Llama3VisionAlpha", "MTMD", "Qwen25VL", "MiniCPMv26"]
)
def test_handlers_show_each_picture(files, name):
    handler = getattr(llama_chat_format, f"{name}ChatHandler")(clip_model_path=str(files[1]))
    image = {"type": "image_url", "image_url": {"url": data_url(PICTURES[0])}}
    messages = [
        {"role": "system", "content": "s"},
        {"role": "user", "content": [image, {"type": "text", "text": "ab"}, image]},
        {"role": "assistant", "content": "cd"},
        {"role": "user", "content": "ef"},
    ]
    with Llama(str(files[0]), chat_handler=handler, verbose=False, n_ctx=256) as llama:
        llama.create_chat_completion(messages, max_tokens=1)
        held = llama.model.held()
    assert sum(token < 0 for token in held) == 32


# ---- inside the encoder ----------------------------------------------------------------------------------------------
def test_the_encoder_is_traced(model):
    assert {"v.embd", "v.blk.0.out", "v.blk.1.out", "v.result", "blk.0.attn_out"} <= set(model.points())
    assert "v.blk.0.attn_q.in" in model.points(inputs=True)
    wanted = model.embed_image(PICTURES)
    with model.trace("v.*", "v.blk.1.ffn_up.in", "blk.0.attn_out") as t:
        found = model.embed_image(PICTURES)
        ids = model.image_tokens(PICTURES[0])
        model.logits(ids)
    assert np.array_equal(np.concatenate(found), np.concatenate(wanted))
    assert np.array_equal(t["v.result"], np.concatenate(found))  # each was encoded once
    assert t["v.blk.0.out"].shape == (2 * 17, 32) and t["v.blk.1.ffn_up.in"].shape == (2 * 17, 32)
    assert t["blk.0.attn_out"].shape == (16, 64)
    with model.trace("v.embd") as t:
        model.logits(model.tokenize("ab"))
    with pytest.raises(KeyError, match="was not computed"):
        t["v.embd"]


def test_the_encoder_is_edited(model):
    before = model.embed_image(PICTURES[0])[0]
    ids = model.image_tokens(PICTURES[0])
    with model.edit("v.blk.0.out", lambda values: values * 0.5):
        changed = model.embed_image(PICTURES[0])[0]
        assert error(changed, before) > 1e-3
        assert not set(model.image_tokens(PICTURES[0])) & set(ids)
        with model.edit("v.result", lambda values: np.zeros_like(values)):
            assert not model.embed_image(PICTURES[0])[0].any()
    assert np.array_equal(model.embed_image(PICTURES[0])[0], before)
    with model.edit("v.result", lambda values: values[:, :3]), pytest.raises(ValueError, match="edit: .*v.result"):
        model.embed_image(PICTURES[0])
    calls = []
    with model.edit("v.embd", lambda values: calls.append(model.embed_image(PICTURES[1]))):
        with pytest.raises(RuntimeError, match="embed_image: the model is computing"):
            model.embed_image(PICTURES[0])
    with pytest.raises(ValueError, match="edit: there is no point 'v.blk.9.out'"):
        model.edit("v.blk.9.out", lambda values: None)
    assert np.array_equal(model.embed_image(PICTURES[0])[0], before)
