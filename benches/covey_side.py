"""Covey's side of ``vs_trl.py``: one job, in a process of its own. Times and counts are those of ``metrics.jsonl``."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from side import REWARDS, Job, Watch, fingerprints, read_job

from covey.config import make_config
from covey.loop.api import start
from covey.observe.run_folder import RunFolder
from covey.observe.view import SilentView
from covey.prompts.source import prompts_from_rows
from covey.rewards import FunctionReward, WeightedReward
from covey.types import CreditedGroup, StepRecord


class EnoughError(Exception):
    """Whoever compares has seen what they wanted."""


class Watching(SilentView):
    """Keeps the stopwatch, and shows the weights of each checkpoint before the next step begins."""

    def __init__(self, watch: Watch, folder: RunFolder) -> None:
        self.watch, self.folder = watch, folder

    def start(self, title: str, steps: int, done: int = 0) -> None:
        self.watch.begin()

    def stage(self, text: str) -> None:
        if text == "sampling" and self.watch.due:
            done = len(self.watch.steps)
            if not self.watch.go_on(self.folder.checkpoints / f"step-{done:06d}" / "model"):
                raise EnoughError

    def step(self, record: StepRecord, groups: Sequence[CreditedGroup]) -> None:
        found = record.metrics
        first = [group.scored.group.members[0] for group in groups]
        self.watch.lap(
            sample_s=found["seconds/sample"],
            train_s=found["seconds/train"],
            tokens=int(found["tokens/sampled"]),
            signal=found["group/ok"],
            reward=found["reward/mean"],
            prompts=fingerprints(member.tokens[~member.sampled] for member in first),
        )


def run(job: Job, watch: Watch, scratch: Path) -> None:
    """Train as the job says."""
    reward = REWARDS[job["reward"]]

    def noting(completions, answer):
        watch.loaded()  # rewards are tried once between loading the model and the first forward pass
        return reward(completions, answer)

    config = make_config({**job["config"], "run": {**job["config"]["run"], "dir": str(scratch / "run")}})
    folder = RunFolder(scratch / "run")
    try:
        start(
            config,
            prompts=prompts_from_rows(job["rows"]),
            rewards=[WeightedReward(reward=FunctionReward(noting, job["reward"]))],
            view=Watching(watch, folder),
        )
    except EnoughError:
        return
    if watch.due:
        watch.go_on(folder.final)


def main() -> None:
    job = read_job()
    watch = Watch(job)
    with tempfile.TemporaryDirectory() as scratch:
        run(job, watch, Path(scratch))
    watch.finish()


if __name__ == "__main__":
    main()
