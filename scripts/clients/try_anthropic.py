"""The package anthropic with `ggml serve`: messages, streams, tools, counting, errors."""

import anthropic
from served import TOOL, served

HI = [{"role": "user", "content": "Name the capital of France."}]
OPTIONS = {"model": "smol", "max_tokens": 24, "extra_body": {"temperature": 0}}

with served("--ctx", "1024", "--sequences", "4") as url:
    client = anthropic.Anthropic(base_url=url, api_key="none")
    found = client.messages.create(messages=HI, system="You are brief.", **OPTIONS)
    assert "Paris" in found.content[0].text and found.usage.output_tokens <= 24
    with client.messages.stream(messages=HI, system="You are brief.", **OPTIONS) as stream:
        assert "".join(stream.text_stream) == found.content[0].text
        assert stream.get_final_message().stop_reason == found.stop_reason
    tool = {"name": TOOL["name"], "description": TOOL["description"], "input_schema": TOOL["parameters"]}
    options = {**OPTIONS, "max_tokens": 100, "tools": [tool], "tool_choice": {"type": "any"}}
    called = client.messages.create(messages=HI, **options)
    call = next(block for block in called.content if block.type == "tool_use")
    assert called.stop_reason == "tool_use" and call.input["city"] in ("Rome", "Oslo")
    with client.messages.stream(messages=HI, **options) as stream:
        assert next(b for b in stream.get_final_message().content if b.type == "tool_use").input == call.input
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "sunny"}
    messages = [*HI, {"role": "assistant", "content": called.content}, {"role": "user", "content": [result]}]
    assert client.messages.create(messages=messages, tools=[tool], **OPTIONS).content
    assert client.messages.count_tokens(model="smol", messages=HI).input_tokens > 5
    try:
        client.messages.create(messages=HI, **{**OPTIONS, "model": "other"})
    except anthropic.NotFoundError as error:
        assert error.body["error"]["type"] == "not_found_error"
    else:
        raise AssertionError("a model that is not there")
    print("anthropic: passed")
