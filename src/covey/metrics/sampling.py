"""How a step's groups were sampled, what that suggests for the next runs, and how old the samples are."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from covey.metrics.estimate import smallest_mixed
from covey.metrics.step import mean
from covey.types import CreditedGroup, ScoredGroup

MOST = 256
"""The largest group size that is ever suggested."""


def sampling_metrics(
    everything: Sequence[ScoredGroup], kept: int, rounds: int, temperature: float, unconditional: int | None = None
) -> dict[str, float]:
    """Of all groups that a step sampled, ``kept`` of which are trained on.

    ``unconditional``: how many members of a group were drawn whatever the others were (None: all of them). Only those
    tell the pass rate of a prompt: a group that was extended until it was mixed has too few of the common kind.
    """
    sizes = [len(group.group.members) for group in everything]
    return {
        "sampling/groups": float(len(everything)),
        "sampling/responses": float(sum(sizes)),
        "sampling/kept": kept / len(everything),
        "sampling/rounds": float(rounds),
        "sampling/group_size": mean(sizes),
        "sampling/temperature": temperature,
        **suggestions(everything, temperature, unconditional),
    }


def suggestions(
    groups: Sequence[ScoredGroup], temperature: float, unconditional: int | None = None
) -> dict[str, float]:
    """A group size and a temperature to try, as numbers.

    Size first: the smallest at which a prompt of the median pass rate has a mixed group in 19 of 20 cases. Temperature
    only where size does not help, because siblings repeat each other: 0.1 higher if under half of the texts of a
    group are different.
    """
    rates, distinct = [], []
    for group in groups:
        known = [score.correct for score in group.scores[:unconditional] if score.correct is not None]
        rates += [(sum(known) + 1) / (len(known) + 2)] if known else []
        replies = [member.reply for member in group.group.members]
        distinct += [len(set(replies)) / len(replies)] if len(replies) > 1 else []
    alike = bool(distinct) and mean(distinct) < 0.5
    return {
        "suggest/group_size": float(smallest_mixed(median(rates), largest=MOST)) if rates else float("nan"),
        "suggest/temperature": round(temperature + 0.1, 3) if alike else temperature,
    }


def version_lag(groups: Sequence[CreditedGroup], version: int) -> dict[str, float]:
    """How many updates older the sampled weights are than those about to be trained, over responses."""
    lags = [float(version - member.version) for group in groups for member in group.scored.group.members]
    return {"sampler/lag_mean": mean(lags), "sampler/lag_max": max(lags, default=float("nan"))}
