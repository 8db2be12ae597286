import copy
import math
from dataclasses import replace

import pytest
import torch

from covey.advantages import GRPO
from covey.batching.layout import pad
from covey.learner.learner import Learner
from covey.learner.optimizer import OptimizerKnobs
from covey.learner.schedule import Schedule
from covey.losses import ConstantLength, PPOClip, SequenceMean, TokenMean
from covey.losses.objective import Objective
from covey.testing.samples import make_scored, random_llama
from covey.types import StepBatch, Totals

AGGREGATIONS = [SequenceMean(), TokenMean(), ConstantLength(length=12)]


def groups():
    return GRPO()(
        [make_scored([1, 0, 0, None], lengths=[2, 6, 4, 3]), make_scored([1, 1]), make_scored([0, 1], lengths=[5, 1])]
    )


def learner_of(model, aggregation=None, **terms):
    objective = Objective(policy=PPOClip(), aggregation=aggregation or SequenceMean(), **terms)
    return Learner(model, objective, Schedule(peak=1e-2, steps=10), OptimizerKnobs(max_grad_norm=1e9))


def gradients(learner, batch):
    learner.optimizer.zero_grad()
    for micro in batch.micro:
        learner._backward(micro, batch.totals, {})
    return [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in learner.model.parameters()]


@pytest.mark.parametrize("aggregation", AGGREGATIONS, ids=lambda a: type(a).__name__)
@pytest.mark.parametrize("terms", [{}, {"kl_coef": 0.1, "entropy_coef": 0.05}], ids=["plain", "kl+entropy"])
def test_the_gradient_does_not_depend_on_the_split(aggregation, terms):
    learner = learner_of(random_llama().double(), aggregation, **terms)
    with torch.no_grad():  # the reference differs, so that KL has a gradient
        for p in learner.model.parameters():
            p.add_(0.01 * torch.randn_like(p))
    whole = None
    for budget in (1000, 30, 10, 1):
        batch = learner.annotate(pad(groups(), budget, keep_silent=bool(terms)))
        found = gradients(learner, batch)
        whole = whole or found
        for got, expected in zip(found, whole, strict=True):
            torch.testing.assert_close(got, expected, rtol=0, atol=1e-10)


def test_skipping_silent_groups_is_exact():
    learner = learner_of(random_llama().double())
    skipped, kept = (gradients(learner, pad(groups(), 1000, keep_silent=keep)) for keep in (False, True))
    for got, expected in zip(skipped, kept, strict=True):
        torch.testing.assert_close(got, expected, rtol=0, atol=1e-12)


def test_a_step_raises_the_probability_of_the_better_sibling():
    learner = learner_of(random_llama())
    batch = learner.annotate(pad(groups()[:1], 1000), old="recompute")
    before = batch.micro[0].old_logp
    result = learner.step(batch, 0)
    after = learner.annotate(batch, old="recompute").micro[0].old_logp
    better = (batch.micro[0].advantage > 0) & batch.micro[0].trained
    worse = (batch.micro[0].advantage < 0) & batch.micro[0].trained
    assert (after - before)[better].mean() > 0 > (after - before)[worse].mean()
    assert (result.version, result.skipped) == (1, False)
    assert result.metrics["ratio/max"] == pytest.approx(1.0, abs=1e-5)


def test_repeated_updates_measure_the_ratio_from_the_first_weights():
    learner = learner_of(random_llama())
    batch = learner.annotate(pad(groups(), 1000), old="recompute")
    first, second = learner.step(batch, 0), learner.step(batch, 0)
    assert first.metrics["kl/old"] == pytest.approx(0.0, abs=1e-9)
    assert second.metrics["kl/old"] > 1e-5


def test_nothing_to_learn_from_changes_nothing():
    learner = learner_of(random_llama())
    before = copy.deepcopy(learner.model.state_dict())
    result = learner.step(StepBatch(micro=(), totals=Totals(tokens=0, sequences=0, groups=0)), 0)
    assert result.skipped
    assert learner.version == 0
    for name, tensor in learner.model.state_dict().items():
        torch.testing.assert_close(tensor, before[name], rtol=0, atol=0)


def test_a_gradient_that_is_not_finite_never_reaches_the_weights():
    learner = learner_of(random_llama())
    before = copy.deepcopy(learner.model.state_dict())
    batch = pad(groups(), 1000)
    poisoned = replace(batch.micro[0], advantage=torch.full_like(batch.micro[0].advantage, math.inf))
    result = learner.step(replace(batch, micro=(poisoned,)), 0)
    assert result.skipped
    assert not math.isfinite(result.grad_norm)
    for name, tensor in learner.model.state_dict().items():
        torch.testing.assert_close(tensor, before[name], rtol=0, atol=0)
    assert not learner.optimizer.state


def test_a_reference_exists_only_if_needed_and_stays_put():
    assert learner_of(random_llama()).reference is None
    learner = learner_of(random_llama(), kl_coef=0.1)
    batch = pad(groups(), 1000, keep_silent=True)
    first = learner.step(learner.annotate(batch), 0)
    second = learner.step(learner.annotate(batch), 1)
    assert first.metrics["kl/ref"] == pytest.approx(0.0, abs=1e-9)
    assert second.metrics["kl/ref"] > 1e-5
    fresh = random_llama()
    for got, expected in zip(learner.reference.model.parameters(), fresh.parameters(), strict=True):
        torch.testing.assert_close(got, expected, rtol=0, atol=0)


def test_dropout_is_off_in_every_pass():
    model = random_llama()
    model.config.attention_dropout = 0.9
    learner = learner_of(model.train())
    result = learner.step(learner.annotate(pad(groups(), 1000), old="recompute"), 0)
    assert result.metrics["ratio/max"] == pytest.approx(1.0, abs=1e-5)


def test_weight_decay_spares_norms():
    learner = Learner(
        random_llama(),
        Objective(policy=PPOClip(), aggregation=SequenceMean()),
        Schedule(peak=1.0, steps=1),
        OptimizerKnobs(weight_decay=0.1),
    )
    decay = {p: group["weight_decay"] for group in learner.optimizer.param_groups for p in group["params"]}
    assert {p.ndim >= 2: d for p, d in decay.items()} == {True: 0.1, False: 0.0}
    assert len(decay) == len(list(learner.model.parameters()))
