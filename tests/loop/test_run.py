"""A whole run: what lies in its folder, and that it can be continued."""

import json
import math

import pandas
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import covey
from covey.errors import ConfigError, PromptError, RunFolderError
from covey.metrics.names import describe
from covey.observe.run_folder import RunFolder

ROWS = [{"prompt": f"{a}+{b}=?", "answer": a + b, "level": a} for a in range(4) for b in range(4)]


def reward(completions, level, log_metric):
    log_metric("level", level[0])
    return [sum(ch.isdigit() for ch in c[0]["content"]) / 6 for c in completions]


def settings(model_folder, folder, **more):
    return {
        "model": str(model_folder), "prompts": ROWS, "reward": reward, "dir": str(folder), "quiet": True, "steps": 4,
        "group_size": 4, "prompts_per_step": 3, "max_new_tokens": 6, "lr": 3e-3, "kl_coef": 0.01, "entropy_coef": 0.001,
        "holdout": 4, "save_every": 2, "every": 2, "tokens_per_microbatch": 64, **more,
    }  # fmt: skip


@pytest.fixture
def result(model_folder, tmp_path):
    return covey.train(**settings(model_folder, tmp_path / "run"))


def test_everything_lies_where_the_folder_says(result):
    folder = result.folder
    assert {path.name for path in folder.path.iterdir()} == {
        "config.toml", "environment.json", "metrics.jsonl", "evaluations.jsonl", "rollouts", "checkpoints", "final",
        "summary.json",
    }  # fmt: skip
    assert sorted(path.name for path in folder.checkpoints.iterdir()) == ["step-000002", "step-000004"]
    assert json.loads(folder.environment.read_text())["torch"] == torch.__version__


def test_metrics_are_one_line_a_step_from_the_catalogue(result):
    lines = result.folder.read_metrics()
    assert [line["step"] for line in lines] == [0, 1, 2, 3]
    for line in lines:
        for name in line:
            assert name == "step" or describe(name).unit
    first = lines[0]
    assert first["sampler/ratio_mean"] == pytest.approx(1.0, abs=1e-4)
    assert first["sampler/gap_max"] < 1e-4
    assert first["ratio/max"] == pytest.approx(1.0, abs=1e-4)
    assert first["kl/ref"] == pytest.approx(0.0, abs=1e-6)
    assert lines[-1]["kl/ref"] > 0
    assert lines[-1]["tokens/total"] == sum(line["tokens/sampled"] for line in lines)


def test_rollouts_are_a_table(result):
    table = covey.read_rollouts(result.folder.path)
    assert len(table) == 4 * 3 * 4
    one_shard = pandas.read_json(result.folder.rollout_shard(0), lines=True)
    assert one_shard.reply.tolist() == table[table.step == 0].reply.tolist()
    metrics = result.folder.read_metrics()[0]
    assert one_shard.reward.mean() == pytest.approx(metrics["reward/mean"])
    assert one_shard.tokens.sum() == metrics["tokens/sampled"]
    for _, group in table.groupby(["step", "group"]):
        assert group.advantage.sum() == pytest.approx(0.0, abs=1e-5)
        assert len(set(group.uid)) == 1


def test_evaluations_before_during_and_after_are_of_the_same_prompts(result):
    evaluations = result.folder.read_evaluations()
    assert [e["step"] for e in evaluations] == [0, 2, 4]
    summary = result.folder.read_summary()
    assert summary == result.summary
    assert summary["before"] == evaluations[0]
    assert summary["after"] == evaluations[-1]
    assert (summary["steps"], summary["before"]["problems"]) == (4, 4)
    assert summary["tokens"] > 0
    assert summary["seconds"] > 0
    trained_on = {row["prompt"] for row in covey.read_rollouts(result.folder.path).to_dict("records")}
    assert not trained_on & {example["question"] for example in summary["before"]["examples"]}


def test_the_final_model_is_an_ordinary_folder(result, model_folder):
    model = AutoModelForCausalLM.from_pretrained(result.model)
    start = AutoModelForCausalLM.from_pretrained(model_folder)
    assert AutoTokenizer.from_pretrained(result.model).chat_template
    moved = [float((p - q).detach().abs().max()) for p, q in zip(model.parameters(), start.parameters(), strict=True)]
    assert max(moved) > 1e-3
    saved = AutoModelForCausalLM.from_pretrained(result.folder.checkpoints / "step-000004" / "model")
    for p, q in zip(model.parameters(), saved.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=0, atol=0)


def test_the_same_seed_gives_the_same_run_and_another_seed_another(model_folder, tmp_path):
    replies = []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        covey.train(**settings(model_folder, tmp_path / name, seed=seed, every=0))
        replies.append(covey.read_rollouts(tmp_path / name).reply.tolist())
    assert replies[0] == replies[1] != replies[2]


def test_a_resumed_run_ends_like_an_uninterrupted_one(model_folder, tmp_path, monkeypatch):
    whole = covey.train(**settings(model_folder, tmp_path / "whole"))
    from covey.loop.lockstep import Run

    step = Run.one_step

    async def breaks(self):
        if self.step == 3:
            raise KeyboardInterrupt
        await step(self)

    monkeypatch.setattr(Run, "one_step", breaks)
    with pytest.raises(KeyboardInterrupt):
        covey.train(**settings(model_folder, tmp_path / "cut"))
    assert not (tmp_path / "cut" / "summary.json").exists()
    monkeypatch.setattr(Run, "one_step", step)
    with pytest.raises(PromptError, match="given in Python"):
        covey.resume(tmp_path / "cut", reward=reward)
    with pytest.raises(ConfigError, match=r"rewards were given in Python \(given:reward\)"):
        covey.resume(tmp_path / "cut", prompts=ROWS)
    resumed = covey.resume(tmp_path / "cut", prompts=ROWS, reward=reward, quiet=True)
    for name in ("read_metrics", "read_evaluations"):
        ours, theirs = getattr(resumed.folder, name)(), getattr(whole.folder, name)()
        assert [line["step"] for line in ours] == [line["step"] for line in theirs]
    strip = ("seconds", "speed", "memory")
    for ours, theirs in zip(resumed.folder.read_metrics(), whole.folder.read_metrics(), strict=True):
        for key, value in theirs.items():
            if not key.startswith(strip):
                assert ours[key] == value, key
    assert resumed.summary["after"] == whole.summary["after"]
    final = [AutoModelForCausalLM.from_pretrained(r.model) for r in (resumed, whole)]
    for p, q in zip(final[0].parameters(), final[1].parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=0, atol=0)
    with pytest.raises(RunFolderError, match="has finished"):
        covey.resume(tmp_path / "cut")


def test_resuming_without_a_checkpoint_is_an_error(model_folder, tmp_path, monkeypatch):
    from covey.loop.lockstep import Run

    async def breaks(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(Run, "one_step", breaks)
    rows = {"prompts": "arithmetic", "reward": "exact_number", "holdout": 0, "eval.prompts": 0}
    with pytest.raises(KeyboardInterrupt):
        covey.train(**settings(model_folder, tmp_path / "run", **rows))
    with pytest.raises(RunFolderError, match="no checkpoint"):
        covey.resume(tmp_path / "run")


def test_it_works_inside_a_running_event_loop(model_folder, tmp_path):
    import asyncio

    async def notebook():
        return covey.train(**settings(model_folder, tmp_path / "run", steps=1, every=0))

    assert asyncio.run(notebook()).summary["steps"] == 1


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"grup_size": 4}, "Did you mean 'group_size'"),
        ({"reward": 3}, "neither a name"),
        ({"temperature": 1.0}, "could be"),
    ],
)
def test_python_mistakes_are_named(model_folder, tmp_path, more, message):
    with pytest.raises(ConfigError, match=message):
        covey.train(**settings(model_folder, tmp_path / "run", **more))
    assert not (tmp_path / "run").exists()


def test_a_step_without_signal_changes_nothing_and_says_so(model_folder, tmp_path):
    result = covey.train(
        **settings(
            model_folder,
            tmp_path / "run",
            reward=lambda completions: [0.5] * len(completions),
            kl_coef=0.0,
            entropy_coef=0.0,
        )
    )
    line = result.folder.read_metrics()[-1]
    assert (line["update/skipped"], line["group/ok"], line["tokens/trained"]) == (1.0, 0.0, 0.0)
    assert (line["group/all_wrong"], line["grad_norm"]) == (1.0, 0.0)
    start = AutoModelForCausalLM.from_pretrained(model_folder)
    for p, q in zip(AutoModelForCausalLM.from_pretrained(result.model).parameters(), start.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=0, atol=0)


def test_a_question_in_two_rows_is_held_back_twice(model_folder, tmp_path):
    result = covey.train(
        **settings(model_folder, tmp_path / "run", prompts=ROWS + ROWS, holdout=8, prompts_per_step=20)
    )
    trained_on = set(covey.read_rollouts(result.folder.path).prompt)
    assert trained_on
    held = {row["prompt"] for row in ROWS} - trained_on
    assert held >= {example["question"] for example in result.summary["before"]["examples"]}


def test_tokens_trained_counts_what_was_forwarded(model_folder, tmp_path):
    def one_missing(completions):
        return [None, *([1.0] * (len(completions) - 1))]

    result = covey.train(**settings(model_folder, tmp_path / "run", reward=one_missing))  # KL needs silent groups
    line = result.folder.read_metrics()[0]
    table = covey.read_rollouts(result.folder.path)
    judged = table[(table.step == 0) & table.reward.notna()]
    assert line["group/ok"] == 0.0
    assert line["tokens/trained"] == judged.tokens.sum()


def test_resuming_after_the_last_checkpoint_evaluates_once(model_folder, tmp_path):
    whole = covey.train(**settings(model_folder, tmp_path / "run"))
    whole.folder.summary.unlink()  # as if it had died between the checkpoint and the summary
    again = covey.resume(tmp_path / "run", prompts=ROWS, reward=reward, quiet=True)
    assert [e["step"] for e in again.folder.read_evaluations()] == [0, 2, 4]
    assert again.summary["after"] == whole.summary["after"]


def test_unjudged_responses_are_counted_not_zeroed(model_folder, tmp_path):
    def half(completions):
        return [1.0 if i else None for i in range(len(completions))]

    result = covey.train(**settings(model_folder, tmp_path / "run", reward=half))
    line = result.folder.read_metrics()[0]
    assert (line["reward/mean"], line["reward/unjudged"]) == (1.0, 0.25)
    table = pandas.read_json(RunFolder(tmp_path / "run").rollout_shard(0), lines=True)
    assert math.isnan(table.reward[0])
    assert table.advantage[0] == 0.0


def test_failing_rewards_are_said_once_and_counted(model_folder, tmp_path, capsys):
    calls = []

    def moody(completions):
        calls.append(1)
        if len(calls) > 1 and len(calls) % 3 == 0:
            raise OSError("gone")
        return [float(i) for i in range(len(completions))]

    covey.train(**settings(model_folder, tmp_path / "run", reward=moody, quiet=False, holdout=0, **{"eval.prompts": 0}))
    shown = capsys.readouterr().out
    assert shown.count("responses could not be scored: moody: OSError: gone") == 1
    assert any(line["reward/failed"] > 0 for line in RunFolder(tmp_path / "run").read_metrics())


def test_an_evaluation_says_what_could_not_be_judged(model_folder, tmp_path, capsys):
    def half(completions):
        return [1.0 if i else None for i in range(len(completions))]

    covey.train(**settings(model_folder, tmp_path / "run", reward=half, quiet=False, greedy=False))
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("evaluation"))
    assert "pass@1 100.0 %" in line
    assert "on 4 held-out problems (4 responses unjudged)" in line


@pytest.mark.parametrize(("save_every", "said"), [(1, "goes on from step 1"), (0, "before the first checkpoint")])
def test_an_interrupted_run_says_how_to_go_on(model_folder, tmp_path, monkeypatch, capsys, save_every, said):
    import asyncio

    from covey.loop.lockstep import Run

    step = Run.one_step

    async def breaks(self):
        if self.step == 1:
            raise asyncio.CancelledError
        await step(self)

    monkeypatch.setattr(Run, "one_step", breaks)
    with pytest.raises(asyncio.CancelledError):
        covey.train(**settings(model_folder, tmp_path / "run", quiet=False, save_every=save_every))
    assert said in capsys.readouterr().out
