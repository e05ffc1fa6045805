"""Guessing ahead: texts and distributions are those without guesses, and wrong guesses are bounded."""

import threading
from collections import Counter

import numpy as np
import pytest

for library in ("gguf", "jinja2", "tokenizers"):  # of the extra [test]; not installed on emulated CPUs
    pytest.importorskip(library)

import structured  # noqa: E402
import tiny_models  # noqa: E402
from tiny_models import IDS, VOCAB  # noqa: E402

from ggml.models import load  # noqa: E402
from ggml.models.generate import speculative  # noqa: E402
from ggml.models.generate.batching import Scheduler  # noqa: E402
from ggml.models.generate.speculative import Ngrams, Speculation  # noqa: E402
from ggml.models.llama_cpp import Llama  # noqa: E402
from ggml.models.llama_cpp.llama_speculative import LlamaPromptLookupDecoding  # noqa: E402

KINDS = ["llama", "gemma3"]  # the second has layers with a sliding window
PROMPT = IDS[:12]
LENGTH = 40


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("speculative")
    for kind in KINDS:
        tiny_models.write(folder / f"{kind}.gguf", kind)
    structured.write_model(folder / "bytes.gguf")
    return folder


@pytest.fixture
def open_model(folder):
    models = []

    def run(kind="llama", **options):
        models.append(load(folder / f"{kind}.gguf", **{"n_ctx": 128, "threads": 1, **options}))
        return models[-1]

    yield run
    for model in models:
        model.close()


def endless(model):
    """The bias with which no token ends a text."""
    return dict.fromkeys(model.prompts.decoding()[0], -np.inf)


def ids_of(model, draft=None, prompt=PROMPT, **options):
    options = {"max_tokens": LENGTH, "exact": True, "logit_bias": endless(model)} | options
    text = model.generate(prompt, draft=draft, **options)
    for _ in text:
        pass
    return text.ids, text


def oracle(truth, wrong_from=VOCAB):
    """A function that knows the text; every third of its guesses is wrong from some token on."""
    calls = []

    def guess(ids):
        calls.append(len(ids))
        rest = list(truth[len(ids) :])
        if len(calls) % 3 == 0:
            rest[wrong_from:] = [(token + 1) % VOCAB for token in rest[wrong_from:]]
        return rest

    return guess


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", [{"temperature": 0}, {"seed": 5, "temperature": 1.0, "repeat_penalty": 1.2}])
def test_texts_are_those_without_guesses(open_model, kind, options, monkeypatch):
    monkeypatch.setattr(speculative, "CONFIDENT", 0.0)
    model, other = open_model(kind), open_model(kind)
    expected, _ = ids_of(model, **options)
    for draft in ("ngram", other, oracle(PROMPT + expected), oracle(PROMPT + expected, 1), lambda ids: [3] * 9):
        found, text = ids_of(model, draft, **options)
        assert found == expected and text.finish_reason == "length"
        assert text.speculation.accepted <= text.speculation.guessed
    _, text = ids_of(model, oracle(PROMPT + expected), **options)
    assert text.speculation.accepted == text.speculation.guessed >= LENGTH / 2
    _, text = ids_of(model, other, temperature=0)
    assert text.speculation.accepted > 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sequences", [4, 2, 1])
def test_a_second_model_guesses_for_several_texts_in_one_batch(open_model, kind, sequences, monkeypatch):
    """As far as it has sequences; it reads long prompts in parts of a step, and guesses nothing meanwhile."""
    monkeypatch.setattr(speculative, "CONFIDENT", 0.0)
    model, other = open_model(kind, n_seq=4), open_model(kind, n_seq=sequences)
    prompts = [(IDS * 2)[i : i + 45 - 12 * i] for i in range(4)]
    expected = [ids_of(model, prompt=prompt, temperature=0, max_tokens=40)[0] for prompt in prompts]
    batches, decode = [], other.runner.decode
    monkeypatch.setattr(other.runner, "decode", lambda batch: batches.append(batch.pieces) or decode(batch))
    options = {"max_tokens": 40, "temperature": 0, "exact": True, "logit_bias": endless(model), "draft": other}
    texts = [model.generate(prompt, **options) for prompt in prompts]
    scheduler = Scheduler(model.writer, chunk=32)
    for text in texts:
        text.speculation.source.cost = 0.1  # as of a smaller model
        scheduler.start(text)
    while scheduler.active:
        assert scheduler.step() == ({}, [])
    assert [text.ids for text in texts] == expected
    assert all(text.speculation.accepted > 10 for text in texts)
    assert max(map(len, batches)) == sequences
    assert max(sum(len(tokens) for _, tokens, *_ in pieces) for pieces in batches) <= 32


def test_no_memory_for_a_second_model(open_model, monkeypatch):
    """Nothing is guessed."""
    model, other = open_model(), open_model()
    expected, _ = ids_of(model, temperature=0)

    def fail(*_):
        raise MemoryError("no pages")

    monkeypatch.setattr(other.runner.memory, "reserve", fail)
    found, text = ids_of(model, other, temperature=0)
    assert found == expected and text.speculation.guessed == 0


def test_several_texts_and_interruptions(open_model):
    model = open_model(n_seq=2)
    prompts = [IDS[:9], IDS[20:27], IDS[5:30]]
    expected = [ids_of(model, prompt=prompt, temperature=0)[0] for prompt in prompts]
    options = {"max_tokens": LENGTH, "logit_bias": endless(model)}
    texts = model.generate_many(prompts, draft="ngram", temperature=0, exact=True, **options)
    list(texts)
    assert [text.ids for text in texts.texts] == expected

    def meddle(ids, logits):
        if len(ids) % 7 == 0:
            model.reset()
        elif len(ids) % 5 == 0:
            model.feed(IDS[:3])

    for draft in ("ngram", oracle(prompts[0] + expected[0], 2)):
        found, _ = ids_of(model, draft, prompts[0], temperature=0, logits_filter=meddle)
        assert found == expected[0]


def test_distribution(open_model):
    """The three tokens that follow a prompt are distributed as the logits say; guesses are of varying quality."""
    model = open_model()

    def best(ids):
        logits = model.logits([*PROMPT, *ids], exact=True)[-1].astype(np.float64)
        logits[list(endless(model))] = -np.inf
        tokens = np.argsort(-logits)[:3]
        p = np.exp(logits[tokens] - logits.max())
        return {int(token): value / p.sum() for token, value in zip(tokens, p)}

    expected = {}
    for a, p in best([]).items():
        for b, q in best([a]).items():
            for c, r in best([a, b]).items():
                expected[a, b, c] = p * q * r
    guess = Counter({key[1:]: value for key, value in expected.items()}).most_common(1)[0][0]
    draws, accepted = 900, 0
    found = Counter()
    for seed in range(draws):
        ids, text = ids_of(model, lambda ids: guess, max_tokens=3, seed=seed, temperature=1.0, top_k=3, top_p=1.0,
                           min_p=0.0, exact=False)  # fmt: skip
        found[tuple(ids)] += 1
        accepted += text.speculation.accepted
    assert set(found) <= set(expected) and 0 < accepted < draws
    likely = {key: value for key, value in expected.items() if value * draws >= 5}
    rest = 1 - sum(likely.values())
    pairs = [(found[key], value * draws) for key, value in likely.items()]
    if rest * draws >= 1:
        pairs.append((draws - sum(found[key] for key in likely), rest * draws))
    chi2, freedom = sum((n - e) ** 2 / e for n, e in pairs), len(pairs) - 1
    assert freedom >= 5
    assert chi2 < freedom + 4 * (2 * freedom) ** 0.5  # four standard deviations


def test_wrong_guesses_are_bounded(open_model):
    """A step of 1 + n tokens is counted as 1.25 + 0.06 n steps of one token."""
    model = open_model(n_ctx=256)
    expected, _ = ids_of(model, max_tokens=200, temperature=0)
    batches = []
    decode = model.runner.decode
    model.runner.decode = lambda batch, *options: batches.append(len(batch)) or decode(batch, *options)
    truth = PROMPT + expected
    found, text = ids_of(
        model, lambda ids: [(truth[len(ids)] + 1) % VOCAB] * 20, max_tokens=200, temperature=0, exact=False
    )
    assert found == expected
    steps = batches[1:]
    assert len(steps) == 199 and max(steps) > 1
    assert sum(1 if n == 1 else 1.25 + 0.06 * (n - 1) for n in steps) <= 1.03 * 199
    assert text.speculation.accepted == 0


def test_the_length_follows_what_is_accepted():
    class Text:
        sampler = None

    class Fixed:
        cost = 0.0

        def guess(self, text, most):
            return [1] * most, 0.0

    speculation = Speculation(Fixed())
    lengths = []
    for _ in range(12):
        n = len(speculation.guess(Text(), 99))
        lengths.append(n)
        speculation.judge(n, n)
    assert lengths[0] >= 3 and lengths == sorted(lengths) and lengths[-1] == 24
    speculation.judge(24, 0)
    assert len(speculation.guess(Text(), 99)) == 3


@pytest.mark.parametrize("apart, speed", [(4, 1.05), (9, 1.6), (40, 3.5)])
def test_edits_become_faster(apart, speed):
    """A text that repeats another one, in which one token of some is another: steps as the ledger counts them."""
    rng = np.random.default_rng(3)
    prompt = rng.integers(0, 5000, 160).tolist()
    copy = [5000 + i if i % apart == 3 else token for i, token in enumerate(prompt)]

    class Text:
        def __init__(self):
            self.sampler, self.ids = self, [*prompt, copy[0]]

    text, speculation, steps = Text(), Speculation(Ngrams()), 0.0
    while len(text.ids) < len(prompt) + len(copy):
        rest = copy[len(text.ids) - len(prompt) :]
        guess = speculation.guess(text, len(rest) - 1)
        steps += 1 + (speculative.SEVERAL + speculative.EACH * len(guess) if guess else 0)
        right = next((i for i, pair in enumerate(zip(guess, rest)) if pair[0] != pair[1]), len(guess))
        if guess:
            speculation.judge(len(guess), right)
        text.ids += rest[: right + 1]
    assert text.ids == prompt + copy
    assert (len(copy) - 1) / steps > speed


def test_ngrams():
    class Text:
        def __init__(self, ids):
            self.sampler = self
            self.ids = ids

    def guess(ids, most=4):
        return Ngrams().guess(Text(ids), most)[0]

    assert guess([1, 2, 3, 4, 5, 6, 1, 2]) == [3, 4, 5, 6]
    assert guess([1, 2, 3, 9, 1, 2, 4, 9, 1, 2]) == [4, 9, 1, 2]  # the latest place counts
    assert guess([7, 1, 2, 3, 9, 8, 1, 2, 4, 7, 1, 2]) == [3, 9, 8, 1]  # unless an earlier one agrees for longer
    assert guess([1, 2, 1, 2]) == [1, 2, 1, 2]  # a repetition goes on
    assert guess([1, 2, 3]) == guess([1]) == []
    text, source = Text([1, 2, 3, 4, 1, 2]), Ngrams()
    assert source.guess(text, 2)[0] == [3, 4]
    text.ids += [3, 4, 5, 3, 4]
    assert source.guess(text, 2)[0] == [5, 3]


def test_options_with_guesses(open_model):
    """The ends of texts, log-probabilities, languages and the shift of a full context."""
    pytest.importorskip("llguidance")
    model = open_model("bytes", n_ctx=64)
    prompt = list(range(40, 60))

    def both(**options):
        results = []
        for draft in (None, "ngram", lambda ids: list(ids[-3:])):
            text = model.generate(prompt, exact=True, draft=draft, seed=1, **options)
            results.append(("".join(text), text.ids, text.finish_reason, text.logprobs))
        assert results[0] == results[1] == results[2]
        return results[0]

    assert len(both(max_tokens=30, logprobs=2)[3]) == 30
    assert both(max_tokens=None)[2] == "length"
    assert len(both(max_tokens=120, overflow="shift")[1]) == 120
    content, *_ = both(max_tokens=30, temperature=0)
    assert both(max_tokens=30, temperature=0, stop=content[5:9])[0] == content[: content.index(content[5:9])]
    assert both(regex="(ab ){3,9}", max_tokens=40)[0].startswith("ab ab ab ")


def test_bad_drafts(open_model, folder, tmp_path):
    model = open_model()
    with pytest.raises(ValueError, match=r"generate: draft is 'mtp': .*llama.gguf has no prediction layers"):
        model.generate(PROMPT, draft="mtp")
    with pytest.raises(ValueError, match="generate: draft is 'tree': need 'ngram', 'mtp', a Model or a function"):
        model.generate(PROMPT, draft="tree")
    with pytest.raises(TypeError, match="generate: draft is a int: need 'ngram', 'mtp', a Model or a function"):
        model.generate(PROMPT, draft=3)
    with pytest.raises(ValueError, match="generate: draft is the model itself"):
        model.generate(PROMPT, draft=model)
    with pytest.raises(ValueError, match="generate: draft has [0-9]+ tokens: need the 96 tokens"):
        model.generate(PROMPT, draft=open_model("bytes"))
    path = tiny_models.write(tmp_path / "layers.gguf", "llama", change={"llama.nextn_predict_layers": 1})
    with load(path, n_ctx=64, threads=1) as other, pytest.raises(ValueError, match="no prediction layers .no tensors"):
        other.generate(PROMPT, draft="mtp")
    one = open_model("bytes")
    tokens = list(one.metadata["tokenizer.ggml.tokens"])
    tokens[65], tokens[66] = tokens[66], tokens[65]
    path = structured.write_model(tmp_path / "other.gguf", change={"tokenizer.ggml.tokens": tokens})
    with load(path, n_ctx=64, threads=1) as other, pytest.raises(ValueError, match="generate: token 65 of draft is"):
        one.generate(PROMPT, draft=other)
    with pytest.raises(ValueError, match="generate: draft returned the token 96: need ids from 0 to 95"):
        list(model.generate(PROMPT, draft=lambda ids: [96]))
    with pytest.raises(TypeError, match="generate: draft returned .*: need a list of token ids"):
        list(model.generate(PROMPT, draft=lambda ids: "abc"))
    closed = open_model()
    text = model.generate(PROMPT, draft=closed, temperature=0)
    closed.close()
    with pytest.raises(RuntimeError, match="generate: draft: the model is closed"):
        list(text)


def test_models_that_guess_for_each_other_do_not_wait(open_model):
    """Two threads, each with one model that writes and the other one that guesses."""
    models = [open_model(), open_model()]
    expected, _ = ids_of(models[0], temperature=0)
    found = [None, None]

    def write(i):
        found[i] = ids_of(models[i], models[1 - i], temperature=0)[0]

    threads = [threading.Thread(target=write, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == [expected, expected]


def test_llama(folder):
    with Llama(folder / "bytes.gguf", n_ctx=128, n_threads=1) as llama:
        plain = llama("ababab", max_tokens=40, temperature=0)["choices"][0]["text"]
    with Llama(folder / "bytes.gguf", n_ctx=128, n_threads=1, draft_model=LlamaPromptLookupDecoding()) as llama:
        assert llama("ababab", max_tokens=40, temperature=0)["choices"][0]["text"] == plain
        calls = []
        llama.draft_model = lambda ids: calls.append(len(ids)) or [1, 2]
        assert llama("ababab", max_tokens=40, temperature=0)["choices"][0]["text"] == plain and calls
