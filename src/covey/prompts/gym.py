"""Every reasoning-gym task by name: ``gym:chain_sum``."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from covey.errors import MissingExtraError, PromptError, did_you_mean
from covey.types import Message, Prompt

SEEDS = {"train": 1_000_003, "dev": 2_000_003, "test": 3_000_017}
DEFAULT_SIZE = {"train": 1000, "dev": 200, "test": 200}
INSTRUCTION = "Give the final answer inside <answer></answer>."


def gym_prompts(task: str, split: str, options: Mapping[str, Any], system: str | None, plain: bool) -> list[Prompt]:
    """Prompts of a task. Splits are drawn from different seeds, and no question of test is in dev or train.

    ``options`` go to the task; ``size`` (train prompts) and ``seed`` shift the draw. The row that the task's own
    verifier needs is in ``columns["entry"]``. Raises PromptError for an unknown task or option.
    """
    if split not in SEEDS:
        raise PromptError(f"gym:{task} has the splits {', '.join(SEEDS)}, not {split!r}")
    knobs = dict(options)
    seed = int(knobs.pop("seed", 0))
    size = int(knobs.pop("size", DEFAULT_SIZE["train"]))
    sizes = {**DEFAULT_SIZE, "train": size}
    taken: set[str] = set()
    found: list[tuple[int, Mapping[str, Any]]] = []
    for name in ("test", "dev", "train"):  # held-out first, so that their questions are left out of what follows
        rows = enumerate(_entries(task, sizes[name], SEEDS[name] + seed, knobs))
        fresh = [(number, row) for number, row in rows if row["question"] not in taken]
        found = list({row["question"]: (number, row) for number, row in reversed(fresh)}.values())[::-1]
        if name == split:
            break
        taken |= {row["question"] for _, row in found}
    if not found:
        raise PromptError(
            f"gym:{task}: all {sizes[split]} {split} questions are in a held-out split; widen the options"
        )
    return [_prompt(task, split, number, row, system, plain) for number, row in found]


def _prompt(task: str, split: str, number: int, row: Mapping[str, Any], system: str | None, plain: bool) -> Prompt:
    question = Message(role="user", content=f"{row['question']}\n{INSTRUCTION}")
    first = (Message(role="system", content=system),) if system else ()
    answer = row.get("answer")
    return Prompt(
        uid=f"gym-{task}-{split}-{number}",
        messages=(*first, question),
        answer=None if answer is None else str(answer),
        columns={"entry": dict(row)},
        task=f"gym:{task}",
        plain=plain,
    )


def _entries(task: str, size: int, seed: int, options: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the library's own imports
            import reasoning_gym
            from reasoning_gym.factory import DATASETS
    except ImportError as error:
        raise MissingExtraError("reasoning-gym", "gym", f"The task gym:{task}") from error
    if task not in DATASETS:
        raise PromptError(f"reasoning-gym has no task {task!r}.{did_you_mean(task, DATASETS)}")
    try:
        data = reasoning_gym.create_dataset(task, size=size, seed=seed, **options)
        return [data[i] for i in range(size)]
    except (TypeError, AssertionError, ValueError) as error:
        raise PromptError(f"gym:{task} does not take prompts.options = {dict(options)}: {error}") from error
