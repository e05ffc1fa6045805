"""instructor's patch of create_chat_completion_openai_v1: answers as objects of pydantic."""

import instructor
import llama_cpp
import model
from pydantic import BaseModel


class Person(BaseModel):
    """A person."""

    name: str
    age: int


def main():
    llama = llama_cpp.Llama(model_path=model.path(), n_ctx=1024, verbose=False, chat_format="chatml")
    messages = [{"role": "user", "content": "Extract: Jason is 25 years old."}]
    for mode in (instructor.Mode.JSON_SCHEMA, instructor.Mode.TOOLS):
        create = instructor.patch(create=llama.create_chat_completion_openai_v1, mode=mode)
        found = create(response_model=Person, messages=messages, max_tokens=80, temperature=0)
        assert isinstance(found, Person)
        print("instructor:", mode, found)


if __name__ == "__main__":
    main()
