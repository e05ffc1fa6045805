"""Renders messages with the chat templates of a folder, here and with transformers, and prints where the texts differ.

    python scripts/compare_templates.py FOLDER

The folder `models/templates` of llama.cpp has 70 of them. Here messages come in OpenAI's form; transformers gets the
form that it renders without an error: arguments as objects or else as strings, no content or else an empty one. The
packages `transformers` and `jinja2` suffice. The exit status is 1 if a text differs.
"""

import argparse
import difflib
import json
import sys
from itertools import product
from pathlib import Path

from transformers.utils.chat_template_utils import render_jinja_template

from ggml.models import ChatTemplate

ARGUMENTS = '{"city": "Par\u00eds", "days": 3}'
PROPERTIES = {"city": {"type": "string", "description": "city"}, "days": {"type": "integer", "description": "how many"}}
PARAMETERS = {"type": "object", "properties": PROPERTIES, "required": ["city"]}
TOOLS = [{"type": "function", "function": {"name": "weather", "description": "tells it", "parameters": PARAMETERS}}]


class Tokens:
    """The special tokens of the prompts."""

    bos, eos, unknown, separator, padding = 0, 1, None, None, None

    def has(self, text):
        return False

    def text(self, token):
        return ("<s>", "</s>")[token]


def call(arguments, **content):
    """Messages with a tool call and its answer."""
    tool_call = {"id": "abcdef123", "type": "function", "function": {"name": "weather", "arguments": arguments}}
    return [{"role": "user", "content": "Will it rain?"}, {"role": "assistant", **content, "tool_calls": [tool_call]},
            {"role": "tool", "tool_call_id": "abcdef123", "name": "weather", "content": "sunny"}]  # fmt: skip


def talk(form):
    """Messages without tools; `form` makes content of a text."""
    texts = [("system", "Be brief."), ("user", " Hello? "), ("assistant", "Hi."), ("user", "Why?")]
    return [{"role": role, "content": form(text)} for role, text in texts]


def theirs(source, forms, tools):
    """What transformers makes of the first form that it renders, or its first exception."""
    failure = None
    for messages in forms:
        options = {"tools": tools, "add_generation_prompt": True, "bos_token": "<s>", "eos_token": "</s>"}
        try:
            return render_jinja_template([messages], chat_template=source, **options)[0][0]
        except Exception as error:
            failure = failure or error
    return failure


def ours(source, messages, tools):
    """What `ggml.models` makes of messages, or its exception."""
    try:
        return ChatTemplate({"tokenizer.chat_template": source}, Tokens()).render(messages, tools=tools)
    except ValueError as error:
        return error


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    paths = sorted(parser.parse_args().folder.glob("*.jinja"))
    contents: list[dict[str, str]] = [{}, {"content": ""}]
    calls = [call(arguments, **content) for arguments, content in product([json.loads(ARGUMENTS), ARGUMENTS], contents)]
    cases = {
        "tool calls": (call(ARGUMENTS, content=None), calls, TOOLS),
        "text": (talk(str), [talk(str)], None),
        "parts": (talk(lambda text: [{"type": "text", "text": text}]), [talk(str)], None),
    }
    differ = 0
    for path in paths:
        source = path.read_text(encoding="utf-8")
        for name, (messages, forms, tools) in cases.items():
            wanted, found = theirs(source, forms, tools), ours(source, messages, tools)
            if isinstance(wanted, Exception):
                print(f"{path.stem}: {name}: transformers fails ({wanted}), here: {str(found)[:60]!r}")
            elif found != wanted:
                differ += 1
                print(f"{path.stem}: {name} differ")
                print("\n".join(difflib.unified_diff(wanted.split("\n"), str(found).split("\n"), lineterm="", n=0)))
    print(f"{len(paths)} templates, {len(cases)} cases each: {differ} differ")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
