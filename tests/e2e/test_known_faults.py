"""Faults that training systems have had, each with the numbers of a right answer."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from covey.advantages import GRPO, GroupMean, ReinforcePPBaseline
from covey.advantages.shape import Shaping
from covey.advantages.whiten import whiten
from covey.batching.layout import pad
from covey.learner.learner import Learner
from covey.learner.schedule import Schedule
from covey.losses import ConstantLength, PPOClip, SequenceMean, TokenMean
from covey.losses.kl import KLTerm, k3
from covey.losses.objective import Objective
from covey.losses.ratio import log_ratio, sequence_log_ratio
from covey.testing.loss_samples import inputs_of
from covey.testing.samples import make_scored, random_llama, values_of
from covey.types import LossInputs, Totals


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_an_unscored_response_is_not_a_zero(missing):
    group = make_scored([1.0, 0.0, missing, 1.0])
    expected = {GRPO(): [0.57725, -1.154501, 0.0, 0.57725], GRPO(std_ddof=0): [0.706957, -1.413914, 0.0, 0.706957]}
    expected[GroupMean()] = [0.333333, -0.666667, 0.0, 0.333333]
    for estimator, values in expected.items():
        assert values_of(estimator([group])[0]) == pytest.approx(values, abs=1e-5)
    nothing = GRPO()([make_scored([missing] * 4)])
    assert values_of(nothing[0]) == [0.0] * 4
    assert pad(nothing, 100).micro == ()


def test_a_masked_response_does_not_move_the_baseline():
    for rewards, trainable, expected in (
        ([100.0, 1.0], [0, 2], [0.0, 0.0]),
        ([100.0, 1.0, 0.0], [0, 3, 3], [0.0, 0.707007, -0.707007]),
    ):
        group = make_scored(rewards, lengths=[max(1, n) for n in trainable])

        class Choice:
            def __call__(self, trajectory, trainable=trainable):
                return trajectory.sampled & (trainable[trajectory.sample] > 0)

        (credited,) = GRPO()(Shaping(tokens=Choice())([group]))
        assert [stream[-1] for stream in credited.advantages] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(("size", "value"), [(7, 0.7), (8, 0.3), (12, 1.1), (3, 1.1)])
def test_equal_rewards_in_single_precision_are_equal(size, value):
    (credited,) = GRPO(eps=1e-8)([make_scored([float(np.float32(value))] * size)])
    assert values_of(credited) == [0.0] * size
    assert credited.signal != "ok"


def test_eps_stands_outside_the_root():
    group = make_scored([1.0, 1.00001, 1.00002, 1.00003])
    assert values_of(GRPO(eps=1e-6)([group])[0]) == pytest.approx([-1.07837, -0.35946, 0.35946, 1.07837], rel=0.02)
    assert values_of(GRPO(eps=1e-4)([group])[0]) == pytest.approx([-0.13285, -0.04428, 0.04428, 0.13285], rel=0.02)


def test_two_rows_with_the_same_text_are_two_groups():
    credited = GRPO()([make_scored([1.0, 1.0], uid="0"), make_scored([0.0, 0.0], uid="1")])
    assert [values_of(c) for c in credited] == [[0.0, 0.0], [0.0, 0.0]]
    same_uid = GRPO()([make_scored([1.0, 1.0], uid="0"), make_scored([0.0, 0.0], uid="0")])
    assert [values_of(c) for c in same_uid] == [[0.0, 0.0], [0.0, 0.0]]


def test_padding_has_no_part_in_statistics():
    # real tokens 1 1 | -1 -1 -1 -1: mean -1/3, population deviation sqrt(8/9)
    expected = [1.414214] * 2 + [-0.707107] * 4
    for padding in (0.0, 10.0, np.nan):
        values = np.array([1.0, 1.0, padding, padding, -1.0, -1.0, -1.0, -1.0])
        real = np.array([1, 1, 0, 0, 1, 1, 1, 1], dtype=bool)
        got = whiten(np.where(real, values, np.nan), 0, 0.0, 1e-8)
        assert got[real] == pytest.approx(expected, abs=1e-5)
    centred = ReinforcePPBaseline(std_ddof=0, eps=0.0)([make_scored([2.0, 0.0], lengths=[2, 4])])
    assert values_of(centred[0]) == pytest.approx([1.414214, -0.707107], abs=1e-5)


@pytest.mark.parametrize("padding", [0.0, 9.0, float("nan")])
def test_padding_has_no_part_in_a_sequence_ratio(padding):
    inputs = inputs_of([[0.2, 0.4, 0.0, padding]], [1.0])
    masked = replace(inputs, trained=torch.tensor([[True, True, True, False]]))
    assert sequence_log_ratio(masked, mean=True).exp()[0, 0].item() == pytest.approx(1.221403, abs=1e-6)


def test_the_step_has_one_denominator_however_it_is_split():
    lengths, values = [2, 4, 6, 8], [1.0, 2.0, 3.0, 4.0]
    for aggregation, expected in ((TokenMean(), 3.0), (SequenceMean(), 2.5)):
        for split in ([[0, 1, 2, 3]], [[0, 1], [2, 3]], [[0], [1], [2], [3]], [[3, 0], [2, 1]]):
            total = 0.0
            for part in split:
                inputs = inputs_of([[0.0] * lengths[i] for i in part], [0.0] * len(part))
                inputs = replace(inputs, totals=Totals(tokens=20, sequences=4, groups=1))
                losses = torch.tensor([[values[i]] * inputs.trained.shape[1] for i in part], dtype=torch.float64)
                total += aggregation(losses, inputs).item()
            assert total == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("width", [4, 8])
def test_constant_length_knows_neither_padding_nor_batch(width):
    rows = inputs_of([[0.0] * 2, [0.0] * 4], [0.0, 0.0])
    pads = width - 4
    wide = replace(
        rows,
        trained=torch.nn.functional.pad(rows.trained, (0, pads)),
        segment=torch.nn.functional.pad(rows.segment, (0, pads), value=-1),
    )
    assert ConstantLength(length=10)(torch.ones(2, width), wide).item() == pytest.approx(0.3)


def test_ranks_divide_by_the_count_of_all_of_them():
    totals, total = Totals(tokens=4, sequences=2, groups=1), 0.0
    for length, value in ((1, 6.0), (3, 2.0)):  # one sequence a rank
        inputs = replace(inputs_of([[0.0] * length], [0.0]), totals=totals)
        total += TokenMean()(torch.full((1, length), value), inputs).item()
    assert total == pytest.approx(3.0)


def test_a_large_divergence_has_a_finite_gradient():
    ratio = torch.tensor([-0.693147, 0.693147, 0.0])
    assert k3(ratio).tolist() == pytest.approx([0.306853, 0.193147, 0.0], abs=1e-5)
    logp = torch.zeros(1, 2, requires_grad=True)
    inputs = LossInputs(
        logp=logp, entropy=None, advantage=torch.zeros(1, 2), trained=torch.tensor([[True, False]]),
        segment=torch.zeros(1, 2, dtype=torch.int64), old_logp=logp.detach(),
        ref_logp=torch.tensor([[200.0, -torch.inf]]), totals=Totals(tokens=1, sequences=1, groups=1),
    )  # fmt: skip
    objective = Objective(policy=PPOClip(), aggregation=TokenMean(), kl_coef=0.1, kl=KLTerm())
    loss = objective(inputs).loss
    (gradient,) = torch.autograd.grad(loss, logp)
    assert torch.isfinite(loss)
    assert torch.isfinite(gradient).all()
    assert gradient[0, 0] < 0  # and it pulls back, instead of going dead at the bound
    assert gradient[0, 1] == 0


def test_a_reference_far_away_leaves_the_weights_finite():
    learner = Learner(
        random_llama(), Objective(policy=PPOClip(), aggregation=TokenMean(), kl_coef=0.1), Schedule(peak=1e-3, steps=1)
    )
    batch = learner.annotate(pad(GRPO()([make_scored([1.0, 0.0])]), 1000))
    far = replace(batch.micro[0], ref_logp=torch.full_like(batch.micro[0].ref_logp, 200.0))
    result = learner.step(replace(batch, micro=(far,)), 0)
    assert not result.skipped
    assert all(torch.isfinite(p).all() for p in learner.model.parameters())


def test_a_token_that_a_model_rules_out_is_no_nan():
    logp = torch.tensor([[-torch.inf, -1.0]], requires_grad=True)
    ratio = log_ratio(logp, torch.full((1, 2), -1.0), torch.ones(1, 2).bool())
    assert ratio.tolist() == [[-20.0, 0.0]]
    (gradient,) = torch.autograd.grad(ratio.exp().sum(), logp)
    assert torch.isfinite(gradient).all()


def test_a_sampled_end_token_keeps_its_log_prob():
    inputs = inputs_of([[0.0, 0.0, 0.0]], [1.0], logp=[[-0.1, -0.2, -4.60517]])
    assert sequence_log_ratio(inputs, mean=False).exp()[0].tolist() == [1.0] * 3
    member = make_scored([1.0, 0.0]).group.members[0]
    assert member.sampled[-1]
