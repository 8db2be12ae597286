"""Quick norms and gated layers give what the layers they stand for give, and stand only for those."""

import copy
from collections import Counter

import pytest
import torch
from torch.nn import Linear
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.models.gemma2.modeling_gemma2 import Gemma2RMSNorm
from transformers.models.llama.modeling_llama import LlamaRMSNorm

from covey.kernels import linear
from covey.kernels.gated import QuickGated
from covey.kernels.gradients import adding
from covey.kernels.linear import packed
from covey.kernels.norm import QuickNorm, _Norm
from covey.kernels.swap import quicken

pytestmark = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="no oneDNN in this build")

QUICK = {"llama": (2, 5), "qwen2": (2, 5), "qwen3": (2, 9), "mistral": (2, 5), "gemma3_text": (0, 0),
         "phi3": (0, 5), "gpt2": (0, 0), "mixtral": (0, 5)}  # fmt: skip
"""How many gated layers and norms of a model with two layers are of the kinds that are known."""


@pytest.fixture(autouse=True)
def no_least(monkeypatch):
    monkeypatch.setattr(linear, "LEAST", 1)


def build(name, knobs):
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(AutoConfig.for_model(name, **knobs)).eval()


def counts(model):
    kinds = [type(module) for module in model.modules()]
    return tuple(sum(issubclass(kind, quick) for kind in kinds) for quick in (QuickGated, QuickNorm))


@pytest.mark.parametrize("name", QUICK)
def test_models_give_the_same_values_and_gradients(name, small_knobs):
    plain = build(name, small_knobs)
    with torch.no_grad():
        for weight in plain.parameters():
            weight.add_(torch.rand_like(weight), alpha=0.3)
    quick, ids = copy.deepcopy(plain), torch.arange(14).view(2, 7)
    quicken(quick)
    assert counts(quick) == QUICK[name]
    found = []
    for model in (plain, quick):
        with adding(model):
            logits = model(input_ids=ids, use_cache=False).logits
            (logits.log_softmax(-1)[..., 3] * torch.linspace(-1, 1, 14).view(2, 7)).sum().backward()
        found.append({"logits": logits.detach()} | {n: w.grad for n, w in model.named_parameters()})
    assert found[0].keys() == found[1].keys()
    for key, expected in found[0].items():
        scale = 1e-30 if expected is None else max(1e-2, float(expected.abs().max()))
        torch.testing.assert_close(
            found[1][key], expected, rtol=0, atol=1e-4 * scale, msg=lambda m, key=key: f"{key} {m}"
        )


@pytest.mark.parametrize("name", QUICK)
def test_models_give_the_same_values_while_weights_are_packed(name, small_knobs):
    """Gate and up as one product, and after that the layers as they were."""
    plain = build(name, small_knobs)
    quick, ids = copy.deepcopy(plain), torch.arange(14).view(2, 7)
    quicken(quick)
    gated = [module for module in quick.modules() if isinstance(module, QuickGated)]
    with torch.no_grad():
        expected = plain(input_ids=ids, use_cache=False).logits
        with packed(quick):
            assert all(layer.both is not None and layer.gate_proj.packed is None for layer in gated)
            got = quick(input_ids=ids, use_cache=False).logits
        assert all(layer.both is None for layer in gated)
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-4 * float(expected.abs().max()))


@pytest.mark.parametrize("biases", [(True, True), (False, False), (True, False)])
def test_biases_are_packed_with_their_weights(biases, small_knobs):
    plain = build("llama", small_knobs).model.layers[0].mlp
    for name, has in zip(("gate_proj", "up_proj"), biases, strict=True):
        old = getattr(plain, name)
        setattr(plain, name, torch.nn.Linear(old.in_features, old.out_features, bias=has))
    x, quick = torch.randn(3, plain.gate_proj.in_features), torch.nn.Sequential(copy.deepcopy(plain))
    quicken(quick)
    with torch.no_grad(), packed(quick):
        assert (quick[0].both is not None) == (biases[0] == biases[1])
        torch.testing.assert_close(quick(x), plain(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(6,), (1, 6), (3, 2, 6), (0, 6)])
@pytest.mark.parametrize(("wants_input", "wants_weight"), [(True, True), (True, False), (False, True)])
def test_norms_in_float64(shape, wants_input, wants_weight):
    """The formula against autograd: float64 is otherwise left to the layer itself."""
    torch.manual_seed(0)
    x = torch.randn(shape, dtype=torch.float64, requires_grad=wants_input)
    weight = torch.randn(6, dtype=torch.float64, requires_grad=wants_weight)
    wanted = [tensor for tensor in (x, weight) if tensor.requires_grad]
    outs = (_Norm.apply(x, weight, 0.1), weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 0.1))
    up = torch.randn(shape, dtype=torch.float64)
    got, expected = ([out, *torch.autograd.grad(out, wanted, up)] for out in outs)
    for mine, theirs in zip(got, expected, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-12)


def kept_by(part, states):
    """Shapes of what the backward pass of ``part`` will find, but for weights and single numbers."""
    kept = {}

    def keep(tensor):
        if tensor.ndim == 3 and tensor.shape[-1] > 1:
            kept[tensor.data_ptr()] = tuple(tensor.shape)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        part(states)
    return kept.values()


def test_what_is_kept_for_the_backward_pass(small_knobs):
    """A gated layer keeps its input once and two tensors of its width; a norm keeps its input."""
    model = build("llama", small_knobs)
    quicken(model)
    layer, states = model.model.layers[0], torch.randn(1, 5, model.config.hidden_size, requires_grad=True)
    for part, expected in ((layer.mlp, {(1, 5, 48): 2, (1, 5, 32): 1}), (layer.input_layernorm, {(1, 5, 32): 1})):
        assert Counter(kept_by(part, states)) == expected


def test_parts_exchanged_later_are_used(small_knobs):
    """As by an adapter: the quick layer then is what it was."""

    class Half(Linear):
        def forward(self, input):
            return super().forward(input) / 2

    plain = build("llama", small_knobs)
    quick, states = copy.deepcopy(plain), torch.randn(1, 5, 32)
    quicken(quick)
    for model in (plain, quick):
        model.model.layers[0].mlp.down_proj.__class__ = Half
    torch.testing.assert_close(quick.model.layers[0].mlp(states), plain.model.layers[0].mlp(states))


def test_norms_give_the_same_bits():
    plain, states = LlamaRMSNorm(33), torch.randn(2, 7, 33)
    torch.nn.init.normal_(plain.weight)
    quick = torch.nn.Sequential(copy.deepcopy(plain))
    quicken(quick)
    assert torch.equal(quick(states), plain(states))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_precisions_are_left_to_the_layers_themselves(dtype, small_knobs):
    plain = build("llama", small_knobs)
    quick, ids = copy.deepcopy(plain), torch.arange(7)[None]
    quicken(quick)
    assert torch.equal(quick.to(dtype)(ids).logits, plain.to(dtype)(ids).logits)


def test_layers_that_compute_otherwise_are_left_alone(small_knobs):
    class OtherRMSNorm(LlamaRMSNorm):
        def forward(self, hidden_states):
            return 2 * super().forward(hidden_states)

    odd = build("llama", {**small_knobs, "hidden_act": "gelu"})
    norms = torch.nn.ModuleList([OtherRMSNorm(8), Gemma2RMSNorm(8), LlamaRMSNorm(8)])
    quicken(odd)
    quicken(norms)
    assert counts(odd)[0] == 0
    assert [isinstance(norm, QuickNorm) for norm in norms] == [False, False, True]


def test_copies_keep_their_own_weights(small_knobs):
    model = build("llama", small_knobs)
    names = list(model.state_dict())
    quicken(model)
    quicken(model)
    twin = copy.deepcopy(model)
    assert list(twin.state_dict()) == names
    assert counts(twin) == counts(model) == (2, 5)
    with torch.no_grad():
        twin.model.norm.weight.zero_()
        assert twin(torch.arange(3)[None]).logits.abs().max() == 0
        assert model(torch.arange(3)[None]).logits.abs().max() > 0
