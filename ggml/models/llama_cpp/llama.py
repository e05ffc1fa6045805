"""`Llama`: the names of llama-cpp-python over Model, for programs that were written for it.

Methods return dictionaries of the same shape. What is not there raises NotImplementedError and says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..chat.template import BUILT_IN, ChatTemplate
from ..generate.text import Generation
from .base import FORMATS, POOLING, positional
from .completion import Completion
from .steps import Stepping, stopping


class Completing(Stepping):
    """Methods of Llama that write texts."""

    def __call__(self, prompt: str | Sequence[int], *args: Any, **options: Any) -> Any:
        """The same as create_completion."""
        return self.create_completion(prompt, *args, **options)

    @positional("prompt suffix max_tokens temperature top_p min_p typical_p logprobs echo stop frequency_penalty"
                " presence_penalty repeat_penalty top_k stream seed tfs_z mirostat_mode mirostat_tau mirostat_eta model"
                " stopping_criteria logits_processor grammar logit_bias")  # fmt: skip
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
            max_tokens: int or None; most tokens, None, 0 or below for as many as the context holds.
            echo: bool; whether the text begins with the prompt, and the log-probabilities with those of its tokens.
            stream: bool; whether an iterator over parts of the answer is returned.
            logprobs: int or None; number of alternatives whose log-probabilities are given for each token.
            model: str or None; name in the answer.
            options: temperature, top_k, top_p, min_p, typical_p, repeat_penalty, frequency_penalty, presence_penalty,
                mirostat_mode, mirostat_tau, mirostat_eta, stop, seed, logits_processor, logit_bias, stopping_criteria
                (see `generate`), grammar (LlamaGrammar). All may be given by position too, in llama-cpp-python's order.

        Returns:
            dict with `choices[0]["text"]`, `usage` and more; with `stream`, an iterator over such dicts.

        Raises:
            ValueError: the prompt leaves no room in the context.
            NotImplementedError: an option is not supported.
        """
        ids = list(prompt) if not isinstance(prompt, str) else self.model.tokenizer.encode(prompt, special=True)
        shown = prompt if isinstance(prompt, str) else self.model.detokenize(ids)
        text = self._generation("create_completion", ids, max_tokens, logprobs, options)
        answer = Completion(self.model, model or self.model_path, text, shown, echo)
        return answer.chunks() if stream else answer.whole()

    @positional("messages functions function_call tools tool_choice temperature top_p top_k min_p typical_p stream stop"
                " seed response_format max_tokens presence_penalty frequency_penalty repeat_penalty tfs_z"
                " mirostat_mode mirostat_tau mirostat_eta model logits_processor grammar logit_bias logprobs"
                " top_logprobs")  # fmt: skip
    def create_chat_completion(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        functions: Sequence[Any] | None = None,
        function_call: Any = None,
        tools: Sequence[Any] | None = None,
        tool_choice: Any = None,
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
            tools, functions: descriptions of functions for the template; calls are part of the answer's text.
            tool_choice, function_call: for the template: "auto", "none" or None.
            response_format: {"type": "json_object"}, with a "schema" if wanted, or {"type": "json_schema",
                "json_schema": {"schema": ...}}: the answer is JSON.
            max_tokens: int or None; most tokens, None, 0 or below for as many as the context holds.
            stream: bool; whether an iterator over parts of the answer is returned.
            logprobs: bool; whether log-probabilities are given, of top_logprobs alternatives.
            model: str or None; name in the answer.
            options, temperature: see create_completion. All may be given by position too, in llama-cpp-python's order.

        Returns:
            dict with `choices[0]["message"]["content"]`; with `stream`, an iterator over dicts with `delta`.

        Raises:
            ValueError: the model has no chat template, the template refuses the messages, or they are too long.
            NotImplementedError: an option is not supported.
        """
        caller = "create_chat_completion"
        variables = {"tools": tools, "functions": functions, "tool_choice": tool_choice, "function_call": function_call}
        for name in ("tool_choice", "function_call"):
            if variables[name] not in (None, "auto", "none"):
                raise NotImplementedError(f"{caller}: {name}={variables[name]!r} is not supported: need 'auto'")
        if self._template is None:
            mark = FORMATS.get(self.chat_format or "")
            source = {"tokenizer.chat_template": BUILT_IN[mark]} if mark else self.model.metadata
            self._template = ChatTemplate(source, self.model.tokenizer)
        given = {name: value for name, value in variables.items() if value is not None}
        ids = self._template.tokens(messages, add_generation_prompt=True, **given)
        options["temperature"] = temperature
        top = (top_logprobs or 0) if logprobs else None
        text = self._generation(caller, ids, max_tokens, top, options)
        answer = Completion(self.model, model or self.model_path, text, chat=True)
        return answer.chunks() if stream else answer.whole()

    def _generation(
        self, caller: str, ids: list[int], max_tokens: int | None, logprobs: int | None, options: dict[str, Any]
    ) -> Generation:
        """The generation of a call with llama-cpp-python's options."""
        room = self.model.n_ctx - len(ids)
        if room <= 0:
            raise ValueError(
                f"{caller}: the prompt has {len(ids)} tokens, the context {self.model.n_ctx} (n_ctx): need room for one"
            )
        limit = min(max_tokens, room) if max_tokens is not None and max_tokens > 0 else room
        options = dict(options)
        until, stop = stopping(options.pop("stopping_criteria", None)), options.pop("stop", None)
        settings = self.settings(caller, **options)
        text = self.model.generate(ids, max_tokens=limit, stop=stop, logprobs=logprobs, **settings)
        text.until = until
        return text


class Llama(Completing):
    """A language model with the methods of llama-cpp-python's class of this name.

    Args:
        model_path: path of a GGUF file.
        n_ctx: int; most tokens of a sequence, 0 for what the model was trained with.
        n_threads: int or None; None for one on each available CPU.
        seed: int; determines the seeds of calls that are given none; 4294967295 for other ones in each process.
        use_mmap: bool; whether the file is mapped.
        lora_path: path of an adapter, or None.
        chat_format: None for the file's template, "chatml" or "gemma".
        type_k, type_v: type of the stored keys and values, equal: None, GGML_TYPE_F16, GGML_TYPE_F32, GGML_TYPE_Q8_0.
        pooling_type: int; -1 for what the file says, 1 mean, 2 first token, 3 last token.
        last_n_tokens_size: int; number of tokens to which penalties apply.
        logits_all: bool; whether `eval` keeps the logits of all tokens in `scores`. Calls give log-probabilities in any
            case.
        others: arguments about GPUs, batches and messages are accepted and have no effect.

    Raises:
        NotImplementedError: an argument asks for something that is not there.
        OSError, ValueError, MemoryError: see ggml.models.load.
    """

    @classmethod
    def from_pretrained(cls, repo_id: str, filename: str | None = None, **options: Any) -> Llama:
        """Not supported: nothing is downloaded here."""
        raise NotImplementedError(
            f"Llama.from_pretrained is not supported: download {filename or 'the file'} of {repo_id!r}, and give its "
            "path to Llama(model_path=)"
        )

    def create_chat_completion_openai_v1(self, *args: Any, **options: Any) -> Any:
        """Not supported: create_chat_completion returns the same as a dict."""
        raise NotImplementedError(
            "Llama.create_chat_completion_openai_v1 is not supported: create_chat_completion returns the same as a dict"
        )

    def __enter__(self) -> Llama:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def embed(
        self, input: str | Sequence[str], normalize: bool = False, truncate: bool = True, return_count: bool = False
    ) -> Any:
        """The embedding of a text, or of each of several: one for the text, also where the file names no pooling.

        Args:
            input: str or a sequence of str.
            normalize: bool; whether embeddings get length 1.
            truncate: bool; whether texts that are longer than the context are cut; otherwise they raise.
            return_count: bool; whether the number of tokens is returned too.

        Returns:
            list of float, or a list of these; with `return_count` a pair of it and an int.
        """
        texts = [input] if isinstance(input, str) else list(input)
        tokens = [self.model.tokenizer.encode(text, special=True) for text in texts]
        if truncate:
            tokens = [ids[: self.model.n_ctx] for ids in tokens]
        rows = self.model.embed(tokens, pooling=POOLING[self._pooling_type], normalize=normalize).tolist()
        result = rows[0] if isinstance(input, str) else rows
        return (result, sum(map(len, tokens))) if return_count else result

    def create_embedding(self, input: str | Sequence[str], model: str | None = None) -> dict[str, Any]:
        """The embeddings of texts in the shape of OpenAI's answers."""
        texts = [input] if isinstance(input, str) else list(input)
        rows, total = self.embed(texts, return_count=True)
        data = [{"object": "embedding", "embedding": row, "index": i} for i, row in enumerate(rows)]
        usage = {"prompt_tokens": total, "total_tokens": total}
        return {"object": "list", "data": data, "model": model or self.model_path, "usage": usage}
