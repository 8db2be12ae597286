import math

import pytest

from covey.controllers import ENTROPY_CONTROLLERS, KL_CONTROLLERS, RAMPS
from covey.controllers.adaptive_entropy import AdaptiveEntropy
from covey.controllers.band import Band
from covey.controllers.pass_rates import PassRates
from covey.controllers.ramp import Cosine, Linear
from covey.controllers.ziegler import Ziegler


def test_linear_and_cosine_ways():
    linear = Linear(first=1.0, last=0.5)
    assert [linear.coef(step, 5) for step in range(6)] == pytest.approx([1.0, 0.875, 0.75, 0.625, 0.5, 0.5])
    cosine = Cosine(first=0.0, last=1.0, fraction=0.5)
    assert [cosine.coef(step, 9) for step in (0, 2, 4, 8)] == pytest.approx([0.0, 0.5, 1.0, 1.0])
    assert linear.coef(0, 1) == 1.0
    with pytest.raises(ValueError, match="fraction"):
        Linear(first=1.0, fraction=0.0)


def test_every_control_of_the_tables_starts_where_it_is_told():
    for table in (KL_CONTROLLERS, RAMPS):
        for cls in table.values():
            assert cls(first=0.3).coef(0, 10) == 0.3
    for name, cls in ENTROPY_CONTROLLERS.items():
        assert cls(first=0.3).coef(0, 10) == (0.0 if name == "adaptive" else 0.3)


def test_the_dead_band():
    # in the band nothing; above 0.5: e = min(0.2, KL/0.5 - 1); below 0.01: e = max(-0.2, KL/0.01 - 1); times 0.1
    band = Band(first=0.04, warmup=0)
    for kl, factor in ((0.01, 1.0), (0.2, 1.0), (0.5, 1.0), (0.55, 1.01), (5.0, 1.02), (0.0095, 0.995), (0.0, 0.98)):
        assert band.after(kl) == pytest.approx(0.04 * factor), kl


def test_the_band_has_a_floor_a_ceiling_and_a_warm_up():
    band = Band(first=0.0101, floor=0.01, ceiling=0.0102, warmup=2)
    band.observe({"kl/ref": 0.0}, 0)
    band.observe({"kl/ref": 0.0}, 1)
    assert band.coef(2, 9) == 0.0101
    band.observe({"kl/ref": 0.0}, 2)
    assert band.coef(3, 9) == 0.01
    for step in range(3, 9):
        band.observe({"kl/ref": 9.0}, step)
    assert band.coef(9, 9) == 0.0102


@pytest.mark.parametrize("controller", [Band(first=0.04, warmup=0), Ziegler(first=0.04), AdaptiveEntropy(first=0.04)])
def test_nothing_measured_changes_nothing(controller):
    before = controller.state()
    controller.observe({}, 0)
    controller.observe(
        {"kl/ref": math.nan, "kl/ref_sequence": math.nan, "entropy": math.nan, "sequences/trained": 8.0}, 1
    )
    assert controller.state() == before


def test_the_unit_decides_which_divergence_is_read():
    metrics = {"kl/ref": 0.05, "kl/ref_sequence": 5.0, "sequences/trained": 100.0}
    token, sequence = Ziegler(first=1.0), Ziegler(first=1.0, unit="sequence")
    token.observe(metrics, 0)
    sequence.observe(metrics, 0)
    assert token.coef(1, 2) == 1.0
    assert sequence.coef(1, 2) == pytest.approx(1.0 + 0.2 * 100 / 10_000)


def test_the_adaptive_bonus_acts_only_while_entropy_is_low():
    bonus = AdaptiveEntropy(first=0.01, target=0.2, delta=0.005, ceiling=0.02)
    assert bonus.coef(0, 9) == 0.0  # nothing measured yet
    bonus.observe({"entropy": 0.1}, 0)
    assert bonus.coef(1, 9) == pytest.approx(0.015)
    for step in range(4):
        bonus.observe({"entropy": 0.2}, step)
    assert bonus.coef(5, 9) == pytest.approx(0.02)
    bonus.observe({"entropy": 0.3}, 5)
    assert bonus.coef(6, 9) == 0.0
    bonus.observe({"entropy": 0.2}, 6)
    assert bonus.coef(7, 9) == pytest.approx(0.02)  # 0.015 after the high one, then up again


@pytest.mark.parametrize(
    "made", [lambda: Band(first=0.04, warmup=0), lambda: Ziegler(first=0.04), lambda: AdaptiveEntropy(first=0.04)]
)
def test_state_goes_on_where_it_was(made):
    one, other = made(), made()
    one.observe({"kl/ref": 0.9, "entropy": 0.1, "sequences/trained": 64.0}, 0)
    assert one.coef(1, 2) != made().coef(1, 2)
    other.load_state(one.state())
    assert other.coef(1, 2) == one.coef(1, 2)


@pytest.mark.parametrize("knobs", [{"low": 0.5, "high": 0.1}, {"floor": 0.0}, {"gain": -1.0}])
def test_senseless_bands_are_refused(knobs):
    with pytest.raises(ValueError, match="expected"):
        Band(first=0.04, **knobs)


def test_pass_rates_are_a_posterior_that_forgets():
    rates = PassRates(forget=0.5)
    assert rates.means(["a"]) == [0.5]  # Beta(1, 1)
    rates.observe("a", right=3, wrong=1)
    # one prompt seen: rate (3 + 1/2) / 5, no spread, so a prior of 4 responses: Beta(2.8, 1.2)
    assert rates.prior() == pytest.approx((2.8, 1.2))
    assert rates.means(["a", "new"]) == pytest.approx([5.8 / 8, 0.7])
    rates.observe("a", right=0, wrong=4)
    again = PassRates(forget=0.5)
    again.load_state(rates.state())
    assert rates.state() == {"a": [1.5, 4.5]}
    assert again.means(["a", "new"]) == rates.means(["a", "new"])
