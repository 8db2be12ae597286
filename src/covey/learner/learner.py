"""Stage 9: turns step batches into new weights."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

import torch

from covey.learner.logprobs import token_logps
from covey.learner.schedule import Schedule
from covey.losses.objective import Objective
from covey.losses.ratio import log_ratio
from covey.metrics.metric import Maximum, Mean, Metric, masked_mean, merge
from covey.types import LossInputs, MicroBatch, StepBatch, Totals, UpdateResult

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerKnobs:
    """AdamW (arXiv 1711.05101). Weight decay leaves biases and norm gains alone."""

    betas: tuple[float, float] = (0.9, 0.95)
    eps: float = 1e-8
    weight_decay: float = 0.0
    max_grad_norm: float = 1.0


class Learner:
    """One process's trainer of ``model``: annotate a batch, then step on it as often as wanted.

    All passes run in evaluation mode, so dropout never makes two of them differ. A frozen copy of the first weights
    is kept as reference only if the objective needs it.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        objective: Objective,
        schedule: Schedule,
        knobs: OptimizerKnobs | None = None,
        temperature: float = 1.0,
    ) -> None:
        self.model = model.eval()
        self.objective = objective
        self.schedule = schedule
        self.knobs = knobs or OptimizerKnobs()
        self.temperature = temperature
        self.version = 0
        self.optimizer = _adamw(model, schedule.peak, self.knobs)
        self.reference: PreTrainedModel | None = None
        if "ref_logp" in objective.needs:
            self.reference = copy.deepcopy(model).requires_grad_(False)

    def annotate(self, batch: StepBatch, repeated: bool = False) -> StepBatch:
        """Add reference log-probs if the objective needs them, and old ones if the batch is trained on repeatedly.

        A single update needs no old log-probs: the current ones, detached, are the old ones.
        """
        return replace(batch, micro=tuple(self._annotated(micro, repeated) for micro in batch.micro))

    @torch.no_grad()
    def _annotated(self, micro: MicroBatch, repeated: bool) -> MicroBatch:
        moved = self._on_device(micro)
        old = token_logps(self.model, moved, self.temperature)[0] if repeated else None
        ref = token_logps(self.reference, moved, self.temperature)[0] if self.reference is not None else None
        return replace(micro, old_logp=old, ref_logp=ref)

    def step(self, batch: StepBatch, at: int) -> UpdateResult:
        """One optimizer step on all micro-batches, with the learning rate of run step ``at``.

        With nothing to learn from, or a gradient that is not finite, weights and optimizer stay as they are.
        """
        lr = self.schedule(at)
        if not batch.micro:
            return UpdateResult(version=self.version, grad_norm=0.0, lr=lr, skipped=True, metrics={})
        self.optimizer.zero_grad(set_to_none=True)
        metrics = merge([self._backward(self._on_device(micro), batch.totals) for micro in batch.micro])
        norm = float(torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.knobs.max_grad_norm))
        if not math.isfinite(norm):
            self.optimizer.zero_grad(set_to_none=True)
            return UpdateResult(version=self.version, grad_norm=norm, lr=lr, skipped=True, metrics=metrics)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.version += 1
        return UpdateResult(version=self.version, grad_norm=norm, lr=lr, skipped=False, metrics=metrics)

    def _backward(self, micro: MicroBatch, totals: Totals) -> dict[str, Metric]:
        entropy_grad = "entropy" in self.objective.needs
        logp, entropy = token_logps(self.model, micro, self.temperature, entropy_grad)
        output = self.objective(
            LossInputs(
                logp=logp,
                entropy=entropy,
                advantage=micro.advantage.to(logp.dtype),
                trained=micro.trained,
                segment=micro.segment,
                old_logp=logp.detach() if micro.old_logp is None else micro.old_logp,
                ref_logp=micro.ref_logp,
                totals=totals,
            )
        )
        output.loss.backward()
        return {**output.metrics, **_sampler_gap(logp.detach(), micro)}

    def _on_device(self, micro: MicroBatch) -> MicroBatch:
        device = self.model.device
        streams = {f.name: stream.to(device) for f in fields(micro) if (stream := getattr(micro, f.name)) is not None}
        return MicroBatch(**streams)

    def parameters(self) -> Iterator[tuple[str, torch.nn.Parameter]]:
        """Trained parameters by name, in a fixed order."""
        return ((name, p) for name, p in self.model.named_parameters() if p.requires_grad)


def _adamw(model: PreTrainedModel, lr: float, knobs: OptimizerKnobs) -> torch.optim.AdamW:
    trained = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in trained if p.ndim >= 2], "weight_decay": knobs.weight_decay},
        {"params": [p for p in trained if p.ndim < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW([g for g in groups if g["params"]], lr=lr, betas=knobs.betas, eps=knobs.eps)


def _sampler_gap(logp: torch.Tensor, micro: MicroBatch) -> dict[str, Metric]:
    """How far the trainer's log-probs are from the sampler's: before the first update both are the same policy."""
    gap = log_ratio(logp, micro.behavior_logp, micro.trained)
    if not bool(micro.trained.any()):
        return {"sampler/gap_max": Maximum(0.0), "sampler/ratio_mean": Mean(0.0, 0.0)}
    return {
        "sampler/gap_max": Maximum(float(gap.abs().max())),
        "sampler/gap_mean": masked_mean(gap.abs(), micro.trained),
        "sampler/ratio_mean": masked_mean(gap.exp(), micro.trained),
    }
