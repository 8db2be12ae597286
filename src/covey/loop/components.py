"""From the sections of a run file to the parts of a run: each section's name picks a class, its keys are the knobs."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import TypeAdapter, ValidationError

from covey.advantages import ADVANTAGES, Advantage
from covey.advantages.shape import Shaping
from covey.advantages.tokens import TOKEN_CHOICES, FunctionChoice, TokenChoice
from covey.config import NamedPart, RewardSection, RunConfig
from covey.controllers import ENTROPY_CONTROLLERS, KL_CONTROLLERS, RAMPS
from covey.errors import ConfigError, did_you_mean
from covey.learner.learner import Learner, Limits
from covey.learner.lora import Adapter
from covey.learner.model import Policy
from covey.learner.optimizer import OptimizerKnobs
from covey.learner.schedule import Schedule
from covey.loop.controls import Controls
from covey.loop.strategies import STRATEGIES, Predictive, Reactive, Refill, Strategy
from covey.loop.update import UpdatePlan
from covey.losses import AGGREGATIONS, LOSSES
from covey.losses.corrections import CORRECTIONS
from covey.losses.corrections.apply import Corrections
from covey.losses.kl import KLTerm
from covey.losses.objective import Objective
from covey.rewards import REWARDS, DependentReward, MeanOf, Reward, Scorer, WeightedReward, check_links, own_reward
from covey.rewards.function import load_function

GIVEN = "given"
"""In place of a source or before a reward's name: it was handed over in Python and no file can say what it was."""


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
    check_links(rewards)
    return Scorer(rewards=rewards, pass_threshold=section.pass_threshold, deadline=section.deadline)


def make_graders(section: RewardSection) -> tuple[WeightedReward, ...]:
    """Rewards that are asked and never paid. Raises ConfigError for one that cannot judge by itself."""
    graders = tuple(_reward(part) for part in section.graders)
    check_links(graders)
    if graders and not section.watch_every:
        raise ConfigError("reward.graders are asked every reward.watch_every steps, which is 0: set it, e.g. to 25")
    return graders


def _reward(part: Any) -> WeightedReward:
    reward = _bare_reward(part)
    if part.times > 1:
        if isinstance(reward, DependentReward):
            raise ConfigError(f"reward {reward.name!r} says the same each time: leave times out")
        reward = MeanOf(reward=reward, times=part.times)
    return WeightedReward(reward=reward, weight=part.weight, gate=part.gate, cap=part.cap)


def _bare_reward(part: Any) -> Reward | DependentReward:
    knobs = part.knobs if part.alias is None else {**part.knobs, "name": part.alias}
    if part.name in REWARDS or ":" not in part.name:
        return make_component("reward", REWARDS, part.name, knobs)  # type: ignore[no-any-return]
    target = load_function(part.name)
    if isinstance(target, type):
        return make_component("reward", {part.name: target}, part.name, knobs)  # type: ignore[no-any-return]
    try:
        return own_reward(target, knobs)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"reward {part.name!r} is a function or a rubric, with the settings alias, deadline, and for functions "
            f"retries: {error}"
        ) from error


def make_advantage(config: RunConfig, strategy: Strategy) -> Advantage:
    """The estimator. Raises ConfigError where it would credit nothing, or lacks what it needs."""
    section = config.advantage
    advantage: Advantage = make_component("advantage", ADVANTAGES, section.name, section.knobs)
    size, needed = config.sampling.group_size, smallest_group(advantage)
    if size < needed:
        alone = [name for name, cls in ADVANTAGES.items() if getattr(cls, "smallest_group", 2) == 1]
        raise ConfigError(
            f"sampling.group_size = {size} is too small for advantage {section.name!r}: with fewer than {needed} "
            "responses none has siblings to be judged against, so every advantage would be 0. 8 is a usual start. One "
            f"response a prompt is enough for {', '.join(alone)}."
        )
    if isinstance(strategy, Predictive) and strategy.smallest < needed:
        raise ConfigError(
            f"groups.smallest = {strategy.smallest}, but advantage {section.name!r} credits nothing in groups of fewer "
            f"than {needed}"
        )
    batch = size * config.sampling.prompts_per_step
    if batch < getattr(advantage, "smallest_batch", 1):
        raise ConfigError(
            f"a step of {batch} response gives advantage {section.name!r} nothing to compare with; raise "
            "sampling.prompts_per_step or sampling.group_size"
        )
    _check_rewards_reach(config, advantage)
    return advantage


def _check_rewards_reach(config: RunConfig, advantage: Advantage) -> None:
    """Raise ConfigError for shaping of the total that the estimator would not see, or could not take."""
    section = config.advantage
    ignores, bounded = getattr(advantage, "ignores_total", False), getattr(advantage, "bounded", False)
    if config.kl.where == "reward" and config.kl.coef and (ignores or bounded):
        why = (
            "is not computed from the total reward" if ignores else "takes rewards of a fixed range, without a penalty"
        )
        raise ConfigError(f'kl.where = "reward" and advantage {section.name!r}, which {why}: use kl.where = "loss"')
    if ignores and (config.reward.clip is not None or config.reward.scale != 1.0):
        raise ConfigError(
            f"reward.clip and reward.scale act on the total reward, from which advantage {section.name!r} is not "
            "computed: leave them out, or weigh the parts in reward.parts"
        )


def smallest_group(advantage: Advantage) -> int:
    """How many responses it takes before any of them is credited."""
    return getattr(advantage, "smallest_group", 2)


def make_strategy(config: RunConfig) -> Strategy:
    """How steps get their groups."""
    strategy = make_component("groups", STRATEGIES, config.groups.name, config.groups.knobs)
    size = config.sampling.group_size
    if isinstance(strategy, Predictive) and not strategy.smallest <= size <= strategy.largest:
        raise ConfigError(
            f"groups.smallest <= sampling.group_size <= groups.largest expected (the mean size is group_size), got "
            f"{strategy.smallest}, {size} and {strategy.largest}"
        )
    if isinstance(strategy, Reactive) and size >= strategy.largest:
        raise ConfigError(
            f"groups.largest = {strategy.largest} must be above sampling.group_size = {size}, or nothing is extended"
        )
    if isinstance(strategy, Refill) and size < 2:
        raise ConfigError(
            'groups.name = "refill" keeps groups with right and wrong answers; groups of one are never mixed'
        )
    return strategy


def make_shaping(config: RunConfig) -> Shaping:
    """What happens to totals and tokens between scores and credit."""
    section = config.reward
    knobs = {
        "scale": section.scale,
        "clip": None if section.clip is None else (section.clip[0], section.clip[1]),
        "truncated": section.truncated,
    }
    tokens = _tokens(config)
    try:
        return Shaping(tokens=tokens, **knobs)  # type: ignore[arg-type]
    except ValueError as error:
        raise ConfigError(f"reward: {error}") from error


def _tokens(config: RunConfig) -> TokenChoice:
    section = config.tokens
    if section.name in TOKEN_CHOICES or ":" not in section.name:
        return make_component("tokens", TOKEN_CHOICES, section.name, section.knobs)
    target = load_function(section.name)
    if not isinstance(target, type) and section.knobs:
        raise ConfigError(f"tokens {section.name!r} is a function and takes no settings, got {sorted(section.knobs)}")
    if isinstance(target, type):
        return make_component("tokens", {section.name: target}, section.name, section.knobs)
    return FunctionChoice(target)


def make_objective(config: RunConfig) -> Objective:
    """Policy loss, aggregation and regularisers. ``constant_length`` divides by the response limit unless told."""
    section, knobs = config.loss, config.loss.knobs
    constant = {"length": knobs.pop("length", config.sampling.max_new_tokens)}
    takes_length = section.aggregation == "constant_length"
    if "length" in section.knobs and not takes_length:
        raise ConfigError(f'loss.length belongs to aggregation = "constant_length", not to {section.aggregation!r}')
    policy = make_component("loss", LOSSES, section.name, knobs)
    aggregation = make_component(
        "loss.aggregation", AGGREGATIONS, section.aggregation, constant if takes_length else {}
    )
    chosen = section.correction
    if chosen is None:  # the default, unless the loss weighs by the sampler itself
        chosen = [] if getattr(policy, "off_policy", False) else [NamedPart(name="token_tis")]
    parts = tuple(make_component("loss.correction", CORRECTIONS, part.name, part.knobs) for part in chosen)
    if config.optim.old_logp == "sampler" and getattr(policy, "ratio_free", False) and parts:
        raise ConfigError(
            f'optim.old_logp = "sampler" leaves the correction to the ratio of the loss, and {section.name!r} has '
            'none: use "auto" or "recompute"'
        )
    try:
        return Objective(
            policy=policy,
            aggregation=aggregation,
            kl_coef=config.kl.coef,
            entropy_coef=config.entropy.coef,
            kl=KLTerm(estimator=config.kl.estimator, where=config.kl.where, unbiased=config.kl.unbiased),
            corrections=Corrections(parts=parts, normalize=section.correction_normalize),
        )
    except ValueError as error:
        raise ConfigError(str(error)) from error


def make_controls(config: RunConfig) -> Controls:
    """What changes from step to step by rule."""
    kl, entropy, sampling = config.kl, config.entropy, config.sampling
    if kl.control != "fixed" and kl.coef == 0:
        raise ConfigError(f"kl.control = {kl.control!r} multiplies kl.coef, which is 0 and would stay 0")
    if kl.coef == 0 and (kl.refresh or kl.unbiased or kl.where == "reward"):
        raise ConfigError("kl.refresh, kl.unbiased and kl.where say how the divergence acts, but kl.coef is 0")
    if entropy.control in ("linear", "cosine") and entropy.coef == 0 and not entropy.knobs.get("last"):
        raise ConfigError(f"entropy.control = {entropy.control!r} from entropy.coef = 0 to 0 does nothing")
    if min(entropy.knobs.get("last", 0.0), 0.0) < 0:
        raise ConfigError(f"entropy.last = {entropy.knobs['last']} would reward certainty; 0 or more expected")
    responses = sampling.prompts_per_step * sampling.group_size
    if kl.control == "ziegler" and 0.2 * responses >= kl.knobs.get("horizon", 10_000.0):
        raise ConfigError(
            f"kl.horizon must be above 0.2 x {responses} responses of a step, or the coefficient could fall to 0"
        )
    ramp: dict[str, Any] = {"first": sampling.temperature}
    if sampling.temperature_last is not None:
        ramp["last"] = sampling.temperature_last
    return Controls(
        kl=make_component("kl", KL_CONTROLLERS, kl.control, kl.knobs, {"first": kl.coef}, "kl.control"),
        entropy=make_component(
            "entropy", ENTROPY_CONTROLLERS, entropy.control, entropy.knobs, {"first": entropy.coef}, "entropy.control"
        ),
        temperature=RAMPS[sampling.temperature_shape](**ramp),
        steps=config.run.steps,
    )


def make_adapter(config: RunConfig) -> Adapter | None:
    """The adapter to train, None where all weights are. Raises MissingExtraError without PEFT, and ConfigError."""
    section = config.lora
    if not section.rank:
        return None
    if config.kl.refresh:
        raise ConfigError(
            "kl.refresh makes the policy the reference, but with lora.rank the reference is the model without its "
            "adapter: set kl.refresh = 0, or lora.rank = 0 to train all weights"
        )
    targets = section.targets if isinstance(section.targets, str) else tuple(section.targets)
    return Adapter(rank=section.rank, alpha=section.alpha or 2 * section.rank, targets=targets)


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
            states=optim.states,
            paged=optim.paged,
        ),
        Limits(
            gap_mean=optim.gap_mean or math.inf,
            gap_max=optim.gap_max or math.inf,
            kl=optim.kl_limit or math.inf,
            kl_skip=optim.kl_skip or math.inf,
            stop_kl=optim.stop_kl or math.inf,
        ),
        layout=optim.layout,
        checkpointing=optim.checkpointing,
    )


def make_update_plan(config: RunConfig, equal_prompts: bool, measuring: bool) -> UpdatePlan:
    """How a step's batch is trained on. A mean over prompts counts each of them once by itself.

    ``measuring``: some controller reads what the loss measures, so groups without contrast are forwarded too.
    """
    optim = config.optim
    return UpdatePlan(
        passes=optim.updates_per_batch,
        minibatches=optim.minibatches,
        tokens_per_microbatch=optim.tokens_per_microbatch,
        old=optim.old_logp,
        agree=optim.agree,
        keep_silent=measuring,
        equal_prompts=equal_prompts and config.loss.aggregation != "prompt_mean",
    )


def make_component(
    kind: str,
    table: Mapping[str, type],
    name: str,
    knobs: Mapping[str, Any],
    fixed: Mapping[str, Any] | None = None,
    label: str = "",
) -> Any:
    """Build a table's class, or a user's ``module:Class``, from its knobs. Raises ConfigError naming the field.

    ``fixed`` are arguments that other settings decide; they cannot be given as knobs. ``label`` is what the name is
    called in messages, if not the section.
    """
    cls: Any = table.get(name)
    if cls is None and ":" in name:
        cls = load_function(name)
    if cls is None:
        own = " Your own is written as module:name."
        raise ConfigError(f"unknown {label or kind} {name!r}.{did_you_mean(name, table)}{own}")
    given = {**knobs, **(fixed or {})}
    if not hasattr(cls, "__dataclass_fields__"):
        try:
            return cls(**given)
        except TypeError as error:
            raise ConfigError(f"{kind} {name!r} does not take the settings {sorted(knobs)}: {error}") from error
    allowed = [field.name for field in dataclasses.fields(cls) if field.init and field.name not in (fixed or {})]
    for knob in knobs:
        if knob not in allowed:
            raise ConfigError(f"unknown key {kind}.{knob} for {name!r}.{did_you_mean(knob, allowed)}")
    try:
        return TypeAdapter[Any](cls).validate_python(given)
    except ValidationError as error:
        first = error.errors()[0]
        if first["type"] == "value_error":
            raise ConfigError(f"{kind} {name!r}: {first.get('ctx', {}).get('error', first['msg'])}") from None
        place = ".".join(str(part) for part in (kind, *first["loc"]))
        raise ConfigError(f"{place} = {first['input']!r}: {first['msg'][0].lower()}{first['msg'][1:]}") from None
