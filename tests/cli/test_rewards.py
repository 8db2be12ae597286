import json

import pytest

from covey.cli.main import main

SMALL = ["sampling.max_new_tokens=24", "sampling.group_size=4", "-n", "3"]


@pytest.fixture
def run_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(
        "def contains(completions, answer):\n"
        "    return [float(a in c[0]['content']) for c, a in zip(completions, answer)]\n"
    )
    (tmp_path / "run.toml").write_text('[model]\npath = "tiny"\n[prompts]\nsource = "arithmetic"\n')
    return "run.toml"


def test_a_good_reward_passes_and_says_what_would_be_learnt(run_file, capsys):
    assert main(["rewards", "check", run_file, *SMALL]) == 0
    out = capsys.readouterr().out
    for text in ("exact_number", "form alone", "What GRPO would learn", "of 3 groups teach", "sound:"):
        assert text in out


def test_a_bad_one_fails_as_json_and_as_a_page(run_file, capsys, tmp_path):
    words = ["rewards", "check", run_file, *SMALL, 'reward.parts=["own:contains"]', "--json", "--html", "page.html"]
    assert main(words) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["verdict"]["level"] == "unsound"
    assert (found["prompts"], found["responses"]) == (3, 12)
    page = (tmp_path / "page.html").read_text()
    assert "<title>Reward of run.toml</title>" in page
    assert "every number" in page
    assert "all numbers from 0 to 1000 in the form" in page


def test_responses_from_a_file_need_no_model(run_file, capsys, tmp_path, monkeypatch):
    from covey.loop import audit
    from covey.prompts.source import load_prompts

    monkeypatch.setattr(audit, "build_bench", None)
    first, second = load_prompts("arithmetic", split="train")[:2]
    rows = [
        {"prompt": first.uid, "responses": [f"<answer>{first.answer}</answer>", "none"]},
        {"prompt": second.text, "responses": ["a", "b", "c"]},
    ]
    (tmp_path / "said.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert main(["rewards", "check", run_file, "--responses", "said.jsonl", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["responses"], found["pass_rate"], found["spread"]) == (5, 0.2, 0.5)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "said.jsonl, line 1: expected"),
        ('{"prompt": "who?", "responses": []}', "no prompt of the run file has the text or uid 'who?'"),
        ("", "holds no responses"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(run_file, capsys, tmp_path, line, message):
    (tmp_path / "said.jsonl").write_text(line)
    assert main(["rewards", "check", run_file, "--responses", "said.jsonl"]) == 2
    assert message in capsys.readouterr().err


def test_wrong_arguments(run_file, capsys):
    assert main(["rewards", "check", run_file, "-n", "0"]) == 2
    assert main(["rewards", "check", run_file, "--responses", "nowhere.jsonl"]) == 2
    assert "there is no file 'nowhere.jsonl'" in capsys.readouterr().err
