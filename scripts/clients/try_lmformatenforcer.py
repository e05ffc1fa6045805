"""lm-format-enforcer: a filter of logits that allows what is valid for a schema or matches a regular expression."""

import json

import llama_cpp
import model
from lmformatenforcer import JsonSchemaParser, RegexParser
from lmformatenforcer.integrations.llamacpp import (
    build_llamacpp_logits_processor,
    build_token_enforcer_tokenizer_data,
)

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "maximum": 99}},
    "required": ["name", "age"],
}


def main():
    llama = llama_cpp.Llama(model_path=model.path(), n_ctx=512, verbose=False)
    data = build_token_enforcer_tokenizer_data(llama)

    def text(parser, prompt):
        filters = llama_cpp.LogitsProcessorList([build_llamacpp_logits_processor(data, parser)])
        return llama(prompt, max_tokens=60, temperature=0, logits_processor=filters)["choices"][0]["text"]

    found = json.loads(text(JsonSchemaParser(SCHEMA), "Jason is 25 years old. As JSON: "))
    assert isinstance(found["name"], str) and isinstance(found["age"], int)
    year = text(RegexParser("[12][0-9]{3}"), "The year of the moon landing: ")
    assert 1000 <= int(year) < 3000
    print("lm-format-enforcer:", found, year)


if __name__ == "__main__":
    main()
