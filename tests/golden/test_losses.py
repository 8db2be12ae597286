"""Worked examples of losses, aggregations, KL and entropy, to 1e-6 in float64."""

import numpy as np
import pytest
import torch

from covey.losses import ConstantLength, PPOClip, SequenceMean, TokenMean
from covey.losses.kl import k3
from covey.losses.ratio import LOG_RATIO_LIMIT, log_ratio, ratio_metrics
from covey.types import LossInputs, Totals

RATIOS = [0.5, 0.8, 0.9, 1.0, 1.1, 1.2, 1.25, 1.5, 500.0]


def inputs_of(log_ratios, advantages):
    """Rows of log-ratios (ragged, right padded); the old log-prob is -1 everywhere."""
    width = max(map(len, log_ratios))
    rows, trained = torch.zeros(len(log_ratios), width, dtype=torch.float64), torch.zeros(len(log_ratios), width).bool()
    for i, row in enumerate(log_ratios):
        rows[i, : len(row)] = torch.tensor(row, dtype=torch.float64)
        trained[i, : len(row)] = True
    ids = torch.arange(len(log_ratios))[:, None]
    return LossInputs(
        logp=(rows - 1.0).requires_grad_(),
        entropy=None,
        advantage=torch.tensor(advantages, dtype=torch.float64)[:, None].expand(-1, width),
        trained=trained,
        segment=torch.where(trained, ids, -1),
        old_logp=torch.full_like(rows, -1.0),
        ref_logp=None,
        totals=Totals(tokens=int(trained.sum()), sequences=len(log_ratios), groups=1),
    )


# advantage, clip_high, loss at each ratio, gradient multiplier -dloss/dlogp away from the kinks
CLIP = [
    (1.0, 0.2, [-0.5, -0.8, -0.9, -1.0, -1.1, -1.2, -1.2, -1.2, -1.2], [0.5, 0.8, 0.9, 1.0, 1.1, None, 0, 0, 0]),
    # below 0.8 the clipped branch is chosen; a ratio of 500 is not clipped at all
    (-1.0, 0.2, [0.8, 0.8, 0.9, 1.0, 1.1, 1.2, 1.25, 1.5, 500.0], [0, None, -0.9, -1.0, -1.1, -1.2, -1.25, -1.5, -500]),
    (1.0, 0.28, [-0.5, -0.8, -0.9, -1.0, -1.1, -1.2, -1.25, -1.28, -1.28], [0.5, 0.8, 0.9, 1, 1.1, 1.2, 1.25, 0, 0]),
]


@pytest.mark.parametrize(("advantage", "clip_high", "losses", "multipliers"), CLIP)
def test_clipped_surrogate(advantage, clip_high, losses, multipliers):
    inputs = inputs_of([np.log(RATIOS).tolist()], [advantage])
    values = PPOClip(clip_low=0.2, clip_high=clip_high)(inputs).values
    np.testing.assert_allclose(values[0].detach().numpy(), losses, atol=1e-9)
    (gradient,) = torch.autograd.grad(values.sum(), inputs.logp)
    for got, expected in zip((-gradient[0]).tolist(), multipliers, strict=True):
        assert expected is None or got == pytest.approx(expected, abs=1e-9)


def test_aggregations_of_two_sequences_of_unequal_length():
    # token losses: -1.105171 -0.818731 | 0.525636 0.674929 0.452419 0.5 0.610701 0.4 (the clip acts on 0.3 and -0.3)
    inputs = inputs_of([[0.1, -0.2], [0.05, 0.3, -0.1, 0.0, 0.2, -0.3]], [1.0, -0.5])
    values = PPOClip()(inputs).values
    expected = [
        -1.10517091808,
        -0.818730753078,
        0.525635548188,
        0.674929403788,
        0.452418709018,
        0.5,
        0.61070137908,
        0.4,
    ]
    np.testing.assert_allclose(values[inputs.trained].detach().numpy(), expected, atol=1e-9)
    streams = (values, inputs)
    # (-0.961951 + 0.527281) / 2; 1.239784 / 8; 1.239784 / (2 * 10)
    assert SequenceMean()(*streams).item() == pytest.approx(-0.217334997782, abs=1e-9)
    assert TokenMean()(*streams).item() == pytest.approx(0.154972921115, abs=1e-9)
    assert ConstantLength(length=10)(*streams).item() == pytest.approx(0.061989168446, abs=1e-9)


def test_on_policy_loss_is_no_measure_of_progress():
    # ratio 1 and centred advantages: the sequence mean is exactly 0, its gradient is not
    inputs = inputs_of([[0.0] * 2, [0.0] * 6], [1.0, -1.0])
    streams = (PPOClip()(inputs).values, inputs)
    assert SequenceMean()(*streams).item() == pytest.approx(0.0, abs=1e-12)
    assert TokenMean()(*streams).item() == pytest.approx(0.5, abs=1e-12)
    (by_sequence,) = torch.autograd.grad(SequenceMean()(*streams), inputs.logp, retain_graph=True)
    (by_token,) = torch.autograd.grad(TokenMean()(*streams), inputs.logp)
    assert (-by_sequence[:, 0]).tolist() == pytest.approx([0.25, -1 / 12], abs=1e-9)
    assert (-by_token[:, 0]).tolist() == pytest.approx([0.125, -0.125], abs=1e-9)


def test_k3_is_unbiased_and_its_gradient_is_that_of_the_forward_divergence():
    # pi = (.5 .3 .2), ref = (.4 .4 .2): KL(pi, ref) = .5 ln 1.25 + .3 ln .75 = 0.025267
    reference = torch.tensor([0.4, 0.4, 0.2], dtype=torch.float64).log()
    logits = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64).log().requires_grad_()
    logp = torch.log_softmax(logits, 0)
    values = k3(logp - reference)
    assert values.tolist() == pytest.approx([0.0231435513142, 0.0456512608816, 0.0], abs=1e-9)
    pi = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    assert (pi * values).sum().item() == pytest.approx(0.0252671539216, abs=1e-9)
    (gradient,) = torch.autograd.grad((pi * values).sum(), logits)  # samples come from pi, so pi has no gradient
    assert gradient.tolist() == pytest.approx([0.1, -0.1, 0.0], abs=1e-9)  # pi - ref = grad KL(ref, pi)


@pytest.mark.parametrize(
    ("ahead", "value", "pull"),
    [(0.0, 0.0, 0.0), (1.0, 0.718281828459, 1.71828182846), (5.0, 142.413159103, 147.413159103), (100.0, None, 0.0)],
)
def test_k3_grows_like_the_ratio_and_is_clamped(ahead, value, pull):
    logp = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    found = k3(log_ratio(logp, torch.full((1,), ahead, dtype=torch.float64), torch.ones(1, dtype=torch.bool)))
    expected = np.expm1(LOG_RATIO_LIMIT) - LOG_RATIO_LIMIT if value is None else value
    assert found.item() == pytest.approx(expected, rel=1e-9)
    (gradient,) = torch.autograd.grad(found.sum(), logp)
    assert -gradient.item() == pytest.approx(pull, rel=1e-9)


def test_the_largest_ratio_is_of_trained_tokens_only():
    inputs = inputs_of([[-1.0], [-2.0, -1.5]], [1.0, 1.0])  # the first row is padded
    assert ratio_metrics(inputs)["ratio/max"].value == pytest.approx(np.exp(-1.0))
