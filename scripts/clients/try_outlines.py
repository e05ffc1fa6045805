"""outlines: a choice, a regular expression, JSON for a class, a stream."""

from typing import Literal

import llama_cpp
import model
import outlines
from pydantic import BaseModel


class Person(BaseModel):
    """A person."""

    name: str
    age: int


def main():
    own = outlines.from_llamacpp(llama_cpp.Llama(model_path=model.path(), n_ctx=512, verbose=False))
    options = {"max_tokens": 60, "temperature": 0}
    chosen = own("Is the sky blue or green?", Literal["blue", "green"], **options)
    assert chosen in ("blue", "green")
    year = own("The year of the moon landing:", outlines.regex("[12][0-9]{3}"), **options)
    assert 1000 <= int(year) < 3000
    person = Person.model_validate_json(own("Jason is 25 years old.", Person, **options))
    streamed = "".join(own.stream("The capital of France is", max_tokens=12, temperature=0))
    assert streamed
    print("outlines:", chosen, year, person, streamed)


if __name__ == "__main__":
    main()
