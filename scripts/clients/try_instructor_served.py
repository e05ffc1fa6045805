"""instructor with `ggml serve`: answers as objects of pydantic, by a schema and by a tool, whole and in parts."""

import instructor
import openai
from pydantic import BaseModel, ConfigDict, Field
from served import served


class Person(BaseModel):
    """A person: all that might be endless has a limit, as the model is small."""

    model_config = ConfigDict(extra="forbid")
    name: str = Field(max_length=20)
    age: int = Field(ge=0, le=150)


with served("--ctx", "1024", "--sequences", "4") as url:
    options = {"model": "smol", "max_tokens": 200, "temperature": 0, "response_model": Person,
               "messages": [{"role": "user", "content": "Extract: Jason is 25 years old."}]}  # fmt: skip
    for mode in (instructor.Mode.JSON_SCHEMA, instructor.Mode.TOOLS):
        client = instructor.from_openai(openai.OpenAI(base_url=f"{url}/v1", api_key="none"), mode=mode)
        found = client.chat.completions.create(**options)
        assert isinstance(found, Person)
        parts = list(client.chat.completions.create_partial(**options))
        assert parts[-1].age == found.age
        print("instructor:", mode, found)
