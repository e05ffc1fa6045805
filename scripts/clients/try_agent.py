"""llama-cpp-agent: a conversation over Llama, and output in the form of a class."""

import llama_cpp
import model
from llama_cpp_agent import LlamaCppAgent, MessagesFormatterType
from llama_cpp_agent.llm_output_settings import LlmStructuredOutputSettings, LlmStructuredOutputType
from llama_cpp_agent.providers import LlamaCppPythonProvider
from pydantic import BaseModel, Field


class Person(BaseModel):
    """A person."""

    name: str = Field(..., description="Name of the person.")
    age: int = Field(..., description="Age in years.")


def main():
    provider = LlamaCppPythonProvider(llama_cpp.Llama(model_path=model.path(), n_ctx=1024, verbose=False))
    settings = provider.get_provider_default_settings()
    settings.temperature, settings.max_tokens = 0.0, 60
    options = {
        "system_prompt": "You are a helpful assistant.",
        "predefined_messages_formatter_type": MessagesFormatterType.CHATML,
    }
    agent = LlamaCppAgent(provider, **options)
    answer = agent.get_chat_response(
        "What is the capital of France?", llm_sampling_settings=settings, print_output=False
    )
    assert "Paris" in answer
    form = LlmStructuredOutputSettings.from_pydantic_models([Person], LlmStructuredOutputType.object_instance)
    other = LlamaCppAgent(provider, **options)
    found = other.get_chat_response("Jason is 25 years old.", structured_output_settings=form,
                                    llm_sampling_settings=settings, print_output=False)  # fmt: skip
    assert isinstance(found, Person)
    print("llama-cpp-agent:", answer.strip(), found)


if __name__ == "__main__":
    main()
