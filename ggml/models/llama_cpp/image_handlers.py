"""Chat handlers of models that see: they open an encoder of pictures, and write prompts in a format of their own."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from .hub import fetch

# Pictures of a message come before its texts, in all formats
CONTENT = (
    "{% if m.content is string %}{{ m.content }}{% else %}"
    "{% for p in m.content if p.type != 'text' %}<image>{% endfor %}"
    "{% for p in m.content if p.type == 'text' %}{{ p.text }}{% endfor %}{% endif %}"
)


def turns(user: str, bot: str, system: str = "{}", opening: str = "") -> str:
    """A template of texts with `{}` for the content of a user's, an assistant's and a system's message."""
    rows = {"system": system, "user": user, "assistant": bot}
    parts = [f"{{% if m.role == '{role}' %}}{text.replace('{}', CONTENT)}{{% endif %}}" for role, text in rows.items()]
    end = opening or bot.partition("{}")[0]
    return f"{{% for m in messages %}}{''.join(parts)}{{% endfor %}}{{% if add_generation_prompt %}}{end}{{% endif %}}"


class Llava15ChatHandler:
    """Answers conversations with pictures: an argument `chat_handler` of Llama. Pictures are data URLs.

    Args:
        clip_model_path: path of a file mmproj.
        verbose: of no effect.
    """

    template: ClassVar[str | None] = turns("\nUSER: {}", "\nASSISTANT: {}", opening="\nASSISTANT:")
    DEFAULT_SYSTEM_MESSAGE: ClassVar[str | None] = (
        "A chat between a curious human and an artificial intelligence assistant.  The assistant gives helpful, "
        "detailed, and polite answers to the human's questions."
    )

    def __init__(self, clip_model_path: str | os.PathLike[str], verbose: bool = True) -> None:
        self.clip_model_path, self.verbose = os.fspath(clip_model_path), verbose

    def __call__(self, *, llama: Any, messages: Sequence[Mapping[str, Any]], **options: Any) -> Any:
        """Answers a conversation; see Llama.create_chat_completion."""
        llama.model.images.use(self.clip_model_path)
        told = self.DEFAULT_SYSTEM_MESSAGE
        if told is not None and not any(message.get("role") == "system" for message in messages):
            messages = [{"role": "system", "content": told}, *messages]
        return llama.answer_by_template(self.template, messages, options)

    @classmethod
    def from_pretrained(
        cls,
        repo_id: str,
        filename: str | None,
        local_dir: str | os.PathLike[str] | None = None,
        local_dir_use_symlinks: Any = "auto",
        cache_dir: str | os.PathLike[str] | None = None,
        **options: Any,
    ) -> Llava15ChatHandler:
        """Downloads a file of a repository on the Hugging Face Hub for a handler; see Llama.from_pretrained."""
        path = fetch(f"{cls.__name__}.from_pretrained", repo_id, [filename or "*mmproj*"], local_dir, cache_dir)
        return cls(clip_model_path=path, **options)


class Llava16ChatHandler(Llava15ChatHandler):
    """As Llava15ChatHandler, for LLaVA 1.6."""

    template = turns("\nUSER: {}", "\nASSISTANT: {}", opening="Answer:")


class ObsidianChatHandler(Llava15ChatHandler):
    """As Llava15ChatHandler, for Obsidian."""

    template = turns("<|im_start|>user\n{}\n###\n", "<|im_start|>assistant\n{}\n###\n",
                     "<|im_start|>system\n{}\n###\n")  # fmt: skip


class MoondreamChatHandler(Llava15ChatHandler):
    """As Llava15ChatHandler, for Moondream."""

    template = turns("{}\n\n", "Answer:{}\n\n", "")
    DEFAULT_SYSTEM_MESSAGE = None


class NanoLlavaChatHandler(Llava15ChatHandler):
    """As Llava15ChatHandler, for nanoLLaVA."""

    template = turns("<|im_start|>user\n{}<|im_end|>\n", "<|im_start|>assistant\n{}<|im_end|>\n",
                     "<|im_start|>system\n{}<|im_end|>\n")  # fmt: skip
    DEFAULT_SYSTEM_MESSAGE = "Answer the question"


class Llama3VisionAlphaChatHandler(Llava15ChatHandler):
    """As Llava15ChatHandler, with Llama 3's turns."""

    template = turns("<|start_header_id|>user<|end_header_id|>\n\n{}<|eot_id|>",
                     "<|start_header_id|>assistant<|end_header_id|>\n\n{}<|eot_id|>", "")  # fmt: skip
    DEFAULT_SYSTEM_MESSAGE = None


Llama3VisionAlpha = Llama3VisionAlphaChatHandler


class MTMDChatHandler(Llava15ChatHandler):
    """As Llava15ChatHandler, with the template of the model's file."""

    template = None
    DEFAULT_SYSTEM_MESSAGE = None


class Qwen25VLChatHandler(MTMDChatHandler):
    """As MTMDChatHandler."""


class MiniCPMv26ChatHandler(MTMDChatHandler):
    """As MTMDChatHandler."""


class Gemma3ChatHandler(MTMDChatHandler):
    """As MTMDChatHandler."""
