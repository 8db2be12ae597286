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
    """All prompts of a source's split, at most ``limit``. Raises PromptError that says what to mend."""
    if options and not source.startswith("gym:"):
        raise PromptError(f"prompts.options are for gym: tasks; {source!r} takes none, got {sorted(options)}")
    if source == "arithmetic":
        return _arithmetic(split)[:limit]
    if source.startswith("gym:"):
        from covey.prompts.gym import gym_prompts

        return gym_prompts(source.removeprefix("gym:"), split, options or {}, system, style == "plain")[:limit]
    from covey.prompts.dataset import read_hub, read_rows

    rule = RowRule(prompt_column=prompt_column, answer_column=answer_column, style=style, system=system)
    if source.startswith("hf:"):
        rows, name = read_hub(source.removeprefix("hf:"), split), source
    else:
        rows, name = read_rows(Path(source), split), Path(source).stem
    return rule.read(islice(rows, limit), name)


def prompts_from_rows(rows: Iterable[Any], *, style: Style = "chat", name: str = "rows") -> list[Prompt]:
    """Prompts from Python: strings, or mappings with ``prompt``, optionally ``answer`` and any further columns."""
    named = [{"prompt": row} if isinstance(row, str) else row for row in rows]
    return RowRule(style=style).read(named, name)


def _arithmetic(split: str) -> list[Prompt]:
    from covey.prompts.arithmetic import SPLITS, prompts

    if split not in SPLITS:
        raise PromptError(f"arithmetic has the splits {', '.join(SPLITS)}, not {split!r}")
    return prompts(split)
