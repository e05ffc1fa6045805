"""Texts of models with an encoder, which reads the prompt, and a decoder, which writes."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Sequence

from ..run.decodings import Decodings
from ..run.runner import Runner
from ..sample.chain import Sampler
from .prompts import Prompts
from .text import Generation


class Translating:
    """Writes texts of such a model; see Generating, whose place it takes for their Generation."""

    def __init__(self, runner: Runner, prompts: Prompts) -> None:
        self.runner, self.prompts = runner, prompts

    def text(
        self, ids: Sequence[int], sampler: Sampler, max_tokens: int | None, stop: Sequence[str], overflow: str,
        logprobs: int | None, adapter: str | None,
    ) -> Generation:  # fmt: skip
        """The text that is written while a prompt is read; see Generating.generate."""
        if overflow == "shift":
            raise ValueError("generate: overflow is 'shift': need 'stop' or 'error' for a model with an encoder")
        start = self.runner.config.own["decoder_start"]
        text = Generation(self, [start], sampler, max_tokens, stop, overflow, logprobs)
        text.prompt_ids, text.adapter = list(ids), adapter
        return text

    def advance(self, texts: Sequence[Generation]) -> dict[Generation, Exception]:
        """Gives each of some texts its next token, in one step where they have the same adapter; none fails alone."""
        self.runner.check("generate")
        sequences = self.runner.decodings
        assert sequences is not None
        new = [text for text in texts if text.cached is None]
        for text in new:
            text.cached = 0 if sequences.knows(text.prompt_ids, text.adapter) is None else len(text.prompt_ids)
        asked, readings = [], sequences.read([(text.prompt_ids, text.adapter) for text in new])
        for text in texts:
            if len(text.context) > self.runner.n_ctx:
                text.close()
                raise RuntimeError(
                    f"generate: the context of {self.runner.n_ctx} tokens is full: generate with overflow='stop'"
                )
            lacking = self._lacking(sequences, text)
            assert text.sequence is not None and (held := sequences.items[text.sequence]) is not None
            asked.append((held, lacking))
        del readings  # the sequences have them
        # a filter may call the model: all logits are kept before a token is chosen
        for text, logits in zip(texts, sequences.append(asked), strict=True):
            text.accept(logits)
        return {}

    def together(self, texts: Sequence[Generation]) -> Generator[tuple[int, str], None, None]:
        """Pieces of several texts, up to n_seq of which are written together; see Generating.decode_together."""
        waiting, active = deque(enumerate(texts)), list[tuple[int, Generation]]()
        while waiting or active:
            while waiting and len(active) < self.runner.n_seq:
                active.append(waiting.popleft())
            with self.runner.lock:
                if going := [text for _, text in active if text.finish_reason is None]:
                    self.advance(going)
            for index, text in active:
                while text.pending:
                    yield index, text.pending.pop(0)
            active = [item for item in active if item[1].finish_reason is None]

    def _lacking(self, sequences: Decodings, text: Generation) -> list[int]:
        """Gives a text a sequence; returns the tokens that it lacks."""
        read, adapter = text.prompt_ids, text.adapter
        if text.sequence is None:
            text.sequence = sequences.free(read, adapter)
        sequences.claim(text.sequence, text)
        return sequences.prepare(text.sequence, read, text.context, adapter)
