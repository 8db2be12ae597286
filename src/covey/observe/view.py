"""What a person sees while a run goes on: a live panel on a terminal, one plain line a step elsewhere."""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from covey.types import CreditedGroup, StepRecord

_BARS = "▁▂▃▄▅▆▇█"


class View(Protocol):
    """Told what happens; decides what to show."""

    def start(self, title: str, steps: int, done: int = 0) -> None: ...
    def stage(self, text: str) -> None: ...
    def sampled(self, done: str, reply: str) -> None: ...
    def step(self, record: StepRecord, groups: Sequence[CreditedGroup]) -> None: ...
    def note(self, line: str) -> None: ...
    def stop(self) -> None: ...


def make_view(console: Console | None = None, quiet: bool = False) -> View:
    """A live view if the output is a terminal that can redraw, else plain lines; nothing at all if ``quiet``."""
    if quiet:
        return SilentView()
    console = console or Console()
    live = console.is_terminal and not console.is_dumb_terminal and "CI" not in os.environ
    return LiveView(console) if live else PlainView(console)


def spark(values: Sequence[float], width: int = 32, low: float | None = None, high: float | None = None) -> str:
    """A line of bars for the last ``width`` finite values; the scale is theirs unless given."""
    shown = [value for value in values if math.isfinite(value)][-width:]
    if not shown:
        return ""
    bottom = min(shown) if low is None else low
    span = ((max(shown) if high is None else high) - bottom) or 1.0
    return "".join(_BARS[min(7, max(0, int(8 * (value - bottom) / span)))] for value in shown)


def show(value: float | None, digits: int = 3) -> str:
    """A number for people; a dash where nothing was measured."""
    return "–" if value is None or not math.isfinite(value) else f"{value:.{digits}f}"


class SilentView:
    """Shows nothing."""

    def start(self, title: str, steps: int, done: int = 0) -> None: ...
    def stage(self, text: str) -> None: ...
    def sampled(self, done: str, reply: str) -> None: ...
    def step(self, record: StepRecord, groups: Sequence[CreditedGroup]) -> None: ...
    def note(self, line: str) -> None: ...
    def stop(self) -> None: ...


class PlainView:
    """One line a step, for logs and pipes."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.steps = 0

    def start(self, title: str, steps: int, done: int = 0) -> None:
        self.steps = steps
        self._line(title)

    def stage(self, text: str) -> None:
        """Too fine for a log."""

    def sampled(self, done: str, reply: str) -> None:
        """Too fine for a log."""

    def step(self, record: StepRecord, groups: Sequence[CreditedGroup]) -> None:
        m = record.metrics
        kl = f" kl {show(m.get('kl/ref'), 4)}" if "kl/ref" in m else ""
        self._line(
            f"step {record.step + 1:>{len(str(self.steps))}}/{self.steps}"
            f" reward {show(m.get('reward/mean'))} pass {show(m.get('pass_rate'))}{kl}"
            f" entropy {show(m.get('entropy'))} length {show(m.get('length/mean'), 1)}"
            f" signal {show(m.get('group/ok'), 2)} {show(m.get('speed/sampled'), 0)} tok/s"
            f" {show(m.get('seconds/step'), 2)} s"
        )

    def note(self, line: str) -> None:
        self._line(line)

    def stop(self) -> None:
        """Nothing to clear."""

    def _line(self, text: str) -> None:
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)


class LiveView:
    """A panel that redraws in place: progress, curves, health numbers and one group with its rewards."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.live: Live | None = None
        self.title, self.steps, self.done, self.label, self.reply = "", 1, 0, "", ""
        self.history: deque[Mapping[str, float]] = deque(maxlen=200)
        self.group: CreditedGroup | None = None
        self.seconds: deque[float] = deque(maxlen=20)

    def start(self, title: str, steps: int, done: int = 0) -> None:
        self.title, self.steps, self.done = title, steps, done
        self.live = Live(get_renderable=self._render, console=self.console, refresh_per_second=4, transient=True)
        self.live.start()

    def stage(self, text: str) -> None:
        self.label, self.reply = text, ""

    def sampled(self, done: str, reply: str) -> None:
        """``done``: how far sampling is; ``reply``: one response, as far as it has come."""
        self.label, self.reply = done, reply

    def step(self, record: StepRecord, groups: Sequence[CreditedGroup]) -> None:
        self.done = record.step + 1
        self.history.append(record.metrics)
        self.seconds.append(record.metrics["seconds/step"])
        self.group = next((group for group in groups if group.signal == "ok"), groups[0])

    def note(self, line: str) -> None:
        self.console.print(line, markup=False, highlight=False)

    def stop(self) -> None:
        if self.live is not None:
            self.live.stop()
            self.live = None

    def _render(self) -> RenderableType:
        rows: list[RenderableType] = [self._progress()]
        if self.history:
            rows += [self._curves(), self._numbers()]
        if self.group is not None:
            rows.append(_group_table(self.group))
        if self.reply:
            rows.append(Text(f"… {one_line(self.reply[-200:], 200)}", style="dim", no_wrap=True, overflow="ellipsis"))
        return Panel(Group(*rows), title=Text(self.title), title_align="left", border_style="cyan", padding=(0, 1))

    def _progress(self) -> RenderableType:
        left = (self.steps - self.done) * (sum(self.seconds) / len(self.seconds)) if self.seconds else math.nan
        eta = str(timedelta(seconds=round(left))) if math.isfinite(left) else "–"
        line = Table.grid(padding=(0, 2), expand=True)
        line.add_column(ratio=1)
        line.add_column(justify="right", no_wrap=True)
        line.add_row(
            ProgressBar(total=self.steps, completed=self.done),
            Text(f"step {self.done}/{self.steps}   ETA {eta}   {self.label}"),
        )
        return line

    def _curves(self) -> RenderableType:
        grid = Table.grid(padding=(0, 2))
        for label, name, bounds in (("reward", "reward/mean", (None, None)), ("pass rate", "pass_rate", (0.0, 1.0))):
            values = [metrics.get(name, math.nan) for metrics in self.history]
            grid.add_row(label, Text(show(values[-1]), style="bold"), Text(spark(values, 40, *bounds), style="green"))
        return grid

    def _numbers(self) -> RenderableType:
        m = self.history[-1]
        shown = [
            ("entropy", show(m.get("entropy"))),
            ("KL", show(m.get("kl/ref"), 4)),
            ("length", show(m.get("length/mean"), 1)),
            ("truncated", show(m.get("length/truncated"), 2)),
            ("signal", show(m.get("group/ok"), 2)),
            ("tokens/s", show(m.get("speed/sampled"), 0)),
        ]
        return Text("   ".join(f"{name} {value}" for name, value in shown), style="dim")


def _group_table(credited: CreditedGroup, rows: int = 6) -> RenderableType:
    group = credited.scored.group
    table = Table(box=None, expand=True, show_header=True, header_style="dim", padding=(0, 1))
    table.add_column("reward", justify="right", no_wrap=True)
    table.add_column("advantage", justify="right", no_wrap=True)
    table.add_column(Text(f"a group: {one_line(group.prompt.text, 80)}"), no_wrap=True, overflow="ellipsis", ratio=1)
    members = list(zip(group.members, credited.scored.scores, credited.advantages, strict=True))
    members.sort(key=lambda entry: -math.inf if entry[1].total is None else entry[1].total, reverse=True)
    shown = members if len(members) <= rows else members[: rows // 2] + members[-(rows - rows // 2) :]  # both ends
    for member, score, advantage in shown:
        value = float(advantage[member.sampled].mean())
        style = "green" if value > 0 else "red" if value < 0 else "dim"
        table.add_row(show(score.total, 2), Text(f"{value:+.2f}", style=style), Text(one_line(member.reply, 200)))
    return table


def one_line(text: str, limit: int) -> str:
    """A response on one line: line ends become ⏎, control characters are made visible, the rest is cut."""
    clean = "".join("⏎" if ch == "\n" else ch if ch.isprintable() else "�" for ch in text)
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"


def summary_tables(summary: Mapping[str, Any]) -> list[RenderableType]:
    """The end of a run: before and after with intervals, and the same held-out problems answered before and after."""
    before, after = summary.get("before"), summary.get("after")
    if not before or not after:
        return []
    rates = Table(title="held-out problems", title_justify="left", box=None, padding=(0, 2), header_style="dim")
    for column in ("", "before", "after", "change"):
        rates.add_column(column, justify="left" if not column else "right")
    for label, first, last in _paired_rates(before, after):
        change = 100 * (last["value"] - first["value"])
        rates.add_row(label, percent(first), percent(last), Text(f"{change:+.1f}", style="bold"))
    problems = Table(title="three of them", title_justify="left", box=None, padding=(0, 2, 1, 0), header_style="dim")
    for column in ("problem", "right answer", "before", "after"):
        problems.add_column(column, overflow="fold")
    for first, last in zip(before["examples"], after["examples"], strict=True):
        problems.add_row(
            *(Text(str(cell)) for cell in (first["question"], first["gold"])), _answer(first), _answer(last)
        )
    return [rates, problems]


def _paired_rates(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    rows = [("greedy", before["greedy"], after["greedy"])] if before["greedy"] and after["greedy"] else []
    return rows + [
        (f"pass@{k}", before["pass_at"][k], after["pass_at"][k]) for k in before["pass_at"] if k in after["pass_at"]
    ]


def percent(rate: Mapping[str, float]) -> str:
    """``41.2 % [37.0, 45.5]``: a rate with its 95 % interval."""
    return f"{100 * rate['value']:.1f} % [{100 * rate['low']:.1f}, {100 * rate['high']:.1f}]"


def _answer(example: Mapping[str, Any]) -> Text:
    mark, style = {True: ("✓ ", "green"), False: ("✗ ", "red"), None: ("? ", "dim")}[example["correct"]]
    lines = [one_line(line, 60) for line in example["reply"].strip().split("\n")]
    shown = lines if len(lines) <= 8 else [*lines[:7], "…"]
    return Text("\n  ".join([mark + shown[0], *shown[1:]]), style=style)
