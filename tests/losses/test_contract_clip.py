import pytest

from covey.losses import PPOClip
from covey.testing.loss_contract import *  # noqa: F403


@pytest.fixture(params=[PPOClip(), PPOClip(clip_high=0.28)], ids=["clip", "clip_higher"])
def policy_loss(request):
    return request.param
