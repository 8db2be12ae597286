"""The metrics of one step from its groups: pure counting, no model."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import get_args

import numpy as np

from covey.types import CreditedGroup, Score, ScoredGroup, Signal


def mean(values: Sequence[float]) -> float:
    """Arithmetic mean; NaN when there is nothing to average, because missing is not zero."""
    return float(np.mean(values)) if len(values) else math.nan


def group_metrics(groups: Sequence[CreditedGroup], rejected: Sequence[CreditedGroup] = ()) -> dict[str, float]:
    """Rewards, signals, advantages, lengths and diversity of all groups that a step sampled (one at least).

    ``rejected`` are those that a strategy threw away: pass rates without them would be of chosen prompts. Advantages
    are of the trained groups alone.
    """
    everything = [*groups, *rejected]
    scored = [group.scored for group in everything]
    scores = [score for group in scored for score in group.scores]
    judged = [score for score in scores if score.total is not None]
    signals = Counter(group.signal for group in everything)
    metrics = {
        "reward/mean": mean([score.total for score in judged if score.total is not None]),
        "reward/failed": mean([float(score.error is not None) for score in scores]),
        "reward/unjudged": 1.0 - len(judged) / len(scores),
        "pass_rate": mean([float(score.correct) for score in judged if score.correct is not None]),
        "group/reward_std": mean([std for group in scored if not math.isnan(std := _reward_std(group))]),
        "group/distinct": mean([_distinct(group) for group in scored]),
        "group/distinct_2": mean([value for group in scored if not math.isnan(value := _distinct_pairs(group))]),
    }
    metrics |= {f"group/{signal}": signals[signal] / len(scored) for signal in get_args(Signal)}
    return metrics | _part_means(scores) | _advantage_metrics(groups) | _length_metrics(scored)


def _reward_std(group: ScoredGroup) -> float:
    totals = [score.total for score in group.scores if score.total is not None]
    return float(np.std(totals, ddof=1)) if len(totals) > 1 else math.nan


def _distinct(group: ScoredGroup) -> float:
    replies = [member.reply for member in group.group.members]
    return len(set(replies)) / len(replies)


def _distinct_pairs(group: ScoredGroup) -> float:
    """Different pairs of neighbouring tokens over all pairs of the group (distinct-2, arXiv 1510.03055)."""
    drawn = [member.tokens[member.sampled].tolist() for member in group.group.members]
    pairs = [pair for tokens in drawn for pair in pairwise(tokens)]
    return len(set(pairs)) / len(pairs) if pairs else math.nan


def _part_means(scores: Sequence[Score]) -> dict[str, float]:
    names = {name for score in scores for name in score.parts}
    columns = {name: [v for score in scores if (v := score.parts.get(name)) is not None] for name in sorted(names)}
    metrics = {f"reward/part/{name}": mean(values) for name, values in columns.items()}
    for state in ("abstained", "failed"):
        for name in sorted({name for score in scores for name in score.states}):
            metrics[f"reward/{state}/{name}"] = mean([float(score.states.get(name) == state) for score in scores])
    return metrics


def _advantage_metrics(groups: Sequence[CreditedGroup]) -> dict[str, float]:
    values = [
        float(advantage[trained].mean())
        for group in groups
        for trained, score, advantage in zip(group.scored.trained, group.scored.scores, group.advantages, strict=True)
        if score.total is not None and trained.any()
    ]
    return {
        "advantage/mean": mean(values),
        "advantage/std": float(np.std(values)) if values else math.nan,
        "advantage/abs_mean": mean([abs(value) for value in values]),
    }


def _length_metrics(groups: Sequence[ScoredGroup]) -> dict[str, float]:
    members = [member for group in groups for member in group.group.members]
    lengths = [member.sampled_tokens for member in members]
    verdicts = [score.correct for group in groups for score in group.scores]
    of_kind = {
        kind: [length for length, verdict in zip(lengths, verdicts, strict=True) if verdict is right]
        for kind, right in (("right", True), ("wrong", False))
    }
    return {
        "length/mean": mean(lengths),
        "length/p95": float(np.quantile(lengths, 0.95)),
        "length/max": float(max(lengths)),
        **{f"length/{kind}": mean(found) for kind, found in of_kind.items()},
        "length/truncated": mean([float(member.finish == "length") for member in members]),
        "tokens/sampled": float(sum(lengths) + sum(g.sampled_tokens for group in groups if (g := group.group.greedy))),
    }
