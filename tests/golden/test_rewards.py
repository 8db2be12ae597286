"""Length and repetition penalties against worked examples. See cases.json."""

import numpy as np
import pytest

from covey.rewards import Repetition, SoftOverlong

golden = pytest.mark.golden


@golden("N01")
def test_soft_overlong(case):
    reward = SoftOverlong(limit=case["params"]["L_max"], margin=case["params"]["L_cache"])
    got = [reward.of_length(length) for length in case["inputs"]["lengths"]]
    np.testing.assert_allclose(got, case["expected"]["reward"], rtol=0, atol=1e-9)


@golden("N03")
def test_repetition(case):
    reward = Repetition(n=case["params"]["n"], penalty=case["params"]["max_penalty"])
    got = [reward.of_tokens(tokens) for tokens in case["inputs"]["tokens"]]
    np.testing.assert_allclose(got, case["expected"]["reward"], rtol=0, atol=1e-9)
