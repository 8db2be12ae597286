import pytest
import torch

from covey.advantages import GRPO
from covey.batching.layout import pack, pad
from covey.errors import ModelError
from covey.learner.learner import Learner
from covey.learner.recompute import recomputing
from covey.learner.schedule import Schedule
from covey.losses import PPOClip, SequenceMean
from covey.losses.objective import Objective
from covey.testing.samples import make_scored, random_llama


def groups():
    return GRPO()([make_scored([1, 0, 0], lengths=[9, 2, 6], prompt_tokens=12), make_scored([0, 1], "q", [5, 1])])


def gradients(model, layout, checkpointing):
    model.zero_grad()
    objective = Objective(policy=PPOClip(), aggregation=SequenceMean(), kl_coef=0.1, entropy_coef=0.05)
    learner = Learner(model, objective, Schedule(peak=1e-2, steps=10), checkpointing=checkpointing)
    batch = learner.annotate(layout(groups(), 1000))
    for micro in batch.micro:
        learner._backward(micro, batch.totals, {})
    return [p.grad.clone() for p in model.parameters()]


@pytest.mark.parametrize("layout", [pack, pad])
def test_gradients_are_the_same_to_the_bit(any_model, layout):
    """The layers that run again meet the same attention; dropout stays off although transformers wants it on."""
    for kept, again in zip(gradients(any_model, layout, False), gradients(any_model, layout, True), strict=True):
        assert torch.equal(kept, again)


def test_less_is_kept_for_the_backward_pass():
    model, held = random_llama(layers=6, hidden=64), {}
    ids = torch.arange(40)[None]
    for again in (False, True):
        sizes = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t, s=sizes: s.append(t.numel()) or t, lambda t: t):
            if again:
                with recomputing(model):
                    model(ids, use_cache=False)
            else:
                model(ids, use_cache=False)
        held[again] = sum(sizes)
    assert held[True] < held[False] / 4


def test_no_layer_stays_in_training_mode(model):
    with recomputing(model):
        assert any(module.training for module in model.modules())
    assert not any(module.training for module in model.modules())
    with pytest.raises(ZeroDivisionError), recomputing(model):
        raise ZeroDivisionError
    assert not any(module.training for module in model.modules())


def test_a_model_without_such_layers_is_refused():
    with pytest.raises(ModelError, match=r"set optim\.checkpointing = false"), recomputing(torch.nn.Linear(2, 2)):
        pass
