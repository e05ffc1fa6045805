"""What requests contain. Fields that nobody knows are ignored, as OpenAI's server ignores new ones."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

STOPS, STOP_LENGTH = 16, 1000
Text = str
Tokens = list[int]
Stop = Annotated[str, Field(max_length=STOP_LENGTH)]


class Body(BaseModel):
    """A request."""

    model_config = ConfigDict(allow_inf_nan=False, protected_namespaces=())

    model: str | None = Field(None, max_length=1000, description="name of the model; the first one if there is none")

    @model_validator(mode="before")
    @classmethod
    def _of_characters(cls, data: Any) -> Any:
        """Texts of JSON may have halves of surrogate pairs, which are no characters."""
        if isinstance(data, dict):
            try:
                json.dumps(data, ensure_ascii=False).encode()
            except UnicodeEncodeError:
                raise ValueError("a text has half of a surrogate pair: need Unicode characters") from None
            except RecursionError:
                raise ValueError("the body is nested too deeply") from None
        return data


class StreamOptions(BaseModel):
    include_usage: bool = False


class Sampled(Body):
    """A request for text: how much of it, and how its tokens are chosen (see `ggml.models.Sampler`)."""

    stream: bool = False
    stream_options: StreamOptions | None = None
    n: int = Field(1, ge=1, le=32, description="answers to one prompt")
    stop: Stop | Annotated[list[Stop], Field(max_length=STOPS)] | None = None
    seed: int | None = Field(None, ge=-(1 << 63), lt=1 << 64)
    priority: int = Field(0, ge=-1000, le=1000, description="requests with smaller numbers come first")
    exact: bool | None = Field(None, description="an answer that depends on nothing but the request, bit by bit")
    ignore_eos: bool = Field(False, description="the answer goes on until its limit of tokens")
    logit_bias: Annotated[dict[str, float], Field(max_length=1024)] | None = None
    temperature: float | None = Field(None, ge=0, le=100)
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    typical_p: float | None = None
    top_n_sigma: float | None = None
    repeat_penalty: float | None = None
    repeat_last_n: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    dry_multiplier: float | None = None
    dry_base: float | None = None
    dry_allowed_length: int | None = None
    dry_penalty_last_n: int | None = None
    dry_sequence_breakers: Annotated[list[Stop], Field(max_length=STOPS)] | None = None
    xtc_probability: float | None = None
    xtc_threshold: float | None = None
    dynatemp_range: float | None = None
    dynatemp_exponent: float | None = None
    mirostat: int | None = None
    mirostat_tau: float | None = None
    mirostat_eta: float | None = None
    min_keep: int | None = None
    samplers: Annotated[list[str], Field(max_length=32)] | None = None
    json_schema: dict[str, Any] | None = Field(None, description="JSON that is valid for this schema")
    grammar: str | None = Field(None, description="GBNF or Lark")
    regex: str | None = None
    choices: Annotated[list[str], Field(max_length=1000)] | None = None
    response_format: dict[str, Any] | None = None


NOT_SAMPLER = frozenset(
    "model stream stream_options n stop seed priority exact ignore_eos response_format".split()
)  # fields of Sampled that are no arguments of Model.generate, or are read by themselves


class ChatRequest(Sampled):
    """A conversation to answer."""

    messages: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=10000)]
    max_tokens: int | None = Field(None, ge=0, description="most tokens of the answer; none: until the context is full")
    max_completion_tokens: int | None = Field(None, ge=0)
    logprobs: bool | None = False
    top_logprobs: int | None = Field(None, ge=0, le=20)
    tools: Annotated[list[dict[str, Any]], Field(max_length=128)] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = True
    reasoning_effort: str | None = Field(None, max_length=100)
    reasoning_budget: int | None = Field(None, ge=0, description="most tokens of reasoning")
    enable_thinking: bool | None = None
    chat_template_kwargs: dict[str, Any] | None = None


Prompt = Text | Tokens | list[Text] | list[Tokens]


class CompletionRequest(Sampled):
    """A text to continue."""

    prompt: Annotated[Prompt, Field()]
    suffix: str | None = None
    max_tokens: int | None = Field(16, ge=0)
    logprobs: int | None = Field(None, ge=0, le=20)
    echo: bool = False


class EmbeddingRequest(Body):
    """Texts to embed."""

    input: Annotated[Prompt, Field()]
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = Field(None, ge=1)


class TokenizeRequest(Body):
    """A text to split into tokens."""

    content: str
    add_special: bool = False
    parse_special: bool = True
    with_pieces: bool = False


class DetokenizeRequest(Body):
    """Tokens to join."""

    tokens: Tokens


class TemplateRequest(Body):
    """A conversation to make a prompt of."""

    messages: Annotated[list[dict[str, Any]], Field(max_length=10000)]
    tools: Annotated[list[dict[str, Any]], Field(max_length=128)] | None = None
    add_generation_prompt: bool = True
    chat_template_kwargs: dict[str, Any] | None = None


class InfillRequest(Sampled):
    """A text to fill in between two others."""

    input_prefix: str
    input_suffix: str
    n_predict: int | None = Field(None, ge=-1)
    max_tokens: int | None = Field(None, ge=0)


class RerankRequest(Body):
    """Documents to order by how well they answer a query."""

    query: str
    documents: Annotated[list[str | dict[str, Any]], Field(min_length=1, max_length=2048)]
    top_n: int | None = Field(None, ge=1)
    return_documents: bool = False
