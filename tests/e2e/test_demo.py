"""The demo for real, and the README's commands."""

import json
import re
import shlex
import time
from pathlib import Path

import pytest
from transformers import AutoModelForCausalLM

import covey
from covey.cli.main import main

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_demo_learns_what_it_promises(tmp_path, capsys):
    began = time.perf_counter()
    assert main(["demo", f"run.dir={tmp_path / 'demo'}"]) == 0
    seconds = time.perf_counter() - began
    summary = json.loads((tmp_path / "demo" / "summary.json").read_text())
    before, after = summary["before"], summary["after"]
    assert before["problems"] >= 500
    assert 0.25 <= before["pass_at"]["1"]["value"] <= 0.5
    assert after["pass_at"]["1"]["value"] >= 0.9
    assert after["greedy"]["value"] - before["greedy"]["value"] >= 0.15
    assert seconds < 300
    assert "three of them" in capsys.readouterr().out
    assert AutoModelForCausalLM.from_pretrained(tmp_path / "demo" / "final").num_parameters() < 1_000_000


def readme_blocks(language):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def readme_commands():
    lines = [line.split("#")[0].strip() for block in readme_blocks("sh") for line in block.splitlines()]
    return [shlex.split(line) for line in lines if line]


@pytest.mark.slow
def test_the_readmes_commands_run(tmp_path, monkeypatch, capsys):
    """In their order, in one folder; make and pip are the caller's business, and the fetched model has its own test."""
    monkeypatch.chdir(tmp_path)
    run = 0
    for words in readme_commands():
        if words[0] == "covey" and "models" not in words and "examples/smollm2.toml" not in words:
            words = [str(next(iter(tmp_path.glob(word)), word)) for word in words]
            assert main(words[1:]) == 0, words
            run += 1
    assert run >= 5
    (code,) = readme_blocks("python")
    space: dict = {}
    exec(compile(code, "README.md", "exec"), space)
    assert isinstance(space["result"], covey.RunResult)


def test_make_knows_the_readmes_targets():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = {words[1] for words in readme_commands() if words[0] == "make"}
    assert targets == {"demo", "test"}
    for target in targets:
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE)
    assert (ROOT / ".ci" / "run").read_text().count("make test") == 1
