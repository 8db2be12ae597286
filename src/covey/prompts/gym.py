"""Every reasoning-gym task by name: ``gym:chain_sum``."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from covey.errors import MissingExtraError, PromptError, did_you_mean
from covey.types import Message, Prompt

SPLITS = ("test", "dev", "train")  # in the order of drawing: a held-out question is left out of what follows
DEFAULT_SIZE = {"train": 1000, "dev": 200, "test": 200}
INSTRUCTION = "Give the final answer inside <answer></answer>."


def gym_prompts(task: str, split: str, options: Mapping[str, Any] | None = None) -> list[Prompt]:
    """Prompts of a task. Splits come from unrelated seeds, and no question is in two splits or in one split twice.

    ``options`` go to the task, except ``seed`` (default 0), which picks another draw of all splits, and ``size``: how
    many train questions are drawn, before repeated and held-out ones are left out. The row that the task's own verifier
    needs is in ``columns["entry"]``. Raises PromptError for an unknown task, split or option, MissingExtraError
    without reasoning-gym.
    """
    if split not in SPLITS:
        raise PromptError(f"gym:{task} has the splits train, dev, test, not {split!r}")
    knobs = dict(options or {})
    seed = _integer(task, "seed", knobs.pop("seed", 0), least=0)
    sizes = {**DEFAULT_SIZE, "train": _integer(task, "size", knobs.pop("size", DEFAULT_SIZE["train"]), least=1)}
    taken: set[str] = set()
    rows: dict[int, Mapping[str, Any]] = {}
    for number, name in enumerate(SPLITS):
        # not seed + constant: a task's row i is drawn from its seed plus i, so near seeds give almost the same rows
        draw = int(np.random.SeedSequence([seed, number]).generate_state(1)[0] >> 1)
        rows = {}
        for index, row in enumerate(_entries(task, sizes[name], draw, knobs)):
            if row["question"] not in taken:
                taken.add(row["question"])
                rows[index] = row
        if name == split:
            break
    if not rows:
        raise PromptError(
            f"gym:{task}: all {sizes[split]} {split} questions are in a held-out split; give prompts.options that "
            "allow more different questions"
        )
    return [_prompt(task, split, index, row) for index, row in rows.items()]


def _integer(task: str, name: str, value: Any, least: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise PromptError(
            f"gym:{task}: prompts.options.{name} is {value!r}, expected a whole number of at least {least}"
        )
    return value


def _prompt(task: str, split: str, index: int, row: Mapping[str, Any]) -> Prompt:
    answer = row.get("answer")  # None where many answers are right and only the verifier can tell
    return Prompt(
        uid=f"gym-{task}-{split}-{index}",
        messages=(Message(role="user", content=f"{row['question']}\n{INSTRUCTION}"),),
        answer=None if answer is None else str(answer),
        columns={"entry": dict(row)},
        task=f"gym:{task}",
    )


def _entries(task: str, size: int, seed: int, options: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the library and what it imports; nothing of ours runs in here
        try:
            import reasoning_gym
            from reasoning_gym.factory import DATASETS
        except ImportError as error:
            raise MissingExtraError("reasoning-gym", "gym", f"The task gym:{task}") from error
        if task not in DATASETS:
            raise PromptError(f"reasoning-gym has no task {task!r}.{did_you_mean(task, DATASETS)}")
        try:
            data = reasoning_gym.create_dataset(task, size=size, seed=seed, **options)
            return [data[i] for i in range(size)]
        except Exception as error:  # a hundred tasks raise many kinds for options that do not fit
            raise PromptError(
                f"gym:{task} does not take prompts.options = {dict(options)}: {type(error).__name__}: {error}"
            ) from error
