"""What every advantage estimator holds, whatever its baseline is. Give the fixture ``advantage``.

One whose baseline is the group's own passes covey.testing.group_advantage_contract as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from covey.advantages.base import Advantage
from covey.testing.samples import make_scored, values_of
from covey.types import CreditedGroup, ScoredGroup, Shaped


def batch() -> list[ScoredGroup]:
    """Groups of several sizes: with contrast, without, with a missing reward, of one."""
    return [
        make_scored([1.0, 0.0, 0.5, 0.25], uid="a", lengths=[2, 5, 9, 4], greedy=0.5),
        make_scored([1.0, 1.0, 1.0], uid="b", lengths=[3, 1, 2], greedy=0.0),
        make_scored([0.0, 1.0, None, 0.0, 1.0], uid="c", greedy=1.0),
        make_scored([0.75], uid="d", greedy=0.75),
    ]


def streams(credited: Sequence[CreditedGroup]) -> list[list[list[float]]]:
    return [[stream.tolist() for stream in group.advantages] for group in credited]


def close(got: Sequence[CreditedGroup], expected: Sequence[CreditedGroup]) -> None:
    for mine, theirs in zip(got, expected, strict=True):
        assert mine.signal == theirs.signal
        for a, b in zip(mine.advantages, theirs.advantages, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)


def test_one_credited_group_each_in_order(advantage: Advantage) -> None:
    groups = batch()
    credited = advantage(groups)
    assert all(c.scored is g for c, g in zip(credited, groups, strict=True))
    assert advantage([]) == []


def test_streams_are_finite_float32_on_sampled_tokens(advantage: Advantage) -> None:
    for credited in advantage(batch()):
        for member, stream in zip(credited.scored.group.members, credited.advantages, strict=True):
            assert stream.shape == member.tokens.shape
            assert stream.dtype == np.float32
            assert np.isfinite(stream).all()
            assert (stream[~member.sampled] == 0).all()


def test_some_response_is_credited(advantage: Advantage) -> None:
    assert any(stream.any() for stream in advantage(batch())[0].advantages)


def test_crediting_twice_gives_the_same(advantage: Advantage) -> None:
    assert streams(advantage(batch())) == streams(advantage(batch()))


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_a_missing_reward_is_not_zero(advantage: Advantage, missing: float | None) -> None:
    rest = batch()[:2]
    with_gap = make_scored([1.0, missing, 0.0, 0.5], uid="c", lengths=[2, 7, 3, 4], greedy=0.5)
    without = make_scored([1.0, 0.0, 0.5], uid="c", lengths=[2, 3, 4], greedy=0.5)
    (got, *others), (expected, *same) = advantage([with_gap, *rest]), advantage([without, *rest])
    assert not got.advantages[1].any()
    kept = [got.advantages[i][got.scored.group.members[i].sampled] for i in (0, 2, 3)]
    for mine, theirs, member in zip(kept, expected.advantages, expected.scored.group.members, strict=True):
        np.testing.assert_allclose(mine, theirs[member.sampled], rtol=1e-6, atol=1e-6)
    close(others, same)


def test_nothing_judged_is_nothing_credited(advantage: Advantage) -> None:
    lost = make_scored([None, float("nan")], uid="lost", greedy=0.5)
    (alone,) = advantage([lost])
    assert alone.signal == "too_few"
    assert not any(stream.any() for stream in alone.advantages)
    close(advantage([*batch(), lost])[:-1], advantage(batch()))


@pytest.mark.parametrize("reward", [float("inf"), -float("inf")])
def test_infinite_rewards_are_refused(advantage: Advantage, reward: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        advantage([make_scored([1.0, reward, 0.0], greedy=0.5)])


def test_order_of_siblings_does_not_matter(advantage: Advantage) -> None:
    group = batch()[0]
    order = [2, 0, 3, 1]
    shuffled = replace(
        group,
        group=replace(group.group, members=tuple(group.group.members[i] for i in order)),
        scores=tuple(group.scores[i] for i in order),
    )
    rest = batch()[1:]
    got, expected = advantage([shuffled, *rest])[0], advantage([group, *rest])[0]
    for place, i in enumerate(order):
        np.testing.assert_allclose(got.advantages[place], expected.advantages[i], rtol=1e-6, atol=1e-6)


def test_order_of_groups_does_not_matter(advantage: Advantage) -> None:
    close(advantage(batch()[::-1])[::-1], advantage(batch()))


def test_two_groups_of_the_same_prompt_stay_apart(advantage: Advantage) -> None:
    """A group is one sampling event: neither uid nor text ties responses."""
    first, second = make_scored([1, 0, 0], uid="p", greedy=0.5), make_scored([0, 1, 1, 1], uid="p", greedy=0.5)
    other = make_scored([0, 1, 1, 1], uid="q", greedy=0.5)
    close(advantage([first, second]), advantage([first, other]))


def test_only_trained_tokens_are_credited(advantage: Advantage) -> None:
    """Shaping may leave tokens out of the loss, and whole responses out of the group."""
    group = batch()[0]
    masks = [member.sampled.copy() for member in group.group.members]
    masks[0][3] = False  # its first sampled token
    masks[2][:] = False
    outcome = np.array([1.0, 0.0, np.nan, 0.25])
    (credited,) = advantage([replace(group, shaped=Shaped(outcome=outcome, trained=tuple(masks), greedy=0.5))])
    assert credited.advantages[0][3] == 0
    assert not credited.advantages[2].any()
    assert any(stream.any() for stream in credited.advantages)


def test_credit_is_computed_from_shaped_rewards(advantage: Advantage) -> None:
    """Scaling, clipping and KL in the reward stand in ``shaped``: read ``rewards_of(group)``, not the totals."""
    if getattr(advantage, "ignores_total", False):
        pytest.skip("not computed from the total reward")
    group = make_scored([0.0, 1.0, 0.5, 0.25], uid="a", greedy=0.5)
    masks = tuple(member.sampled for member in group.group.members)
    swapped = replace(group, shaped=Shaped(outcome=np.array([1.0, 0.0, 0.5, 0.25]), trained=masks, greedy=0.5))
    (credited,) = advantage([swapped])
    assert credited.advantages[0][-1] > credited.advantages[1][-1]


def test_response_level_values_are_broadcast(advantage: Advantage) -> None:
    """Without step rewards or a penalty a token, every token of a response has the same advantage."""
    for credited in advantage(batch()):
        values_of(credited)
