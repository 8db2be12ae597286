"""Quick linear layers give what plain ones give, forward and backward, and are quick where they should be."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import Linear

from covey.kernels import linear
from covey.kernels.linear import QuickLinear, packed
from covey.kernels.swap import quicken

needs_onednn = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="no oneDNN in this build")


@pytest.fixture
def no_least(monkeypatch):
    monkeypatch.setattr(linear, "LEAST", 1)


def pair(inputs, outputs, bias):
    torch.manual_seed(0)
    plain = Linear(inputs, outputs, bias=bias)
    quick = torch.nn.Sequential(copy.deepcopy(plain))
    quicken(quick)
    return plain, quick


def close(got, expected):
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)


@needs_onednn
@pytest.mark.usefixtures("no_least")
@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=3), st.integers(1, 40), st.integers(1, 40), st.booleans(),
    st.booleans(),
)  # fmt: skip
def test_forward_and_backward_are_those_of_a_plain_layer(shape, inputs, outputs, bias, wants_input):
    plain, quick = pair(inputs, outputs, bias)
    assert type(quick[0]) is QuickLinear
    found = []
    for layer in (plain, quick):
        torch.manual_seed(1)
        x = torch.randn(*shape, inputs, requires_grad=wants_input)
        y = layer(x)
        (y * torch.randn_like(y)).sum().backward()
        found.append([y.detach(), *([x.grad] if wants_input else []), *(p.grad for p in layer.parameters())])
    for got, expected in zip(found[1], found[0], strict=True):
        close(got, expected)


@needs_onednn
@pytest.mark.usefixtures("no_least")
def test_a_frozen_weight_gets_no_gradient():
    _, quick = pair(8, 6, True)
    quick.requires_grad_(False)
    x = torch.randn(3, 8, requires_grad=True)
    quick(x).sum().backward()
    assert quick[0].weight.grad is None
    close(x.grad, quick[0].weight.sum(0).expand(3, 8))


@needs_onednn
@pytest.mark.usefixtures("no_least")
def test_packed_weights_are_used_inside_and_gone_after():
    plain, quick = pair(24, 17, True)
    x = torch.randn(5, 24)
    with torch.inference_mode(), packed(quick):
        close(quick(x), plain(x))
        with torch.no_grad():
            quick[0].weight.data.zero_()  # a copy is read
        close(quick(x), plain(x))
    with torch.inference_mode():
        close(quick(x), plain.bias.expand(5, 17))


@needs_onednn
@pytest.mark.usefixtures("no_least")
def test_packed_weights_are_gone_after_an_error():
    _, quick = pair(4, 4, False)
    with pytest.raises(ZeroDivisionError), packed(quick):
        raise ZeroDivisionError
    assert quick[0].packed is None


@pytest.mark.usefixtures("no_least")
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_precisions_are_left_to_the_usual_way(dtype):
    plain, quick = pair(8, 6, True)
    x = torch.randn(3, 8, dtype=dtype)
    with packed(quick.to(dtype)):
        assert torch.equal(quick(x), plain.to(dtype)(x))


def test_small_layers_and_layers_of_other_kinds_are_left_alone():
    class Own(Linear):
        pass

    model = torch.nn.Sequential(Linear(8, 8), Own(512, 512))
    quicken(model)
    assert [type(layer) for layer in model] == [Linear, Own]


@needs_onednn
def test_copies_and_states_are_those_of_a_plain_layer():
    model = torch.nn.Sequential(Linear(512, 512))
    names = list(model.state_dict())
    quicken(model)
    quicken(model)
    assert list(model.state_dict()) == names
    twin = copy.deepcopy(model)
    with torch.no_grad():
        twin[0].weight.zero_()
    x = torch.randn(2, 512)
    close(twin(x), twin[0].bias.expand(2, 512))
    assert not torch.equal(model(x), twin(x))
