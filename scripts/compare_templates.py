"""Renders messages with the chat templates of a folder, here and with transformers, and prints where the texts differ.

    python scripts/compare_templates.py FOLDER

The folder `models/templates` of llama.cpp has 70 of them. Each renders eight conversations, without and with tools.
Here messages come in OpenAI's form; transformers gets the form that it renders without an error: arguments as objects
or else as strings, no content or else an empty one, parts as they are or else joined. The packages `transformers` and
`jinja2` suffice. The exit status is 1 if a text differs.
"""

import argparse
import difflib
import json
import sys
from collections import Counter
from itertools import product
from pathlib import Path

from transformers.utils.chat_template_utils import render_jinja_template

from ggml.models import ChatTemplate

PROPERTIES = {"city": {"type": "string", "description": "city"}, "days": {"type": "integer", "description": "how many"}}
PARAMETERS = {"type": "object", "properties": PROPERTIES, "required": ["city"]}
ZONES = {"type": "array", "description": "names", "items": {"type": "string"}}
CLOCK = {"type": "object", "properties": {"zones": ZONES}}
TOOLS = [
    {"type": "function", "function": {"name": "weather", "description": "tells it", "parameters": PARAMETERS}},
    {"type": "function", "function": {"name": "clock", "description": "the time", "parameters": CLOCK}},
]


class Tokens:
    """The special tokens of the prompts."""

    bos, eos, unknown, separator, padding = 0, 1, None, None, None

    def has(self, text):
        return False

    def text(self, token):
        return ("<s>", "</s>")[token]


def said(*texts, form=str):
    """Messages of alternating roles, where a text is a pair with another role; `form` makes content of a text."""
    roles = ("user", "assistant")
    pairs = [text if isinstance(text, tuple) else (roles[i % 2], text) for i, text in enumerate(texts)]
    return [{"role": role, "content": form(text)} for role, text in pairs]


def called(*calls, **more):
    """A message with calls of tools, in OpenAI's form, and their results."""
    wire = [
        {"id": f"abcdef12{i}", "type": "function",
         "function": {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}}
        for i, (name, arguments, _) in enumerate(calls)
    ]  # fmt: skip
    results = [
        {"role": "tool", "tool_call_id": f"abcdef12{i}", "name": name, "content": result}
        for i, (name, _, result) in enumerate(calls)
    ]
    return [{"role": "assistant", "content": None, **more, "tool_calls": wire}, *results]


WEATHER = ("weather", {"city": "Par\u00eds", "days": 3}, "sunny")
ASKED = said("Will it rain?")
CONVERSATIONS = {
    "system": said(("system", "Be brief."), ("user", " Hello? "), ("assistant", "Hi."), ("user", "Why?")),
    "no system": said("Hello?", "Hi.\n", "Why?"),
    "call": ASKED + called(WEATHER),
    "parallel calls": [
        {"role": "system", "content": "Be brief."}, *ASKED,
        *called(WEATHER, ("clock", {"zones": ["UTC", "CET"]}, '{"UTC": "12:00"}')),
        *said(("assistant", "Not today."), ("user", "Thanks.")),
    ],
    "parts": said(("user", "Hello?"), "Hi.", "Why?", form=lambda text: [{"type": "text", "text": text}]),
    "roles": [
        {"role": "developer", "content": "Be brief."}, {"role": "user", "name": "anna", "content": "Hello?"},
        {"role": "assistant", "content": "Hi."}, {"role": "user", "name": "ben", "content": "Why?"},
    ],
    "reasoning": [
        *said("2 + 2?"), {"role": "assistant", "reasoning_content": "Two and two.", "content": "4"}, *ASKED,
        *called(WEATHER, reasoning_content="I ask."),
    ],
    "empty": [{"role": "system", "content": ""}, *said("", "", "Why?")],
}  # fmt: skip


def forms_of(messages):
    """The forms of messages that templates may take, the usual one first."""
    for joined, empty, strings in product((False, True), repeat=3):
        found = json.loads(json.dumps(messages))
        for message in found:
            if message["content"] is None:
                message["content"] = ""
                if not empty:
                    del message["content"]
            elif joined and isinstance(message["content"], list):
                message["content"] = "\n".join(part["text"] for part in message["content"])
            for call in message.get("tool_calls", ()) if not strings else ():
                call["function"]["arguments"] = json.loads(call["function"]["arguments"])
        yield found


def flawless(text, messages):
    """Whether a template shows parts and arguments as it means them: neither spelled as values nor left out."""
    spelled = any(mark in text for mark in ("'type': 'text'", '"type": "text"', "{'", '\\"'))
    parts = [part for message in messages if isinstance(message["content"], list) for part in message["content"]]
    return not spelled and all(part["text"] in text for part in parts)


def theirs(source, messages, tools):
    """What transformers makes of the first form that it renders without flaws, or its first exception."""
    failure, best = None, None
    for given in forms_of(messages):
        options = {"tools": tools, "add_generation_prompt": True, "bos_token": "<s>", "eos_token": "</s>"}
        try:
            text = render_jinja_template([given], chat_template=source, **options)[0][0]
        except Exception as error:
            failure = failure or error
            continue
        if flawless(text, messages):
            return text
        best = best or text
    return best or failure


def ours(source, messages, tools):
    """What `ggml.models` makes of messages, or its exception."""
    try:
        return ChatTemplate({"tokenizer.chat_template": source}, Tokens()).render(messages, tools=tools)
    except ValueError as error:
        return error


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", help="beginnings of the names of templates; all if there are none")
    options = parser.parse_args()
    paths = [path for path in sorted(options.folder.glob("*.jinja"))
             if not options.names or path.name.startswith(tuple(options.names))]  # fmt: skip
    counts: Counter[str] = Counter()
    for path in paths:
        source = path.read_text(encoding="utf-8")
        for (name, messages), tools in product(CONVERSATIONS.items(), (None, TOOLS)):
            case = f"{path.stem}: {name}, {'tools' if tools else 'no tools'}"
            wanted, found = theirs(source, messages, tools), ours(source, messages, tools)
            if isinstance(wanted, Exception):
                kind = "refused by both" if isinstance(found, Exception) else "rendered here alone"
                print(f"{case}: {kind}: {str(wanted)[:100]}")
            elif found == wanted:
                kind = "equal"
            else:
                kind = "differ"
                print(f"{case} differ")
                print("\n".join(difflib.unified_diff(wanted.split("\n"), str(found).split("\n"), lineterm="", n=0)))
            counts[kind] += 1
    print(f"{len(paths)} templates, {2 * len(CONVERSATIONS)} texts of each: {dict(counts)}")
    return 1 if counts["differ"] else 0


if __name__ == "__main__":
    sys.exit(main())
