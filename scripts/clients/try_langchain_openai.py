"""langchain-openai with `ggml serve`: chats, streams, tools, structured output, embeddings."""

from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from pydantic import BaseModel
from served import served

QUESTION = [("user", "Name the capital of France.")]


class Weather(BaseModel):
    """The weather of a city."""

    city: str


with served("--ctx", "1024", "--sequences", "4") as url:
    options = {"base_url": f"{url}/v1", "api_key": "none", "model": "smol"}
    chat = ChatOpenAI(temperature=0, max_tokens=24, **options)
    answer = chat.invoke(QUESTION)
    assert "Paris" in answer.content and answer.usage_metadata["output_tokens"] <= 24
    assert "".join(part.content for part in chat.stream(QUESTION)) == answer.content
    assert [found.content for found in chat.batch([QUESTION] * 3)] == [answer.content] * 3
    longer = ChatOpenAI(temperature=0, max_tokens=100, **options)
    (call,) = longer.bind_tools([Weather], tool_choice="Weather").invoke(QUESTION).tool_calls
    assert call["name"] == "Weather" and isinstance(call["args"]["city"], str)
    assert isinstance(longer.with_structured_output(Weather).invoke(QUESTION), Weather)
    assert ChatOpenAI(use_responses_api=True, temperature=0, max_tokens=24, **options).invoke(QUESTION).content
    embeddings = OpenAIEmbeddings(check_embedding_ctx_length=False, **options)
    assert len(embeddings.embed_query("hi")) == 576 and len(embeddings.embed_documents(["a", "b"])) == 2
    print("langchain-openai: passed")
