"""The application: endpoints behind the guard."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool
from starlette.middleware.cors import CORSMiddleware

import ggml

from . import errors
from .catalog import Source
from .endpoints import ROUTERS
from .guard import Guard
from .options import Options
from .service import Service


def app(
    models: Source | Sequence[Source] | Mapping[str, Source], options: Options | None = None, **more: Any
) -> FastAPI:
    """The server as an ASGI application, which any ASGI server runs, or another application mounts.

    Args:
        models: a file, a `Model`, several of these, or these by name. Files are opened when they are first needed, and
            closed with the application; a Model stays open. Requests that name no model get the first one.
        options: Options.
        more: settings of Options, in place of `options`.
    Returns:
        FastAPI. Its lifespan opens the first model and closes all.
    Raises:
        TypeError, ValueError: a setting does not exist or is out of range, or two models have one name.
    """
    if options is not None and more:
        raise TypeError(f"app: options and {min(more)} are given: need one of them")
    service = Service(models, options or Options(**more))

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await service.catalog.open_first()
        try:
            yield
        finally:
            await run_in_threadpool(service.engine.close)

    api = FastAPI(title="ggml", version=ggml.__version__, lifespan=lifespan, docs_url=None, redoc_url=None)
    api.state.service = service
    errors.install(api)
    for router in ROUTERS:
        api.include_router(router)
    api.add_middleware(Guard, options=service.options)
    if service.options.cors:
        api.add_middleware(
            CORSMiddleware, allow_origins=list(service.options.cors), allow_methods=["GET", "POST"],
            allow_headers=["authorization", "content-type", "x-api-key"],
        )  # fmt: skip
    return api
