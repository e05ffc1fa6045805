"""LangChain's classes for llama-cpp-python: texts, streams, conversations, tools, structured output, embeddings."""

import llama_cpp
import model
from langchain_community.chat_models import ChatLlamaCpp
from langchain_community.embeddings import LlamaCppEmbeddings
from langchain_community.llms import LlamaCpp
from pydantic import BaseModel


class Weather(BaseModel):
    """The weather of a city."""

    city: str


def main():
    assert llama_cpp.Llama.__module__.startswith("ggml.models")
    options = {"model_path": model.path(), "temperature": 0, "verbose": False}
    text = LlamaCpp(max_tokens=12, n_ctx=256, **options)
    answer = text.invoke("The capital of France is")
    assert "Paris" in answer and "".join(text.stream("The capital of France is")) == answer
    chat = ChatLlamaCpp(max_tokens=64, n_ctx=1024, rope_freq_base=100000, **options)  # that of the file
    question = [("user", "Say hello.")]
    assert "".join(part.content for part in chat.stream(question)) == chat.invoke(question).content
    tools = chat.bind_tools([Weather], tool_choice={"type": "function", "function": {"name": "Weather"}})
    (call,) = tools.invoke([("user", "How is the weather in Paris?")]).tool_calls
    assert call["name"] == "Weather" and isinstance(call["args"]["city"], str)
    assert isinstance(chat.with_structured_output(Weather).invoke("How is the weather in Paris?"), Weather)
    assert len(LlamaCppEmbeddings(model_path=model.path(), n_ctx=128, verbose=False).embed_query("hi")) == 576
    print("langchain:", answer.strip(), call["args"])


if __name__ == "__main__":
    main()
