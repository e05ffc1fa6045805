"""Chat templates: Jinja programs in GGUF files that turn messages into a prompt.

A template comes with the model from a stranger: see _renderer.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ._keys import shown
from ._renderer import Renderer, plain

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


class ChatTemplate:
    """The chat template of a model.

    Args:
        metadata: mapping of the file's keys to values: `tokenizer.chat_template` is read.
        tokenizer: Tokenizer; gives the texts of bos and eos, and the format of files without a template.

    Attributes:
        source: str; the template's text.

    Raises:
        ValueError: the file has no template and its vocabulary suggests none, or the template has an error.
        ModuleNotFoundError: jinja2 is missing (extra `llm`).
    """

    def __init__(self, metadata: Mapping[str, Any], tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        source = metadata.get("tokenizer.chat_template")
        if source is None:
            source = next((text for mark, text in BUILT_IN.items() if tokenizer.has(mark)), None)
        if source is not None and not isinstance(source, str):
            raise ValueError(f"chat: tokenizer.chat_template is {shown(source)}: need a string")
        if source is None:
            raise ValueError("chat: the file has no chat template: need tokenizer.chat_template, or use generate()")
        self.source = source
        self._renderer = Renderer(source)

    def render(
        self, messages: Sequence[Mapping[str, Any]], add_generation_prompt: bool = True, **variables: Any
    ) -> str:
        """The prompt of a conversation.

        Args:
            messages: sequence of mappings with `role` (`system`, `user` or `assistant`) and `content`.
            add_generation_prompt: bool; whether the prompt ends with the beginning of an answer.
            variables: others that the template knows, such as `tools`.

        Returns:
            str; it contains the texts of special tokens.

        Raises:
            TypeError: messages is not a sequence of mappings with a role.
            ValueError: the template fails, refuses the messages, or exceeds the limits.
        """
        if isinstance(messages, (str, bytes, Mapping)) or not all(
            isinstance(message, Mapping) and isinstance(message.get("role"), str) for message in messages
        ):
            raise TypeError('chat: messages must be a list such as [{"role": "user", "content": "Hello"}]')
        names = {"bos": self._tokenizer.bos, "eos": self._tokenizer.eos}
        texts = {f"{k}_token": "" if i is None else self._tokenizer.text(i) for k, i in names.items()}
        given = {"messages": list(messages), "add_generation_prompt": add_generation_prompt}
        return self._renderer.render({k: plain(v, k) for k, v in {**texts, **given, **variables}.items()})

    def tokens(
        self, messages: Sequence[Mapping[str, Any]], add_generation_prompt: bool = True, **variables: Any
    ) -> list[int]:
        """The tokens of a conversation's prompt; the token for the beginning of a text stands there at most once."""
        tokenizer = self._tokenizer
        ids = tokenizer.encode(self.render(messages, add_generation_prompt, **variables), add_bos=False, special=True)
        if tokenizer.add_bos and tokenizer.bos is not None and ids[:1] != [tokenizer.bos]:
            ids.insert(0, tokenizer.bos)
        return ids
