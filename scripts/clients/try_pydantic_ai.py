"""pydantic-ai with `ggml serve`: texts, streams, output in the form of a class, a tool."""

import asyncio

from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from served import served

QUESTION = "Name the capital of France."


class City(BaseModel):
    """A city."""

    name: str


async def streamed(agent):
    async with agent.run_stream(QUESTION) as found:
        return await found.get_output()


with served("--ctx", "1024", "--sequences", "4") as url:
    model = OpenAIChatModel("smol", provider=OpenAIProvider(base_url=f"{url}/v1", api_key="none"))
    settings = {"temperature": 0, "max_tokens": 80}
    agent = Agent(model, model_settings=settings)
    answer = agent.run_sync(QUESTION).output
    assert "Paris" in answer and asyncio.run(streamed(agent)) == answer
    assert isinstance(Agent(model, output_type=City, model_settings=settings).run_sync(QUESTION).output, City)
    native = Agent(model, output_type=NativeOutput(City), model_settings=settings)
    assert isinstance(native.run_sync(QUESTION).output, City)
    print("pydantic-ai: passed")
