"""Prompts that a reward will never be able to judge, found before a run begins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from covey.errors import PromptError
from covey.rewards.base import Choosy
from covey.rewards.compose import WeightedReward
from covey.types import Prompt


def judgeable(
    prompts: Sequence[Prompt], rewards: Sequence[WeightedReward], unfit: Literal["drop", "error", "keep"]
) -> tuple[list[Prompt], str]:
    """The prompts that remain, and what to tell a person about the others; empty if there are none.

    Raises PromptError for any with ``unfit`` "error", and where none remain.
    """
    choosy = [item.reward for item in rewards if isinstance(item.reward, Choosy)]
    problems = {
        prompt.uid: f"{reward.name} says: {why}"
        for prompt in prompts
        for reward in choosy
        if (why := reward.unfit(prompt))
    }
    if not problems or unfit == "keep":
        return list(prompts), ""
    uid, why = next(iter(problems.items()))
    told = f"{len(problems)} of {len(prompts)} prompts cannot be judged, e.g. {uid!r}: {why}"
    if unfit == "error" or len(problems) == len(prompts):
        raise PromptError(
            f'{told}. Mend or remove them, or set reward.unfit = "drop" to leave them out ("keep" to ask them anyway).'
        )
    return [prompt for prompt in prompts if prompt.uid not in problems], f"{told}; they are left out"
