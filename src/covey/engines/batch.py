"""Sampling many responses at once: prompts are prefilled once, rows join and leave while the others go on."""

from __future__ import annotations

import math
import sys
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch
from transformers import DynamicCache

from covey.engines.attend import NAME, next_logits, prefill, token_bytes
from covey.engines.sampling import draw, probabilities, uniforms
from covey.engines.slots import Slots
from covey.kernels.attention import attending
from covey.types import Completion, Finish, Request

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(slots=True)
class _Row:
    """A response on its way."""

    request: Request
    limit: int  # tokens it may have
    uniform: np.ndarray  # f64, one a token
    tokens: list[int] = field(default_factory=list)
    logps: list[float] = field(default_factory=list)

    @property
    def key(self) -> bytes:
        """Equal for equal prompts."""
        return self.request.tokens.tobytes()


@dataclass(slots=True)
class _Prompt:
    """A prompt that has been prefilled, as long as responses to it are waiting."""

    logits: torch.Tensor  # [V], of the first new token
    waiting: int


@dataclass(slots=True)
class _Table:
    """What a step needs of rows 0 .. n-1, as tensors; made anew only when rows join or leave."""

    newest: torch.Tensor  # i64[n]: the last token
    place: torch.Tensor  # i64[n]: its position
    drawn: torch.Tensor  # i64[n]: tokens drawn so far
    uniform: torch.Tensor  # f64[n, most tokens]
    temperature: torch.Tensor  # f32[n]
    top_p: torch.Tensor  # f32[n]
    top_k: torch.Tensor  # i64[n]

    @classmethod
    def of(cls, rows: Sequence[_Row], device: torch.device) -> _Table:
        knobs = [row.request.sampling for row in rows]
        uniform = np.zeros((len(rows), max(len(row.uniform) for row in rows)))
        for i, row in enumerate(rows):
            uniform[i, : len(row.uniform)] = row.uniform
        return cls(
            newest=torch.tensor([row.tokens[-1] if row.tokens else 0 for row in rows], device=device),
            place=torch.tensor([len(row.request.tokens) + len(row.tokens) - 1 for row in rows], device=device),
            drawn=torch.tensor([len(row.tokens) for row in rows], device=device),
            uniform=torch.as_tensor(uniform, device=device),
            temperature=torch.tensor([knob.temperature for knob in knobs], device=device),
            top_p=torch.tensor([knob.top_p for knob in knobs], device=device),
            top_k=torch.tensor([knob.top_k for knob in knobs], device=device),
        )

    def draw(self, logits: torch.Tensor, rows: Sequence[_Row]) -> None:
        """Draw one token a row from ``logits`` [n, V]."""
        uniform = self.uniform.gather(1, self.drawn[:, None]).squeeze(1)
        chances = probabilities(logits, self.temperature, self.top_p, self.top_k)
        self.newest, logps = draw(chances, self.temperature, uniform)
        self.place, self.drawn = self.place + 1, self.drawn + 1
        for row, token, value in zip(rows, self.newest.tolist(), logps.tolist(), strict=True):
            row.tokens.append(token)
            row.logps.append(value)


class Batch:
    """One call of the engine: at most ``rows`` responses at the same time, prompts of equal tokens prefilled once.

    Fewer where keys and values of their prompts and of their longest answers would take more than ``cache_bytes``.
    Waiting responses are taken by the length of their prompt, longest first, and those of one prompt together. New ones
    are admitted when an eighth of the rows is free, so that prompts are prefilled several at a time.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        requests: Sequence[Request],
        *,
        end_tokens: frozenset[int],
        limit: int | None,
        rows: int,
        cache_bytes: int,
        prefill_tokens: int = 8192,
    ) -> None:
        self.model = model
        self.end_tokens = end_tokens
        self.prefill_tokens = prefill_tokens
        room = {r.id: sys.maxsize if limit is None else limit - len(r.tokens) for r in requests}
        made = [_Row(r, min(r.sampling.max_new_tokens, room[r.id]), uniforms(r.sampling)) for r in requests]
        made.sort(key=lambda row: (-len(row.request.tokens), row.key))  # stable: siblings in order
        self.waiting = deque(made)
        self.prompts: dict[bytes, _Prompt] = {}
        self.active: list[_Row] = []
        self.table: _Table | None = None
        self.drawn = 0  # tokens, of all rows
        self.rows = fitting(made[:rows], cache_bytes // (token_bytes(model) or 1))
        self.slots = Slots(len(DynamicCache(config=model.config).layers), self.rows, max(row.limit for row in made))

    def run(self, until: float = math.inf) -> Iterator[_Row]:
        """Yield responses as they end, with a pass or more, until all have or ``time.monotonic`` is past ``until``."""
        while self.waiting or self.active:
            if self._has_room():
                free = self.rows - len(self.active)
                yield from self._admit([self.waiting.popleft() for _ in range(min(free, len(self.waiting)))])
            with attending(self.model, NAME):  # for many passes: to change it takes as long as a small model's pass
                while self.active and not self._has_room():
                    yield from self._step()
                    if time.monotonic() > until:
                        return

    @property
    def newest(self) -> np.ndarray:
        """The tokens so far of the row that has been there longest."""
        return np.array(self.active[0].tokens)

    def _has_room(self) -> bool:
        free = self.rows - len(self.active)
        return bool(self.waiting) and (free >= max(1, self.rows // 8) or not self.active)

    def _admit(self, rows: list[_Row]) -> Iterator[_Row]:
        """Give each a slot beside its prompt, and draw its first token."""
        self._prefill(rows)
        logits = torch.stack([self.prompts[row.key].logits for row in rows])
        for row in rows:
            self.slots.admit(row.key)
            self.active.append(row)
            self.prompts[row.key].waiting -= 1
        self.prompts = {key: prompt for key, prompt in self.prompts.items() if prompt.waiting}
        self.table = None
        self.drawn += len(rows)
        _Table.of(rows, self.model.device).draw(logits, rows)
        yield from self._release(len(self.active) - len(rows))

    def _prefill(self, rows: Sequence[_Row]) -> None:
        """One pass over the prompts among these that are not prefilled yet, padded on the left."""
        fresh = {row.key: row.request.tokens for row in rows if row.key not in self.prompts}
        waiting = Counter(row.key for row in (*rows, *self.waiting))
        items, width = list(fresh.items()), max((len(tokens) for tokens in fresh.values()), default=1)
        size = max(1, self.prefill_tokens // width)
        for start in range(0, len(items), size):
            some = items[start : start + size]
            cache, logits = self._prompt_pass([tokens for _, tokens in some])
            needed = {row.key for row in self.active} | self.prompts.keys()
            self.slots.join([(key, len(tokens)) for key, tokens in some], cache, needed)
            for place, (key, _) in enumerate(some):
                self.prompts[key] = _Prompt(logits[place], waiting[key])

    def _prompt_pass(self, prompts: Sequence[np.ndarray]) -> tuple[DynamicCache, torch.Tensor]:
        width, device = max(len(tokens) for tokens in prompts), self.model.device
        ids, attended = np.zeros((len(prompts), width), np.int64), np.zeros((len(prompts), width), np.int64)
        for i, tokens in enumerate(prompts):
            ids[i, width - len(tokens) :], attended[i, width - len(tokens) :] = tokens, 1
        return prefill(self.model, torch.as_tensor(ids, device=device), torch.as_tensor(attended, device=device))

    def _step(self) -> Iterator[_Row]:
        """One more token for every active row."""
        self.slots.begin(self.table is None, self.model.device)
        table = self.table = self.table or _Table.of(self.active, self.model.device)
        self.drawn += len(self.active)
        table.draw(next_logits(self.model, self.slots, table.newest, table.place), self.active)
        yield from self._release(0)

    def _release(self, first: int) -> Iterator[_Row]:
        """Take ended rows, from number ``first`` on, out of the batch."""
        for place in range(len(self.active) - 1, first - 1, -1):
            row = self.active[place]
            if row.tokens[-1] in self.end_tokens or len(row.tokens) >= row.limit:
                self.slots.release(place)
                self.active[place] = self.active[-1]
                self.active.pop()
                self.table = None
                yield row


def fitting(rows: Sequence[_Row], tokens: int) -> int:
    """How many of these, one at least, can be sampled at once with room for so many tokens in the cache.

    A response may become as long as the longest may; a prompt counts once.
    """
    longest, prompts, count = max(row.limit for row in rows), dict[bytes, int](), 0
    for row in rows:
        prompts[row.key] = len(row.request.tokens)
        if (count + 1) * longest + sum(prompts.values()) > tokens:
            break
        count += 1
    return max(1, count)


def complete(row: _Row, end_tokens: frozenset[int], version: int) -> Completion:
    """A response that has ended."""
    finish: Finish = "stop" if row.tokens[-1] in end_tokens else "length"
    return Completion(
        id=row.request.id,
        tokens=np.asarray(row.tokens, dtype=np.int64),
        logp=np.asarray(row.logps, dtype=np.float32),
        finish=finish,
        version=version,
    )
