"""Texts: tokens, completions, conversations."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Generator, Mapping, Sequence
from typing import Any

import numpy as np

from ..chat.conversation import Conversations, Question
from ..chat.tools import checked_tools
from ..run.batch import Batch, whole_length
from ..run.decoder import STEP
from ..run.runner import Runner
from ..run.sequences import WORTHWHILE, Sequences, common_length
from ..sample.chain import NEW_SEEDS, SETTINGS, Sampler, file_settings
from ..sample.constraint import KINDS, Thinking, constrained, limited_to
from .answer import Answer
from .batching import Scheduler
from .images import Images, has_images
from .prompts import Prompts
from .speculative import guesses, speculation
from .text import Generation, Generations, check_options, stop_strings
from .translation import Translating


class Generating:
    """Writes texts; see Model."""

    def __init__(self, runner: Runner, prompts: Prompts, images: Images) -> None:
        self.runner, self.prompts, self.images = runner, prompts, images
        self.translating = Translating(runner, prompts)
        self._conversations: Conversations | None = None

    def advance(self, texts: Sequence[Generation], room: int | None = None) -> dict[Generation, Exception]:
        """Computes once for several texts together: each gets its next token, or a further part of its prompt.

        A prompt of which another text is about to compute the beginning waits for it.

        Args:
            texts: they have different sequences.
            room: most tokens of the step, at least as many as there are texts; None for STEP, or for the whole prompt
                of a single text.
        Returns:
            The texts whose next token could not be chosen, with the reasons.
        """
        with self.runner.lock:
            sequences = self.runner.causal("generate")
            room = room or (STEP if len(texts) > 1 else self.runner.n_ctx)
            lacking = [(text, self._lacking(sequences, text)) for text in texts]
            lacking.sort(key=lambda item: len(item[1]))
            exact = any(text.exact for text in texts)
            guessed = guesses_of(lacking, room)
            room -= sum(map(len, guessed.values()))
            batch = Batch()
            rows: list[tuple[Generation, slice, list[int]]] = []
            prompts: list[Generation] = []  # of which a worthwhile part is computed
            for text, tokens in lacking:
                some = tokens[: whole_length(tokens, room, room)]
                worthwhile = len(text.context) - len(tokens) + WORTHWHILE
                if not some or any(
                    common_length(text.context, other.context) >= worthwhile
                    for other in prompts
                    if other.adapter == text.adapter
                ):
                    continue
                if len(some) >= WORTHWHILE:
                    prompts.append(text)
                if text.cached is None:
                    text.cached = len(text.context) - len(tokens)
                room -= len(some)
                wanted = len(some) == len(tokens)
                guess = guessed.get(text, [])
                assert text.sequence is not None
                place = batch.add(text.sequence, some + guess, len(guess) + int(wanted))
                if wanted:
                    rows.append((text, place, guess))
            for text, _, _ in rows:
                text.sampler.prepare()
            # a filter may call the model: all logits are kept before the first token is chosen
            further = any(text.speculation is not None and text.speculation.further for text in texts)
            logits = self.runner.decode(batch, exact, further).copy()
            failed: dict[Generation, Exception] = {}
            for text, place, guess in rows:
                if text.finish_reason is None:
                    try:
                        text.accept_rows(logits[place], guess)
                    except Exception as error:  # of this text alone: the others go on
                        failed[text] = error
            return failed

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
            text.sequence = sequences.free(text.context, text.adapter)
        sequences.claim(text.sequence, text)
        guesses = text.speculation
        goes_on = guesses is not None and bool(text.ids)
        further = guesses is not None and guesses.further
        return sequences.lacking(text.sequence, text.context, text.exact, goes_on, further, text.adapter)

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
        draft: Any = None,
        adapter: str | None = None,
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
            draft: what guesses tokens ahead, which makes texts that can be guessed faster and changes none but by
                rounding (not at all with `exact`): "ngram" for what followed the same tokens before, in the prompt or
                in the text; "mtp" for what the file's own layer for it predicts; another, smaller Model with the same
                tokens; or a function that returns token ids for those so far (intc [n]). None for no guesses.
            adapter: name of an adapter (see add_adapter) that this text has beside those of all texts.
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
        return self.generation(
            "generate", prompt, sampler, max_tokens, stop, overflow, logprobs, exact=exact, draft=draft, adapter=adapter
        )

    def sampler(self, caller: str, **settings: Any) -> Sampler:
        """A sampler with some settings; the others are those that the file recommends."""
        languages = {name: settings.pop(name) for name in KINDS if name in settings}
        unknown = [name for name in settings if name not in SETTINGS]
        if unknown:
            raise TypeError(f"{caller}: there is no argument {unknown[0]!r}")
        self.runner.check(caller)
        given = {name: value for name, value in settings.items() if value is not None}
        chosen = {**file_settings(self.runner.metadata), **given}
        comm = self.runner.comm if self.runner.leader is None else None
        if comm is not None and chosen.get("seed") in NEW_SEEDS:  # all ranks draw the same tokens
            chosen["seed"] = int(comm.share(np.array(np.random.default_rng().integers(1 << 62))))
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
        shown: Collection[int] = (),
        draft: Any = None,
        adapter: str | None = None,
    ) -> Generation:
        self.runner.check(caller)
        translates = self.runner.decodings is not None
        if not translates:
            self.runner.causal(caller)
        check_options(max_tokens, overflow, logprobs)
        self.runner.check_adapter(caller, adapter)
        ids = self.prompts.ids(caller, prompt, special)
        if len(ids) > self.runner.n_ctx:
            raise ValueError(f"{caller}: the prompt has {len(ids)} tokens, the context {self.runner.n_ctx} (n_ctx)")
        if translates:
            if draft is not None:
                raise ValueError(f"{caller}: draft is given: models with an encoder beside the decoder take none")
            return self.translating.text(ids, sampler, max_tokens, stop_strings(stop), overflow, logprobs, adapter)
        guesses = speculation(caller, self.runner, draft, exact)
        text = Generation(self, ids, sampler, max_tokens, stop_strings(stop), overflow, logprobs, exact, shown, guesses)
        text.adapter = adapter
        return text

    @property
    def conversations(self) -> Conversations:
        """What makes prompts of conversations."""
        if self._conversations is None:  # as for Prompts.tokenizer
            with self.runner.lock:
                if self._conversations is None:
                    self._conversations = Conversations(self.runner.metadata, self.prompts.tokenizer)
        return self._conversations

    def apply_chat_template(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Any] | None = None,
        chat_template: str | None = None,
        add_generation_prompt: bool = True,
        **variables: Any,
    ) -> str:
        """The text that a conversation becomes as a prompt.

        Args:
            messages: dicts with "role" and "content", the oldest first; see chat.
            tools: descriptions of tools in OpenAI's form.
            chat_template: another template than the file's: its text, or the name of a further one of the file.
            add_generation_prompt: whether the prompt ends with the beginning of an answer.
            variables: others that the template reads, such as enable_thinking.
        Returns:
            str; it contains the texts of control tokens.
        Raises:
            TypeError, ValueError, RuntimeError: as chat.
        """
        self.runner.check("apply_chat_template")
        known = checked_tools("apply_chat_template", tools) if tools else []
        return self.conversations.render(messages, known, chat_template, add_generation_prompt, variables)

    def chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Any] | None = None,
        tool_choice: Any = "auto",
        parallel_tool_calls: bool = True,
        enable_thinking: bool | None = None,
        reasoning_budget: int | None = None,
        chat_template: str | None = None,
        chat_template_kwargs: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Answer:
        """Answers a conversation, which the file's template turns into a prompt.

        Args:
            messages: dicts with "role" ("system", "user", "assistant" or "tool") and "content", the oldest first, in
                the forms of OpenAI's interface. Of a model with `mmproj`, a part of the content can be a picture:
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,..."}}, or {"type": "image",
                "image": ...} with a pathlib.Path, bytes, an image of Pillow or an array.
            tools: descriptions of tools: {"type": "function", "function": {"name", "description", "parameters"}}. The
                answer's `tool_calls` has the calls, in the form that the model writes, found from the template.
            tool_choice: "auto", "none", "required" for a call in any case, or the name of a tool. A call that must be
                has arguments that are valid for the tool's schema, and so have calls of tools whose description has
                "strict": True; this needs the extra `llm`.
            parallel_tool_calls: whether an answer that must call may call more than once; a named tool is called once.
            enable_thinking: whether the model shall reason, for templates that read it.
            reasoning_budget: most tokens of reasoning, after which it is ended; None for no limit.
            chat_template: another template than the file's: its text, or the name of a further one of the file.
            chat_template_kwargs: further variables of the template.
            options: those of generate. A language (json_schema, ...) is that of what follows the reasoning.
        Returns:
            Answer: an iterator over pieces of the answer's content; it has `message`, `reasoning` and `tool_calls`.
        Raises:
            ValueError: the file has no template, the template refuses the messages, or a tool is not described as it
                should be.
            TypeError, RuntimeError: as generate.
        """
        return self.answer("chat", messages, tools, tool_choice, parallel_tool_calls, enable_thinking, reasoning_budget,
                           chat_template, chat_template_kwargs, options)  # fmt: skip

    def answer(
        self,
        caller: str,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Any] | None,
        tool_choice: Any,
        parallel: bool,
        enable_thinking: bool | None,
        budget: int | None,
        template: str | None,
        variables: Mapping[str, Any] | None,
        options: dict[str, Any],
    ) -> Answer:
        """The answer of `chat`."""
        self.runner.causal(caller)
        if not isinstance(variables, (Mapping, type(None))):
            raise TypeError(f"{caller}: chat_template_kwargs is a {type(variables).__name__}: need a dict")
        given = {**(variables or {}), **({} if enable_thinking is None else {"enable_thinking": enable_thinking})}
        seen = self.images.conversation if has_images(messages) else None
        question = self.conversations.question(
            caller, messages, tools, tool_choice, parallel, template, given, seen=seen
        )  # fmt: skip
        names = ("max_tokens", "stop", "overflow", "logprobs", "exact", "draft", "adapter")
        defaults = dict(zip(names, (256, None, "stop", None, False, None, None)))
        asked = {name: options.pop(name, default) for name, default in defaults.items()}
        sampler = self.sampler(caller, **options)
        self.limit(caller, sampler, question, budget)
        text = self.generation(caller, question.ids, sampler, shown=question.shown, **asked)
        return Answer(text, question)

    def limit(self, caller: str, sampler: Sampler, question: Question, budget: int | None = None) -> None:
        """Limits a text to answers of a question, and its reasoning to a number of tokens."""
        if budget is not None and (isinstance(budget, bool) or not isinstance(budget, int) or budget < 0):
            raise ValueError(f"{caller}: reasoning_budget is {budget!r}: need an integer from 0, or None")
        if question.lark is not None:
            if sampler.constraint is not None:
                raise ValueError(f"{caller}: tool_choice and a language are given: need one of them")
            sampler.constraint = limited_to(caller, self.prompts.tokenizer, question.lark, question.each)
        if question.end and (budget is not None or (question.thinking and sampler.constraint is not None)):
            inner = sampler.constraint
            begin = question.begin if inner is None else []
            sampler.constraint = Thinking(begin, question.end, question.thinking, budget, inner)

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
            self.generate(prompt, seed=seed if not i or seed in NEW_SEEDS else seed + i, **options)
            for i, prompt in enumerate(prompts)
        ]
        return Generations(texts, self.decode_together(texts))

    def decode_together(self, texts: list[Generation]) -> Generator[tuple[int, str], None, None]:
        """Pieces of several texts: each waits for a free sequence, then goes on with the others."""
        scheduler, waiting = Scheduler(self), deque(texts)
        try:
            if self.runner.decodings is not None:
                yield from self.translating.together(texts)
                waiting.clear()
            while waiting or scheduler.active:
                with self.runner.lock:
                    while waiting and scheduler.has_room():
                        scheduler.start(waiting.popleft())
                    failed, put_back = scheduler.step()
                waiting.extendleft(put_back)
                for index, text in enumerate(texts):
                    while text.pending:
                        yield index, text.pending.pop(0)
                for error in failed.values():
                    raise error
        finally:
            for text in texts:
                text.close()


def guesses_of(lacking: Sequence[tuple[Generation, list[int]]], room: int) -> dict[Generation, list[int]]:
    """Guesses for texts, with the tokens that each lacks, in a step of at most `room` tokens.

    Those of several texts take no more than half of the step, and no text's next token. A text gets guesses if what it
    lacks is computed in this step in any case.
    """
    needed = sum(len(tokens) if len(tokens) < WORTHWHILE else 1 for _, tokens in lacking)
    most = min(room if len(lacking) == 1 else room // 2, room - needed)
    limits = [(text, text.most_guessed(most)) for text, tokens in lacking if len(tokens) < WORTHWHILE]
    asked = [(text, limit) for text, limit in limits if limit]
    return {text: guess for (text, _), guess in zip(asked, guesses(asked, most, room), strict=True)}
