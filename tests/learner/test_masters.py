import copy

import torch

from covey.advantages import GRPO
from covey.batching.layout import pack
from covey.kernels import gradients, linear
from covey.learner.learner import Learner
from covey.learner.masters import Masters
from covey.learner.optimizer import OptimizerKnobs
from covey.learner.schedule import Schedule
from covey.losses import PPOClip, SequenceMean
from covey.losses.objective import Objective
from covey.testing.samples import make_scored, random_llama


def groups():
    return GRPO()([make_scored([1, 0, 0], lengths=[9, 2, 6], prompt_tokens=12), make_scored([0, 1], "q", [5, 1])])


def learner_of(model, lr=1e-6):
    return Learner(model, Objective(policy=PPOClip(), aggregation=SequenceMean()), Schedule(peak=lr, steps=100))


def test_small_updates_are_not_rounded_to_nothing():
    """At 1e-6 a bfloat16 weight of 0.4 never moves by itself: its neighbours are 0.002 away."""
    model = random_llama().bfloat16()
    before = {name: weight.clone() for name, weight in model.named_parameters()}
    learner = learner_of(model)
    for step in range(3):
        learner.step(pack(groups(), 1000), step)
    moved = {
        name: (copy - before[name].float()).abs().max().item() for name, copy in learner.masters.state_dict().items()
    }
    assert all(0 < distance < 4e-6 for distance in moved.values())
    for name, weight in model.named_parameters():
        assert torch.equal(weight, learner.masters.state_dict()[name].bfloat16())


def test_gradients_of_micro_batches_are_summed_in_float32():
    """Many small gradients beside a large one would vanish in a bfloat16 sum."""
    model = random_llama().bfloat16()
    masters = Masters(model)
    weight = model.model.norm.weight
    for factor in (256.0, *[0.5] * 64):
        (weight * factor).sum().backward()
    assert weight.grad is None
    assert masters.trained["model.norm.weight"].grad.tolist() == [288.0] * weight.numel()


def test_float32_weights_are_their_own_masters():
    model = random_llama()
    masters = Masters(model)
    assert masters.state_dict() == {}
    assert all(weight is masters.trained[name] for name, weight in model.named_parameters())


def test_frozen_weights_have_none():
    model = random_llama().bfloat16().requires_grad_(False)
    model.model.norm.weight.requires_grad_(True)
    assert list(Masters(model).trained) == ["model.norm.weight"]


def test_a_saved_state_goes_into_copies_and_model():
    model = random_llama().bfloat16()
    masters = Masters(model)
    other = {name: torch.full_like(copy, 1.0 + 2**-12) for name, copy in masters.state_dict().items()}
    masters.load_state_dict(other)
    assert all(torch.equal(copy, other[name]) for name, copy in masters.state_dict().items())
    assert all((weight == 1.0).all() for weight in model.parameters())


def test_bfloat16_learns_what_float32_learns():
    """The same steps: the narrow model follows the wide one to within its rounding."""
    wide, narrow = random_llama(), random_llama().bfloat16()
    with torch.no_grad():
        for one, other in zip(wide.parameters(), narrow.parameters(), strict=True):
            one.copy_(other.float())
    start = copy.deepcopy(wide)
    for model in (wide, narrow):
        learner = Learner(
            model,
            Objective(policy=PPOClip(), aggregation=SequenceMean()),
            Schedule(peak=1e-3, steps=100),
            OptimizerKnobs(max_grad_norm=1e9),
        )
        for step in range(5):
            learner.step(pack(groups(), 1000), step)
    moved = torch.cat([(a - b).flatten() for a, b in zip(wide.parameters(), start.parameters(), strict=True)])
    apart = torch.cat([(a - b.float()).flatten() for a, b in zip(wide.parameters(), narrow.parameters(), strict=True)])
    assert apart.norm() < 0.3 * moved.norm()
    assert moved.norm() > 0


def test_large_weights_that_are_narrow_reach_their_copies_as_well(monkeypatch):
    """The copies collect gradients by a hook, which a layer that adds to the gradient itself would go past."""
    found = []
    for least in (1 << 17, 1):
        monkeypatch.setattr(gradients, "LEAST", least)
        monkeypatch.setattr(linear, "LEAST", least)
        learner = learner_of(random_llama().bfloat16(), lr=1e-2)
        learner.step(pack(groups(), 1000), 0)
        assert all(weight.grad is None for weight in learner.model.parameters())
        found.append(learner.masters.state_dict())
    for name, expected in found[0].items():
        torch.testing.assert_close(found[1][name], expected, rtol=0, atol=0)
