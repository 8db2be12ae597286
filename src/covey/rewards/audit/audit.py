"""Puts a reward to the test on sampled groups and on made-up replies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np

from covey.rewards.audit.made import Discrimination, Maker, Probe, best_frame, discriminate, try_probes
from covey.rewards.audit.parts import PartReport, agreement, inversions, of_length, report_parts
from covey.rewards.audit.spread import chance_of_spread
from covey.rewards.audit.verdict import Verdict, about_discrimination, about_parts, about_probes, conclude, lesson
from covey.rewards.base import ScoreContext
from covey.rewards.score import Scorer
from covey.types import Group, Prompt, ScoredGroup

SIZES = (2, 4, 8, 16, 32, 64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """Everything that was found."""

    prompts: int
    responses: int
    parts: tuple[PartReport, ...]
    agreements: tuple[tuple[str, str, float | None], ...]  # of two parts, within groups
    spread: float | None  # share of groups with unequal totals
    spread_at: dict[int, float]  # the share to expect at other group sizes
    pass_rate: float | None
    discrimination: Discrimination
    probes: tuple[Probe, ...]
    verdict: Verdict

    def to_json(self) -> dict[str, Any]:
        """Plain JSON; what could not be computed is null."""
        return {**asdict(self), "verdict": {**asdict(self.verdict), "text": self.verdict.text}}


async def audit(
    prompts: Sequence[Prompt], groups: Sequence[Group], scorer: Scorer, make: Maker, limit: int, tried: int = 16
) -> Audit:
    """Judge these groups, and made-up replies to the first ``tried`` prompts. ``limit``: tokens a response may have."""
    scored = await scorer(groups, ScoreContext(evaluating=True))
    parts = report_parts(scored, scorer.seconds)
    scorer.drain()
    few = prompts[:tried]
    frame, found = await best_frame(few, scorer, make)
    told_apart = await discriminate(few, frame, found, scorer, make)
    means = {group.group.prompt.uid: float(np.mean(values)) for group in scored if (values := totals_of(group))}
    probes = await try_probes(few, frame, limit, scorer, make, means)
    teaching = [group for group in scored if len({round(value, 9) for value in totals_of(group)}) > 1]
    mixed = [group for group in teaching if len({score.correct for score in group.scores} - {None}) > 1]
    findings = (
        about_discrimination(told_apart),
        about_probes(probes, told_apart.right),
        about_parts(parts, inversions(scored)),
    )
    taught = lesson(len(scored), len(teaching), len(mixed), parts, of_length(scored))
    verdicts = [score.correct for group in scored for score in group.scores if score.correct is not None]
    return Audit(
        prompts=len(groups),
        responses=sum(len(group.members) for group in groups),
        parts=tuple(parts),
        agreements=tuple((a.name, b.name, agreement(scored, a.name, b.name)) for a, b in combinations(parts[:-1], 2)),
        spread=len(teaching) / len(scored) if scored else None,
        spread_at=expected_spread(scored),
        pass_rate=float(np.mean(verdicts)) if verdicts else None,
        discrimination=told_apart,
        probes=tuple(probes),
        verdict=conclude(
            [problem for problems, _ in findings for problem in problems],
            [doubt for _, doubts in findings for doubt in doubts],
            taught,
        ),
    )


def totals_of(group: ScoredGroup) -> list[float]:
    """Totals of the judged members."""
    return [score.total for score in group.scores if score.total is not None and math.isfinite(score.total)]


def expected_spread(scored: Sequence[ScoredGroup]) -> dict[int, float]:
    """Share of groups to expect with unequal totals, by group size."""
    totals = [values for group in scored if (values := totals_of(group))]
    known = sorted({value for values in totals for value in values})
    few = known if len(known) <= 8 else ()  # of a continuous reward any two differ
    return {
        size: float(np.mean([chance_of_spread(values, size, few) for values in totals])) for size in SIZES if totals
    }
