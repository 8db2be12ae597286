"""The run file: one TOML table a section, every field with its unit and default, dotted overrides, helpful errors.

A run is fully described by a :class:`RunConfig`. Sections that name a component (advantage, loss, rewards) take the
component's own fields beside ``name``; they are checked when the component is built, before anything is written.
"""

from __future__ import annotations

import tomllib
import types as _types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from covey.errors import ConfigError, did_you_mean

Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Section(BaseModel):
    """Unknown keys fail, types are strict (8 is not "8"), values are frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Component(BaseModel):
    """A named part with its own knobs: whatever stands beside the section's fields goes to the part."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)

    @property
    def knobs(self) -> dict[str, Any]:
        """Keys that are not fields of the section."""
        return dict(self.model_extra or {})


def _named(data: Any, key: str) -> Any:
    """Let a list of parts hold bare names in place of tables with a ``name``."""
    if isinstance(data, dict) and isinstance(data.get(key), list):
        return {**data, key: [{"name": part} if isinstance(part, str) else part for part in data[key]]}
    return data


class RunSection(Section):
    name: str = "run"
    dir: str | None = None  # default runs/<name>-<time>
    seed: Count = 0
    steps: Positive = 100  # rollouts; each is followed by optim.updates_per_batch updates
    save_every: Count = 0  # steps between checkpoints; 0: only at the end
    keep: Positive = 2  # checkpoints kept


class ModelSection(Section):
    path: str = "tiny"  # folder, hub id, fetched name (covey models), or "tiny" for the built-in model
    device: str = "auto"
    threads: Count = 0  # 0: as many as torch finds
    precision: Literal["float32", "bfloat16"] = "float32"  # of the weights that compute; updates are float32 in both
    trust_remote_code: bool = False


class LoraSection(Section):
    rank: Count = 0  # of the adapter; 0: all weights are trained
    alpha: Positive | None = None  # the adapter is scaled by alpha / rank; default 2 x rank
    targets: str | list[str] = "all-linear"  # or the names of layers

    @field_validator("targets", mode="before")
    @classmethod
    def _names(cls, value: Any) -> Any:
        names = value if isinstance(value, list) else []
        if value != "all-linear" and not (names and all(isinstance(name, str) and name for name in names)):
            raise ValueError(
                f'"all-linear" or a list of layer names expected, e.g. ["q_proj", "v_proj"], got {value!r}'
            )
        return value

    @model_validator(mode="after")
    def _rank_given(self) -> LoraSection:
        others = sorted(self.model_fields_set - {"rank"})
        if others and "rank" not in self.model_fields_set:
            raise ValueError(f"rank is missing beside {' and '.join(others)}: e.g. rank = 16, or 0 for no adapter")
        return self


class PromptsSection(Section):
    source: str = "arithmetic"  # path, "arithmetic", "gym:TASK" or "hf:owner/name"
    split: str = "train"
    eval_source: str | None = None  # default: the same source
    eval_split: str = "test"
    holdout: Count = 0  # rows of source kept back for evaluation; for sources without a split of their own
    limit: Positive | None = None  # rows used of source
    prompt_column: str = "prompt"
    answer_column: str | None = None  # default "answer", if there is one
    style: Literal["chat", "plain"] = "chat"
    system: str | None = None
    too_long: Literal["stop", "drop"] = "stop"
    options: dict[str, Any] = Field(default_factory=dict)  # for reasoning-gym tasks


class SamplingSection(Section):
    prompts_per_step: Positive = 8
    group_size: Positive = 8
    temperature: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    temperature_last: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None  # at the end of the run
    temperature_shape: Literal["constant", "linear", "cosine"] = "constant"  # the way there
    top_p: float = 1.0
    top_k: int = 0
    max_new_tokens: Positive = 256
    rows: Positive = 256  # responses sampled at the same time
    cache_gib: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 2.0  # keys and values of them; fewer if it is full

    @model_validator(mode="after")
    def _whole_distribution(self) -> SamplingSection:
        if self.top_p != 1.0 or self.top_k != 0:
            raise ValueError(
                f"top_p = {self.top_p}, top_k = {self.top_k}: training samples from the whole distribution (top_p = 1, "
                "top_k = 0). A truncated sampler and the trainer's full softmax give the same token different "
                "probabilities, and what is cut off changes with every update, so the ratio of an unchanged policy "
                "would not be 1. Lower the temperature instead; covey sample takes both."
            )
        if (self.temperature_shape == "constant") != (self.temperature_last is None):
            raise ValueError("temperature_last and temperature_shape (linear or cosine) belong together")
        return self


class GroupsSection(Component):
    name: str = "fixed"  # fixed, refill, predictive, reactive, or module:Class


class RewardPart(Component):
    name: str  # exact_number, math, code, tags, gym ..., or module:function
    weight: Annotated[float, Field(allow_inf_nan=False)] = 1.0
    alias: str | None = None  # its name in metrics and for gates, where one reward stands twice
    times: Positive = 1  # it is asked so often and the mean counts, for scores that vary
    gate: str | None = None  # another part: where that one is not right, this one counts 0
    cap: Annotated[float, Field(allow_inf_nan=False)] | None = None  # the most that the part's value counts for


class RewardSection(Section):
    parts: list[RewardPart] = Field(default_factory=lambda: [RewardPart(name="exact_number")])
    pass_threshold: float = 1.0  # total from which a response counts as correct, where no part knows
    max_failed: Annotated[float, Field(ge=0, le=1)] = 0.5  # share of failed scores in one step that stops the run
    deadline: Annotated[float, Field(gt=0)] = 1800.0  # seconds a reward may take over a group, its turn included
    unfit: Literal["drop", "error", "keep"] = (
        "drop"  # prompts that a reward can never judge, as with an unreadable answer
    )
    watch_every: Annotated[int, Field(ge=0)] = 0  # steps between looks at what probes would be paid; 0: never
    graders: list[RewardPart] = Field(default_factory=list)  # stricter ones, asked at each look and never paid
    scale: Annotated[float, Field(allow_inf_nan=False)] = 1.0  # of the total, before credit
    clip: list[float] | None = Field(default=None, min_length=2, max_length=2)  # of the scaled total
    truncated: Literal["keep", "mask", "drop"] = "keep"  # responses that ran into the token limit

    @model_validator(mode="before")
    @classmethod
    def _short_parts(cls, data: Any) -> Any:
        return _named(_named(data, "parts"), "graders")


class AdvantageSection(Component):
    name: str = "grpo"


class TokensSection(Component):
    name: str = "all"  # all, after_reasoning, answer, or module:function


class NamedPart(Component):
    name: str


class LossSection(Component):
    name: str = "clip"
    aggregation: str = "sequence_mean"
    correction: list[NamedPart] | None = None  # default token_tis, none where the loss corrects itself
    correction_normalize: bool = False

    @model_validator(mode="before")
    @classmethod
    def _short_corrections(cls, data: Any) -> Any:
        return _named(data, "correction")


class KLSection(Component):
    coef: NonNegative = 0.0  # weight of the divergence from the reference; 0 loads no reference
    estimator: Literal["k1", "k2", "k3", "straight_through", "exact"] = "k3"
    where: Literal["loss", "reward"] = "loss"
    unbiased: bool = False
    refresh: Count = 0  # steps after which the policy becomes the reference; 0: never
    control: str = "fixed"  # fixed, ziegler or band


class EntropySection(Component):
    coef: NonNegative = 0.0
    control: str = "fixed"  # fixed, linear, cosine or adaptive


class OptimSection(Section):
    lr: NonNegative = 1e-6
    warmup: Count = 0  # steps
    decay: Literal["constant", "linear", "cosine"] = "constant"
    final_fraction: Annotated[float, Field(ge=0, le=1)] = 0.0  # of lr, at the last step
    betas: list[Annotated[float, Field(ge=0, lt=1)]] = Field(
        default_factory=lambda: [0.9, 0.95], min_length=2, max_length=2
    )
    eps: Annotated[float, Field(gt=0)] = 1e-8
    weight_decay: NonNegative = 0.0
    max_grad_norm: Annotated[float, Field(gt=0)] = 1.0
    states: Literal["float32", "8bit"] = "float32"  # AdamW's two moments; 8bit needs the extra bitsandbytes
    paged: bool = False  # the moments may leave the GPU's memory for the CPU's; needs the extra bitsandbytes
    updates_per_batch: Positive = 1  # passes over each batch
    minibatches: Positive = 1  # optimizer steps of one pass
    tokens_per_microbatch: Positive = 8192
    layout: Literal["packed", "padded"] = "packed"  # packed: what siblings share is computed once
    checkpointing: bool = False  # layers are run again in the backward pass: less memory, more time
    old_logp: Literal["auto", "sampler", "recompute"] = "auto"
    agree: NonNegative = 1e-5  # nats; up to this largest difference the sampler's log-probs serve as the old ones
    gap_mean: NonNegative = 0.01  # nats; a larger mean difference of sampler and trainer stops the run; 0: never
    gap_max: NonNegative = 1.0  # nats; the same for the largest difference
    stop_kl: NonNegative = 0.0  # nats a token from the old policy; beyond it no more updates on this batch; 0: never
    kl_limit: NonNegative = 0.0  # nats a token from the sampler; beyond it the gradient is scaled down; 0: never
    kl_skip: NonNegative = 0.0  # the same; beyond it the update is left out; 0: never


class EvalSection(Section):
    every: Count = 0  # steps; 0: only before and after
    prompts: Count = 100  # held-out prompts before and after, 0: no evaluation
    prompts_during: Count = 0  # fewer for the curve; 0: the same
    samples: Positive = 4  # responses a prompt at the temperature below, for pass@1 and pass@k
    pass_at: list[Positive] = Field(default_factory=lambda: [1, 4])
    temperature: Annotated[float, Field(gt=0)] = 1.0
    greedy: bool = True  # one more response a prompt at temperature 0

    @model_validator(mode="after")
    def _enough_samples(self) -> EvalSection:
        if self.pass_at and max(self.pass_at) > self.samples:
            raise ValueError(f"eval.pass_at {max(self.pass_at)} needs eval.samples >= {max(self.pass_at)}")
        return self


class RunConfig(Section):
    """Everything that decides a run. ``covey init`` writes a commented one."""

    run: RunSection = Field(default_factory=RunSection)
    model: ModelSection = Field(default_factory=ModelSection)
    lora: LoraSection = Field(default_factory=LoraSection)
    prompts: PromptsSection = Field(default_factory=PromptsSection)
    sampling: SamplingSection = Field(default_factory=SamplingSection)
    groups: GroupsSection = Field(default_factory=GroupsSection)
    reward: RewardSection = Field(default_factory=RewardSection)
    tokens: TokensSection = Field(default_factory=TokensSection)
    advantage: AdvantageSection = Field(default_factory=AdvantageSection)
    loss: LossSection = Field(default_factory=LossSection)
    kl: KLSection = Field(default_factory=KLSection)
    entropy: EntropySection = Field(default_factory=EntropySection)
    optim: OptimSection = Field(default_factory=OptimSection)
    eval: EvalSection = Field(default_factory=EvalSection)


def load_config(path: str | Path, overrides: Sequence[str] = ()) -> RunConfig:
    """Read a TOML run file and apply ``section.key=value`` overrides. Raises ConfigError naming field and file."""
    file = Path(path)
    if not file.is_file():
        raise ConfigError(f"run file {str(path)!r} does not exist. Write one with: covey init {path}")
    try:
        data = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from error
    return make_config(data, overrides, where=str(path))


def make_config(data: Mapping[str, Any], overrides: Sequence[str] = (), where: str = "config") -> RunConfig:
    """Validate nested tables. Raises ConfigError with one line a mistake and the nearest valid spelling."""
    merged = {key: dict(value) if isinstance(value, Mapping) else value for key, value in data.items()}
    for override in overrides:
        _apply(merged, override)
    try:
        return RunConfig.model_validate(merged)
    except ValidationError as error:
        lines = [_explain(dict(item)) for item in error.errors()]
        raise ConfigError(f"{where}: " + "; ".join(lines)) from None


def _apply(data: dict[str, Any], override: str) -> None:
    path, equals, text = override.partition("=")
    keys = path.strip().split(".")
    if not equals or not all(keys):
        raise ConfigError(f"override {override!r} is not of the form section.key=value")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text  # a bare word is a string: run.name=first
    node = data
    for key in keys[:-1]:
        node = node.setdefault(key, {})
        if not isinstance(node, dict):
            raise ConfigError(f"override {override!r}: {key!r} is a value, not a section")
    node[keys[-1]] = value


def _explain(error: dict[str, Any]) -> str:
    place = [str(part) for part in error["loc"]]
    name = ".".join(place)
    if error["type"] == "extra_forbidden":
        return f"unknown key {name}.{did_you_mean(place[-1], _fields_at(place[:-1]))}"
    if error["type"] == "missing":
        return f"{name} is missing"
    if error["type"] == "value_error":
        return f"{name}: {error['ctx']['error']}" if name else str(error["ctx"]["error"])
    return f"{name} = {error['input']!r}: {error['msg'][0].lower()}{error['msg'][1:]}"


def _fields_at(place: Sequence[str]) -> list[str]:
    model: type[BaseModel] = RunConfig
    for key in place:
        field = model.model_fields.get(key)
        inner = _model_of(field.annotation) if field else model
        model = inner or model
    return list(model.model_fields)


def _model_of(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and not isinstance(annotation, _types.GenericAlias):
        return annotation if issubclass(annotation, BaseModel) else None
    return next((found for part in typing.get_args(annotation) if (found := _model_of(part))), None)


def section_of(leaf: str) -> str:
    """The dotted name of a field given by its last part, for the Python API: ``group_size`` -> ``sampling.group_size``.

    A field that several sections have goes with its section before it: ``kl_coef`` -> ``kl.coef``. Raises ConfigError
    for an unknown name, or for one that could be several.
    """
    if "." in leaf:
        return leaf
    if leaf in RunConfig.model_fields and leaf != "run" and "name" in _fields_at([leaf]):
        return f"{leaf}.name"
    homes = {f"{section}.{name}": name for section in RunConfig.model_fields for name in _fields_at([section])}
    joined = {path.replace(".", "_", 1): path for path in homes}
    found = [path for path, name in homes.items() if name == leaf]
    if not found and leaf in joined:
        return joined[leaf]
    if len(found) == 1:
        return found[0]
    if found:
        raise ConfigError(
            f"{leaf!r} could be {' or '.join(found)}; write the dotted name, e.g. **{{{found[0]!r}: ...}}"
        )
    raise ConfigError(f"unknown setting {leaf!r}.{did_you_mean(leaf, set(homes.values()))}")


def to_toml(config: RunConfig) -> str:
    """The configuration as a run file that ``load_config`` reads back to the same value."""
    tables = config.model_dump(exclude_none=True)
    return "\n".join(f"[{name}]\n{_table(values)}" for name, values in tables.items())


def _table(values: Mapping[str, Any]) -> str:
    return "".join(f"{key} = {_toml(value)}\n" for key, value in values.items())


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_quoted(str(key))} = {_toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    raise ConfigError(f"{value!r} cannot be written to a run file")


def _quoted(text: str) -> str:
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}
    body = "".join(escapes.get(ch, ch if ch.isprintable() else f"\\U{ord(ch):08x}") for ch in text)
    return f'"{body}"'
