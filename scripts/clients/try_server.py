"""llama-cpp-python's own server over `llama_cpp`, and the package openai as its client.

The folder `server` of the real package is not part of what stands for it: it is taken from the sources.
"""

import json
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.request
from pathlib import Path

import llama_cpp
import model
import openai
from sources import archive

HI = [{"role": "user", "content": "Name the capital of France."}]
GREEDY = {"temperature": 0, "model": "smol"}
OWN = {"temperature": 0, "repeat_penalty": 1.1}  # the server's default
PARAMETERS = {
    "type": "object",
    "properties": {"city": {"type": "string", "enum": ["Rome", "Oslo"]}},
    "required": ["city"],
}
TOOL = {"type": "function", "function": {"name": "weather", "parameters": PARAMETERS}}


def add_server(folder):
    """Puts the server's modules beside `llama_cpp`."""
    place = Path(llama_cpp.__file__).parent / "server"
    place.mkdir(exist_ok=True)
    with tarfile.open(archive(folder)) as sources:
        for item in sources:
            parts = Path(item.name).parts
            data = sources.extractfile(item) if item.name.endswith(".py") else None
            if parts[1:3] == ("llama_cpp", "server") and data is not None:
                place.joinpath(parts[-1]).write_bytes(data.read())


def started(url, process):
    """Waits until the server answers."""
    for _ in range(300):
        if process.poll() is not None:
            raise SystemExit("the server ended")
        try:
            return urllib.request.urlopen(f"{url}/models", timeout=5).close()
        except OSError:
            time.sleep(0.2)
    raise SystemExit("the server does not answer")


def texts(client, llama):
    found = client.completions.create(prompt="The capital of France is", max_tokens=8, **GREEDY)
    expected = llama("The capital of France is", max_tokens=8, **OWN)["choices"][0]["text"]
    assert found.choices[0].text == expected and "Paris" in expected, found
    options = {"prompt": "The capital of France is", "max_tokens": 8, **GREEDY}
    assert "".join(chunk.choices[0].text for chunk in client.completions.create(stream=True, **options)) == expected
    found = client.completions.create(logprobs=2, **options).choices[0].logprobs
    assert len(found.tokens) == 8 and all(len(top) >= 2 for top in found.top_logprobs)
    found = client.completions.create(logit_bias={"7042": -100}, **options).choices[0].text
    assert found != expected


def chats(client, llama):
    options = {"messages": HI, "max_tokens": 16, **GREEDY}
    text = client.chat.completions.create(**options).choices[0].message.content
    expected = llama.create_chat_completion(HI, max_tokens=16, **OWN)["choices"][0]["message"]["content"]
    assert text == expected and "Paris" in text
    chunks = client.chat.completions.create(stream=True, **options)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == text


def structured(client, llama):
    form = {"type": "json_object", "schema": {**PARAMETERS, "additionalProperties": False}}
    found = client.chat.completions.create(messages=HI, response_format=form, max_tokens=40, **GREEDY)
    assert json.loads(found.choices[0].message.content)["city"] in ("Rome", "Oslo")
    choice = {"type": "function", "function": {"name": "weather"}}
    found = client.chat.completions.create(messages=HI, tools=[TOOL], tool_choice=choice, max_tokens=60, **GREEDY)
    (call,) = found.choices[0].message.tool_calls
    assert call.function.name == "weather" and json.loads(call.function.arguments)["city"] in ("Rome", "Oslo")
    grammar = {"grammar": 'root ::= "yes" | "no"'}
    found = client.chat.completions.create(messages=HI, max_tokens=8, extra_body=grammar, **GREEDY)
    assert found.choices[0].message.content in ("yes", "no")


def others(client, llama):
    assert len(client.models.list().data) == 1
    vectors = client.embeddings.create(model="smol", input=["one", "two"], encoding_format="float").data
    assert len(vectors) == 2 and vectors[0].embedding == llama.embed("one")
    try:
        client.completions.create(prompt="a " * 3000, max_tokens=4, **GREEDY)
    except openai.BadRequestError as error:
        assert "maximum context length is 1024 tokens" in str(error), error
    else:
        raise AssertionError("a prompt that is too long")


def main():
    with tempfile.TemporaryDirectory() as folder:
        add_server(folder)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = f"--port {port} --n_ctx 1024 --embedding true --logits_all true --cache true --model_alias smol"
    command = [sys.executable, "-m", "llama_cpp.server", "--model", model.path(), *options.split()]
    process = subprocess.Popen(command)
    try:
        started(f"http://127.0.0.1:{port}/v1", process)
        client = openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=0)
        llama = llama_cpp.Llama(model.path(), n_ctx=1024, embedding=True, verbose=False)
        for part in (texts, chats, structured, others):
            part(client, llama)
            print(f"llama_cpp.server: {part.__name__}: passed", flush=True)
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    main()
