"""Groups that agree get further responses, as long as there is hope."""

from __future__ import annotations

from dataclasses import dataclass

from covey.loop.strategies.base import Collected, Desk, scaled
from covey.rollout.budget import Extension


@dataclass(frozen=True, slots=True, kw_only=True)
class Reactive:
    """Starts with ``sampling.group_size`` responses and adds ``chunk`` at a time by the rule of Extension.

    Looking before deciding favours prompts of extreme pass rate: the factor on a prompt's expected gradient is
    ``Extension.scale``. Unless ``correct`` is off, each prompt is divided by that factor at the pass rate known from
    earlier steps, never by one from the group itself. Exact if that rate is, and credit is leave-one-out (``rloo``);
    other estimators weigh prompts by group size and pass rate in their own ways.
    """

    chunk: int = 8
    largest: int = 32
    right: int = 1
    wrong: int = 1
    hope: float = 0.1
    correct: bool = True

    def __post_init__(self) -> None:
        self._rule()

    def _rule(self) -> Extension:
        return Extension(chunk=self.chunk, largest=self.largest, right=self.right, wrong=self.wrong, hope=self.hope)

    async def __call__(self, desk: Desk, /) -> Collected:
        rule, prior = self._rule(), desk.rates.prior()
        prompts = desk.cursor.take(desk.prompts_per_step)
        rates = desk.rates.means([prompt.uid for prompt in prompts])
        groups = await desk.sample(prompts, desk.group_size)
        rounds = 1
        while any(more := [rule.more(*desk.verdicts(group), prior, len(group.group.members)) for group in groups]):
            groups = await desk.extend(groups, more)
            rounds += 1
        if self.correct:
            factors = [rule.scale(rate, desk.group_size, prior) for rate in rates]
            groups = [scaled(group, 1 / factor) for group, factor in zip(groups, factors, strict=True)]
        return Collected(groups=tuple(groups), rounds=rounds, equal_prompts=True, unconditional=desk.group_size)
