"""openai-agents with `ggml serve`: one loop with a tool, over chats and over responses."""

import asyncio
from typing import Literal

from agents import (
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_tracing_disabled,  # fmt: skip
)
from openai import AsyncOpenAI
from served import served

asked: list[str] = []


@function_tool
def get_weather(city: Literal["Rome", "Oslo"]) -> str:
    """The weather of a city."""
    asked.append(city)
    return f"sunny in {city}"


async def loop(kind, client):
    """An agent that must call its tool first, then answers."""
    asked.clear()
    agent = Agent(name="helper", instructions="Answer briefly.", tools=[get_weather], model=kind("smol", client),
                  model_settings=ModelSettings(tool_choice="required", temperature=0, max_tokens=100))  # fmt: skip
    found = await Runner.run(agent, "How is the weather in Rome?", max_turns=4)
    assert asked and isinstance(found.final_output, str)
    print("openai-agents:", kind.__name__, asked, found.final_output[:60])


with served("--ctx", "1024", "--sequences", "4") as url:
    set_tracing_disabled(True)
    for kind in (OpenAIChatCompletionsModel, OpenAIResponsesModel):
        asyncio.run(loop(kind, AsyncOpenAI(base_url=f"{url}/v1", api_key="none")))
