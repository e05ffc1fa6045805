"""Models of transformers' classes, converted: they compute what transformers has computed (scripts/record_hf.py)."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest

for library in ("safetensors", "tokenizers", "jinja2"):  # of the extra [test]; not installed on emulated CPUs
    pytest.importorskip(library)

import hf_models  # noqa: E402

from ggml.models import Batch, convert, load  # noqa: E402

BOUND = 1e-9
NO_DECODERS = (*hf_models.ENCODERS, *hf_models.CLASSIFIERS, *hf_models.ENCODER_DECODERS)
DECODERS = [kind for kind in hf_models.KINDS if kind not in NO_DECODERS]


def converted(kind, folder, **options):
    """The path of a kind's file, and its record."""
    record = hf_models.record(kind)
    hf_models.write_folder(folder / kind, record["config"], record["shapes"], shards=3)
    path = folder / f"{kind}.gguf"
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*has no tokenizer")
        convert(folder / kind, path, **options)
    return path, record


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A function that gives the open model of a kind, for 3 sequences of a length, and its record."""
    folder, made = tmp_path_factory.mktemp("converted"), {}

    def model(kind, length=hf_models.LENGTHS[1]):
        original = hf_models.ORIGINAL_CONTEXTS.get(kind, 0)
        n_ctx = original if length <= original else None
        if (kind, n_ctx) not in made:
            path, record = converted(kind, folder)
            made[kind, n_ctx] = load(path, kv_type="f32", n_seq=3, threads=1, n_ctx=n_ctx), record
        return made[kind, n_ctx]

    yield model
    for model_, _ in made.values():
        model_.close()


@pytest.mark.parametrize("length", hf_models.LENGTHS)
@pytest.mark.parametrize("kind", DECODERS)
def test_prompts_have_the_logits_of_transformers(kind, length, models):
    model, record = models(kind, length)
    model.reset()
    logits = model.logits(hf_models.tokens(length))
    assert hf_models.error(logits[hf_models.rows(length)], record[str(length)]) < BOUND


@pytest.mark.parametrize("kind", DECODERS)
def test_tokens_one_by_one_have_the_logits_of_transformers(kind, models):
    for length in hf_models.LENGTHS:
        model, record = models(kind, length)
        model.reset()
        rows = hf_models.rows(length)
        logits = np.array([model.feed([token]) for token in hf_models.tokens(length)])
        assert hf_models.error(logits[rows], record[str(length)]) < BOUND


@pytest.mark.parametrize("kind", DECODERS)
def test_sequences_together_have_the_logits_of_transformers(kind, models):
    model, record = models(kind)
    texts = [hf_models.tokens(length) for length in hf_models.LENGTHS]
    starts = [(texts[0], 30), (texts[0], 5), (texts[1], 165)]  # texts, and the lengths of their prompts
    found = {}

    def follow(ids, logits):
        """Notes the logits and chooses the next token of the text."""
        text = next(text for text in texts if list(ids[:5]) == text[:5])
        found[(len(text), len(ids))] = logits.copy()
        token = text[len(ids)] if len(ids) < len(text) else 3
        logits[:] = -np.inf
        logits[token] = 0

    model.reset()
    options = {"max_tokens": 44, "temperature": 0, "logits_filter": follow}
    for _ in model.generate_many([text[:start] for text, start in starts], **options):
        pass
    for length in hf_models.LENGTHS[kind in hf_models.ORIGINAL_CONTEXTS :]:
        pairs = [
            (found[length, row + 1], expected)
            for row, expected in zip(hf_models.rows(length), record[str(length)])
            if (length, row + 1) in found
        ]
        assert len(pairs) >= 2
        assert hf_models.error([a for a, _ in pairs], [b for _, b in pairs]) < BOUND


@pytest.mark.parametrize("kind", DECODERS)
def test_adapters_learn_a_text_of_each(kind, models, tmp_path):
    """Every node has a gradient; the state of a sequence can be restored; the adapter is used."""
    model, _ = models(kind)
    text = hf_models.tokens(48)
    model.reset()
    model.feed(text[:40])
    state, expected = model.save_state(), model.feed(text[40:])
    model.load_state(state)
    assert np.allclose(model.feed(text[40:]), expected, atol=1e-5)
    result = model.finetune([text] * 8, tmp_path / "lora.gguf", rank=4, steps=12, tokens=48, rate=2e-2,
                            validation=[text])  # fmt: skip
    before, after = result.validation[0][1], result.validation[-1][1]
    assert after < 0.9 * before
    model.set_lora(tmp_path / "lora.gguf")
    try:
        assert -model.log_probabilities(text).mean() == pytest.approx(after, rel=1e-3)
    finally:
        model.set_lora()


@pytest.mark.parametrize("kind", hf_models.RECURRENT)
def test_exact_results_after_states_have_the_same_bits_however_texts_are_divided(kind, models):
    model, ids = models(kind)[0], hf_models.tokens(60)
    model.reset()
    expected, parts = model.logits(ids, exact=True), (5, 1, 12, 8, 2, 20, 3, 9)  # beside those of another sequence
    for number in (0, 1):
        model.reset(0, number)
    for end, n in zip(np.cumsum(parts), parts, strict=True):
        batch = Batch()
        rows = [batch.add(0, ids[end - n : end], n), batch.add(1, ids[: 1 + n // 2])]
        found = model.runner.decode(batch, exact=True)
        assert np.array_equal(found[rows[0]], expected[end - n : end])
    model.reset(0, 1)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("kind", ["mixtral", "gemma4+experts", "deepseek2"])
def test_adapters_of_experts_by_name(kind, exact, models, tmp_path):
    """Texts with an adapter and without are computed together; each is what it is alone."""
    model, ids, path = models(kind)[0], hf_models.tokens(50), tmp_path / "lora.gguf"
    options = {"max_tokens": 6, "temperature": 0, "exact": exact}
    model.finetune([hf_models.tokens(48)] * 4, path, rank=2, steps=8, tokens=48, rate=3e-2)
    name = f"adapter {exact}"
    model.add_adapter(name, path)

    def written(**more):
        model.reset()
        text = model.generate(ids, **options, **more)
        list(text)
        return text.ids

    plain = written()
    model.set_lora(path)
    adapted = written()
    model.set_lora()
    assert adapted != plain and written(adapter=name) == adapted
    texts = [model.generate(ids, **options, adapter=a) for a in (name, None)]
    for _ in zip(*texts, strict=True):
        pass
    assert [text.ids for text in texts] == [adapted, plain]


@pytest.mark.parametrize("kind", hf_models.RECURRENT)
def test_states_are_rewound_and_shared(kind, models):
    """What follows the nearest copy of a state is computed again; a beginning is taken from another sequence."""
    model, record = models(kind)
    ids, rows = hf_models.tokens(200), hf_models.rows(200)
    model.reset()
    for start in range(0, 160, 40):
        model.feed(ids[start : start + 40])
    assert model.reset(length=101) == 101
    logits = np.concatenate(list(model.fed(ids[101:])))
    later = rows > 101
    assert hf_models.error(logits[rows[later] - 101], record["200"][later]) < BOUND
    with model.trace("blk.1.out") as trace:
        model.logits(ids)
    assert trace["blk.1.out"].shape[0] == 200
    first, again = (model.generate(ids[:150], max_tokens=4, temperature=0) for _ in range(2))
    first, again = ((list(text), text.ids)[1] for text in (first, again))
    assert len(first) == 4 and first == again
    several = model.generate_many([ids[:150], ids[:90] + ids[:20], ids[:150]], max_tokens=4, temperature=0)
    list(several)
    assert [several.texts[i].ids for i in (0, 2)] == [first, again]
    edited = model.logits(ids[:20])[-1]
    with model.edit("blk.1.out", lambda x: 0 * x):
        assert np.abs(model.logits(ids[:20])[-1] - edited).max() > 1e-3
    assert np.allclose(model.logits(ids[:20])[-1], edited, atol=1e-5)


def test_models_with_states_are_not_divided_among_ranks(tmp_path):
    path, _ = converted("lfm2", tmp_path)
    with pytest.raises(ValueError, match="^load: comm: architecture 'lfm2' can't be divided among ranks$"):
        load(path, comm=SimpleNamespace(size=2, rank=0, threads=1))


@pytest.mark.parametrize("kind", hf_models.ENCODERS)
def test_encoders_have_the_states_of_transformers(kind, models):
    model, record = models(kind)
    texts = [hf_models.tokens(length) for length in hf_models.LENGTHS]
    found = model.embed([*texts, texts[0]], pooling="mean")
    for states, length in zip(found, (*hf_models.LENGTHS, hf_models.LENGTHS[0])):
        assert hf_models.error(states, record[str(length)]) < BOUND


@pytest.mark.parametrize("kind", ["llama+llama3", "gemma2", "granitemoe+shared", "qwen2", "bert"])
@pytest.mark.parametrize("mmap", [True, False])
def test_folders_are_opened_as_they_are(kind, mmap, models, tmp_path):
    """The same bits as from the file."""
    record = hf_models.record(kind)
    folder = hf_models.write_folder(tmp_path / kind, record["config"], record["shapes"], shards=2)
    file = models(kind)[0]
    with pytest.warns(UserWarning, match="^load: .* has no tokenizer"):
        model = load(folder, kv_type="f32", threads=1, mmap=mmap)
    ids = hf_models.tokens(48)
    with model:
        file.reset() if kind != "bert" else None
        found, expected = (m.embed([ids], pooling="mean") if kind == "bert" else m.logits(ids) for m in (model, file))
        assert np.array_equal(found, expected)
        assert bool(model.runner.file.places) == mmap
        for key in (model.metadata.keys() & file.metadata.keys()) - {"general.name"}:
            value = file.metadata[key]
            assert model.metadata[key] == (pytest.approx(value) if isinstance(value, float) else value), key


@pytest.mark.parametrize("half", [np.float16, np.uint16])
def test_folders_of_half_precision_are_mapped(half, tmp_path):
    record = hf_models.record("qwen3")
    folder = hf_models.write_folder(tmp_path / "folder", record["config"], record["shapes"])
    values = {name: hf_models.weight(name, tuple(shape), 0) for name, shape in record["shapes"].items()}
    wide = {name: (v.view(np.uint32) >> 16).astype(np.uint16) if half is np.uint16 else v.astype(np.float16)
            for name, v in values.items()}  # fmt: skip
    hf_models.write_shard(folder / "model.safetensors", wide)
    ids = hf_models.tokens(48)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        convert(folder, tmp_path / "model.gguf")
        with load(folder, threads=1) as model, load(tmp_path / "model.gguf", threads=1) as file:
            assert len(model.runner.file.places) > len(model.runner.file.tensors) / 2
            assert np.array_equal(model.logits(ids), file.logits(ids))


def test_bad_folders_are_refused_by_load(tmp_path):
    record = hf_models.record("llama")
    folder = hf_models.write_folder(tmp_path / "folder", {**record["config"], "num_hidden_layers": 5}, record["shapes"])
    with pytest.raises(ValueError, match=f"^load: {folder}: the shards have 3 layers, config.json 5$"):
        load(folder)
    (folder / "model.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match="load: the folder has no .*safetensors"):
        load(folder)
