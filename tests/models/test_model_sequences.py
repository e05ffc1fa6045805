"""What the sequences of a model hold while its calls interleave.

Changes between the pieces of a text, filters that call the model, threads, forks, copies; by the public interface only.
"""

import copy
import gc
import os
import pickle
import threading

import numpy as np
import pytest

for library in ("gguf", "jinja2", "tokenizers"):  # of the extra [test]; not installed on emulated CPUs
    pytest.importorskip(library)

import tiny_models  # noqa: E402
from forks import FORK  # noqa: E402
from tiny_models import IDS, VOCAB  # noqa: E402

import ggml  # noqa: E402
from ggml.models import load  # noqa: E402

GREEDY = {"max_tokens": 12, "temperature": 0}
KINDS = ["llama", "gemma3"]  # the second has layers with a sliding window
OTHERS = [50, 51, 52, 53, 54]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sequences")
    for kind in KINDS:
        tiny_models.write(folder / f"{kind}.gguf", kind)
        tiny_models.write_lora(folder / f"{kind}-lora.gguf", kind)
    return folder


@pytest.fixture
def open_model(folder):
    models = []

    def run(kind="llama", **options):
        models.append(load(folder / f"{kind}.gguf", **{"n_ctx": 96, "threads": 1, "kv_type": "f32", **options}))
        return models[-1]

    yield run
    for model in models:
        model.close()


def lora(folder, kind):
    return folder / f"{kind}-lora.gguf"


def adds_nothing(values):
    pass


def traced(model):
    with model.trace("blk.0.out"):
        model.logits(OTHERS)


def edited(model):
    with model.edit("blk.1.out", adds_nothing):
        model.logits(OTHERS)


# Calls after which a text goes on as if they had not been
HARMLESS = {
    "set_lora": lambda model: model.set_lora(),
    "trace": traced,
    "edit": edited,
    "feed": lambda model: model.feed(OTHERS),
    "fed": lambda model: list(model.fed(OTHERS)),
    "logits": lambda model: model.logits(OTHERS),
    "reset": lambda model: model.reset(2),
    "load_state": lambda model: model.load_state(model.save_state()),
    "generate": lambda model: list(model.generate(OTHERS, **GREEDY)),
    "generate_many": lambda model: list(model.generate_many([OTHERS, IDS[:9]], **GREEDY)),
    "log_probabilities": lambda model: model.log_probabilities(OTHERS),
    "nothing": lambda model: None,
}


def text_of(model, prompt, **options):
    text = model.generate(prompt, **GREEDY | options)
    list(text)
    return text.ids


# ---- changes between two pieces --------------------------------------------------------------------------------------
@pytest.mark.parametrize("n_seq", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("change", HARMLESS)
def test_a_text_goes_on_after_other_calls(change, kind, n_seq, open_model):
    """The sequence then holds as many tokens as the text had, but others."""
    expected = text_of(open_model(kind), IDS[:4])
    for pieces in (1, 2, 5):
        model = open_model(kind, n_seq=n_seq)
        text = model.generate(IDS[:4], **GREEDY)
        for _ in range(pieces):
            next(text)
        HARMLESS[change](model)
        for sequence in range(n_seq):
            model.reset(0, sequence)
            model.feed([*OTHERS, *OTHERS][: 4 + pieces - 1], sequence)
        list(text)
        assert text.ids == expected


@pytest.mark.parametrize("displaced", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_text_goes_on_with_an_adapter(kind, displaced, open_model, folder):
    """All of its tokens are computed with the new weights, also those of a text whose sequence another one took."""
    model, fresh = open_model(kind), open_model(kind)
    text = model.generate(IDS[:6], **GREEDY)
    for _ in range(4):
        next(text)
    before = list(text.ids)
    if displaced:
        other = model.generate(OTHERS, **GREEDY)
        next(other)
    model.set_lora(lora(folder, kind))
    list(text)
    assert text.ids[:4] == before == text_of(fresh, IDS[:6])[:4]
    fresh.set_lora(lora(folder, kind))
    logits = fresh.logits(IDS[:6] + text.ids)
    assert text.ids[4:] == logits[9:-1].argmax(-1).tolist()


def test_files_that_were_copied_may_be_changed(child, folder, tmp_path, monkeypatch):
    """Reading the pages of a file that was mapped and truncated ends a process."""
    code = """if 1:
    import shutil, sys
    import numpy as np
    from ggml.models import load
    for name in ("model", "first", "second"):
        shutil.copy(sys.argv[1 + (name != "model")], name)
    with load("model", n_ctx=96, threads=1, lora=["first"], mmap=False) as model:
        expected = model.logits([5, 6, 7])
        for name in ("model", "first"):
            open(name, "w").close()
        np.testing.assert_array_equal(model.logits([5, 6, 7]), expected)
        model.set_lora("second")
        open("second", "w").close()
        np.testing.assert_array_equal(model.logits([5, 6, 7]), expected)
    """
    monkeypatch.chdir(tmp_path)
    child(code, str(folder / "llama.gguf"), str(lora(folder, "llama")))


def test_a_text_that_was_dropped_frees_its_sequence(open_model):
    model = open_model(n_seq=2)
    first, second = (model.generate(ids, **GREEDY) for ids in (IDS[:5], IDS[5:12]))
    next(first), next(second)
    assert (model.held(0), model.held(1)) == (IDS[:5], IDS[5:12])
    del first
    gc.collect()
    third = model.generate(OTHERS, **GREEDY)
    next(third)
    assert (model.held(0), model.held(1)) == (OTHERS, IDS[5:12])


# ---- filters and edits that call the model ---------------------------------------------------------------------------
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("change", HARMLESS)
def test_a_filter_calls_the_model(change, kind, open_model):
    """Each filter gets the logits of its own text, whatever the one before it called."""
    model, reference = open_model(kind, n_seq=3), open_model(kind)
    prompts, calls = [IDS[:3], IDS[3:10], IDS[10:12], IDS[12:20]], 0

    def check(ids, logits):
        nonlocal calls
        np.testing.assert_allclose(logits, reference.logits(ids)[-1], atol=1e-3)
        calls += 1
        if calls % 3 != 1:
            HARMLESS[change](model)

    found = [""] * 4
    for i, piece in model.generate_many(prompts, **GREEDY, logits_filter=check):
        found[i] += piece
    expected = ["".join(reference.generate(p, **GREEDY)) for p in prompts]
    assert found == expected
    assert "".join(model.generate(prompts[0], **GREEDY, logits_filter=check)) == expected[0]
    assert calls >= 5 * 10


def test_a_filter_does_not_touch_the_kept_logits(open_model):
    """Log-probabilities are those of the model, also if a filter calls it."""
    model = open_model()
    plain = model.generate(IDS[:4], **GREEDY, logprobs=2)
    list(plain)
    called = model.generate(IDS[:4], **GREEDY, logprobs=2, logits_filter=lambda ids, logits: traced(model))
    list(called)
    assert called.ids == plain.ids
    assert np.allclose([t.logprob for t in called.logprobs], [t.logprob for t in plain.logprobs], atol=1e-4)


def test_a_filter_cannot_continue_its_own_text(open_model):
    model = open_model()
    text = model.generate(IDS[:4], **GREEDY, logits_filter=lambda ids, logits: next(text) and None)
    with pytest.raises(RuntimeError, match="^generate: a filter can't continue the text for which it is called"):
        next(text)
    text.sampler.logits_filter = None
    list(text)
    assert text.ids == text_of(model, IDS[:4])


def test_a_filter_ends_its_text_or_the_model(open_model):
    model = open_model()
    text = model.generate(IDS[:4], **GREEDY, logits_filter=lambda ids, logits: text.close() if len(ids) > 6 else None)
    list(text)
    assert len(text.ids) == 3 and text.finish_reason == "stop"
    closing = model.generate(IDS[:4], **GREEDY, logits_filter=lambda ids, logits: model.close())
    with pytest.raises(RuntimeError, match="the model is closed"):
        list(closing)


@pytest.mark.parametrize("threads", [1, 2])
def test_an_edit_cannot_change_the_model_that_computes(threads, open_model):
    model = open_model(threads=threads)
    expected = model.logits(IDS)
    calls = {
        "remove": lambda: edit.remove(),
        "edit": lambda: model.edit("blk.0.out", adds_nothing),
        "set_lora": lambda: model.set_lora(),
        "trace": lambda: model.trace("blk.0.out").__enter__(),
        "logits": lambda: model.logits(OTHERS),
        "close": lambda: model.close(),
    }
    for name, call in calls.items():
        with model.edit("blk.1.out", lambda values, call=call: call()) as edit:
            with pytest.raises(RuntimeError, match=f"^{name}: the model is computing"):
                model.logits(IDS)
        np.testing.assert_allclose(model.logits(IDS), expected, atol=1e-5)


# ---- logits of all tokens, in items ----------------------------------------------------------------------------------
def items(model, count):
    """Tokens for some items of `fed`."""
    return np.random.default_rng(3).integers(3, VOCAB, count * 512).tolist()


@pytest.mark.filterwarnings("ignore:load. n_ctx is")  # longer than the training
def test_other_threads_may_call_between_items(open_model):
    model = open_model(n_ctx=2048)
    ids = items(model, 3)
    expected = model.logits(ids)
    model.reset()
    rows = model.fed(ids)
    first = next(rows)
    done = []
    thread = threading.Thread(target=lambda: done.append(model.embed([OTHERS])), daemon=True)
    thread.start()
    thread.join(60)
    assert done
    found = [first, *rows]
    assert len(found) > 1 and model.held() == ids
    np.testing.assert_allclose(np.concatenate(found), expected, atol=1e-3)


@pytest.mark.filterwarnings("ignore:load. n_ctx is")
def test_items_after_another_call_changed_the_sequence(open_model):
    model = open_model(n_ctx=2048)
    for change in (lambda: model.reset(), lambda: model.logits(OTHERS), lambda: model.feed(OTHERS)):
        model.reset()
        rows = model.fed(items(model, 2))
        next(rows)
        change()
        with pytest.raises(RuntimeError, match="^fed: another call changed what the sequence holds"):
            next(rows)
    for bad, error in (([VOCAB], ValueError), ([], ValueError), ("a" * 2049, ValueError), ([0.5], TypeError)):
        with pytest.raises(error, match="^fed: "):
            list(model.fed(bad))


def test_closing_the_items_in_another_thread(open_model):
    model = open_model()
    rows = model.fed(IDS[:3])
    next(rows)
    errors = []

    def close():
        try:
            rows.close()
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    for target in (close, lambda: model.logits(OTHERS)):
        thread = threading.Thread(target=target, daemon=True)
        thread.start()
        thread.join(60)
        assert not thread.is_alive() and not errors


# ---- threads ---------------------------------------------------------------------------------------------------------
def test_threads_share_a_text(open_model):
    model = open_model()
    expected = model.generate(IDS[:4], max_tokens=80, temperature=0)
    list(expected)
    text, pieces = model.generate(IDS[:4], max_tokens=80, temperature=0), []
    threads = [threading.Thread(target=lambda: pieces.extend(text)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert text.ids == expected.ids and len(pieces) == len(text.ids)


def test_a_text_is_closed_in_another_thread(open_model):
    model = open_model()
    for _ in range(20):
        text = model.generate(IDS[:4], max_tokens=None, overflow="shift", temperature=1.0, seed=1)
        closer = threading.Timer(0.002, text.close)
        closer.start()
        count = sum(1 for _ in text)
        closer.join()
        assert text.finish_reason == "stop" and count <= len(text.ids)


# ---- forks -----------------------------------------------------------------------------------------------------------
forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


@forks
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("call", [
    "model.logits(ids)", "list(model.generate(ids, max_tokens=5))", "model.embed([ids])", "list(model.fed(ids))",
    "list(model.generate_many([ids, ids[:5]], max_tokens=5))", "model.set_lora()", "traced()",
])  # fmt: skip
def test_a_fork_while_a_thread_computes(call, threads, child, folder):
    """The child can use the model, and what it computes does not depend on the call that is gone."""
    code = (
        FORK
        + f"""
    from ggml.models import load
    model = load(sys.argv[1], n_ctx=96, threads={threads}, kv_type="f32", n_seq=2)
    ids = [9, 8, 7] * 10
    def traced():
        with model.trace("blk.0.out"):
            model.logits(ids)
    expected = model.logits(ids)
    text = model.generate(ids[:4], max_tokens=12, temperature=0)
    list(text)
    def check():
        np.testing.assert_allclose(model.logits(ids), expected, atol=1e-4)
        again = model.generate(ids[:4], max_tokens=12, temperature=0)
        list(again)
        assert again.ids == text.ids
        going.extend(ongoing)
        assert ongoing.ids == text.ids
        with model.edit("blk.0.out", lambda values: values * 2):
            assert np.abs(model.logits(ids) - expected).max() > 1e-3
        model.close()
    end = beside(lambda: {call})
    for _ in range(8):
        going, ongoing = [], model.generate(ids[:4], max_tokens=12, temperature=0)
        going.append(next(ongoing))
        in_child(check)
    end()
    """
    )
    child(code, str(folder / "llama.gguf"), timeout=300)


@forks
def test_a_fork_in_a_filter(child, folder):
    """The thread that forks holds the lock: the child goes on within the call."""
    code = (
        FORK
        + """
    from ggml.models import load
    model = load(sys.argv[1], n_ctx=96, threads=1)
    def fork(ids, logits):
        if len(ids) == 6:
            in_child(lambda: model.logits([5, 6]))
            logits[:] = -np.inf
            logits[50] = 0
    text = model.generate([5, 6, 7], max_tokens=5, temperature=0, logits_filter=fork)
    list(text)
    assert len(text.ids) == 5 and text.ids[3] == 50
    worker = threading.Thread(target=lambda: model.logits([5, 6]), daemon=True)
    worker.start()
    worker.join(60)
    assert not worker.is_alive()
    """
    )
    child(code, str(folder / "llama.gguf"))


# ---- copies ----------------------------------------------------------------------------------------------------------
def test_owners_of_memory_are_not_copied(open_model):
    from ggml.training import Session

    model = open_model()
    expected = model.logits(IDS)
    text, edit = model.generate(IDS[:4], **GREEDY), model.edit("blk.0.out", adds_nothing)
    with Session() as session:
        for owner in (model, text, edit, model.trace("blk.0.out"), model.tokenizer, session, ggml.profile()):
            name = type(owner).__name__
            for make in (copy.copy, copy.deepcopy, pickle.dumps, lambda o: copy.deepcopy([o])):
                with pytest.raises(TypeError, match=f"^{name}: a {name} owns memory and can't be copied or pickled"):
                    make(owner)
    gc.collect()
    np.testing.assert_allclose(model.logits(IDS), expected, atol=1e-5)
