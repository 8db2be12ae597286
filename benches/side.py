"""What both sides of a comparison share: the job, a stopwatch, memory, rewards, and talking to whoever compares.

Imports neither torch nor transformers, so that it works in TRL's environment with Covey's ``src`` on the path.

A side is a script with one argument, a JSON file that :mod:`workloads` wrote. It writes JSON lines to its standard
output: questions (``folder``, ``step``, ``seconds``, ``tokens``), each answered by a line ``go`` or ``stop``, then one
``result``. Whatever a library prints goes to standard error.
"""

from __future__ import annotations

import json
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from covey.rewards.exact_number import ExactNumber
from covey.types import Prompt

Job = dict[str, Any]


def read_job() -> Job:
    """The job named on the command line. From here on only :class:`Watch` writes to standard output."""
    return json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))


class Watch:
    """What a run did, step by step. A step lasts from the end of the one before to its own end, less the pauses."""

    def __init__(self, job: Job) -> None:
        self.every: int = job["every"]
        self.steps: list[dict[str, Any]] = []
        self.loaded_mib: float | None = None
        self.out, sys.stdout = sys.stdout, sys.stderr

    def begin(self) -> None:
        """Set the stopwatch going."""
        self.since = time.perf_counter()

    def loaded(self) -> None:
        """Note the memory after the model was loaded; only the first call counts."""
        if self.loaded_mib is None:
            self.loaded_mib = memory_mib("VmRSS")

    def lap(self, **numbers: Any) -> None:
        """The end of a step, with what else is known of it."""
        now = time.perf_counter()
        self.steps.append({"step_s": now - self.since, **numbers})
        self.since = now

    @property
    def due(self) -> bool:
        """Whether the weights are to be shown now."""
        return bool(self.every and self.steps) and len(self.steps) % self.every == 0

    def go_on(self, folder: Path) -> bool:
        """Show the weights in ``folder`` and wait for the answer; the time since the last lap is not counted."""
        seconds, tokens = (sum(step[name] for step in self.steps) for name in ("step_s", "tokens"))
        self._say({"folder": str(folder), "step": len(self.steps), "seconds": seconds, "tokens": tokens})
        answer = sys.stdin.readline().strip()
        self.begin()
        return answer == "go"

    def finish(self) -> None:
        """The last line."""
        memory = {"loaded_mib": self.loaded_mib, "peak_mib": memory_mib("VmHWM")}
        self._say({"result": {"steps": self.steps, **memory}})

    def _say(self, message: dict[str, Any]) -> None:
        print(json.dumps(message), file=self.out, flush=True)


def memory_mib(name: str) -> float | None:
    """``VmRSS``, resident memory now, or ``VmHWM``, its peak; None where the system does not tell.

    Not ``getrusage``: a fresh process inherits the peak of the one that started it.
    """
    status = Path("/proc/self/status")
    lines = status.read_text(encoding="utf-8").splitlines() if status.is_file() else []
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{name}:")), None)


def fingerprints(prompts: Iterable[Sequence[int]]) -> list[int]:
    """One number for the token ids of each prompt, to see that both sides asked the same."""
    return [zlib.crc32(",".join(str(int(token)) for token in tokens).encode()) for tokens in prompts]


def contains(completions: Sequence[Any], answer: Sequence[str], **_: Any) -> list[float]:
    """1 if the answer stands anywhere in the reply."""
    return [float(gold in reply[0]["content"]) for reply, gold in zip(completions, answer, strict=True)]


def exact_number(completions: Sequence[Any], answer: Sequence[str], **_: Any) -> list[float]:
    """Covey's reward of that name."""
    judge = ExactNumber().judge
    pairs = zip(completions, answer, strict=True)
    parts = [judge(Prompt(uid="", messages=(), answer=gold), reply[0]["content"]) for reply, gold in pairs]
    return [float(part.value or 0.0) for part in parts]


REWARDS: dict[str, Callable[..., list[float]]] = {"contains": contains, "exact_number": exact_number}
