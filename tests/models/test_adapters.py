"""Adapters that single texts have: they are computed together with texts that have others, or none."""

import pytest

for library in ("jinja2", "tokenizers"):  # of the extra [test]; not installed on emulated CPUs
    pytest.importorskip(library)

import numpy as np  # noqa: E402
import tiny_models  # noqa: E402

from ggml.models import load  # noqa: E402

PROMPTS = [[3 + i % 11 for i in range(40)], [3 + i % 11 for i in range(30)], [5, 6, 7]]
OPTIONS = {"max_tokens": 10, "temperature": 0, "exact": True}


def table_adapter(path):
    """An adapter of the table of tokens, which is also the output matrix of some models."""
    dice, rank = np.random.default_rng(5), 4
    sizes = {"lora_a": tiny_models.VOCAB, "lora_b": tiny_models.WIDTH}
    values = {name: 0.3 * dice.normal(size=(size, rank)) for name, size in sizes.items()}
    tensors = {f"token_embd.weight.{name}": value.astype(np.float32) for name, value in values.items()}
    return tiny_models.write_lora(path, "llama", tensors)


def together(model, adapters):
    """The tokens of each prompt with each adapter, all computed together."""
    texts = [model.generate(ids, adapter=name, **OPTIONS) for ids in PROMPTS for name in adapters]
    list(model.writer.decode_together(texts))
    return [[text.ids for text in texts[i :: len(adapters)]] for i in range(len(adapters))]


def alone(path, lora):
    with load(path, n_ctx=128, lora=lora) as model:
        return [list(text.ids) for text in (model.generate(ids, **OPTIONS) for ids in PROMPTS) if list(text)]


@pytest.mark.parametrize("kind", ["llama", "gemma2", "gpt2"])
def test_texts_with_different_adapters_in_one_batch(kind, tmp_path):
    """Each gets what a model with its adapter alone gives; equal beginnings are shared within an adapter only."""
    path, one = tiny_models.write(tmp_path / "m.gguf", kind), tiny_models.write_lora(tmp_path / "a.gguf", kind)
    loras = {None: [], "one": [one]}
    if kind == "llama":
        loras["table"] = [table_adapter(tmp_path / "b.gguf")]
    expected = [alone(path, lora) for lora in loras.values()]
    assert all(a != b for i, a in enumerate(expected) for b in expected[:i])
    with load(path, n_ctx=128, n_seq=4) as model:
        for name, files in loras.items():
            if name is not None:
                model.add_adapter(name, files[0])
        for _ in range(2):  # the second time with the sequences of the first
            assert together(model, list(loras)) == expected


@pytest.mark.parametrize("kind", ["llama", "bert", "nomic-bert"])
def test_embeddings_with_an_adapter(kind, tmp_path):
    path, lora = tiny_models.write(tmp_path / "m.gguf", kind), tiny_models.write_lora(tmp_path / "a.gguf", kind)
    with load(path, lora=[lora]) as model:
        expected = model.embed(PROMPTS)
    with load(path) as model:
        plain = model.embed(PROMPTS)
        model.add_adapter("x", lora)
        assert np.array_equal(model.embed(PROMPTS, adapter="x"), expected)
        assert np.array_equal(model.embed(PROMPTS), plain) and not np.allclose(plain, expected)


def test_what_cannot_be_added(tmp_path):
    path, lora = tiny_models.write(tmp_path / "m.gguf", "llama"), tiny_models.write_lora(tmp_path / "a.gguf", "llama")
    with load(path) as model:
        with pytest.raises(ValueError, match="generate: there is no adapter 'x'"):
            model.generate([5], adapter="x")
        with pytest.raises(ValueError, match="add_adapter: "):
            model.add_adapter("x", path)
        model.add_adapter("x", lora)
        with pytest.raises(ValueError, match="add_adapter: there is an adapter 'x' already"):
            model.add_adapter("x", lora)
        list(model.generate([5, 6], adapter="x", max_tokens=2))
        with pytest.raises(ValueError, match="save_state: the sequence has the adapter 'x'"):
            model.save_state()
    with load(tiny_models.write(tmp_path / "b.gguf", "bert")) as model:
        with pytest.raises(ValueError, match="add_adapter: .*llama"):
            model.add_adapter("x", lora)
        with pytest.raises(ValueError, match="embed: there is no adapter 'x'"):
            model.embed([[5, 6]], adapter="x")
