"""The run folder: what lies where, and how to read it without torch.

config.toml         the configuration as used
environment.json    versions, device, threads
metrics.jsonl       one line a step
evaluations.jsonl   one line an evaluation, with examples
rollouts/           step-000000.jsonl.gz: one line a response
checkpoints/        step-000050/: weights, optimizer, counters
final/              the trained model, an ordinary Hugging Face folder; a trained adapter also apart, in adapter/
summary.json        before and after, written at the end
"""

from __future__ import annotations

import contextlib
import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from covey.errors import MissingExtraError, RunFolderError

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, slots=True)
class RunFolder:
    """Paths and readers of one run."""

    path: Path

    @property
    def config(self) -> Path:
        return self.path / "config.toml"

    @property
    def environment(self) -> Path:
        return self.path / "environment.json"

    @property
    def metrics(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def evaluations(self) -> Path:
        return self.path / "evaluations.jsonl"

    @property
    def rollouts(self) -> Path:
        return self.path / "rollouts"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def final(self) -> Path:
        return self.path / "final"

    @property
    def summary(self) -> Path:
        return self.path / "summary.json"

    def rollout_shard(self, step: int) -> Path:
        return self.rollouts / f"step-{step:06d}.jsonl.gz"

    def read_metrics(self) -> list[dict[str, Any]]:
        """One mapping a step: ``step`` and the names of covey.metrics.names."""
        return list(read_lines(self.metrics))

    def read_evaluations(self) -> list[dict[str, Any]]:
        """One mapping an evaluation, in the order they were made."""
        return list(read_lines(self.evaluations))

    def read_summary(self) -> dict[str, Any]:
        """Before and after. Raises RunFolderError if the run has not finished."""
        if not self.summary.is_file():
            raise RunFolderError(f"{self.path} has no summary.json: the run has not finished. See metrics.jsonl there.")
        return json.loads(self.summary.read_text(encoding="utf-8"))


def open_run(path: str | Path) -> RunFolder:
    """A folder that holds a run. Raises RunFolderError if it does not."""
    folder = RunFolder(Path(path))
    if not folder.config.is_file():
        raise RunFolderError(f"{path} is not a run folder: it has no config.toml")
    return folder


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """JSON objects of a file, one a line; a last line that was cut off by a crash is left out."""
    if not path.is_file():
        return
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as lines, contextlib.suppress(EOFError):  # a shard that was cut off
        for line in lines:
            if line.endswith("\n"):
                yield json.loads(line)


def read_rollouts(path: str | Path) -> pandas.DataFrame:
    """All responses of a run as one table, a row a response. Raises MissingExtraError without pandas."""
    try:
        import pandas
    except ImportError as error:
        raise MissingExtraError("pandas", "frames", "Reading rollouts as a table") from error
    shards = sorted(open_run(path).rollouts.glob("*.jsonl.gz"))
    return pandas.DataFrame([row for shard in shards for row in read_lines(shard)])
