import random

import numpy as np
import pytest
import torch

from covey.checkpoint.state import capture_rng, load_optimizer, load_weights, restore_rng, save_model, save_optimizer
from covey.errors import RunFolderError
from covey.learner.optimizer import OptimizerKnobs, make_optimizer
from covey.testing.samples import random_llama


def drawn():
    return random.random(), float(np.random.rand()), float(torch.rand(1))


def test_generators_go_on_where_they_were():
    drawn()
    state = capture_rng()
    first = drawn()
    restore_rng(state)
    assert drawn() == first


def test_weights_with_tied_embeddings_come_back(tmp_path, tokenizer):
    save_model(tmp_path / "m", random_llama(seed=1), tokenizer)
    other = random_llama(seed=2)
    load_weights(tmp_path / "m", other)
    for p, q in zip(other.parameters(), random_llama(seed=1).parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=0, atol=0)
    assert other.lm_head.weight is other.model.embed_tokens.weight


def test_weights_of_another_model_are_refused(tmp_path, tokenizer):
    save_model(tmp_path / "m", random_llama(layers=1), tokenizer)
    with pytest.raises(RunFolderError, match="cannot be loaded into the model"):
        load_weights(tmp_path / "m", random_llama(layers=2))


@pytest.mark.parametrize("states", ["float32", "8bit"])
@pytest.mark.parametrize("fused", [True, False])
def test_optimizer_state_comes_back_by_name(tmp_path, states, fused):
    def trained(steps):
        model = random_llama(hidden=64)
        if fused or states == "8bit":
            optimizer = make_optimizer(list(model.parameters()), 1e-2, OptimizerKnobs(states=states))
        else:
            optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        return (
            model,
            optimizer,
            {p: n for n, p in model.named_parameters()},
            [one(model, optimizer) for _ in range(steps)],
        )

    def one(model, optimizer):
        model(torch.tensor([[3, 4, 5]])).logits.square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    model, optimizer, names, _ = trained(2)
    save_optimizer(tmp_path / "o.safetensors", optimizer, names)
    again, fresh, fresh_names, _ = trained(0)
    again.load_state_dict(model.state_dict())
    load_optimizer(tmp_path / "o.safetensors", fresh, fresh_names)
    one(model, optimizer)
    one(again, fresh)
    for p, q in zip(model.parameters(), again.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=0, atol=0)


def test_a_mixture_of_experts_comes_back(tmp_path, tokenizer):
    from transformers import MixtralConfig, MixtralForCausalLM

    def made(seed):
        torch.manual_seed(seed)
        config = MixtralConfig(
            vocab_size=48, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
            num_key_value_heads=2, num_local_experts=2, max_position_embeddings=32,
        )  # fmt: skip
        return MixtralForCausalLM(config)

    save_model(tmp_path / "m", made(1), tokenizer)
    other = made(2)
    load_weights(tmp_path / "m", other)
    for p, q in zip(other.parameters(), made(1).parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=0, atol=0)


def test_files_that_were_cut_off_are_named(tmp_path, tokenizer):
    save_model(tmp_path / "m", random_llama(), tokenizer)
    weights = tmp_path / "m" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(RunFolderError, match="cannot be loaded"):
        load_weights(tmp_path / "m", random_llama())
    (tmp_path / "o.safetensors").write_bytes(b"short")
    model = random_llama()
    with pytest.raises(RunFolderError, match="not a complete set of weights"):
        load_optimizer(tmp_path / "o.safetensors", torch.optim.AdamW(model.parameters()), {})
