"""Interpreters with a deadline: killed when it passes, replaced at once, and gone when they should be."""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from covey.rewards.interpreters import CrashError, Interpreters


@pytest.fixture
def pool(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    pool = Interpreters("answering:answer", size=2, deadline=0.5, memory=2 << 30)
    yield pool
    pool.close()


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_questions_are_answered(pool):
    assert pool.ask({"a": [1, None, "é"]}) == {"a": [1, None, "é"]}
    assert pool.ask("print") == "print"


def test_a_hanging_question_is_killed_and_the_next_one_is_answered(pool):
    pool.ask("warm")
    for _ in range(3):
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            pool.ask("hang")
        assert time.monotonic() - began < 1.5
        assert pool.ask("next") == "next"


@pytest.mark.parametrize("question", ["die", "memory"])
def test_a_process_that_dies_is_an_error_of_that_question_alone(pool, question):
    with pytest.raises(CrashError, match="died"):
        pool.ask(question)
    assert pool.ask("next") == "next"


def test_what_the_function_raises_comes_back(pool):
    with pytest.raises(CrashError, match="ValueError: no such thing"):
        pool.ask("raise")


def test_many_hanging_questions_share_the_wait(pool):
    def ask(i):
        try:
            return pool.ask("hang" if i % 2 else i)
        except TimeoutError:
            return None

    pool.ask("warm")
    began = time.monotonic()
    with ThreadPoolExecutor(16) as threads:
        found = list(threads.map(ask, range(8)))
    assert found == [0, None, 2, None, 4, None, 6, None]
    assert time.monotonic() - began < 4 * (0.5 + 2.0) / 2 + 2.0


def test_no_secret_of_the_environment_gets_there(pool, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "secret")
    assert "HF_TOKEN" not in pool.ask("environment")


def test_nothing_is_left_when_it_is_closed(pool):
    found = {pool.ask("who") for _ in range(10)}
    assert all(alive(pid) for pid in found)
    pool.close()
    assert not any(alive(pid) for pid in found)
    assert pool.ask("again") == "again"
