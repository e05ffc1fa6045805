"""`Llama`: the names of llama-cpp-python over Model, for programs that were written for it.

Methods return dictionaries of the same shape. What is not there raises NotImplementedError and says so.
"""

from __future__ import annotations

import os
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

import ggml

from ._chat import BUILT_IN, ChatTemplate
from ._generate import Generation, TokenProbability
from ._model import load
from ._sampling import Sampler

RANDOM_SEED = 0xFFFFFFFF  # llama.cpp's name for "a new seed each time"
KV_TYPES = {None: "f16", ggml.GGML_TYPE_F16: "f16", ggml.GGML_TYPE_F32: "f32", ggml.GGML_TYPE_Q8_0: "q8_0"}
POOLING = {-1: None, 1: "mean", 2: "cls", 3: "last"}
FORMATS = {"chatml": "<|im_start|>", "gemma": "<start_of_turn>"}
# Arguments of the constructor that change nothing here: they are about GPUs, batches and messages.
IGNORED = frozenset(
    "n_gpu_layers split_mode main_gpu tensor_split use_mlock n_batch n_ubatch n_threads_batch offload_kqv flash_attn"
    " op_offload swa_full no_perf numa verbose logits_all embedding spm_infill".split()
)
# Arguments with the only value that is supported.
CONSTRUCTOR_DEFAULTS = {
    "vocab_only": False, "kv_overrides": None, "rope_scaling_type": -1, "attention_type": -1, "rope_freq_base": 0.0,
    "rope_freq_scale": 0.0, "yarn_ext_factor": -1.0, "yarn_attn_factor": 1.0, "yarn_beta_fast": 32.0,
    "yarn_beta_slow": 1.0, "yarn_orig_ctx": 0, "lora_base": None, "lora_scale": 1.0, "chat_handler": None,
    "draft_model": None, "tokenizer": None,
}  # fmt: skip
CALL_DEFAULTS = {
    "suffix": None, "typical_p": 1.0, "tfs_z": 1.0, "mirostat_mode": 0, "mirostat_tau": 5.0, "mirostat_eta": 0.1,
    "stopping_criteria": None, "grammar": None, "penalize_nl": True, "functions": None, "function_call": None,
    "tool_choice": None, "response_format": None,
}  # fmt: skip


def refuse_others(caller: str, given: Mapping[str, Any], supported: Mapping[str, Any]) -> None:
    """Raises for arguments that are unknown, or that ask for something that is not there."""
    for name, value in given.items():
        if name not in supported:
            raise TypeError(f"{caller}: there is no argument {name!r}")
        if value != supported[name]:
            raise NotImplementedError(f"{caller}: {name}={value!r} is not supported: need {supported[name]!r}")


class Llama:
    """A language model with the methods of llama-cpp-python's class of this name.

    Args:
        model_path: path of a GGUF file.
        n_ctx: int; most tokens of a sequence, 0 for what the model was trained with.
        n_threads: int or None; None for one on each available CPU.
        seed: int; seed of random numbers, 4294967295 for a new one each time.
        use_mmap: bool; whether the file is mapped.
        lora_path: path of an adapter, or None.
        chat_format: None for the file's template, "chatml" or "gemma".
        type_k, type_v: type of the stored keys and values, equal: None, GGML_TYPE_F16, GGML_TYPE_F32, GGML_TYPE_Q8_0.
        pooling_type: int; -1 for what the file says, 1 mean, 2 first token, 3 last token.
        last_n_tokens_size: int; number of tokens to which penalties apply.
        others: arguments about GPUs, batches and messages are accepted and have no effect.

    Raises:
        NotImplementedError: an argument asks for something that is not there.
        OSError, ValueError, MemoryError: see ggml.models.load.
    """

    def __init__(
        self,
        model_path: str | os.PathLike[str],
        *,
        n_ctx: int = 512,
        n_threads: int | None = None,
        seed: int = RANDOM_SEED,
        use_mmap: bool = True,
        lora_path: str | None = None,
        chat_format: str | None = None,
        type_k: int | None = None,
        type_v: int | None = None,
        pooling_type: int = -1,
        last_n_tokens_size: int = 64,
        **others: Any,
    ) -> None:
        refuse_others("Llama", {k: v for k, v in others.items() if k not in IGNORED}, CONSTRUCTOR_DEFAULTS)
        kinds = {KV_TYPES.get(type_k), KV_TYPES.get(type_v)}
        if len(kinds) > 1 or None in kinds:
            raise NotImplementedError(f"Llama: type_k={type_k}, type_v={type_v}: need F16, F32 or Q8_0 for both")
        if pooling_type not in POOLING:
            raise NotImplementedError(f"Llama: pooling_type={pooling_type} is not supported: need -1, 1, 2 or 3")
        if chat_format is not None and chat_format not in FORMATS:
            known = ", ".join(map(repr, FORMATS))
            raise NotImplementedError(f"Llama: chat_format={chat_format!r} is not supported: need {known} or None")
        self.model_path = os.fspath(model_path)
        self.chat_format = chat_format
        lora = [] if lora_path is None else [lora_path]
        options = {"threads": n_threads, "kv_type": kinds.pop(), "lora": lora, "mmap": use_mmap}
        self.model = load(model_path, n_ctx=n_ctx or None, **options)  # type: ignore[arg-type]
        if n_ctx == 0 and self.model.config.n_ctx_train > self.model.n_ctx:
            trained = self.model.config.n_ctx_train
            self.model.close()
            self.model = load(model_path, n_ctx=trained, **options)  # type: ignore[arg-type]
        self.metadata = {key: str(value) for key, value in self._scalars()}
        self._pooling = POOLING[pooling_type]
        self._last_n = last_n_tokens_size
        self._template: ChatTemplate | None = None
        self._logits: np.ndarray | None = None
        self.eval_logits: list[np.ndarray] = []
        self.set_seed(seed)

    def _scalars(self) -> Iterator[tuple[str, Any]]:
        return ((k, v) for k in self.model.metadata if not isinstance(v := self.model.metadata[k], list))

    # ---- properties --------------------------------------------------------------------------------------------------
    def n_ctx(self) -> int:
        """Most tokens of a sequence."""
        return self.model.n_ctx

    def n_embd(self) -> int:
        """The size of an embedding."""
        return self.model.config.n_embd

    def n_vocab(self) -> int:
        """The number of tokens."""
        return self.model.config.n_vocab

    def token_bos(self) -> int:
        """The token that begins a text, -1 if there is none."""
        return -1 if self.model.tokenizer.bos is None else self.model.tokenizer.bos

    def token_eos(self) -> int:
        """The token that ends a text, -1 if there is none."""
        return -1 if self.model.tokenizer.eos is None else self.model.tokenizer.eos

    def token_nl(self) -> int:
        """The token of a line break."""
        return self.model.tokenizer.encode("\n", add_bos=False)[-1]

    @property
    def n_tokens(self) -> int:
        """The number of tokens that `eval` has taken since the last `reset`."""
        return len(self.model.held())

    @property
    def eval_tokens(self) -> list[int]:
        """The tokens that `eval` has taken."""
        return self.model.held()

    def set_seed(self, seed: int) -> None:
        """Sets the seed of the calls that follow."""
        self._seed = None if seed == RANDOM_SEED else seed

    def close(self) -> None:
        """Frees the model's memory."""
        self.model.close()

    def __enter__(self) -> Llama:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # ---- tokens ------------------------------------------------------------------------------------------------------
    def tokenize(self, text: bytes, add_bos: bool = True, special: bool = False) -> list[int]:
        """The tokens of a text.

        Args:
            text: bytes.
            add_bos: bool; whether the tokens that the file asks for at the beginning and end are added.
            special: bool; whether names of special tokens become these tokens.
        """
        if not isinstance(text, bytes):
            raise TypeError(f"tokenize: text is a {type(text).__name__}: need bytes")
        return self.model.tokenizer.encode(text, add_bos=None if add_bos else False, special=special)

    def detokenize(
        self, tokens: Sequence[int], prev_tokens: Sequence[int] | None = None, special: bool = False
    ) -> bytes:
        """The bytes of tokens.

        Args:
            tokens: sequence of int.
            prev_tokens: tokens before them, or None for the beginning of a text.
            special: bool; whether special tokens are shown.
        """
        tokenizer = self.model.tokenizer
        data = b"".join(tokenizer.piece(int(token), special) for token in tokens)
        begins = prev_tokens is None and len(tokens) > 0 and tokens[0] == tokenizer.bos
        return data[1:] if begins and data[:1] == b" " else data

    # ---- step by step ------------------------------------------------------------------------------------------------
    def reset(self) -> None:
        """Forgets the tokens that `eval` has taken."""
        self.model.reset()
        self._logits = None
        self.eval_logits = []

    def eval(self, tokens: Sequence[int]) -> None:
        """Appends tokens to those evaluated so far; `sample` chooses the next one."""
        self._logits = self.model.feed(tokens)
        self.eval_logits = [self._logits]

    def sample(
        self,
        top_k: int = 40,
        top_p: float = 0.95,
        min_p: float = 0.05,
        temp: float = 0.80,
        repeat_penalty: float = 1.0,
        logits_processor: Any = None,
        **others: Any,
    ) -> int:
        """Chooses the token that follows those of `eval`."""
        if self._logits is None:
            raise RuntimeError("sample: no token was evaluated: call eval first")
        frequency, presence = (others.pop(f"{name}_penalty", 0.0) for name in ("frequency", "presence"))
        refuse_others("sample", others, CALL_DEFAULTS)
        change = self._filter(logits_processor, None, frequency, presence)
        sampler = Sampler(temp, top_k, top_p, min_p, repeat_penalty, self._last_n, self._next_seed(), change)
        return sampler(self._logits, self.model.held())

    def generate(self, tokens: Sequence[int], reset: bool = True, **options: Any) -> Iterator[int]:
        """Yields the tokens that follow some tokens, without end: the caller stops.

        Args:
            tokens: sequence of int.
            reset: bool; whether the tokens of earlier calls of `eval` are forgotten.
            options: those of `sample`.
        """
        if reset:
            held = self.model.held()
            same = next((i for i, (a, b) in enumerate(zip(held, tokens)) if a != b), min(len(held), len(tokens)))
            tokens = tokens[self.model.reset(min(same, len(tokens) - 1)) :]
        while True:
            self.eval(tokens)
            token = self.sample(**options)
            yield token
            tokens = [token]

    def _next_seed(self) -> int | None:
        """The seed of the next random number when tokens are drawn one by one."""
        if self._seed is not None:
            self._seed += 1
        return self._seed

    # ---- completions -------------------------------------------------------------------------------------------------
    def __call__(self, prompt: str | Sequence[int], **options: Any) -> Any:
        """The same as create_completion."""
        return self.create_completion(prompt, **options)

    def create_completion(
        self,
        prompt: str | Sequence[int],
        *,
        max_tokens: int | None = 16,
        echo: bool = False,
        stream: bool = False,
        logprobs: int | None = None,
        model: str | None = None,
        **options: Any,
    ) -> Any:
        """Continues a text.

        Args:
            prompt: str, or a sequence of token ids.
            max_tokens: int or None; most tokens, None or 0 for as many as the context holds.
            echo: bool; whether the text begins with the prompt.
            stream: bool; whether an iterator over parts of the answer is returned.
            logprobs: int or None; number of alternatives whose log-probabilities are given for each token.
            model: str or None; name in the answer.
            options: temperature, top_k, top_p, min_p, repeat_penalty, frequency_penalty, presence_penalty, stop, seed,
                logits_processor, logit_bias.

        Returns:
            dict with `choices[0]["text"]`, `usage` and more; with `stream`, an iterator over such dicts.

        Raises:
            ValueError: the prompt is longer than the context.
            NotImplementedError: an option is not supported.
        """
        ids = list(prompt) if not isinstance(prompt, str) else self.model.tokenizer.encode(prompt, special=True)
        shown = prompt if isinstance(prompt, str) else self.model.detokenize(ids)
        text = self._generation("create_completion", ids, max_tokens, logprobs, options)
        answer = Completion(model or self.model_path, text, shown if echo else "")
        return answer.chunks() if stream else answer.whole()

    def create_chat_completion(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Any] | None = None,
        max_tokens: int | None = None,
        stream: bool = False,
        logprobs: bool | None = None,
        top_logprobs: int | None = None,
        model: str | None = None,
        temperature: float = 0.2,
        **options: Any,
    ) -> Any:
        """Answers a conversation.

        Args:
            messages: sequence of dicts with `role` and `content`.
            tools: descriptions of functions for the template; calls are part of the answer's text.
            max_tokens: int or None; most tokens, None or 0 for as many as the context holds.
            stream: bool; whether an iterator over parts of the answer is returned.
            logprobs: bool; whether log-probabilities are given, of top_logprobs alternatives.
            model: str or None; name in the answer.
            options, temperature: see create_completion.

        Returns:
            dict with `choices[0]["message"]["content"]`; with `stream`, an iterator over dicts with `delta`.

        Raises:
            ValueError: the model has no chat template, the template refuses the messages, or they are too long.
            NotImplementedError: an option is not supported.
        """
        if self._template is None:
            mark = FORMATS.get(self.chat_format or "")
            source = {"tokenizer.chat_template": BUILT_IN[mark]} if mark else self.model.metadata
            self._template = ChatTemplate(source, self.model.tokenizer)
        variables = {} if tools is None else {"tools": tools}
        ids = self._template.tokens(messages, add_generation_prompt=True, **variables)
        options["temperature"] = temperature
        top = (top_logprobs or 0) if logprobs else None
        text = self._generation("create_chat_completion", ids, max_tokens, top, options)
        answer = Completion(model or self.model_path, text, "", chat=True)
        return answer.chunks() if stream else answer.whole()

    def _generation(
        self, caller: str, ids: list[int], max_tokens: int | None, logprobs: int | None, options: dict[str, Any]
    ) -> Generation:
        """The generation of a call with llama-cpp-python's options."""
        room = self.model.n_ctx - len(ids)
        if room < 0:
            raise ValueError(f"{caller}: the prompt has {len(ids)} tokens, the context {self.model.n_ctx} (n_ctx)")
        limit = min(max_tokens, room) if max_tokens is not None and max_tokens > 0 else room
        options = dict(options)
        names = ("logits_processor", "logit_bias", "frequency_penalty", "presence_penalty")
        change = self._filter(*(options.pop(name, default) for name, default in zip(names, (None, None, 0.0, 0.0))))
        seed = options.pop("seed", None)
        known = ("temperature", "top_k", "top_p", "min_p", "repeat_penalty", "stop")
        chosen = {name: options.pop(name) for name in known if name in options}
        if "top_k" in chosen:
            chosen["top_k"] = max(0, chosen["top_k"])  # there -1 is all
        refuse_others(caller, options, CALL_DEFAULTS)
        return self.model.generate(
            ids, max_tokens=limit, seed=self._seed if seed is None or seed == RANDOM_SEED else seed,
            logits_filter=change, logprobs=logprobs, **chosen,
        )  # fmt: skip

    def _filter(
        self, processors: Any, bias: Mapping[Any, float] | None, frequency: float, presence: float
    ) -> Callable[[Sequence[int], np.ndarray], np.ndarray] | None:
        """The change of the logits that options ask for, None if they ask for none."""
        functions = [processors] if callable(processors) and not isinstance(processors, list) else processors or []
        if not functions and not bias and not frequency and not presence:
            return None
        biased = {int(token): float(value) for token, value in (bias or {}).items()}

        def change(ids: Sequence[int], logits: np.ndarray) -> np.ndarray:
            for token, count in Counter(ids[-self._last_n :]).items() if frequency or presence else ():
                logits[token] -= count * frequency + presence
            for token, value in biased.items():
                logits[token] += value
            for function in functions:
                logits = function(np.asarray(ids, np.intc), logits)
            return logits

        return change

    # ---- embeddings --------------------------------------------------------------------------------------------------
    def embed(self, input: str | Sequence[str], normalize: bool = False, truncate: bool = True) -> Any:
        """The embedding of a text, or of each of several.

        Args:
            input: str or a sequence of str.
            normalize: bool; whether embeddings get length 1.
            truncate: bool; whether texts that are longer than the context are cut; otherwise they raise.

        Returns:
            list of float, or a list of these.
        """
        texts = [input] if isinstance(input, str) else list(input)
        tokens = [self.model.tokenizer.encode(text, special=True) for text in texts]
        if truncate:
            tokens = [ids[: self.model.n_ctx] for ids in tokens]
        rows = self.model.embed(tokens, pooling=self._pooling, normalize=normalize).tolist()
        return rows[0] if isinstance(input, str) else rows

    def create_embedding(self, input: str | Sequence[str], model: str | None = None) -> dict[str, Any]:
        """The embeddings of texts in the shape of OpenAI's answers."""
        texts = [input] if isinstance(input, str) else list(input)
        total = sum(len(self.model.tokenizer.encode(text, special=True)) for text in texts)
        data = [{"object": "embedding", "embedding": row, "index": i} for i, row in enumerate(self.embed(texts))]
        usage = {"prompt_tokens": total, "total_tokens": total}
        return {"object": "list", "data": data, "model": model or self.model_path, "usage": usage}


class Completion:
    """An answer as dictionaries of the shape that OpenAI's interface has."""

    def __init__(self, model: str, text: Generation, prefix: str, chat: bool = False) -> None:
        self.text, self.prefix, self.chat = text, prefix, chat
        kind = "chat.completion" if chat else "text_completion"
        name = f"{'chat' if chat else ''}cmpl-{uuid.uuid4()}"
        self.head = {"id": name, "object": kind, "created": int(time.time()), "model": model}

    def whole(self) -> dict[str, Any]:
        """The finished answer."""
        content = self.prefix + "".join(self.text)
        choice: dict[str, Any] = {"index": 0}
        choice |= {"message": {"role": "assistant", "content": content}} if self.chat else {"text": content}
        choice |= {"logprobs": self._logprobs(self.text.logprobs), "finish_reason": self.text.finish_reason}
        asked, given = len(self.text.prompt_ids), len(self.text.ids)
        usage = {"prompt_tokens": asked, "completion_tokens": given, "total_tokens": asked + given}
        return {**self.head, "choices": [choice], "usage": usage}

    def chunks(self) -> Iterator[dict[str, Any]]:
        """The parts of the answer as they come; the last one has the reason of the end and no text."""
        if self.chat:
            self.head["object"] = "chat.completion.chunk"
            yield self._chunk({"delta": {"role": "assistant"}}, None)
        if self.prefix:
            yield self._chunk({"text": self.prefix}, None)
        done = 0
        for piece in self.text:
            probabilities = self._logprobs(self.text.logprobs[done:])
            done = len(self.text.logprobs)
            yield self._chunk({"delta": {"content": piece}} if self.chat else {"text": piece}, None, probabilities)
        yield self._chunk({"delta": {}} if self.chat else {"text": ""}, self.text.finish_reason)

    def _chunk(self, part: dict[str, Any], reason: str | None, logprobs: Any = None) -> dict[str, Any]:
        return {**self.head, "choices": [{"index": 0, **part, "logprobs": logprobs, "finish_reason": reason}]}

    def _logprobs(self, tokens: Sequence[TokenProbability]) -> dict[str, Any] | None:
        """Log-probabilities of tokens in the shape of the interface, None if none were asked for."""
        if self.text._top is None:
            return None
        name = self.text.model.tokenizer.piece
        texts = [name(t.id).decode(errors="ignore") for t in tokens]
        tops = [{name(i).decode(errors="ignore"): value for i, value in t.top} for t in tokens]
        if self.chat:
            content = [
                {"token": text, "logprob": t.logprob, "bytes": None,
                 "top_logprobs": [{"token": k, "logprob": v, "bytes": None} for k, v in top.items()]}
                for text, t, top in zip(texts, tokens, tops)
            ]  # fmt: skip
            return {"content": content, "refusal": None}
        for top, text, token in zip(tops, texts, tokens):
            top[text] = token.logprob
        offsets = np.cumsum([len(self.prefix), *map(len, texts)])[:-1].tolist()
        probabilities = [t.logprob for t in tokens]
        return {"tokens": texts, "text_offset": offsets, "token_logprobs": probabilities, "top_logprobs": tops}
