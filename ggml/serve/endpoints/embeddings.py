"""`/v1/embeddings` and `/v1/rerank`: numbers of texts."""

from __future__ import annotations

import base64
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np
from fastapi import APIRouter, Request

from ...models import Model
from ...models.run.pages import PAGE
from ..errors import ServeError
from ..lane import token_limit
from ..schemas import EmbeddingRequest, RerankRequest
from ..service import service_of
from .completions import prompts_of

router = APIRouter(tags=["numbers"])
PAGES = 16  # of tokens that are embedded in one step, which other texts wait for
DOCUMENTS = 8  # that are ranked in one step


@router.post("/v1/embeddings")
async def embeddings(body: EmbeddingRequest, request: Request) -> dict[str, Any]:
    """Embeds texts: vectors of Euclidean length 1."""
    service, texts = service_of(request), [[text] if isinstance(text, int) else text for text in prompts_of(body.input)]

    def tokens(model: Model) -> list[list[int]]:
        ids = [model.prompts.ids("embed", text) for text in texts]
        if (longest := max(map(len, ids))) > model.n_ctx:
            raise ValueError(f"a text has {longest} tokens, the context {model.n_ctx} (n_ctx)")
        return ids

    lease = await service.catalog.lease(body.model)
    try:
        ids = await service.prepare(lease.name, tokens)
        rows: list[np.ndarray] = []
        while len(rows) < len(ids):
            some = together(ids[len(rows) :], min(PAGES, token_limit(lease.model, service.options) // PAGE))
            rows += [*await service.compute(lease.name, partial(embedded, texts=some))]
    finally:
        lease.release()
    asked = sum(map(len, ids))
    found = [
        {"object": "embedding", "index": i, "embedding": encoded(cut(row, body.dimensions), body.encoding_format)}
        for i, row in enumerate(rows)
    ]
    return {"object": "list", "data": found, "model": lease.name,
            "usage": {"prompt_tokens": asked, "total_tokens": asked}}  # fmt: skip


def together(texts: list[list[int]], pages: int) -> list[list[int]]:
    """The first texts that need so many pages in all, at least one."""
    needed = accumulate(-(-len(text) // PAGE) for text in texts)
    return texts[: max(1, sum(pages >= count for count in needed))]


def embedded(model: Model, adapter: str | None, texts: list[list[int]]) -> np.ndarray:
    """The embeddings of texts: f32 [n_texts, n_embd]."""
    return model.embed(texts, normalize=True, adapter=adapter)


def cut(row: np.ndarray, dimensions: int | None) -> np.ndarray:
    """The first numbers of an embedding, of length 1 again, as models that are trained for it allow."""
    if dimensions is None:
        return row
    if dimensions > row.size:
        raise ServeError(400, f"dimensions is {dimensions}: need at most {row.size}", "dimensions")
    return row[:dimensions] / max(float(np.linalg.norm(row[:dimensions])), 1e-12)


def encoded(row: np.ndarray, format: str) -> list[float] | str:
    """An embedding as numbers, or as base64 of f32 in little-endian order."""
    return row.tolist() if format == "float" else base64.b64encode(row.astype("<f4").tobytes()).decode()


@router.post("/v1/rerank")
async def rerank(body: RerankRequest, request: Request) -> dict[str, Any]:
    """Orders documents by how well they answer a query, the best first."""
    service, documents = service_of(request), [text_of(document) for document in body.documents]

    def work(model: Model, adapter: str | None, some: list[str]) -> list[float]:
        if adapter is not None:
            raise NotImplementedError(f"documents are not ordered with an adapter, {adapter!r}: need a merged model")
        return [float(score) for score in model.rank(body.query, some)]

    lease = await service.catalog.lease(body.model)
    scores: list[float] = []
    try:
        while len(scores) < len(documents):
            some = documents[len(scores) : len(scores) + DOCUMENTS]
            scores += await service.compute(lease.name, partial(work, some=some))
    finally:
        lease.release()
    order = sorted(range(len(scores)), key=lambda i: -scores[i])[: body.top_n]
    results: list[dict[str, Any]] = [{"index": i, "relevance_score": scores[i]} for i in order]
    for result in results if body.return_documents else ():
        result["document"] = {"text": documents[result["index"]]}
    return {"object": "list", "model": lease.name, "results": results}


def text_of(document: str | dict[str, Any]) -> str:
    """The text of a document."""
    text = document.get("text") if isinstance(document, dict) else document
    if not isinstance(text, str):
        raise ServeError(400, 'a document has no text: need a string, or {"text": ...}', "documents")
    return text
