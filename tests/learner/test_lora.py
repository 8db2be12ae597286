"""An adapter on a model: what is trained, what stays as it was, and that sampler, trainer and reference see it."""

import asyncio
import json
import sys
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel, MixtralConfig, MixtralForCausalLM

from covey.advantages import GRPO
from covey.batching.layout import pad
from covey.checkpoint.adapter import save_adapter, save_final
from covey.engines.hf import HFEngine
from covey.errors import ConfigError, MissingExtraError, ModelError
from covey.learner.head import splits
from covey.learner.learner import Learner
from covey.learner.logprobs import token_divergences, token_logps
from covey.learner.lora import Adapter
from covey.learner.model import Policy, load_policy
from covey.learner.reference import AdapterOff
from covey.learner.schedule import Schedule
from covey.learner.tree import follows_trees
from covey.losses import PPOClip, SequenceMean
from covey.losses.kl import KLTerm
from covey.losses.objective import Objective
from covey.testing.samples import make_scored, random_llama
from covey.types import Request, Sampling

pytest.importorskip("peft")

IDS = torch.tensor([[5, 6, 7, 8, 9, 3, 2]])


def tiny(**knobs):
    return Adapter(**{"rank": 4, "alpha": 8, **knobs}).on(load_policy("tiny"), "tiny", 0)


def moved(policy, seed=0, std=0.1):
    """The policy with an adapter that does something."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in policy.model.parameters():
            if p.requires_grad:
                p.copy_(torch.randn(p.shape, generator=generator) * std)
    return policy


def policy_of(model, tokenizer):
    return Policy(model=model, tokenizer=tokenizer, end_tokens=frozenset({1}))


def logits(model):
    with torch.no_grad():
        return model(IDS).logits


def weights(model):
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def trained(model):
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


def test_it_starts_as_the_model_and_has_a_pair_of_matrices_a_layer():
    policy, base = tiny(rank=2), load_policy("tiny").model
    assert torch.equal(logits(policy.model), logits(base))
    found = trained(policy.model)
    layers = {name.split(".lora_")[0].rpartition(".")[2] for name in found}
    assert layers == {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}
    # 3 layers of width 96 and 264: four square matrices, two up, one down; rank x (in + out) numbers each
    assert sum(p.numel() for p in found.values()) == 3 * 2 * (4 * (96 + 96) + 3 * (96 + 264))
    assert all((p == 0).all() == ("lora_B" in name) for name, p in found.items())


def test_the_seed_alone_decides():
    torch.manual_seed(1)
    first = trained(tiny().model)
    drawn = torch.rand(1)
    torch.manual_seed(1)
    assert torch.equal(drawn, torch.rand(1))  # and nobody else's numbers are used up
    again = trained(tiny().model)
    other = trained(Adapter(rank=4, alpha=8).on(load_policy("tiny"), "tiny", 1).model)
    assert all(torch.equal(p, again[name]) for name, p in first.items())
    assert not any(torch.equal(p, other[name]) for name, p in first.items() if "lora_A" in name)


def test_alpha_over_rank_scales():
    policy = moved(tiny(rank=4, alpha=6, targets=("layers.1.self_attn.q_proj",)))
    layer = policy.model.get_submodule("base_model.model.model.layers.1.self_attn.q_proj")
    pair = trained(policy.model)
    assert len(pair) == 2
    a, b = (next(p for name, p in pair.items() if which in name) for which in ("lora_A", "lora_B"))
    x = torch.randn(5, 96, generator=torch.Generator().manual_seed(0))
    wanted = x @ layer.base_layer.weight.T + 6 / 4 * x @ a.T @ b.T
    torch.testing.assert_close(layer(x), wanted)


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        (("q_prj",), r"no linear layer 'q_prj'. Did you mean 'q_proj'\? Allowed: down_proj, embed_tokens, gate_proj"),
        (("v_proj", "nothing"), "no linear layer 'nothing'. Allowed: down_proj"),
        (("self_attn",), "no linear layer 'self_attn'"),
        (("input_layernorm",), "no linear layer 'input_layernorm'"),
        (("q_proj", "lm_head"), "'lm_head' is one of two layers that share a matrix"),
        (("embed_tokens",), "'embed_tokens' is one of two layers that share a matrix"),
    ],
)
def test_targets_that_are_not_there_are_named(targets, message):
    with pytest.raises(ConfigError, match=message):
        tiny(targets=targets)


def test_without_peft_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(MissingExtraError, match=r"lora.rank needs the package peft.*pip install 'covey\[lora\]'"):
        Adapter(rank=4, alpha=8)


def objective(estimator, coef=0.1):
    return Objective(policy=PPOClip(), aggregation=SequenceMean(), kl_coef=coef, kl=KLTerm(estimator=estimator))


def batch():
    return pad(GRPO()([make_scored([1, 0, 0], lengths=[2, 6, 4])]), 1000, keep_silent=True)


@pytest.mark.parametrize("estimator", ["k3", "exact"])
def test_the_learner_trains_the_adapter_and_nothing_else(estimator):
    model = tiny().model
    learner = Learner(model, objective(estimator), Schedule(peak=1e-2, steps=4))
    owned = [p for group in learner.optimizer.param_groups for p in group["params"]]
    assert {id(p) for p in owned} == {id(p) for p in trained(model).values()}
    assert {name for name, _ in learner.parameters()} == set(trained(model))
    before = weights(model)
    for at in range(2):  # B is zero at first, so A moves in the second step
        learner.step(learner.annotate(batch()), at)
    assert set(learner.optimizer.state) == set(owned)
    for name, p in model.named_parameters():
        assert torch.equal(p, before[name]) != p.requires_grad, name


def test_the_reference_is_the_model_without_it_and_no_copy():
    model = moved(tiny()).model
    learner = Learner(model, objective("k3"), Schedule(peak=1e-2, steps=4))
    assert isinstance(learner.reference, AdapterOff)
    assert learner.reference.state_dict() is None
    (micro,) = learner.annotate(batch()).micro
    base = load_policy("tiny").model
    with torch.no_grad():
        wanted, current = token_logps(base, micro)[0], token_logps(model, micro)[0]
        exact = token_divergences(model, learner.reference.opened, micro)
        by_hand = token_divergences(model, lambda: nullcontext(base), micro)
    assert torch.equal(micro.ref_logp, wanted)
    assert torch.equal(exact[3], wanted)
    torch.testing.assert_close(exact[2], by_hand[2], rtol=0, atol=1e-6)
    assert (current - wanted)[micro.trained].abs().max() > 1e-2
    assert exact[2][micro.trained].min() > 0


def test_sampler_and_trainer_see_the_same_adapter(tmp_path):
    policy = moved(tiny())
    save_final(tmp_path / "final", policy.model, policy.tokenizer)
    merged = load_policy(str(tmp_path / "final"))
    assert splits(policy.model)
    assert follows_trees(policy.model) == follows_trees(merged.model)
    asked = [
        Request(id=str(i), tokens=np.array([1, 10, 11, 12]), sampling=Sampling(max_new_tokens=12, seed=i))
        for i in range(4)
    ]
    plain = load_policy("tiny")
    found = [
        sorted(asyncio.run(HFEngine(p.model, p.end_tokens).generate(asked)), key=lambda c: c.id)
        for p in (policy, merged, plain)
    ]
    for ours, theirs in zip(found[0], found[1], strict=True):
        assert ours.tokens.tolist() == theirs.tokens.tolist()
        np.testing.assert_allclose(ours.logp, theirs.logp, rtol=1e-5, atol=1e-5)
        ids = torch.tensor([[1, 10, 11, 12, *ours.tokens]])
        with torch.no_grad():
            table = torch.log_softmax(policy.model(ids).logits[0, 3:-1], -1)
        np.testing.assert_allclose(ours.logp, table.gather(1, ids[0, 4:, None])[:, 0], rtol=1e-5, atol=1e-5)
    assert [c.tokens.tolist() for c in found[0]] != [c.tokens.tolist() for c in found[2]]


def experts():
    torch.manual_seed(0)
    return MixtralForCausalLM(
        MixtralConfig(
            vocab_size=48, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2,
            num_key_value_heads=2, num_local_experts=4, max_position_embeddings=32, initializer_range=0.3, eos_token_id=1,
        )
    ).eval()  # fmt: skip


def transposed():
    torch.manual_seed(0)
    return GPT2LMHeadModel(
        GPT2Config(vocab_size=48, n_embd=16, n_layer=2, n_head=2, n_positions=32, bos_token_id=2, eos_token_id=1)
    ).eval()


def untied():
    torch.manual_seed(0)
    config = random_llama().config
    config.tie_word_embeddings = False
    return AutoModelForCausalLM.from_config(config).eval()


@pytest.mark.parametrize(
    ("made", "targets"),
    [
        (experts, "all-linear"),
        (experts, ("q_proj", "w1", "w2", "w3")),  # inside the fused experts, by their old names
        (transposed, "all-linear"),
        (untied, ("embed_tokens", "lm_head", "v_proj")),
    ],
)
@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning", "ignore:.*_pattern")  # PEFT's own
def test_other_architectures_come_out_the_same_merged_and_reloaded(made, targets, tmp_path, tokenizer):
    from peft import PeftModel

    policy = moved(Adapter(rank=4, alpha=8, targets=targets).on(policy_of(made(), tokenizer), "b", 0))
    before, wanted = weights(policy.model), logits(policy.model)
    save_final(tmp_path / "final", policy.model, tokenizer)
    assert all(torch.equal(p, before[name]) for name, p in policy.model.named_parameters())
    assert torch.equal(logits(policy.model), wanted)
    assert (wanted - logits(made())).abs().max() > 1e-2
    merged = AutoModelForCausalLM.from_pretrained(tmp_path / "final").eval()
    torch.testing.assert_close(logits(merged), wanted, rtol=1e-5, atol=1e-5)
    reloaded = PeftModel.from_pretrained(made(), tmp_path / "final" / "adapter").eval()
    assert torch.equal(logits(reloaded), wanted)


def test_an_adapter_on_the_output_layer_is_off_in_the_reference(tokenizer):
    policy = moved(Adapter(rank=4, alpha=8, targets=("lm_head",)).on(policy_of(untied(), tokenizer), "b", 0))
    learner = Learner(policy.model, objective("exact"), Schedule(peak=1e-2, steps=4))
    (micro,) = batch().micro
    with torch.no_grad():
        found = token_divergences(policy.model, learner.reference.opened, micro)[3]
        wanted = token_logps(untied(), micro)[0]
    assert torch.equal(found, wanted)


def test_a_folder_with_an_adapter_loads_as_its_model_with_it_merged(tmp_path):
    policy = moved(tiny())
    save_adapter(tmp_path / "adapter", policy.model)
    loaded = load_policy(str(tmp_path / "adapter"))
    assert type(loaded.model).__name__ == "LlamaForCausalLM"
    assert all(p.requires_grad for p in loaded.model.parameters())
    assert loaded.end_tokens == policy.end_tokens
    torch.testing.assert_close(logits(loaded.model), logits(policy.model), rtol=1e-5, atol=1e-5)


def test_an_adapter_that_does_not_fit_is_an_error(tmp_path):
    save_adapter(tmp_path / "adapter", tiny().model)
    settings = tmp_path / "adapter" / "adapter_config.json"
    kept = json.loads(settings.read_text())
    assert kept["base_model_name_or_path"] == "tiny"
    settings.write_text(json.dumps({**kept, "r": 3}))
    with pytest.raises(ModelError, match="does not fit 'tiny'"):
        load_policy(str(tmp_path / "adapter"))
    settings.write_text("{}")
    with pytest.raises(ModelError, match="does not name its model"):
        load_policy(str(tmp_path / "adapter"))
