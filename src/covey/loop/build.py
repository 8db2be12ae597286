"""From a run file to live objects. Everything that can be wrong is found here, before anything is written."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from pydantic import TypeAdapter, ValidationError

from covey.advantages import ADVANTAGES, Advantage
from covey.config import RewardSection, RunConfig
from covey.engines.hf import HFEngine
from covey.errors import ConfigError, PromptError, did_you_mean
from covey.learner.learner import Learner, OptimizerKnobs
from covey.learner.model import Policy, load_policy
from covey.learner.schedule import Schedule
from covey.losses import AGGREGATIONS, LOSSES
from covey.losses.objective import Objective
from covey.prompts.cursor import Cursor
from covey.prompts.source import load_prompts
from covey.rewards import REWARDS, FunctionReward, Reward, Scorer, WeightedReward
from covey.rewards.function import load_function
from covey.rollout.chat import Chat, fitting_prompts
from covey.types import Prompt

GIVEN = "given"
"""In place of a source or before a reward's name: it was handed over in Python and no file can say what it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What it takes to ask a model and judge its answers."""

    config: RunConfig
    policy: Policy
    chat: Chat
    eval_prompts: tuple[Prompt, ...]
    engine: HFEngine
    scorer: Scorer


@dataclass(frozen=True, slots=True, kw_only=True)
class Workshop(Bench):
    """All that a run works with: a bench, and what trains on it."""

    cursor: Cursor
    advantage: Advantage
    learner: Learner


def build_bench(
    config: RunConfig,
    held_out: Sequence[Prompt] | None = None,
    rewards: Sequence[WeightedReward] | None = None,
) -> Bench:
    """Build what evaluation and sampling need; what is given here takes the place of what the run file names.

    Raises the same errors as :func:`build`.
    """
    if config.model.threads:
        torch.set_num_threads(config.model.threads)
    scorer = make_scorer(config.reward, rewards)
    if held_out is None:
        held_out = make_held_out(config)
    policy = load_policy(config.model.path, config.model.device, config.model.trust_remote_code)
    chat = Chat(policy.tokenizer, policy.end_tokens)
    engine = HFEngine(policy.model, policy.end_tokens, config.sampling.rows)
    return Bench(
        config=config,
        policy=policy,
        chat=chat,
        eval_prompts=tuple(_fitting(config, held_out, chat, engine)),
        engine=engine,
        scorer=scorer,
    )


def build(
    config: RunConfig, prompts: Sequence[Prompt] | None = None, rewards: Sequence[WeightedReward] | None = None
) -> Workshop:
    """Build a run. ``prompts`` and ``rewards`` given in Python take the place of those named in the run file.

    Raises ConfigError, PromptError or ModelError; nothing has been written then.
    """
    advantage = make_component("advantage", ADVANTAGES, config.advantage.name, config.advantage.knobs)
    objective = make_objective(config)
    train, held_out = make_prompts(config, prompts)
    bench = build_bench(config, held_out, rewards)
    return Workshop(
        **{field.name: getattr(bench, field.name) for field in dataclasses.fields(bench)},
        cursor=Cursor(_fitting(config, train, bench.chat, bench.engine), config.run.seed),
        advantage=advantage,
        learner=make_learner(config, bench.policy, objective),
    )


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


def _fitting(config: RunConfig, prompts: Sequence[Prompt], chat: Chat, engine: HFEngine) -> list[Prompt]:
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


def make_scorer(section: RewardSection, given: Sequence[WeightedReward] | None = None) -> Scorer:
    """The rewards of a run file, or those given in Python. Raises ConfigError for none or for two of one name."""
    lost = [part.name for part in section.parts if part.name.startswith(f"{GIVEN}:")]
    if given is None and lost:
        raise ConfigError(
            f"this run's rewards were given in Python ({', '.join(lost)}): give them again with reward=..., or name "
            "what can be imported, e.g. 'reward.parts=[\"my_module:my_reward\"]'"
        )
    rewards = tuple(given) if given is not None else tuple(_reward(part) for part in section.parts)
    names = [item.reward.name for item in rewards]
    if not names or len(set(names)) < len(names):
        raise ConfigError(f"reward.parts needs at least one reward and no name twice, got {names}")
    return Scorer(rewards=rewards, pass_threshold=section.pass_threshold)


def _reward(part: Any) -> WeightedReward:
    if part.name in REWARDS or ":" not in part.name:
        return WeightedReward(reward=make_component("reward", REWARDS, part.name, part.knobs), weight=part.weight)
    target = load_function(part.name)
    if isinstance(target, type):
        reward: Reward = make_component("reward", {part.name: target}, part.name, part.knobs)
        return WeightedReward(reward=reward, weight=part.weight)
    if part.knobs:
        raise ConfigError(f"reward {part.name!r} is a function and takes no settings, got {sorted(part.knobs)}")
    return WeightedReward(reward=FunctionReward(target), weight=part.weight)


def make_objective(config: RunConfig) -> Objective:
    """Policy loss, aggregation and regularisers. ``constant_length`` divides by the response limit unless told."""
    section, knobs = config.loss, config.loss.knobs
    constant = {"length": knobs.pop("length", config.sampling.max_new_tokens)}
    takes_length = section.aggregation == "constant_length"
    if "length" in section.knobs and not takes_length:
        raise ConfigError(f'loss.length belongs to aggregation = "constant_length", not to {section.aggregation!r}')
    return Objective(
        policy=make_component("loss", LOSSES, section.name, knobs),
        aggregation=make_component(
            "loss.aggregation", AGGREGATIONS, section.aggregation, constant if takes_length else {}
        ),
        kl_coef=section.kl_coef,
        entropy_coef=section.entropy_coef,
    )


def make_learner(config: RunConfig, policy: Policy, objective: Objective) -> Learner:
    """The trainer with its schedule over the whole run."""
    optim = config.optim
    return Learner(
        policy.model,
        objective,
        Schedule(
            peak=optim.lr,
            steps=config.run.steps,
            warmup=optim.warmup,
            decay=optim.decay,
            final_fraction=optim.final_fraction,
        ),
        OptimizerKnobs(
            betas=(optim.betas[0], optim.betas[1]),
            eps=optim.eps,
            weight_decay=optim.weight_decay,
            max_grad_norm=optim.max_grad_norm,
        ),
        temperature=config.sampling.temperature,
    )


def make_component(kind: str, table: Mapping[str, type], name: str, knobs: Mapping[str, Any]) -> Any:
    """Build a table's class, or a user's ``module:Class``, from its knobs. Raises ConfigError naming the field."""
    cls: Any = table.get(name)
    if cls is None and ":" in name:
        cls = load_function(name)
    if cls is None:
        raise ConfigError(f"unknown {kind} {name!r}.{did_you_mean(name, table)} Your own is written as module:name.")
    if not hasattr(cls, "__dataclass_fields__"):
        try:
            return cls(**knobs)
        except TypeError as error:
            raise ConfigError(f"{kind} {name!r} does not take the settings {sorted(knobs)}: {error}") from error
    allowed = [field.name for field in dataclasses.fields(cls) if field.init]
    for knob in knobs:
        if knob not in allowed:
            raise ConfigError(f"unknown key {kind}.{knob} for {name!r}.{did_you_mean(knob, allowed)}")
    try:
        return TypeAdapter[Any](cls).validate_python(dict(knobs))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in (kind, *first["loc"]))
        raise ConfigError(f"{place} = {first['input']!r}: {first['msg']}") from None
