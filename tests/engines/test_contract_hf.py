import pytest

from covey.engines.hf import HFEngine
from covey.testing.engine_contract import *  # noqa: F403


@pytest.fixture(params=[128, 2], ids=["one batch", "many batches"])
def engine(request, model):
    return HFEngine(model, frozenset({1, 5}), rows=request.param)


@pytest.fixture
def prompt_tokens():
    return [[4, 13, 5, 16], [7, 8, 9, 10, 11, 12, 13, 20]]
