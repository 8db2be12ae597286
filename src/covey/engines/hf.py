"""The in-process engine: samples from any causal LM that transformers loads, prefilling each prompt once."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from covey.engines.attend import shares_prompts
from covey.engines.batch import Batch, complete
from covey.engines.plain import generate_padded
from covey.errors import ModelError
from covey.kernels.linear import packed, quicken
from covey.types import Completion, Request

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class HFEngine:
    """Samples from a transformers model in this process, at most ``rows`` responses at a time.

    A prompt is prefilled once for all its responses, ended responses leave the batch, waiting ones take their place.
    Models whose cache is not keys and values alone are sampled in the plain way, padded and together.
    The learner trains the same model object, so new weights are there without a copy; ``load_weights`` with another
    model's state copies them. Dropout is off while sampling. ``end_tokens`` are all ids that end a response.

    A response depends on its seed and its log-probs, not on what else is in the batch; floating point may differ in the
    last digit with another batch, and a token may then differ.
    """

    def __init__(self, model: PreTrainedModel, end_tokens: frozenset[int], rows: int = 128) -> None:
        if not end_tokens:
            raise ModelError("the model names no end token, so no response could ever stop; set eos_token_id")
        if rows < 1:
            raise ValueError(f"rows must be at least 1, got {rows}")
        self.model = model
        self.rows = rows
        self.version = 0
        self.end_tokens = end_tokens
        self.limit: int | None = getattr(model.config.get_text_config(), "max_position_embeddings", None)
        self.shared = shares_prompts(model)
        quicken(model)

    async def generate(self, requests: Sequence[Request], /) -> list[Completion]:
        """See :class:`covey.engines.base.Engine`. Raises ModelError for a prompt that leaves no room to answer.

        The event loop waits: on a thread of its own, with a second team of workers beside it, the same takes 40 % more.
        """
        return self._generate_all(requests)

    async def load_weights(self, source: Any, version: int, /) -> None:
        """``source`` is the engine's own model (nothing to copy) or a state dict of the same architecture."""
        if source is not self.model:
            self.model.load_state_dict(source)
        self.version = version

    async def close(self) -> None:
        """Nothing is held beyond the model, which the caller owns."""

    def _generate_all(self, requests: Sequence[Request]) -> list[Completion]:
        for request in requests:
            room = sys.maxsize if self.limit is None else self.limit - len(request.tokens)
            if len(request.tokens) == 0 or room < 1:
                raise ModelError(
                    f"request {request.id!r} has {len(request.tokens)} prompt tokens; the model takes 1 to "
                    f"{self.limit} positions with room for at least one new token. Shorten or drop this prompt."
                )
        if not requests:
            return []
        was_training = self.model.training
        self.model.eval()
        try:
            with torch.inference_mode(), packed(self.model):
                return self._shared(requests) if self.shared else self._plain(requests)
        finally:
            self.model.train(was_training)

    def _shared(self, requests: Sequence[Request]) -> list[Completion]:
        batch = Batch(self.model, requests, end_tokens=self.end_tokens, limit=self.limit, rows=self.rows)
        return [complete(row, self.end_tokens, self.version) for row in batch.run()]

    def _plain(self, requests: Sequence[Request]) -> list[Completion]:
        by_length = sorted(requests, key=lambda request: len(request.tokens))
        batches = [by_length[i : i + self.rows] for i in range(0, len(by_length), self.rows)]
        return [
            completion
            for batch in batches
            for completion in generate_padded(
                self.model, batch, end_tokens=self.end_tokens, limit=self.limit, version=self.version
            )
        ]
