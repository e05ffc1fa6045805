"""LlamaIndex's class for llama-cpp-python: texts, streams, conversations, structured output, a query of documents."""

import json

import llama_cpp
import model
from llama_index.core import Document, MockEmbedding, Settings, SummaryIndex
from llama_index.core.llms import ChatMessage
from llama_index.core.program import LLMTextCompletionProgram
from llama_index.llms.llama_cpp import LlamaCPP
from pydantic import BaseModel


class Person(BaseModel):
    """A person."""

    name: str
    age: int


def chatml(messages):
    texts = [f"<|im_start|>{message.role.value}\n{message.content}<|im_end|>\n" for message in messages]
    return "".join(texts) + "<|im_start|>assistant\n"


def completed(text):
    return chatml([ChatMessage(role="user", content=text)])


def main():
    llama = llama_cpp.Llama(model.path(), n_ctx=1024, verbose=False)
    llm = LlamaCPP(model_path=model.path(), temperature=0.0, max_new_tokens=24, context_window=1024,
                   messages_to_prompt=chatml, completion_to_prompt=completed, model_kwargs={"n_gpu_layers": 1},
                   verbose=False)  # fmt: skip
    assert llm.metadata.context_window == 1024 and llm.metadata.num_output == 24
    question = "Name the capital of France."
    found = llm.complete(question)
    expected = llama(completed(question), temperature=0, max_tokens=24)["choices"][0]["text"]
    assert found.text == expected and "Paris" in expected
    assert "".join(part.delta for part in llm.stream_complete(question)) == found.text
    messages = [ChatMessage(role="user", content=question)]
    answer = llm.chat(messages).message.content
    assert answer == found.text == list(llm.stream_chat(messages))[-1].message.content

    grammar = llama_cpp.LlamaGrammar.from_json_schema(json.dumps(Person.model_json_schema()))
    limited = LlamaCPP(model_path=model.path(), temperature=0.0, max_new_tokens=60, context_window=1024,
                       generate_kwargs={"grammar": grammar}, completion_to_prompt=completed, verbose=False)  # fmt: skip
    program = LLMTextCompletionProgram.from_defaults(
        output_cls=Person, llm=limited, prompt_template_str="Extract the person: {text}"
    )
    person = program(text="Jason is 25 years old.")
    assert isinstance(person, Person)

    Settings.llm, Settings.embed_model = llm, MockEmbedding(embed_dim=8)
    index = SummaryIndex.from_documents([Document(text="The capital of Elbonia is Zork.")])
    assert "Zork" in str(index.as_query_engine().query("What is the capital of Elbonia?"))
    print("llama-index:", expected, person)


if __name__ == "__main__":
    main()
