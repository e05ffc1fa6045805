"""Models with an encoder and a decoder, against what transformers computes."""

import numpy as np
import pytest

for library in ("safetensors", "tokenizers"):  # of the extra [test]; not installed on emulated CPUs
    pytest.importorskip(library)

import hf_models  # noqa: E402

from ggml.models import convert, load  # noqa: E402
from ggml.models.arch.t5 import bucket  # noqa: E402
from ggml.models.run.encoder_decoder import Appending  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.*has no tokenizer")


def folder_of(path, kind, **change):
    record = hf_models.record(kind)
    return hf_models.write_folder(path, {**record["config"], **change}, record["shapes"])


@pytest.fixture(scope="module", params=hf_models.ENCODER_DECODERS)
def opened(request, tmp_path_factory):
    """A kind, its record, and its model."""
    path = tmp_path_factory.mktemp("t5")
    folder = folder_of(path / "folder", request.param)
    convert(folder, path / "model.gguf")
    with load(path / "model.gguf", threads=1, n_seq=2) as model:
        yield request.param, hf_models.record(request.param), model


@pytest.mark.parametrize("length", hf_models.LENGTHS)
def test_logits_are_those_of_transformers(length, opened):
    _, record, model = opened
    logits = model.logits(hf_models.tokens(length), decoder=hf_models.decoder_tokens(length))
    assert logits.shape == (length, hf_models.VOCAB)
    assert hf_models.error(logits[hf_models.rows(length)], record[str(length)]) < 1e-9


def test_probabilities_are_those_of_the_logits(opened):
    _, _, model = opened
    read, text = hf_models.tokens(9), hf_models.decoder_tokens(14)
    logits = model.logits(read, decoder=text)[:-1].astype(np.float64)
    expected = (logits - np.log(np.exp(logits).sum(1, keepdims=True)))[np.arange(13), text[1:]]
    assert np.allclose(model.log_probabilities(read, decoder=text), expected, atol=1e-9)
    assert model.perplexity(read, decoder=text) == pytest.approx(np.exp(-expected.mean()))
    assert model.log_probabilities(read, decoder=text[:1]).shape == (0,)


def test_texts_token_by_token_have_the_same_logits(opened):
    """Keys and values of 131 tokens: their memory grows."""
    _, record, model = opened
    read, text, found = hf_models.tokens(200), hf_models.decoder_tokens(200), []

    def follow(ids, logits):
        """Notes the logits, and chooses the next token of the text."""
        found.append(logits.copy())
        logits[:] = -np.inf
        logits[text[len(ids)]] = 0

    generation = model.generate(read, max_tokens=131, temperature=0, logits_filter=follow)
    list(generation)
    assert generation.ids == text[1:132] and generation.finish_reason == "length"
    assert generation.prompt_ids == read
    expected = model.logits(read, decoder=text)[:131]
    assert hf_models.error(found, expected) < 1e-10
    rows = [i for i in hf_models.rows(200) if i < 131]
    assert hf_models.error(np.array(found)[rows], record["200"][: len(rows)]) < 1e-9


def test_sequences_are_fed_shortened_saved_and_loaded(opened):
    _, _, model = opened
    read, text = hf_models.tokens(30), hf_models.decoder_tokens(90)
    expected = model.logits(read, decoder=text)
    assert np.allclose(model.feed(text[:70], encoder=read), expected[69], atol=1e-4)
    assert np.allclose(model.feed(text[70:80]), expected[79], atol=1e-4) and model.held() == text[:80]
    assert model.reset(66) == 66 and model.held() == text[:66]
    assert np.allclose(model.feed(text[66:68]), expected[67], atol=1e-4)
    state, after = model.save_state(), model.feed(text[68:70])
    other = model.feed(text[:9], encoder=read[:-1])
    assert np.allclose(other, model.logits(read[:-1], decoder=text[:9])[-1], atol=1e-4)
    model.load_state(state, 1)
    assert model.held(1) == text[:68] and np.array_equal(model.feed(text[68:70], 1), after)
    model.load_state(state)
    assert model.held() == text[:68] and np.array_equal(model.feed(text[68:70]), after)
    assert model.reset() == 0 and np.allclose(model.feed(text[:3]), expected[2], atol=1e-4)


def test_damaged_states_change_nothing(opened):
    _, _, model = opened
    read, text = hf_models.tokens(5), hf_models.decoder_tokens(7)
    model.feed(text, encoder=read)
    state, held = model.save_state(), model.held()
    start = len(state) - len(state[40:])
    for cut in (state[:-4], state + bytes(4), state[: start + 20], state[:50]):
        with pytest.raises(ValueError, match="^load_state: "):
            model.load_state(cut)
    for old, new in [(b'"read": 5', b'"read": 6'), (b'"read": 5', b'"read": 0'), (b'"layers"', b'"layer5"'),
                     (b'"tokens": 7', b'"tokens":-7'), (b'"arch"', b'"a\xffch"')]:  # fmt: skip
        assert old in state
        with pytest.raises(ValueError, match="^load_state: "):
            model.load_state(state.replace(old, new))
    ids = np.array(text, "<i4").tobytes()
    with pytest.raises(ValueError, match="^load_state: the state "):
        model.load_state(state.replace(ids, ids[:-4] + np.array([64], "<i4").tobytes()))
    assert model.held() == held and model.save_state() == state


def test_a_text_is_read_once(opened):
    _, _, model = opened
    options = {"max_tokens": 6, "temperature": 0, "logit_bias": {1: -np.inf}}
    read, other = hf_models.tokens(21, 8), hf_models.tokens(21, 9)
    with model.trace("enc.blk.0.out", "dec.blk.1.out") as trace:
        first = model.generate(read, **options)
        next(first)
        texts = [first, model.generate(other, **options), model.generate(read, **options)]
        for text in texts[::-1]:
            list(text)
    assert [text.cached for text in texts] == [0, 0, 21] and texts[0].ids == texts[2].ids != texts[1].ids
    assert len(trace["enc.blk.0.out"]) == 42 and len(trace["dec.blk.1.out"]) == 18
    state = model.generate(read, **options)
    next(state)
    saved = model.save_state(state.sequence)
    list(state)
    model.feed([0], encoder=other)
    model.load_state(saved)
    assert model.held() == [0] and model.generate(read, **options).prompt_ids == read


def test_points_of_both_sides_are_looked_at_and_changed(opened):
    _, _, model = opened
    read, text = hf_models.tokens(13), hf_models.decoder_tokens(6)
    names = model.points()
    for side in ("enc", "dec"):
        parts = ("attn_norm", "attn_out", "ffn_in", "ffn_norm", "ffn_out", "out")
        assert {f"{side}.blk.1.{part}" for part in parts} <= set(names)
    assert {"dec.token_embd", "dec.blk.0.cross_attn_out", "dec.output_norm", "logits"} <= set(names)
    assert len(names) == len(set(names)) and "dec.blk.0.cross_attn_k.in" in model.points(inputs=True)
    before = model.logits(read, decoder=text)
    with model.trace("output_norm", "dec.blk.0.cross_attn_k.in", "dec.blk.*.out", "logits") as trace:
        model.logits(read, decoder=text)
    assert np.array_equal(trace["logits"], before) and trace["dec.blk.1.out"].shape == (6, 64)
    assert np.allclose(trace["output_norm"], trace["dec.blk.0.cross_attn_k.in"])
    assert np.allclose(trace["output_norm"], model.embed([read], pooling="none")[0], atol=1e-5)
    for point in ("enc.blk.1.ffn_out", "dec.blk.0.cross_attn_k.in", "dec.blk.1.cross_attn_out", "dec.blk.0.attn_norm"):
        with model.edit(point, lambda x: 1.5 * x):
            assert not np.allclose(model.logits(read, decoder=text), before, atol=1e-3)
            state = model.save_state()
        assert np.array_equal(model.logits(read, decoder=text), before)
        with pytest.raises(ValueError, match="^load_state: the state was saved with other adapters or edits"):
            model.load_state(state)


def test_two_texts_alternate(opened):
    _, _, model = opened
    read = [hf_models.tokens(20, seed) for seed in (3, 4)]
    options = {"max_tokens": 12, "temperature": 0, "logit_bias": {1: -np.inf}}
    alone = []
    for ids in read:
        text = model.generate(ids, **options)
        list(text)
        alone.append(text.ids)
    texts = [model.generate(ids, **options) for ids in read]
    for _ in range(12):
        for text in texts:
            next(text)
    assert [text.ids for text in texts] == alone and alone[0] != alone[1]
    many = model.generate_many(read, **options)
    assert {index for index, _ in many} == {0, 1}
    assert [text.ids for text in many.texts] == alone


def test_texts_are_written_together(opened, monkeypatch):
    """Up to n_seq texts share a step; they begin and end at their own times, and their memory grows at its own."""
    _, _, model = opened
    read = [hf_models.tokens(6 + 5 * i, i) for i in range(5)]
    found, steps = {}, []

    def options(i, seen):
        limits = {"max_tokens": (70, 9, 68, 1, 30)[i], "temperature": 0, "logit_bias": {1: -np.inf}}
        return {**limits, "logits_filter": lambda ids, logits: seen.setdefault(i, []).append(logits.copy())}

    alone, ids = {}, []
    for i, prompt in enumerate(read):
        text = model.generate(prompt, **options(i, alone))
        list(text)
        ids.append(text.ids)
    run = Appending.run
    monkeypatch.setattr(Appending, "run", lambda self: steps.append(run(self)))
    texts = [model.generate(prompt, **options(i, found)) for i, prompt in enumerate(read)]
    pieces = list(model.writer.decode_together(texts))
    assert [text.ids for text in texts] == ids and {index for index, _ in pieces} == set(range(5))
    assert all(hf_models.error(found[i], alone[i]) < 1e-10 for i in range(5))
    assert len(steps) == 70 + 1 + 30  # those of one sequence, while the other has 9 + 68
    assert len(set(map(tuple, ids))) == 5


def test_texts_are_read_together(opened, monkeypatch):
    """Each once, those of similar length in one graph; they have the states that each has alone."""
    _, _, model = opened
    read = [hf_models.tokens(n, 40 + n) for n in (9, 300, 12, 9, 200)]
    sequences = model.runner.decodings
    sequences.forget()
    alone = [[array.copy() for array in sequences.read([(ids, None)])[0].arrays()] for ids in read]
    shapes, texts_graph = [], model.runner.texts_graph
    monkeypatch.setattr(model.runner, "texts_graph", lambda *args: shapes.append(args[:2]) or texts_graph(*args))
    readings = sequences.read([(ids, None) for ids in read])
    assert shapes == [(304, 1), (200, 2), (16, 1)]
    assert readings[0] is readings[3]
    for reading, expected, ids in zip(readings, alone, read, strict=True):
        assert reading.ids == ids
        assert all(np.allclose(a, b, atol=1e-5) for a, b in zip(reading.arrays(), expected, strict=True))
    assert sequences.read([(read[1], None)])[0] is readings[1] and len(shapes) == 3


def test_texts_of_one_step_may_have_other_adapters(tmp_path):
    record = hf_models.record("t5")
    base = hf_models.write_folder(tmp_path / "base", record["config"], record["shapes"])
    name = "base_model.model.decoder.block.0.layer.0.SelfAttention.q"
    shapes = {f"{name}.lora_A.weight": [4, 64], f"{name}.lora_B.weight": [80, 4]}
    config = {"peft_type": "LORA", "r": 4, "lora_alpha": 80, "bias": "none"}
    convert(hf_models.write_adapter(tmp_path / "adapter", config, shapes), tmp_path / "lora.gguf", base=base)
    read = [hf_models.tokens(9 + i, i) for i in range(3)]
    options = {"max_tokens": 12, "temperature": 0, "logit_bias": {1: -np.inf}}
    with load(base, threads=1, n_seq=3) as model:
        model.add_adapter("cats", tmp_path / "lora.gguf")
        names = [None, "cats", "cats"]
        alone = []
        for prompt, adapter in zip(read, names, strict=True):
            text = model.generate(prompt, adapter=adapter, **options)
            list(text)
            alone.append(text.ids)
        texts = [
            model.generate(prompt, adapter=adapter, **options) for prompt, adapter in zip(read, names, strict=True)
        ]
        list(model.writer.decode_together(texts))
        assert [text.ids for text in texts] == alone
        plain = model.generate(read[1], **options)
        list(plain)
        assert plain.ids != alone[1]


def test_states_of_the_encoder_are_embeddings(opened):
    _, _, model = opened
    texts = [hf_models.tokens(length) for length in (48, 5)]
    together = model.embed(texts, pooling="none")
    for text, states in zip(texts, together, strict=True):
        alone = model.embed([text], pooling="none")[0]
        assert ((alone - states) ** 2).sum() < 1e-10 * (alone**2).sum()  # the sums of attention have another order


def test_buckets_are_those_of_the_paper():
    """Of 32 buckets for both directions: exact up to 7, then ranges up to 128 that grow by a constant factor."""
    distance = np.array([0, -1, -7, -8, -11, -12, -127, -128, -500, 1, 7, 8, 500])
    assert bucket(distance, 32, True).tolist() == [0, 1, 7, 8, 8, 9, 15, 15, 15, 17, 23, 24, 31]
    assert bucket(distance, 32, False).tolist()[:9] == [0, 1, 7, 8, 11, 12, 31, 31, 31]
    assert not bucket(distance, 32, False)[9:].any()


def test_wrong_arguments_are_named(opened, tmp_path):
    _, _, model = opened
    for call, message in [
        (lambda: model.logits([3, 4]), "logits: decoder is missing"),
        (lambda: model.logits([3], decoder=[64]), "logits: token 64: need ids from 0 to 63"),
        (lambda: model.logits([3] * 600, decoder=[0]), "logits: 0 . 600 tokens exceed the context"),
        (lambda: model.generate([3], overflow="shift"), "generate: overflow is 'shift': need 'stop'"),
        (lambda: model.perplexity([3, 4]), "perplexity: decoder is missing"),
        (lambda: model.perplexity([3, 4], decoder=[0]), "perplexity: the decoder's text has one token"),
        (lambda: model.log_probabilities([3, 4], decoder=[0, 99]), "log_probabilities: token 99"),
        (lambda: model.feed([0], 1, encoder=[3] * 600), "feed: 0 . 600 tokens exceed the context"),
        (lambda: model.feed([0] * 600, 1, encoder=[3]), "feed: 0 . 600 tokens exceed the context"),
        (lambda: model.load_state(b"GGST" + bytes(99)), "load_state: the first bytes are not those of a state"),
    ]:
        with pytest.raises(ValueError, match=f"^{message}"):
            call()
    with load(folder_of(tmp_path / "t5", "t5"), threads=1) as new:
        with pytest.raises(ValueError, match="^feed: encoder is missing: need the text that the encoder reads"):
            new.feed([3])
        with pytest.raises(ValueError, match="^save_state: the sequence has read nothing"):
            new.save_state()
        assert new.held() == [] and new.reset(3) == 0
    with load(folder_of(tmp_path / "llama", "llama"), threads=1) as llama:
        with pytest.raises(ValueError, match="^logits: decoder is given: the model has no encoder"):
            llama.logits([3, 4], decoder=[0])
        for name in ("log_probabilities", "perplexity"):
            with pytest.raises(ValueError, match=f"^{name}: decoder is given: the model has no encoder"):
                getattr(llama, name)([3, 4], decoder=[0, 3])
        with pytest.raises(ValueError, match="^feed: encoder is given: the model has none"):
            llama.feed([3, 4], encoder=[3])


def test_a_model_that_is_not_tied_gets_an_output_matrix(tmp_path):
    """A newer folder says so by `scale_decoder_outputs`, an older one by `tie_word_embeddings`."""
    scaled = folder_of(tmp_path / "scaled", "t5", scale_decoder_outputs=True)
    plain = folder_of(tmp_path / "plain", "t5", scale_decoder_outputs=False)
    ids = hf_models.tokens(9)
    with load(scaled, threads=1) as a, load(plain, threads=1) as b:
        assert "output.weight" not in a.runner.weights and "output.weight" in b.runner.weights
        assert np.allclose(a.logits(ids, decoder=ids) * 8, b.logits(ids, decoder=ids), rtol=1e-4, atol=1e-4)


def test_adapters_may_change_within_a_text(tmp_path):
    base = folder_of(tmp_path / "base", "t5")
    names = ["encoder.block.0.layer.0.SelfAttention.q", "decoder.block.1.layer.1.EncDecAttention.v"]
    shapes = {
        f"base_model.model.{name}.lora_{m}.weight": [4, 64] if m == "A" else [80, 4] for name in names for m in "AB"
    }
    config = {"peft_type": "LORA", "r": 4, "lora_alpha": 8, "bias": "none"}
    convert(hf_models.write_adapter(tmp_path / "adapter", config, shapes), tmp_path / "lora.gguf", base=base)
    read, options = hf_models.tokens(20), {"max_tokens": 8, "temperature": 0, "logit_bias": {1: -np.inf}}
    with load(base, threads=1) as model:
        model.set_lora(tmp_path / "lora.gguf")
        changed = model.logits(read, decoder=[0])
        model.set_lora()
        assert not np.allclose(changed, model.logits(read, decoder=[0]), atol=1e-3)
        text = model.generate(read, **options)
        for _ in range(4):
            next(text)
        model.set_lora(tmp_path / "lora.gguf")
        list(text)
        logits = model.logits(read, decoder=[0, *text.ids])
        logits[:, 1] = -np.inf
        assert text.ids[4:] == logits.argmax(1)[4:8].tolist()
        alone = model.generate(read, **options)
        list(alone)
        model.set_lora()
        model.add_adapter("cats", tmp_path / "lora.gguf")
        texts = [model.generate(read, **options), model.generate(read, adapter="cats", **options)]
        for _ in range(8):
            for text in texts:
                next(text)
        assert texts[1].ids == alone.ids != texts[0].ids
        with pytest.raises(ValueError, match="^save_state: the sequence has the adapter 'cats'"):
            model.save_state(texts[1].sequence)
    with pytest.raises(RuntimeError, match="the model is closed"):
        next(model.generate(read))
