"""Texts of a given language: JSON, a JSON schema, a regular expression, a grammar, one of several texts.

The automaton is that of `llguidance` (extra `llm`), which is built once for a vocabulary. Languages are compiled once.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from ..chat.renderer import interpreter
from ..chat.schemas import NAMED, OPTIONS, VALUES
from ..text.encoders import optional_module
from .chain import Constraint
from .choice import exclude_tokens
from .trial import trial

SIZE = 1 << 17  # characters of a grammar or schema: more would take minutes to compile
PROPERTIES = 1000  # optional ones of an object: the time to compile them grows with the square
ITEMS = 10_000  # alternatives that an automaton follows at a time
COMPILED = 32  # languages that are kept for a vocabulary
KINDS = ("json_schema", "json", "regex", "grammar", "choices")
# White space between the parts of JSON: as models write it, and never without end.
WHITE = {"whitespace_pattern": r" ?|\n{1,2}[ \t]{0,20}"}
QUICK = 1e-4  # seconds: a mask that takes less is computed where it is needed, as another thread would take longer
NO_TOKEN = "no token of the vocabulary continues the text in its language"
FAULTS = {  # beginnings of llguidance's messages, and the keyword whose value they name
    "Unknown format: ": "format",
    "Invalid type: ": "type",
    "regex parse error": "pattern",
}
GBNF_RULE = re.compile(r"(?m)^\s*[\w-]+\s*::=")
GBNF_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|\[(?:\\.|[^\]\\])*\]|#[^\n]*|[\w-]+')  # "start" is the name of root in Lark


def language(caller: str, **given: Any) -> str | None:
    """The language of a call in llguidance's form, None if the call names none.

    Args:
        caller: name of the function called.
        json_schema: dict, bool, JSON text, or a class of pydantic: JSON that is valid for it.
        json: True for a JSON object.
        regex: str: a regular expression of Rust's `regex` that matches the whole text.
        grammar: str: GBNF or Lark; an object with that in `grammar` (LlamaGrammar).
        choices: list of str: one of them.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: more than one is given, it is too long, or cannot be parsed.
    """
    chosen = {kind: given[kind] for kind in KINDS if given.get(kind) is not None}
    if chosen.get("json") is False:
        del chosen["json"]
    if not chosen:
        return None
    if len(chosen) > 1:
        raise ValueError(f"{caller}: {' and '.join(chosen)} are given: need one of them")
    ((kind, value),) = chosen.items()
    if kind in ("json", "json_schema"):
        schema = {"type": "object"} if kind == "json" else schema_of(caller, value)
        require_few_properties(caller, schema)
        overrides = None if OPTIONS in schema else WHITE
        return grammar_of(caller, kind, "json_schema", text_of(caller, kind, schema), overrides=overrides)
    if kind == "choices":
        if isinstance(value, str) or not value or not all(isinstance(text, str) and text for text in value):
            raise TypeError(f"{caller}: choices is {str(value)[:60]}: need a list of texts that are not empty")
        lark = "start: " + " | ".join(json.dumps(text, ensure_ascii=False) for text in value)
        return grammar_of(caller, kind, "lark", require_size(caller, kind, lark))
    if not isinstance(value, str):
        raise TypeError(f"{caller}: {kind} is a {type(value).__name__}: need a string")
    require_size(caller, kind, value)
    return grammar_of(caller, kind, *(("regex", value) if kind == "regex" else ("lark", lark_of(caller, value))))


def grammar_of(caller: str, what: str, form: str, text: str, **options: Any) -> str:
    """A language in llguidance's form; `form` is "json_schema", "lark" or "regex"."""
    try:
        return getattr(optional_module("llguidance").LLMatcher, f"grammar_from_{form}")(text, **options)
    except ValueError as error:  # it is nested too deeply
        raise ValueError(f"{caller}: {what}: {error}") from None


def require_size(caller: str, kind: str, text: str) -> str:
    """Refuses texts whose compilation would take too long."""
    if len(text) > SIZE:
        raise ValueError(f"{caller}: {kind} has {len(text):,} characters: need at most {SIZE:,}")
    return text


def text_of(caller: str, kind: str, schema: Any) -> str:
    """A schema as JSON."""
    try:
        text = json.dumps(schema)
    except (RecursionError, ValueError):
        raise ValueError(f"{caller}: {kind} is nested too deeply, or contains itself") from None
    except TypeError as error:
        raise TypeError(f"{caller}: {kind}: {error}: need what JSON can express") from None
    return require_size(caller, kind, text)


def schema_of(caller: str, value: Any) -> dict[str, Any]:
    """A JSON schema from what programs pass."""
    if isinstance(value, str):
        require_size(caller, "json_schema", value)
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{caller}: json_schema is no JSON: {error}") from None
    made = getattr(value, "model_json_schema", None)  # of pydantic's classes
    if made is not None:
        value = made()
    if not isinstance(value, (Mapping, bool)):
        raise TypeError(f"{caller}: json_schema is a {type(value).__name__}: need a dict, a bool, or JSON")
    if value is False:
        raise ValueError(f"{caller}: json_schema is False: no value is valid for it")
    return dict(value) if isinstance(value, Mapping) else {}


def escaped(name: Any) -> str:
    """A name in a JSON pointer."""
    return str(name).replace("~", "~0").replace("/", "~1")


def subschemas(schema: Any, place: str = "#") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The objects that are schemas, with their places as JSON pointers."""
    waiting = [(place, schema)]
    while waiting:
        place, value = waiting.pop()
        if isinstance(value, Mapping):
            yield place, value
            for key, item in reversed(list(value.items())):
                if key in NAMED and isinstance(item, Mapping):
                    waiting += [(f"{place}/{key}/{escaped(name)}", other) for name, other in item.items()]
                elif key not in VALUES:
                    waiting.append((f"{place}/{escaped(key)}", item))
        elif isinstance(value, (list, tuple)):
            waiting += [(f"{place}/{i}", item) for i, item in enumerate(value)]


def require_few_properties(caller: str, schema: Any) -> None:
    """Refuses objects of too many properties."""
    text_of(caller, "json_schema", schema)  # it ends
    for place, value in subschemas(schema):
        found, needed = value.get("properties"), value.get("required")
        count = len(found) - len(needed if isinstance(needed, list) else []) if isinstance(found, Mapping) else 0
        if count > PROPERTIES:
            raise ValueError(
                f"{caller}: json_schema: {place} has {count} optional properties: need at most {PROPERTIES}"
            )


def lark_of(caller: str, text: str) -> str:
    """A grammar in Lark's form from that, or from GBNF."""
    module = optional_module("llguidance.gbnf_to_lark")
    try:
        if not GBNF_RULE.search(text):
            return module.any_to_lark(text)
        return module.gbnf_to_lark(GBNF_TOKEN.sub(lambda m: "the-start" if m[0] == "start" else m[0], text))
    except RecursionError:
        raise ValueError(f"{caller}: the grammar is nested too deeply") from None
    except Exception as error:  # of its own class, and plain ones
        raise ValueError(f"{caller}: the grammar cannot be parsed: {error}") from None


# Beginnings of other messages, and the keywords of which one is at fault.
KEYWORDS = {
    "min/maxProperties": ("minProperties", "maxProperties"),
    "oneOf constraints": ("oneOf",),
    "Value for 'multipleOf'": ("multipleOf",),
    "invalid multiple of": ("multipleOf",),
    "Failed to generate regex for": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    "patternProperty": ("patternProperties",),
    "circular references": ("$ref",),
    "Resource ": ("$ref",),
}


def explained(message: str, schema: Any) -> str:
    """A message of llguidance, with the place of the keyword that it names."""
    first = message.partition("\n<backtrace>")[0].strip()
    inner = re.match(r"at \d+\(\d+\): failed to compile JSON schema: (.*)", first)  # of a grammar with schemas
    first = inner[1] if inner else first
    keys = re.match(r"Unimplemented keys: (\[.*?\])", first)
    if keys:
        names = json.loads(keys[1])
        found = [(place, name) for place, value in subschemas(schema) for name in names if name in value]
        place, name = found[0] if found else ("#", names[0])
        return f"{place}/{name}: the keyword {name!r} is not supported"
    for begin, keyword in FAULTS.items():
        if first.startswith(begin):
            for place, value in subschemas(schema):
                if isinstance(value.get(keyword), str) and value[keyword] in first:
                    return f"{place}/{keyword}: {first}"
    for begin, keywords in KEYWORDS.items():
        if first.startswith(begin):
            places = [f"{place}/{key}" for place, value in subschemas(schema) for key in keywords if key in value]
            return f"{' or '.join(places[:3])}: {first}" if places else first
    return first


def explained_end(message: str) -> str:
    """A message of llguidance about a text that cannot go on."""
    first = message.partition("\n")[0]
    return NO_TOKEN if first.startswith("NoExtension") else f"the text cannot go on in its language: {first}"


class _Tokens:
    """A vocabulary in the form that llguidance takes: bytes of the tokens, with 0xFF before names of control tokens."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self.tokens = [tokenizer.piece(token) for token in range(tokenizer.n_vocab)]
        self.special_token_ids = [token for token, piece in enumerate(self.tokens) if not piece]
        for token in self.special_token_ids:
            self.tokens[token] = b"\xff" + (tokenizer.piece(token, True) or b"<%d>" % token)
        self.ends = sorted(tokenizer.eog) or [len(self.tokens)]
        if not tokenizer.eog:
            self.tokens.append(b"\xff<end>")
        self.eos_token_id, self.bos_token_id = self.ends[0], tokenizer.bos

    def __call__(self, text: str | bytes) -> list[int]:
        return self._tokenizer.encode_within(text)


class Automata:
    """The automata for the texts of one vocabulary."""

    def __init__(self, tokenizer: Any) -> None:
        self._library = optional_module("llguidance")
        tokens = _Tokens(tokenizer)
        self._tokens = self._library.LLTokenizer(self._library.TokenizerWrapper(tokens), eos_token=tokens.ends)
        self._compiled = lru_cache(COMPILED)(self._compile)

    def _compile(self, grammar: str) -> tuple[Any, str]:
        """An automaton at its beginning, and what is wrong with it or nothing."""
        folder = Path(self._library.__file__).parent.parent
        if problem := trial(grammar, interpreter(), str(folder)):
            return None, problem
        limits = self._library.LLParserLimits(max_items_in_row=ITEMS)
        matcher = self._library.LLMatcher(self._tokens, grammar, log_level=0, limits=limits)
        warnings = [] if matcher.is_error() else matcher.get_grammar_warnings()
        if not matcher.is_error() and not warnings:
            first = matcher.deep_copy()
            first.compute_bitmask()
            if first.is_error():
                return matcher, explained_end(first.get_error())
        return matcher, matcher.get_error() if matcher.is_error() else "".join(warnings[:1])

    def matcher(self, caller: str, grammar: str, what: str, schema: Any = None) -> Any:
        """An automaton at its beginning; errors say what it is for, and where in the schema they are.

        Raises:
            ValueError: the language cannot be compiled, or has no text.
        """
        matcher, problem = self._compiled(grammar)
        if problem:
            raise ValueError(f"{caller}: {what}: {explained(problem, schema)}")
        return matcher.deep_copy()


_automata: WeakKeyDictionary[Any, Automata] = WeakKeyDictionary()


class Beside:
    """A thread that computes masks while the graph runs; a forked child gets another one."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        self.pool = ThreadPoolExecutor(1, "ggml-masks")


BESIDE = Beside()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=BESIDE.renew)


class Language:
    """Limits a text to a language: a Constraint of Sampler. See `constrained`."""

    def __init__(self, matcher: Any) -> None:
        self._matcher = matcher
        self._seconds = 0.0  # that the last mask took
        self._future: Future[bytes] | None = None  # the next mask, which another thread computes
        self._pool: ThreadPoolExecutor | None = None  # that of the thread

    def _check(self) -> None:
        if self._matcher.is_error():
            raise ValueError(f"generate: {explained_end(self._matcher.get_error())}")

    def _bits(self) -> bytes:
        """A bit for each token: whether it can come next."""
        begin = time.perf_counter()
        bits = self._matcher.compute_bitmask()
        self._seconds = time.perf_counter() - begin
        return bits

    def prepare(self) -> None:
        """Begins to compute the next mask in another thread, if that takes long."""
        if self._seconds > QUICK and not self._matcher.is_stopped() and self._waiting() is None:
            self._pool = BESIDE.pool
            self._future = self._pool.submit(self._bits)

    def _waiting(self) -> Future[bytes] | None:
        """The mask that another thread computes; a child that was forked meanwhile has no such thread."""
        return self._future if self._pool is BESIDE.pool else None

    def mask(self, logits: np.ndarray) -> None:
        """Writes -inf to the logits of tokens that cannot come next."""
        future, self._future = self._waiting(), None
        bits = self._bits() if future is None or future.cancel() else future.result()
        self._check()
        if not exclude_tokens(logits, bits):
            raise ValueError(f"generate: {NO_TOKEN}")

    def accept(self, token: int) -> None:
        """Takes note of the next token."""
        if not self._matcher.is_stopped():
            self._matcher.consume_token(token)
            self._check()

    def forced(self) -> list[int]:
        """The tokens that must come next."""
        return [] if self._matcher.is_stopped() else self._matcher.compute_ff_tokens()

    def done(self) -> bool:
        """Whether the text is complete and nothing can follow."""
        return self._matcher.is_stopped()


class Thinking:
    """What holds for an answer with reasoning: a budget for it, and a language for what follows. A Constraint.

    Args:
        begin, end: tokens around reasoning; none at the beginning if it never begins within an answer.
        inside: whether the prompt ends within reasoning.
        budget: most tokens of reasoning, after which it is ended; None for no limit.
        inner: Constraint of what follows reasoning, or None.
    """

    def __init__(
        self, begin: list[int], end: list[int], inside: bool, budget: int | None, inner: Constraint | None
    ) -> None:
        self._begin, self._end, self._budget, self._inner = begin, end, budget, inner
        self._inside, self._count, self._last = inside, 0, [-1] * max(len(begin), len(end))
        self._pending: list[int] = list(end) if inside and budget == 0 else []

    def prepare(self) -> None:
        """Begins to compute the next mask, if that takes long."""
        if not self._pending and not self._inside and self._inner is not None:
            self._inner.prepare()

    def mask(self, logits: np.ndarray) -> None:
        """Writes -inf to the logits of tokens that cannot come next."""
        if self._pending:
            kept = logits[self._pending[0]]
            logits[:] = -np.inf
            logits[self._pending[0]] = kept if kept > -np.inf else 0
        elif not self._inside and self._inner is not None:
            self._inner.mask(logits)

    def accept(self, token: int) -> None:
        """Takes note of the next token."""
        self._last = [*self._last[1:], token]
        self._pending = self._pending[1:]
        if self._inside:
            self._count += 1
            if self._last[-len(self._end) :] == self._end:
                self._inside = False
            elif self._budget is not None and self._count >= self._budget and not self._pending:
                self._pending = list(self._end)
        elif self._inner is not None:
            self._inner.accept(token)
        elif self._begin and self._last[-len(self._begin) :] == self._begin:
            self._inside = True
            self._pending = list(self._end) if self._budget == 0 else []

    def forced(self) -> list[int]:
        """The tokens that must come next."""
        if self._pending or self._inside or self._inner is None:
            return list(self._pending)
        return self._inner.forced()

    def done(self) -> bool:
        """Whether the answer is complete and nothing can follow."""
        return not self._inside and self._inner is not None and self._inner.done()


def automata(tokenizer: Any) -> Automata:
    """The automata for texts of a vocabulary."""
    if tokenizer not in _automata:
        _automata[tokenizer] = Automata(tokenizer)
    return _automata[tokenizer]


def limited_to(
    caller: str, tokenizer: Any, lark: str, parts: Callable[[], Iterable[tuple[str, str, Any]]] = tuple
) -> Language:
    """What limits a text to calls of tools.

    Args:
        caller: name of the function called.
        tokenizer: Tokenizer.
        lark: grammar of the calls, in Lark's form.
        parts: returns for each tool its name, the grammar of its calls, and the schema of its arguments.
    Raises:
        ValueError: a grammar cannot be compiled; the message names the tool.
    """
    known = automata(tokenizer)

    def matcher(what: str, lark: str, schema: Any = None) -> Any:
        return known.matcher(caller, grammar_of(caller, what, "lark", require_size(caller, what, lark)), what, schema)

    try:
        return Language(matcher("tools", lark))
    except ValueError:
        for name, alone, schema in parts():
            matcher(f"the tool {name!r}", alone, schema)
        raise


def constrained(caller: str, tokenizer: Any, given: Mapping[str, Any]) -> Language | None:
    """What limits a text to the language that a call names, None if it names none; see `language`.

    Args:
        caller: name of the function called.
        tokenizer: Tokenizer.
        given: arguments of the call, of which those in KINDS are read.
    Raises:
        TypeError, ValueError: as `language`; the language cannot be compiled.
        ModuleNotFoundError: llguidance is missing (extra `llm`).
    """
    grammar = language(caller, **given)
    if grammar is None:
        return None
    (kind,) = (kind for kind in KINDS if given.get(kind) is not None and given.get(kind) is not False)
    schema = schema_of(caller, given[kind]) if kind == "json_schema" else None
    return Language(automata(tokenizer).matcher(caller, grammar, kind, schema))
