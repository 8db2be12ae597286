"""From a run file to live objects. Everything that can be wrong is found here, before anything is written."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from covey.advantages import Advantage
from covey.advantages.base import needs_of
from covey.advantages.shape import Shaping
from covey.config import RunConfig
from covey.controllers import PassRates
from covey.engines.hf import HFEngine
from covey.errors import PromptError
from covey.kernels.memory import keep_freed_memory
from covey.learner.learner import Learner
from covey.learner.lora import Adapter
from covey.learner.model import Policy, load_policy
from covey.loop.components import (
    GIVEN,
    make_adapter,
    make_advantage,
    make_controls,
    make_graders,
    make_learner,
    make_objective,
    make_scorer,
    make_shaping,
    make_strategy,
)
from covey.loop.controls import Controls
from covey.loop.strategies import Strategy
from covey.loop.watch import Watch
from covey.prompts.cursor import Cursor
from covey.prompts.source import load_prompts
from covey.rewards import Scorer, WeightedReward, judgeable
from covey.rollout.chat import Chat, fitting_prompts
from covey.rollout.group import RolloutPlan
from covey.types import Prompt


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What it takes to ask a model and judge its answers."""

    config: RunConfig
    policy: Policy
    chat: Chat
    eval_prompts: tuple[Prompt, ...]
    engine: HFEngine
    scorer: Scorer
    notes: tuple[str, ...] = ()  # what a person should hear before it begins


@dataclass(frozen=True, slots=True, kw_only=True)
class Workshop(Bench):
    """All that a run works with: a bench, and what trains on it."""

    cursor: Cursor
    strategy: Strategy
    shaping: Shaping
    advantage: Advantage
    learner: Learner
    controls: Controls
    rates: PassRates
    plan: RolloutPlan
    watch: Watch


def build_bench(
    config: RunConfig,
    held_out: Sequence[Prompt] | None = None,
    rewards: Sequence[WeightedReward] | None = None,
    adapter: Adapter | None = None,
) -> Bench:
    """Build what evaluation and sampling need; what is given here takes the place of what the run file names.

    ``adapter`` is put on the model to be trained; a model that is only asked has none. Raises the same errors as
    :func:`build`.
    """
    if config.model.threads:
        torch.set_num_threads(config.model.threads)
    scorer = make_scorer(config.reward, rewards)
    if held_out is None:
        held_out = make_held_out(config)
    held_out, note = judgeable(held_out, scorer.rewards, config.reward.unfit)
    policy = load_policy(config.model.path, config.model.device, config.model.trust_remote_code, config.model.precision)
    if policy.model.device.type == "cpu":
        keep_freed_memory()
    if adapter is not None:
        policy = adapter.on(policy, config.model.path, config.run.seed)
    chat = Chat(policy.tokenizer, policy.end_tokens)
    engine = HFEngine(policy.model, policy.end_tokens, config.sampling.rows, int(config.sampling.cache_gib * 2**30))
    return Bench(
        config=config,
        policy=policy,
        chat=chat,
        eval_prompts=tuple(fitting(config, held_out, chat, engine)),
        engine=engine,
        scorer=scorer,
        notes=(f"evaluation: {note}",) if note else (),
    )


def build(
    config: RunConfig, prompts: Sequence[Prompt] | None = None, rewards: Sequence[WeightedReward] | None = None
) -> Workshop:
    """Build a run. ``prompts`` and ``rewards`` given in Python take the place of those named in the run file.

    Raises ConfigError, PromptError or ModelError; nothing has been written then.
    """
    strategy, shaping = make_strategy(config), make_shaping(config)
    advantage = make_advantage(config, strategy)
    objective, controls, adapter = make_objective(config), make_controls(config), make_adapter(config)
    graders = make_graders(config.reward)
    asked = needs_of(advantage) | needs_of(shaping.tokens)
    train, held_out = make_prompts(config, prompts)
    bench = build_bench(config, held_out, rewards, adapter)
    train, note = judgeable(train, bench.scorer.rewards, config.reward.unfit)
    notes = [confined(name, level) for name, level in bench.scorer.confinement().items()]
    bench = dataclasses.replace(bench, notes=(*notes, *([note] if note else []), *bench.notes))
    return Workshop(
        **{field.name: getattr(bench, field.name) for field in dataclasses.fields(bench)},
        cursor=Cursor(fitting(config, train, bench.chat, bench.engine), config.run.seed),
        strategy=strategy,
        shaping=shaping,
        advantage=advantage,
        learner=make_learner(config, bench.policy, objective),
        controls=controls,
        rates=PassRates(),
        plan=RolloutPlan(greedy="greedy" in asked, text_ends=bool(asked & {"steps", "text_ends"})),
        watch=Watch(
            every=config.reward.watch_every,
            scorer=bench.scorer,
            graders=graders,
            chat=bench.chat,
            limit=config.sampling.max_new_tokens,
        ),
    )


def confined(name: str, level: str) -> str:
    """What a person hears about the sandbox of a reward."""
    weak = "; they can read and change files of this user" if level == "L3" else ""
    return f"{name} runs programs confined at level {level}{weak} (covey sandbox check)"


def make_prompts(config: RunConfig, given: Sequence[Prompt] | None = None) -> tuple[list[Prompt], list[Prompt]]:
    """Training prompts and held-out ones; no prompt is in both. With ``eval.prompts`` 0 there are no held-out ones."""
    section = config.prompts
    train = list(given) if given is not None else _load(config, section.source, section.split, section.limit)
    wanted = config.eval.prompts
    if not wanted:
        return train, []
    if section.holdout:
        if section.holdout >= len(train):
            raise PromptError(
                f"prompts.holdout = {section.holdout} leaves nothing to train on: there are {len(train)} rows"
            )
        order = Cursor(train, seed=0).take(len(train))  # the same rows are held out whatever the run's seed
        held = order[: section.holdout]
        asked = {_key(prompt) for prompt in held}  # by text: a question that stands in two rows is held back twice
        kept = [prompt for prompt in train if _key(prompt) not in asked]
        if not kept:
            raise PromptError("every training prompt has the text of a held-out one; lower prompts.holdout")
        return kept, held[:wanted]
    source = section.eval_source or (None if given is not None else section.source)
    if source is None:
        return train, []
    held_out = _load(config, source, section.eval_split, None)
    shared = {_key(prompt) for prompt in train} & {_key(prompt) for prompt in held_out}
    if shared:
        example = next(iter(shared))[-1][1]
        raise PromptError(
            f"{len(shared)} held-out prompts are also trained on, e.g. {example[:80]!r}. Give prompts.eval_source or "
            "prompts.eval_split another set, hold rows back with prompts.holdout, or set eval.prompts = 0."
        )
    return train, Cursor(held_out, seed=0).take(min(wanted, len(held_out)))


def make_held_out(config: RunConfig) -> list[Prompt]:
    """The prompts to measure with, where nothing is trained: those of a run, or a whole source of one's own."""
    section = config.prompts
    if section.holdout:
        return make_prompts(config)[1]
    found = _load(config, section.eval_source or section.source, section.eval_split, None)
    return Cursor(found, seed=0).take(min(config.eval.prompts, len(found))) if config.eval.prompts else []


def fitting(config: RunConfig, prompts: Sequence[Prompt], chat: Chat, engine: HFEngine) -> list[Prompt]:
    """The prompts that leave room for an answer. Raises PromptError for those that do not, unless they are dropped."""
    drop = config.prompts.too_long == "drop"
    return fitting_prompts(prompts, chat, engine.limit, config.sampling.max_new_tokens, drop) if prompts else []


def _key(prompt: Prompt) -> tuple[tuple[str, str], ...]:
    return tuple((message.role, message.content) for message in prompt.messages)


def _load(config: RunConfig, source: str, split: str, limit: int | None) -> list[Prompt]:
    section = config.prompts
    if source == GIVEN:
        raise PromptError("this run's prompts were given in Python: give them again, or set prompts.source to a file")
    return load_prompts(
        source,
        split=split,
        prompt_column=section.prompt_column,
        answer_column=section.answer_column,
        style=section.style,
        system=section.system,
        limit=limit,
        options=section.options if source == section.source else {},
    )
