import pytest

from covey.advantages import GRPO
from covey.testing.advantage_contract import *  # noqa: F403


@pytest.fixture(params=[GRPO(), GRPO(std_ddof=0), GRPO(eps=0.0)], ids=["sample", "population", "eps=0"])
def advantage(request):
    return request.param
