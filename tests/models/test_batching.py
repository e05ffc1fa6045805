"""Continuous batching: texts begin and end between steps, remembered beginnings, memory that runs out, failures."""

from collections import deque

import numpy as np
import pytest

for library in ("gguf", "tokenizers"):  # of the extra [test]
    pytest.importorskip(library)

import tiny_models  # noqa: E402

from ggml.models import load  # noqa: E402
from ggml.models.generate.batching import Scheduler  # noqa: E402
from ggml.models.run.sequences import common_length  # noqa: E402

GREEDY = {"temperature": 0, "exact": True}


@pytest.fixture(scope="module", params=["llama", "gemma3", "mixtral"])
def path(request, tmp_path_factory):
    return tiny_models.write(tmp_path_factory.mktemp("batching") / "m.gguf", request.param, "Q8_0")


def prompts(count, shared=100):
    begin = [3 + i * 7 % 90 for i in range(shared)]
    ends = ([3 + (i * 13 + j * 5) % 90 for j in range(10 + 9 * i)] for i in range(count))
    return [begin[: shared if i % 2 else 5] + end for i, end in enumerate(ends)]


def alone(path, texts, count):
    with load(path, n_ctx=256) as model:
        found = []
        for ids in texts:
            text = model.generate(ids, max_tokens=count, **GREEDY)
            assert "".join(text) is not None
            found.append(text.ids)
        return found


def test_texts_join_and_leave(path):
    """Each gets the tokens that it gets alone, whatever begins, ends or is closed beside it."""
    asked = prompts(9)
    expected = alone(path, asked, 12)
    with load(path, n_ctx=256, n_seq=3) as model:
        scheduler = Scheduler(model.writer, chunk=32, kept=4)
        texts = [model.generate(ids, max_tokens=12, **GREEDY) for ids in asked]
        waiting, steps = deque(texts), 0
        while waiting or scheduler.active:
            if waiting and scheduler.has_room() and steps % 3 == 0:
                scheduler.start(waiting.popleft())
            before = {text: len(text.ids) for text in scheduler.active.values()}
            assert scheduler.step() == ({}, [])
            assert all(len(text.ids) - count <= 1 for text, count in before.items())
            steps += 1
            if texts[4].ids and texts[4].finish_reason is None:
                texts[4].close()
        assert [text.ids for i, text in enumerate(texts) if i != 4] == expected[:4] + expected[5:]
        assert len(texts[4].ids) < 12 and texts[4].finish_reason == "stop"


def test_a_remembered_beginning_is_not_computed_again(tmp_path):
    path = tiny_models.write(tmp_path / "m.gguf", "llama", "Q8_0")
    asked = prompts(6, 120)
    with load(path, n_ctx=256, n_seq=1) as model:
        scheduler = Scheduler(model.writer, chunk=64, kept=8)
        texts = [model.generate(ids, max_tokens=4, **GREEDY) for ids in [*asked, asked[1]]]
        for text in texts:
            scheduler.start(text)
            while scheduler.active:
                scheduler.step()
        assert [text.cached for text in texts[1:6:2]] == [5, 120, 120]  # less than 16 equal ones are not taken over
        assert texts[6].cached == len(asked[1]) - 1 and texts[6].ids == texts[1].ids
        scheduler.forget()
        again = model.generate(asked[3], max_tokens=4, **GREEDY)
        scheduler.start(again)
        while scheduler.active:
            scheduler.step()
        assert again.cached == 120 and again.ids == texts[3].ids  # of what the sequence still holds


@pytest.mark.parametrize("kind", ["llama", "gemma3"])
def test_what_is_remembered_is_not_taken_over_after_a_change(kind, tmp_path):
    """Its keys and values are those of the weights before."""
    path, lora = tiny_models.write(tmp_path / "m.gguf", kind), tiny_models.write_lora(tmp_path / "a.gguf", kind)
    asked = prompts(2)[1]
    with load(path, n_ctx=256, lora=[lora], kv_type="f32") as model:
        expected = model.logits(asked)[-1]
    with load(path, n_ctx=256, kv_type="f32") as model:
        scheduler = Scheduler(model.writer, kept=8)
        scheduler.start(model.generate(asked, max_tokens=2, **GREEDY))
        while scheduler.active:
            scheduler.step()
        before = model.logits(asked)[-1]
        model.set_lora(lora)
        text = model.generate(asked, max_tokens=1, temperature=0, logprobs=3)
        list(text)
        assert text.cached == 0
        log = expected - np.log(np.exp(expected.astype(np.float64)).sum())
        assert text.logprobs[0].logprob == pytest.approx(log.max(), abs=1e-4)
        assert abs(expected - before).max() > 0.01


def test_the_youngest_is_put_back_where_memory_runs_out(path):
    """Room for 256 tokens, three texts of up to 130: they end one after another, each with the tokens of one alone."""
    asked = [[3 + (i * 31 + j * 7) % 90 for j in range(90)] for i in range(3)]
    expected = alone(path, asked, 40)
    with load(path, n_ctx=256, n_seq=3) as model:
        model.runner.memory.limit(256)
        scheduler, back = Scheduler(model.writer, chunk=64, kept=2), []
        texts = [model.generate(ids, max_tokens=40, **GREEDY) for ids in asked]
        waiting = deque(texts)
        while waiting or scheduler.active:
            while waiting and scheduler.has_room():
                scheduler.start(waiting.popleft())
            failed, put_back = scheduler.step()
            assert not failed
            waiting.extendleft(put_back)
            back += put_back
        assert [text.ids for text in texts] == expected
        if not model.config.window:  # pages before a window are free again
            assert texts[2] in back and texts[0] not in back
        scheduler.forget()
        together = model.generate_many(asked, max_tokens=40, **GREEDY)
        assert sum(1 for _ in together) and [text.ids for text in together.texts] == expected


def test_a_failure_is_that_of_one_text(path):
    def fail(ids, logits):
        if len(ids) > 14:
            raise ArithmeticError("of the filter")

    asked = prompts(2, 5)
    expected = alone(path, asked, 12)
    with load(path, n_ctx=256, n_seq=3) as model:
        scheduler = Scheduler(model.writer)
        texts = [model.generate(ids, max_tokens=12, **GREEDY) for ids in asked]
        bad = model.generate(asked[0], max_tokens=12, logits_filter=fail)
        for text in (*texts, bad):
            scheduler.start(text)
        failures = {}
        while scheduler.active:
            failures |= scheduler.step()[0]
        assert list(failures) == [bad] and str(failures[bad]) == "of the filter"
        assert [text.ids for text in texts] == expected
        with pytest.raises(ArithmeticError, match="of the filter"):
            list(model.generate(asked[0], max_tokens=12, logits_filter=fail))


def test_common_lengths():
    for a, b, expected in (([], [1], 0), ([1, 2, 3], [1, 2, 3], 3), ([1, 2, 3, 4], [1, 2, 9, 4], 2), ([2], [1], 0),
                           (list(range(99)), list(range(70)), 70), ([1, 2], [1, 2, 3], 2)):  # fmt: skip
        assert common_length(a, b) == common_length(b, a) == expected
