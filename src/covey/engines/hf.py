"""The in-process engine: batched sampling with a key/value cache from any causal LM that transformers loads."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from transformers import DynamicCache

from covey.engines.sampling import draw, sampled_logp, uniforms
from covey.errors import ModelError
from covey.types import Completion, Finish, Request

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class HFEngine:
    """Samples from a transformers model in this process, at most ``rows`` responses at a time.

    The learner trains the same model object, so new weights are there without a copy; ``load_weights`` with another
    model's state copies them. Dropout is off while sampling. ``end_tokens`` are all ids that end a response.
    """

    def __init__(self, model: PreTrainedModel, end_tokens: frozenset[int], rows: int = 128) -> None:
        if not end_tokens:
            raise ModelError("the model names no end token, so no response could ever stop; set eos_token_id")
        if rows < 1:
            raise ValueError(f"rows must be at least 1, got {rows}")
        self.model = model
        self.rows = rows
        self.version = 0
        self.end_tokens = torch.tensor(sorted(end_tokens), device=model.device)
        self.limit: int | None = getattr(model.config.get_text_config(), "max_position_embeddings", None)

    async def generate(self, requests: Sequence[Request], /) -> list[Completion]:
        """See :class:`covey.engines.base.Engine`. Raises ModelError for a prompt that leaves no room to answer."""
        return await asyncio.to_thread(self._generate_all, requests)

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
        by_length = sorted(requests, key=lambda request: len(request.tokens))
        was_training = self.model.training
        self.model.eval()
        try:
            batches = [by_length[i : i + self.rows] for i in range(0, len(by_length), self.rows)]
            return [completion for batch in batches for completion in self._generate_batch(batch)]
        finally:
            self.model.train(was_training)

    @torch.inference_mode()
    def _generate_batch(self, requests: Sequence[Request]) -> list[Completion]:
        """Sample until every row has ended. Rows are padded on the left, so all of them grow at the same column."""
        rows = _lay_out(requests, self.limit, self.model.device)
        width = rows.tokens.shape[1]
        cache = DynamicCache(config=self.model.config)
        feed, drawn, logps = rows.tokens, [], []
        positions = (rows.attended[:, :width].cumsum(1) - 1).clamp(min=0)
        ended = torch.zeros_like(rows.budget, dtype=torch.bool)
        for step in range(rows.uniform.shape[1]):
            out = self.model(
                input_ids=feed,
                attention_mask=rows.attended[:, : width + step],
                position_ids=positions,
                cache=cache,
                use_cache=True,
                logits_to_keep=1,
            )
            logp = sampled_logp(out.logits[:, -1], rows.temperature, rows.top_p, rows.top_k)
            token, token_logp = draw(logp, rows.temperature, rows.uniform[:, step])
            drawn.append(token)
            logps.append(token_logp)
            ended |= torch.isin(token, self.end_tokens)
            if bool((ended | (rows.budget <= step + 1)).all()):
                break
            feed = token[:, None]
            # A row that has ended goes on until the others have; it must not run out of the model's positions.
            positions = (positions[:, -1:] + 1).clamp(max=(self.limit or sys.maxsize) - 1)
        return self._collect(requests, torch.stack(drawn, 1), torch.stack(logps, 1), rows.budget)

    def _collect(
        self, requests: Sequence[Request], drawn: torch.Tensor, logps: torch.Tensor, budget: torch.Tensor
    ) -> list[Completion]:
        """Cut every row at its first end token or at its own limit, whichever comes first."""
        is_end = torch.isin(drawn, self.end_tokens).cpu().numpy()
        tokens, logp, limits = drawn.cpu().numpy(), logps.cpu().numpy(), budget.tolist()
        completions = []
        for row, request in enumerate(requests):
            ends = np.flatnonzero(is_end[row, : limits[row]])
            finish: Finish = "stop" if ends.size else "length"
            length = int(ends[0]) + 1 if ends.size else limits[row]
            completions.append(
                Completion(
                    id=request.id,
                    tokens=tokens[row, :length].astype(np.int64),
                    logp=logp[row, :length].astype(np.float32),
                    finish=finish,
                    version=self.version,
                )
            )
        return completions


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rows:
    """Requests side by side, padded on the left. B rows, S prompt columns, N new tokens at most."""

    tokens: torch.Tensor  # i64[B, S]
    attended: torch.Tensor  # i64[B, S + N]: 0 on padding
    budget: torch.Tensor  # i64[B]: new tokens allowed, within the model's positions
    uniform: torch.Tensor  # f64[B, N]
    temperature: torch.Tensor  # f32[B]
    top_p: torch.Tensor  # f32[B]
    top_k: torch.Tensor  # i64[B]


def _lay_out(requests: Sequence[Request], limit: int | None, device: torch.device) -> _Rows:
    knobs = [request.sampling for request in requests]
    sizes = [len(request.tokens) for request in requests]
    rooms = [sys.maxsize if limit is None else limit - size for size in sizes]
    budget = [min(knob.max_new_tokens, room) for knob, room in zip(knobs, rooms, strict=True)]
    width, steps = max(sizes), max(budget)
    tokens = np.zeros((len(requests), width), dtype=np.int64)
    attended = np.ones((len(requests), width + steps), dtype=np.int64)
    uniform = np.zeros((len(requests), steps))
    for row, request in enumerate(requests):
        tokens[row, width - sizes[row] :] = request.tokens
        attended[row, : width - sizes[row]] = 0
        uniform[row, : budget[row]] = uniforms(request.sampling)[: budget[row]]
    return _Rows(
        tokens=torch.as_tensor(tokens, device=device),
        attended=torch.as_tensor(attended, device=device),
        budget=torch.tensor(budget, device=device),
        uniform=torch.as_tensor(uniform, device=device),
        temperature=torch.tensor([knob.temperature for knob in knobs], device=device),
        top_p=torch.tensor([knob.top_p for knob in knobs], device=device),
        top_k=torch.tensor([knob.top_k for knob in knobs], device=device),
    )
