"""llama-index-llms-openai-like with `ggml serve`: chats, streams, completions, tools, structured output."""

import asyncio

from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike
from pydantic import BaseModel
from served import served


class City(BaseModel):
    """A city."""

    name: str


def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


with served("--ctx", "1024", "--sequences", "4") as url:
    llm = OpenAILike(
        model="smol", api_base=f"{url}/v1", api_key="none", is_chat_model=True, is_function_calling_model=True,
        context_window=1024, temperature=0, max_tokens=80,
    )  # fmt: skip
    question = [ChatMessage(role="user", content="Name the capital of France.")]
    answer = llm.chat(question).message.content
    assert "Paris" in answer
    assert [part.message.content for part in llm.stream_chat(question)][-1] == answer
    assert asyncio.run(llm.achat(question)).message.content == answer
    assert llm.complete("The capital of France is").text
    tool = FunctionTool.from_defaults(get_weather)
    found = llm.chat_with_tools([tool], user_msg="How is the weather in Rome?", tool_required=True)
    (call,) = llm.get_tool_calls_from_response(found)
    assert call.tool_name == "get_weather" and tool.call(**call.tool_kwargs).content.startswith("sunny")
    assert isinstance(llm.as_structured_llm(City).chat(question).raw, City)
    print("llama-index: passed")
