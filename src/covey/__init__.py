"""Covey trains language models with group-relative policy optimization (GRPO).

One prompt, a covey of responses, each judged against its siblings:

    import covey
    result = covey.train(model="tiny", prompts="arithmetic", reward="exact_number", group_size=8, steps=20)
    result.summary["after"]

Importing this package loads neither torch nor transformers; they come with the first call that needs them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from covey.loop.api import RunResult, resume, train
    from covey.observe.run_folder import open_run, read_rollouts

__all__ = ["RunResult", "__version__", "open_run", "read_rollouts", "resume", "train"]

_HOMES = {
    "RunResult": "covey.loop.api",
    "open_run": "covey.observe.run_folder",
    "read_rollouts": "covey.observe.run_folder",
    "resume": "covey.loop.api",
    "train": "covey.loop.api",
}


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    import importlib

    if name not in _HOMES:
        raise AttributeError(f"module 'covey' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
