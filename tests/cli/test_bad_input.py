"""Bad input: one clear message, exit code 2, nothing half-written."""

import json
import shutil

import pytest

from covey.cli.main import main


@pytest.fixture
def place(tmp_path, monkeypatch, model_folder):
    """A folder with a model, data and rewards, in which the run would be made."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", list(__import__("sys").path))
    rows = [{"prompt": f"{i}+1=?", "answer": i + 1} for i in range(6)]
    (tmp_path / "data.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "empty.jsonl").write_text("")
    (tmp_path / "long.jsonl").write_text(json.dumps({"prompt": "1" * 100, "answer": 1}))
    (tmp_path / "bad_rewards.py").write_text(
        "def raises(completions):\n    raise ValueError('no such thing')\n"
        "def too_few(completions):\n    return [1.0]\n"
        "def text(completions):\n    return ['good'] * len(completions)\n"
        "def knows(completions):\n    return [0.0] * len(completions)\n"
        "def infinite(completions):\n    return [float('inf')] * len(completions)\n"
    )
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "config.json").write_text((model_folder / "config.json").read_text())
    (tmp_path / "no_model").mkdir()
    (tmp_path / "broken.py").write_text("def f(:\n")
    (tmp_path / "afile").write_text("")
    cut = tmp_path / "cut"
    shutil.copytree(model_folder, cut)
    (cut / "model.safetensors").write_bytes(b"cut")
    return tmp_path


def train(*overrides):
    base = [
        "run.dir=out", "run.steps=1", 'model.path="./model"', "prompts.source=data.jsonl", "sampling.group_size=2",
        "sampling.prompts_per_step=2", "sampling.max_new_tokens=4", "eval.prompts=0",
    ]  # fmt: skip
    return main(["train", "run.toml", *base, *overrides])


CASES = {
    "missing data": (["prompts.source=dta.jsonl"], "does not exist. Nearby: data.jsonl"),
    "wrong column": (["prompts.prompt_column=promt"], "no column 'promt'. Did you mean 'prompt'"),
    "wrong answer column": (["prompts.answer_column=gold"], "no column 'gold'"),
    "empty data": (["prompts.source=empty.jsonl"], "has no rows"),
    "unknown key": (["sampling.group_sze=4"], "Did you mean 'group_size'"),
    "unknown section": (["sampler.x=4"], "unknown key sampler"),
    "wrong type": (['sampling.group_size="four"'], "input should be a valid integer"),
    "unknown loss": (["loss.name=clp"], "unknown loss 'clp'. Did you mean 'clip'"),
    "unknown loss knob": (["loss.clip_hihg=0.3"], "unknown key loss.clip_hihg for 'clip'. Did you mean 'clip_high'"),
    "wrong loss knob": (["loss.clip_low=2.0"], "0 < clip_low < 1"),
    "wrong advantage knob type": (["advantage.eps=x"], "advantage.eps = 'x'"),
    "unknown aggregation": (["loss.aggregation=mean"], "unknown loss.aggregation 'mean'"),
    "length without constant length": (["loss.length=5"], "belongs to aggregation"),
    "unknown reward": (["reward.parts=['exact_numbr']"], "unknown reward 'exact_numbr'. Did you mean 'exact_number'"),
    "reward twice": (["reward.parts=['tags', 'tags']"], "no name twice"),
    "no reward": (["reward.parts=[]"], "at least one reward"),
    "reward module": (["reward.parts=['nowhere:f']"], "cannot load 'nowhere:f'"),
    "reward raises": (["reward.parts=['bad_rewards:raises']"], "'raises' raised ValueError: no such thing"),
    "reward count": (["reward.parts=['bad_rewards:too_few']"], "returned 1 values for 2 responses"),
    "reward type": (["reward.parts=['bad_rewards:text']"], "'good', expected a number"),
    "reward infinite": (["reward.parts=['bad_rewards:infinite']"], "must be finite"),
    "function with settings": (["reward.parts=[{name='bad_rewards:text', x=1}]"], "settings alias, deadline"),
    "no tokenizer": (['model.path="./bare"'], "has no tokenizer"),
    "no model": (['model.path="./no_model"'], "has no config.json"),
    "no folder": (['model.path="./nothing"'], "does not exist"),
    "no device": (["model.device=cuda:7"], "cannot be used here"),
    "not fetched": (["model.path=smollm2-135m"], "covey models get smollm2-135m"),
    "prompt too long": (["prompts.source=long.jsonl"], "prompts are too long: long-1"),
    "held-out prompts trained on": (["eval.prompts=4"], "held-out prompts are also trained on"),
    "all held out": (["eval.prompts=4", "prompts.holdout=6"], "leaves nothing to train on"),
    "weights cut off": (['model.path="./cut"'], "cannot load a causal language model"),
    "reward with a syntax error": (["reward.parts=['broken:f']"], "cannot load 'broken:f'"),
    "reward without module": (["reward.parts=[':f']"], "cannot load ':f'"),
    "own loss with a wrong setting": (["loss.name=bad_rewards:knows", "loss.x=1"], "does not take the settings ['x']"),
    "run folder below a file": (["run.dir=afile/x"], "cannot make the run folder"),
    "prompts from Python": (["prompts.source=given"], "given in Python"),
    "rewards from Python": (["reward.parts=['given:mine']"], "given in Python (given:mine)"),
    "gym split": (["prompts.source=gym:nothing"], "reasoning-gym"),
}


@pytest.mark.parametrize(("overrides", "message"), CASES.values(), ids=CASES)
def test_one_message_and_nothing_written(place, monkeypatch, capsys, overrides, message):
    monkeypatch.setenv("COVEY_CACHE", str(place / "cache"))
    (place / "run.toml").write_text("")
    before = sorted(path.name for path in place.iterdir() if path.name != "__pycache__")
    assert train(*overrides) == 2
    err = capsys.readouterr().err
    assert message in err
    assert "Traceback" not in err
    assert sorted(path.name for path in place.iterdir() if path.name != "__pycache__") == before


def test_a_missing_run_file(place, capsys):
    assert main(["train", "none.toml"]) == 2
    assert "run file 'none.toml' does not exist" in capsys.readouterr().err


def test_a_folder_that_is_a_run_already_is_left_alone(place, capsys):
    (place / "run.toml").write_text("")
    assert train() == 0
    stamp = {path: path.stat().st_mtime_ns for path in (place / "out").rglob("*")}
    capsys.readouterr()
    assert train() == 2
    assert "is already a run. Continue it with: covey resume out" in capsys.readouterr().err
    assert {path: path.stat().st_mtime_ns for path in (place / "out").rglob("*")} == stamp


def test_a_folder_with_other_things_is_left_alone(place, capsys):
    (place / "run.toml").write_text("")
    (place / "out").mkdir()
    (place / "out" / "thesis.txt").write_text("mine")
    assert train() == 2
    assert "not empty" in capsys.readouterr().err
    assert [path.name for path in (place / "out").iterdir()] == ["thesis.txt"]


def test_a_reward_that_fails_too_often_stops_the_run_with_its_reason(place, capsys):
    (place / "run.toml").write_text("")
    (place / "moody.py").write_text(
        "calls = []\ndef moody(completions):\n    calls.append(1)\n"
        "    if len(calls) > 1:\n        raise OSError('gone')\n    return [0.0] * len(completions)\n"
    )
    assert train("reward.parts=['moody:moody']") == 2
    assert "moody: OSError: gone" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["trian"], "Did you mean 'train'"),
        (["resume", "nothing"], "is not a run folder"),
        (["eval", "./nothing"], "does not exist"),
        (["sample", "./model", "1+1=?", "-n", "0"], "-n >= 1"),
        (["models", "get"], "which model?"),
        (["models", "get", "smollm"], "Did you mean 'smollm2-135m'"),
        (["init", "nowhere/run.toml"], "does not exist"),
        (["init", ".", "--force"], "is a folder"),
        (["eval", "./model", "eval.prompts=0"], "no held-out prompts"),
        (["sample", "./model", "1+1=?", "--max-new-tokens", "-5"], "--max-new-tokens >= 1"),
    ],
)
def test_other_commands(place, capsys, words, message):
    assert main(words) == 2
    assert message in capsys.readouterr().err
