"""Haystack's generator for llama-cpp-python: conversations, a stream, tools, JSON, in a pipeline."""

import json

import llama_cpp
import model
from haystack import Pipeline
from haystack.components.builders import ChatPromptBuilder
from haystack.dataclasses import ChatMessage
from haystack.tools import Tool
from haystack_integrations.components.generators.llama_cpp import LlamaCppChatGenerator

GREEDY = {"temperature": 0, "max_tokens": 24}
PARAMETERS = {
    "type": "object",
    "properties": {"city": {"type": "string", "enum": ["Rome", "Oslo"]}},
    "required": ["city"],
}
QUESTION = [ChatMessage.from_user("Name the capital of France.")]


def main():
    llama = llama_cpp.Llama(model.path(), n_ctx=1024, verbose=False)
    chat = LlamaCppChatGenerator(model.path(), n_ctx=1024, n_batch=128, generation_kwargs=GREEDY,
                                 model_kwargs={"verbose": False})  # fmt: skip
    chat.warm_up()
    (reply,) = chat.run(QUESTION)["replies"]
    asked = [{"role": "user", "content": "Name the capital of France."}]
    assert reply.text == llama.create_chat_completion(asked, **GREEDY)["choices"][0]["message"]["content"]
    chunks: list = []
    (streamed,) = chat.run(QUESTION, streaming_callback=chunks.append)["replies"]
    assert streamed.text == reply.text == "".join(chunk.content for chunk in chunks)

    tool = Tool("weather", "The weather of a city.", PARAMETERS, lambda city: f"sunny in {city}")
    choice = {"tool_choice": {"type": "function", "function": {"name": "weather"}}, "max_tokens": 60}
    question = [ChatMessage.from_user("How is the weather in Rome?")]
    (reply,) = chat.run(question, tools=[tool], generation_kwargs=choice)["replies"]
    (call,) = reply.tool_calls
    assert call.tool_name == "weather" and call.arguments["city"] in ("Rome", "Oslo")
    told = [*question, reply, ChatMessage.from_tool(tool.invoke(**call.arguments), origin=call)]

    form = {"response_format": {"type": "json_object", "schema": PARAMETERS}}
    (reply,) = chat.run(question, generation_kwargs=form)["replies"]
    assert json.loads(reply.text)["city"] in ("Rome", "Oslo")

    pipeline = Pipeline()
    pipeline.add_component("prompt", ChatPromptBuilder([ChatMessage.from_user("Name the capital of {{country}}.")]))
    pipeline.add_component("chat", chat)
    pipeline.connect("prompt.prompt", "chat.messages")
    assert "Paris" in pipeline.run({"prompt": {"country": "France"}})["chat"]["replies"][0].text
    (last,) = chat.run(told, tools=[tool])["replies"]  # llama-cpp-python's own class refuses a message without content
    assert last.text is not None or last.tool_calls
    print("haystack:", streamed.text, call.arguments, reply.text)


if __name__ == "__main__":
    main()
