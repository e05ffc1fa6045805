"""Training adapters on texts with pictures: the losses are those of the model's logits."""

import base64
import io
import json

import numpy as np
import pytest

for library in ("PIL", "jinja2", "safetensors", "tokenizers"):  # of the extra [test]; not on emulated CPUs
    pytest.importorskip(library)

import hf_images  # noqa: E402
import hf_models  # noqa: E402
import tiny_models  # noqa: E402
from PIL import Image  # noqa: E402

from ggml._cli import main  # noqa: E402
from ggml.models import convert, load, read_chats  # noqa: E402
from ggml.models.run.batch import image_tokens  # noqa: E402

PICTURES = [hf_images.picture(*size) for size in hf_images.SIZES]
TEMPLATE = (
    "{% for m in messages %}{{ m.role[0] }}:{% if m.content is string %}{{ m.content }}{% else %}"
    "{% for p in m.content %}{{ '<image>' if p.type == 'image' else p.text }}{% endfor %}{% endif %};{% endfor %}"
    "{% if add_generation_prompt %}a:{% endif %}"
)
CHAT = [
    {"role": "user", "content": [{"type": "text", "text": "see"}, {"type": "image", "image": PICTURES[0]},
                                 {"type": "image", "image": PICTURES[1]}]},
    {"role": "assistant", "content": "cat"}, {"role": "user", "content": "ok"},
    {"role": "assistant", "content": "dog"},
]  # fmt: skip
pytestmark = pytest.mark.filterwarnings("ignore:(load|convert).* has no tokenizer")


@pytest.fixture(scope="module", params=["llava", "gemma3", "gemma4v+whole", "qwen3vl"])
def model(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    hf_images.write_folder(folder, hf_images.record(request.param))
    with load(folder, mmproj=folder, kv_type="f32", threads=1) as model:
        yield model


@pytest.fixture(scope="module")
def chatting(tmp_path_factory):
    """A language model with a vocabulary and a template, and an encoder for it."""
    folder = tmp_path_factory.mktemp("chat")
    hf_images.write_folder(folder / "model", hf_images.record("llava"))
    convert(folder / "model", folder / "unused.gguf", mmproj=folder / "mmproj.gguf")
    tiny_models.write(folder / "text.gguf", "llama", change={"tokenizer.chat_template": TEMPLATE})
    with load(folder / "text.gguf", mmproj=folder / "mmproj.gguf", kv_type="f32", threads=1) as model:
        yield model


def tokens_of(model, picture):
    """The tokens of a picture, without the texts around it, for which these models have no vocabulary."""
    tower = model.images.tower
    encoded = tower.encode(picture, "test")
    return image_tokens(encoded.rows, model.images.whole, encoded.places and encoded.places[0])


def loss_of(model, ids, learned):
    """The mean loss of the tokens that are learned, from the logits."""
    logits = model.logits(ids).astype(np.float64)
    logits -= logits.max(1, keepdims=True)
    losses = np.log(np.exp(logits).sum(1))[:-1] - logits[np.arange(len(ids) - 1), [max(i, 0) for i in ids[1:]]]
    return losses[np.array(learned)[1:]].mean()


def test_losses_are_those_of_the_logits(model, tmp_path):
    text = hf_models.tokens(24)
    ids = [*text[:9], *tokens_of(model, PICTURES[0]), *text[9:15], *tokens_of(model, PICTURES[1]), *text[15:]]
    learned = [token >= 0 for token in ids]
    options = {"tokens": 160, "validation": [ids], "steps": 12, "rate": 2e-2, "rank": 4, "validate_every": 12}
    result = model.finetune([ids], tmp_path / "a.gguf", **options)
    assert result.validation[0][1] == pytest.approx(loss_of(model, ids, learned), rel=1e-5)
    assert result.losses[0] == pytest.approx(result.validation[0][1], rel=1e-5)
    model.set_lora(tmp_path / "a.gguf")
    after = loss_of(model, ids, learned)
    model.set_lora()
    assert after == pytest.approx(result.validation[-1][1], rel=1e-4) and after < 0.7 * result.validation[0][1]


def test_pictures_count(model, tmp_path):
    text = hf_models.tokens(24)
    losses = []
    for picture in PICTURES:
        ids = [*text[:9], *tokens_of(model, picture), *text[9:]]
        losses.append(model.finetune([ids], tmp_path / "a.gguf", tokens=96, steps=1, validation=0).losses[0])
    assert losses[0] != losses[1]


def test_rows_that_end_within_a_picture(model, tmp_path):
    ids = [*hf_models.tokens(9), *tokens_of(model, PICTURES[0]), *hf_models.tokens(9)]
    if model.images.whole:
        with pytest.raises(ValueError, match="finetune: a row of 12 tokens ends within a picture"):
            model.finetune([ids], tmp_path / "a.gguf", tokens=12, steps=1, validation=0)
    else:
        assert model.finetune([ids], tmp_path / "a.gguf", tokens=12, steps=1, validation=0).steps == 1
    with pytest.raises(ValueError, match="gradients: the tokens have embeddings of pictures"):
        model.gradients(ids)


def test_answers_about_pictures_are_learned(chatting, tmp_path):
    encode = lambda text: chatting.tokenizer.encode(text, False, True)  # noqa: E731
    parts = [
        (encode("u:see") + chatting.image_tokens(PICTURES[0]) + chatting.image_tokens(PICTURES[1]), False),
        (encode(";a:"), False), (encode("cat;"), True), (encode("u:ok;a:"), False), (encode("dog;"), True),
    ]  # fmt: skip
    ids = [chatting.tokenizer.bos] if chatting.tokenizer.add_bos else []
    learned = [False] * len(ids)
    for tokens, wanted in parts:
        ids, learned = ids + tokens, learned + [wanted] * len(tokens)
    result = chatting.finetune([CHAT], tmp_path / "a.gguf", tokens=90, steps=1, validation=[CHAT])
    assert result.validation[0][1] == pytest.approx(loss_of(chatting, ids, learned), rel=1e-5)


def test_the_command_trains_on_pictures(chatting, tmp_path, capsys):
    file = io.BytesIO()
    Image.fromarray(PICTURES[0]).save(file, "PNG")
    url = "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
    content = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": "see"}]
    messages = [{"role": "user", "content": content}, {"role": "assistant", "content": "cat"}]
    line = json.dumps({"messages": messages})
    assert read_chats([line]) == [messages]
    with pytest.raises(ValueError, match="line 1"):
        read_chats([json.dumps([{"role": "user", "content": [1]}])])
    (tmp_path / "chats.jsonl").write_text(f"{line}\n{line}\n")
    path, mmproj = chatting.runner.file.path, chatting.images.tower.file.path
    options = ["--lora", str(tmp_path / "a.gguf"), "--steps", "2", "--tokens", "60", "--threads", "1"]
    assert main(["finetune", path, str(tmp_path / "chats.jsonl"), *options, "--mmproj", mmproj]) == 0
    assert (tmp_path / "a.gguf").exists()
    assert main(["finetune", path, str(tmp_path / "chats.jsonl"), *options]) == 1
    assert "mmproj" in capsys.readouterr().err
