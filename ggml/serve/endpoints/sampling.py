"""The arguments of Model.generate that a request has."""

from __future__ import annotations

import math
from typing import Any

from ...models import Model
from ..errors import ServeError
from ..options import Options
from ..schemas import NOT_SAMPLER, Sampled


def language_of(format: dict[str, Any] | None) -> dict[str, Any]:
    """The language that OpenAI's `response_format` names."""
    kind = (format or {}).get("type", "text")
    if kind == "text":
        return {}
    if kind == "json_object":
        schema = (format or {}).get("schema")  # llama-server's form
        return {"json": True} if schema is None else {"json_schema": schema}
    if kind == "json_schema":
        described = (format or {}).get("json_schema", format)
        schema = described.get("schema") if isinstance(described, dict) else None
        if isinstance(schema, dict):
            return {"json_schema": schema}
        raise ServeError(400, "response_format.json_schema.schema: need a schema", "response_format")
    known = "'text', 'json_object' or 'json_schema'"
    raise ServeError(400, f"response_format.type is {str(kind)[:60]!r}: need {known}", "response_format")


def seed_of(seed: int | None, number: int) -> int | None:
    """The seed of one of several texts; -1 means a new one, as in llama-server."""
    return None if seed is None or seed == -1 else (seed + number) % (1 << 64)


def settings_of(model: Model, body: Sampled, options: Options) -> dict[str, Any]:
    """The arguments of Model.generate, except max_tokens, logprobs and seed."""
    names = [name for name in Sampled.model_fields if name not in NOT_SAMPLER]
    found = {name: getattr(body, name) for name in names if getattr(body, name) is not None}
    language = language_of(body.response_format)
    if language and found.keys() & {"json_schema", "grammar", "regex", "choices"}:
        raise ServeError(400, "response_format and another language are given: need one of them", "response_format")
    if body.ignore_eos:
        ends = dict.fromkeys(map(str, model.prompts.decoding()[0]), -math.inf)
        found["logit_bias"] = {**found.get("logit_bias", {}), **ends}
    exact = options.exact if body.exact is None else body.exact
    return {**found, **language, "stop": body.stop, "exact": exact, "overflow": "stop"}
