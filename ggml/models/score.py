"""Numbers: logits, probabilities, perplexity, embeddings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._errors import named
from .arch import heads, text_of
from .generate.prompts import Prompts
from .run.batch import Batch, Piece
from .run.decoder import STEP
from .run.decodings import Decodings
from .run.heads import head_of
from .run.runner import Runner
from .run.whole_texts import normalized, states_of
from .sample.chain import log_softmax


class Scoring:
    """Numbers of texts; see Model."""

    def __init__(self, runner: Runner, prompts: Prompts) -> None:
        self.runner, self.prompts = runner, prompts

    def logits(
        self, ids: str | bytes | Sequence[int], *, exact: bool = False, decoder: Sequence[int] | None = None
    ) -> np.ndarray:
        """Evaluates tokens from the beginning.

        Args:
            ids: token ids or text, at most n_ctx tokens.
            exact: True for logits whose bits are those that `generate` with exact=True sees.
            decoder: of a model with an encoder, which reads ids, and a decoder, the token ids that the latter
                continues, the first of which is that with which its texts begin (`config.own["decoder_start"]`).
        Returns:
            f32 [n_tokens, n_vocab]: row i scores the token that follows token i.
        Raises:
            TypeError, ValueError: the tokens are of the wrong kind, out of range, or too many.
            RuntimeError: the model is closed.
        """
        with self.runner.lock:
            if self.runner.decodings is not None:
                read, tokens = self._pair("logits", ids, decoder)
                return self.runner.decodings.begun(0, read).append(tokens).copy()
            self.runner.causal("logits")
            if decoder is not None:
                raise ValueError("logits: decoder is given: the model has no encoder beside it")
            batch = self._from_start("logits", self.prompts.ids("logits", ids))
            return self.runner.decode(batch, exact).copy()

    def _pair(
        self, caller: str, ids: str | bytes | Sequence[int], decoder: str | bytes | Sequence[int] | None
    ) -> tuple[list[int], list[int]]:
        """The tokens that the encoder reads, and those that the decoder continues."""
        self.runner.check(caller)
        if decoder is None:
            raise ValueError(f"{caller}: decoder is missing: need the tokens that the decoder continues")
        tokens, read = self.prompts.ids(caller, decoder), self.prompts.ids(caller, ids)
        for part in (read, tokens):
            self.runner.check_room(caller, 0, len(part))
        return read, tokens

    def _log_probabilities_of_decoder(
        self, sequences: Decodings, read: Sequence[int], tokens: Sequence[int]
    ) -> np.ndarray:
        """How likely each of the decoder's tokens but the first is after those before it: f64 [tokens - 1]."""
        values = log_softmax(sequences.begun(0, read).append(tokens)[:-1])
        return values[np.arange(len(values)), tokens[1:]]

    def _from_start(self, caller: str, ids: Sequence[int]) -> Batch:
        """The batch that evaluates ids in the first sequence, from its beginning."""
        sequences = self.runner.causal(caller)
        sequences.memory.shorten(sequences.claim(0, None), 0)
        self.runner.check_room(caller, 0, len(ids))
        batch = Batch()
        batch.add(0, ids, len(ids))
        return batch

    def log_probabilities(
        self, ids: str | bytes | Sequence[int], *, decoder: str | bytes | Sequence[int] | None = None
    ) -> np.ndarray:
        """How likely each token is after those before it.

        Args:
            ids: token ids or text, at most n_ctx tokens.
            decoder: of a model with an encoder, which reads ids, and a decoder, the text of the latter, whose tokens
                they are; its first token is that with which texts begin (`config.own["decoder_start"]`).
        Returns:
            f64 [n_tokens - 1]: natural logarithms of the probabilities of the second and all further tokens.
        Raises:
            TypeError, ValueError, RuntimeError: as logits.
        """
        with self.runner.lock:
            if self.runner.decodings is not None:
                pair = self._pair("log_probabilities", ids, decoder)
                return self._log_probabilities_of_decoder(self.runner.decodings, *pair)
            self.runner.causal("log_probabilities")
            if decoder is not None:
                raise ValueError("log_probabilities: decoder is given: the model has no encoder beside it")
            tokens = self.prompts.ids("log_probabilities", ids)
            if min(tokens) < 0:
                raise ValueError("log_probabilities: the tokens of pictures have no probabilities: need ids alone")
            out, row = np.empty(len(tokens)), 0
            targets = np.array([*tokens[1:], 0])
            batch = self._from_start("log_probabilities", tokens)
            sequences, computes = self.runner.causal("log_probabilities"), self.runner.decoder
            assert computes is not None
            for step, _ in computes.steps(batch.pieces, sequences.items, "scores"):
                probabilities, best = step.extra
                rows = np.arange(len(step.out))
                best = best.reshape(-1)
                wanted = targets[row : row + len(rows)]
                # log p[wanted] = logit[wanted] - logit[best] + log p[best], where p[best] is never 0
                difference = step.out[rows, wanted].astype(np.float64) - step.out[rows, best]
                out[row : row + len(rows)] = difference + np.log(probabilities.reshape(step.out.shape)[rows, best])
                row += len(rows)
            return out[:-1]

    def perplexity(
        self,
        text: str | bytes | Sequence[int],
        *,
        decoder: str | bytes | Sequence[int] | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> float:
        """The perplexity of a text: exp of the mean negative log-probability of its tokens.

        A text longer than the context is evaluated in windows of n_ctx tokens that overlap by half: each token is
        scored once, with at least n_ctx / 2 tokens before it (except in the first window).

        Args:
            text: text or token ids, at least two tokens.
            decoder: as for log_probabilities, at least two tokens; both texts fit into the context.
            progress: called with the numbers of tokens that are scored and that there are.
        Returns:
            The perplexity.
        Raises:
            TypeError, ValueError, RuntimeError: as logits.
        """
        with self.runner.lock:
            if self.runner.decodings is not None:
                pair = self._pair("perplexity", text, decoder)
                if len(pair[1]) < 2:
                    raise ValueError("perplexity: the decoder's text has one token: need at least two")
                found = self._log_probabilities_of_decoder(self.runner.decodings, *pair)
                return float(np.exp(-found.mean()))
        self.runner.causal("perplexity")
        if decoder is not None:
            raise ValueError("perplexity: decoder is given: the model has no encoder beside it")
        ids = self.prompts.ids("perplexity", text)
        if len(ids) < 2 or self.runner.n_ctx < 2:
            raise ValueError(f"perplexity: {len(ids)} tokens, n_ctx {self.runner.n_ctx}: need at least two of each")
        total, scored, start = 0.0, 1, 0
        while scored < len(ids):
            window = ids[start : start + self.runner.n_ctx]
            new = start + len(window) - scored
            total -= float(self.log_probabilities(window)[-new:].sum())
            scored += new
            start += max(1, self.runner.n_ctx // 2)
            if progress is not None:
                progress(scored, len(ids))
        return float(np.exp(total / (len(ids) - 1)))


class Embedding:
    """Embeddings of texts; see Model."""

    def __init__(self, runner: Runner, prompts: Prompts) -> None:
        self.runner, self.prompts = runner, prompts

    def embed(
        self,
        texts: str | Sequence[str | bytes | Sequence[int]],
        *,
        pooling: str | None = None,
        normalize: bool = False,
        adapter: str | None = None,
    ) -> Any:
        """Embeds texts: the state after the last norm, pooled over the tokens of each text.

        Dense layers that the file has are applied to what is pooled.

        Args:
            texts: texts or lists of token ids; several are computed together.
            pooling: "mean", "cls" (first token), "last", or "none" for the states of all tokens; None for what the file
                says, and the mean if it does not.
            normalize: True to scale each embedding to Euclidean length 1.
            adapter: name of an adapter (see add_adapter) that these texts have beside those of all texts.
        Returns:
            f32 [n_texts, n_embd]; for "none" a list of f32 [n_tokens, n_embd].
        Raises:
            TypeError, ValueError: a text is empty or too long, or an argument is of the wrong kind.
            RuntimeError: the model is closed.
        """
        self.runner.check("embed")
        self.runner.check_adapter("embed", adapter)
        if isinstance(texts, (str, bytes)):
            raise TypeError("embed: need a list of texts, a single text was given")
        config = self.runner.config
        kind = pooling or heads.pooling_of(config)
        if kind not in ("mean", "cls", "last", "none"):
            raise ValueError(f"embed: pooling is {pooling!r}: need 'mean', 'cls', 'last' or 'none'")
        rows = self.embedded("embed", texts, kind, adapter)
        if isinstance(rows, list):
            return [normalized(row) for row in rows] if normalize else rows
        return normalized(rows) if normalize else rows

    def embedded(
        self, caller: str, texts: Sequence[str | bytes | Sequence[int]], kind: str, adapter: str | None = None
    ) -> Any:
        """The embeddings of texts, [n_texts, width]; for the kind "none" a list of [tokens, C]."""
        config = self.runner.config
        tokens = [text_of(config, self.prompts.ids(caller, text)) for text in texts]
        rows = self.in_order(caller, tokens, None, kind, adapter)
        if kind == "none":
            return rows
        out = np.array(rows, np.float32).reshape(len(tokens), config.n_embd)
        return self._dense(caller, out, adapter)

    def _dense(self, caller: str, rows: np.ndarray, adapter: str | None = None) -> np.ndarray:
        """Applies the dense layers that the file has to pooled states [n, C]."""
        if not len(rows) or not heads.has_dense(self.runner.weights):
            return rows
        with self.runner.lock, named(caller):
            self.runner.check_undivided(caller)
            return head_of(self.runner.parts(), heads.dense, rows, self.runner.threads, adapter)

    def finished(self, caller: str, states: np.ndarray, kind: str) -> np.ndarray:
        """The embedding [C] of a text of the states [tokens, C] of its tokens."""
        return self._dense(caller, pooled(states, kind)[None])[0]

    def in_order(
        self,
        caller: str,
        texts: Sequence[Sequence[int]],
        types: Sequence[Sequence[int]] | None,
        kind: str = "none",
        adapter: str | None = None,
    ) -> list[np.ndarray]:
        """The states of texts after the last norm: [C], pooled; for the kind "none" [tokens, C]."""
        longest = max(map(len, texts), default=0)
        if longest > self.runner.n_ctx:
            raise ValueError(f"{caller}: a text has {longest} tokens, the context {self.runner.n_ctx} (n_ctx)")
        out: list[np.ndarray] = [np.empty(0)] * len(texts)
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        while order:  # texts of similar length, of about STEP tokens in all
            group = [order.pop() for _ in range(min(len(order), max(1, STEP // len(texts[order[-1]]))))]
            with self.runner.lock:
                self.runner.check(caller)
                found = self.states([texts[i] for i in group], types and [types[i] for i in group], adapter)
                for i, rows in zip(group, found, strict=True):
                    out[i] = pooled(rows, kind)
        return out

    def states(
        self,
        texts: Sequence[Sequence[int]],
        types: Sequence[Sequence[int]] | None = None,
        adapter: str | None = None,
    ) -> list[np.ndarray]:
        """The states [tokens, C] of texts after the last norm."""
        decoder = self.runner.decoder
        if decoder is None:
            return states_of(self.runner, texts, types, adapter)
        ends = np.cumsum([len(text) for text in texts])
        pieces = [Piece(i, text, len(text), int(ends[i]) - len(text)) for i, text in enumerate(texts)]
        items = [decoder.memory.new() for _ in texts]
        for held in items:
            held.adapter = adapter
        states = decoder.results(pieces, items, "hidden")
        return np.split(states, ends[:-1])


def pooled(states: np.ndarray, kind: str) -> np.ndarray:
    """One state of those of the tokens, [C] of [tokens, C]; for the kind "none" a copy of all."""
    if kind == "none":
        return states.copy()
    return states.mean(0) if kind == "mean" else states[0 if kind == "cls" else -1].copy()
