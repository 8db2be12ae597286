"""Commands on real input."""

import json

import pytest

from covey.cli.main import main
from covey.config import load_config


@pytest.fixture
def here(tmp_path, monkeypatch, model_folder):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("profile", ["trial", "regular", "thorough"])
def test_init_writes_a_run_file_that_is_valid_and_commented(here, capsys, profile):
    assert main(["init", "new.toml", "--profile", profile, "--model", 'odd "name"', "--prompts", "data.jsonl"]) == 0
    config = load_config("new.toml")
    assert (config.model.path, config.prompts.source) == ('odd "name"', "data.jsonl")
    group = {"trial": (4, 8), "regular": (16, 32), "thorough": (64, 10**9)}[profile]
    assert group[0] <= config.sampling.group_size <= group[1]
    assert 1e-6 <= config.optim.lr <= 5e-6
    assert 0.01 <= config.kl.coef <= 0.04
    assert 0.1 <= config.loss.knobs["clip_low"] <= 0.2
    assert 0.001 <= config.entropy.coef <= 0.01
    assert 0.7 <= config.sampling.temperature <= 1.0
    assert (here / "new.toml").read_text().count("#") > 15
    assert config.prompts.holdout == 20  # a file has no split of its own
    assert main(["init", "new.toml"]) == 2
    assert main(["init", "new.toml", "--force"]) == 0


def test_init_then_train_then_eval_then_sample(here, capsys):
    assert main(["init", "run.toml"]) == 0
    small = [
        'model.path="./model"', "run.steps=2", "run.save_every=1", "run.dir=out", "sampling.prompts_per_step=2",
        "sampling.group_size=2", "sampling.max_new_tokens=5", "eval.prompts=3",
    ]  # fmt: skip
    assert main(["train", "run.toml", *small]) == 0
    out = capsys.readouterr().out
    assert "held-out problems" in out
    assert "trained model" in out
    assert "loss" not in out
    assert main(["eval", "out", "--json", "eval.prompts=2", "eval.samples=4"]) == 0
    evaluation = json.loads(capsys.readouterr().out)
    assert (evaluation["problems"], evaluation["samples"]) == (2, 4)
    assert set(evaluation["pass_at"]) == {"1", "4"}
    assert main(["eval", "out"]) == 0
    assert "pass@1" in capsys.readouterr().out
    assert main(["sample", "out", "13×17=?", "-n", "3", "--max-new-tokens", "4", "-t", "0.5"]) == 0
    answers = capsys.readouterr().out
    assert answers.count("score 0.00") == 3
    assert "no <answer> element" in answers
    assert main(["sample", "./model", "what?", "-n", "1", "--answer", "3", "sampling.max_new_tokens=3"]) == 0


def test_eval_of_an_unfinished_run_uses_its_checkpoint(here, capsys):
    assert main(["init", "run.toml"]) == 0
    small = ['model.path="./model"', "run.steps=1", "run.dir=out", "sampling.max_new_tokens=3", "eval.prompts=0"]
    assert main(["train", "run.toml", *small, "sampling.prompts_per_step=1"]) == 0
    for file in (here / "out" / "final").iterdir():
        file.unlink()
    (here / "out" / "final").rmdir()
    assert main(["eval", "out", "eval.prompts=2"]) == 0


def test_a_run_from_python_can_be_asked_and_measured(here, capsys):
    import covey

    rows = [{"prompt": f"{i}+1=?", "answer": i + 1} for i in range(6)]
    (here / "mine.jsonl").write_text("\n".join(map(json.dumps, rows)))
    covey.train(
        model="./model", prompts=rows, reward=lambda completions: [0.0] * len(completions), dir="out", steps=1,
        prompts_per_step=1, group_size=2, max_new_tokens=3, quiet=True, **{"eval.prompts": 0},
    )  # fmt: skip
    assert main(["sample", "out", "1+1=?", "-n", "2", "--answer", "2"]) == 0
    assert capsys.readouterr().out.count("score 0.00") == 2
    assert main(["eval", "out", "eval.prompts=3"]) == 2
    assert "my_module:my_reward" in capsys.readouterr().err
    measured = ["eval", "out", "eval.prompts=3", "prompts.source=mine.jsonl", 'reward.parts=["exact_number"]', "--json"]
    assert main(measured) == 0
    assert json.loads(capsys.readouterr().out)["problems"] == 3


def test_models_and_doctor(here, capsys, monkeypatch):
    monkeypatch.setenv("COVEY_CACHE", str(here / "cache"))
    assert main(["models"]) == 0
    assert "covey models get smollm2-135m" in capsys.readouterr().out
    assert main(["doctor", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["tiny model"].startswith("ok")


def test_help_names_every_command(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--help"])
    assert stop.value.code == 0
    shown = capsys.readouterr().out
    assert all(
        command in shown for command in ("demo", "init", "train", "resume", "eval", "sample", "models", "doctor")
    )
    assert main([]) == 0
