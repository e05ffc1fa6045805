"""Records the prompts that llama-cpp-python's chat formats make, for tests/models/test_llama_cpp_module.py.

    python scripts/record_chat_formats.py NAME...

Needs llama-cpp-python. Writes tests/data/chat_formats.json: conversations, and for each format their prompts and what
ends an answer.
"""

import json
import sys
from pathlib import Path

import llama_cpp.llama_chat_format as formats

CONVERSATIONS = [
    [{"role": "user", "content": "Hi"}],
    [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Name one."},
     {"role": "assistant", "content": "Red."}, {"role": "user", "content": "Another?"}],
]  # fmt: skip


def recorded(name):
    """The prompts of one format."""
    handler = formats.get_chat_completion_handler(name)
    cells = dict(zip(handler.__code__.co_freevars, handler.__closure__))
    formatter = cells["chat_formatter"].cell_contents
    responses = [formatter(messages=messages) for messages in CONVERSATIONS]
    return {"prompts": [response.prompt for response in responses], "stop": responses[0].stop}


def main():
    found = {name: recorded(name) for name in sys.argv[1:]}
    path = Path(__file__).resolve().parent.parent / "tests" / "data" / "chat_formats.json"
    path.write_text(json.dumps({"conversations": CONVERSATIONS, "formats": found}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
