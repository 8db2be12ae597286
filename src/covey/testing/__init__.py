"""Contract suites: what every advantage, loss, engine and reward must hold. Import one and give it a fixture.

# test_mine.py
import pytest
from covey.testing.advantage_contract import *  # noqa: F403

@pytest.fixture
def advantage():
    return MyAdvantage()
"""
