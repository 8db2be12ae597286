import json

import pytest
import torch
from safetensors.torch import load_file

from covey.checkpoint.adapter import load_adapter, load_trained, merged_weights, save_final, save_trained
from covey.errors import RunFolderError
from covey.learner.lora import Adapter
from covey.learner.model import load_policy
from covey.testing.samples import random_llama

pytest.importorskip("peft")


def tiny(seed=0, rank=4, **knobs):
    return Adapter(rank=rank, alpha=8, **knobs).on(load_policy("tiny"), "models/base", seed)


def filled(policy):
    """The policy with an adapter whose numbers are all different."""
    with torch.no_grad():
        for p in policy.model.parameters():
            if p.requires_grad:
                p.copy_(torch.linspace(-0.1, 0.1, p.numel()).reshape(p.shape))
    return policy


def test_a_checkpoint_is_the_adapter_alone_and_comes_back_exactly(tmp_path):
    policy, other = filled(tiny()), tiny(seed=1)
    save_trained(tmp_path, policy.model, policy.tokenizer)
    assert {path.name for path in tmp_path.iterdir()} == {"adapter"}
    held = load_file(tmp_path / "adapter" / "adapter_model.safetensors")
    assert len(held) == 3 * 7 * 2
    assert all("lora_" in name for name in held)
    owned = {name: p for name, p in other.model.named_parameters() if p.requires_grad}
    load_trained(tmp_path, other.model)
    mine, theirs = dict(policy.model.named_parameters()), dict(other.model.named_parameters())
    assert all(torch.equal(p, theirs[name]) for name, p in mine.items())
    assert all(theirs[name] is p for name, p in owned.items())  # in place: the optimizer holds these


def test_its_settings_are_those_of_the_run(tmp_path):
    policy = tiny()
    save_trained(tmp_path, policy.model, policy.tokenizer)
    settings = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())
    assert settings["base_model_name_or_path"] == "models/base"
    assert (settings["r"], settings["lora_alpha"], settings["lora_dropout"], settings["bias"]) == (4, 8, 0.0, "none")
    assert settings["target_modules"] == sorted(settings["target_modules"])  # not in the order of a set
    assert settings["inference_mode"]
    assert not policy.model.peft_config["default"].inference_mode  # training goes on


@pytest.mark.parametrize("knobs", [{"rank": 3}, {"targets": ("q_proj",)}])
def test_an_adapter_of_another_shape_is_refused_and_nothing_changed(tmp_path, knobs):
    policy, other = filled(tiny()), tiny(**knobs)
    save_trained(tmp_path, policy.model, policy.tokenizer)
    before = {name: p.detach().clone() for name, p in other.model.named_parameters()}
    with pytest.raises(RunFolderError, match="not of the rank and targets"):
        load_adapter(tmp_path / "adapter", other.model)
    assert all(torch.equal(p, before[name]) for name, p in other.model.named_parameters())


def test_all_weights_and_an_adapter_are_not_confused(tmp_path, tokenizer):
    save_trained(tmp_path, random_llama(seed=1), tokenizer)
    assert {path.name for path in tmp_path.iterdir()} == {"model"}
    again = random_llama(seed=2)
    load_trained(tmp_path, again)
    assert all(torch.equal(p, q) for p, q in zip(again.parameters(), random_llama(seed=1).parameters(), strict=True))
    with pytest.raises(RunFolderError, match=r"adapter_model\.safetensors is not a complete set"):
        load_trained(tmp_path, tiny().model)


def test_merging_leaves_the_model_alone_and_is_one_sum(tmp_path):
    policy = filled(tiny(targets=("q_proj",)))
    before = {name: p.detach().clone() for name, p in policy.model.named_parameters()}
    base = load_policy("tiny").model.state_dict()
    found = merged_weights(policy.model.get_base_model())
    assert set(found) == set(base)
    prefix = "base_model.model.model.layers.2.self_attn.q_proj"
    a, b = (before[f"{prefix}.lora_{which}.default.weight"] for which in "AB")
    name = "model.layers.2.self_attn.q_proj.weight"
    torch.testing.assert_close(found[name], base[name] + 8 / 4 * b @ a, rtol=0, atol=1e-7)
    assert all(torch.equal(found[name], base[name]) for name in base if "q_proj" not in name)
    save_final(tmp_path, policy.model, policy.tokenizer)
    for name, p in policy.model.named_parameters():
        assert torch.equal(p, before[name]), name
    assert {path.name for path in (tmp_path / "adapter").iterdir()} == {
        "adapter_config.json",
        "adapter_model.safetensors",
    }
