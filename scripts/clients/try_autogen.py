"""AutoGen's client for llama-cpp-python: answers, tools, JSON, an agent."""

import asyncio
import json

import llama_cpp
import model
from autogen_agentchat.agents import AssistantAgent
from autogen_core.models import SystemMessage, UserMessage
from autogen_core.tools import FunctionTool
from autogen_ext.models.llama_cpp import LlamaCppChatCompletionClient
from pydantic import BaseModel

QUESTION = [
    SystemMessage(content="You are helpful."),
    UserMessage(content="Name the capital of France.", source="user"),
]


class Place(BaseModel):
    """A place."""

    city: str


def weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


async def main():
    client = LlamaCppChatCompletionClient(model_path=model.path(), n_ctx=2048, temperature=0.0, verbose=False)
    greedy = {"extra_create_args": {"temperature": 0.0, "max_tokens": 24}}
    found = await client.create(QUESTION, **greedy)
    llama = llama_cpp.Llama(model.path(), n_ctx=2048, verbose=False)
    messages = [{"role": "system", "content": "You are helpful."}, {"role": "user", "content": QUESTION[1].content}]
    expected = llama.create_chat_completion(messages, temperature=0, max_tokens=24)["choices"][0]["message"]["content"]
    assert found.content == expected and "Paris" in expected and found.usage.completion_tokens > 0
    found = await client.create(QUESTION, json_output=True, extra_create_args={"temperature": 0.0, "max_tokens": 60})
    assert isinstance(json.loads(found.content), dict)
    tool = FunctionTool(weather, description="The weather of a city.")
    asked = [UserMessage(content="How is the weather in Rome?", source="user")]
    found = await client.create(asked, tools=[tool], **greedy)
    assert isinstance(found.content, str)  # it looks for calls beside the message, where llama_cpp has none
    form = await client.create(asked, json_output=Place, extra_create_args={"temperature": 0.0, "max_tokens": 60})
    assert Place.model_validate_json(form.content)
    assert client.count_tokens(QUESTION) > 5 and client.remaining_tokens(QUESTION) > 100
    agent = AssistantAgent("helper", model_client=client, system_message="You are helpful.")
    result = await agent.run(task="Name the capital of France.")
    assert result.messages[-1].content
    print("autogen:", expected, form.content, result.messages[-1].content)


if __name__ == "__main__":
    asyncio.run(main())
