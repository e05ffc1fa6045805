"""Numbers about the server, for Prometheus."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.process_collector import ProcessCollector

FIRST = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 60, 120, 300)
BETWEEN = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class Metrics:
    """The numbers of one server, each by the name of a model."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)

        def of(kind: Any, name: str, text: str, **more: Any) -> Any:
            return kind(f"ggml_{name}", text, ["model"], registry=self.registry, **more)

        self.waiting = of(Gauge, "waiting_texts", "Texts that wait for a sequence.")
        self.active = of(Gauge, "active_texts", "Texts that are computed.")
        self.texts = of(Counter, "texts", "Texts that ended.")
        self.put_back = of(Counter, "texts_put_back", "Texts put back where memory for keys and values ran out.")
        self.prompt = of(Counter, "prompt_tokens", "Tokens of prompts.")
        self.cached = of(Counter, "cached_prompt_tokens", "Tokens of prompts that were known and not computed again.")
        self.generated = of(Counter, "generated_tokens", "Tokens of answers.")
        self.read = of(Counter, "disk_prompt_tokens", "Tokens of prompts that were known from --cache-dir.")
        self.guessed = of(Counter, "guessed_tokens", "Tokens that were guessed ahead.")
        self.accepted = of(Counter, "accepted_tokens", "Tokens guessed ahead that became part of an answer.")
        self.first = of(
            Histogram, "time_to_first_token_seconds", "From a request's arrival to its first token.", buckets=FIRST
        )
        self.between = of(Histogram, "time_between_tokens_seconds", "Between tokens of an answer.", buckets=BETWEEN)
        self.step = of(Histogram, "step_seconds", "Of one compute for all active texts.", buckets=BETWEEN)

    def text(self) -> bytes:
        """All numbers in the text format of Prometheus."""
        return generate_latest(self.registry)
