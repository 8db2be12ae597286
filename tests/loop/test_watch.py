"""Hacks are looked for while a run goes on, and nothing that is found enters training."""

import pytest

import covey
from covey.errors import ConfigError
from covey.metrics.names import describe

ROWS = [{"prompt": f"{a}+{b}=?", "answer": str(a + b)} for a in range(4) for b in range(4)]


def digits(completions):
    """It pays for numbers, whatever they are: a list of all is paid most."""
    return [min(1.0, sum(ch.isdigit() for ch in c[0]["content"]) / 6) for c in completions]


def settings(model_folder, folder, **more):
    return {
        "model": str(model_folder), "prompts": ROWS, "reward": digits, "dir": str(folder), "quiet": True, "steps": 3,
        "group_size": 4, "prompts_per_step": 3, "max_new_tokens": 6, "lr": 3e-3, "holdout": 4, "tokens_per_microbatch": 64,
        **more,
    }  # fmt: skip


def test_probes_and_graders_stand_in_the_metrics_of_their_steps(model_folder, tmp_path):
    watched = {"watch_every": 2, "graders": [{"name": "exact_number", "tag": ""}], "pass_threshold": 0.1}
    result = covey.train(**settings(model_folder, tmp_path / "run", **watched))
    first, second, third = result.folder.read_metrics()
    assert not [name for name in second if name.startswith(("probe/", "grader/"))]
    for line in (first, third):
        assert line["probe/every_number"] == 1.0
        assert line["probe/empty"] == 0.0
        assert line["probe/above"] == 1.0
        assert 0.0 <= line["grader/pass_rate/exact_number"] < line["pass_rate"]
        assert 0.0 < line["grader/refused/exact_number"] <= 1.0
        assert describe("probe/every_number").unit == "reward"


def test_looking_changes_nothing_that_is_trained(model_folder, tmp_path):
    plain = covey.train(**settings(model_folder, tmp_path / "plain"))
    watched = covey.train(**settings(model_folder, tmp_path / "watched", watch_every=1))
    ours, theirs = watched.folder.read_metrics()[-1], plain.folder.read_metrics()[-1]
    for name in ("reward/mean", "grad_norm", "loss", "tokens/total"):
        assert ours[name] == theirs[name], name


def test_graders_need_a_time_to_be_asked(model_folder, tmp_path):
    with pytest.raises(ConfigError, match=r"reward.graders are asked every reward.watch_every steps, which is 0"):
        covey.train(**settings(model_folder, tmp_path / "run", graders=["exact_number"]))
