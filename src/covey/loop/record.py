"""Writes a run folder while the loop runs."""

from __future__ import annotations

import gzip
import json
import math
import os
import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import transformers

import covey
from covey.checkpoint.store import write_folder
from covey.config import RunConfig, to_toml
from covey.errors import RunFolderError
from covey.loop.evaluate import Evaluation
from covey.observe.run_folder import RunFolder, read_lines
from covey.types import CreditedGroup, StepRecord


class Recorder:
    """The only writer of a run folder. Appends whole lines, so that a reader never meets half of one for long."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder

    @classmethod
    def create(cls, config: RunConfig, sandbox: Mapping[str, str] | None = None) -> Recorder:
        """Make a new run folder. ``sandbox``: the level at which each reward runs programs, if any does.

        Raises RunFolderError when ``run.dir`` already holds something.
        """
        stamp = time.strftime("%Y%m%d-%H%M%S")
        path = Path(config.run.dir) if config.run.dir else _free(Path("runs") / f"{config.run.name}-{stamp}")
        folder = RunFolder(path)
        if folder.config.exists():
            raise RunFolderError(
                f"{path} is already a run. Continue it with: covey resume {path}, or give another run.dir."
            )
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise RunFolderError(f"{path} exists and is not empty. Give another run.dir.")
        try:
            folder.rollouts.mkdir(parents=True)
        except OSError as error:
            raise RunFolderError(f"cannot make the run folder {path}: {error}") from error
        folder.environment.write_text(
            json.dumps({**environment(), "sandbox": dict(sandbox or {})}, indent=2) + "\n", encoding="utf-8"
        )
        folder.config.write_text(to_toml(config), encoding="utf-8")
        return cls(folder)

    @classmethod
    def reopen(cls, folder: RunFolder, step: int, steps: int) -> Recorder:
        """Go on with a run of ``steps`` whose newest checkpoint is of ``step``: what was recorded after it is dropped.

        So is the evaluation at the very end, which is made again.
        """
        # A step's line has the number it began with, an evaluation's the steps done: the first is one lower.
        for path, newest in ((folder.metrics, step - 1), (folder.evaluations, min(step, steps - 1))):
            kept = [line for line in read_lines(path) if line["step"] <= newest]
            write_text(path, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in kept))
        for shard in folder.rollouts.glob("step-*.jsonl.gz"):
            if int(shard.name[5:11]) >= step:
                shard.unlink()
        folder.summary.unlink(missing_ok=True)
        return cls(folder)

    def step(self, record: StepRecord, groups: Sequence[CreditedGroup]) -> None:
        """One line of metrics and one shard of rollouts."""
        target = self.folder.rollout_shard(record.step)
        aside = target.with_name(f".{target.name}")
        with gzip.open(aside, "wt", encoding="utf-8", compresslevel=1) as shard:
            for row in rollout_rows(record.step, groups):
                shard.write(json.dumps(row, ensure_ascii=False) + "\n")
        os.replace(aside, target)
        _append(self.folder.metrics, {"step": record.step, **_finite(record.metrics)})

    def evaluation(self, evaluation: Evaluation) -> None:
        """One line, with the example answers."""
        _append(self.folder.evaluations, evaluation.to_json())

    def summary(self, summary: Mapping[str, Any]) -> None:
        """The end of the run."""
        write_text(self.folder.summary, json.dumps(summary, indent=2, ensure_ascii=False) + "\n")

    def final(self, fill: Any) -> None:
        """The trained model, put in place at once."""
        write_folder(self.folder.final, fill)


def rollout_rows(step: int, groups: Sequence[CreditedGroup]) -> Iterator[dict[str, Any]]:
    """One mapping a response: text, reward and its parts, advantage, and the sampled tokens with their log-probs."""
    for number, group in enumerate(groups):
        prompt = group.scored.group.prompt
        scored = group.scored
        members = zip(scored.group.members, scored.scores, scored.trained, group.advantages, strict=True)
        for member, score, trained, advantage in members:
            drawn = member.sampled
            yield {
                "step": step,
                "group": number,
                "uid": prompt.uid,
                "sample": member.sample,
                "prompt": prompt.text,
                "answer": prompt.answer,
                "reply": member.reply,
                "reward": score.total,
                "correct": score.correct,
                "advantage": float(advantage[trained].mean()) if trained.any() else 0.0,
                "signal": group.signal,
                "parts": dict(score.parts),
                "why": dict(score.why),
                "error": score.error,
                "finish": member.finish,
                "version": member.version,
                "tokens": int(drawn.sum()),
                "token_ids": member.tokens[drawn].tolist(),
                "token_logps": [round(float(value), 5) for value in member.logp[drawn]],
            }


def environment() -> dict[str, Any]:
    """Versions and hardware, for whoever wants to repeat the run."""
    return {
        "covey": covey.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "platform": platform.platform(),
        "threads": torch.get_num_threads(),
        "gpus": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }


def write_text(path: Path, text: str) -> None:
    """Replace a file's content at once."""
    aside = path.with_name(f".{path.name}.tmp")
    aside.write_text(text, encoding="utf-8")
    os.replace(aside, path)


def _append(path: Path, line: Mapping[str, Any]) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line, ensure_ascii=False) + "\n")


def _finite(metrics: Mapping[str, float]) -> dict[str, float | None]:
    """NaN stands for "nothing to measure"; JSON has null for that."""
    return {name: value if math.isfinite(value) else None for name, value in metrics.items()}


def _free(path: Path) -> Path:
    """The path itself, or with a number behind it when two runs start in the same second."""
    return next(p for n in range(10_000) if not (p := path if n == 0 else path.with_name(f"{path.name}-{n}")).exists())
