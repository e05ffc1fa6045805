"""Numbers: logits, probabilities, perplexity, embeddings."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .generate.prompts import Prompts
from .run.batch import Batch, Piece
from .run.decoder import STEP
from .run.runner import Runner


class Scoring:
    """Numbers of texts; see Model."""

    def __init__(self, runner: Runner, prompts: Prompts) -> None:
        self.runner, self.prompts = runner, prompts

    def logits(self, ids: str | bytes | Sequence[int], *, exact: bool = False) -> np.ndarray:
        """Evaluates tokens from the beginning.

        Args:
            ids: token ids or text, at most n_ctx tokens.
            exact: True for logits whose bits are those that `generate` with exact=True sees.
        Returns:
            f32 [n_tokens, n_vocab]: row i scores the token that follows token i.
        Raises:
            TypeError, ValueError: the tokens are of the wrong kind, out of range, or too many.
            RuntimeError: the model is closed.
        """
        with self.runner.lock:
            self.runner.causal("logits")
            batch = self._from_start("logits", self.prompts.ids("logits", ids))
            return self.runner.decode(batch, exact).copy()

    def _from_start(self, caller: str, ids: Sequence[int]) -> Batch:
        """The batch that evaluates ids in the first sequence, from its beginning."""
        sequences = self.runner.causal(caller)
        sequences.memory.shorten(sequences.claim(0, None), 0)
        self.runner.check_room(caller, 0, len(ids))
        batch = Batch()
        batch.add(0, ids, len(ids))
        return batch

    def log_probabilities(self, ids: str | bytes | Sequence[int]) -> np.ndarray:
        """How likely each token is after those before it.

        Args:
            ids: token ids or text, at most n_ctx tokens.
        Returns:
            f64 [n_tokens - 1]: natural logarithms of the probabilities of the second and all further tokens.
        Raises:
            TypeError, ValueError, RuntimeError: as logits.
        """
        with self.runner.lock:
            self.runner.causal("log_probabilities")
            tokens = self.prompts.ids("log_probabilities", ids)
            out, row = np.empty(len(tokens)), 0
            targets = np.array([*tokens[1:], 0])
            batch = self._from_start("log_probabilities", tokens)
            sequences, decoder = self.runner.causal("log_probabilities"), self.runner.decoder
            assert decoder is not None
            for step, _ in decoder.steps(batch.pieces, sequences.items, "scores"):
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
        self, text: str | bytes | Sequence[int], *, progress: Callable[[int, int], None] | None = None
    ) -> float:
        """The perplexity of a text: exp of the mean negative log-probability of its tokens.

        A text longer than the context is evaluated in windows of n_ctx tokens that overlap by half: each token is
        scored once, with at least n_ctx / 2 tokens before it (except in the first window).

        Args:
            text: text or token ids, at least two tokens.
            progress: called with the numbers of tokens that are scored and that there are.
        Returns:
            The perplexity.
        Raises:
            TypeError, ValueError, RuntimeError: as logits.
        """
        self.runner.causal("perplexity")
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
        self, texts: str | Sequence[str | bytes | Sequence[int]], *, pooling: str | None = None, normalize: bool = False
    ) -> np.ndarray:
        """Embeds texts: the state after the last norm, pooled over the tokens of each text.

        Args:
            texts: texts or lists of token ids; several are computed together.
            pooling: "mean", "cls" (first token) or "last"; None for what the file says, and the mean if it does not.
            normalize: True to scale each embedding to Euclidean length 1.
        Returns:
            f32 [n_texts, n_embd].
        Raises:
            TypeError, ValueError: a text is empty or too long, or an argument is of the wrong kind.
            RuntimeError: the model is closed.
        """
        self.runner.check("embed")
        if isinstance(texts, (str, bytes)):
            raise TypeError("embed: need a list of texts, a single text was given")
        kind = pooling or ("mean" if self.runner.config.pooling == "none" else self.runner.config.pooling)
        if kind not in ("mean", "cls", "last"):
            raise ValueError(f"embed: pooling is {pooling!r}: need 'mean', 'cls' or 'last'")
        tokens = [self.prompts.ids("embed", text) for text in texts]
        longest = max(map(len, tokens), default=0)
        if longest > self.runner.n_ctx:
            raise ValueError(f"embed: a text has {longest} tokens, the context {self.runner.n_ctx} (n_ctx)")
        out = np.empty((len(tokens), self.runner.config.n_embd), np.float32)
        order = sorted(range(len(tokens)), key=lambda i: len(tokens[i]))
        while order:  # texts of similar length, of about STEP tokens in all
            group = [order.pop() for _ in range(min(len(order), max(1, STEP // len(tokens[order[-1]]))))]
            with self.runner.lock:
                self.runner.check("embed")
                for i, rows in zip(group, self.states([tokens[i] for i in group]), strict=True):
                    out[i] = rows.mean(0) if kind == "mean" else rows[0 if kind == "cls" else -1]
        if normalize:
            out /= np.maximum(np.linalg.norm(out, axis=1, keepdims=True), 1e-12)
        return out

    def states(self, texts: Sequence[Sequence[int]]) -> list[np.ndarray]:
        """The states [tokens, C] of texts after the last norm."""
        decoder = self.runner.decoder
        if decoder is None:
            return self._states_of_whole_texts(texts)
        ends = np.cumsum([len(text) for text in texts])
        pieces = [Piece(i, text, len(text), int(ends[i]) - len(text)) for i, text in enumerate(texts)]
        states = decoder.results(pieces, [decoder.memory.new() for _ in texts], "hidden")
        return np.split(states, ends[:-1])

    def _states_of_whole_texts(self, texts: Sequence[Sequence[int]]) -> list[np.ndarray]:
        """Of a model whose tokens see those after them: texts are padded to the longest one; views of the graph."""
        length = min(-(-max(map(len, texts)) // 8) * 8, self.runner.n_ctx)
        step = self.runner.texts_graph(length, len(texts))
        step.ids[:] = 0
        step.positions[:] = np.tile(np.arange(length), len(texts))
        position = np.arange(length)
        for local, mask in step.masks.items():
            config, distance = self.runner.config, position[:, None] - position
            seen = distance >= 0 if config.causal else np.ones((length, length), bool)
            if local:  # of an encoder half the window lies before a token, and half behind it
                seen &= distance < config.window if config.causal else abs(distance) <= config.window // 2
            for i, text in enumerate(texts):
                mask[i, 0] = np.where(seen & (position < len(text)), np.float16(0), np.float16(-np.inf))
        for i, text in enumerate(texts):
            step.ids[i * length : i * length + len(text)] = text
        self.runner.run(step)
        return [rows[: len(text)] for rows, text in zip(step.out.reshape(len(texts), length, -1), texts, strict=True)]
