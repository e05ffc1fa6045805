"""The steps of a sampler against llama.cpp's own, as scripts/record_samplers.py recorded them."""

import json
from pathlib import Path

import model_vocabularies
import numpy as np
import pytest

for library in ("gguf", "tokenizers"):
    pytest.importorskip(library)

from ggml.models import Sampler, Tokenizer  # noqa: E402
from ggml.models.sample.chain import file_settings  # noqa: E402
from ggml.models.sample.steps import Candidates, Generator, common_beginnings  # noqa: E402

BATCHES = 10
VOCABULARY = model_vocabularies.bpe("gpt-2")


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer(VOCABULARY)


@pytest.fixture(scope="module")
def recorded():
    """The cases: settings, history, ids, logits, what is left each time, what is drawn."""
    data = np.load(Path(__file__).parents[1] / "data" / "samplers.npz")
    assert data["checksum"] == model_vocabularies.checksum(VOCABULARY)
    ends = dict.fromkeys(("history", "ids", "logits", "drawn", "left_ids", "left_logits"), 0)
    arrays = {name: data[name] for name in ends}

    def take(name, count):
        ends[name] += count
        return arrays[name][ends[name] - count : ends[name]]

    cases = []
    for settings, (told, wide, drawn), (times, *left) in zip(
        json.loads(data["settings"].tobytes()), data["sizes"].tolist(), data["left_sizes"].tolist()
    ):
        found = [(take("left_ids", n), take("left_logits", n)) for n in left[:times]]
        logits = take("logits", wide).astype(np.float32)
        cases.append((settings, take("history", told).tolist(), take("ids", wide), logits, found, take("drawn", drawn)))
    assert len(cases) == 1000
    return cases


def probabilities(logits):
    p = np.exp(logits.astype(np.float64) - logits.max())
    return p / p.sum()


def check(case, tokenizer):
    settings, history, ids, logits, left, drawn = case
    settings = dict(settings)
    n_vocab = settings.pop("n_vocab")
    sampler = Sampler(**settings, tokenizer=tokenizer)
    sampler.prime(history)
    for expected_ids, expected_logits in left:
        c = Candidates(sampler.mask(logits))
        c.ids = ids.astype(np.int64) if "infill" in settings["samplers"] else None
        for step in sampler.steps:
            assert step.apply(c) is None
        kept = c.logits > -np.inf
        found = np.arange(len(logits))[kept] if c.ids is None else c.ids[kept]
        order = np.argsort(found)
        assert found[order].tolist() == expected_ids.tolist(), settings
        assert np.allclose(probabilities(c.logits[kept])[order], probabilities(expected_logits), rtol=0, atol=1e-6)
    for token in drawn:
        if sampler.mirostat:  # of a vocabulary that is larger than the candidates
            sampler.n_vocab = n_vocab
            c = Candidates(logits)
            indices = [step.apply(c) for step in sampler.steps]
            assert c.token(indices[-1]) == token, (settings, indices)
        else:
            assert sampler(logits) == token, settings
        sampler.accept(int(token))


@pytest.mark.parametrize("batch", range(BATCHES))
def test_steps_equal_those_of_llama_cpp(batch, recorded, tokenizer):
    for case in recorded[batch::BATCHES]:
        check(case, tokenizer)


def test_random_numbers_are_those_of_the_mersenne_twister():
    generator = Generator(5489)
    last = [generator.double() for _ in range(5000)][-1]
    assert int(last * 2**32) == 4123659995  # the 10,000th number, which the C++ standard names
    assert Generator(1 << 40).double() != Generator(0).double() and 0 <= Generator(7).single() < 1


def test_common_beginnings():
    rng = np.random.default_rng(0)
    for n in (0, 1, 2, 7, 60):
        items = rng.integers(0, 2, n).tolist()
        for k, found in enumerate(common_beginnings(items)):
            same = [items[i] == items[k + i] for i in range(n - k)]
            assert found == (0 if k == 0 else [*same, False].index(False))


def test_the_order_of_the_steps():
    """Of (0.6, 0.2, 0.2): the share 0.75 of all, then one; or the best one first, which then has all."""
    logits = np.log(np.array([0.6, 0.3, 0.1], np.float32))
    hot = {"temperature": 100.0, "top_k": 0, "min_p": 0.0, "top_p": 0.85, "seed": 1}

    def drawn(**options):
        sampler = Sampler(**hot, **options)
        return {sampler(logits) for _ in range(300)}

    assert drawn() == drawn(samplers="top_p;temperature") == drawn(samplers=["top_p", "temp"]) == {0, 1}
    assert drawn(samplers=["temperature", "top_p"]) == {0, 1, 2}
    assert drawn(samplers=["top_p"]) == {0, 1} and drawn(samplers=[]) == {0, 1, 2}
    names = [step.name for step in Sampler(frequency_penalty=1.0, top_n_sigma=2.0, typical_p=0.5).steps]
    assert names == "penalties top_n_sigma top_k typ_p top_p min_p temperature".split()
    assert [step.name for step in Sampler(mirostat=2).steps] == ["temperature", "mirostat"]
    for bad in ("top_k;top_q", ["mirostat"]):
        with pytest.raises(ValueError, match="generate: samplers has '(top_q|mirostat)': need some of penalties, dry"):
            Sampler(samplers=bad)
    for wrong in ({"samplers": 3}, {"dry_sequence_breakers": "x"}, {"dry_sequence_breakers": 3}):
        with pytest.raises(TypeError, match="generate: (samplers|dry_sequence_breakers) is"):
            Sampler(**wrong)
    for name in ("infill", "dry"):
        with pytest.raises(ValueError, match="need a vocabulary"):
            Sampler(samplers=[name], dry_multiplier=1.0)


def test_biases():
    logits = np.array([3.0, 2.0, 1.0, 0.0], np.float32)
    for bias, best in (({0: -2.0}, 1), ({0: -np.inf, 1: -np.inf}, 2), ({3: 4.0}, 3), ({}, 0), (None, 0)):
        assert Sampler(temperature=0, logit_bias=bias)(logits) == best
    assert logits.tolist() == [3, 2, 1, 0]
    with pytest.raises(ValueError, match="logit_bias: token 4 does not exist: need 0 to 3"):
        Sampler(logit_bias={4: 1.0})(logits)
    for bad in ({-1: 1.0}, {0: np.inf}, {0: np.nan}):
        with pytest.raises(ValueError, match="generate: logit_bias is .*need ids from 0, and numbers or -inf"):
            Sampler(logit_bias=bad)
    with pytest.raises(TypeError, match="generate: logit_bias is"):
        Sampler(logit_bias={"x": 1.0})


def test_settings_of_a_file(tmp_path):
    """They are defaults: what a call says comes first."""
    import tiny_models

    from ggml.models import load

    keys = {"temp": 0.0, "top_k": 7, "penalty_last_n": 9, "sequence": "top_k;temperature", "mirostat": 0}
    path = tmp_path / "tiny.gguf"
    tiny_models.write(path, "llama", change={"general.sampling." + name: value for name, value in keys.items()})
    with load(path, n_ctx=64, threads=1) as model:
        expected = {"temperature": 0.0, "top_k": 7, "repeat_last_n": 9, "samplers": "top_k;temperature", "mirostat": 0}
        assert file_settings(model.metadata) == expected
        greedy = list(model.generate("abc", max_tokens=20))
        assert greedy == list(model.generate("abc", max_tokens=20, temperature=0.0))
        others = [list(model.generate("abc", max_tokens=20, temperature=3.0, seed=seed)) for seed in (1, 2)]
        assert greedy not in others and others[0] != others[1]
        assert model.generate("abc", top_k=3).sampler.top_k == 3
        with pytest.raises(TypeError, match="generate: there is no argument 'topk'"):
            model.generate("abc", topk=3)


def test_penalties_of_a_text(tmp_path):
    """A penalty for each occurrence makes a greedy text use as many tokens as there are."""
    import tiny_models

    from ggml.models import load

    with load(tiny_models.write(tmp_path / "tiny.gguf", "llama"), n_ctx=64, threads=1) as model:
        free = model.generate("abc", max_tokens=40, temperature=0, logit_bias={1: -np.inf})
        varied = model.generate("abc", max_tokens=40, temperature=0, logit_bias={1: -np.inf}, presence_penalty=1e5)
        list(free), list(varied)
        recent = varied.prompt_ids + varied.ids
        assert len(set(free.ids)) < 40 == len(set(varied.ids)) and len(set(recent)) == 43


def test_seeds_that_mean_another_one_each_time():
    logits = np.zeros(1000, np.float32)
    for seed in (None, -1, 0xFFFFFFFF):
        assert len({Sampler(seed=seed, top_k=0, min_p=0.0)(logits) for _ in range(20)}) > 10
    with pytest.raises(ValueError, match="generate: seed is -2: need an integer from -1"):
        Sampler(seed=-2)
