"""Every command of docs/rewards.md comes to the verdict that stands beside it."""

import re
import shlex
from pathlib import Path

import pytest

from covey.cli.main import main

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "rewards.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^covey (rewards check .*?)\s*# (sound|unsound)$", PAGE, re.MULTILINE)


@pytest.mark.parametrize(("command", "verdict"), COMMANDS, ids=[command[-50:] for command, _ in COMMANDS])
def test_the_verdict_of_each_command(command, verdict, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    assert main(shlex.split(command)) == (verdict == "unsound")
    assert f"{verdict}:" in capsys.readouterr().out


def test_there_are_commands_of_both_kinds():
    assert {verdict for _, verdict in COMMANDS} == {"sound", "unsound"}
    assert len(COMMANDS) >= 9


def test_the_five_lines_work():
    code = re.search(r"```python\n(import re\n.*?)```", PAGE, re.DOTALL)
    space = {}
    exec(code[1], space)
    said = [[{"content": text}] for text in ("5 or 7", "no", "7")]
    assert space["last_number"](said, ["7", "7", "8"]) == [1.0, 0.0, 0.0]
