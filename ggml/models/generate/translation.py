"""Texts of models with an encoder, which reads the prompt, and a decoder, which writes."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Generator, Sequence

from ..._errors import named
from ..run.encoder_decoder import Decoding
from ..run.lora import Lora
from ..run.runner import Runner
from ..run.whole_texts import states_of
from ..sample.chain import Sampler
from .prompts import Prompts
from .text import Generation


class Translating:
    """Writes texts of such a model; see Generating, whose place it takes for their Generation."""

    def __init__(self, runner: Runner, prompts: Prompts) -> None:
        self.runner, self.prompts = runner, prompts
        # with the adapters that were in use
        self._decodings: weakref.WeakKeyDictionary[Generation, tuple[Decoding, list[Lora]]] = (
            weakref.WeakKeyDictionary()
        )

    def text(
        self, ids: Sequence[int], sampler: Sampler, max_tokens: int | None, stop: Sequence[str], overflow: str,
        logprobs: int | None,
    ) -> Generation:  # fmt: skip
        """The text that is written while a prompt is read; see Generating.generate."""
        if overflow == "shift":
            raise ValueError("generate: overflow is 'shift': need 'stop' or 'error' for a model with an encoder")
        start = self.runner.config.own["decoder_start"]
        text = Generation(self, [start], sampler, max_tokens, stop, overflow, logprobs)
        text.prompt_ids = list(ids)
        return text

    def advance(self, texts: Sequence[Generation]) -> dict[Generation, Exception]:
        """Gives each of some texts its next token; none fails alone."""
        for text in texts:
            self.runner.check("generate")
            if len(text.context) > self.runner.n_ctx:
                text.close()
                raise RuntimeError(
                    f"generate: the context of {self.runner.n_ctx} tokens is full: generate with overflow='stop'"
                )
            decoding = self._decoding(text)
            # a filter may call the model: the logits are kept before the token is chosen
            logits = decoding.append(text.context[len(decoding.ids) :])[-1].copy()
            text.accept(logits)
            if text.finish_reason is not None:
                self._decodings.pop(text)[0].close()
        return {}

    def together(self, texts: Sequence[Generation]) -> Generator[tuple[int, str], None, None]:
        """Pieces of several texts, up to n_seq of which are written in turns; see Generating.decode_together."""
        waiting, active = deque(enumerate(texts)), list[tuple[int, Generation]]()
        while waiting or active:
            while waiting and len(active) < self.runner.n_seq:
                active.append(waiting.popleft())
            for index, text in active:
                if text.finish_reason is None:
                    with self.runner.lock:
                        self.advance([text])
                while text.pending:
                    yield index, text.pending.pop(0)
            active = [item for item in active if item[1].finish_reason is None]

    def _decoding(self, text: Generation) -> Decoding:
        """The decoder of a text: a new one at its beginning, and after a change of the adapters."""
        decoding, loras = self._decodings.get(text, (None, None))
        if decoding is None or loras is not self.runner.loras:
            if decoding is not None:
                decoding.close()
            states = states_of(self.runner, [text.prompt_ids])[0]
            with named("generate"):
                decoding = Decoding(self.runner.parts(), states, self.runner.threads)
            self._decodings[text] = decoding, self.runner.loras
        return decoding
