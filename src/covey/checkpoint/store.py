"""Checkpoints on disk: a folder a step, complete or absent, never in between."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

_NAME = re.compile(r"step-(\d+)")


def write_folder(target: Path, fill: Callable[[Path], None]) -> None:
    """Let ``fill`` write into a folder aside, then put it in place of ``target`` in one rename.

    A crash before the rename leaves ``target`` as it was; the half-written folder's name starts with a dot.
    """
    aside = target.with_name(f".{target.name}.tmp")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    try:
        fill(aside)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    for file in sorted(aside.rglob("*")):
        if file.is_file():
            with file.open("rb") as handle:
                os.fsync(handle.fileno())
    if target.exists():
        old = target.with_name(f".{target.name}.old")
        shutil.rmtree(old, ignore_errors=True)
        target.rename(old)
        aside.rename(target)
        shutil.rmtree(old)
    else:
        aside.rename(target)


class CheckpointStore:
    """The checkpoints of one run, ``step-000050`` and so on; only the newest ``keep`` stay."""

    def __init__(self, folder: Path, keep: int) -> None:
        self.folder = folder
        self.keep = keep

    def steps(self) -> list[int]:
        """Steps that have a complete checkpoint, oldest first."""
        if not self.folder.is_dir():
            return []
        names = (_NAME.fullmatch(path.name) for path in self.folder.iterdir() if (path / "state.json").is_file())
        return sorted(int(match.group(1)) for match in names if match)

    def path(self, step: int) -> Path:
        return self.folder / f"step-{step:06d}"

    def save(self, step: int, fill: Callable[[Path], None]) -> Path:
        """Write the checkpoint of ``step`` and remove those beyond ``keep``."""
        write_folder(self.path(step), fill)
        for old in self.steps()[: -self.keep]:
            shutil.rmtree(self.path(old))
        return self.path(step)
