"""``covey sandbox check``: how safely programs that models write can run here."""

from __future__ import annotations

import argparse
import json


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", choices=["check"], help="try to break out of each level of confinement")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")


def run(arguments: argparse.Namespace) -> int:
    """0 if L1 or L2 holds, which rewards ask for unless told otherwise."""
    from covey.sandbox.check import try_level

    reports = [try_level(level) for level in ("L1", "L2", "L3")]
    safe = next((report.level for report in reports if report.holds and report.level != "L3"), None)
    if arguments.json:
        found = {r.level: {"holds": r.holds, "problem": r.problem, "held": r.held} for r in reports}
        print(json.dumps({"level": safe, "levels": found}))
        return 0 if safe else 1
    names = dict.fromkeys(name for report in reports for name in report.held)
    print(f"{'a program tries to':<22}" + "".join(f"{report.level:>10}" for report in reports))
    for name in names:
        cells = ("" if name not in r.held else "held" if r.held[name] else "WORKED" for r in reports)
        print(f"{name:<22}" + "".join(f"{cell:>10}" for cell in cells))
    for report in reports:
        if report.problem:
            print(f"{report.level} cannot be used: {report.problem}")
    print(f"programs run at {safe}" if safe else "no level that holds: rewards that run programs refuse to start")
    return 0 if safe else 1
