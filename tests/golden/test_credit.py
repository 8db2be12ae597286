"""Advantages, their expectations and group sizes against worked examples, to 1e-6 in float64. See cases.json."""

import itertools
from math import comb, log

import numpy as np
import pytest

from covey.advantages import (
    BNPO,
    GDPO,
    GRPO,
    OPO,
    PKPO,
    RLOO,
    SPO,
    BatchStd,
    GroupMean,
    MaxRL,
    PassAtKTraining,
    ReinforcePP,
    ReMax,
)
from covey.advantages.base import is_degenerate
from covey.advantages.bnpo import beta_density
from covey.advantages.pkpo import shares
from covey.advantages.shape import Shaping
from covey.advantages.whiten import whiten_responses
from covey.losses.kl import KLTerm
from covey.metrics.estimate import mixed_chance, mixed_pass_rate, pass_at_k, rate_at_kth_success, smallest_mixed
from covey.rollout.budget import Extension, neyman_shares
from covey.testing.samples import make_parts, make_scored, values_of

golden = pytest.mark.golden
close = {"rtol": 0, "atol": 1e-6}


def rewards_of(case):
    return np.array(case["inputs"]["rewards"], dtype=np.float64)


@golden("A01", "A02", "A03")
def test_group_normalised(case):
    rewards, expected = rewards_of(case), case["expected"]
    assert rewards.mean() == pytest.approx(expected["mean"], abs=1e-9)
    np.testing.assert_allclose(GRPO(eps=0.0).of_rewards(rewards), expected["adv_sample"], **close)
    np.testing.assert_allclose(GRPO(eps=0.0, std_ddof=0).of_rewards(rewards), expected["adv_pop"], **close)
    np.testing.assert_allclose(values_of(GroupMean()([make_scored(rewards)])[0]), expected["adv_mean_only"], **close)


@golden("A04")
def test_against_the_mean(case):
    assert values_of(GroupMean()([make_scored(rewards_of(case))])[0]) == case["expected"]["adv"]


@golden("A05")
def test_binary_group(case):
    rewards, expected = rewards_of(case), case["expected"]
    for knobs, name in (
        ({"eps": 0.0, "std_ddof": 0}, "adv_pop"),
        ({"eps": 0.0}, "adv_sample"),
        ({"eps": 1e-4}, "adv_sample_eps_0.0001"),
        ({"eps": 1e-6}, "adv_sample_eps_1e-06"),
    ):
        np.testing.assert_allclose(GRPO(**knobs).of_rewards(rewards), expected[name], **close)
    np.testing.assert_allclose(values_of(GroupMean()([make_scored(rewards)])[0]), expected["adv_mean_only"], **close)


@golden("A06")
def test_all_equal(case):
    assert is_degenerate(rewards_of(case), 1e-8) == case["expected"]["degenerate"]
    assert values_of(GRPO(eps=0.0)([make_scored(rewards_of(case))])[0]) == case["expected"]["adv"]


@golden("A07")
def test_eps_shrinks_the_advantage_of_a_tiny_spread(case):
    for eps in (1e-8, 1e-6, 1e-4):
        expected = case["expected"][f"adv_sample_eps_{eps}"]
        np.testing.assert_allclose(GRPO(eps=eps).of_rewards(rewards_of(case)), expected, **close)


@golden("A08")
def test_a_lone_response(case):
    for estimator in (
        GRPO(),
        GroupMean(),
        RLOO(),
        OPO(),
        MaxRL(),
        BatchStd(),
        PKPO(),
        PassAtKTraining(),
        GDPO(),
        BNPO(),
    ):
        assert values_of(estimator([make_scored(rewards_of(case))])[0]) == [case["expected"]["adv"]]


@golden("A09")
def test_a_missing_reward(case):
    group = make_scored(case["inputs"]["rewards"])
    np.testing.assert_allclose(values_of(GRPO()([group])[0]), case["expected"]["adv_grpo_sample"], **close)
    np.testing.assert_allclose(values_of(RLOO()([group])[0]), case["expected"]["adv_rloo"], **close)


@golden("A11")
def test_leave_one_out(case):
    rewards = rewards_of(case)
    np.testing.assert_allclose(RLOO.of_rewards(rewards), case["expected"]["adv"], **close)
    np.testing.assert_allclose(rewards - RLOO.of_rewards(rewards), case["expected"]["baseline"], **close)


@golden("A12")
def test_greedy_baseline(case):
    group = make_scored(rewards_of(case), greedy=case["inputs"]["greedy_reward"])
    assert values_of(ReMax()([group])[0]) == case["expected"]["adv"]


@golden("A13")
def test_rewards_to_go_with_kl_inside(case):
    inputs, expected = case["inputs"], case["expected"]
    mask = np.array(inputs["mask"], dtype=bool)
    groups, refs = [], []
    for row, keep in enumerate(mask):
        scored = make_scored([inputs["seq_reward"][row]], uid=str(row), lengths=[int(keep.sum())])
        member = scored.group.members[0]
        member.logp[member.sampled] = np.array(inputs["logp"][row])[keep]
        ref = np.full(len(member.tokens), np.nan, dtype=np.float32)
        ref[member.sampled] = np.array(inputs["ref_logp"][row])[keep]
        groups.append(scored)
        refs.append([ref])
    shaped = Shaping()(groups, refs, case["params"]["kl_coef"], KLTerm(estimator="k1", where="reward").of_array)
    for ddof, name in ((1, "adv_sample_var"), (0, "adv_pop_var")):
        credited = ReinforcePP(gamma=case["params"]["gamma"], std_ddof=ddof)(shaped)
        for row, keep in enumerate(mask):
            got = credited[row].advantages[0][groups[row].group.members[0].sampled]
            np.testing.assert_allclose(got, np.array(expected[name][row])[keep], **close)


@golden("A15")
def test_length_weighted_baseline(case):
    lengths = [int(length) for length in case["inputs"]["lengths"]]
    group = make_scored(rewards_of(case), lengths=lengths)
    np.testing.assert_allclose(values_of(OPO()([group])[0]), case["expected"]["adv"], **close)


@golden("A18")
def test_every_part_by_itself(case):
    inputs, expected = case["inputs"], case["expected"]
    groups = [
        make_parts({"correct": right, "format": form}, weights={"correct": 1.0, "format": 1.0})
        for right, form in zip(inputs["reward_correct"], inputs["reward_format"], strict=True)
    ]
    whitened = whiten_responses([np.array(row) for row in expected["pre_bn"]], 1, 1e-4, 1e-8)
    np.testing.assert_allclose(whitened, expected["adv_gdpo"], **close)
    np.testing.assert_allclose([values_of(c) for c in GDPO()(groups)], expected["adv_gdpo"], **close)
    np.testing.assert_allclose([values_of(c) for c in GRPO()(groups)], expected["adv_sum_then_norm"], **close)


@golden("A19")
def test_pass_at_k(case):
    n, c, k = (case["inputs"][name] for name in "nck")
    expected, rewards = case["expected"], np.array([1.0] * c + [0.0] * (n - c))
    assert pass_at_k(n, c, k) == pytest.approx(expected["rho"], abs=1e-9)
    np.testing.assert_allclose(
        shares(rewards, k)[[0, -1]], [expected["pkpo_reward_correct"], expected["pkpo_reward_wrong"]], **close
    )
    assert shares(rewards, k).sum() == pytest.approx(expected["pkpo_sum"], abs=1e-9)
    wanted = [expected["passk_training_adv_correct"], expected["passk_training_adv_wrong"]]
    np.testing.assert_allclose(PassAtKTraining(k=k).of_counts(n, c), wanted, **close)
    credited = values_of(PassAtKTraining(k=k)([make_scored(rewards)])[0])
    np.testing.assert_allclose([credited[0], credited[-1]], wanted, **close)


@golden("A20")
def test_in_units_of_the_mean(case):
    np.testing.assert_allclose(MaxRL(eps=1e-6).of_rewards(rewards_of(case)), case["expected"]["adv"], **close)
    np.testing.assert_allclose(MaxRL(eps=0.0).of_rewards(rewards_of(case)), case["expected"]["adv_no_eps"], **close)
    assert values_of(MaxRL()([make_scored([0.0] * 3)])[0]) == [0.0] * 3


@golden("A25", "M03")
def test_gain_in_information_leaves_one_out(case):
    inputs = case["inputs"]
    for floor in {inputs.get("p_ema_no_think"), inputs.get("p_ema_a"), inputs.get("p_ema_b")} - {None}:
        gains = np.log(np.array(inputs["p_pred"]) / floor)
        expected = case["expected"]
        np.testing.assert_allclose(RLOO.of_rewards(gains), expected.get("adv", expected.get("adv_same")), **close)


@golden("M02")
def test_thoughts_against_their_mean(case):
    values = values_of(GroupMean()([make_scored(case["inputs"]["loglik_future_with_thought"])])[0])
    np.testing.assert_allclose(values, case["expected"]["adv"], **close)
    np.testing.assert_allclose(np.maximum(values, 0), case["expected"]["adv_positive_part"], **close)


@golden("A27")
def test_beta_density(case):
    p, expected = case["inputs"]["p"], case["expected"]
    assert beta_density(p, 1, 1) == pytest.approx(expected["den_1_1"], abs=1e-9)
    assert beta_density(p, 1.5, 1.5) == pytest.approx(expected["den_15_15"], abs=1e-9)
    assert beta_density(p, 1.5, 1.5) / np.sqrt(p * (1 - p)) == pytest.approx(expected["ratio_to_std"], abs=1e-9)
    assert (1 - p) / beta_density(p, 1.5, 1.5) == pytest.approx(expected["adv_correct_15_15"], abs=1e-9)
    # one pass rate has no spread to fit: the density is 1 and the credit a plain baseline's
    assert values_of(BNPO()([make_scored([1, 0, 0, 0])])[0])[0] == expected["adv_correct_1_1"]


@golden("A28")
def test_tracker(case):
    inputs, params, expected = case["inputs"], case["params"], case["expected"]
    size = inputs["alpha"] + inputs["beta"]
    spo = SPO(
        drift_half=params["D_half"], forget_min=params["rho_min"], forget_max=params["rho_max"],
        prior_mean=inputs["alpha"] / size, prior_size=size,
    )  # fmt: skip
    assert spo.baseline("p") == pytest.approx(expected["p_hat_before"])
    assert inputs["reward"] - spo.baseline("p") == pytest.approx(expected["adv_raw"])
    assert spo.forget(inputs["drift_D"]) == expected["rho"]
    spo.load_state({"seen": {"p": [inputs["alpha"], inputs["beta"], 0.0]}, "drift": inputs["drift_D"]})
    spo.observe([make_scored([inputs["reward"]])], 0.0)
    a, b, _ = spo.state()["seen"]["p"]
    assert (a, b) == pytest.approx((expected["alpha_after"], expected["beta_after"]))


def enumerated(policy, rewards, size, credit):
    """Expected (1/size) sum_i A_i grad log pi(a_i), by logits, over all groups; ``credit`` is None for no group."""
    policy, total = np.array(policy), np.zeros(len(policy))
    for actions in itertools.product(range(len(policy)), repeat=size):
        values = credit(np.array([rewards[a] for a in actions]))
        if values is not None:
            scores = np.eye(len(policy))[list(actions)] - policy
            total += np.prod(policy[list(actions)]) * (np.asarray(values)[:, None] * scores).mean(0)
    return total


def by(estimator):
    return lambda rewards: values_of(estimator([make_scored(rewards)])[0])


@golden("P01")
def test_bias_of_baselines(case):
    inputs, expected, size = case["inputs"], case["expected"], case["params"]["G"]
    for estimator, name in (
        (RLOO(), "rloo"),
        (GroupMean(), "mean_baseline"),
        (GRPO(std_ddof=0, eps=0.0), "grpo_pop_std"),
    ):
        got = enumerated(inputs["pi"], inputs["rewards_by_action"], size, by(estimator))
        np.testing.assert_allclose(got, expected[name], rtol=0, atol=2e-6)
    np.testing.assert_allclose(expected["rloo"], expected["true_grad"], **close)
    accepted = enumerated(
        inputs["pi"], inputs["rewards_by_action"], size, lambda r: RLOO.of_rewards(r) if np.ptp(r) else None
    )
    np.testing.assert_allclose(accepted, expected["rloo_restricted_to_nondegenerate"], **close)
    np.testing.assert_allclose(accepted / expected["accepted_prob"], expected["rloo_conditional_on_accept"], **close)
    assert mixed_chance(inputs["pi"][0], size) == pytest.approx(expected["accepted_prob"])


@golden("P02")
def test_filter_and_refill_is_one_factor_for_all_prompts(case):
    expected, size = case["expected"], case["params"]["G"]
    acceptance = [mixed_chance(p, size) for p in case["inputs"]["pass_rates"]]
    np.testing.assert_allclose(acceptance, expected["acceptance"], **close)
    for p, share, prior, unfiltered, ratio, part in zip(
        case["inputs"]["pass_rates"], expected["accepted_share"], case["params"]["prompt_prob"],
        expected["grad_unfiltered_prompt"], expected["ratio_to_unfiltered"], expected["expected_accepted_grad_prompt_part"],
        strict=True,
    ):  # fmt: skip
        got = enumerated([p, 1 - p], [1.0, 0.0], size, by(RLOO()))
        np.testing.assert_allclose(got, unfiltered, **close)
        in_accepted = share * got / mixed_chance(p, size)
        np.testing.assert_allclose(in_accepted, part, **close)
        np.testing.assert_allclose(in_accepted / (prior * got), ratio, **close)


@golden("P04")
def test_extending_and_pooling(case):
    p, first, more, expected = case["inputs"]["p"], case["params"]["G0"], case["params"]["G1"], case["expected"]
    rule = Extension(chunk=more, largest=first + more, hope=0.0)
    assert rule.scale(p, first) == pytest.approx(expected["ratio"], abs=1e-9)
    assert rule.scale(p, first) * p * (1 - p) == pytest.approx(expected["pooled_grad"], abs=1e-9)
    assert 1 + (1 - mixed_chance(p, first)) == pytest.approx(expected["fresh_only_ratio"], abs=1e-9)


@golden("P05")
def test_pass_at_k_needs_a_baseline_without_the_response(case):
    p, n, k, expected = case["inputs"]["p"], case["params"]["n"], case["params"]["k"], case["expected"]
    for credit, name in (
        (lambda r: n * shares(r, k), "raw"),
        (lambda r: n * (shares(r, k) - shares(r, k).mean()) * n / (n - 1), "naive_centring"),
        (by(PKPO(k=k)), "loo_recomputed_without_i"),
    ):
        got = enumerated([p, 1 - p], [1.0, 0.0], n, credit)[0]
        assert got == pytest.approx(expected[name], abs=1e-6)


@golden("P07")
def test_credit_for_right_answers_alone_must_not_be_centred(case):
    n, k, expected = case["params"]["n"], case["params"]["k"], case["expected"]
    for p, true, ratio in zip(
        case["inputs"]["p"], expected["true_grad_logit"], expected["ratio_naive_loo"], strict=True
    ):
        raw = centred = ours = 0.0
        for c in range(n + 1):
            chance = comb(n, c) * p**c * (1 - p) ** (n - c)
            credit = np.array([comb(n - c, k - 1) / comb(n - 1, k - 1) * k / n] * c + [0.0] * (n - c))
            scores = np.array([1 - p] * c + [-p] * (n - c))
            raw += chance * (credit * scores).sum()
            centred += chance * (RLOO.of_rewards(credit) * scores).sum()
            ours += chance * (PKPO(k=k).of_rewards(np.array([1.0] * c + [0.0] * (n - c))) * scores).mean()
        assert (raw, ours) == pytest.approx((true, true), abs=1e-9)
        assert centred / true == pytest.approx(ratio, abs=1e-9)


@golden("D01")
def test_chance_of_a_group_without_contrast(case):
    for p, silent, asked in zip(case["inputs"]["p"], *case["expected"].values(), strict=True):
        assert 1 - mixed_chance(p, case["params"]["G"]) == pytest.approx(silent, abs=1e-9)
        assert 1 / mixed_chance(p, case["params"]["G"]) == pytest.approx(asked, abs=1e-9)


@golden("D02")
def test_smallest_group(case):
    sizes = [smallest_mixed(p, case["params"]["target_nondegenerate"]) for p in case["inputs"]["p"]]
    assert sizes == case["expected"]["G_min"]


@golden("D04")
def test_stopping_at_a_success_biases_the_rate(case):
    p, example = case["inputs"]["p"], case["expected"]["haldane_k2_example"]
    assert sum(p * (1 - p) ** (n - 1) / n for n in range(1, 2000)) == pytest.approx(
        case["expected"]["E_phat"], abs=1e-9
    )
    assert -p * log(p) / (1 - p) == pytest.approx(case["expected"]["E_phat"], abs=1e-9)
    assert rate_at_kth_success(example["k"], example["N"]) == pytest.approx(example["estimate"], abs=1e-9)
    unbiased = sum((n - 1) * p**2 * (1 - p) ** (n - 2) * rate_at_kth_success(2, n) for n in range(2, 2000))
    assert unbiased == pytest.approx(p, abs=1e-9)


@golden("D05")
def test_a_half_and_half_subset_favours_extreme_rates(case):
    # n/2 right and n/2 wrong ones of a large pool; true gradient by the logit p q
    for p, pool, group, right, wrong in zip(case["inputs"]["p"], *case["expected"].values(), strict=True):
        q, true = 1 - p, p * (1 - p)
        score = {1: q, 0: -p}
        assert 0.5 * ((1 - p) * score[1] - p * score[0]) / true == pytest.approx(pool, abs=1e-9)
        halves = [float(a) for a in GroupMean()([make_scored([1.0, 0.0])])[0].advantages[0][-1:]]
        assert halves == [0.5]
        assert 0.5 * (0.5 * score[1] - 0.5 * score[0]) / true == pytest.approx(group, abs=1e-9)
        assert 0.5 * (right * (1 - p) * score[1] - wrong * p * score[0]) / true == pytest.approx(1.0, abs=1e-9)


@golden("D06")
def test_variance_minimal_shares(case):
    got = neyman_shares(case["inputs"]["p"], case["params"]["budget"])
    np.testing.assert_allclose(got, case["expected"]["n_real"], **close)


@golden("D07")
def test_pass_rate_inside_mixed_groups(case):
    got = [mixed_pass_rate(p, case["params"]["G"]) for p in case["inputs"]["p"]]
    np.testing.assert_allclose(got, case["expected"]["E_phat_given_mixed"], **close)
