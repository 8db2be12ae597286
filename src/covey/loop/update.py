"""From credited groups to new weights: mini-batches, repeated passes, and whose log-probs are the old ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from covey.learner.learner import Gap, Learner, OldPolicy
from covey.metrics.metric import merge
from covey.types import CreditedGroup, StepBatch, UpdateResult


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdatePlan:
    """How often a batch is trained on. ``passes`` x ``minibatches`` optimizer steps, each with its own denominators.

    ``old``: "auto" takes the sampler's log-probs as the old policy's if a probe finds them within ``agree`` nats of the
    trainer's, and makes a pass if not.
    """

    passes: int = 1
    minibatches: int = 1
    tokens_per_microbatch: int = 8192
    old: Literal["auto", "sampler", "recompute"] = "auto"
    agree: float = 1e-5
    keep_silent: bool = False  # forward groups without contrast too, because something is measured on them
    equal_prompts: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """What a step's updates were made of."""

    updates: tuple[UpdateResult, ...]
    batches: tuple[StepBatch, ...]
    old: OldPolicy
    version: int  # of the weights before the first update
    left_out: int  # updates that early stopping saved
    moved: float | None = None  # nats a token from the old policy, at which it stopped

    @property
    def tokens(self) -> int:
        """Tokens forwarded in one pass."""
        return sum(int(micro.trained.sum()) for batch in self.batches for micro in batch.micro)

    @property
    def metrics(self) -> dict[str, float]:
        """Over the updates of the last pass; the sampler's mismatch is that of the first, before anything moved.

        The loss is the mean over mini-batches, the gradient norm the largest.
        """
        last = [update for update in self.updates[-len(self.batches) :] if update.metrics]
        found = merge([update.parts for update in last])
        if last:
            found["loss"] = found["loss"] / len(last)
        first = next((update.metrics for update in self.updates if update.metrics), {})
        found |= {name: value for name, value in first.items() if name.startswith("sampler/")}
        if self.moved is not None:
            found["kl/old"] = self.moved
        return found | {"grad_norm": float(np.max([update.grad_norm for update in self.updates]))}

    @property
    def sequences(self) -> int:
        """Responses in the denominators of one pass."""
        return sum(batch.totals.sequences for batch in self.batches)


def train_on(
    learner: Learner, groups: Sequence[CreditedGroup], plan: UpdatePlan, at: int, seed: Sequence[int]
) -> Trained:
    """Make all optimizer steps on a step's groups. Mini-batches are drawn once; each pass takes them in a new order.

    Raises MismatchError as :meth:`covey.learner.learner.Learner.step` does.
    """
    rng = np.random.default_rng(list(seed))
    bare = [
        learner.layout(
            [groups[i] for i in part],
            plan.tokens_per_microbatch,
            keep_silent=plan.keep_silent or learner.objective.regularised,
            equal_prompts=plan.equal_prompts,
        )
        for part in _parts(len(groups), plan.minibatches, rng)
    ]
    old = old_policy(learner, bare, plan)
    batches = [learner.annotate(batch, old) for batch in bare]
    updates: list[UpdateResult] = []
    moved = None
    order = [i for _ in range(plan.passes) for i in (rng.permutation(len(batches)) if len(batches) > 1 else [0])]
    start, wanted = learner.version, len(order)
    for i in order:
        result = learner.step(batches[i], at, first=learner.version == start)
        if result.stopped:
            moved = result.metrics["kl/old"]
            break
        updates.append(result)
    return Trained(
        updates=tuple(updates),
        batches=tuple(batches),
        old=old,
        version=start,
        left_out=wanted - len(updates),
        moved=moved,
    )


def old_policy(learner: Learner, batches: Sequence[StepBatch], plan: UpdatePlan) -> OldPolicy:
    """Where the old log-probs come from: see :class:`UpdatePlan`."""
    needed = plan.passes * plan.minibatches > 1 or "old_logp" in learner.objective.needs
    if plan.old != "auto":
        return plan.old if needed or plan.old == "sampler" else "current"
    if not needed:
        return "current"
    first = next((batch for batch in batches if batch.micro), None)
    gap = learner.probe(first) if first is not None else Gap(largest=0.0, mean=0.0, tokens=0)
    return "sampler" if gap.largest <= plan.agree else "recompute"


def _parts(count: int, parts: int, rng: np.random.Generator) -> list[list[int]]:
    """Group numbers dealt into ``parts`` lists of nearly equal size, whole groups; in order if there is one."""
    if parts == 1 or count == 0:
        return [list(range(count))]
    return [sorted(part.tolist()) for part in np.array_split(rng.permutation(count), parts) if part.size]
