"""``covey init [FILE] --profile trial|regular|thorough``: a commented run file with settings that are known to work."""

from __future__ import annotations

import argparse
from typing import Any

PROFILES: dict[str, dict[str, Any]] = {
    "trial": {
        "about": "Small groups: quick to see whether reward and prompts work at all; statistics are noisy.",
        "steps": 50, "save_every": 25, "group_size": 8, "prompts_per_step": 8, "temperature": 1.0,
        "max_new_tokens": 256, "lr": "5e-6", "clip": 0.2, "kl_coef": 0.01, "entropy_coef": 0.001, "warmup": 5,
        "eval_prompts": 100, "eval_every": 0,
        "why_group": "4 to 8 for quick trials: fast, but mean and spread of a group are noisy",
        "why_lr": "1e-6 to 5e-6; the upper end shows soon whether anything is learned",
        "why_clip": "0.1 to 0.2: how far one batch may move a token's probability",
        "why_kl": "0.01 to 0.04 against drifting from the starting model; 0 needs no reference and less memory",
        "why_entropy": "0.001 to 0.01 keeps some variety; too much and nothing is learned",
    },
    "regular": {
        "about": "Groups of 16: steady statistics at a fair cost. The place to start a real run.",
        "steps": 300, "save_every": 50, "group_size": 16, "prompts_per_step": 16, "temperature": 0.9,
        "max_new_tokens": 512, "lr": "2e-6", "clip": 0.2, "kl_coef": 0.02, "entropy_coef": 0.001, "warmup": 10,
        "eval_prompts": 200, "eval_every": 50,
        "why_group": "16 to 32 for regular runs: stable group statistics; go up if curves jitter",
        "why_lr": "1e-6 to 5e-6; lower it if the gradient norm jumps or entropy falls off a cliff",
        "why_clip": "0.1 to 0.2: how far one batch may move a token's probability",
        "why_kl": "0.01 to 0.04; kl/ref should settle between 0.01 and 0.5 a token",
        "why_entropy": "0.001 to 0.01; raise it if entropy crashes",
    },
    "thorough": {
        "about": "Groups of 64: the best baseline, and hard prompts still yield a right answer now and then. Costly.",
        "steps": 1000, "save_every": 100, "group_size": 64, "prompts_per_step": 32, "temperature": 1.0,
        "max_new_tokens": 512, "lr": "1e-6", "clip": 0.1, "kl_coef": 0.04, "entropy_coef": 0.001, "warmup": 20,
        "eval_prompts": 500, "eval_every": 100,
        "why_group": "64 and more for the last points: best statistics, returns diminish, cost is linear",
        "why_lr": "1e-6: large batches and long runs need no haste",
        "why_clip": "0.1: small steps for a long run",
        "why_kl": "0.04, the upper end of 0.01 to 0.04: a long run has time to drift",
        "why_entropy": "0.001 to 0.01; raise it if entropy crashes",
    },
}  # fmt: skip


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", nargs="?", default="run.toml", help="where to write (default run.toml)")
    parser.add_argument("--profile", choices=PROFILES, default="trial", help="how much to spend: groups of 8, 16 or 64")
    parser.add_argument("--model", default="tiny", help="folder, hub id, fetched name, or tiny")
    parser.add_argument(
        "--prompts", default="arithmetic", metavar="SOURCE", help="a data file, arithmetic, gym:TASK or hf:NAME"
    )
    parser.add_argument("--force", action="store_true", help="overwrite the file")


def run(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    from covey.errors import ConfigError

    path = Path(arguments.file)
    if path.is_dir():
        raise ConfigError(f"{str(path)!r} is a folder; give the name of a file")
    if path.exists() and not arguments.force:
        raise ConfigError(f"{path} exists already; choose another name or pass --force")
    if not path.parent.is_dir():
        raise ConfigError(f"folder {str(path.parent)!r} does not exist")
    path.write_text(starter(arguments.profile, arguments.model, arguments.prompts, path.name), encoding="utf-8")
    print(f"wrote {path} (profile {arguments.profile}). Start it with: covey train {path}")
    return 0


def starter(profile: str, model: str, prompts: str, file: str) -> str:
    """The text of a starter run file. The tiny model has its own limits: few positions, and steps it can afford."""
    import json
    from importlib.resources import files

    values = dict(PROFILES[profile])
    if model == "tiny":
        values |= {"max_new_tokens": 80, "lr": "3e-4"}
        values["why_lr"] = "for the tiny model; real pretrained models want 1e-6 to 5e-6"
    has_splits = prompts == "arithmetic" or prompts.startswith(("gym:", "hf:"))
    values["holdout"] = "# holdout = 200  " if has_splits else "holdout = 20     "
    template = (files("covey.cli") / "starter" / "run.toml").read_text(encoding="utf-8")
    quoted = {key: json.dumps(text)[1:-1] for key, text in (("model", model), ("source", prompts))}
    return template.format(profile=profile, file=file, name=profile, **quoted, **values)
