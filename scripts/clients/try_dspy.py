"""DSPy with a class of its own kind over Llama: texts, typed fields, reasoning."""

from typing import Literal

import dspy
import llama_cpp
import model
from pydantic import BaseModel


class Person(BaseModel):
    """A person."""

    name: str
    age: int


class Local(dspy.BaseLM):
    """Answers by create_chat_completion_openai_v1."""

    def __init__(self, llama):
        super().__init__(model="smol", model_type="chat", temperature=0.0, max_tokens=80)
        self.llama = llama

    def forward(self, prompt=None, messages=None, **options):
        messages = messages or [{"role": "user", "content": prompt}]
        given = {**self.kwargs, **options}
        kept = {name: given[name] for name in ("temperature", "max_tokens", "response_format") if name in given}
        return self.llama.create_chat_completion_openai_v1(messages=messages, **kept)


class Extract(dspy.Signature):
    """Extract the person."""

    text: str = dspy.InputField()
    person: Person = dspy.OutputField()


class Mood(dspy.Signature):
    """Name the mood of the text."""

    text: str = dspy.InputField()
    mood: Literal["positive", "negative"] = dspy.OutputField()


def main():
    llama = llama_cpp.Llama(model.path(), n_ctx=2048, verbose=False)
    lm = Local(llama)
    dspy.configure(lm=lm, adapter=dspy.JSONAdapter())
    question = [{"role": "user", "content": "Name the capital of France."}]
    (text,) = lm(messages=question)
    expected = llama.create_chat_completion(question, temperature=0, max_tokens=80)["choices"][0]["message"]["content"]
    assert (text if isinstance(text, str) else text["text"]) == expected and "Paris" in expected

    schema = {"type": "object", "properties": {"person": Person.model_json_schema()}, "required": ["person"]}
    lm.kwargs["response_format"] = {"type": "json_object", "schema": schema}
    person = dspy.Predict(Extract)(text="Jason is 25 years old.").person
    assert isinstance(person, Person)

    answer = {"type": "string", "enum": ["positive", "negative"]}
    schema = {"type": "object", "properties": {"reasoning": {"type": "string", "maxLength": 60}, "mood": answer},
              "required": ["reasoning", "mood"]}  # fmt: skip
    lm.kwargs["response_format"] = {"type": "json_object", "schema": schema}
    mood = dspy.ChainOfThought(Mood)
    found = mood(text="What a wonderful day!")
    assert found.mood in ("positive", "negative") and found.reasoning
    print("dspy:", person, found.mood)


if __name__ == "__main__":
    main()
