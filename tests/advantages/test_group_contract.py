import pytest

from covey.advantages import (
    BNPO,
    GDPO,
    GPG,
    GRPO,
    OPO,
    PKPO,
    RLOO,
    BatchStd,
    GroupMean,
    MaxRL,
    PassAtKTraining,
    Process,
)
from covey.testing.group_advantage_contract import *  # noqa: F403

ESTIMATORS = [
    GRPO(),
    GRPO(std_ddof=0),
    GRPO(eps=0.0),
    GroupMean(),
    BatchStd(),
    RLOO(),
    OPO(),
    GPG(),
    BNPO(),
    MaxRL(),
    PKPO(k=2),
    PKPO(k=1),
    PassAtKTraining(k=2),
    GDPO(),
    Process(),
]


@pytest.fixture(params=ESTIMATORS, ids=lambda a: type(a).__name__)
def advantage(request):
    return request.param
