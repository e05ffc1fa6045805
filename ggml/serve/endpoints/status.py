"""What there is: models, health, metrics."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from ..errors import ServeError
from ..service import service_of

router = APIRouter(tags=["status"])


def described(entry: Any) -> dict[str, Any]:
    """A model in OpenAI's form, with what is known of it."""
    found = {"id": entry.name, "object": "model", "created": entry.created, "owned_by": "ggml"}
    if entry.base is not None:
        found["parent"] = entry.base.name
    if (model := entry.model or (entry.base and entry.base.model)) is not None:
        found["meta"] = {
            "arch": model.config.arch,
            "n_ctx": model.n_ctx,
            "n_ctx_train": model.config.n_ctx_train,
            "n_vocab": model.config.n_vocab,
            "n_embd": model.config.n_embd,
            "n_seq": model.n_seq,
        }
    return found


@router.get("/v1/models")
async def models(request: Request) -> dict[str, Any]:
    """The models by name; `meta` of those that are open."""
    entries = service_of(request).catalog.entries
    return {"object": "list", "data": [described(entry) for entry in entries.values()]}


@router.get("/v1/models/{name:path}")
async def model(name: str, request: Request) -> dict[str, Any]:
    """One model."""
    entries = service_of(request).catalog.entries
    if name not in entries:
        raise ServeError(404, f"there is no model {name!r}", "model", "model_not_found")
    return described(entries[name])


@router.get("/health")
async def health(request: Request) -> JSONResponse:
    """Status 200 while requests are answered, 503 once the server is shutting down."""
    alive = service_of(request).engine.alive()
    return JSONResponse({"status": "ok" if alive else "shutting down"}, 200 if alive else 503)


@router.get("/metrics")
async def metrics(request: Request) -> Response:
    """Numbers for Prometheus."""
    return Response(service_of(request).metrics.text(), media_type="text/plain; version=0.0.4")
