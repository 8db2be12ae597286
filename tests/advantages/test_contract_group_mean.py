import pytest

from covey.advantages import GroupMean
from covey.testing.advantage_contract import *  # noqa: F403


@pytest.fixture
def advantage():
    return GroupMean()
