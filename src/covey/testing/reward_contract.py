"""What every reward holds. Give the fixtures ``reward`` and ``group`` (a covey.types.Group it can judge)."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace
from typing import Any

import pytest

from covey.rewards.base import ScoreContext
from covey.types import Group, Part


def judge(reward: Any, group: Group) -> list[Part]:
    return asyncio.run(reward.score_group(group, ScoreContext()))


def test_it_has_a_name(reward: Any) -> None:
    assert isinstance(reward.name, str)
    assert reward.name


def test_one_part_a_member(reward: Any, group: Group) -> None:
    assert len(judge(reward, group)) == len(group.members)
    assert len(judge(reward, replace(group, members=group.members[:1]))) == 1


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
