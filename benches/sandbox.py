"""How many programs a second the sandbox runs, warm, and how long one takes: at each level that holds here.

    python benches/sandbox.py [--workers 2] [--seconds 10] [--json]

``run`` is a program that prints a line, ``function`` one whose function is called five times, ``asserts`` the same by
three assert statements, for which two sandboxes talk to each other, ``wrong`` the reward ``code`` over a group of
wrong, right and endless programs (time limit 1 s). ``plain`` is a bare ``python -c`` without any confinement.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from covey.rewards import CodeTests, ScoreContext
from covey.rewards.programs.cases import Asserted, Called, Cases
from covey.rewards.programs.grade import Grader
from covey.sandbox.check import try_level
from covey.sandbox.limits import Limits
from covey.sandbox.sandbox import Level, Sandbox
from covey.testing.samples import make_prompt, make_trajectory
from covey.types import Group

DOUBLE = "def double(n):\n    return 2 * n\n"
CALLED = Cases(called=tuple(Called("double", (n,), 2 * n) for n in range(5)))
ASSERTED = Cases(asserted=Asserted("", tuple(f"assert double({n}) == {2 * n}" for n in range(3))))


def rate(call: Callable[[], Any], workers: int, seconds: float) -> dict[str, float]:
    """Calls a second with so many threads, and the median time of one in milliseconds."""
    call()
    times: list[float] = []
    stop = time.perf_counter() + seconds

    def work(_: int) -> None:
        while time.perf_counter() < stop:
            began = time.perf_counter()
            call()
            times.append(time.perf_counter() - began)

    began = time.perf_counter()
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(work, range(workers)))
    return {"per_s": len(times) / (time.perf_counter() - began), "median_ms": 1000 * statistics.median(times)}


def measure(level: Level, workers: int, seconds: float) -> dict[str, dict[str, float]]:
    """All kinds at one level."""
    sandbox = Sandbox(level, workers)
    grader = Grader(sandbox, Limits(), None, 1e-6)
    kinds: dict[str, Callable[[], Any]] = {
        "run": lambda: expect(sandbox.run("print(2 * 21)").stdout, b"42\n"),
        "function": lambda: expect(grader(DOUBLE, CALLED).passed, 5),
        "asserts": lambda: expect(grader(DOUBLE, ASSERTED).passed, 3),
    }
    found = {name: rate(call, workers, seconds) for name, call in kinds.items()}
    sandbox.close()
    return found


def expect(value: object, expected: object) -> None:
    """A bench of wrong answers would be of no use."""
    if value != expected:
        raise SystemExit(f"{value!r} instead of {expected!r}")


def step(workers: int) -> dict[str, float]:
    """A step's worth of programs through the reward: 64, of which 4 never end."""
    replies = [DOUBLE, "def double(n):\n    return n + 1\n", "def double(n):\n    return 2 * n + n\n", DOUBLE] * 15
    replies += ["def double(n):\n    while True: pass\n"] * 4
    tests = [{"function": "double", "args": [n], "expected": 2 * n} for n in (1, 3, 8)]
    members = tuple(make_trajectory("p", i, reply=f"```python\n{text}```") for i, text in enumerate(replies))
    group = Group(prompt=make_prompt(tests=tests), members=members)
    reward = CodeTests(seconds=1.0, workers=workers)
    asyncio.run(reward.score_group(group, ScoreContext()))
    began = time.perf_counter()
    parts = asyncio.run(reward.score_group(group, ScoreContext()))
    expect(sum(part.value or 0 for part in parts), 30.0)
    return {"seconds": time.perf_counter() - began, "programs": len(replies)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=10.0, help="a kind")
    parser.add_argument("--json", action="store_true", help="one object a line")
    args = parser.parse_args()
    plain = rate(
        lambda: subprocess.run([sys.executable, "-c", "print(42)"], check=True, capture_output=True),
        args.workers, args.seconds,
    )  # fmt: skip
    show("none", {"plain": plain}, args.json)
    levels: tuple[Level, ...] = ("L1", "L2")
    for level in levels:
        if try_level(level).holds:
            show(level, measure(level, args.workers, args.seconds), args.json)
    show("best", {"wrong": step(args.workers)}, args.json)


def show(level: str, found: dict[str, dict[str, float]], as_json: bool) -> None:
    """One line a kind."""
    for kind, numbers in found.items():
        row = {"level": level, "kind": kind, **numbers}
        shown = ", ".join(f"{name} {value:.1f}" for name, value in numbers.items())
        print(json.dumps(row) if as_json else f"{level:5} {kind:9} {shown}", flush=True)


if __name__ == "__main__":
    main()
