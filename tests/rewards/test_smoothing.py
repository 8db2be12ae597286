import asyncio

import pytest

from covey.rewards import MathAnswer, ScoreContext
from covey.rewards.smoothing import MeanOf
from covey.testing.samples import make_prompt, make_trajectory
from covey.types import Group, Part


class Rounds:
    """Gives each of its rounds in turn; one that is an exception is raised."""

    name = "rounds"

    def __init__(self, *rounds):
        self.rounds, self.logged = list(rounds), []

    async def score_group(self, group, context):
        found = self.rounds.pop(0)
        self.logged.append(("round", 1.0))
        if isinstance(found, Exception):
            raise found
        return [found for _ in group.members]


def part_of(*rounds):
    members = (make_trajectory("p", 0), make_trajectory("p", 1))
    made = MeanOf(reward=Rounds(*rounds), times=len(rounds))
    first, second = asyncio.run(made.score_group(Group(prompt=make_prompt(), members=members), ScoreContext()))
    assert first == second
    return first


def scored(value, correct=None):
    return Part(value=value, correct=correct)


def test_the_value_is_the_mean_and_why_tells_the_spread():
    part = part_of(scored(0.0), scored(1.0), scored(0.5))
    assert part.value == 0.5
    assert part.why == "judged 3 of 3 times, 0 to 1, standard deviation 0.408"


@pytest.mark.parametrize(
    ("verdicts", "correct"),
    [
        ([True, True, False], True),
        ([True, False, False], False),
        ([True, False], None),
        ([None, None], None),
        ([None, True], True),
    ],
)
def test_the_majority_says_what_is_right(verdicts, correct):
    assert part_of(*(scored(1.0, verdict) for verdict in verdicts)).correct is correct


def test_times_that_could_not_be_judged_are_left_out():
    part = part_of(scored(0.25), Part(value=None, why="busy"), scored(0.75), ValueError("odd"))
    assert (part.value, part.error) == (0.5, None)
    assert part.why.startswith("judged 2 of 4 times")


def test_fewer_than_half_are_no_verdict():
    part = part_of(scored(1.0, True), Part(value=None, why="busy"), Part(value=None, why="still busy"))
    assert (part.value, part.correct, part.error) == (None, None, None)
    assert part.why == "judged 1 of 3 times: busy"
    part = part_of(Part(value=None, why="busy"), ValueError("odd"), scored(float("nan")))
    assert (part.value, part.error) == (None, "ValueError: odd")


def test_the_rewards_own_name_and_what_it_says_beside_its_score_remain():
    inner = Rounds(scored(1.0))
    made = MeanOf(reward=inner, times=1)
    assert (made.name, MeanOf(reward=inner, times=1, name="calm").name) == ("rounds", "calm")
    assert made.logged is inner.logged
    assert made.unfit(make_prompt(answer="see above")) is None
    assert "see above" in MeanOf(reward=MathAnswer(), times=2).unfit(make_prompt(answer="see above"))


def test_wrong_settings_are_refused():
    class Dependent:
        name, after = "dependent", "math"

        async def score_after(self, group, context, verdicts):
            return []

    with pytest.raises(ValueError, match="times of 1 or more"):
        MeanOf(reward=Rounds(), times=0)
    with pytest.raises(ValueError, match="'dependent', which depends"):
        MeanOf(reward=Dependent(), times=2)
