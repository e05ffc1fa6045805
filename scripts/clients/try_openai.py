"""The package openai with `ggml serve`: chats, streams, tools, parsing, embeddings, completions, responses, errors."""

import asyncio
import json
from typing import Literal

import openai
from pydantic import BaseModel
from served import TOOL, served

HI = [{"role": "user", "content": "Name the capital of France."}]
GREEDY = {"temperature": 0}


class Answer(BaseModel):
    size: Literal["small", "large"]
    capital: bool


def chats(client):
    found = client.chat.completions.create(model="smol", messages=HI, max_tokens=24, **GREEDY)
    text = found.choices[0].message.content
    assert "Paris" in text and found.usage.completion_tokens <= 24, text
    options = {"model": "smol", "messages": HI, "max_tokens": 24, "stream": True, **GREEDY}
    chunks = list(client.chat.completions.create(**options, stream_options={"include_usage": True}))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == text
    assert chunks[-1].usage.completion_tokens == found.usage.completion_tokens
    found = client.chat.completions.create(model="smol", messages=HI, max_tokens=4, n=2, seed=1,
                                           logprobs=True, top_logprobs=3)  # fmt: skip
    assert len(found.choices) == 2 and len(found.choices[0].logprobs.content[0].top_logprobs) == 3


def structured(client):
    found = client.chat.completions.parse(model="smol", messages=HI, response_format=Answer, max_tokens=80, **GREEDY)
    assert isinstance(found.choices[0].message.parsed, Answer)
    tools = [{"type": "function", "function": TOOL}]
    options = {"model": "smol", "messages": HI, "tools": tools, "tool_choice": "required", "max_tokens": 100, **GREEDY}
    call = client.chat.completions.create(**options).choices[0].message.tool_calls[0]
    assert json.loads(call.function.arguments)["city"] in ("Rome", "Oslo")
    with client.chat.completions.stream(**options) as events:
        same = events.get_final_completion().choices[0].message.tool_calls[0]
    assert same.function.arguments == call.function.arguments and same.function.name == TOOL["name"]
    messages = [*HI, {"role": "assistant", "content": None, "tool_calls": [call.model_dump()]},
                {"role": "tool", "tool_call_id": call.id, "content": "sunny"}]  # fmt: skip
    assert client.chat.completions.create(model="smol", messages=messages, tools=tools, max_tokens=8, **GREEDY).choices


def others(client):
    assert [model.id for model in client.models.list()] == ["smol"]
    prompts = ["Once upon a", "The sun"]
    found = client.completions.create(model="smol", prompt=prompts, max_tokens=5, logprobs=1, **GREEDY)
    assert len(found.choices) == 2 and len(found.choices[0].logprobs.tokens) == 5
    vectors = client.embeddings.create(model="smol", input=["one", "two"]).data  # asks for base64
    assert len(vectors) == 2 and abs(sum(x * x for x in vectors[0].embedding) - 1) < 1e-3
    options = {"model": "smol", "input": "Name the capital of France.", "max_output_tokens": 24, **GREEDY}
    found = client.responses.create(**options)
    assert "Paris" in found.output_text
    with client.responses.stream(**options) as events:
        kinds = [event.type for event in events]
        assert kinds[0] == "response.created" and events.get_final_response().output_text == found.output_text
    found = client.responses.parse(model="smol", input="Paris?", text_format=Answer, max_output_tokens=80, **GREEDY)
    assert isinstance(found.output_parsed, Answer)


def errors(client):
    for error, options in ((openai.NotFoundError, {"model": "other"}), (openai.BadRequestError, {"top_p": 7})):
        try:
            client.chat.completions.create(**{"model": "smol", "messages": HI, **options})
        except error as found:
            assert found.body["message"]
        else:
            raise AssertionError(error)
    try:
        client.with_options(api_key="wrong").models.list()
    except openai.AuthenticationError:
        pass
    else:
        raise AssertionError("a wrong key")


async def together(url):
    client = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="key")
    asked = [client.chat.completions.create(model="smol", messages=HI, max_tokens=12, **GREEDY) for _ in range(6)]
    found = await asyncio.gather(*asked)
    assert all("Paris" in answer.choices[0].message.content for answer in found)
    stream = await client.chat.completions.create(model="smol", messages=HI, max_tokens=12, stream=True, **GREEDY)
    assert [chunk async for chunk in stream]
    options = {"model": "smol", "messages": HI, "response_format": Answer, "max_tokens": 80, **GREEDY}
    assert isinstance((await client.chat.completions.parse(**options)).choices[0].message.parsed, Answer)
    assert (await client.embeddings.create(model="smol", input=["one"])).data[0].embedding
    found = await client.responses.create(model="smol", input="Hello.", max_output_tokens=8, stream=True)
    assert [event.type async for event in found][-1] in ("response.completed", "response.incomplete")


with served("--api-key", "key", "--ctx", "1024", "--sequences", "4") as url:
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="key")
    for part in (chats, structured, others, errors):
        part(client)
        print(f"openai: {part.__name__}: passed", flush=True)
    asyncio.run(together(url))
    print("openai: together: passed")
