"""The in-process engine: samples from any causal LM that transformers loads, prefilling each prompt once."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING, Any

import torch

from covey.engines.attend import shares_prompts
from covey.engines.base import Listener, Progress
from covey.engines.batch import Batch, complete
from covey.engines.plain import generate_padded, samples_rightly
from covey.errors import ModelError
from covey.kernels.linear import packed
from covey.kernels.swap import quicken
from covey.types import Completion, Request

if TYPE_CHECKING:
    from transformers import PreTrainedModel


BURST = 0.1
"""Seconds of sampling between two looks at the event loop: time in which nothing else in the process is heard."""


class HFEngine:
    """Samples from a transformers model in this process, at most ``rows`` responses at a time.

    Fewer if their keys and values might take more than ``cache_bytes``.

    A prompt is prefilled once for all its responses, ended responses leave the batch, waiting ones take their place.
    Models whose cache is not keys and values alone are sampled in the plain way, padded and together.
    The learner trains the same model object, so new weights are there without a copy; ``load_weights`` with another
    model's state copies them. Dropout is off while sampling. ``end_tokens`` are all ids that end a response.

    A response depends on its seed and its log-probs, not on what else is in the batch; floating point may differ in the
    last digit with another batch, and a token may then differ.

    Sampling runs on the thread of the event loop, which is heard ten times a second: a cancelled task stops there, and
    ``listener``, if set, is told how far things are. Several calls at once are answered one after another.
    """

    def __init__(
        self, model: PreTrainedModel, end_tokens: frozenset[int], rows: int = 256, cache_bytes: int = 2 << 30
    ) -> None:
        if not end_tokens:
            raise ModelError("the model names no end token, so no response could ever stop; set eos_token_id")
        if rows < 1 or cache_bytes < 1:
            raise ValueError(f"rows and cache_bytes must be at least 1, got {rows} and {cache_bytes}")
        self.model = model
        self.rows = rows
        self.cache_bytes = cache_bytes
        self.listener: Listener | None = None
        self.version = 0
        self.end_tokens = end_tokens
        self.limit: int | None = getattr(model.config.get_text_config(), "max_position_embeddings", None)
        self._turn = asyncio.Lock()
        with self._sampling():
            self.shared = shares_prompts(model)
            if not self.shared and not samples_rightly(model):
                raise ModelError(
                    f"{type(model).__name__} cannot be sampled here: token by token, its log-probs are not those of a "
                    "pass over the whole text, so every ratio in training would be wrong. It keeps its state in a way "
                    "that the engine does not know; take a model with attention, or give an engine of your own."
                )
        quicken(model)

    async def generate(self, requests: Sequence[Request], /) -> list[Completion]:
        """See :class:`covey.engines.base.Engine`. Raises ModelError for a prompt that leaves no room to answer.

        On a thread of its own, with a second team of workers beside it, the same takes 40 % more.
        """
        return [completion async for ended in self.stream(requests) for completion in ended]

    async def stream(self, requests: Sequence[Request], /) -> AsyncGenerator[list[Completion], None]:
        """See :class:`covey.engines.base.Streaming`. Raises as :meth:`generate` does, before anything is sampled."""
        self._check(requests)
        if not requests:
            return
        async with self._turn:
            sampled = self._shared(requests) if self.shared else self._plain(requests)
            with self._sampling():
                async with aclosing(sampled):  # a cancelled call frees its keys and values at once
                    async for ended in sampled:
                        yield ended
                        await asyncio.sleep(0)

    async def load_weights(self, source: Any, version: int, /) -> None:
        """``source`` is the engine's own model (nothing to copy) or a state dict of the same architecture."""
        if source is not self.model:
            self.model.load_state_dict(source)
        self.version = version

    async def close(self) -> None:
        """Nothing is held beyond the model, which the caller owns."""

    def _check(self, requests: Sequence[Request]) -> None:
        for request in requests:
            room = sys.maxsize if self.limit is None else self.limit - len(request.tokens)
            if len(request.tokens) == 0 or room < 1:
                raise ModelError(
                    f"request {request.id!r} has {len(request.tokens)} prompt tokens; the model takes 1 to "
                    f"{self.limit} positions with room for at least one new token. Shorten or drop this prompt."
                )

    @contextmanager
    def _sampling(self) -> Iterator[None]:
        was_training = self.model.training
        self.model.eval()
        try:
            with packed(self.model):
                yield
        finally:
            self.model.train(was_training)

    async def _shared(self, requests: Sequence[Request]) -> AsyncGenerator[list[Completion], None]:
        done, batch = 0, None
        while done < len(requests):
            with torch.inference_mode():  # of a thread: it must not be on while others have their turn
                batch = batch or Batch(
                    self.model,
                    requests,
                    end_tokens=self.end_tokens,
                    limit=self.limit,
                    rows=self.rows,
                    cache_bytes=self.cache_bytes,
                )
                rows = batch.run(time.monotonic() + BURST)
                ended = [complete(row, self.end_tokens, self.version) for row in rows]
            done += len(ended)
            newest = batch.newest if batch.active else ended[-1].tokens
            self._tell(Progress(done, len(requests), batch.drawn, newest))
            yield ended

    async def _plain(self, requests: Sequence[Request]) -> AsyncGenerator[list[Completion], None]:
        by_length, drawn = sorted(requests, key=lambda request: len(request.tokens)), 0
        for start in range(0, len(by_length), self.rows):
            some = by_length[start : start + self.rows]
            ended = generate_padded(
                self.model, some, end_tokens=self.end_tokens, limit=self.limit, version=self.version
            )
            drawn += sum(len(completion.tokens) for completion in ended)
            self._tell(Progress(start + len(ended), len(requests), drawn, ended[-1].tokens))
            yield ended

    def _tell(self, progress: Progress) -> None:
        if self.listener is not None:
            self.listener(progress)
