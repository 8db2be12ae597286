"""What the parts of a reward did over sampled groups: how they spread, fail, agree, and decide who is above whom."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from covey.types import ScoredGroup

TOTAL = "total"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartReport:
    """One part over all responses; None where there was nothing to compute from."""

    name: str
    weight: float | None  # None for the total
    judged: int
    abstained: int
    failed: int
    mean: float | None
    std: float | None  # population
    quartiles: tuple[float, ...]  # least, 25 %, 50 %, 75 %, most
    seconds: float | None  # a call, for one group
    influence: float | None  # share of the total's variance within groups; all parts add up to 1
    reasons: tuple[str, ...]  # the commonest why of what was not judged


def report_parts(scored: Sequence[ScoredGroup], seconds: Mapping[str, Sequence[float]]) -> list[PartReport]:
    """Every part, then the total."""
    scores = [score for group in scored for score in group.scores]
    weights = scored[0].weights if scored else {}
    found = []
    for name in dict.fromkeys(name for score in scores for name in score.parts):
        weight = weights.get(name, 1.0)
        values = [value for score in scores if (value := score.parts.get(name)) is not None]
        states = Counter(score.states.get(name) for score in scores)
        whys = Counter(score.why.get(name, "") for score in scores if score.parts.get(name) is None)
        times = seconds.get(name, ())
        found.append(
            PartReport(
                name=name,
                weight=weight,
                judged=len(values),
                abstained=states["abstained"],
                failed=states["failed"],
                **_spread(values),
                seconds=float(np.mean(times)) if len(times) else None,
                influence=_influence(scored, name, weight),
                reasons=tuple(f"{why} ({count})" for why, count in whys.most_common(3) if why),
            )
        )
    totals = [score.total for score in scores if score.total is not None]
    failed = sum(score.error is not None for score in scores)
    unjudged = len(scores) - len(totals) - failed
    total = PartReport(
        name=TOTAL, weight=None, judged=len(totals), abstained=unjudged, failed=failed, **_spread(totals),
        seconds=None, influence=None, reasons=(),
    )  # fmt: skip
    return [*found, total]


def _spread(values: Sequence[float]) -> dict[str, Any]:
    if not values:
        return {"mean": None, "std": None, "quartiles": ()}
    quartiles = tuple(float(value) for value in np.quantile(values, [0, 0.25, 0.5, 0.75, 1]))
    return {"mean": float(np.mean(values)), "std": float(np.std(values)), "quartiles": quartiles}


def _influence(scored: Sequence[ScoredGroup], name: str, weight: float) -> float | None:
    """Covariance of the weighted part with the total over variance of the total, both within groups."""
    shared, whole = 0.0, 0.0
    for group in scored:
        pairs = [(score.parts.get(name), score.total) for score in group.scores if score.total is not None]
        totals = np.array([total for _, total in pairs], dtype=float)
        parts = np.array([0.0 if value is None else weight * value for value, _ in pairs])
        if len(pairs):
            whole += float(((totals - totals.mean()) ** 2).sum())
            shared += float(((parts - parts.mean()) * (totals - totals.mean())).sum())
    return shared / whole if whole > 1e-18 else None


def agreement(scored: Sequence[ScoredGroup], one: str, other: str) -> float | None:
    """Correlation of two parts within groups, -1 to 1; None if either never differs between siblings."""
    pairs = [
        [(a, b) for score in group.scores if None not in (a := score.parts.get(one), b := score.parts.get(other))]
        for group in scored
    ]
    return within([[(float(a), float(b)) for a, b in group] for group in pairs])  # type: ignore[arg-type]


def of_length(scored: Sequence[ScoredGroup]) -> float | None:
    """Correlation of the total with the length in tokens, within groups."""
    return within([
        [
            (float(member.sampled_tokens), score.total)
            for member, score in zip(group.group.members, group.scores, strict=True)
            if score.total is not None
        ]
        for group in scored
    ])  # fmt: skip


def within(groups: Sequence[Sequence[tuple[float, float]]]) -> float | None:
    """Pearson correlation of pairs after taking each group's means away."""
    centred = [np.array(pairs) - np.mean(pairs, axis=0) for pairs in groups if pairs]
    if not centred:
        return None
    x, y = np.concatenate(centred).T
    scale = float(np.sqrt((x**2).sum() * (y**2).sum()))
    return float((x * y).sum() / scale) if scale > 1e-12 else None


def inversions(scored: Sequence[ScoredGroup]) -> tuple[int, int]:
    """Pairs of a right and a wrong sibling in which the wrong one is paid at least as much, and all such pairs."""
    bad = total = 0
    for group in scored:
        right = [score.total for score in group.scores if score.correct and score.total is not None]
        wrong = [score.total for score in group.scores if score.correct is False and score.total is not None]
        total += len(right) * len(wrong)
        bad += sum(w >= r for r in right for w in wrong)
    return bad, total
