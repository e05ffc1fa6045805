"""What can be chosen for a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..models import Model


@dataclass(frozen=True)
class Options:
    """Settings of a server.

    Args:
        n_ctx: most tokens of a text with its prompt; None for what the file allows, at most 4,096.
        sequences: texts that are computed together, for each model.
        threads: threads to compute with; None for one on each available CPU.
        kv_type: type of the stored keys and values: "f16", "q8_0" or "f32".
        tokens: most tokens whose keys and values are kept for each model, of texts that are computed and of those that
            have ended; None for what half of the sequences need with full contexts, at least for one.
        kept: most texts that are remembered after they ended, so that others begin like them without computing that
            again.
        chunk: most tokens of a step: a prompt that is longer is read in parts, between which the other texts get
            their next tokens.
        exact: whether answers depend on nothing but the request, bit by bit, whatever else is computed. It takes
            longer. A request can ask for it itself.
        memory: most bytes of models that are open, files included; the least recently used ones are closed. None for
            no limit.
        queue: most texts that wait; a request beyond that is refused with status 429.
        timeout: seconds that a request may take.
        body_timeout: seconds in which the body of a request must arrive.
        body: most bytes of the body of a request.
        cache_dir: folder in which beginnings of texts are kept, also for servers that start later; None for none.
        cache_bytes: most bytes in it.
        keys: one of these must come with each request; none: no key is needed.
        cors: origins whose pages may use the server from a browser.
        adapters: files of adapters by name: "MODEL:NAME" in a request means the model with the adapter.
        encoders: files with encoders of pictures (mmproj), by the names of the models that take these.
        drafts: what guesses tokens ahead, by the names of the models whose texts it guesses: "ngram", or a file or
            `Model` of a smaller model with the same tokens, as `draft` of `Model.generate`.
    """

    n_ctx: int | None = None
    sequences: int = 8
    threads: int | None = None
    kv_type: str = "f16"
    tokens: int | None = None
    kept: int = 32
    chunk: int = 128
    exact: bool = False
    memory: int | None = None
    queue: int = 256
    timeout: float = 600.0
    body_timeout: float = 30.0
    body: int = 8 << 20
    cache_dir: str | Path | None = None
    cache_bytes: int = 10_000_000_000
    keys: Sequence[str] = ()
    cors: Sequence[str] = ()
    adapters: Mapping[str, str | Path] = field(default_factory=dict)
    encoders: Mapping[str, str | Path] = field(default_factory=dict)
    drafts: Mapping[str, str | Path | Model] = field(default_factory=dict)

    def __post_init__(self) -> None:
        least = {"sequences": 1, "kept": 0, "chunk": 1, "queue": 0, "timeout": 0, "body_timeout": 0, "body": 1,
                 "cache_bytes": 0}  # fmt: skip
        for name, low in least.items():
            if getattr(self, name) < low:
                raise ValueError(f"serve: {name} is {getattr(self, name)!r}: need at least {low}")
        if self.chunk < self.sequences:
            raise ValueError(f"serve: chunk is {self.chunk}, sequences {self.sequences}: need a token for each")
        if isinstance(self.keys, str) or not all(isinstance(key, str) and key for key in self.keys):
            raise ValueError("serve: keys: need a list of texts that are not empty")
