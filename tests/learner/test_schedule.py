import pytest

from covey.learner.schedule import Schedule


@pytest.mark.parametrize(
    ("decay", "expected"),
    [
        ("constant", [0.5, 1.0, 1.0, 1.0, 1.0, 1.0]),
        ("linear", [0.5, 1.0, 1.0, 0.7, 0.4, 0.1]),
        ("cosine", [0.5, 1.0, 1.0, 0.775, 0.325, 0.1]),
    ],
)
def test_warm_up_then_decay(decay, expected):
    schedule = Schedule(peak=1.0, steps=6, warmup=2, decay=decay, final_fraction=0.1)
    assert [schedule(step) for step in range(6)] == pytest.approx(expected)


def test_a_run_of_warm_up_only_holds_its_peak():
    schedule = Schedule(peak=1.0, steps=2, warmup=2, decay="linear")
    assert [schedule(step) for step in range(3)] == [0.5, 1.0, 1.0]


def test_steps_beyond_the_end_stay_at_the_end():
    assert Schedule(peak=1.0, steps=5, decay="linear", final_fraction=0.2)(50) == pytest.approx(0.2)
