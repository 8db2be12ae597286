"""Stage 9: turns step batches into new weights."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch

from covey.batching.layout import LAYOUTS
from covey.batching.rows import bare_rows
from covey.errors import MismatchError
from covey.kernels.gradients import adding
from covey.kernels.swap import quicken
from covey.learner.logprobs import token_divergences, token_logps
from covey.learner.masters import Masters
from covey.learner.optimizer import OptimizerKnobs, make_optimizer
from covey.learner.recompute import recomputing
from covey.learner.reference import Reference, make_reference
from covey.learner.schedule import Schedule
from covey.learner.survey import whole_step
from covey.learner.tree import following, follows_trees
from covey.losses.corrections.apply import mismatch_metrics
from covey.losses.objective import Objective
from covey.losses.ratio import log_ratio
from covey.metrics.metric import Mean, Metric, combine
from covey.types import LossInputs, MicroBatch, ScoredGroup, StepBatch, Totals, UpdateResult

if TYPE_CHECKING:
    from transformers import PreTrainedModel

OldPolicy = Literal["current", "sampler", "recompute"]
"""Whose log-probs are the old ones: the weights being trained (right for one update only), the sampler's, or a pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a step may not exceed; infinity allows all.

    ``gap_mean`` and ``gap_max``: difference of trainer's and sampler's log-probs before the first update, nats.
    ``kl`` scales gradient and learning rate by kl / KL where KL(sampler, policy) exceeds it, ``kl_skip`` drops the
    update. ``stop_kl``: an update whose policy is already further than this from the one before the batch is not made.
    KL in nats a token.
    """

    gap_mean: float = math.inf
    gap_max: float = math.inf
    kl: float = math.inf
    kl_skip: float = math.inf
    stop_kl: float = math.inf

    def __post_init__(self) -> None:
        for field in fields(self):
            if not getattr(self, field.name) > 0:
                raise ValueError(f"{field.name} must be positive, got {getattr(self, field.name)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Largest and mean absolute difference of two log-probs, nats, over ``tokens`` tokens."""

    largest: float
    mean: float
    tokens: int


class Learner:
    """One process's trainer of ``model``: annotate a batch, then step on it as often as wanted.

    All passes run in evaluation mode, so dropout never makes two of them differ. A reference exists only if the
    objective needs it. ``objective`` may be replaced between steps by one with other coefficients. ``layout`` is how
    batches should be laid out for it; a model whose attention cannot follow a tree of sequences takes padded ones only.
    ``checkpointing`` runs layers again in the backward pass and saves their activations' memory.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        objective: Objective,
        schedule: Schedule,
        knobs: OptimizerKnobs | None = None,
        limits: Limits | None = None,
        layout: Literal["packed", "padded"] = "packed",
        checkpointing: bool = False,
    ) -> None:
        self.model = model.eval()
        quicken(model)
        self.layout = LAYOUTS[layout if follows_trees(model) else "padded"]
        self.objective = objective
        self.schedule = schedule
        self.knobs = knobs or OptimizerKnobs()
        self.limits = limits or Limits()
        self.version = 0
        self.checkpointing = checkpointing
        self.reference: Reference | None = make_reference(model) if "ref_logp" in objective.needs else None
        self.masters = Masters(model)
        self.optimizer = make_optimizer(list(self.masters.trained.values()), schedule.peak, self.knobs)

    def annotate(self, batch: StepBatch, old: OldPolicy = "current") -> StepBatch:
        """Add the streams that the objective needs and that are not there yet: reference and old log-probs."""
        return replace(batch, micro=tuple(self._annotated(micro, old) for micro in batch.micro))

    @torch.no_grad()
    def _annotated(self, micro: MicroBatch, old: OldPolicy) -> MicroBatch:
        moved, needs = micro.to(self.model.device), self.objective.needs
        if old == "recompute" or "old_entropy" in needs:
            logp, entropy = token_logps(self.model, moved)
            moved = replace(moved, old_logp=logp, old_entropy=entropy if "old_entropy" in needs else None)
        if old == "sampler":
            moved = replace(moved, old_logp=torch.where(moved.trained, moved.behavior_logp, 0.0))
        if self.reference is not None and moved.ref_logp is None and "kl_exact" not in needs:
            with self.reference.opened() as model:
                moved = replace(moved, ref_logp=token_logps(model, moved)[0])
        return moved

    @torch.no_grad()
    def probe(self, batch: StepBatch) -> Gap:
        """Compare with the sampler's log-probs on a few rows, from the longest to the shortest: is it the same policy?

        Eight at most; which ones does not depend on how the batch is split.
        """
        found = [
            (length, micro, segment)
            for micro in batch.micro
            for segment, length in enumerate(torch.bincount(micro.segment[micro.attended]).tolist())
        ]
        found.sort(key=lambda one: -one[0])
        picked = np.unique(np.linspace(0, len(found) - 1, min(len(found), 8)).round().astype(int)) if found else []
        gaps = [torch.zeros(0)]
        for _, micro, segment in (found[i] for i in picked):
            one = one_sequence(micro, segment).to(self.model.device)
            gaps.append((token_logps(self.model, one)[0] - one.behavior_logp)[one.trained].abs().cpu().float())
        difference = torch.cat(gaps)
        if not difference.numel():
            return Gap(largest=0.0, mean=0.0, tokens=0)
        return Gap(largest=float(difference.max()), mean=float(difference.mean()), tokens=difference.numel())

    @torch.no_grad()
    def reference_logps(self, groups: Sequence[ScoredGroup], tokens_per_microbatch: int) -> list[list[np.ndarray]]:
        """Reference log-probs of every member of every group, f32[T] each, NaN where not sampled."""
        if self.reference is None:
            raise ValueError("there is no reference: the objective has no KL term")
        units = [bare_rows(group) for group in groups]
        found: dict[int, np.ndarray] = {}
        for rows in self.layout.parted(units, tokens_per_microbatch):
            micro = self.layout.filled(rows)
            with self.reference.opened() as model:
                logp = token_logps(model, micro.to(self.model.device))[0].float().cpu()
            for i, row in enumerate(rows):
                values = logp[micro.segment == i].numpy()
                found[id(row)] = np.where(row.trained, values, np.float32(np.nan))
        return [[found[id(row)] for row in unit] for unit in units]

    def step(self, batch: StepBatch, at: int, first: bool = True) -> UpdateResult:
        """One optimizer step on all micro-batches, with the learning rate of run step ``at``.

        With nothing to learn from, or a gradient that is not finite, weights and optimizer stay as they are.
        ``first``: no update has been made since the batch was sampled, so a difference from the sampler is a fault.
        Raises MismatchError, with the weights untouched, where it exceeds the limits.
        """
        lr = self.schedule(at)
        if not batch.micro:
            return UpdateResult(version=self.version, grad_norm=0.0, lr=lr, skipped=True, metrics={})
        self.optimizer.zero_grad(set_to_none=True)
        known = self.objective.survey(whole_step(batch.micro, batch.totals)) if self.objective.surveys else {}
        with adding(self.model):
            parts = combine([self._backward(micro.to(self.model.device), batch.totals, known) for micro in batch.micro])
        metrics = {name: metric.value for name, metric in parts.items()}
        if first:
            self._check_gap(metrics)
        gradients = [weight.grad for weight in self.masters.trained.values() if weight.grad is not None]
        norm = float(torch.nn.utils.get_total_norm(gradients))
        divergence = metrics.get("sampler/kl_k3", 0.0)
        stopped = metrics.get("kl/old", 0.0) > self.limits.stop_kl
        skipped = stopped or not math.isfinite(norm) or divergence > self.limits.kl_skip
        if skipped:
            self.optimizer.zero_grad(set_to_none=True)
        else:
            weight = min(1.0, self.limits.kl / divergence) if divergence > 0 else 1.0
            # Adam is blind to the size of a gradient, so the step is scaled and not the gradient alone.
            self._update(weight * lr, weight * min(1.0, self.knobs.max_grad_norm / (weight * norm + 1e-6)))
            parts["update/weight"] = Mean(weight, 1.0)
            metrics["update/weight"] = weight
        return UpdateResult(
            version=self.version, grad_norm=norm, lr=lr, skipped=skipped, metrics=metrics, parts=parts, stopped=stopped
        )

    def _update(self, lr: float, scale: float) -> None:
        for weight in self.masters.trained.values():
            if weight.grad is not None and scale != 1.0:
                weight.grad.mul_(scale)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.masters.release()
        self.version += 1

    def _check_gap(self, metrics: Mapping[str, float]) -> None:
        mean, largest = metrics.get("sampler/gap_mean", 0.0), metrics.get("sampler/gap_max", 0.0)
        if exceeds(mean, self.limits.gap_mean) or exceeds(largest, self.limits.gap_max):
            self.optimizer.zero_grad(set_to_none=True)
            raise mismatch(Gap(largest=largest, mean=mean, tokens=0), self.limits)

    def _backward(self, micro: MicroBatch, totals: Totals, known: Mapping[str, float]) -> dict[str, Metric]:
        with recomputing(self.model) if self.checkpointing else nullcontext():
            inputs = self._inputs(micro, totals, known)
        output = self.objective(inputs)
        # Layers that are run again in the backward pass must meet the attention of the forward pass.
        with following(self.model) if self.checkpointing and micro.tree is not None else nullcontext():
            output.loss.backward()
        now = log_ratio(inputs.logp.detach(), micro.behavior_logp, micro.trained)
        return {**output.metrics, **mismatch_metrics(now, inputs)}

    def _inputs(self, micro: MicroBatch, totals: Totals, known: Mapping[str, float]) -> LossInputs:
        entropy_grad, exact, ref = "entropy" in self.objective.needs, None, micro.ref_logp
        if "kl_exact" in self.objective.needs and self.reference is not None:
            logp, entropy, exact, ref = token_divergences(self.model, self.reference.opened, micro, entropy_grad)
        else:
            logp, entropy = token_logps(self.model, micro, entropy_grad)
        return LossInputs(
            logp=logp,
            entropy=entropy,
            advantage=micro.advantage.to(logp.dtype),
            trained=micro.trained,
            segment=micro.segment,
            old_logp=logp.detach() if micro.old_logp is None else micro.old_logp,
            ref_logp=ref,
            totals=totals,
            behavior_logp=micro.behavior_logp,
            old_entropy=micro.old_entropy,
            kl_exact=exact,
            weight=micro.weight.to(logp.dtype),
            group_tokens=micro.group_tokens,
            statistics=known,
        )

    def parameters(self) -> Iterator[tuple[str, torch.nn.Parameter]]:
        """What the optimizer works on, by the names of the model's weights, in a fixed order."""
        return iter(self.masters.trained.items())


def one_sequence(micro: MicroBatch, segment: int) -> MicroBatch:
    """A padded micro-batch of one of its sequences."""
    return MicroBatch(
        **{name: stream[micro.segment == segment][None] for name, stream in micro.streams().items()}, tree=None
    )


def exceeds(value: float, limit: float) -> bool:
    """Whether a limit is broken; NaN breaks every limit that there is."""
    return math.isfinite(limit) and not value <= limit


def mismatch(gap: Gap, limits: Limits) -> MismatchError:
    """The error that says how far sampler and trainer are apart."""
    return MismatchError(
        f"sampler and trainer do not agree on the log-probs of the same tokens under the same weights: mean difference "
        f"{gap.mean:.2g} nats (limit {limits.gap_mean:g}), largest {gap.largest:.2g} (limit {limits.gap_max:g}). Every "
        "ratio would be wrong. Check temperature, truncation, precision and weight sync of the sampler; if the "
        "difference is expected, raise optim.gap_mean or optim.gap_max and keep a loss.correction."
    )
