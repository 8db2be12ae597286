"""Losses by hand where the worked examples do not reach: signs, sides, shares and bounds."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from covey.losses import CPGD, GMPO, SAPO, ClipCov, DualClip, Kimi, KLCov, PromptMean, Reinforce, TopEntropy
from covey.losses.covariance import covariance, lot, survey_means
from covey.losses.sequence import sequence_mean, sequence_sum
from covey.testing.loss_samples import inputs_of

f64 = torch.float64


def values_and_multipliers(loss, inputs):
    values = loss(inputs).values
    (gradient,) = torch.autograd.grad(values[inputs.trained].sum(), inputs.logp)
    return values[inputs.trained].tolist(), (-gradient[inputs.trained]).tolist()


def test_sums_and_means_are_of_trained_tokens_by_segment():
    values = torch.tensor([[1.0, 2.0, 3.0, 40.0, 5.0, 6.0]])
    trained = torch.tensor([[False, True, True, False, True, True]])
    segment = torch.tensor([[0, 0, 0, 1, 1, -1]])
    assert sequence_sum(values, trained, segment).tolist() == [[5.0, 5.0, 5.0, 5.0, 5.0, 0.0]]
    assert sequence_mean(values, trained, segment).tolist() == [[2.5, 2.5, 2.5, 5.0, 5.0, 0.0]]


@pytest.mark.parametrize(
    ("advantage", "clipped", "fractions"),
    [
        (1.0, [0.4, -0.6, 0.1], {"clip/low": 0.0, "clip/high": 1 / 3}),  # 0.6 is pushed outwards: clipped; -0.6 is not
        (-1.0, [0.6, -0.4, 0.1], {"clip/low": 1 / 3, "clip/high": 0.0}),
    ],
)
def test_gmpo_clips_only_the_side_that_is_pushed_outwards(advantage, clipped, fractions):
    inputs = inputs_of([[0.6, -0.6, 0.1]], [advantage])
    term = GMPO()(inputs)
    geometric = np.exp(np.mean(clipped))
    assert term.values[0].tolist() == pytest.approx([-advantage * geometric] * 3)
    assert {name: metric.value for name, metric in term.metrics.items()} == pytest.approx(fractions)
    (gradient,) = torch.autograd.grad(term.values.mean(), inputs.logp)
    free = [float(c == r) for c, r in zip(clipped, [0.6, -0.6, 0.1], strict=True)]
    assert (-gradient[0]).tolist() == pytest.approx([advantage * geometric * keep / 3 for keep in free])


def test_sapo_has_its_own_temperature_for_each_sign():
    inputs = inputs_of([[0.0], [0.0]], [1.0, -1.0])
    values, multipliers = values_and_multipliers(SAPO(tau_positive=1.0, tau_negative=2.0), inputs)
    assert values == pytest.approx([-2.0, 1.0])  # -2 A / tau
    assert multipliers == pytest.approx([1.0, -1.0])


def test_kimi_pulls_back_by_the_distance():
    inputs = inputs_of([[0.3, -0.2]], [1.0], logp=[[-1.0, -2.0]])
    values, multipliers = values_and_multipliers(Kimi(tau=0.5), inputs)
    assert values == pytest.approx([1.0 + 0.25 * 0.09, 2.0 + 0.25 * 0.04])
    assert multipliers == pytest.approx([1 - 0.5 * 0.3, 1 + 0.5 * 0.2])


def test_cpgd_never_multiplies_by_the_ratio():
    inputs = inputs_of([[0.1, 0.5, -0.5]], [1.0])
    values, multipliers = values_and_multipliers(CPGD(drift_coef=0.0), inputs)
    assert values == pytest.approx([-0.1, -np.log(1.2), 0.5])
    assert multipliers == pytest.approx([1.0, 0.0, 1.0])
    _, pulled = values_and_multipliers(CPGD(drift_coef=0.1), inputs)
    assert pulled == pytest.approx(
        [1 - 0.1 * (np.exp(r) - 1) if r != 0.5 else -0.1 * (np.exp(r) - 1) for r in (0.1, 0.5, -0.5)]
    )


def test_reinforce_is_the_score_times_the_advantage():
    values, multipliers = values_and_multipliers(Reinforce(), inputs_of([[0.7, 0.0]], [2.0], logp=[[-1.0, -3.0]]))
    assert values == pytest.approx([2.0, 6.0])
    assert multipliers == pytest.approx([2.0, 2.0])


def test_the_dual_clip_counts_what_it_stops():
    term = DualClip()(inputs_of([[2.0, 0.0]], [-1.0]))
    assert term.metrics["clip/dual"].value == 0.5


def test_prompt_mean_counts_each_prompt_once():
    # prompt 1: tokens 1 1 1 1 | 6; prompt 2: token 8. (10/5 + 8/1) / 2
    inputs = inputs_of([[0.0] * 4, [0.0], [0.0]], [0.0] * 3)
    tokens = torch.tensor([[5] * 4, [5] * 4, [1] * 4])
    inputs = replace(inputs, group_tokens=tokens, totals=replace(inputs.totals, groups=2))
    losses = torch.tensor([[1.0] * 4, [6.0, 99.0, 99.0, 99.0], [8.0, 99.0, 99.0, 99.0]])
    assert PromptMean()(losses, inputs).item() == pytest.approx(5.0)
    with pytest.raises(ValueError, match="group_tokens"):
        PromptMean()(losses, replace(inputs, group_tokens=None))


LOGP = [-0.1, -2.0, -0.5, -3.0, -1.0, -1.5]
CREDIT = [1.0, 1.0, -1.0, -1.0, 0.5, -0.5]


def covariances(inputs):
    return covariance(inputs, survey_means(inputs))[0]


@pytest.mark.parametrize(("share", "count"), [(1e-4, 1), (0.34, 2), (0.5, 3), (1.0, 6)])
def test_kl_cov_holds_back_the_share_with_the_highest_covariance(share, count):
    inputs = inputs_of([[0.2] * 6], [CREDIT], logp=[LOGP])
    loss = KLCov(share=share, coef=10.0)
    known = replace(inputs, statistics=loss.survey(inputs))
    extra = loss(known).values[0] + known.advantage[0] * np.exp(0.2)
    picked = extra > 1.0
    assert int(picked.sum()) == count
    assert set(picked.nonzero().flatten().tolist()) == set(covariances(inputs).topk(count).indices.tolist())


def test_clip_cov_draws_among_tokens_within_the_bounds_only():
    inputs = inputs_of([[0.0] * 6], [CREDIT], logp=[LOGP])
    found = covariances(inputs)
    low, high = found.sort().values[2].item() - 1e-9, found.sort().values[4].item() - 1e-9
    eligible = {i for i, value in enumerate(found.tolist()) if low < value < high}
    assert len(eligible) == 2
    for share, count in ((1e-4, 1), (0.2, 1), (0.34, 2), (1.0, 2)):
        loss = ClipCov(share=share, cov_low=low, cov_high=high)
        known = replace(inputs, statistics=loss.survey(inputs))
        gone = set((loss(known).values[0] == 0).nonzero().flatten().tolist())
        assert gone <= eligible
        assert len(gone) == count
    nobody = ClipCov(share=0.0, cov_low=low, cov_high=high)
    assert (nobody(replace(inputs, statistics=nobody.survey(inputs))).values[0] != 0).all()


def test_the_draw_is_even_and_knows_nothing_but_the_token():
    generator = torch.Generator().manual_seed(0)
    logp = torch.randn(1, 20_000, generator=generator, dtype=f64)
    inputs = inputs_of([[0.0] * 20_000], [1.0], logp=logp.tolist())
    numbers = lot(inputs)[0]
    assert 0 <= numbers.min() < 0.001
    assert 0.999 < numbers.max() < 1
    assert numbers.mean().item() == pytest.approx(0.5, abs=0.01)
    assert torch.histc(numbers, 10).min() > 1800
    order = torch.randperm(20_000, generator=generator)
    shuffled = inputs_of([[0.0] * 20_000], [1.0], logp=logp[:, order].tolist())
    assert torch.equal(lot(shuffled)[0], numbers[order])


def test_top_entropy_keeps_the_undecided_tokens():
    inputs = replace(inputs_of([[0.0] * 5], [1.0]), old_entropy=torch.tensor([[0.1, 0.9, 0.3, 0.8, 0.2]], dtype=f64))
    for share, kept in ((0.2, {1}), (0.4, {1, 3}), (1.0, {0, 1, 2, 3, 4}), (0.01, {1})):
        loss = TopEntropy(share=share)
        values = loss(replace(inputs, statistics=loss.survey(inputs))).values[0]
        assert set(values.nonzero().flatten().tolist()) == kept
    with pytest.raises(ValueError, match="annotate"):
        TopEntropy().survey(replace(inputs, old_entropy=None))


@pytest.mark.parametrize(
    "made",
    [
        lambda: DualClip(ratio_max=1.1), lambda: SAPO(tau_positive=0.0), lambda: GMPO(log_low=-1.0), lambda: Kimi(tau=-1.0),
        lambda: KLCov(share=0.0), lambda: ClipCov(cov_low=5.0, cov_high=1.0), lambda: TopEntropy(share=1.5),
        lambda: CPGD(drift_coef=-1.0),
    ],
)  # fmt: skip
def test_senseless_knobs_are_refused(made):
    with pytest.raises(ValueError, match="got"):
        made()
