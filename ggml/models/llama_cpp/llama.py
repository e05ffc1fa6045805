"""`Llama`: the names of llama-cpp-python over Model, for programs that were written for it.

Methods return dictionaries of the same shape. What is not there raises NotImplementedError and says so.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from ..._extras import require
from ..chat.conversation import Question, chosen_tools
from ..chat.fim import infill_ids
from ..chat.telling import with_instructions
from ..chat.tools import checked_tools
from ..generate.answer import Answer
from ..generate.images import has_images
from ..generate.text import Generation, stop_strings
from ..text.encoders import to_bytes
from .base import POOLING, positional
from .completion import Completion
from .contexts import Context
from .hub import fetch
from .llama_cache import BaseLlamaCache, LlamaCache, LlamaDiskCache, LlamaRAMCache
from .llama_chat_format import ChatFormatter, get_chat_completion_handler
from .llama_grammar import LlamaGrammar
from .steps import (
    LlamaState,
    LogitsProcessor,
    LogitsProcessorList,
    MinTokensLogitsProcessor,
    Stepping,
    StoppingCriteria,
    StoppingCriteriaList,
    stopping,
)


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
        suffix: str | None = None,
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
            suffix: str or None; the text after the one to write, for models that fill in.
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
        shown = prompt if isinstance(prompt, str) else self.model.detokenize(prompt)
        if suffix is not None:
            metadata, tokenizer = self.model.metadata, self.model.tokenizer
            ids = infill_ids("create_completion", metadata, tokenizer, shown, suffix, self.spm_infill)
        else:
            ids = self.tokenize(to_bytes(prompt), special=True) if isinstance(prompt, str) else list(prompt)
        text = self._generation("create_completion", ids, max_tokens, logprobs, options)
        answer = Completion(self.model, model or self.model_path, text, shown, echo, done=lambda: self._keep(text))
        return answer.chunks() if stream else answer.whole()

    @positional("messages functions function_call tools tool_choice temperature top_p top_k min_p typical_p stream stop"
                " seed response_format max_tokens presence_penalty frequency_penalty repeat_penalty tfs_z"
                " mirostat_mode mirostat_tau mirostat_eta model logits_processor grammar logit_bias logprobs"
                " top_logprobs")  # fmt: skip
    def create_chat_completion(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> Any:
        """Answers a conversation.

        Args:
            messages: sequence of dicts with `role` and `content`.
            options: those of create_completion, with temperature=0.2, max_tokens=None, and logprobs a bool; all may be
                given by position too, in llama-cpp-python's order. Further ones:
                tools, functions: descriptions of functions; `message["tool_calls"]` has the calls of the answer.
                tool_choice, function_call: "auto", "none", "required", or a dict that names a function.
                parallel_tool_calls: bool; whether an answer that must call may call more than once; by default where no
                function is named.
                response_format: {"type": "json_object"}, with a "schema" if wanted, or {"type": "json_schema",
                "json_schema": {"schema": ...}}: the answer is JSON.
                top_logprobs: int or None; number of alternatives whose log-probabilities are given for each token.
                enable_thinking, chat_template_kwargs, reasoning_budget: see Model.chat; if one is given, reasoning is
                in `message["reasoning_content"]`.

        Returns:
            dict with `choices[0]["message"]`; with `stream`, an iterator over dicts with `delta`.

        Raises:
            ValueError: the model has no chat template, the template refuses the messages, they are too long, or a
                function is not described as it should be.
        """
        handler = self.chat_handler
        if handler is None and self.chat_format is not None:
            handler = get_chat_completion_handler(self.chat_format)
        if handler is not None:
            return handler(llama=self, messages=messages, **options)
        return self._answer(None, messages, **options)

    def answer_formatted(
        self, formatter: ChatFormatter, messages: Sequence[Mapping[str, Any]], options: dict[str, Any]
    ) -> Any:
        """Answers a conversation whose prompt a function makes; see create_chat_completion."""
        return self._answer(formatter, messages, **options)

    def answer_by_template(
        self, template: str | None, messages: Sequence[Mapping[str, Any]], options: dict[str, Any]
    ) -> Any:
        """Answers a conversation whose prompt a template makes, None for the file's; see create_chat_completion."""
        return self._answer(None, messages, template=template, **options)

    def _answer(
        self,
        formatter: ChatFormatter | None,
        messages: Sequence[Mapping[str, Any]],
        *,
        template: str | None = None,
        functions: Sequence[Any] | None = None,
        function_call: Any = None,
        tools: Sequence[Any] | None = None,
        tool_choice: Any = None,
        parallel_tool_calls: bool | None = None,
        max_tokens: int | None = None,
        stream: bool = False,
        logprobs: bool | None = None,
        top_logprobs: int | None = None,
        enable_thinking: bool | None = None,
        reasoning_budget: int | None = None,
        chat_template_kwargs: Mapping[str, Any] | None = None,
        model: str | None = None,
        temperature: float = 0.2,
        stop: str | Sequence[str] | None = None,
        **options: Any,
    ) -> Any:
        caller = "create_chat_completion"
        known = checked_tools(caller, [*(tools or ()), *({"function": function} for function in functions or ())])
        choice = tool_choice if function_call is None else function_call
        parallel = not isinstance(choice, Mapping) if parallel_tool_calls is None else parallel_tool_calls
        conversations, stops = self.model.writer.conversations, stop_strings(stop)
        variables = dict(chat_template_kwargs or {})
        if enable_thinking is not None:
            variables["enable_thinking"] = enable_thinking
        reasoning = bool(variables) or reasoning_budget is not None
        if formatter is None:
            seen = self.model.images.conversation if has_images(messages) else None
            question = conversations.question(
                caller, messages, known, choice, parallel, template, variables, reasoning, seen
            )
        else:
            allowed, must = chosen_tools(caller, known, choice)
            response = formatter(messages=with_instructions(messages, allowed) if allowed else messages)
            stops += stop_strings(response.stop)
            options["stopping_criteria"] = response.stopping_criteria
            question = conversations.asked(response.prompt, allowed, must, parallel)
        options |= {"temperature": temperature, "stop": stops}
        top = (top_logprobs or 0) if logprobs else None
        text = self._generation(caller, question.ids, max_tokens, top, options, question, reasoning_budget)
        older = functions is not None or isinstance(choice, Mapping)
        answer = Completion(self.model, model or self.model_path, text, chat=Answer(text, question), legacy=older,
                            done=lambda: self._keep(text))  # fmt: skip
        return answer.chunks() if stream else answer.whole()

    def _generation(
        self,
        caller: str,
        ids: list[int],
        max_tokens: int | None,
        logprobs: int | None,
        options: dict[str, Any],
        question: Question | None = None,
        budget: int | None = None,
    ) -> Generation:
        """The generation of a call with llama-cpp-python's options."""
        room = self.model.n_ctx - len(ids)
        if room <= 0:
            # programs look for this sentence of llama-cpp-python's
            raise ValueError(f"{caller}: Requested tokens ({len(ids)}) exceed context window of {self.model.n_ctx}")
        limit = min(max_tokens, room) if max_tokens is not None and max_tokens > 0 else room
        options = dict(options)
        until, stop = stopping(options.pop("stopping_criteria", None)), options.pop("stop", None)
        settings = self.settings(caller, **options)
        sampler = self.model.writer.sampler(caller, **settings)
        if question is not None:
            self.model.writer.limit(caller, sampler, question, budget)
        self._recall(ids)
        shown = question.shown if question is not None else ()
        text = self.model.writer.generation(
            caller, ids, sampler, limit, stop, "stop", logprobs, shown=shown, draft=self.draft_model
        )
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
        chat_format: None for the file's template, or the name of a format of llama_chat_format.
        chat_handler: function that answers conversations instead: see llama_chat_format.
        tokenizer: what makes tokens of texts instead of the file's vocabulary, or None.
        type_k, type_v: types of the stored keys and values: GGML_TYPE_F16 (or None), F32, BF16, Q8_0, Q5_1, Q5_0, Q4_1,
            Q4_0 or IQ4_NL.
        vocab_only: bool; whether only the vocabulary is read: there are tokens and keys of the file then, no texts.
        kv_overrides: dict of keys of the file with values that replace its own, or None.
        pooling_type: int; -1 for what the file says, 1 mean, 2 first token, 3 last token.
        last_n_tokens_size: int; number of tokens to which penalties apply.
        logits_all: bool; whether `eval` keeps the logits of all tokens in `scores`. Calls give log-probabilities in any
            case.
        draft_model: what guesses tokens ahead, as LlamaPromptLookupDecoding does, or None; see Model.generate.
        others: arguments about GPUs, batches and messages, and unknown ones, are accepted and have no effect; a warning
            names options of the rotary embedding that differ from the file, which counts.

    Raises:
        NotImplementedError: an argument asks for something that is not there.
        OSError, ValueError, MemoryError: see ggml.models.load.
    """

    _context: Context | None = None

    @classmethod
    def from_pretrained(
        cls,
        repo_id: str,
        filename: str | None,
        additional_files: Sequence[str] | None = None,
        local_dir: str | os.PathLike[str] | None = None,
        local_dir_use_symlinks: Any = "auto",
        cache_dir: str | os.PathLike[str] | None = None,
        **options: Any,
    ) -> Llama:
        """Downloads a file of a repository on the Hugging Face Hub and opens it; needs `huggingface_hub` (extra `hub`).

        Args:
            repo_id: name of the repository.
            filename: name of the file, or a pattern such as "*Q4_K_M.gguf" that one file matches.
            additional_files: names or patterns of further files, such as the other parts of a split file.
            local_dir: folder for the files, or None for the cache.
            local_dir_use_symlinks: of no effect.
            cache_dir: folder of the cache, or None for the usual one.
            options: of the constructor.

        Raises:
            ValueError: no file of the repository has the name or matches, or several do.
            ModuleNotFoundError: huggingface_hub is missing.
        """
        patterns = [filename or "*.gguf", *(additional_files or ())]
        path = fetch("Llama.from_pretrained", repo_id, patterns, local_dir, cache_dir)
        return cls(model_path=path, **options)

    def create_chat_completion_openai_v1(self, *args: Any, **options: Any) -> Any:
        """The same as create_chat_completion, as objects of the package `openai`."""
        require("create_chat_completion_openai_v1: ", ["openai"], "openai")
        chat = import_module("openai.types.chat")
        answer = self.create_chat_completion(*args, **options)
        if options.get("stream"):
            return (chat.ChatCompletionChunk(**chunk) for chunk in answer)
        return chat.ChatCompletion(**answer)

    @property
    def ctx(self) -> Context:
        """What functions of llama.h take for a context; the first sequence is that of `eval`."""
        if self._context is None:
            self._context = Context(self.model, self.n_batch)
        return self._context

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


__all__ = [  # what programs import from llama_cpp.llama
    "BaseLlamaCache",
    "Llama",
    "LlamaCache",
    "LlamaDiskCache",
    "LlamaGrammar",
    "LlamaRAMCache",
    "LlamaState",
    "LogitsProcessor",
    "LogitsProcessorList",
    "MinTokensLogitsProcessor",
    "StoppingCriteria",
    "StoppingCriteriaList",
]
