"""Models with an encoder and a decoder, against what transformers computes."""

import numpy as np
import pytest

for library in ("safetensors", "tokenizers"):  # of the extra [test]; not installed on emulated CPUs
    pytest.importorskip(library)

import hf_models  # noqa: E402

from ggml.models import convert, load  # noqa: E402
from ggml.models.arch.t5 import bucket  # noqa: E402

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
    with load(path / "model.gguf", threads=1) as model:
        yield request.param, hf_models.record(request.param), model


@pytest.mark.parametrize("length", hf_models.LENGTHS)
def test_logits_are_those_of_transformers(length, opened):
    _, record, model = opened
    logits = model.logits(hf_models.tokens(length), decoder=hf_models.decoder_tokens(length))
    assert logits.shape == (length, hf_models.VOCAB)
    assert hf_models.error(logits[hf_models.rows(length)], record[str(length)]) < 1e-9


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


def test_states_of_the_encoder_are_embeddings(opened):
    _, _, model = opened
    texts = [hf_models.tokens(length) for length in (48, 5)]
    together = model.embed(texts, pooling="none")
    for text, states in zip(texts, together, strict=True):
        assert np.allclose(model.embed([text], pooling="none")[0], states, atol=1e-5)


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
        (lambda: model.feed([3]), "feed: a model of architecture 't5' has an encoder beside its decoder"),
    ]:
        with pytest.raises(ValueError, match=f"^{message}"):
            call()
    with load(folder_of(tmp_path / "llama", "llama"), threads=1) as llama:
        with pytest.raises(ValueError, match="^logits: decoder is given: the model has no encoder"):
            llama.logits([3, 4], decoder=[0])


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
    with pytest.raises(RuntimeError, match="the model is closed"):
        next(model.generate(read))
