"""What tests of the server share: tiny models, an application in this process, a server that listens."""

import contextlib
import json
import threading
import time

import structured

TEMPLATE = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}{% if tools %}<tool_call>{# tool_calls #}"
    "{% endif %}{% if add_generation_prompt %}<answer>{% endif %}"
)
SETTINGS = {"n_ctx": 256, "sequences": 4, "threads": 1, "chunk": 32, "tokens": 4096}
HI = [{"role": "user", "content": "hi"}]
GREEDY = {"temperature": 0, "exact": True}


def write(path, **change):
    """Writes a model of random weights, with a chat template and a vocabulary of all bytes."""
    return structured.write_model(path, change={"tokenizer.chat_template": TEMPLATE, **change})


def events(text):
    """The contents of server-sent events, without the mark of the end."""
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


@contextlib.contextmanager
def listening(application, **options):
    """Runs a server; yields its address."""
    import uvicorn

    config = uvicorn.Config(application, port=0, log_level="error", **options)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(20)
        assert not thread.is_alive()
