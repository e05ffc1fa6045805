"""The forms of Anthropic's messages and of OpenAI's responses: the same answers as those of chats."""

import json

import pytest

for library in ("gguf", "jinja2", "tokenizers", "llguidance", "fastapi", "uvicorn", "prometheus_client", "httpx"):
    pytest.importorskip(library)  # of the extra [test]

import server  # noqa: E402
from fastapi.testclient import TestClient  # noqa: E402
from server import GREEDY, HI, SETTINGS  # noqa: E402

from ggml.models import load  # noqa: E402
from ggml.serve import app  # noqa: E402
from ggml.serve.endpoints import messages, responses  # noqa: E402
from ggml.serve.endpoints.blocks import Blocks  # noqa: E402

SCHEMA = {"type": "object", "properties": {"city": {"enum": ["Rome", "Oslo"]}}, "required": ["city"],
          "additionalProperties": False}  # fmt: skip


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = server.write(tmp_path_factory.mktemp("serve") / "tiny.gguf")
    with load(path, n_ctx=256, n_seq=4, threads=1) as model:
        yield model


@pytest.fixture(scope="module")
def client(model):
    with TestClient(app({"tiny": model}, **SETTINGS, exact=True)) as client:
        yield client


def post(client, path, status=200, **body):
    answer = client.post(path, json=body)
    assert answer.status_code == status, answer.text
    return server.events(answer.text) if body.get("stream") and status == 200 else answer.json()


def test_messages(client, model):
    own = model.chat([{"role": "system", "content": "be"}, *HI], max_tokens=9, **GREEDY)
    text = "".join(own)
    body = {"system": "be", "messages": HI, "max_tokens": 9, "temperature": 0}
    found = post(client, "/v1/messages", **body)
    assert found["content"] == [{"type": "text", "text": text}] and found["stop_reason"] == "max_tokens"
    usage = found["usage"]
    assert usage["input_tokens"] + usage["cache_read_input_tokens"] == len(own.prompt_ids)
    assert usage["output_tokens"] == 9
    chunks = post(client, "/v1/messages", stream=True, **body)
    kinds = [chunk["type"] for chunk in chunks]
    assert kinds[:2] == ["message_start", "content_block_start"] and set(kinds[2:-3]) == {"content_block_delta"}
    assert kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    assert "".join(chunk["delta"]["text"] for chunk in chunks[2:-3]) == text
    assert chunks[-2]["delta"]["stop_reason"] == "max_tokens"
    found = post(client, "/v1/messages", **body, stop_sequences=[text[4:6]])
    assert found["stop_reason"] == "stop_sequence" and found["stop_sequence"] == text[4:6]
    count = post(client, "/v1/messages/count_tokens", system=[{"type": "text", "text": "be"}], messages=HI)
    assert count == {"input_tokens": len(own.prompt_ids)}


def test_tools_in_messages(client):
    tool = {"name": "weather", "description": "of a city", "input_schema": SCHEMA}
    body = {"messages": HI, "tools": [tool], "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
            "max_tokens": 100, "temperature": 0}  # fmt: skip
    found = post(client, "/v1/messages", **body)
    (call,) = found["content"]
    assert found["stop_reason"] == "tool_use" and call["type"] == "tool_use" and call["name"] == "weather"
    assert call["input"]["city"] in ("Rome", "Oslo")
    chunks = post(client, "/v1/messages", stream=True, **body)
    parts = [c["delta"]["partial_json"] for c in chunks if c["type"] == "content_block_delta"]
    assert json.loads("".join(parts)) == call["input"]


def test_messages_as_chats():
    asked = messages.MessagesRequest(max_tokens=5, system=[{"type": "text", "text": "be"}], messages=[
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": ""},
                                          {"type": "tool_use", "id": "t", "name": "f", "input": {"x": 1}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "7"}]}],
        tools=[{"name": "f", "input_schema": SCHEMA}], tool_choice={"type": "tool", "name": "f"},
        thinking={"type": "enabled", "budget_tokens": 9})  # fmt: skip
    chat = messages.as_chat(asked)
    call = {"id": "t", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}
    assert chat.messages == [
        {"role": "system", "content": "be"}, {"role": "user", "content": "a\nb"},
        {"role": "assistant", "content": "", "tool_calls": [call], "reasoning_content": "hm"},
        {"role": "tool", "tool_call_id": "t", "content": "7"},
    ]  # fmt: skip
    assert chat.tool_choice["function"]["name"] == "f" and chat.reasoning_budget == 9 and chat.enable_thinking


@pytest.mark.parametrize("body", [
    {"messages": HI}, {"messages": [], "max_tokens": 1}, {"messages": [{"role": "x", "content": ""}], "max_tokens": 1},
    {"messages": [{"role": "user", "content": [{"type": "image"}]}], "max_tokens": 1},
    {"messages": [{"role": "user", "content": 7}], "max_tokens": 1},
    {"messages": HI, "max_tokens": 1, "tool_choice": {"type": "x"}},
    {"messages": HI, "max_tokens": 1, "thinking": {"type": "enabled", "budget_tokens": "x"}},
])  # fmt: skip
def test_errors_of_messages(body, client):
    found = post(client, "/v1/messages", 400, **body)
    assert found["type"] == "error" and found["error"]["type"] == "invalid_request_error"


def test_responses(client, model):
    own = model.chat([{"role": "system", "content": "be"}, *HI], max_tokens=9, **GREEDY)
    text = "".join(own)
    body = {"instructions": "be", "max_output_tokens": 9, "temperature": 0}
    for given in ("hi", HI, [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}]):
        found = post(client, "/v1/responses", input=given, **body)
        (item,) = found["output"]
        assert item["content"][0]["text"] == text and item["role"] == "assistant"
        assert found["status"] == "incomplete" and found["incomplete_details"] == {"reason": "max_output_tokens"}
        assert found["usage"]["input_tokens"] == len(own.prompt_ids) and found["usage"]["output_tokens"] == 9
    chunks = post(client, "/v1/responses", input="hi", stream=True, **body)
    assert [chunk["sequence_number"] for chunk in chunks] == list(range(len(chunks)))
    assert "".join(c["delta"] for c in chunks if c["type"] == "response.output_text.delta") == text
    kinds = [chunk["type"].removeprefix("response.") for chunk in chunks]
    assert kinds[:4] == ["created", "in_progress", "output_item.added", "content_part.added"]
    assert kinds[-4:] == ["output_text.done", "content_part.done", "output_item.done", "incomplete"]
    assert chunks[-1]["response"]["output"][0]["content"][0]["text"] == text


def test_tokens_of_reasoning(tmp_path):
    """In chats and responses; the budget ends reasoning."""
    path = server.write(tmp_path / "m.gguf", **{"tokenizer.chat_template": server.TEMPLATE + "<think>{# </think> #}"})
    with load(path, n_ctx=256, threads=1) as model, TestClient(app({"tiny": model}, **SETTINGS)) as client:
        body = {"messages": HI, "reasoning_budget": 5, "choices": ["yes"], "temperature": 0, "max_tokens": 60}
        found = post(client, "/v1/chat/completions", **body)
        end = model.tokenizer.encode("</think>", add_bos=False)
        assert (
            found["choices"][0]["message"]["content"] == "yes" and found["choices"][0]["message"]["reasoning_content"]
        )
        assert found["usage"]["completion_tokens_details"] == {"reasoning_tokens": 5 + len(end)}
        chunks = post(client, "/v1/chat/completions", **body, stream=True, stream_options={"include_usage": True})
        assert chunks[-1]["usage"]["completion_tokens_details"] == {"reasoning_tokens": 5 + len(end)}
        found = post(client, "/v1/responses", input="hi", max_output_tokens=9, temperature=0)
        details = found["usage"]["output_tokens_details"]
        assert details == {"reasoning_tokens": 9} and found["output"][0]["type"] == "reasoning"


def test_tools_and_schemas_in_responses(client):
    tool = {"type": "function", "name": "weather", "parameters": SCHEMA}
    body = {"input": "hi", "tools": [tool], "tool_choice": "required", "parallel_tool_calls": False, "temperature": 0}
    (call,) = post(client, "/v1/responses", **body)["output"]
    assert call["type"] == "function_call" and json.loads(call["arguments"])["city"] in ("Rome", "Oslo")
    chunks = post(client, "/v1/responses", stream=True, **body)
    (done,) = [chunk for chunk in chunks if chunk["type"] == "response.function_call_arguments.done"]
    assert done["arguments"] == call["arguments"] and chunks[-1]["type"] == "response.completed"
    format = {"type": "json_schema", "name": "n", "schema": SCHEMA}
    found = post(client, "/v1/responses", input="hi", text={"format": format}, temperature=0)
    assert json.loads(found["output"][0]["content"][0]["text"])["city"] in ("Rome", "Oslo")


def test_responses_as_chats():
    asked = responses.ResponsesRequest(input=[
        {"role": "developer", "content": "be"},
        {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "hm"}]},
        {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"},
        {"type": "function_call", "call_id": "2", "name": "g", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "1", "output": "7"}])  # fmt: skip
    first, second, third = responses.messages_of(asked)
    assert first == {"role": "developer", "content": "be"} and second["reasoning_content"] == "hm"
    assert [call["function"]["name"] for call in second["tool_calls"]] == ["f", "g"]
    assert third == {"role": "tool", "tool_call_id": "1", "content": "7"}


@pytest.mark.parametrize("body", [
    {}, {"input": []}, {"input": [{"type": "reasoning"}]}, {"input": "x", "previous_response_id": "r"},
    {"input": [{"type": "computer_call"}]},
    {"input": [{"role": "user", "content": [{"type": "input_image"}]}]},
    {"input": "x", "tools": [{"type": "web_search"}]}, {"input": "x", "text": {"format": {"type": "xml"}}},
])  # fmt: skip
def test_errors_of_responses(body, client):
    assert post(client, "/v1/responses", 400, **body)["error"]["type"] == "invalid_request_error"


def test_blocks():
    """Reasoning, content, a call, content again: each begins once, and ends before the next."""
    blocks, call = Blocks(), {"id": "c", "function": {"name": "f", "arguments": "{}"}}
    deltas = [{"reasoning_content": "a"}, {"reasoning_content": "b"}, {"content": "c"}, {"tool_calls": [call]},
              {"content": "d"}]  # fmt: skip
    changes = [c for delta in deltas for c in blocks.push(delta)] + [*blocks.finish()]
    assert [(c.what[0], c.number, c.text) for c in changes] == [
        ("b", 0, ""), ("t", 0, "a"), ("t", 0, "b"), ("e", 0, ""), ("b", 1, ""), ("t", 1, "c"), ("e", 1, ""),
        ("b", 2, ""), ("t", 2, "{}"), ("e", 2, ""), ("b", 3, ""), ("t", 3, "d"), ("e", 3, "")]  # fmt: skip
    assert [(b.kind, b.text) for b in blocks.items] == [
        ("reasoning", "ab"), ("content", "c"), ("call", "{}"), ("content", "d")]  # fmt: skip
