"""`/tokenize`, `/detokenize`, `/apply-template`: what models make of texts."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

from ...models import Model
from ..schemas import DetokenizeRequest, TemplateRequest, TokenizeRequest
from ..service import service_of
from .logprobs import shown

router = APIRouter(tags=["tokens"])


@router.post("/tokenize")
async def tokenize(body: TokenizeRequest, request: Request) -> dict[str, Any]:
    """Splits a text into tokens."""

    def work(model: Model) -> dict[str, Any]:
        ids = model.tokenize(body.content, None if body.add_special else False, body.parse_special)
        if not body.with_pieces:
            return {"tokens": ids}
        pieces = (shown(model, token) for token in ids)
        return {
            "tokens": [{"id": i, "piece": text, "bytes": data} for i, (text, data) in zip(ids, pieces, strict=True)]
        }

    return await service_of(request).prepare(body.model, work)


@router.post("/detokenize")
async def detokenize(body: DetokenizeRequest, request: Request) -> dict[str, str]:
    """The text of tokens."""

    def work(model: Model) -> dict[str, str]:
        return {"content": model.detokenize(model.prompts.ids("detokenize", body.tokens) if body.tokens else [])}

    return await service_of(request).prepare(body.model, work)


@router.post("/apply-template")
async def apply_template(body: TemplateRequest, request: Request) -> dict[str, str]:
    """The prompt that a conversation becomes."""

    def work(model: Model) -> dict[str, str]:
        given = body.chat_template_kwargs or {}
        known = {"messages", "tools", "chat_template", "add_generation_prompt"}
        given = {name: value for name, value in given.items() if name not in known}
        text = model.apply_chat_template(
            body.messages, tools=body.tools, add_generation_prompt=body.add_generation_prompt, **given
        )
        return {"prompt": text}

    return await service_of(request).prepare(body.model, work)
