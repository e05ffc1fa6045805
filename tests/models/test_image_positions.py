"""Pictures whose tokens have a row and a column as positions, and of which layers add vectors: prompts in parts, texts
that are generated, equal beginnings, states, conversations."""

import base64
import io
import random

import numpy as np
import pytest

for library in ("PIL", "jinja2", "safetensors", "tokenizers"):  # of the extra [test]; not on emulated CPUs
    pytest.importorskip(library)

import hf_images  # noqa: E402
import tiny_models  # noqa: E402
from PIL import Image  # noqa: E402

from ggml.models import convert, load  # noqa: E402
from ggml.models.llama_cpp import Llama, llama_chat_format  # noqa: E402
from ggml.models.run.batch import ImageToken, image_tokens, positions, taken  # noqa: E402
from ggml.models.vision.tower import Tower  # noqa: E402

PICTURES = [hf_images.picture(*size) for size in hf_images.SIZES]
MARK = "<|vision_start|><|image_pad|><|vision_end|>"
TEMPLATE = (
    "{% for m in messages %}[{{ m.role }}]{% if m.content is string %}{{ m.content }}{% else %}"
    "{% for p in m.content %}{% if p.type == 'image' %}" + MARK + "{% else %}{{ p.text }}{% endif %}{% endfor %}"
    "{% endif %}{% endfor %}{% if add_generation_prompt %}[bot]{% endif %}"
)


def error(values, wanted):
    """The mean square error in parts of the variance."""
    return np.square(values - wanted).mean() / wanted.var()


def write_text(path):
    """A tiny Qwen 3 as the language model of a Qwen 3 VL."""
    more = {"rope.dimension_sections": [8, 4, 4, 0], "n_deepstack_layers": 2}
    tiny_models.write_as(path, "qwen3", "qwen3vl", more, {"tokenizer.chat_template": TEMPLATE})


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A language model with a vocabulary and a template, and an encoder for it."""
    folder = tmp_path_factory.mktemp("positions")
    hf_images.write_folder(folder / "model", hf_images.record("qwen3vl"))
    with pytest.warns(UserWarning, match="no tokenizer"):
        convert(folder / "model", folder / "unused.gguf", mmproj=folder / "mmproj.gguf")
    write_text(folder / "text.gguf")
    return folder / "text.gguf", folder / "mmproj.gguf"


@pytest.fixture
def model(files):
    with load(files[0], mmproj=files[1], n_seq=3, kv_type="f32") as model:
        yield model


def prompts_of(model):
    """Prompts with two pictures, with one, and with none."""
    first, second = (model.image_tokens(picture) for picture in PICTURES)
    text = model.tokenize("abcd")
    return [[*text, *first, *text, *second, *text], [*text, *second, *text], text * 3]


def greedy(model, ids, count):
    """The most probable tokens, computed by `logits` alone."""
    ids = list(ids)
    for _ in range(count):
        ids.append(int(model.logits(ids)[-1].argmax()))
    return ids[-count:]


# ---- positions -------------------------------------------------------------------------------------------------------
def test_a_picture_takes_as_many_positions_as_its_longer_side():
    places = [(0, row, column) for row in range(2) for column in range(3)]
    picture = image_tokens(np.arange(12, dtype=np.float32).reshape(6, 2), False, places)
    tokens = [5, 6, *picture, 7, 8]
    found = positions(tokens, 10)
    assert found[0].tolist() == found[3].tolist() == [10, 11, *[12] * 6, 15, 16]
    assert found[1].tolist() == [10, 11, *[12] * 3, *[13] * 3, 15, 16]
    assert found[2].tolist() == [10, 11, *[12, 13, 14] * 2, 15, 16]
    assert taken(tokens) == 7 and taken(tokens[:4]) == 2 and taken(tokens[4:]) == 5
    for cut in range(len(tokens)):
        parts = [positions(tokens[:cut], 10), positions(tokens[cut:], 10 + taken(tokens[:cut]))]
        assert np.array_equal(np.concatenate(parts, 1), found)


def test_tokens_with_equal_vectors_at_other_places_are_others():
    rows = np.ones((4, 2), np.float32)
    line = image_tokens(rows, False, [(0, 0, i) for i in range(4)])
    assert line != image_tokens(rows, False, [(0, i, 0) for i in range(4)]) and line != image_tokens(rows, False)
    assert line == image_tokens(rows.copy(), False, np.array([(0, 0, i) for i in range(4)]))


def test_positions_of_pictures_change_what_the_model_predicts(model):
    text, picture = model.tokenize("abcd"), [t for t in model.image_tokens(PICTURES[0]) if t < 0]
    flat = image_tokens(np.stack([token.vector for token in picture]), False)
    assert error(model.logits(text + flat + text)[-1], model.logits(text + picture + text)[-1]) > 1e-6
    assert [token.place for token in picture[:3]] == [(0, 0, 0), (0, 0, 1), (0, 0, 2)] and picture[-1].place[1] > 0


def test_embeddings_have_further_vectors(model):
    rows = model.embed_image(PICTURES)
    assert [r.shape for r in rows] == [(48, 64), (36, 64)]
    token = next(token for token in model.image_tokens(PICTURES[0]) if isinstance(token, ImageToken))
    assert token.vector.shape == (3 * 64,) and np.array_equal(token.vector[:64], rows[0][0])
    without = image_tokens(rows[0], False)
    with pytest.raises(ValueError, match="need 0 to 95"):
        model.feed(without)


# ---- prompts ---------------------------------------------------------------------------------------------------------
def test_prompts_in_parts_have_the_same_logits(model):
    ids = prompts_of(model)[0]
    whole = model.logits(ids)
    draw = random.Random(0)
    for _ in range(6):
        model.reset()
        cuts = [0, *sorted(draw.sample(range(1, len(ids)), 3)), len(ids)]
        for begin, end in zip(cuts, cuts[1:]):
            assert error(model.feed(ids[begin:end]), whole[end - 1]) < 1e-9
        keep = draw.randrange(len(ids))
        assert model.reset(keep) == keep
        assert error(model.feed(ids[keep:]), whole[-1]) < 1e-9


def test_generation_goes_on_behind_the_picture(model):
    for ids in prompts_of(model):
        answer = model.generate(ids, max_tokens=6, temperature=0)
        list(answer)
        assert answer.ids == greedy(model, ids, 6)


def test_texts_are_generated_together(model):
    prompts = prompts_of(model)
    alone = []
    for ids in prompts:
        model.reset()
        alone.append(model.generate(ids, max_tokens=6, temperature=0))
        list(alone[-1])
    together = model.generate_many(prompts, max_tokens=6, temperature=0)
    list(together)
    assert [text.ids for text in together.texts] == [text.ids for text in alone]


def test_equal_beginnings_are_shared(files):
    with load(*files[:1], mmproj=files[1], kv_type="f32") as model:
        ids, text = prompts_of(model)[0], model.tokenize("dcba")
        first = model.generate(ids, max_tokens=3, temperature=0)
        list(first)
        for length in (len(ids) - 4, 80, 30):  # within the second picture, and within the first one
            other = ids[:length] + text * 3
            again = model.generate(other, max_tokens=5, temperature=0)
            list(again)
            assert again.cached >= length - 8
            model.reset()
            assert again.ids == greedy(model, other, 5)


def test_exact_logits_do_not_depend_on_parts(model):
    ids = prompts_of(model)[1]
    whole = model.logits(ids, exact=True)
    model.reset()
    list(model.generate(ids[:20], max_tokens=1, exact=True))
    assert np.array_equal(model.logits(ids, exact=True), whole)


def test_a_conversation_has_the_marks_once(model):
    content = [{"type": "text", "text": "see"}, {"type": "image", "image": PICTURES[0]}, {"type": "text", "text": MARK}]
    answer = model.chat([{"role": "user", "content": content}], max_tokens=1)
    encode, bos = model.tokenizer.encode, model.tokenizer.bos
    picture = [token for token in model.image_tokens(PICTURES[0]) if token < 0]
    start, end = (answer.prompt_ids.index(picture[i]) for i in (0, -1))
    assert end - start == 47 and sum(token < 0 for token in answer.prompt_ids) == 48
    before = [*([bos] if model.tokenizer.add_bos else []), *encode("[user]see<|vision_start|>", False, True)]
    assert answer.prompt_ids[:start] == before
    assert answer.prompt_ids[end + 1 :][: len(encode("<|vision_end|>", False, True))] == encode(
        "<|vision_end|>", False, True
    )


def test_a_handler_of_the_bindings(files):
    file = io.BytesIO()
    Image.fromarray(PICTURES[1]).save(file, "PNG")
    url = "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
    handler = llama_chat_format.Qwen25VLChatHandler(clip_model_path=str(files[1]), verbose=False)
    content = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": "ab"}]
    options = {"max_tokens": 4, "temperature": 0}
    with Llama(str(files[0]), chat_handler=handler, verbose=False, n_ctx=256) as llama:
        answer = llama.create_chat_completion([{"role": "user", "content": content}], **options)
        held = llama.model.held()
        assert sum(token < 0 for token in held) == 36
        images = [{"type": "image", "image": PICTURES[1]}, {"type": "text", "text": "ab"}]
        wanted = "".join(llama.model.chat([{"role": "user", "content": images}], **options))
        assert answer["choices"][0]["message"]["content"] == wanted
        held, state = llama.model.held(), llama.save_state()
        assert (llama.input_ids == -1).sum() == 36 and state.n_tokens == len(held)
        llama.reset()
        llama.load_state(state)
        assert llama.model.held() == held


def test_pictures_that_have_no_room_are_not_computed(files, monkeypatch):
    monkeypatch.setattr(Tower, "_compute", None)
    with load(files[0], mmproj=files[1], n_ctx=32) as model:
        content = [{"type": "text", "text": "ab"}, {"type": "image", "image": PICTURES[0]}]
        with pytest.raises(ValueError, match=r"image_tokens: a picture has 48 tokens, .* room for 32 \(n_ctx\)"):
            model.image_tokens(PICTURES[0])
        with pytest.raises(ValueError, match=r"chat: a picture has 48 tokens, the context has room for \d+ \(n_ctx\)"):
            model.chat([{"role": "user", "content": content}])


def test_a_model_of_texts_without_sections_counts_tokens(files, tmp_path):
    tiny_models.write(tmp_path / "text.gguf", "qwen3")
    with pytest.raises(ValueError, match="embeddings of pictures have 192 elements, those of the model 64"):
        load(tmp_path / "text.gguf", mmproj=files[1])
