"""Bytes counted from shapes are those that a layer of this package's models keeps."""

import copy

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from covey.kernels import linear
from covey.kernels.swap import quicken
from covey.planner.sizes import Shape


def kept_bytes(model, tokens):
    """Bytes in all tensors that a pass keeps for the backward pass, each once; weights and the pass's input are not."""
    mine = {p.untyped_storage().data_ptr() for p in [*model.parameters(), *model.buffers()]}
    kept, held = {}, []

    def keep(tensor):
        held.append(tensor)
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in mine and tokens in tensor.shape:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    states = torch.randn(1, tokens, model.config.hidden_size, requires_grad=True)
    rotary = model.model.rotary_emb(states, torch.arange(tokens)[None])
    mine |= {t.untyped_storage().data_ptr() for t in rotary}
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        model.model.layers[0](states, position_embeddings=rotary, attention_mask=None)
    return sum(kept.values())


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="no oneDNN in this build")
def test_quick_layers_keep_what_is_planned(small_knobs, monkeypatch):
    monkeypatch.setattr(linear, "LEAST", 1)
    torch.manual_seed(0)
    plain = AutoModelForCausalLM.from_config(AutoConfig.for_model("llama", **small_knobs)).eval()
    quick, shape = copy.deepcopy(plain), Shape.of(plain.config)
    quicken(quick)
    assert kept_bytes(plain, 24) == 24 * shape.activations_per_token(4)
    assert kept_bytes(quick, 24) == 24 * shape.activations_per_token(4, quick=True)
