"""An engine that answers from a script: exact, instant, for tests and examples of the stages after it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from covey.types import Completion, Request

Script = Callable[[Request], tuple[Sequence[int], Sequence[float]]]


class ScriptedEngine:
    """``script(request)`` returns the tokens and log-probs of the answer; one as long as the limit is cut off there.

    Completions come back in reverse order, so that code which ties siblings by position fails at once.
    """

    def __init__(self, script: Script, end_tokens: frozenset[int]) -> None:
        self.script = script
        self.end_tokens = end_tokens
        self.version = 0

    async def generate(self, requests: Sequence[Request], /) -> list[Completion]:
        return [self._answer(request) for request in reversed(requests)]

    async def load_weights(self, source: Any, version: int, /) -> None:
        self.version = version

    async def close(self) -> None:
        """Nothing to free."""

    def _answer(self, request: Request) -> Completion:
        tokens, logp = self.script(request)
        limit = request.sampling.max_new_tokens
        return Completion(
            id=request.id,
            tokens=np.asarray(tokens[:limit], dtype=np.int64),
            logp=np.asarray(logp[:limit], dtype=np.float32),
            finish="stop" if tokens[:limit][-1] in self.end_tokens else "length",
            version=self.version,
        )
