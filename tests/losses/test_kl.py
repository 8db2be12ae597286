"""The table of expected gradients in docs/algorithms.md, by enumeration."""

import numpy as np
import pytest
import torch

from covey.losses import PPOClip, SequenceMean
from covey.losses.kl import ESTIMATORS, KLTerm
from covey.losses.objective import Objective
from covey.types import LossInputs, Totals

PI = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
REF = torch.tensor([0.4, 0.4, 0.2], dtype=torch.float64)
OLD = torch.tensor([0.3, 0.3, 0.4], dtype=torch.float64)


def expected_gradient(term, sampler):
    """Of the KL term, by the policy's logits: one token drawn from ``sampler``, which is the old policy."""
    logits = PI.log().requires_grad_()
    logp = torch.log_softmax(logits, 0)
    exact = (logp.exp() * (logp - REF.log())).sum()
    inputs = LossInputs(
        logp=logp[:, None], entropy=None, advantage=torch.zeros(3, 1, dtype=torch.float64),
        trained=torch.ones(3, 1).bool(), segment=torch.arange(3)[:, None], old_logp=sampler.log()[:, None],
        ref_logp=REF.log()[:, None], totals=Totals(tokens=3, sequences=3, groups=1), kl_exact=exact.expand(3, 1),
    )  # fmt: skip
    return torch.autograd.grad((sampler[:, None] * term(inputs)).sum(), logits)[0].numpy()


def gradient_of(divergence):
    logits = PI.log().requires_grad_()
    return torch.autograd.grad(divergence(torch.softmax(logits, 0)), logits)[0].numpy()


REVERSE = gradient_of(lambda pi: (pi * (pi / REF).log()).sum())
FORWARD = gradient_of(lambda pi: (REF * (REF / pi).log()).sum())


@pytest.mark.parametrize(
    ("term", "sampler", "wanted"),
    [
        (KLTerm(estimator="k1"), PI, np.zeros(3)),
        (KLTerm(estimator="k2"), PI, REVERSE),
        (KLTerm(estimator="k3"), PI, FORWARD),
        (KLTerm(estimator="straight_through"), PI, REVERSE),
        (KLTerm(estimator="exact"), PI, REVERSE),
        (KLTerm(estimator="exact"), OLD, REVERSE),
        (KLTerm(estimator="k1", unbiased=True), PI, REVERSE),
        (KLTerm(estimator="k3", unbiased=True), PI, REVERSE),
        (KLTerm(estimator="k1", unbiased=True), OLD, REVERSE),
        (KLTerm(estimator="k3", unbiased=True), OLD, REVERSE),
    ],
    ids=lambda value: f"{value.estimator}{'*' if value.unbiased else ''}" if isinstance(value, KLTerm) else "",
)
def test_expected_gradient_in_the_loss(term, sampler, wanted):
    np.testing.assert_allclose(expected_gradient(term, sampler), wanted, atol=1e-12)


@pytest.mark.parametrize("estimator", ["k1", "k2", "k3", "straight_through"])
def test_without_the_ratio_old_samples_give_neither_divergence(estimator):
    got = expected_gradient(KLTerm(estimator=estimator), OLD)
    assert np.abs(got - REVERSE).max() > 1e-3
    assert np.abs(got - FORWARD).max() > 1e-3


def test_k2_with_the_ratio_is_the_gradient_of_its_own_mean():
    wanted = gradient_of(lambda pi: (pi * (pi / REF).log().square() / 2).sum())
    np.testing.assert_allclose(expected_gradient(KLTerm(estimator="k2", unbiased=True), OLD), wanted, atol=1e-12)


def two_token_policy():
    logits = torch.randn(4, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    ref = torch.randn(4, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return logits.requires_grad_(), torch.log_softmax(ref, 1)


def in_reward(penalty):
    """Expected gradient of -penalty summed over a response of two tokens, credited to the whole response."""
    logits, ref = two_token_policy()
    table = torch.log_softmax(logits, 1)
    total = 0.0
    for a in range(3):
        for b in range(3):
            logp = table[0, a] + table[1 + a, b]
            first, second = penalty(table, ref, 0, a), penalty(table, ref, 1 + a, b)
            total = total + logp.exp().detach() * (first + second).detach() * logp
    return torch.autograd.grad(total, logits)[0]


def test_k1_in_the_reward_is_the_divergence_of_whole_responses():
    logits, ref = two_token_policy()
    table = torch.log_softmax(logits, 1)
    whole = sum(
        (p := (table[0, a] + table[1 + a, b]).exp()) * (p.log() - ref[0, a] - ref[1 + a, b])
        for a in range(3)
        for b in range(3)
    )
    (wanted,) = torch.autograd.grad(whole, logits)
    got = in_reward(lambda table, ref, state, token: table[state, token] - ref[state, token])
    torch.testing.assert_close(got, wanted, atol=1e-12, rtol=0)


def test_the_exact_divergence_in_the_reward_credits_no_token_for_its_own_state():
    """At the last token it is the same whatever is drawn, so its expected gradient there is 0; hence it is refused."""
    got = in_reward(lambda table, ref, state, token: (table[state].exp() * (table[state] - ref[state])).sum())
    assert got[1:].abs().max() < 1e-12
    with pytest.raises(ValueError, match="credits none of them"):
        KLTerm(estimator="exact", where="reward")


@pytest.mark.parametrize("knobs", [{"estimator": "exact"}, {"where": "reward"}, {"estimator": "straight_through"}])
def test_unbiased_is_refused_where_it_would_be_wrong(knobs):
    with pytest.raises(ValueError, match="unbiased"):
        KLTerm(unbiased=True, **knobs)


def test_as_a_penalty_values_are_bounded_and_have_no_gradient():
    ratios = np.array([0.0, 1.0, -100.0])
    np.testing.assert_allclose(KLTerm(estimator="k1").of_array(ratios), [0.0, 1.0, -20.0])
    assert set(ESTIMATORS) == {"k1", "k2", "k3", "straight_through"}


def test_in_the_reward_the_loss_only_measures():
    logp = torch.tensor([[-1.0, -2.0]], dtype=torch.float64, requires_grad=True)
    inputs = LossInputs(
        logp=logp, entropy=None, advantage=torch.zeros(1, 2, dtype=torch.float64), trained=torch.ones(1, 2).bool(),
        segment=torch.zeros(1, 2, dtype=torch.int64), old_logp=logp.detach(), ref_logp=logp.detach() - 1.0,
        totals=Totals(tokens=2, sequences=1, groups=1),
    )  # fmt: skip
    objective = Objective(policy=PPOClip(), aggregation=SequenceMean(), kl_coef=0.1, kl=KLTerm(where="reward"))
    output = objective(inputs)
    assert output.loss.item() == 0.0
    assert output.metrics["kl/ref"].value == pytest.approx(np.exp(-1.0))
    assert output.metrics["kl/ref_sequence"].value == pytest.approx(2 * np.exp(-1.0))
    assert not objective.regularised
