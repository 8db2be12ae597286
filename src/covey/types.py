"""The data that travels through a training step, in the order it is made.

prompts -> groups -> trajectories -> rewards -> advantages -> batches -> loss -> update -> metrics

Every stage takes the type of the stage before and returns a new one that wraps it; nothing is filled in later.
Shape letters: P prompts of a step, G samples of one prompt, T tokens of one trajectory (prompt and responses),
B rows of a micro-batch, S columns of a row, V vocabulary. A stream is an array whose entry t describes token t.
Log-probabilities are natural logarithms (nats).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    import torch


Finish = Literal["stop", "length"]
"""Why sampling ended: an end token, or the token limit."""

State = Literal["scored", "abstained", "failed"]
"""What became of a reward's part: a number, no judgement, or a broken reward. Only the first is a score."""

Signal = Literal["ok", "all_right", "all_wrong", "zero_variance", "too_few"]
"""What siblings say about each other: ``ok`` if their rewards differ, else why there is no contrast.

Where the baseline is the group's own, only ``ok`` has an advantage; one from elsewhere may credit the others too.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One chat message, e.g. ``Message(role="user", content="13×17=?")``."""

    role: str
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """One question. ``uid`` is unique in its data set, so siblings are tied by it and never by text or position.

    Example: ``Prompt(uid="arithmetic-test-13x17", messages=(Message(role="user", content="13×17=?"),), answer="221")``
    """

    uid: str
    messages: tuple[Message, ...]
    answer: str | None = None
    columns: Mapping[str, Any] = field(default_factory=dict)  # the row's other columns as they are, handed to rewards
    task: str = ""
    plain: bool = False  # True: the one message is tokenised as it stands, without a chat template

    @property
    def text(self) -> str:
        """The last message's content: what a person reads as the question."""
        return self.messages[-1].content


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How to draw one response. Temperature 0 is greedy; ``top_p=1`` and ``top_k=0`` keep the whole vocabulary."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    max_new_tokens: int = 256
    seed: int = 0  # derived from run seed, step, place, prompt uid and sample: see covey.rollout.seeds


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Tokens to continue, and how. ``id`` comes back on the completion: order carries no meaning."""

    id: str
    tokens: np.ndarray  # i64[T]
    sampling: Sampling


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """What the engine sampled for one request; an end token that was sampled is part of it."""

    id: str
    tokens: np.ndarray  # i64[t], t >= 1
    logp: np.ndarray  # f32[t], nats, of the distribution really sampled from (after temperature and truncation)
    finish: Finish
    version: int  # of the weights that sampled it


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One response of the policy inside a trajectory: ``tokens[start:stop]`` were sampled."""

    start: int
    stop: int
    reply: str  # the decoded response, without special tokens
    finish: Finish
    ends: np.ndarray | None = None  # i64[stop - start]: characters of the reply up to and with each token, if asked for


@dataclass(frozen=True, slots=True, kw_only=True)
class Trajectory:
    """One sibling: the exact token ids that the engine saw and sampled. Text is never tokenised again."""

    prompt_uid: str
    sample: int  # 0 .. G-1
    tokens: np.ndarray  # i64[T]: prompt, then every turn
    sampled: np.ndarray  # bool[T]: True where the policy drew the token
    logp: np.ndarray  # f32[T], nats; NaN where not sampled
    version: int
    turns: tuple[Turn, ...]
    temperature: float = 1.0  # it was drawn at; every log-prob of it is of the distribution at this temperature

    @property
    def reply(self) -> str:
        """The text of the last turn: what rewards judge."""
        return self.turns[-1].reply

    @property
    def finish(self) -> Finish:
        """How the last turn ended."""
        return self.turns[-1].finish

    @property
    def sampled_tokens(self) -> int:
        """Number of tokens that the policy drew."""
        return int(self.sampled.sum())


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """One prompt and its siblings: G of them, fewer if some failed."""

    prompt: Prompt
    members: tuple[Trajectory, ...]
    greedy: Trajectory | None = None  # one more at temperature 0, for a baseline; it is never trained on
    scale: float = 1.0  # of its advantages, to undo what the choice of groups does to their expectation


@dataclass(frozen=True, slots=True, kw_only=True)
class StepReward:
    """The reward of one step of a response: the text from the step before up to character ``end`` of the reply."""

    end: int
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One reward's verdict on one response: a number, or None when it could not be judged.

    ``correct`` is set by rewards that know right from wrong and stays raw whatever weights or shaping are added.
    """

    value: float | None
    why: str = ""
    correct: bool | None = None
    error: str | None = None  # the reward itself failed; its value is None
    steps: tuple[StepReward, ...] = ()  # of a process reward, in the order of the text

    @property
    def state(self) -> State:
        """``abstained``: the reward could not judge and says so; ``failed``: it broke, was late, or was unreachable."""
        if self.value is not None:
            return "scored"
        return "failed" if self.error else "abstained"


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """All verdicts on one response. ``total`` None leaves the response out of statistics, numerator and denominator."""

    total: float | None
    parts: Mapping[str, float | None]
    why: Mapping[str, str] = field(default_factory=dict)
    states: Mapping[str, State] = field(default_factory=dict)  # of each part
    correct: bool | None = None
    error: str | None = None
    steps: tuple[StepReward, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Shaped:
    """What credit is computed from, where it is not simply the totals: see covey.advantages.shape."""

    outcome: np.ndarray  # f64[G]; NaN leaves the response out of statistics, numerator and denominator
    trained: tuple[np.ndarray, ...]  # G arrays, bool[T]: tokens that take part in the loss
    penalty: tuple[np.ndarray, ...] | None = None  # G arrays, f64[T]: taken off the outcome, 0 where not sampled
    ref_logp: tuple[np.ndarray, ...] | None = None  # G arrays, f32[T], nats: kept so that nobody computes them again
    greedy: float = math.nan  # outcome of the greedy response


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredGroup:
    """A group with one score per member, in the order of the members."""

    group: Group
    scores: tuple[Score, ...]
    greedy: Score | None = None  # of the group's greedy response
    weights: Mapping[str, float] = field(default_factory=dict)  # of the parts in the total; 1 where not named
    shaped: Shaped | None = None

    @property
    def trained(self) -> tuple[np.ndarray, ...]:
        """Which tokens of each member take part in the loss, bool[T]: all sampled ones, unless shaping chose fewer."""
        if self.shaped is not None:
            return self.shaped.trained
        return tuple(member.sampled for member in self.group.members)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreditedGroup:
    """A scored group with one advantage per token of each member: 0 where not trained or not judged."""

    scored: ScoredGroup
    advantages: tuple[np.ndarray, ...]  # G arrays, f32[T]
    signal: Signal


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Counts over the whole optimizer step, all micro-batches and all ranks: the only denominators there are.

    A response that could not be judged, or has no token in the loss, is in none of them. One that was judged is in all
    of them, also when its advantage is 0 and it is not forwarded because nothing would have a gradient there.
    """

    tokens: int
    sequences: int
    groups: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """Sequences that begin alike, with every shared beginning once: what the model is run over in their place.

    Nodes are runs of tokens in depth-first order, so a node's descendants are the columns right behind its own. A token
    sees its own node up to itself, and all nodes above.
    """

    tokens: torch.Tensor  # i64[1, C]
    positions: torch.Tensor  # i64[1, C]: places in the sequence, so they restart behind every fork
    nodes: tuple[tuple[int, int, int], ...]  # (start, stop, end): own columns start:stop, descendants' stop:end
    source: torch.Tensor  # i64[B, S]: the column whose output predicts the token of a cell; -1 for a first token

    def to(self, device: torch.device) -> Tree:
        return Tree(
            tokens=self.tokens.to(device),
            positions=self.positions.to(device),
            nodes=self.nodes,
            source=self.source.to(device),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroBatch:
    """Rows that are forwarded together. All streams are [B, S]; ``stream[b, t]`` describes token ``tokens[b, t]``.

    Padded: a sequence a row. Packed: one row with all sequences end to end, and the model runs over ``tree``.
    """

    tokens: torch.Tensor  # i64
    attended: torch.Tensor  # bool: False on padding
    positions: torch.Tensor  # i64: 0, 1, 2, ... from the first real token of a row
    segment: torch.Tensor  # i64: which sequence of this micro-batch the token belongs to, -1 on padding
    trained: torch.Tensor  # bool: the token was sampled by the policy and its response was judged
    advantage: torch.Tensor  # f32
    behavior_logp: torch.Tensor  # f32: under the sampler; NaN where not sampled
    temperature: torch.Tensor  # f32: that the token was drawn at
    weight: torch.Tensor  # f32: of the token's response in every term of the loss
    group_tokens: torch.Tensor  # i64: trained tokens of the token's whole group, over all micro-batches
    old_logp: torch.Tensor | None = None  # f32: under the policy before this batch's first update
    old_entropy: torch.Tensor | None = None  # f32: of that policy
    ref_logp: torch.Tensor | None = None  # f32: under the reference policy
    tree: Tree | None = None  # None: the model is run over the rows as they are

    def streams(self) -> dict[str, torch.Tensor]:
        """The streams that there are, by name."""
        found = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "tree"}
        return {name: stream for name, stream in found.items() if stream is not None}

    def to(self, device: torch.device) -> MicroBatch:
        moved = {name: stream.to(device) for name, stream in self.streams().items()}
        return MicroBatch(**moved, tree=None if self.tree is None else self.tree.to(device))


@dataclass(frozen=True, slots=True, kw_only=True)
class StepBatch:
    """The micro-batches of one optimizer step with their common denominators."""

    micro: tuple[MicroBatch, ...]
    totals: Totals


@dataclass(frozen=True, slots=True, kw_only=True)
class LossInputs:
    """What a loss sees of one micro-batch. All streams are [B, S].

    Only ``logp``, ``entropy`` and ``kl_exact`` carry a gradient. A stream that nothing needs is None.
    """

    logp: torch.Tensor  # current policy; anything where not trained
    entropy: torch.Tensor | None
    advantage: torch.Tensor
    trained: torch.Tensor
    segment: torch.Tensor
    old_logp: torch.Tensor
    ref_logp: torch.Tensor | None
    totals: Totals
    behavior_logp: torch.Tensor | None = None  # None: the sampler is the old policy
    old_entropy: torch.Tensor | None = None
    kl_exact: torch.Tensor | None = None  # KL(policy, reference) of the token's whole distribution
    weight: torch.Tensor | None = None  # None: 1 everywhere
    group_tokens: torch.Tensor | None = None
    statistics: Mapping[str, float] = field(default_factory=dict)  # over all trained tokens of the step


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateResult:
    """What one optimizer step did. ``metrics`` are already reduced over micro-batches."""

    version: int
    grad_norm: float  # before clipping
    lr: float
    skipped: bool  # the weights are untouched: nothing to learn from, a non-finite gradient, or a limit
    metrics: Mapping[str, float]
    parts: Mapping[str, Any] = field(default_factory=dict)  # the same as covey.metrics.metric.Metric, to merge further
    stopped: bool = False  # skipped because the policy had already moved as far as one batch may take it


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """One line of ``metrics.jsonl``: names are in covey.metrics.names."""

    step: int
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """Where a run stands, beside weights and optimizer: enough to go on with the next step."""

    step: int  # optimizer steps' rollouts finished so far
    version: int
    cursor: Mapping[str, int]
    rng: Mapping[str, Any]
    seconds: float
    tokens: int
    parts: Mapping[str, Any] = field(default_factory=dict)  # of advantages, controllers and trackers, by name
