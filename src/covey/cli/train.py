"""``covey train RUN.toml [section.key=value ...]``"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run_file", help="a TOML run file; covey init writes one")
    parser.add_argument("overrides", nargs="*", metavar="section.key=value", help="e.g. loss.clip_high=0.28")


def run(arguments: argparse.Namespace) -> int:
    from covey.config import load_config
    from covey.loop.api import start

    config = load_config(arguments.run_file, arguments.overrides)
    report(start(config).summary)
    return 0


def report(summary: Mapping[str, Any]) -> None:
    """Print what a finished run achieved and where everything lies."""
    from rich.console import Console

    from covey.observe.view import summary_tables

    console = Console(soft_wrap=False)
    for table in summary_tables(summary):
        console.print()
        console.print(table)
    console.print()
    lines = {
        "run folder": summary["dir"],
        "trained model": summary["model"],
        "cost": f"{summary['steps']} steps, {summary['tokens']} sampled tokens, {summary['seconds']:.0f} s",
        "ask it": f"covey sample {summary['dir']} QUESTION",
    }
    for name, value in lines.items():
        console.print(f"{name:<14} {value}", markup=False, highlight=False, soft_wrap=True)
