"""The level is found by trying: what holds here, what is said where nothing does, and never less than was asked for."""

import json
import sys

import pytest

from covey.cli.main import main
from covey.errors import ConfigError
from covey.sandbox import check
from covey.sandbox.check import CANARIES, Report, best_level, try_level

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox is for Linux")


@pytest.mark.parametrize("level", ["L1", "L2"])
def test_every_canary_is_held(level):
    report = try_level(level)
    assert report.problem == ""
    assert report.held == dict.fromkeys(CANARIES, True)
    assert report.holds


def test_without_landlock_files_are_open_and_the_report_says_so():
    report = try_level("L3")
    assert not report.held["read a file"]
    assert report.holds  # which it never promised


def pretend(monkeypatch, **reports):
    monkeypatch.setattr(check, "try_level", lambda level: reports[level])


GOOD, BAD, DEAD = {"tcp": True}, {"tcp": False, "fork": True}, "no permission to create a namespace"


def test_the_strongest_level_that_holds_is_taken(monkeypatch):
    pretend(monkeypatch, L1=Report("L1", {}, DEAD), L2=Report("L2", GOOD), L3=Report("L3", GOOD))
    assert best_level() == "L2"


def test_nothing_below_the_minimum_is_taken(monkeypatch):
    pretend(monkeypatch, L1=Report("L1", {}, DEAD), L2=Report("L2", BAD), L3=Report("L3", GOOD))
    with pytest.raises(ConfigError, match=f"L1: {DEAD}; L2: it does not hold against: tcp.*remote sandbox"):
        best_level("L2")
    with pytest.raises(ConfigError, match="cannot be run safely here"):
        best_level("L1")
    assert best_level("L3") == "L3"


def test_the_command_prints_what_held(capsys):
    assert main(["sandbox", "check", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["level"] == "L1"
    assert found["levels"]["L2"]["holds"]
    assert main(["sandbox", "check"]) == 0
    printed = capsys.readouterr().out
    assert "programs run at L1" in printed
    assert "WORKED" in printed


def test_the_command_fails_where_nothing_holds(monkeypatch, capsys):
    pretend(monkeypatch, L1=Report("L1", {}, DEAD), L2=Report("L2", BAD), L3=Report("L3", GOOD))
    assert main(["sandbox", "check"]) == 1
    assert "no level that holds" in capsys.readouterr().out
