"""The same number of responses to every prompt, all of them trained on."""

from __future__ import annotations

from dataclasses import dataclass

from covey.loop.strategies.base import Collected, Desk


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixed:
    """``sampling.group_size`` responses to each of ``sampling.prompts_per_step`` prompts."""

    async def __call__(self, desk: Desk, /) -> Collected:
        prompts = desk.cursor.take(desk.prompts_per_step)
        return Collected(groups=tuple(await desk.sample(prompts, desk.group_size)))
