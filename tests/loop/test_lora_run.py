"""A whole run that trains an adapter: what is written, that it can be continued, and what can be done with it."""

import asyncio
import json
import shutil

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

import covey
from covey.cli.main import main
from covey.cli.target import config_of
from covey.config import make_config
from covey.errors import ConfigError, RunFolderError
from covey.learner.model import load_policy, resolve
from covey.loop.api import _prompts, _weighted
from covey.loop.build import build
from covey.loop.lockstep import Run
from covey.loop.record import Recorder
from covey.observe.view import make_view

pytest.importorskip("peft")

ROWS = [{"prompt": f"{a}×{b}=?", "answer": a * b} for a in range(12, 15) for b in range(12, 15)]
IDS = torch.tensor([[5, 6, 7, 8, 9, 3, 2]])


def reward(completions):
    return [sum(ch.isdigit() for ch in c[0]["content"]) / 6 for c in completions]


def settings(folder, **more):
    return {
        "prompts": ROWS, "reward": reward, "dir": str(folder), "quiet": True, "steps": 4, "group_size": 4,
        "prompts_per_step": 2, "max_new_tokens": 8, "lr": 1e-2, "kl_coef": 0.01, "save_every": 2, "rank": 4,
        "eval.prompts": 0, **more,
    }  # fmt: skip


def logits(model):
    with torch.no_grad():
        return model(IDS).logits


def workshop_of(config):
    return build(config, _prompts(ROWS, config.prompts), [_weighted(reward)])


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run, and the objects that it worked with."""
    folder = tmp_path_factory.mktemp("lora") / "run"
    config = make_config(
        {
            "run": {"dir": str(folder), "steps": 4, "save_every": 2, "seed": 3},
            "lora": {"rank": 4},
            "prompts": {"source": "given"},
            "reward": {"parts": ["given:reward"]},
            "sampling": {"group_size": 4, "prompts_per_step": 2, "max_new_tokens": 8},
            "optim": {"lr": 1e-2},
            "kl": {"coef": 0.01},
            "eval": {"prompts": 0},
        }
    )
    run = Run(workshop_of(config), Recorder.create(config), make_view(quiet=True))
    asyncio.run(run.train())
    return run


def test_the_base_is_bit_identical_and_every_adapter_matrix_has_moved(finished):
    base = load_policy("tiny").model.state_dict()
    first = dict(workshop_of(finished.config).policy.model.named_parameters())
    owned = {id(p) for group in finished.workshop.learner.optimizer.param_groups for p in group["params"]}
    for name, p in finished.workshop.policy.model.named_parameters():
        if "lora_" in name:
            assert id(p) in owned
            assert not torch.equal(p, first[name]), name
        else:
            assert id(p) not in owned
            assert torch.equal(p, base[name.removeprefix("base_model.model.").replace(".base_layer", "")]), name
    held = load_file(finished.store.path(4) / "optimizer.safetensors")
    assert held
    assert all("lora_" in name for name in held)
    assert {path.name for path in finished.store.path(4).iterdir()} == {
        "adapter",
        "optimizer.safetensors",
        "state.json",
    }


def test_sampler_and_trainer_agreed_and_the_reference_is_the_start(finished):
    lines = finished.recorder.folder.read_metrics()
    assert all(line["sampler/gap_max"] < 1e-4 for line in lines)
    assert lines[0]["kl/ref"] == pytest.approx(0.0, abs=1e-6)
    assert lines[-1]["kl/ref"] > 1e-4


@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")  # PEFT's own
def test_the_final_folder_is_a_model_and_the_adapter_beside_it(finished):
    from peft import PeftModel

    final, wanted = finished.recorder.folder.final, logits(finished.workshop.policy.model)
    base = AutoModelForCausalLM.from_pretrained(resolve("tiny"), dtype=torch.float32).eval()
    assert (wanted - logits(base)).abs().max() > 1e-2
    merged = AutoModelForCausalLM.from_pretrained(final)
    torch.testing.assert_close(logits(merged), wanted, rtol=1e-5, atol=1e-5)
    assert merged.lm_head.weight is merged.model.embed_tokens.weight
    reloaded = PeftModel.from_pretrained(base, final / "adapter").eval()
    assert torch.equal(logits(reloaded), wanted)
    assert json.loads((final / "adapter" / "adapter_config.json").read_text())["base_model_name_or_path"] == "tiny"
    last = finished.store.path(4) / "adapter" / "adapter_model.safetensors"
    assert last.read_bytes() == (final / "adapter" / "adapter_model.safetensors").read_bytes()


def test_sample_and_eval_use_what_was_trained(finished, tmp_path, capsys):
    run, ask = tmp_path / "run", ["-n", "1", "-t", "0", "--answer", "1", "sampling.max_new_tokens=20"]
    shutil.copytree(finished.recorder.folder.path, run)
    answers = []
    for target in (run, run / "final", run / "final" / "adapter"):
        assert main(["sample", str(target), "12×13=?", *ask]) == 0
        answers.append(capsys.readouterr().out)
    assert main(["eval", str(run), "prompts.source=arithmetic", 'reward.parts=["exact_number"]', "eval.prompts=2"]) == 0
    assert "pass@1" in capsys.readouterr().out
    assert_trained(finished, run)
    shutil.rmtree(run / "final")  # as while the run is unfinished: the newest checkpoint
    assert_trained(finished, run)
    assert main(["sample", str(run), "12×13=?", *ask]) == 0
    answers.append(capsys.readouterr().out)
    assert len(set(answers)) == 1


def assert_trained(finished, run):
    """What the commands load for a run folder is the trained model."""
    loaded = load_policy(config_of(str(run), []).model.path).model
    torch.testing.assert_close(logits(loaded), logits(finished.workshop.policy.model), rtol=1e-5, atol=1e-5)


def test_a_resumed_run_ends_bit_for_bit_like_an_uninterrupted_one(tmp_path, monkeypatch):
    whole = covey.train(**settings(tmp_path / "whole"))
    step = Run.one_step

    async def breaks(self):
        if self.step == 3:
            raise KeyboardInterrupt
        await step(self)

    monkeypatch.setattr(Run, "one_step", breaks)
    with pytest.raises(KeyboardInterrupt):
        covey.train(**settings(tmp_path / "cut"))
    monkeypatch.setattr(Run, "one_step", step)
    resumed = covey.resume(tmp_path / "cut", prompts=ROWS, reward=reward, quiet=True)
    for ours, theirs in zip(resumed.folder.read_metrics(), whole.folder.read_metrics(), strict=True):
        for key, value in theirs.items():
            if not key.startswith(("seconds", "speed", "memory")):
                assert ours[key] == value, key
    for file in ("final/model.safetensors", "final/adapter/adapter_model.safetensors"):
        ours, theirs = load_file(resumed.folder.path / file), load_file(whole.folder.path / file)
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(ours[name], theirs[name]) for name in theirs), file


def test_a_run_whose_adapter_was_changed_is_not_continued(tmp_path):
    covey.train(**settings(tmp_path / "run", steps=2))
    (tmp_path / "run" / "summary.json").unlink()
    config = tmp_path / "run" / "config.toml"
    config.write_text(config.read_text().replace("rank = 4", "rank = 2"))
    with pytest.raises(RunFolderError, match="not of the rank and targets"):
        covey.resume(tmp_path / "run", prompts=ROWS, reward=reward, quiet=True)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"targets": ["q_prj"]}, "Did you mean 'q_proj'"),
        ({"kl.refresh": 2}, "set kl.refresh = 0"),
        ({"targets": "q_proj"}, 'lora.targets: "all-linear" or a list of layer names expected'),
    ],
)
def test_mistakes_are_named_before_anything_is_written(tmp_path, more, message):
    with pytest.raises(ConfigError, match=message):
        covey.train(**settings(tmp_path / "run", **more))
    assert not (tmp_path / "run").exists()
