"""What asking a model has cost so far."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Usage:
    """Counts since the reward was made. Tokens are those that the endpoint reports; one that reports none counts 0."""

    calls: int = 0  # requests that were sent, repeated ones included
    retries: int = 0  # requests that repeat one: refused, lost, late, or answered unreadably
    unreadable: int = 0  # answers without a verdict in them
    cache_hits: int = 0  # questions that had been answered before
    shared: int = 0  # questions that were just being asked when they came up again
    prompt_tokens: int = 0
    completion_tokens: int = 0

    def cost(self, prompt_price: float, completion_price: float) -> float:
        """At these prices per million tokens, in their currency."""
        return (self.prompt_tokens * prompt_price + self.completion_tokens * completion_price) / 1e6
