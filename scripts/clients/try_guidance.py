"""guidance, which calls the low-level functions: a choice, a regular expression, JSON for a class."""

import json

import guidance
import llama_cpp
import model
from pydantic import BaseModel


class Person(BaseModel):
    """A person."""

    name: str
    age: int


def main():
    llama = llama_cpp.Llama(model_path=model.path(), n_ctx=512, logits_all=True, verbose=False)
    state = guidance.models.LlamaCpp(llama, echo=False)
    chosen = state + "Do you want a joke or a poem? A " + guidance.select(["joke", "poem"], name="what")
    assert chosen["what"] in ("joke", "poem")
    number = state + "The capital of France is" + guidance.gen("city", max_tokens=6, temperature=0, stop=".")
    expected = llama("The capital of France is", max_tokens=6, temperature=0, stop=["."])["choices"][0]["text"]
    assert "Paris" in number["city"] and "Paris" in expected
    year = state + "In the year " + guidance.gen("year", regex="[12][0-9]{3}")
    assert 1000 <= int(year["year"]) < 3000
    person = state + "A person: " + guidance.json("person", schema=Person, max_tokens=60)
    Person(**json.loads(person["person"]))
    print("guidance:", chosen["what"], number["city"], year["year"], person["person"])


if __name__ == "__main__":
    main()
