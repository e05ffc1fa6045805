"""Random calls on one language model from many threads; each result must be one that a single thread gets.

    python fuzz/threads.py --seconds 600

Threads set adapters, edit and trace the model, continue each other's texts, drop them, and call the model in filters;
some rounds close it under way. A call computes with the adapters and edits of some moment. Therefore each result is
compared with those of four models of which nobody changes anything: with and without the adapter and the edit; for a
text, token by token. The exit status is 1 if a result equals none of them, an exception is not one that the
documentation allows, or a thread hangs.
"""

import argparse
import faulthandler
import itertools
import json
import random
import re
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import numpy as np

# In place of this folder, whose gguf.py would be imported instead of the package.
sys.path[0] = str(Path(__file__).resolve().parent.parent / "tests")
import tiny_models  # noqa: E402

from ggml.models import load  # noqa: E402

THREADS, CALLS = 8, 25
LIMIT = 600  # seconds for a round, also on a busy machine
KINDS = ("llama", "gemma3", "qwen2", "gpt2")
POINT, EDITED = "blk.0.out", "blk.1.out"
END = 1  # the token that ends a text
SILENT = [0, 2]  # tokens without a text
TOLERANCE = 2e-3
CLOSED = re.compile(r"\w+: the model is closed")
ALLOWED = {  # exceptions that a call may raise because of what other threads do
    "fed": re.compile("fed: another call changed what the sequence holds|fed: .* tokens exceed the context"),
    "feed": re.compile("feed: .* tokens exceed the context"),
    "trace": re.compile("trace: the model is traced already"),
}


class WrongError(Exception):
    """A result that no single thread gets."""


def change(values):
    values *= 1.5


def neutral(values):
    pass


class Models:
    """The models of a kind with which results are compared, by (adapter, edit)."""

    def __init__(self, folder, kind):
        self.path, self.lora = folder / f"{kind}.gguf", folder / f"{kind}-lora.gguf"
        tiny_models.write(self.path, kind)
        tiny_models.write_lora(self.lora, kind)
        self.all = []
        for adapted, edited in itertools.product((False, True), repeat=2):
            model = load(self.path, n_ctx=256, threads=1, kv_type="f32", lora=[self.lora] * adapted)
            if edited:
                model.edit(EDITED, change)
            self.all.append(model)

    def require(self, what, got, compute):
        """Raises unless an array equals what `compute` gives for one of the models."""
        distances = []
        for model in self.all:
            expected = compute(model)
            if got.shape == expected.shape:
                distances.append(float(np.abs(got - expected).max(initial=0)))
                if distances[-1] <= TOLERANCE:
                    return
        raise WrongError(f"{what}: {got.shape}: differs from every state of the model by {distances}")

    def check_text(self, prompt, ids, logprobs, ended, n_ctx, heard=False):
        """Raises unless each token is the best one of one of the models, with its log-probability.

        With `heard`, tokens of SILENT were excluded.
        """
        context = [*prompt, *ids][:n_ctx]
        logits = [model.logits(context) for model in self.all]
        values = [rows - np.log(np.exp(rows.astype(np.float64)).sum(-1, keepdims=True)) for rows in logits]
        best = [np.delete(v, SILENT * heard, axis=1).max(1) for v in values]
        wanted = list(zip([*ids, END], [*logprobs, None])) if ended else list(zip(ids, logprobs))
        for i, (token, logprob) in enumerate(wanted):
            row = len(prompt) - 1 + i
            if row >= len(context):
                break
            if not any(
                v[row, token] >= top[row] - TOLERANCE and (logprob is None or abs(v[row, token] - logprob) <= TOLERANCE)
                for v, top in zip(values, best)
            ):
                raise WrongError(f"text of {prompt}: token {i} of {ids} ({token}, {logprob}): no state chooses it")


class Round:
    """Calls of several threads on one model. `found` gets the checks of their results, which follow at the end."""

    def __init__(self, models, dice):
        self.models = models
        self.n_ctx, self.closes = dice.choice([24, 64, 200]), dice.random() < 0.2
        # states hold keys and values of the adapters of their moment: they are loaded where these do not change
        self.changes = dice.random() < 0.7
        self.model = load(models.path, n_ctx=self.n_ctx, n_seq=dice.choice([1, 2, 4]), threads=dice.choice([1, 1, 2]),
                          kv_type="f32")  # fmt: skip
        self.checks, self.texts, self.errors, self.counts = [], [], [], Counter()
        self.editing = threading.Lock()
        self.calls = {
            "logits": 4, "scores": 2, "embed": 2, "generate": 6, "many": 3, "resume": 4, "feed": 3, "fed": 3,
            "reset": 1, "save": 1, "trace": 2, "set_lora": 2, "edit": 2, "tokens": 1,
        }  # fmt: skip

    def run(self, seeds):
        threads = [threading.Thread(target=self.work, args=(random.Random(seed),), daemon=True) for seed in seeds]
        for thread in threads:
            thread.start()
        if self.closes:
            time.sleep(0.2)
            self.model.close()
        for thread in threads:
            thread.join()
        self.model.close()
        for check in self.checks:
            try:
                check()
            except WrongError as error:
                self.errors.append(str(error))

    def work(self, dice):
        for _ in range(CALLS):
            if not self.call(dice):
                return

    def call(self, dice, nested=False):
        """One random call. Returns false once the model is closed."""
        (name,) = dice.choices(list(self.calls), self.calls.values())
        try:
            getattr(self, name)(dice, nested)
        except RuntimeError as error:
            if self.closes and CLOSED.match(str(error)):
                self.counts["closed"] += 1
                return False
            if not (name in ALLOWED and ALLOWED[name].match(str(error))):
                self.errors.append(traceback.format_exc())
        except ValueError as error:
            if not (name in ALLOWED and ALLOWED[name].match(str(error))):
                self.errors.append(traceback.format_exc())
        except Exception:
            self.errors.append(traceback.format_exc())
        self.counts[name] += 1
        return True

    def ids(self, dice, most=20):
        return [dice.randrange(3, tiny_models.VOCAB) for _ in range(dice.randint(1, most))]

    def later(self, what, got, compute):
        self.checks.append(lambda: self.models.require(what, got, compute))

    # ---- numbers -----------------------------------------------------------------------------------------------------
    def logits(self, dice, nested):
        ids = self.ids(dice)
        self.later("logits", self.model.logits(ids), lambda m: m.logits(ids))

    def scores(self, dice, nested):
        ids = [*self.ids(dice), 5]
        self.later("log_probabilities", self.model.log_probabilities(ids), lambda m: m.log_probabilities(ids))

    def embed(self, dice, nested):
        texts = [self.ids(dice), self.ids(dice)]
        for row, ids in zip(self.model.embed(texts), texts):
            self.later("embed", row, lambda m, ids=ids: m.embed([ids])[0])

    def tokens(self, dice, nested):
        text = "".join(dice.choices("abcdef", k=9))
        if self.model.detokenize(self.model.tokenize(text)) != text or len(self.model.points()) < 5:
            raise WrongError("tokenize: the text is another one")

    # ---- texts -------------------------------------------------------------------------------------------------------
    def settings(self, dice, nested, heard=False):
        """Options of generate. Filters call the model."""

        def callback(ids, logits):
            logits[SILENT * heard] = -np.inf
            if not nested and dice.random() < 0.15:
                self.call(dice, nested=True)

        more = {"logits_filter": callback} if heard or dice.random() < 0.5 else {}
        return {"temperature": 0, "max_tokens": dice.randint(1, 30), "logprobs": 0, **more}

    def check_later(self, text, ended):
        probabilities = [p.logprob for p in text.logprobs]
        arguments = text.prompt_ids, list(text.ids), probabilities, ended, self.n_ctx
        self.checks.append(lambda: self.models.check_text(*arguments))

    def go_on(self, text, dice):
        """Some pieces of a text, which is then kept for another thread, closed, or dropped."""
        pieces = list(itertools.islice(text, dice.choice([1, 3, 100])))
        if text.finish_reason is not None:
            self.check_later(text, text.finish_reason == "stop")
            return
        if len(pieces) == 100:
            raise WrongError("generate: more pieces than tokens were asked for")
        how = dice.randrange(4)
        if how < 2:
            self.texts.append(text)
            return
        self.check_later(text, False)
        if how == 2:
            text.close()

    def generate(self, dice, nested):
        self.go_on(self.model.generate(self.ids(dice), **self.settings(dice, nested)), dice)

    def resume(self, dice, nested):
        try:
            text = self.texts.pop(0)
        except IndexError:
            return
        self.go_on(text, dice)

    def many(self, dice, nested):
        """Pieces of the texts of generate_many are as many tokens."""
        prompts = [self.ids(dice) for _ in range(dice.randint(1, 5))]
        settings = self.settings(dice, nested, heard=True)
        found = [""] * len(prompts)
        pieces = self.model.generate_many(prompts, **settings)
        left = dice.choice([1, 5, 1000])
        for i, piece in itertools.islice(pieces, left):
            found[i] += piece
        if dice.random() < 0.5:
            pieces.close()
        for prompt, text in zip(prompts, found):
            ids = self.model.tokenize(text)
            arguments = prompt, ids, [None] * len(ids), False, self.n_ctx, True
            self.checks.append(lambda arguments=arguments: self.models.check_text(*arguments))

    # ---- sequences ---------------------------------------------------------------------------------------------------
    def check_fed(self, what, ids, rows, sequence):
        """Compares logits with those of what the sequence held, unless another thread has changed it already."""
        held = self.model.held(sequence)
        if held[-len(ids) :] == ids and len(ids) > 3:
            self.later(what, rows, lambda m: m.logits(held)[-len(rows) :])
            self.counts[f"{what} compared"] += 1

    def feed(self, dice, nested):
        ids, sequence = self.ids(dice, 9), dice.randrange(self.model.n_seq)
        self.check_fed("feed", ids, self.model.feed(ids, sequence)[None], sequence)

    def fed(self, dice, nested):
        ids = self.ids(dice, 9)
        rows = self.model.fed(ids)
        found = list(rows) if dice.random() < 0.7 else [next(rows)]
        self.check_fed("fed", ids, np.concatenate(found), 0)

    def reset(self, dice, nested):
        self.model.reset(dice.randint(0, 5), dice.randrange(self.model.n_seq))

    def save(self, dice, nested):
        sequence = dice.randrange(self.model.n_seq)
        state = self.model.save_state(sequence)
        try:
            self.model.load_state(state, dice.randrange(self.model.n_seq))
        except ValueError as error:  # another thread has set an adapter or an edit in between, maybe a neutral one
            if "other adapters or edits" not in str(error):
                raise

    # ---- changes of the model ----------------------------------------------------------------------------------------
    def trace(self, dice, nested):
        ids = self.ids(dice)
        with self.model.trace(POINT) as trace:
            self.model.logits(ids)
        rows, n = trace[POINT], len(ids)  # also those of other threads' tokens

        def nearest(model):
            with model.trace(POINT) as expected:
                model.logits(ids)
            places = [rows[i : i + n] for i in range(len(rows) - n + 1)]
            found = min(places, key=lambda part: np.abs(part - expected[POINT]).max())
            return found - expected[POINT]

        self.later("trace", np.zeros((n, rows.shape[1]), np.float32), nearest)

    def set_lora(self, dice, nested):
        with_adapter = self.changes and dice.random() < 0.5
        self.model.set_lora(*[self.models.lora] * with_adapter)

    def edit(self, dice, nested):
        if not (self.changes and self.editing.acquire(blocking=False)):
            with self.model.edit(POINT, neutral):
                self.logits(dice, nested)
            return
        with ExitStack() as stack:
            stack.callback(self.editing.release)
            stack.enter_context(self.model.edit(EDITED, change))
            self.logits(dice, nested)
            if not nested:
                self.generate(dice, nested)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    sys.setswitchinterval(1e-4)
    counts, rounds, end = Counter(), 0, time.monotonic() + options.seconds
    with tempfile.TemporaryDirectory() as folder:
        kinds = [Models(Path(folder), kind) for kind in KINDS]
        while time.monotonic() < end:
            seed = options.seed + rounds
            faulthandler.dump_traceback_later(LIMIT, exit=True)  # threads that hang are seen in the output
            dice = random.Random(seed)
            one = Round(dice.choice(kinds), dice)
            one.run([dice.randrange(1 << 32) for _ in range(THREADS)])
            counts.update(one.counts)
            counts["results"] += len(one.checks)
            if one.errors:
                print(*one.errors[:5], f"seed {seed}: {len(one.errors)} errors", sep="\n")
                return 1
            rounds += 1
    faulthandler.cancel_dump_traceback_later()
    print(f"{rounds} rounds, {sum(counts[name] for name in one.calls)} calls, no fault:",
          json.dumps(dict(sorted(counts.items())), indent=1))  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
