"""`/v1/completions` and `/infill`: texts to continue, and to fill in."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any, NamedTuple

from fastapi import APIRouter, Request

from ...models import Generation, Model, TokenProbability
from ...models.chat.fim import infill_ids
from ..errors import ServeError
from ..options import Options
from ..schemas import CompletionRequest, InfillRequest, Prompt, Sampled
from ..service import Session, service_of, unless_hung_up
from ..streaming import DONE, EventStream, event
from .logprobs import of_completion
from .sampling import seed_of, settings_of

router = APIRouter(tags=["text"])
PROMPTS = 128  # of one request


class Continued(NamedTuple):
    """A text that is continued, and what its answer begins with."""

    text: Generation
    echo: str


def prompts_of(prompt: Prompt) -> list[str | list[int]]:
    """The prompts of a request: one or several, each a text or tokens."""
    several = isinstance(prompt, list) and (not prompt or not isinstance(prompt[0], int))
    found: list[Any] = list(prompt) if several else [prompt]
    if not 0 < len(found) <= PROMPTS:
        raise ServeError(400, f"prompt has {len(found)} texts: need 1 to {PROMPTS}", "prompt")
    return found


def generations(
    model: Model, body: Sampled, options: Options, prompts: Sequence[Any], most: int | None, logprobs: int | None = None
) -> list[Generation]:
    """The texts that are asked for, before anything of them is computed: `n` for each prompt."""
    settings = settings_of(model, body, options)
    stop, exact, overflow = (settings.pop(name) for name in ("stop", "exact", "overflow"))
    return [
        model.writer.generation(
            "generate", prompt, model.writer.sampler("generate", seed=seed_of(body.seed, i), **settings), most, stop,
            overflow, logprobs, exact=exact,
        )
        for i, prompt in enumerate(prompt for prompt in prompts for _ in range(body.n))
    ]  # fmt: skip


def continued(model: Model, body: CompletionRequest, options: Options) -> list[Continued]:
    """The texts of a request for completions."""
    prompts = prompts_of(body.prompt)
    if body.suffix:
        if len(prompts) > 1 or not isinstance(prompts[0], str):
            raise ServeError(400, "suffix and several prompts, or tokens, are given: need one text", "suffix")
        prompts = [infill_ids("infill", model.metadata, model.tokenizer, prompts[0], body.suffix)]
    texts = generations(model, body, options, prompts, body.max_tokens, body.logprobs)
    echoes = [p if isinstance(p, str) else model.detokenize(p) for p in prompts for _ in range(body.n)]
    return [Continued(text, echo if body.echo else "") for text, echo in zip(texts, echoes, strict=True)]


def head_of(session: Session[Any]) -> dict[str, Any]:
    """What all parts of an answer have in common."""
    name = f"cmpl-{secrets.token_hex(12)}"
    return {"id": name, "object": "text_completion", "created": int(time.time()), "model": session.name}


async def chunks(body: CompletionRequest, session: Session[Continued]) -> AsyncIterator[str]:
    """An answer in parts."""
    head = head_of(session)
    held: list[list[TokenProbability]] = [[] for _ in session.texts]
    offsets = [len(item.echo) for item in session.items]

    def chunk(number: int, text: str, reason: str | None = None) -> str:
        logprobs = None
        if body.logprobs is not None:
            logprobs, held[number] = of_completion(session.model, held[number], offsets[number]), []
            offsets[number] += len(text)
        choice = {"index": number, "text": text, "logprobs": logprobs, "finish_reason": reason}
        return event({**head, "choices": [choice]})

    for number, item in enumerate(session.items):
        if item.echo:
            yield chunk(number, item.echo)
            offsets[number] = len(item.echo)
    async for number, progress in session:
        held[number] += progress.logprobs
        text = "".join(progress.pieces)
        if text or progress.last:
            yield chunk(number, text, progress.finish)
    if body.stream_options is not None and body.stream_options.include_usage:
        yield event({**head, "choices": [], "usage": session.usage(), "timings": session.timings()})
    yield DONE


async def whole(body: CompletionRequest, session: Session[Continued]) -> dict[str, Any]:
    """An answer as a whole."""
    texts = [item.echo for item in session.items]
    async for number, progress in session:
        texts[number] += "".join(progress.pieces)
    found = []
    for number, (text, item) in enumerate(zip(texts, session.items, strict=True)):
        logprobs = None
        if body.logprobs is not None:
            logprobs = of_completion(session.model, item.text.logprobs, len(item.echo))
        found.append({"index": number, "text": text, "logprobs": logprobs, "finish_reason": item.text.finish_reason})
    return {**head_of(session), "choices": found, "usage": session.usage(), "timings": session.timings()}


@router.post("/v1/completions", response_model=None)
async def completions(body: CompletionRequest, request: Request) -> EventStream | dict[str, Any]:
    """Continues texts; with `suffix`, fills in what stands before it."""
    service = service_of(request)
    session = await service.begin(
        request, body.model, body.n * len(prompts_of(body.prompt)),
        lambda model: continued(model, body, service.options), lambda item: item.text, body.priority,
    )  # fmt: skip
    if body.stream:
        return EventStream(request, session, chunks(body, session))
    return await unless_hung_up(request, session, whole(body, session))


async def filled_in_parts(session: Session[Generation]) -> AsyncIterator[str]:
    """What is filled in, in the parts of llama-server."""
    async for number, progress in session:
        text = "".join(progress.pieces)
        yield event({"index": number, "content": text, "stop": progress.last, "model": session.name})


async def filled(session: Session[Generation]) -> dict[str, Any]:
    """What is filled in, in the form of llama-server."""
    content = ""
    async for _, progress in session:
        content += "".join(progress.pieces)
    text, kinds = session.texts[0], {"stop": "eos", "length": "limit"}
    return {
        "content": content, "stop": True, "stop_type": kinds[text.finish_reason or "stop"], "model": session.name,
        "tokens_predicted": len(text.ids), "tokens_evaluated": len(text.prompt_ids), "timings": session.timings(),
    }  # fmt: skip


@router.post("/infill", response_model=None)
async def infill(body: InfillRequest, request: Request) -> EventStream | dict[str, Any]:
    """Fills in what stands between two texts, with the tokens that the model has for it."""
    service = service_of(request)
    if body.n != 1:
        raise ServeError(400, f"n is {body.n}: need 1", "n")
    most = body.max_tokens if body.n_predict in (None, -1) else body.n_predict

    def prepare(model: Model) -> list[Generation]:
        ids = infill_ids("infill", model.metadata, model.tokenizer, body.input_prefix, body.input_suffix)
        return generations(model, body, service.options, [ids], most)

    session = await service.begin(request, body.model, 1, prepare, lambda text: text, body.priority)
    if body.stream:
        return EventStream(request, session, filled_in_parts(session))
    return await unless_hung_up(request, session, filled(session))
