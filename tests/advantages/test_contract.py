import pytest

from covey.advantages import (
    ADVANTAGES,
    BNPO,
    GDPO,
    GPG,
    GRPO,
    OPO,
    PKPO,
    RLOO,
    SPO,
    BatchStd,
    GroupMean,
    Hybrid,
    HybridRunning,
    MaxRL,
    PassAtKTraining,
    Process,
    ReinforcePP,
    ReinforcePPBaseline,
    ReMax,
)
from covey.testing.advantage_contract import *  # noqa: F403
from covey.testing.samples import make_scored


def seasoned(estimator):
    """One that has seen a step."""
    estimator.observe([make_scored([1.0, 0.0, 0.0], uid="a"), make_scored([1.0, 1.0, 0.0], uid="z")], 0.01)
    return estimator


ESTIMATORS = [
    GRPO(),
    GRPO(std_ddof=0),
    GRPO(eps=0.0),
    GroupMean(),
    BatchStd(),
    RLOO(),
    ReMax(),
    ReinforcePP(),
    ReinforcePP(gamma=1.0, std_ddof=0),
    ReinforcePPBaseline(),
    OPO(),
    GPG(),
    BNPO(),
    MaxRL(),
    PKPO(k=2),
    PassAtKTraining(k=2),
    GDPO(),
    Hybrid(),
    HybridRunning(),
    seasoned(HybridRunning()),
    SPO(),
    seasoned(SPO()),
    Process(),
]


@pytest.fixture(params=ESTIMATORS, ids=lambda a: type(a).__name__)
def advantage(request):
    return request.param


def test_every_estimator_of_the_table_is_here():
    assert {type(estimator) for estimator in ESTIMATORS} == set(ADVANTAGES.values())
