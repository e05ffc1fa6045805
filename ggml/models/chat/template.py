"""Chat templates: Jinja programs in GGUF files that turn messages into a prompt.

A template comes with the model from a stranger: see renderer.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..text.keys import shown
from .messages import render_messages
from .renderer import Renderer, plain
from .sandbox import MessagesError

# For files without a template: the format is recognised by a token of the vocabulary.
BUILT_IN = {
    "<|im_start|>": (
        "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    ),
    "<start_of_turn>": (
        "{{ bos_token }}{% set ns = namespace(system='') %}{% for message in messages %}"
        "{% if message.role == 'system' %}{% set ns.system = message.content ~ '\n\n' %}{% else %}"
        "<start_of_turn>{{ 'model' if message.role == 'assistant' else message.role }}\n"
        "{{ ns.system }}{{ message.content | trim }}<end_of_turn>\n{% set ns.system = '' %}{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
    ),
}


def text_of(metadata: Mapping[str, Any], key: str) -> str | None:
    """The text of a key, None where the file has none."""
    value = metadata.get(key)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"chat: {key} is {shown(value)}: need a string")
    return value


def conversation_of(messages: Any) -> list[dict[str, Any]]:
    """Messages as plain values."""
    given = plain(list(messages), "messages") if isinstance(messages, (list, tuple)) else None
    if given is None or not all(isinstance(item, dict) and isinstance(item.get("role"), str) for item in given):
        raise TypeError('chat: messages must be a list such as [{"role": "user", "content": "Hello"}]')
    return given


class ChatTemplate:
    """The chat template of a model.

    Args:
        metadata: mapping of the file's keys to values: `tokenizer.chat_template` is read, and
            `tokenizer.chat_template.tool_use`, which renders messages with tools if the file has it.
        tokenizer: Tokenizer; gives the texts of bos and eos, and the format of files without a template.

    Attributes:
        source: str; the template's text.
        source_with_tools: str; the text of the template that renders messages with tools.

    Raises:
        ValueError: the file has no template and its vocabulary suggests none, or the template has an error.
        ModuleNotFoundError: jinja2 is missing (extra `llm`).
    """

    def __init__(self, metadata: Mapping[str, Any], tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        source, self._tool_source = (text_of(metadata, f"tokenizer.chat_template{end}") for end in ("", ".tool_use"))
        if source is None:
            source = next((text for mark, text in BUILT_IN.items() if tokenizer.has(mark)), None)
        if source is None:
            raise ValueError("chat: the file has no chat template: need tokenizer.chat_template, or use generate()")
        self.source, self.source_with_tools = source, source if self._tool_source is None else self._tool_source
        self._renderer = Renderer(source)
        self._tool_renderer: Renderer | None = None

    def render(
        self, messages: Sequence[Mapping[str, Any]], add_generation_prompt: bool = True, **variables: Any
    ) -> str:
        """The prompt of a conversation.

        Args:
            messages: sequence of mappings with `role` (`system`, `user`, `assistant` or `tool`) and `content`, a string
                or a list of parts such as `{"type": "text", "text": "Hello"}`. The arguments of `tool_calls` are
                objects or JSON strings, whichever form the template takes.
            add_generation_prompt: bool; whether the prompt ends with the beginning of an answer.
            variables: others that the template knows, such as `tools`: strings, numbers, lists, dicts, bool or None.

        Returns:
            str; it contains the texts of special tokens.

        Raises:
            TypeError: messages is not a sequence of mappings with a role, or a variable is of another type.
            ValueError: the template fails, refuses the messages, or exceeds the limits.
        """
        given = conversation_of(messages)
        tokenizer = self._tokenizer
        names = {"unk": tokenizer.unknown, "sep": tokenizer.separator, "pad": tokenizer.padding}
        texts = {f"{name}_token": tokenizer.text(token) for name, token in names.items() if token is not None}
        for name, token in (("bos", tokenizer.bos), ("eos", tokenizer.eos)):
            texts[f"{name}_token"] = "" if token is None else tokenizer.text(token)
        others = {name: plain(value, name) for name, value in {**texts, **variables}.items()}
        others["add_generation_prompt"] = add_generation_prompt
        renderer = self._renderer
        if others.get("tools") is not None and self._tool_source is not None:
            renderer = self._tool_renderer = self._tool_renderer or Renderer(self._tool_source)
        absent = {name: None for name in ("tools", "documents") if others.get(name) is None}  # as in transformers

        def rendered(values: dict[str, Any]) -> str:
            return render_messages(given, lambda messages: renderer.render({**others, **values, "messages": messages}))

        try:
            return rendered(absent)
        except MessagesError:
            if not absent or "tools" in others:
                raise
        return rendered({})  # some templates take no tools where they are not defined, but not None

    def tokens(
        self, messages: Sequence[Mapping[str, Any]], add_generation_prompt: bool = True, **variables: Any
    ) -> list[int]:
        """The tokens of a conversation's prompt; the token for the beginning of a text stands there at most once."""
        return self.tokens_of(self.render(messages, add_generation_prompt, **variables))

    def tokens_of(self, text: str) -> list[int]:
        """The tokens of what `render` returned."""
        return prompt_tokens(self._tokenizer, text)


def prompt_tokens(tokenizer: Any, text: str) -> list[int]:
    """The tokens of a prompt; the token for the beginning of a text stands there at most once."""
    ids = tokenizer.encode(text, add_bos=False, special=True)
    if tokenizer.add_bos and tokenizer.bos is not None and ids[:1] != [tokenizer.bos]:
        ids.insert(0, tokenizer.bos)
    return ids
