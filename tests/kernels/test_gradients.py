"""Layers that add to the gradient of their weight themselves leave there what autograd would."""

import copy

import pytest
import torch
from torch.nn import Embedding, Linear
from torch.utils._python_dispatch import TorchDispatchMode

from covey.kernels import gradients, linear
from covey.kernels.gradients import SummingEmbedding, adding
from covey.kernels.swap import quicken

IDS = torch.tensor([[3, 1, 3, 0], [3, 2, 0, 5]])


@pytest.fixture(autouse=True)
def no_least(monkeypatch):
    monkeypatch.setattr(gradients, "LEAST", 1)
    monkeypatch.setattr(linear, "LEAST", 1)


class Tied(torch.nn.Module):
    """Looks tokens up, and scores them with the same table; the table is used three times a pass."""

    def __init__(self, unused):
        super().__init__()
        torch.manual_seed(0)
        self.table = Embedding(6, 4, padding_idx=unused)
        self.middle = Linear(4, 4)
        self.head = Linear(4, 6, bias=False)
        self.head.weight = self.table.weight

    def forward(self, ids):
        return self.head(self.middle(self.table(ids) + self.table(ids.flip(1)))).log_softmax(-1)[..., 0].sum()


def gradients_of(model, passes=3):
    for time in range(passes):
        (model(IDS.roll(time, 1)) * (time + 1)).backward()
    return {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("frozen", [(), ("table.weight",), ("middle.weight",), ("middle.bias",)])
@pytest.mark.parametrize("unused", [None, 3])
def test_what_is_added_is_what_autograd_sums(unused, frozen, dtype):
    plain = Tied(unused).to(dtype)
    for name, weight in plain.named_parameters():
        weight.requires_grad_(name not in frozen)
    quick = copy.deepcopy(plain)
    quicken(quick)
    expected = gradients_of(plain)
    with adding(quick):
        found = gradients_of(quick)
    assert found.keys() == expected.keys() == dict(plain.named_parameters()).keys() - set(frozen)
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, rtol=1e-5, atol=1e-6)


class Seen(TorchDispatchMode):
    """Notes where tensors of one shape lie that operations put out."""

    def __init__(self, shape):
        super().__init__()
        self.shape, self.places = shape, set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if isinstance(out, torch.Tensor) and out.shape == self.shape:
            self.places.add(out.data_ptr())
        return out


@pytest.mark.parametrize("quick", [True, False])
def test_no_pass_makes_a_tensor_of_the_weights_size(quick):
    model = Tied(None)
    if quick:
        quicken(model)
    with adding(model):
        model(IDS).backward()
        weight = model.table.weight
        places = {weight.data_ptr(), weight.grad.data_ptr()}
        with Seen(weight.shape) as seen:
            model(IDS).backward()
    assert (seen.places - places == set()) is quick


def test_outside_all_is_as_usual():
    """Gradients come out of ``torch.autograd.grad``, and hooks on them are called."""
    model, called = Tied(None), []
    quicken(model)
    with adding(model):
        pass
    model.table.weight.register_post_accumulate_grad_hook(lambda weight: called.append(weight))
    found = torch.autograd.grad(model(IDS), [model.table.weight])[0]
    assert model.table.weight.grad is None
    model(IDS).backward()
    torch.testing.assert_close(model.table.weight.grad, found)
    assert len(called) == 1


def test_adding_ends_after_an_error():
    model = Tied(None)
    quicken(model)
    with pytest.raises(ZeroDivisionError), adding(model):
        raise ZeroDivisionError
    assert not model.table.adds
    assert not model.middle.adds


@pytest.mark.parametrize("knobs", [{"max_norm": 1.0}, {"scale_grad_by_freq": True}, {"sparse": True}])
def test_embeddings_with_a_way_of_their_own_are_left_alone(knobs):
    model = torch.nn.Sequential(Embedding(6, 4, **knobs), Embedding(6, 4))
    quicken(model)
    assert [type(layer) for layer in model] == [Embedding, SummingEmbedding]


def test_small_embeddings_are_left_alone(monkeypatch):
    monkeypatch.setattr(gradients, "LEAST", 25)
    model = torch.nn.Sequential(Embedding(6, 4), Embedding(7, 4))
    quicken(model)
    assert [type(layer) for layer in model] == [Embedding, SummingEmbedding]
