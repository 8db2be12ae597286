"""What ``eval`` and ``sample`` are pointed at: a run folder, a run file, or a model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from covey.config import RunConfig, load_config, make_config


def config_of(target: str, overrides: Sequence[str]) -> RunConfig:
    """The configuration to measure ``target`` with.

    A run folder gives its own configuration with its trained model (the newest checkpoint while it is unfinished); a
    ``.toml`` file is a run file, whose starting model is meant; anything else is a model, with the default settings.
    """
    path = Path(target)
    if path.is_dir() and (path / "config.toml").is_file():
        return load_config(path / "config.toml", [f'model.path="{_trained(path)}"', *overrides])
    if path.suffix == ".toml":
        return load_config(path, overrides)
    return make_config({"model": {"path": target}}, overrides, where=target)


def _trained(run: Path) -> Path:
    from covey.checkpoint.store import CheckpointStore
    from covey.errors import RunFolderError
    from covey.observe.run_folder import RunFolder

    folder = RunFolder(run)
    if folder.final.is_dir():
        return folder.final
    store = CheckpointStore(folder.checkpoints, keep=1)
    if not store.steps():
        raise RunFolderError(f"{run} has neither a final model nor a checkpoint yet")
    newest = store.path(store.steps()[-1])
    return next((newest / name for name in ("model", "adapter") if (newest / name).is_dir()), newest / "model")
