import pytest

from covey.losses import LOSSES
from covey.testing.loss_contract import *  # noqa: F403
from covey.testing.loss_samples import LOSSES_TRIED


@pytest.fixture(params=LOSSES_TRIED, ids=lambda loss: type(loss).__name__)
def policy_loss(request):
    return request.param


def test_every_loss_of_the_table_is_here():
    assert {type(loss) for loss in LOSSES_TRIED} == set(LOSSES.values())
