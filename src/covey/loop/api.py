"""Training from Python: the same run as from a run file, in a few lines."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from covey.config import PromptsSection, RunConfig, load_config, make_config, section_of
from covey.errors import ConfigError, RunFolderError
from covey.loop.build import build
from covey.loop.components import GIVEN, make_component
from covey.loop.lockstep import Run
from covey.loop.preflight import check_agreement, check_rewards
from covey.loop.record import Recorder
from covey.observe.run_folder import RunFolder, open_run
from covey.observe.view import View, make_view
from covey.prompts.source import prompts_from_rows
from covey.rewards import REWARDS, WeightedReward, is_rubric, own_reward
from covey.types import Prompt

RewardLike = str | Callable[..., Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """A finished run: its folder and what ``summary.json`` says."""

    folder: RunFolder
    summary: Mapping[str, Any]

    @property
    def model(self) -> Path:
        """The trained model, an ordinary Hugging Face folder."""
        return self.folder.final


def train(
    model: str = "tiny",
    prompts: str | Sequence[Prompt | Mapping[str, Any] | str] = "arithmetic",
    reward: RewardLike | Sequence[RewardLike] | None = None,
    *,
    quiet: bool = False,
    **settings: Any,
) -> RunResult:
    """Train and return the result. Works in scripts and notebooks.

    ``prompts`` is a source as in the run file, or rows: strings, or mappings with ``prompt``, optionally ``answer``
    and any columns the reward takes. ``reward`` is a name, a function with TRL's signature, an object with
    ``score_group``, or a list of them. Every other setting is a field of the run file by its own name where that is
    unique (``group_size=8``), a section's part by the section (``advantage="rloo"``), else dotted
    (``**{"loss.clip_high": 0.28}``). ``reward.parts`` may be given so in place of ``reward``. Raises the CoveyError
    that the command line would print.
    """
    data: dict[str, Any] = {"model": {"path": model}}
    for name, value in settings.items():
        section, _, field = section_of(name).partition(".")
        data.setdefault(section, {})[field] = value
    given_parts = "parts" in data.get("reward", {})
    if reward is not None and given_parts:
        raise ConfigError("reward and reward.parts say the same thing; give one of them")
    rewards = _listed("exact_number" if reward is None else reward)
    weighted = None if all(isinstance(item, str) for item in rewards) else [_weighted(item) for item in rewards]
    data.setdefault("prompts", {})["source"] = prompts if isinstance(prompts, str) else GIVEN
    if not given_parts:
        names = rewards if weighted is None else [f"{GIVEN}:{item.reward.name}" for item in weighted]
        data.setdefault("reward", {})["parts"] = names
    config = make_config(data)
    given = None if isinstance(prompts, str) else _prompts(prompts, config.prompts)
    return start(config, prompts=given, rewards=weighted, view=make_view(quiet=quiet))


def _listed(reward: RewardLike | Sequence[RewardLike]) -> list[RewardLike]:
    return [reward] if isinstance(reward, str) or not isinstance(reward, Sequence) else list(reward)


def _prompts(rows: Sequence[Prompt | Mapping[str, Any] | str], section: PromptsSection) -> list[Prompt]:
    made = [row for row in rows if isinstance(row, Prompt)]
    if made and len(made) < len(rows):
        raise ConfigError("prompts mixes Prompt objects with rows; give one kind")
    return made or prompts_from_rows(
        [row for row in rows if not isinstance(row, Prompt)],
        prompt_column=section.prompt_column,
        answer_column=section.answer_column,
        style=section.style,
        system=section.system,
    )


def _weighted(reward: RewardLike) -> WeightedReward:
    if isinstance(reward, str):
        return WeightedReward(reward=make_component("reward", REWARDS, reward, {}))
    if is_rubric(reward):  # first: it may have a score_group that means something else
        return WeightedReward(reward=own_reward(reward, {}))
    if hasattr(reward, "score_group") or hasattr(reward, "score_after"):
        return WeightedReward(reward=reward)  # type: ignore[arg-type]
    if not callable(reward):
        raise ConfigError(f"reward {reward!r} is neither a name, a function nor an object with score_group")
    return WeightedReward(reward=own_reward(reward, {}))


def start(
    config: RunConfig,
    *,
    prompts: Sequence[Prompt] | None = None,
    rewards: Sequence[WeightedReward] | None = None,
    view: View | None = None,
) -> RunResult:
    """Build, check, then make the run folder and train. Nothing is written before everything has been checked."""

    async def run() -> RunResult:
        workshop = build(config, prompts, rewards)
        await check_rewards(workshop)
        await check_agreement(workshop)
        run = Run(workshop, Recorder.create(config, workshop.scorer.confinement()), view or make_view())
        return RunResult(folder=run.recorder.folder, summary=await run.train())

    return run_async(run())


def resume(
    path: str | Path,
    *,
    prompts: Sequence[Prompt | Mapping[str, Any] | str] | None = None,
    reward: RewardLike | Sequence[RewardLike] | None = None,
    quiet: bool = False,
) -> RunResult:
    """Continue a run from its newest checkpoint. Raises RunFolderError if it has none or has finished.

    Prompts and rewards that were given to :func:`train` in Python must be given again; the run folder cannot hold them.
    """
    folder = open_run(path)
    if folder.summary.is_file():
        raise RunFolderError(f"{path} has finished all its steps; see {folder.summary}")
    config = load_config(folder.config)
    given = None if prompts is None else _prompts(prompts, config.prompts)
    rewards = None if reward is None else [_weighted(item) for item in _listed(reward)]

    async def run() -> RunResult:
        run = Run(build(config, given, rewards), Recorder(folder), make_view(quiet=quiet))
        run.restore()
        run.recorder = Recorder.reopen(folder, run.step, config.run.steps)
        return RunResult(folder=folder, summary=await run.train())

    return run_async(run())


def run_async(coroutine: Coroutine[Any, Any, RunResult]) -> RunResult:
    """Run to the end, also where an event loop is already running, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    outcome: list[RunResult | BaseException] = []

    def target() -> None:
        try:
            outcome.append(asyncio.run(coroutine))
        except BaseException as error:  # handed on to the caller's thread
            outcome.append(error)

    thread = threading.Thread(target=target)
    thread.start()
    thread.join()
    if isinstance(outcome[0], BaseException):
        raise outcome[0]
    return outcome[0]
