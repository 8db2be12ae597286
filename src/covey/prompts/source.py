"""One name for every kind of prompts: ``arithmetic``, ``gym:TASK``, ``hf:owner/name``, or a path."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from covey.errors import PromptError
from covey.prompts.base import RowRule, Style
from covey.types import Prompt


def load_prompts(
    source: str,
    *,
    split: str,
    prompt_column: str = "prompt",
    answer_column: str | None = None,
    style: Style = "chat",
    system: str | None = None,
    limit: int | None = None,
    options: Mapping[str, Any] | None = None,
) -> list[Prompt]:
    """The first ``limit`` prompts of a source's split, or all of them.

    ``split`` is for sources that have splits; a single file is read whole whatever it says. Columns are for rows, that
    is for files and ``hf:``; ``options`` are for ``gym:`` tasks. Raises PromptError that says what to mend, or
    MissingExtraError where the source needs a library that is not installed.
    """
    if limit is not None and limit < 1:
        raise PromptError(f"prompts.limit is {limit}, expected at least 1")
    if options and not source.startswith("gym:"):
        raise PromptError(f"prompts.options are for gym: tasks; {source!r} takes none, got {sorted(options)}")
    rule = RowRule(prompt_column=prompt_column, answer_column=answer_column, style=style, system=system)
    if source == "arithmetic":
        return [rule.dress(prompt) for prompt in _arithmetic(split)[:limit]]
    if source.startswith("gym:"):
        from covey.prompts.gym import gym_prompts

        found = gym_prompts(source.removeprefix("gym:"), split, options)
        return [rule.dress(prompt) for prompt in found[:limit]]
    from covey.prompts.dataset import read_hub, read_rows

    if source.startswith("hf:"):
        return rule.read(islice(read_hub(source.removeprefix("hf:"), split), limit), source)
    return rule.read(islice(read_rows(Path(source), split), limit), Path(source).stem, where=source)


def prompts_from_rows(
    rows: Iterable[str | Mapping[str, Any]],
    *,
    prompt_column: str = "prompt",
    answer_column: str | None = None,
    style: Style = "chat",
    system: str | None = None,
    name: str = "rows",
) -> list[Prompt]:
    """Prompts from Python: strings, or mappings with ``prompt``, optionally ``answer`` and any further columns.

    Raises PromptError naming the row for whatever cannot be read.
    """
    if isinstance(rows, str | Mapping):
        raise PromptError(f"expected a list of prompts, got one {type(rows).__name__}; put it into a list")
    rule = RowRule(prompt_column=prompt_column, answer_column=answer_column, style=style, system=system)
    named = [{prompt_column: row} if isinstance(row, str) else row for row in rows]
    return rule.read(named, name)


def _arithmetic(split: str) -> list[Prompt]:
    from covey.prompts.arithmetic import SPLITS, prompts

    if split not in SPLITS:
        raise PromptError(f"arithmetic has the splits {', '.join(SPLITS)}, not {split!r}")
    return prompts(split)
