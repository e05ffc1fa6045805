"""The server: answers equal the model's, batches, errors, limits, hang-ups, keys."""

import concurrent.futures
import json
import re
import socket
import time

import pytest

for library in ("gguf", "jinja2", "tokenizers", "llguidance", "fastapi", "uvicorn", "prometheus_client", "httpx"):
    pytest.importorskip(library)  # of the extra [test]

import httpx  # noqa: E402
import server  # noqa: E402
from server import GREEDY, HI, SETTINGS  # noqa: E402

from ggml.models import load  # noqa: E402
from ggml.serve import Options, app  # noqa: E402

CHAT = "/v1/chat/completions"


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return server.write(tmp_path_factory.mktemp("serve") / "tiny.gguf")


@pytest.fixture(scope="module")
def application(path):
    return app({"tiny": path}, **SETTINGS)


@pytest.fixture(scope="module")
def url(application):
    with server.listening(application) as url:
        yield url


@pytest.fixture(scope="module")
def client(url):
    with httpx.Client(base_url=url, timeout=30) as client:
        yield client


@pytest.fixture(scope="module")
def model(path):
    with load(path, n_ctx=256, threads=1) as model:
        yield model


def ask(client, content="hi", **options):
    return client.post(CHAT, json={"messages": [{"role": "user", "content": content}], **options})


def alone(model, content, count):
    text = model.chat([{"role": "user", "content": content}], max_tokens=count, **GREEDY)
    return "".join(text), len(text.prompt_ids)


def metric(client, name):
    lines = client.get("/metrics").text.splitlines()
    return sum(float(line.split()[1]) for line in lines if line.startswith(name + "{"))


def test_an_answer_is_the_models(client, model):
    found = ask(client, max_tokens=9, logprobs=True, top_logprobs=2, **GREEDY).json()
    expected = model.chat(HI, max_tokens=9, logprobs=2, **GREEDY)
    text, choice = "".join(expected), found["choices"][0]
    assert choice["message"] == {"role": "assistant", "content": text, "refusal": None}
    assert choice["finish_reason"] == "length" and found["model"] == "tiny" and found["object"] == "chat.completion"
    assert {name: found["usage"][name] for name in ("prompt_tokens", "completion_tokens", "total_tokens")} == {
        "prompt_tokens": len(expected.prompt_ids), "completion_tokens": 9, "total_tokens": len(expected.prompt_ids) + 9,
    }  # fmt: skip
    for item, token in zip(choice["logprobs"]["content"], expected.logprobs, strict=True):
        assert item["id"] == token.id and item["logprob"] == token.logprob
        assert [(top["id"], top["logprob"]) for top in item["top_logprobs"]] == token.top
        assert bytes(item["bytes"]) == model.tokenizer.piece(token.id, True)


def test_a_stream_has_the_same_parts(client, model):
    answer = ask(client, max_tokens=9, stream=True, stream_options={"include_usage": True}, logprobs=True, **GREEDY)
    assert answer.headers["content-type"].startswith("text/event-stream") and answer.text.endswith("data: [DONE]\n\n")
    chunks = server.events(answer.text)
    assert chunks[0]["choices"][0]["delta"]["role"] == "assistant" and chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["completion_tokens"] == 9
    parts = [chunk["choices"][0] for chunk in chunks[:-1]]
    assert "".join(part["delta"].get("content", "") for part in parts) == alone(model, "hi", 9)[0]
    assert [part["finish_reason"] for part in parts] == [None] * (len(parts) - 1) + ["length"]
    assert sum(len(part["logprobs"]["content"]) for part in parts) == 9


def test_many_clients_get_what_each_gets_alone(client, model, url):
    """Prompts of different lengths, three times as many as sequences, with a common beginning and without."""
    contents = [("x" * 40 if i % 2 else "") + chr(65 + i) * (7 * i % 50) for i in range(12)]
    before = metric(client, "ggml_texts_total")
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        found = list(pool.map(lambda text: ask(client, text, max_tokens=10, **GREEDY).json(), contents))
    for content, answer in zip(contents, found, strict=True):
        text, asked = alone(model, content, 10)
        assert answer["choices"][0]["message"]["content"] == text and answer["usage"]["prompt_tokens"] == asked
    assert metric(client, "ggml_texts_total") - before == 12
    again = ask(client, contents[3], max_tokens=10, **GREEDY).json()
    assert again["usage"]["prompt_tokens_details"]["cached_tokens"] == again["usage"]["prompt_tokens"] - 1


def test_several_answers(client, model):
    options = {"temperature": 1.5, "top_k": 0, "max_tokens": 8, "exact": True}
    found = ask(client, n=3, seed=5, **options).json()
    for i, choice in enumerate(found["choices"]):
        assert choice["index"] == i
        assert choice["message"]["content"] == "".join(model.chat(HI, seed=5 + i, **options))
    assert len({choice["message"]["content"] for choice in found["choices"]}) == 3
    chunks = server.events(ask(client, n=3, seed=5, stream=True, **options).text)
    for i, choice in enumerate(found["choices"]):
        parts = [c["choices"][0]["delta"].get("content", "") for c in chunks if c["choices"][0]["index"] == i]
        assert "".join(parts) == choice["message"]["content"]


def test_settings_reach_the_sampler(client, model):
    text = alone(model, "hi", 12)[0]
    stop = text[5:7]
    found = ask(client, max_tokens=12, stop=[stop], **GREEDY).json()["choices"][0]
    assert found["message"]["content"] == text[: text.find(stop)] and found["finish_reason"] == "stop"
    found = ask(client, max_tokens=5, logit_bias={"65": 100}, **GREEDY).json()["choices"][0]
    assert found["message"]["content"] == model.tokenizer.piece(65).decode() * 5
    found = ask(client, max_tokens=0, **GREEDY).json()
    assert found["choices"][0] | {"logprobs": None} == {
        "index": 0, "message": {"role": "assistant", "content": "", "refusal": None}, "logprobs": None,
        "finish_reason": "length"}  # fmt: skip


@pytest.mark.parametrize("format", [
    {"type": "json_schema", "json_schema": {"name": "p", "schema": {"type": "object", "properties": {
        "x": {"type": "integer", "minimum": 0, "maximum": 9}}, "required": ["x"], "additionalProperties": False}}},
    {"type": "json_object", "schema": {"enum": ["one", "two"]}},
])  # fmt: skip
def test_structured_output(format, client):
    answer = ask(client, response_format=format, max_tokens=60, seed=3).json()["choices"][0]
    value = json.loads(answer["message"]["content"])
    assert value in ("one", "two") or (list(value) == ["x"] and 0 <= value["x"] <= 9)
    assert answer["finish_reason"] == "stop"


def test_tools(client):
    schema = {"type": "object", "properties": {"city": {"enum": ["Rome", "Oslo"]}}, "required": ["city"],
              "additionalProperties": False}  # fmt: skip
    tool = {"type": "function", "function": {"name": "weather", "parameters": schema}}
    options = {"tools": [tool], "tool_choice": "required", "max_tokens": 100, "seed": 1, "parallel_tool_calls": False}
    choice = ask(client, **options).json()["choices"][0]
    assert choice["finish_reason"] == "tool_calls" and choice["message"]["content"] is None
    (call,) = choice["message"]["tool_calls"]
    assert call["function"]["name"] == "weather"
    assert json.loads(call["function"]["arguments"])["city"] in ("Rome", "Oslo")
    parts = [c["choices"][0] for c in server.events(ask(client, stream=True, **options).text)]
    (streamed,) = [part["delta"]["tool_calls"][0] for part in parts if "tool_calls" in part["delta"]]
    assert streamed["function"] == call["function"] and streamed["index"] == 0
    assert parts[-1]["finish_reason"] == "tool_calls"


@pytest.mark.parametrize("status, words, body", [
    (400, "messages", {}),
    (400, "messages", {"messages": []}),
    (400, r"messages\[0\]", {"messages": ["hi"]}),
    (400, "a list such as", {"messages": [{}]}),
    (400, "top_p is 7", {"messages": HI, "top_p": 7}),
    (400, "temperature", {"messages": HI, "temperature": float("nan")}),
    (400, "surrogate", {"messages": [{"role": "user", "content": "\ud800"}]}),
    (400, "no token|does not exist", {"messages": HI, "logit_bias": {"99999": 1}}),
    (400, "logit_bias", {"messages": HI, "logit_bias": {"x": 1}}),
    (400, "300 tokens|the context 256", {"messages": [{"role": "user", "content": "xq" * 150}]}),
    (400, "stop", {"messages": HI, "stop": ["x"] * 17}),
    (400, "n:", {"messages": HI, "n": 99}),
    (400, "tool_choice", {"messages": HI, "tool_choice": "no"}),
    (400, "response_format", {"messages": HI, "response_format": {"type": "xml"}}),
    (400, "regex", {"messages": HI, "regex": "("}),
    (400, "need one of them", {"messages": HI, "regex": "a", "response_format": {"type": "json_object"}}),
    (400, "no encoder", {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]}),
    (404, "no model 'other': need one of 'tiny'", {"messages": HI, "model": "other"}),
])  # fmt: skip
def test_errors(status, words, body, client):
    kind = {"content-type": "application/json"}
    answer = client.post(CHAT, content=json.dumps(body), headers=kind)
    error = answer.json()["error"]
    assert answer.status_code == status and re.search(words, error["message"]), answer.text
    assert error["type"] == ("not_found_error" if status == 404 else "invalid_request_error")
    streamed = client.post(CHAT, content=json.dumps({**body, "stream": True}), headers=kind)
    assert streamed.status_code == status or words.startswith("no token")  # that is found when it is computed


def test_errors_of_http(client):
    for method, path, status in (("GET", CHAT, 405), ("GET", "/nowhere", 404), ("GET", "/v1/models/no", 404)):
        answer = client.request(method, path)
        assert answer.status_code == status and answer.json()["error"]["message"]
    for content, kind in ((b"{", "application/json"), (b"[" * 100000, "application/json"), (b"\xff", "text/plain")):
        answer = client.post(CHAT, content=content, headers={"content-type": kind})
        assert answer.status_code == 400 and answer.json()["error"]["type"] == "invalid_request_error"


def test_status(client):
    assert client.get("/health").json() == {"status": "ok"}
    (entry,) = client.get("/v1/models").json()["data"]
    assert entry["id"] == "tiny" and entry["meta"]["n_ctx"] == 256
    assert client.get("/v1/models/tiny").json()["id"] == "tiny"
    assert client.get("/openapi.json").json()["info"]["title"] == "ggml"


def until(condition):
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_hangs_up_frees_its_sequence(stream, tmp_path):
    """The text would take minutes."""
    path = server.write(tmp_path / "long.gguf", **{"llama.context_length": 1 << 15})
    body = json.dumps({"messages": HI, "stream": stream, "logit_bias": {"65": 1e6}}).encode()
    head = f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    application = app({"tiny": path}, **{**SETTINGS, "n_ctx": 1 << 15, "tokens": None, "sequences": 1})
    with server.listening(application) as url, httpx.Client(base_url=url, timeout=20) as client:
        with socket.create_connection(tuple(url.removeprefix("http://").split(":"))) as connection:
            connection.sendall(head.encode() + body)
            until(lambda: metric(client, "ggml_active_texts") == 1)
        assert ask(client, max_tokens=1).status_code == 200  # it gets the only sequence
        assert metric(client, "ggml_texts_total") == 1


def test_keys(path):
    application = app({"tiny": path}, keys=["one", "two"], **SETTINGS)
    with server.listening(application) as url, httpx.Client(base_url=url) as client:
        assert client.get("/health").status_code == 200
        for headers in ({}, {"Authorization": "Bearer no"}, {"Authorization": "one"}, {"x-api-key": "ONE"}):
            for path in ("/v1/models", "/metrics", "/openapi.json"):
                answer = client.get(path, headers=headers)
                assert answer.status_code == 401 and answer.json()["error"]["code"] == "invalid_api_key"
        for headers in ({"Authorization": "Bearer one"}, {"x-api-key": "two"}, {"authorization": "bearer two"}):
            assert client.get("/v1/models", headers=headers).status_code == 200


def test_limits(path):
    options = {**SETTINGS, "sequences": 1, "queue": 1, "body": 1000, "timeout": 0.3, "body_timeout": 1}
    with server.listening(app({"tiny": path}, **options)) as url, httpx.Client(base_url=url, timeout=20) as client:
        assert ask(client, "x" * 2000).status_code == 413
        answer = client.post(CHAT, content=(b"x" * 100 for _ in range(20)))
        assert answer.status_code == 413 and answer.json()["error"]["type"] == "request_too_large"
        answer = ask(client, n=3)
        assert answer.status_code == 429 and int(answer.headers["retry-after"]) >= 1
        with socket.create_connection(tuple(url.removeprefix("http://").split(":"))) as connection:
            connection.sendall(f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n".encode())
            assert b" 408 " in connection.recv(1000).splitlines()[0]


def test_time_is_limited(path):
    with server.listening(app({"tiny": path}, **SETTINGS, timeout=0.0)) as url, httpx.Client(base_url=url) as client:
        answer = ask(client)
        assert answer.status_code == 504 and "longer than 0 s" in answer.json()["error"]["message"]
        assert server.events(ask(client, stream=True).text)[-1]["error"]["type"] == "timeout_error"


def test_cors_is_off_unless_asked(path, client):
    headers = {"Origin": "https://a.example", "Access-Control-Request-Method": "POST"}
    assert "access-control-allow-origin" not in client.options(CHAT, headers=headers).headers
    with server.listening(app(path, cors=["https://a.example"], keys=["k"], **SETTINGS)) as url:
        found = httpx.options(url + CHAT, headers=headers).headers
        assert found["access-control-allow-origin"] == "https://a.example"
        found = httpx.options(url + CHAT, headers={**headers, "Origin": "https://b.example"}).headers
        assert "access-control-allow-origin" not in found


def test_another_application_can_mount_it(path, model):
    """Without its lifespan: the model is opened by the first request."""
    fastapi = pytest.importorskip("fastapi")
    inner, outer = app({"tiny": path}, keys=["k"], **SETTINGS), fastapi.FastAPI()
    outer.mount("/llm", inner)
    with server.listening(outer) as url, httpx.Client(base_url=f"{url}/llm", timeout=20) as client:
        assert client.get("/health").status_code == 200 and client.get("/v1/models").status_code == 401
        client.headers["Authorization"] = "Bearer k"
        found = ask(client, max_tokens=5, **GREEDY).json()["choices"][0]["message"]["content"]
        assert found == alone(model, "hi", 5)[0]
    inner.state.service.engine.close()
    assert not inner.state.service.engine.alive()


def test_settings_are_checked(path, tmp_path):
    for settings in ({"sequences": 0}, {"queue": -1}, {"keys": "k"}, {"keys": [""]}, {"chunk": 4}):
        with pytest.raises(ValueError, match=f"serve: {min(settings)}"):
            Options(**settings)
    with pytest.raises(TypeError, match="app: options and keys"):
        app(path, Options(), keys=["k"])
    with pytest.raises(ValueError, match="serve: two models have the name 'tiny'"):
        app([path, path])
    with pytest.raises(ValueError, match="serve: need at least one model"):
        app({})
