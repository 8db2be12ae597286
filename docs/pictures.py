"""Draws the README's picture from a real run of the demo:  python docs/pictures.py

Writes docs/images/demo.svg: the live view in the middle of the run, and what is printed at its end.
"""

from __future__ import annotations

import io
import re
import tempfile
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from rich.console import Console

from covey.config import load_config
from covey.loop.api import start
from covey.observe.view import LiveView, summary_tables
from covey.types import CreditedGroup, StepRecord

MIDDLE = 40  # the step whose panel is drawn


class Camera(LiveView):
    """A live view that nobody sees; it keeps the panel of one step."""

    def __init__(self) -> None:
        super().__init__(recording_console())
        self.panel = recording_console()

    def start(self, title: str, steps: int, done: int = 0) -> None:
        self.title, self.steps, self.done = "covey · runs/demo", steps, done

    def step(self, record: StepRecord, groups: Sequence[CreditedGroup]) -> None:
        super().step(record, groups)
        if record.step == MIDDLE:
            self.panel.print(self._render())


def recording_console() -> Console:
    return Console(record=True, file=io.StringIO(), width=112, force_terminal=True, color_system="truecolor")


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        config = load_config(str(files("covey.recipes") / "demo.toml"), [f'run.dir="{scratch}/demo"'])
        camera = Camera()
        summary = start(config, view=camera).summary
    for table in summary_tables(summary):
        camera.panel.print()
        camera.panel.print(table)
    svg = camera.panel.export_svg(title="covey demo")
    svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)  # no font from elsewhere: any monospace will do
    target = Path(__file__).parent / "images" / "demo.svg"
    target.parent.mkdir(exist_ok=True)
    target.write_text(svg, encoding="utf-8")
    print(target)


if __name__ == "__main__":
    main()
