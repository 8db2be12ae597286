import io
import math

import pytest
from rich.console import Console

from covey.advantages import GRPO
from covey.observe.view import (
    LiveView,
    PlainView,
    SilentView,
    make_view,
    one_line,
    percent,
    show,
    spark,
    summary_tables,
)
from covey.testing.samples import make_scored
from covey.types import StepRecord

METRICS = {
    "reward/mean": 0.25, "pass_rate": 0.5, "kl/ref": 0.01, "entropy": 1.5, "length/mean": 12.0, "length/truncated": 0.1,
    "group/ok": 0.75, "speed/sampled": 1234.0, "seconds/step": 2.0, "loss": 7.0,
}  # fmt: skip
RATE = {"value": 0.412, "low": 0.37, "high": 0.455, "problems": 500}


def console(terminal):
    return Console(file=io.StringIO(), force_terminal=terminal, width=120, color_system=None, legacy_windows=False)


def groups():
    return GRPO()([make_scored([1.0, 0.0], uid="p")])


def run_through(view):
    view.start("title [red]", 4)
    view.stage("sampling")
    view.step(StepRecord(step=1, metrics=METRICS), groups())
    view.note("evaluation at step 0")


def test_plain_lines_when_the_output_is_no_terminal():
    screen = console(terminal=False)
    view = make_view(screen)
    assert isinstance(view, PlainView)
    run_through(view)
    view.stop()
    text = screen.file.getvalue()
    assert "step 2/4 reward 0.250 pass 0.500 kl 0.0100 entropy 1.500 length 12.0 signal 0.75 1234 tok/s 2.00 s" in text
    assert "title [red]" in text
    assert "loss" not in text


def test_the_live_panel_shows_progress_curves_and_a_group(monkeypatch):
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    screen = console(terminal=True)
    view = make_view(screen)
    assert isinstance(view, LiveView)
    run_through(view)
    panel = console(terminal=False)
    panel.print(view._render())
    view.stop()
    view.stop()
    text = panel.file.getvalue()
    for part in ("title [red]", "step 2/4", "ETA 0:00:04", "sampling", "pass rate", "entropy 1.500", "KL 0.0100",
                 "tokens/s 1234", "a group: 1+1=?", "+0.71", "-0.71"):  # fmt: skip
        assert part in text
    assert "loss" not in text


def test_quiet_shows_nothing():
    assert isinstance(make_view(quiet=True), SilentView)
    run_through(SilentView())


@pytest.mark.parametrize(
    ("values", "bars"),
    [
        ([], ""),
        ([math.nan], ""),
        ([1.0], "▁"),
        ([0, 1, 2, 3, 4, 5, 6, 7, 8], "▁▂▃▄▅▆▇██"),
        ([0.0, math.nan, 1.0], "▁█"),
    ],
)
def test_spark_lines(values, bars):
    assert spark(values) == bars


def test_spark_lines_keep_a_given_scale_and_width():
    assert spark([0.5, 0.5], low=0.0, high=1.0) == "▅▅"
    assert len(spark(list(range(100)), width=10)) == 10


def test_numbers_for_people():
    assert (show(None), show(math.nan), show(0.12345), show(3.0, 0)) == ("–", "–", "0.123", "3")
    assert percent(RATE) == "41.2 % [37.0, 45.5]"


def test_hostile_text_stays_on_one_line():
    assert one_line("a\nb\x1b[31m\x07\u202ec", 50) == "a⏎b�[31m��c"
    assert one_line("x" * 60, 10) == "x" * 9 + "…"


def test_before_and_after_with_intervals_and_answers():
    example = {"question": "13×17=?", "gold": "221", "reply": "<answer>121</answer>[bold]", "correct": False}
    before = {"greedy": RATE, "pass_at": {"1": RATE}, "examples": [example]}
    after = {"greedy": {**RATE, "value": 0.912}, "pass_at": {"1": RATE}, "examples": [{**example, "correct": True}]}
    screen = console(terminal=False)
    for table in summary_tables({"before": before, "after": after}):
        screen.print(table)
    text = screen.file.getvalue()
    for part in (
        "greedy",
        "41.2 % [37.0, 45.5]",
        "+50.0",
        "pass@1",
        "+0.0",
        "13×17=?",
        "✗ <answer>121</answer>[bold]",
        "✓",
    ):
        assert part in text
    assert summary_tables({"before": before, "after": None}) == []
