import asyncio
import time

import pytest

from covey.rewards import ScoreContext
from covey.rewards.pattern import Pattern
from covey.testing.samples import make_prompt, make_trajectory
from covey.types import Group


@pytest.mark.parametrize(
    ("pattern", "where", "reply", "value"),
    [
        (r"\d+", "whole", "221", 1.0), (r"\d+", "whole", "221 ", 0.0), (r"\d+", "whole", "221\n", 0.0), (r"\d+", "search", "it is 221.", 1.0),
        (r"a|ab", "whole", "ab", 1.0), (r".*", "whole", "a\nb", 0.0), (r"(?s).*", "whole", "a\nb", 1.0), (r"(?i)yes", "search", "YES", 1.0),
        (r"^b", "search", "a\nb", 0.0), ("x", "search", "\ud800", 0.0), ("", "whole", "", 1.0),
    ],
)  # fmt: skip
def test_a_match_of_the_whole_or_of_a_part(pattern, where, reply, value):
    part = Pattern(pattern=pattern, where=where, deadline=10.0).part(make_prompt(), reply)
    assert (part.value, part.correct, part.why) == (value, None, "" if value else "no match")


def test_a_pattern_that_never_ends_is_stopped_and_counts_0():
    reward = Pattern(pattern=r"(a+)+b", deadline=0.5)
    reward.part(make_prompt(), "ab")  # interpreters are warm
    members = tuple(make_trajectory("p", i, reply=reply) for i, reply in enumerate(["a" * 60, "aab"]))
    began = time.monotonic()
    slow, quick = asyncio.run(reward.score_group(Group(prompt=make_prompt(), members=members), ScoreContext()))
    assert time.monotonic() - began < 5
    assert (slow.value, slow.why, slow.error) == (0.0, "timeout: the pattern took more than 0.5 s", None)
    assert quick.value == 1.0


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"pattern": "("}, "no regular expression: missing"),
        ({"pattern": "a", "where": "start"}, "'start'"),
        ({"pattern": "a", "deadline": 0}, "deadline > 0"),
        ({"pattern": "a", "workers": 0}, "workers >= 1"),
    ],
)
def test_settings_without_sense_are_refused(knobs, message):
    with pytest.raises(ValueError, match=message):
        Pattern(**knobs)
