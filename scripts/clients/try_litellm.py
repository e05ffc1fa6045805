"""litellm with `ggml serve`: chats, streams, tools, texts, embeddings, errors."""

import asyncio
import json

import litellm
from served import TOOL, served

HI = [{"role": "user", "content": "Name the capital of France."}]

with served("--ctx", "1024", "--sequences", "4") as url:
    options = {"model": "openai/smol", "api_base": f"{url}/v1", "api_key": "none", "temperature": 0}
    answer = litellm.completion(messages=HI, max_tokens=24, **options).choices[0].message.content
    assert "Paris" in answer
    parts = litellm.completion(messages=HI, max_tokens=24, stream=True, **options)
    assert "".join(part.choices[0].delta.content or "" for part in parts) == answer
    found = asyncio.run(litellm.acompletion(messages=HI, max_tokens=24, **options))
    assert found.choices[0].message.content == answer
    tools = [{"type": "function", "function": TOOL}]
    found = litellm.completion(messages=HI, tools=tools, tool_choice="required", max_tokens=100, **options)
    (call,) = found.choices[0].message.tool_calls
    assert json.loads(call.function.arguments)["city"] in ("Rome", "Oslo")
    text = {**options, "model": "text-completion-openai/smol"}
    assert litellm.text_completion(prompt="Once upon a", max_tokens=5, **text).choices[0].text
    options.pop("temperature")
    assert len(litellm.embedding(input=["one"], **options).data[0]["embedding"]) == 576
    try:
        litellm.completion(messages=HI, **{**options, "model": "openai/other"})
    except litellm.NotFoundError:
        pass
    else:
        raise AssertionError("a model that is not there")
    print("litellm: passed")
