"""What every reward holds. Give the fixtures ``reward`` and ``group`` (a covey.types.Group it can judge).

A dependent reward is told that every other response, from the first on, is right.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace
from typing import Any

import pytest

from covey.rewards.base import DependentReward, ScoreContext
from covey.types import Group, Part


def judge(reward: Any, group: Group) -> list[Part]:
    if isinstance(reward, DependentReward):
        verdicts = [Part(value=float(i % 2 == 0), correct=i % 2 == 0) for i, _ in enumerate(group.members)]
        return asyncio.run(reward.score_after(group, ScoreContext(), verdicts))
    return asyncio.run(reward.score_group(group, ScoreContext()))


def test_it_has_a_name(reward: Any) -> None:
    assert isinstance(reward.name, str)
    assert reward.name


def test_one_part_a_member(reward: Any, group: Group) -> None:
    assert len(judge(reward, group)) == len(group.members)
    assert len(judge(reward, replace(group, members=group.members[:1]))) == 1


def test_a_dependent_one_judges_nothing_where_no_verdict_is(reward: Any, group: Group) -> None:
    if not isinstance(reward, DependentReward):
        pytest.skip("it judges by itself")
    unknown = [Part(value=None) for _ in group.members]
    parts = asyncio.run(reward.score_after(group, ScoreContext(), unknown))
    assert [part.value for part in parts] == [None] * len(unknown)


def test_parts_are_finite_numbers_or_none(reward: Any, group: Group) -> None:
    for part in judge(reward, group):
        assert part.value is None or (isinstance(part.value, float) and math.isfinite(part.value))
        assert isinstance(part.why, str)
        assert part.error is None or part.value is None


def test_judging_twice_gives_the_same(reward: Any, group: Group) -> None:
    assert [p.value for p in judge(reward, group)] == [p.value for p in judge(reward, group)]


@pytest.mark.parametrize("reply", ["", " ", "\n" * 50, "<answer>", "</answer><answer>", "\x00\u202e😀", "9" * 5000])
def test_odd_replies_do_not_break_it(reward: Any, group: Group, reply: str) -> None:
    member = group.members[0]
    odd = replace(member, turns=(replace(member.turns[0], reply=reply),))
    (part,) = judge(reward, replace(group, members=(odd,)))
    assert part.error is None
