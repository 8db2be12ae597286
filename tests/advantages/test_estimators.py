"""What each estimator does beyond the contract and the worked examples."""

from dataclasses import replace

import numpy as np
import pytest

from covey.advantages import (
    BNPO,
    GDPO,
    GPG,
    OPO,
    PKPO,
    SPO,
    BatchStd,
    GroupMean,
    Hybrid,
    HybridRunning,
    MaxRL,
    PassAtKTraining,
    Process,
    ReinforcePP,
    ReinforcePPBaseline,
    ReMax,
)
from covey.advantages.base import uncredited
from covey.advantages.bnpo import beta_moments
from covey.advantages.hybrid import shrinkage, spread
from covey.advantages.reinforce_pp import discounted
from covey.advantages.shape import Shaping
from covey.errors import AdvantageError
from covey.testing.samples import make_parts, make_scored, make_trajectory, values_of
from covey.types import Group, Score, ScoredGroup, Shaped, StepReward


def test_batch_scale_is_of_raw_rewards():
    # (1, 0) and (5, 5): all four have mean 2.75 and sample deviation 2.629956; centred ones would have 0.408
    credited = BatchStd(eps=0.0)([make_scored([1.0, 0.0]), make_scored([5.0, 5.0])])
    assert values_of(credited[0]) == pytest.approx([0.5 / 2.629955639, -0.5 / 2.629955639])
    assert values_of(credited[1]) == [0.0, 0.0]


def test_gpg_makes_up_for_silent_groups():
    credited = GPG()([make_scored([1.0, 0.0]), make_scored([1.0, 1.0]), make_scored([0.0, 0.0, None])])
    assert values_of(credited[0]) == pytest.approx([0.5 * 6 / 2, -0.5 * 6 / 2])
    assert values_of(GPG()([make_scored([1.0, 1.0])])[0]) == [0.0, 0.0]


def test_whitening_over_tokens_shifts_groups_that_agree():
    # tokens: 1 x 0.5, 3 x -0.5, 4 x 0: mean -0.125, sample variance 0.125 (n = 8)
    credited = ReinforcePPBaseline(eps=0.0)(
        [make_scored([1.0, 0.0], lengths=[1, 3]), make_scored([1.0, 1.0], lengths=[2, 2])]
    )
    deviation = np.sqrt((0.625**2 + 3 * 0.375**2 + 4 * 0.125**2) / 7)
    assert values_of(credited[0]) == pytest.approx([0.625 / deviation, -0.375 / deviation])
    assert values_of(credited[1]) == pytest.approx([0.125 / deviation] * 2)
    assert credited[1].signal == "all_right"


@pytest.mark.parametrize("gamma", [1.0, 0.99, 0.5, 1e-3])
def test_sums_to_go(gamma):
    rewards = np.random.default_rng(0).normal(size=3000)
    expected, carry = np.empty(3000), 0.0
    for t in range(2999, -1, -1):
        carry = expected[t] = rewards[t] + gamma * carry
    np.testing.assert_allclose(discounted(rewards, gamma), expected, rtol=1e-9, atol=1e-9)


def test_a_greedy_response_that_was_not_judged_teaches_nothing():
    group = make_scored([1.0, 0.0], greedy=0.5)
    assert values_of(ReMax()([group])[0]) == [0.5, -0.5]
    lost = replace(group, greedy=Score(total=None, parts={}))
    assert values_of(ReMax()([lost])[0]) == [0.0, 0.0]
    with pytest.raises(ValueError, match="greedy=True"):
        ReMax()([make_scored([1.0, 0.0])])


@pytest.mark.parametrize(
    ("knobs", "expected"),
    [
        ({"scale": 0.1}, [0.0, -0.1]),
        ({"clip": (-0.5, 0.5)}, [0.0, -0.5]),
        ({"scale": 2.0, "clip": (0.0, 1.5)}, [0.0, -1.5]),
    ],
)
def test_the_greedy_baseline_is_shaped_like_the_responses(knobs, expected):
    (shaped,) = Shaping(**knobs)([make_scored([1.0, 0.0], greedy=1.0)])
    assert values_of(ReMax()([shaped])[0]) == pytest.approx(expected)


@pytest.mark.parametrize("estimator", [ReinforcePP(eps=0.0), ReinforcePPBaseline(eps=0.0), SPO(eps=0.0), GDPO(eps=0.0)])
def test_a_batch_that_agrees_is_no_signal(estimator):
    """Whitening divides by the spread: that of rounding noise must not become a step of full size."""
    for rewards in ([0.7] * 7, [0.3, 0.1 + 0.2], [0.7, 0.7 + 1e-9]):
        credited = estimator([make_scored(rewards, uid="a"), make_scored(rewards, uid="b", lengths=[3] * len(rewards))])
        assert not any(stream.any() for group in credited for stream in group.advantages)


def test_a_response_in_the_baseline_alone_keeps_its_length():
    group = make_scored([1.0, 0.0, 1.0, 0.0])
    masks = tuple(
        m.sampled if r else np.zeros_like(m.sampled) for m, r in zip(group.group.members, (1, 0, 1, 0), strict=True)
    )
    shaped = replace(group, shaped=Shaped(outcome=np.array([1.0, 0.0, 1.0, 0.0]), trained=masks))
    assert [stream.max() for stream in OPO()([shaped])[0].advantages] == [0.5, 0.0, 0.5, 0.0]


def test_parts_that_differ_are_a_signal_though_totals_agree():
    group = make_parts({"a": [1.0, 0.0], "b": [0.5, 1.0]}, weights={"b": 2.0})
    assert {score.total for score in group.scores} == {2.0}
    assert GDPO()([group])[0].signal == "ok"


def test_maxrl_and_bnpo_say_what_rewards_they_take():
    with pytest.raises(ValueError, match="0 and more"):
        MaxRL()([make_scored([1.0, -1.0])])
    with pytest.raises(ValueError, match=r"in \[0, 1\]"):
        BNPO()([make_scored([2.0, 0.0])])
    with pytest.raises(ValueError, match="between 0 and 1"):
        SPO()([make_scored([2.0, 0.0])])


def test_moments_of_a_beta_distribution():
    # Beta(2, 6): mean 1/4, variance 12 / (64 x 9) = 1/48
    a, b = beta_moments(np.array([0.25 - np.sqrt(1 / 48), 0.25 + np.sqrt(1 / 48)]))
    assert (a, b) == pytest.approx((2.0, 6.0))
    assert beta_moments(np.array([0.5, 0.5])) == beta_moments(np.array([0.0, 1.0])) == (0.0, 0.0)


def test_pass_at_k_counts_raw_correctness_and_needs_k_responses():
    group = make_scored([1.0, 0.0, 0.0])
    shaped = replace(
        group, scores=tuple(replace(s, total=(s.total or 0) - 0.3 * i) for i, s in enumerate(group.scores))
    )
    assert values_of(PassAtKTraining(k=2)([shaped])[0]) == values_of(PassAtKTraining(k=2)([group])[0])
    assert values_of(PassAtKTraining(k=4)([group])[0]) == [0.0] * 3
    assert values_of(PassAtKTraining(k=3)([group])[0]) == [0.0] * 3  # any three hold the right one: nothing to gain


def test_the_best_of_all_credits_only_a_lone_best():
    assert values_of(PKPO(k=3)([make_scored([1.0, 0.0, 0.0])])[0]) == [3.0, 0.0, 0.0]
    assert values_of(PKPO(k=3)([make_scored([1.0, 1.0, 0.0])])[0]) == [0.0, 0.0, 0.0]


def test_parts_that_add_up_to_the_same_stay_apart():
    group = make_parts({"correct": [1.0, 0.0, 0.0, 1.0], "format": [0.0, 1.0, 0.0, 0.0]})
    assert [score.total for score in group.scores] == [1.0, 1.0, 0.0, 1.0]
    first, second, *_ = values_of(GDPO()([group])[0])
    assert first != pytest.approx(second)


def test_weights_of_parts_count_and_a_part_without_contrast_adds_nothing():
    plain = make_parts({"correct": [1.0, 0.0, 0.0]})
    beside = make_parts({"correct": [1.0, 0.0, 0.0], "format": [1.0, 1.0, 1.0]}, weights={"format": 0.5})
    assert values_of(GDPO()([beside])[0]) == pytest.approx(values_of(GDPO()([plain])[0]))
    against = make_parts({"correct": [1.0, 0.0], "length": [0.0, 1.0]}, weights={"length": 2.0})
    assert values_of(GDPO()([against])[0])[0] < 0


def test_a_missing_part_does_not_spoil_the_batch():
    gap = make_parts({"correct": [1.0, 0.0, 0.5], "style": [0.2, None, 0.9]})
    whole = make_parts({"correct": [1.0, 0.0], "style": [0.2, 0.9]})
    credited = GDPO()([gap, whole])
    assert all(np.isfinite(stream).all() for group in credited for stream in group.advantages)
    assert values_of(credited[0])[1] == 0.0


def test_shrinkage():
    # three other prompts, four responses each: within 0.25, noise 0.25 / 4, variance of the means 0.0833
    within, between = spread(np.array([4, 4, 4]), np.array([0.25, 0.5, 0.75]), np.array([0.25, 0.25, 0.25]))
    assert (within, between) == pytest.approx((0.25, 0.0625 - 0.0625))
    assert shrinkage(4, within, between) == 1.0  # all of the spread is sampling noise: trust the common mean
    within, between = spread(np.array([4, 4, 4]), np.array([0.0, 0.5, 1.0]), np.array([0.25, 0.25, 0.25]))
    assert between == pytest.approx(0.25 - 0.0625)
    assert shrinkage(4, within, between) == pytest.approx((0.25 / 3) / (0.25 / 3 + 0.1875))
    assert shrinkage(1, np.nan, np.nan) == 1.0
    assert shrinkage(4, np.nan, np.nan) == shrinkage(4, 0.0, 0.0) == 0.0


def test_hybrid_gives_a_lone_response_the_other_prompts_as_siblings():
    credited = Hybrid()([make_scored([1.0], uid="a"), make_scored([0.0], uid="b"), make_scored([0.5], uid="c")])
    assert [values_of(c)[0] for c in credited] == pytest.approx([0.75, -0.75, 0.0])
    assert {c.signal for c in credited} == {"too_few"}
    assert values_of(Hybrid()([make_scored([1.0])])[0]) == [0.0]  # nobody to compare with


def test_hybrid_credits_groups_that_agree_against_the_others():
    credited = Hybrid()([make_scored([0.0, 0.0, 0.0]), make_scored([1.0, 0.0, 1.0]), make_scored([1.0, 1.0, 0.0])])
    assert all(value < 0 for value in values_of(credited[0]))
    assert credited[0].signal == "all_wrong"


def test_running_statistics_are_of_earlier_steps_only():
    estimator = HybridRunning(decay=0.5)
    step = [make_scored([1.0, 0.0], uid="a"), make_scored([1.0, 1.0], uid="b"), make_scored([0.0, 0.0], uid="c")]
    assert values_of(estimator([make_scored([1.0])])[0]) == [0.0]
    first = [values_of(c) for c in estimator(step)]
    assert first[1] == [0.0, 0.0]  # like leave-one-out as long as nothing is known
    estimator.observe(step, 0.0)
    assert estimator.state()["mean"] == pytest.approx(0.5)
    estimator.observe([make_scored([1.0, 1.0], uid="d")], 0.0)
    assert estimator.state()["mean"] == pytest.approx(0.75)
    assert values_of(estimator([make_scored([1.0])])[0]) == pytest.approx([0.25])
    again = HybridRunning(decay=0.5)
    again.load_state(estimator.state())
    assert [values_of(c) for c in again(step)] == [values_of(c) for c in estimator(step)]
    assert [values_of(c) for c in again(step)] != first


def test_a_prompt_remembers_its_own_pass_rate():
    spo = SPO(prior_size=2.0)
    easy, hard = make_scored([1.0], uid="easy"), make_scored([0.0], uid="hard")
    for _ in range(3):
        spo.observe([easy, hard], 0.0)
    # (1 + ...) fades by 0.96 a visit: a = 0.96^3 + 0.96^2 + 0.96 + 1
    a, b, _ = spo.state()["seen"]["easy"]
    assert (a, b) == pytest.approx((0.96**3 + 0.96**2 + 0.96 + 1, 0.96**3))
    surprise = [values_of(c)[0] for c in spo([make_scored([0.0], uid="easy"), make_scored([1.0], uid="hard")])]
    assert surprise[0] < 0 < surprise[1]
    assert spo.forget(1.0) == 0.875
    again = SPO(prior_size=2.0)
    again.load_state(spo.state())
    assert again.baseline("easy") == spo.baseline("easy")


def steps_group(rows, lengths):
    """One character a token; each row lists (end, value) of its steps."""
    members, scores = [], []
    for i, (steps, length) in enumerate(zip(rows, lengths, strict=True)):
        member = make_trajectory("p", i, reply="x" * (length - 1), prompt_tokens=1, reply_tokens=length)
        ends = np.minimum(np.arange(1, length + 1), length - 1)
        members.append(replace(member, turns=(replace(member.turns[0], ends=ends),)))
        scores.append(Score(total=1.0, parts={}, steps=tuple(StepReward(end=e, value=v) for e, v in steps)))
    from covey.testing.samples import make_prompt

    return ScoredGroup(group=Group(prompt=make_prompt(), members=tuple(members)), scores=tuple(scores))


def test_process_rewards_are_pooled_and_summed_to_the_end():
    # steps 1, 0 | 1, 1: mean 0.75, sample deviation 0.5, so +0.5 and -1.5
    group = steps_group([[(2, 1.0), (4, 0.0)], [(1, 1.0), (3, 1.0)]], lengths=[5, 4])
    (credited,) = Process(eps=0.0)([group])
    assert credited.advantages[0].tolist() == pytest.approx([0, -1.0, -1.0, -1.5, -1.5, -1.5])  # the end token too
    assert credited.advantages[1].tolist() == pytest.approx([0, 1.0, 0.5, 0.5, 0.5])


def test_process_without_steps_teaches_nothing():
    with_steps, without = steps_group([[(1, 1.0)], [(1, 0.0)]], lengths=[3, 3]), steps_group([[], []], lengths=[3, 3])
    assert not any(stream.any() for stream in Process()([with_steps, without])[1].advantages)
    with pytest.raises(AdvantageError, match="no response has any"):
        Process()([without])
    group = steps_group([[(1, 1.0)], [(1, 0.0)]], lengths=[3, 3])
    bare = tuple(replace(m, turns=(replace(m.turns[0], ends=None),)) for m in group.group.members)
    with pytest.raises(ValueError, match="text_ends=True"):
        Process()([replace(group, group=replace(group.group, members=bare))])


def test_reinforce_works_without_siblings_and_without_penalty():
    credited = ReinforcePP(eps=0.0)([make_scored([1.0], lengths=[2]), make_scored([0.0], lengths=[2])])
    assert [values_of(c)[0] for c in credited] == pytest.approx([0.5 / np.sqrt(1 / 3), -0.5 / np.sqrt(1 / 3)])


def test_a_group_that_is_only_looked_at():
    seen = uncredited(make_scored([1.0, 0.0]))
    assert (seen.signal, values_of(seen)) == ("ok", [0.0, 0.0])
    assert values_of(GroupMean()([make_scored([1.0, 0.0])])[0]) == [0.5, -0.5]


@pytest.mark.parametrize(
    "made",
    [
        lambda: PKPO(k=0), lambda: PassAtKTraining(k=0), lambda: GPG(norm=0.0), lambda: ReinforcePP(gamma=0.0),
        lambda: ReinforcePP(std_ddof=2), lambda: ReinforcePPBaseline(std_ddof=2), lambda: HybridRunning(decay=1.0),
        lambda: SPO(forget_min=0.99), lambda: GDPO(std_ddof=3), lambda: Process(std_ddof=3), lambda: MaxRL(eps=-1.0),
        lambda: Hybrid(tolerance=float("nan")),
    ],
)  # fmt: skip
def test_senseless_knobs_are_refused(made):
    with pytest.raises(ValueError, match="got"):
        made()
