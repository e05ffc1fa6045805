"""Layers that predict further tokens: they compute what transformers' layers do (scripts/record_further.py), and texts
with their guesses are those without."""

import json
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

for library in ("gguf", "safetensors", "tokenizers", "jinja2"):  # of the extra [test]; not installed on emulated CPUs
    pytest.importorskip(library)

import gguf  # noqa: E402
import gguf_files  # noqa: E402
import hf_models  # noqa: E402

from ggml.models import Llama, convert, load  # noqa: E402
from ggml.models.run.batch import Batch, Piece  # noqa: E402

KINDS = list(hf_models.FURTHER)
IDS = hf_models.tokens(hf_models.LENGTHS[0])
PROMPTS = [IDS[:30], IDS[10:17], IDS[20:44]]
LENGTH = 24


def write(kind, path, agreeing=False, **options):
    """A file of a kind; with `agreeing`, all layers but the last add nothing, and that one predicts like the model."""
    record = hf_models.record(kind)
    shapes = hf_models.further_shapes(kind, record["config"], record["shapes"])
    folder = hf_models.write_folder(path.parent / f"{path.stem}-folder", record["config"], shapes)
    if agreeing:
        tensors = {name: hf_models.weight(name, tuple(shape), 0) for name, shape in shapes.items()}
        for name, values in tensors.items():
            if name.endswith(("o_proj.weight", "out_proj.weight", "down_proj.weight", "down_proj")):
                values[...] = 0
            elif name.endswith(("eh_proj.weight", "mtp.fc.weight")):
                values[...] = np.eye(*values.shape)
            elif "norm" in name and "linear_attn" not in name:
                values[...] = 0 if kind.startswith("qwen") else 1  # of those of Qwen 1 is added
            elif name.endswith(("embed_tokens.weight", "shared_head.head.weight")):
                main = "model.embed_tokens.weight" if "embed_tokens" in name else "lm_head.weight"
                values[...] = tensors[main]
        hf_models.write_shard(folder / "model.safetensors", tensors)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*has no tokenizer")
        convert(folder, path, **options)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("further")
    for kind in KINDS:
        write(kind, folder / f"{kind}.gguf")
    return folder


@pytest.fixture
def open_model(folder):
    models = []

    def run(kind, **options):
        models.append(load(folder / f"{kind}.gguf", **{"threads": 1, "kv_type": "f32", **options}))
        return models[-1]

    yield run
    for model in models:
        model.close()


def text_of(model, prompt, draft=None, **options):
    text = model.generate(prompt, draft=draft, **{"max_tokens": LENGTH, "temperature": 0, **options})
    assert list(text)
    return text


@pytest.mark.parametrize("kind", KINDS)
def test_logits_are_those_of_transformers(open_model, kind):
    model, record = open_model(kind), hf_models.record(kind)
    rows = hf_models.rows(len(IDS))
    assert hf_models.error(model.logits(IDS)[rows], record[str(len(IDS))]) < 1e-9
    runner = model.runner
    runner.use_further("test")
    decoder, items = runner.decoder, [runner.memory.new()]
    ((step, _),) = decoder.steps([Piece(0, IDS, 1, 0)], items, "logits", further=True)
    before = step.extra[0].copy()
    before[1:], before[0] = before[:-1].copy(), 0
    items = [runner.memory.new()]
    runner.memory.reserve(items[0], len(IDS))
    logits = decoder._further([Piece(0, IDS, len(IDS), 0)], items, before).out
    with np.load(hf_models.FURTHER_DATA) as data:
        assert hf_models.error(logits[rows], data[kind]) < 1e-9
        chain = data[f"{kind}.chain"].tolist()
    model.reset()
    for start, end in ((0, 20), (20, 21), (21, 47)):  # however the text is divided
        batch = Batch()
        batch.add(0, IDS[start:end])
        runner.decode(batch, further=True)
    found = decoder.predicted(0, runner.sequences.items, IDS[47], len(chain), 0.0)
    assert found == chain and runner.sequences.items[0].ids == IDS[:47]


@pytest.mark.parametrize("kind", KINDS)
def test_texts_are_those_without_guesses(open_model, kind, monkeypatch):
    monkeypatch.setattr("ggml.models.generate.speculative.CONFIDENT", 0.0)
    model = open_model(kind, n_seq=3)
    alone = [text_of(model, prompt, exact=True).ids for prompt in PROMPTS]
    model.reset()
    for prompt, expected in zip(PROMPTS, alone):
        text = text_of(model, prompt, "mtp", exact=True)
        assert text.ids == expected
        assert text.speculation.guessed > 0
    many = model.generate_many(PROMPTS, draft="mtp", max_tokens=LENGTH, temperature=0, exact=True)
    list(many)
    assert [text.ids for text in many.texts] == alone
    drawn = {"temperature": 1.0, "seed": 3, "exact": True}
    assert text_of(model, PROMPTS[0], "mtp", **drawn).ids == text_of(model, PROMPTS[0], **drawn).ids


@pytest.mark.filterwarnings("ignore:.* has no tokenizer")
@pytest.mark.parametrize("kind", ["glm4moe", "deepseek3"])
def test_of_several_layers_the_first_guesses(kind, open_model, tmp_path):
    record = hf_models.record(kind)
    shapes = hf_models.further_shapes(kind, record["config"], record["shapes"])
    count = record["config"]["num_hidden_layers"]
    old, new = f"model.layers.{count}.", f"model.layers.{count + 1}."
    shapes |= {name.replace(old, new): shape for name, shape in shapes.items() if name.startswith(old)}
    convert(hf_models.write_folder(tmp_path / "folder", record["config"], shapes), tmp_path / "model.gguf")
    with load(tmp_path / "model.gguf", threads=1, kv_type="f32") as model:
        assert model.config.n_further == 2 and model.config.n_layer == count
        options = {"exact": True, "seed": 2, "temperature": 0.7}
        found, expected = (text_of(m, PROMPTS[0], "mtp", **options) for m in (model, open_model(kind)))
        assert found.ids == expected.ids and found.speculation.guessed == expected.speculation.guessed
    shapes = {name: shape for name, shape in shapes.items() if name != new + "eh_proj.weight"}
    with pytest.raises(ValueError, match=f"^convert: .*'blk.{count + 1}.nextn.eh_proj.weight' is missing"):
        convert(hf_models.write_folder(tmp_path / "other", record["config"], shapes), tmp_path / "other.gguf")


@pytest.mark.parametrize("kind", ["qwen35", "qwen3next"])
def test_states_after_wrong_guesses_are_exact(open_model, kind, monkeypatch):
    """The states forget the wrong tokens, and the bits of what follows are those without guesses."""
    monkeypatch.setattr("ggml.models.generate.speculative.MOST_CREDIT", 1e9)
    monkeypatch.setattr("ggml.models.generate.speculative.CREDIT", 1e9)
    model, found = open_model(kind), []

    def follow(ids, logits):
        found[-1].append(logits.copy())

    def guess(ids):  # right ones, then wrong ones
        rest = alone.ids[len(ids) - len(PROMPTS[0]) :]
        return [*rest[: len(ids) % 4], 5, 6]

    found.append([])
    alone = text_of(model, PROMPTS[0], exact=True, logits_filter=follow)
    model.reset()
    found.append([])
    text = text_of(model, PROMPTS[0], guess, exact=True, logits_filter=follow)
    assert text.ids == alone.ids and np.array_equal(*found)
    assert LENGTH / 4 < text.speculation.accepted < text.speculation.guessed
    held = model.runner.sequences.items[0]
    assert held.exact == len(held.ids)
    model.reset(len(held.ids) - 3)
    model.feed(alone.ids[-3:])  # otherwise
    assert held.exact < len(held.ids)


@pytest.mark.parametrize("kind", KINDS)
def test_a_layer_that_agrees_is_believed(tmp_path, kind, monkeypatch):
    monkeypatch.setattr("ggml.models.generate.speculative.CONFIDENT", 0.0)
    path = write(kind, tmp_path / "model.gguf", agreeing=True)
    with load(path, threads=1) as model:
        text = text_of(model, PROMPTS[0], "mtp", max_tokens=60)
        assert text.speculation.accepted == text.speculation.guessed >= 8
        assert text.ids == text_of(model, PROMPTS[0], max_tokens=60).ids
    with Llama(str(path), draft_model="mtp", n_ctx=128, n_threads=1, verbose=False) as llama:
        assert [token for token, _ in zip(llama.generate(PROMPTS[0], temp=0.0), range(5))] == text.ids[:5]


def test_other_calls_come_between(open_model, folder):
    model = open_model("glm4moe", n_ctx=64)
    expected = text_of(model, PROMPTS[0], exact=True).ids
    model.reset()
    state = text_of(model, PROMPTS[0], exact=True) and model.save_state()
    assert text_of(model, PROMPTS[0], "mtp", exact=True).ids == expected  # computed again for the further layer
    model.load_state(state)
    assert text_of(model, PROMPTS[0], "mtp", exact=True).ids == expected

    saved = model.save_state()
    model.reset()
    model.load_state(saved)
    text = text_of(model, [*PROMPTS[0], *expected], "mtp", exact=True, max_tokens=3)
    assert text.cached > len(PROMPTS[0]) + len(expected) - 10  # also by the further layer
    with load(folder / "glm4moe.gguf", n_ctx=64, threads=1, kv_type="f32") as other:  # which does not use it
        other.load_state(saved)
        assert other.held() == model.held()[: len(other.held())]
    with pytest.raises(ValueError, match="load_state: the state is incomplete"):
        model.load_state(saved[:-4])

    def meddle(ids, logits):
        if len(ids) % 5 == 0:
            model.reset()
        elif len(ids) % 3 == 0:
            model.feed(PROMPTS[1])

    assert text_of(model, PROMPTS[0], "mtp", exact=True, logits_filter=meddle).ids == expected
    assert text_of(model, PROMPTS[0], "mtp", max_tokens=100).finish_reason == "length"  # the context is full
    assert len(text_of(model, PROMPTS[0], "mtp", max_tokens=100, overflow="shift").ids) == 100


def test_models_without_such_layers_are_refused(open_model, tmp_path):
    record = hf_models.record("glm4moe")
    with pytest.warns(UserWarning, match="has no tokenizer"):
        convert(hf_models.write_folder(tmp_path / "plain", record["config"], record["shapes"]), tmp_path / "m.gguf")
    with load(tmp_path / "m.gguf", threads=1) as model:
        with pytest.raises(ValueError, match=r"generate: draft is 'mtp': .*m.gguf has no prediction layers"):
            model.generate(IDS, draft="mtp")
    shapes = hf_models.further_shapes("glm4moe", record["config"], record["shapes"])
    missing = {name: shape for name, shape in shapes.items() if not name.endswith("enorm.weight")}
    folder = hf_models.write_folder(tmp_path / "missing", record["config"], missing)
    with pytest.raises(ValueError, match=r"convert: .*tensor 'blk.3.nextn.enorm.weight' is missing"):
        convert(folder, tmp_path / "missing.gguf")
    assert not (tmp_path / "missing.gguf").exists()
    write("glm4moe", tmp_path / "whole.gguf")
    reader = gguf.GGUFReader(tmp_path / "whole.gguf")
    writer = gguf.GGUFWriter(tmp_path / "lacking.gguf", "glm4moe")
    for key, field in reader.fields.items():
        if not key.startswith("GGUF.") and key != "general.architecture":
            writer.add_key_value(key, field.contents(), field.types[0], field.types[-1])
    for tensor in reader.tensors:
        if tensor.name != "blk.3.attn_k.weight":
            writer.add_tensor(tensor.name, tensor.data)
    gguf_files.finish(writer)
    with load(tmp_path / "lacking.gguf", threads=1) as model:
        for _ in range(2):
            with pytest.raises(ValueError, match="lacking.gguf: tensor 'blk.3.attn_k.weight' is missing"):
                model.generate(IDS, draft="mtp")
        assert list(model.generate(IDS, max_tokens=3, draft="ngram")) and len(model.runner.memory.layers) == 3
    model, comm = open_model("glm4moe"), SimpleNamespace(size=2)
    model.runner.split = SimpleNamespace(comm=comm, close=lambda: None)
    with pytest.raises(ValueError, match="generate: draft is 'mtp': the model is divided among 2 ranks"):
        model.generate(IDS, draft="mtp")


@pytest.mark.filterwarnings("ignore:.*has no tokenizer")
def test_a_folder_is_opened_with_them(tmp_path):
    write("qwen35", tmp_path / "model.gguf")
    folder = tmp_path / "model-folder"
    assert json.loads((folder / "config.json").read_text())["num_hidden_layers"] == 4
    with load(folder, threads=1) as model:
        assert model.metadata["qwen35.block_count"] == 5 and model.config.n_layer == 4
        assert text_of(model, PROMPTS[0], "mtp").speculation is not None
