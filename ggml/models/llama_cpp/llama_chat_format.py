"""Chat formats by name, and the registry in which programs put their own."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from ..chat.renderer import Renderer, plain
from .image_handlers import (  # noqa: F401 - programs import them from here
    Gemma3ChatHandler,
    Llama3VisionAlpha,
    Llama3VisionAlphaChatHandler,
    Llava15ChatHandler,
    Llava16ChatHandler,
    MiniCPMv26ChatHandler,
    MoondreamChatHandler,
    MTMDChatHandler,
    NanoLlavaChatHandler,
    ObsidianChatHandler,
    Qwen25VLChatHandler,
)

Messages = Sequence[Mapping[str, Any]]


class LlamaChatCompletionHandler(Protocol):
    """A function that answers a conversation."""

    def __call__(self, *, llama: Any, messages: Messages, **options: Any) -> Any:
        """The answer; see Llama.create_chat_completion."""


@dataclass
class ChatFormatterResponse:
    """A prompt, and what ends the answer to it."""

    prompt: str
    stop: str | list[str] | None = None
    stopping_criteria: Any = None
    added_special: bool = False  # whether the prompt has the token for the beginning of a text


ChatFormatter = Callable[..., ChatFormatterResponse]


@dataclass(frozen=True)
class Named:
    """A format: texts before the content of each role, and after it.

    Attributes:
        user, assistant: texts before the content.
        ends: texts after the first, second, first, ... message.
        system: text with the system message in place of `{}`; None if there is none in this format.
        default: the system message where there is none.
        opening: what begins an answer; None for `assistant`.
        stop: text that ends an answer.
        always: whether the system's text also stands there without a message.
        without: what stands there otherwise.
        joined: whether the first message after a system message has no text before it.
        inline: whether system messages stand among the others, after this text.
    """

    user: str
    assistant: str
    ends: tuple[str, ...]
    system: str | None = None
    default: str = ""
    opening: str | None = None
    stop: str | None = None
    always: bool = True
    without: str = ""
    joined: bool = False
    inline: str | None = None

    def __call__(self, messages: Messages, **_: Any) -> ChatFormatterResponse:
        told = next((str(m["content"] or "") for m in messages if m["role"] == "system"), "") or self.default
        before = {"user": self.user, "assistant": self.assistant, "system": self.inline}
        text = self.system.replace("{}", told) if self.system is not None and (told or self.always) else self.without
        turns = [m for m in messages if before.get(m["role"]) is not None]
        for i, message in enumerate(turns):
            content = message["content"]
            joined, end = self.joined and told and i == 0, self.ends[i % len(self.ends)]
            text += "" if joined else str(before[message["role"]])
            text += content if isinstance(content, str) else ""
            text += end.removeprefix(" ") if joined else end
        return ChatFormatterResponse(text + (self.assistant if self.opening is None else self.opening), self.stop)


VICUNA = (
    "A chat between a curious user and an artificial intelligence assistant. The assistant gives helpful, detailed, and"
    " polite answers to the user's questions."
)
BUDDY = (
    "You are a helpful, respectful and honest INTP-T AI Assistant named Buddy. You are talking to a human User.\n"
    "Always answer as helpfully and logically as possible, while being safe. Your answers should not include any"
    " harmful, political, religious, unethical, racist, sexist, toxic, dangerous, or illegal content. Please ensure"
    " that your responses are socially unbiased and positive in nature.\n"
    "If a question does not make any sense, or is not factually coherent, explain why instead of answering something"
    " not correct. If you don't know the answer to a question, please don't share false information.\n"
    "You can speak fluently in many languages, for example: English, Chinese.\n"
    "You cannot access the internet, but you have vast knowledge, cutoff: 2021-09.\n"
    "You are trained by OpenBuddy team, (https://openbuddy.ai, https://github.com/OpenBuddy/OpenBuddy), you are based"
    " on LLaMA and Falcon transformers model, not related to GPT or OpenAI.\n\n"
)
SNOOZY = (
    "The prompt below is a question to answer, a task to complete, or a conversation to respond to; decide which and"
    " write an appropriate response."
)
ORCA = (
    "You are a helpful assistant. Please answer truthfully and write out your thinking step by step to be sure you get"
    " the right answer. If you make a mistake or encounter an error in your thinking, say so out loud and attempt to"
    " correct it. If you don't know or aren't sure about something, say so clearly. You will act as a professional"
    " logician, mathematician, and physicist. You will also act as the most appropriate type of expert to answer any"
    " particular question or solve the relevant problem; state which expert type your are, if so. Also think of any"
    " particular named expert that would be ideal to answer the relevant question or solve the relevant problem; name"
    " and act as them, if appropriate."
)
TURN = "<|start_header_id|>{}<|end_header_id|>\n\n"
FORMATS = {
    "chatml": Named("<|im_start|>user\n", "<|im_start|>assistant\n", ("<|im_end|>\n",),
                    "<|im_start|>system\n{}<|im_end|>\n", stop="<|im_end|>"),
    "qwen": Named("<|im_start|>user\n", "<|im_start|>assistant\n", ("<|im_end|>\n",),
                  "<|im_start|>system\n{}<|im_end|>\n", "You are a helpful assistant.", stop="<|endoftext|>"),
    "gemma": Named("<start_of_turn>user\n", "<start_of_turn>model\n", ("<end_of_turn>\n",), stop="<end_of_turn>\n"),
    "llama-2": Named("<s>[INST]", "[/INST]", ("  ", " </s>"), "[INST] <<SYS>>\n{}\n<</SYS>> ", always=False,
                     without=" ", joined=True),
    "llama-3": Named(TURN.format("user"), TURN.format("assistant"), ("<|eot_id|>",), inline=TURN.format("system"),
                     stop="<|eot_id|>"),
    "alpaca": Named("### Instruction: ", "### Response: ", ("\n\n", "</s>"), "{}\n\n", opening=""),
    "vicuna": Named("USER: ", "ASSISTANT: ", (" ", "</s>"), VICUNA + " ", opening="ASSISTANT:"),
    "oasst_llama": Named("<|prompter|>", "<|assistant|>", ("</s>",), "[INST] <<SYS>>\n{}\n<</SYS>>\n\n"),
    "baichuan": Named("<reserved_102>", "<reserved_103>", ("",), "{}"),
    "baichuan-2": Named("<reserved_106>", "<reserved_107>", ("",), "{}"),
    "openbuddy": Named("User: ", "Assistant: ", ("\n",), BUDDY + "\n", opening="Assistant:"),
    "snoozy": Named("### Prompt: ", "### Response: ", ("\n",), "{}\n", SNOOZY, opening="### Response:", stop="###"),
    "open-orca": Named("User: ", "Assistant: ", ("<|end_of_turn|>\n",), ORCA + "<|end_of_turn|>\n",
                       opening="Assistant:", stop="User"),
    "redpajama-incite": Named("<human>: ", "<bot>: ", ("\n",), "{}\n", opening="<bot>:", stop="<human>"),
    "phind": Named("### User Message: ", "### Assistant: ", ("\n\n",),
                   "### System Prompt\nYou are an intelligent programming assistant.\n\n", opening="### Assistant:"),
    "intel": Named("### User:: ", "### Assistant:: ", ("\n",), "### System:\n{system_message}\n",
                   opening="### Assistant::"),
    "mistrallite": Named("<|prompter|>", "</s>\n<|assistant|>", (" ",), "<|system|>{}</s>"),
    "zephyr": Named("<|user|>\n\n", "<|assistant|>\n\n", ("</s>\n",), "<|system|>\n{}</s>\n", stop="</s>"),
    "pygmalion": Named("<|user|>\n", "<|model|>\n", ("\n\n",), "<|system|>{}\n\n", stop="\n"),
    "openchat": Named("GPT4 Correct User: \n", "<|end_of_turn|>GPT4 Correct Assistant: \n", ("<|end_of_turn|>\n",),
                      "{}<|end_of_turn|><|end_of_turn|>\n", stop="<|end_of_turn|>"),
    "chatglm3": Named("<|user|>\n ", "<|assistant|>\n ", ("",), "<|system|>\n{}", opening="<|assistant|>", stop="</s>"),
    "mistral-instruct": Named("[INST] ", " [/INST]", ("", "</s>"), stop="</s>"),
    "saiga": Named("<s>user\n", "<s>bot\n", ("</s>",), inline="<s>system\n", opening="<s>bot"),
}  # fmt: skip


CHATML_BOS_TOKEN, CHATML_EOS_TOKEN = "<s>", "<|im_end|>"
CHATML_CHAT_TEMPLATE = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' +"
    " '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
MISTRAL_INSTRUCT_BOS_TOKEN, MISTRAL_INSTRUCT_EOS_TOKEN = "<s>", "</s>"


class Jinja2ChatFormatter:
    """A chat template as a formatter.

    Args:
        template: str.
        eos_token, bos_token: texts of these tokens.
        add_generation_prompt: whether the prompt ends with the beginning of an answer.
        stop_token_ids: tokens that end an answer, or None.
    """

    def __init__(
        self,
        template: str,
        eos_token: str,
        bos_token: str,
        add_generation_prompt: bool = True,
        stop_token_ids: Sequence[int] | None = None,
    ) -> None:
        self._template = Renderer(template)
        self.template, self.eos_token, self.bos_token = template, eos_token, bos_token
        self.add_generation_prompt = add_generation_prompt
        self.stop_token_ids = set(stop_token_ids) if stop_token_ids is not None else None

    def __call__(self, *, messages: Messages, **others: Any) -> ChatFormatterResponse:
        given = {"eos_token": self.eos_token, "bos_token": self.bos_token, **others, "messages": list(messages)}
        given["add_generation_prompt"] = self.add_generation_prompt
        text = self._template.render({name: plain(value, name) for name, value in given.items()})
        ends, criteria = self.stop_token_ids, None
        if ends is not None:
            criteria = [lambda ids, logits: len(ids) > 0 and int(ids[-1]) in ends]
        return ChatFormatterResponse(text, [self.eos_token], criteria, added_special=True)

    def to_chat_handler(self) -> Callable[..., Any]:
        """See chat_formatter_to_chat_completion_handler."""
        return chat_formatter_to_chat_completion_handler(self)


class LlamaChatCompletionHandlerNotFoundException(Exception):  # noqa: N818 - llama-cpp-python's name
    """There is no handler of a name."""


class LlamaChatCompletionHandlerRegistry:
    """Handlers by name: functions that answer a conversation, called with `llama` and the arguments of a call.

    All objects of this class are the same one.
    """

    _handlers: ClassVar[dict[str, Callable[..., Any]]] = {}
    _only: ClassVar[LlamaChatCompletionHandlerRegistry | None] = None

    def __new__(cls) -> LlamaChatCompletionHandlerRegistry:
        if cls._only is None:
            cls._only = super().__new__(cls)
        return cls._only

    def register_chat_completion_handler(
        self, name: str, chat_handler: Callable[..., Any], overwrite: bool = False
    ) -> None:
        """Adds a handler."""
        if not overwrite and name in self._handlers:
            raise ValueError(
                f"register_chat_completion_handler: there is one of the name {name!r}: need overwrite=True"
            )
        self._handlers[name] = chat_handler

    def unregister_chat_handler(self, name: str) -> None:
        """Removes a handler."""
        if self._handlers.pop(name, None) is None:
            raise ValueError(f"unregister_chat_handler: there is none of the name {name!r}")

    def get_chat_completion_handler_by_name(self, name: str) -> Callable[..., Any]:
        """A handler."""
        if name not in self._handlers:
            known = ", ".join(map(repr, self._handlers))
            raise LlamaChatCompletionHandlerNotFoundException(f"there is no chat format {name!r}: need one of {known}")
        return self._handlers[name]

    def __contains__(self, name: object) -> bool:
        return name in self._handlers


REGISTRY = LlamaChatCompletionHandlerRegistry()


def get_chat_completion_handler(name: str) -> Callable[..., Any]:
    """The handler of a format."""
    return REGISTRY.get_chat_completion_handler_by_name(name)


def register_chat_completion_handler(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorates a handler, which gets a name."""

    def decorate(handler: Callable[..., Any]) -> Callable[..., Any]:
        REGISTRY.register_chat_completion_handler(name, handler, overwrite=True)
        return handler

    return decorate


def register_chat_format(name: str) -> Callable[[ChatFormatter], ChatFormatter]:
    """Decorates a function that makes a ChatFormatterResponse of `messages`, which gets a name as a format."""

    def decorate(formatter: ChatFormatter) -> ChatFormatter:
        REGISTRY.register_chat_completion_handler(name, chat_formatter_to_chat_completion_handler(formatter), True)
        return formatter

    return decorate


def chat_formatter_to_chat_completion_handler(chat_formatter: ChatFormatter) -> Callable[..., Any]:
    """A handler that answers the prompt of a formatter."""

    def handler(*, llama: Any, messages: Messages, **options: Any) -> Any:
        return llama.answer_formatted(chat_formatter, messages, options)

    return handler


def hf_autotokenizer_to_chat_formatter(pretrained_model_name_or_path: str | os.PathLike[str]) -> ChatFormatter:
    """The chat template of a tokenizer of a folder or a repository as a formatter; needs `transformers`."""
    from transformers import AutoTokenizer  # type: ignore[import-not-found, unused-ignore]

    tokenizer = AutoTokenizer.from_pretrained(pretrained_model_name_or_path)

    def formatter(*, messages: Messages, **others: Any) -> ChatFormatterResponse:
        prompt = tokenizer.apply_chat_template(list(messages), tokenize=False, **others)
        return ChatFormatterResponse(prompt, tokenizer.eos_token, added_special=True)

    return formatter


def hf_autotokenizer_to_chat_completion_handler(
    pretrained_model_name_or_path: str | os.PathLike[str],
) -> Callable[..., Any]:
    """The same as a handler."""
    return chat_formatter_to_chat_completion_handler(hf_autotokenizer_to_chat_formatter(pretrained_model_name_or_path))


def hf_tokenizer_config_to_chat_formatter(
    tokenizer_config: Mapping[str, Any], add_generation_prompt: bool = True
) -> ChatFormatter:
    """The chat template of the settings in a file `tokenizer_config.json` as a formatter.

    Raises:
        ValueError: they have no texts `chat_template`, `bos_token` and `eos_token`.
    """
    names = ("chat_template", "eos_token", "bos_token")
    texts = []
    for name in names:
        value = tokenizer_config.get(name)
        text = value.get("content") if isinstance(value, Mapping) else value
        if not isinstance(text, str):
            raise ValueError(f"hf_tokenizer_config_to_chat_formatter: {name} is {str(text)[:60]}: need a string")
        texts.append(text)
    formatter = Jinja2ChatFormatter(texts[0], texts[1], texts[2], add_generation_prompt)

    def answer(*, messages: Messages, **others: Any) -> ChatFormatterResponse:
        found = formatter(messages=messages, **others)
        return ChatFormatterResponse(found.prompt, [formatter.eos_token, formatter.bos_token], added_special=True)

    return answer


def hf_tokenizer_config_to_chat_completion_handler(
    tokenizer_config: Mapping[str, Any], add_generation_prompt: bool = True
) -> Callable[..., Any]:
    """The same as a handler."""
    formatter = hf_tokenizer_config_to_chat_formatter(tokenizer_config, add_generation_prompt)
    return chat_formatter_to_chat_completion_handler(formatter)


def guess_chat_format_from_gguf_metadata(metadata: Mapping[str, str]) -> str | None:
    """The name of a format for the keys of a file: "chatml" where it has that template; None where it has another."""
    return "chatml" if metadata.get("tokenizer.chat_template") == CHATML_CHAT_TEMPLATE else None


for _name, _format in FORMATS.items():
    register_chat_format(_name)(_format)
    globals()["format_" + _name.replace("-", "_").replace("llama_", "llama").replace("baichuan_2", "baichuan2")] = (
        _format
    )
chatml_function_calling = chat_formatter_to_chat_completion_handler(FORMATS["chatml"])
REGISTRY.register_chat_completion_handler("chatml-function-calling", chatml_function_calling, overwrite=True)
