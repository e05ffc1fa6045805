"""Texts: tokens, completions, conversations."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any

import numpy as np

from ..run.batch import Batch
from ..run.decoder import STEP
from ..run.runner import Runner
from ..run.sequences import WORTHWHILE, Sequences, common_length
from ..sample.chain import SETTINGS, Sampler, file_settings
from ..sample.constraint import KINDS, constrained
from .prompts import Prompts
from .text import Generation, Generations, check_options, stop_strings


class Generating:
    """Writes texts; see Model."""

    def __init__(self, runner: Runner, prompts: Prompts) -> None:
        self.runner, self.prompts = runner, prompts

    def advance(self, texts: Sequence[Generation]) -> None:
        """Computes once for several texts together: each gets its next token, or a further part of its prompt.

        A prompt of which another text is about to compute the beginning waits for it.
        """
        with self.runner.lock:
            sequences = self.runner.causal("generate")
            room = STEP if len(texts) > 1 else self.runner.n_ctx
            lacking = [(text, self._lacking(sequences, text)) for text in texts]
            lacking.sort(key=lambda item: len(item[1]))
            batch, rows = Batch(), {}
            prompts: list[list[int]] = []
            for text, tokens in lacking:
                some = tokens[:room]
                worthwhile = len(text.context) - len(tokens) + WORTHWHILE
                if not some or any(common_length(text.context, other) >= worthwhile for other in prompts):
                    continue
                if len(some) >= WORTHWHILE:
                    prompts.append(text.context)
                room -= len(some)
                wanted = len(some) == len(tokens)
                assert text.sequence is not None
                place = batch.add(text.sequence, some, int(wanted))
                if wanted:
                    rows[place.start] = text
            # a filter may call the model: all logits are kept before the first token is chosen
            logits = self.runner.decode(batch, any(text.exact for text in texts)).copy()
            for row, text in rows.items():
                if text.finish_reason is None:
                    text.accept(logits[row])

    def _lacking(self, sequences: Sequences, text: Generation) -> list[int]:
        """Gives a text a sequence; returns the tokens that it lacks."""
        if len(text.context) > self.runner.n_ctx:
            if text.overflow == "error":
                text.close()
                raise RuntimeError(
                    f"generate: the context of {self.runner.n_ctx} tokens is full: load the model with a larger "
                    "n_ctx, or generate with overflow='stop' or 'shift'"
                )
            dropped = max(1, len(text.context) - self.runner.n_ctx // 2)
            text.context[:] = text.context[:1] + text.context[dropped:]
        if text.sequence is None:
            text.sequence = sequences.free(text.context)
        sequences.claim(text.sequence, text)
        return sequences.lacking(text.sequence, text.context, text.exact)

    def generate(
        self,
        prompt: str | bytes | Sequence[int],
        *,
        max_tokens: int | None = 256,
        stop: str | Sequence[str] | None = None,
        seed: int | None = None,
        overflow: str = "stop",
        logprobs: int | None = None,
        exact: bool = False,
        **settings: Any,
    ) -> Generation:
        """Continues a text.

        A prompt that begins like what was computed last is evaluated from where they differ.

        Args:
            prompt: text or token ids.
            max_tokens: most tokens to generate; None for no limit.
            stop: strings before which the text ends.
            seed: seed of the random numbers; None for a new one.
            overflow: what to do when the context is full: "stop" ends the text, "shift" drops the older half of the
                tokens (except the first) and goes on, "error" raises.
            logprobs: number of alternatives whose log-probabilities are kept for each token, see Generation.
            exact: True for logits whose bits depend on nothing but the text: not on what is computed at the same time,
                nor on what is known of the prompt. It takes longer, see docs/models.md.
            settings: those of Sampler, such as temperature, top_k, top_p, min_p, repeat_penalty, logits_filter or
                logit_bias; temperature 0 takes the most likely token. Where None or none is given, that of the file
                (`general.sampling.*`), else that of Sampler. One of these limits the text to a language, which needs
                the extra `llm`: json=True for an object, json_schema (a dict, JSON, or a class of pydantic), regex,
                grammar (GBNF or Lark), choices (a list of texts).
        Returns:
            Generation: an iterator over pieces of text, without the prompt.
        Raises:
            TypeError: an argument is of the wrong kind, or there is none of this name.
            ValueError: an option is out of range, a language cannot be parsed or has something that is not supported,
                or the prompt is empty or longer than the context.
            RuntimeError: the model is closed; from the iterator also: the context is full and overflow is "error".
        """
        sampler = self.sampler("generate", seed=seed, **settings)
        return self.generation("generate", prompt, sampler, max_tokens, stop, overflow, logprobs, exact=exact)

    def sampler(self, caller: str, **settings: Any) -> Sampler:
        """A sampler with some settings; the others are those that the file recommends."""
        languages = {name: settings.pop(name) for name in KINDS if name in settings}
        unknown = [name for name in settings if name not in SETTINGS]
        if unknown:
            raise TypeError(f"{caller}: there is no argument {unknown[0]!r}")
        self.runner.check(caller)
        given = {name: value for name, value in settings.items() if value is not None}
        chosen = {**file_settings(self.runner.metadata), **given}
        if self.runner.comm is not None and chosen.get("seed") is None:  # all ranks draw the same tokens
            chosen["seed"] = int(self.runner.comm.share(np.array(np.random.default_rng().integers(1 << 62))))
        if (chosen.get("dry_multiplier") or chosen.get("samplers")) and self.prompts.has_vocabulary():
            chosen.setdefault("tokenizer", self.prompts.tokenizer)
        if any(value is not None for value in languages.values()):
            chosen["constraint"] = constrained(caller, self.prompts.tokenizer, languages)
        return Sampler(**chosen)

    def generation(
        self,
        caller: str,
        prompt: str | bytes | Sequence[int],
        sampler: Sampler,
        max_tokens: int | None,
        stop: str | Sequence[str] | None,
        overflow: str,
        logprobs: int | None,
        special: bool = False,
        exact: bool = False,
    ) -> Generation:
        self.runner.causal(caller)
        check_options(max_tokens, overflow, logprobs)
        ids = self.prompts.ids(caller, prompt, special)
        if len(ids) > self.runner.n_ctx:
            raise ValueError(f"{caller}: the prompt has {len(ids)} tokens, the context {self.runner.n_ctx} (n_ctx)")
        return Generation(self, ids, sampler, max_tokens, stop_strings(stop), overflow, logprobs, exact)

    def chat(self, messages: Sequence[Mapping[str, str]], **options: Any) -> Generation:
        """Answers a conversation, which the file's template turns into a prompt.

        Args:
            messages: dicts with "role" ("system", "user" or "assistant") and "content", the oldest first.
            options: those of generate.
        Returns:
            Generation: an iterator over pieces of the answer.
        Raises:
            ValueError: the file has no template, or the template refuses the messages.
            TypeError, RuntimeError: as generate.
        """
        self.runner.causal("chat")
        from ..chat.template import ChatTemplate

        template = ChatTemplate(self.runner.metadata, self.prompts.tokenizer)
        return self.generate(template.tokens(messages, add_generation_prompt=True), **options)

    def generate_many(
        self, prompts: Sequence[str | bytes | Sequence[int]], *, seed: int | None = None, **options: Any
    ) -> Generations:
        """Continues several texts at the same time, up to n_seq of them together.

        Args:
            prompts: texts or lists of token ids.
            seed: seed of the first text; the next ones get the numbers that follow.
            options: those of generate.
        Returns:
            Generations: an iterator over pairs of a prompt's index and a piece of its text; `texts` has more of each.
        Raises:
            TypeError, ValueError, RuntimeError: as generate.
        """
        texts = [
            self.generate(prompt, seed=seed + i if i and seed is not None else seed, **options)
            for i, prompt in enumerate(prompts)
        ]
        return Generations(texts, self.decode_together(texts))

    def decode_together(self, texts: list[Generation]) -> Generator[tuple[int, str], None, None]:
        """Pieces of several texts: each waits for a free sequence, then goes on with the others."""
        waiting = list(range(len(texts)))[::-1]
        active: dict[int, int] = {}  # sequence: index of the text
        try:
            while waiting or active:
                with self.runner.lock:
                    for sequence in range(self.runner.n_seq):
                        while waiting and sequence not in active:
                            index = waiting.pop()
                            if texts[index].finish_reason is None:
                                texts[index].sequence = sequence
                                active[sequence] = index
                    if active:
                        self.advance([texts[index] for index in active.values()])
                for index, text in enumerate(texts):
                    while text.pending:
                        yield index, text.pending.pop(0)
                active = {s: index for s, index in active.items() if texts[index].finish_reason is None}
        finally:
            for text in texts:
                text.close()

