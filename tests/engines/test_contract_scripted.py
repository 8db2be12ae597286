import pytest

from covey.engines.scripted import ScriptedEngine
from covey.testing.engine_contract import *  # noqa: F403


@pytest.fixture
def engine():
    return ScriptedEngine(
        lambda request: ([*request.tokens.tolist(), 1], [-0.5] * (len(request.tokens) + 1)), frozenset({1})
    )


@pytest.fixture
def prompt_tokens():
    return [[4, 13, 5, 16], [7, 8, 9, 10, 11, 12, 13, 20]]


@pytest.fixture
def draws():
    return False
