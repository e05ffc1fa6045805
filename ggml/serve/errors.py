"""Errors in the form of OpenAI's interface, or of Anthropic's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import ValidationError
from starlette.exceptions import HTTPException as AnyHTTPException

from .._errors import bare

KINDS = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 408: "timeout_error",
         413: "request_too_large", 429: "rate_limit_error", 501: "not_implemented_error", 503: "overloaded_error",
         504: "timeout_error"}  # fmt: skip
NO_THREAD = "can't start new thread"  # what Python says where a thread cannot be started
HUNG_UP = 499  # nobody reads it: the client has closed the connection


class ServeError(HTTPException):
    """A request that is not answered.

    Args:
        status: of HTTP.
        message: what was given and what is needed.
        param: the part of the request that is wrong, or None.
        code: a word for programs, or None.
        headers: of the answer.
    """

    def __init__(
        self, status: int, message: str, param: str | None = None, code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(status, message, headers)
        self.status, self.message, self.param, self.code = status, message, param, code

    @property
    def kind(self) -> str:
        return KINDS.get(self.status, "invalid_request_error" if self.status < 500 else "server_error")

    def content(self, path: str) -> dict[str, Any]:
        """The body of the answer to a request for a path."""
        if path.endswith("/messages"):  # Anthropic's form
            return {"type": "error", "error": {"type": self.kind, "message": self.message}}
        return {"error": {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}}

    def response(self, path: str) -> JSONResponse:
        return JSONResponse(self.content(path), self.status, self.headers)


def served(error: BaseException) -> ServeError:
    """An error of the library as an answer: what it raises for arguments is the client's fault."""
    if isinstance(error, ServeError):
        return error
    text = bare(error) if isinstance(error, Exception) else ""
    for name in ("chat: ", "generate: ", "embed: ", "rank: ", "infill: "):
        text = text.removeprefix(name)
    if isinstance(error, (ModuleNotFoundError, NotImplementedError)):
        return ServeError(501, text)
    if isinstance(error, (ValueError, TypeError)):
        return ServeError(400, text)
    if lacks_memory(error):
        return without_memory(text)
    return ServeError(500, f"{type(error).__name__}: {text}")


def lacks_memory(error: BaseException) -> bool:
    """Whether an error says that the process has no memory left, be it for the stack of a thread."""
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and str(error) == NO_THREAD)


def without_memory(text: str = "") -> ServeError:
    """The answer where there is no memory."""
    message = "there is no memory for this request" + (f": {text}" if text else "")
    return ServeError(503, message, headers={"Retry-After": "10"})


@contextmanager
def asked_by_client() -> Iterator[None]:
    """Errors inside become answers; see `served`."""
    try:
        yield
    except (ValueError, TypeError, MemoryError, ImportError, NotImplementedError) as error:
        raise served(error) from error
    except RuntimeError as error:
        if not lacks_memory(error):
            raise
        raise served(error) from error


def _place(parts: Any) -> str:
    """Where in the body something is wrong: `messages[0].role`."""
    found = ""
    for part in parts:
        if part != "body":
            found += f"[{part}]" if isinstance(part, int) else f".{part}"
    return found.removeprefix(".")


def _of_validation(error: RequestValidationError | ValidationError) -> ServeError:
    first = error.errors()[0]
    place = _place(first.get("loc", ()))
    if first["type"] == "json_invalid":
        return ServeError(400, f"the body is no JSON: {first.get('ctx', {}).get('error', first['msg'])}")
    text = first["msg"].removeprefix("Value error, ")
    return ServeError(400, f"{place}: {text}" if place else text, place or None)


def install(app: FastAPI) -> None:
    """Makes an application answer in this form wherever something is wrong."""

    @app.exception_handler(ServeError)
    async def of_server(request: Request, error: ServeError) -> JSONResponse:
        return error.response(request.url.path)

    @app.exception_handler(RequestValidationError)
    @app.exception_handler(ValidationError)  # where one form of a request becomes another
    async def of_validation(request: Request, error: RequestValidationError | ValidationError) -> JSONResponse:
        return _of_validation(error).response(request.url.path)

    @app.exception_handler(AnyHTTPException)
    async def of_http(request: Request, error: AnyHTTPException) -> JSONResponse:
        found = ServeError(error.status_code, str(error.detail), headers=error.headers)
        return found.response(request.url.path)

    @app.exception_handler(MemoryError)
    @app.exception_handler(RuntimeError)
    async def of_memory(request: Request, error: MemoryError | RuntimeError) -> JSONResponse:
        if not lacks_memory(error):
            raise error
        return without_memory().response(request.url.path)

    @app.exception_handler(Exception)
    async def of_anything(request: Request, error: Exception) -> JSONResponse:
        return ServeError(500, f"an error of the server: {type(error).__name__}").response(request.url.path)
