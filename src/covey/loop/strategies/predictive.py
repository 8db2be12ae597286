"""Group sizes from earlier pass rates, fixed before anything is sampled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from covey.loop.strategies.base import Collected, Desk
from covey.rollout.budget import knapsack, neyman


@dataclass(frozen=True, slots=True, kw_only=True)
class Predictive:
    """Shares ``prompts_per_step x group_size`` responses out among the prompts, ``smallest`` to ``largest`` each.

    ``value = "knapsack"`` favours prompts that are hard but not hopeless (see covey.rollout.budget), ``"variance"``
    minimises the variance of the gradient. Pass rates are those of earlier steps, so sizes do not depend on
    what is then drawn; as each prompt counts once whatever its size, the expected gradient under leave-one-out credit
    (``rloo``) is that of fixed groups. Under ``group_mean`` a group of n has (n - 1) / n of it, under ``grpo`` a share
    that grows with n.
    """

    smallest: int = 2
    largest: int = 64
    value: Literal["knapsack", "variance"] = "knapsack"

    def __post_init__(self) -> None:
        if not 2 <= self.smallest <= self.largest:
            raise ValueError(f"2 <= smallest <= largest expected, got {self.smallest} and {self.largest}")

    async def __call__(self, desk: Desk, /) -> Collected:
        prompts = desk.cursor.take(desk.prompts_per_step)
        rates = desk.rates.means([prompt.uid for prompt in prompts])
        share = knapsack if self.value == "knapsack" else neyman
        sizes = share(rates, len(prompts) * desk.group_size, self.smallest, self.largest)
        return Collected(groups=tuple(await desk.sample(prompts, sizes)), equal_prompts=True)
