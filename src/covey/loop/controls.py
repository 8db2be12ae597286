"""Everything that changes from step to step by rule: KL and entropy coefficients, and the temperature."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from covey.controllers import Controller
from covey.controllers.base import Memoryless
from covey.losses.objective import Objective
from covey.types import Sampling


@dataclass(frozen=True, slots=True, kw_only=True)
class Controls:
    """Three controllers with the run's length; they are read before a step and observe it afterwards."""

    kl: Controller
    entropy: Controller
    temperature: Controller
    steps: int

    def objective(self, objective: Objective, step: int) -> Objective:
        """The objective with this step's coefficients."""
        return replace(
            objective, kl_coef=self.kl.coef(step, self.steps), entropy_coef=self.entropy.coef(step, self.steps)
        )

    def sampling(self, sampling: Sampling, step: int) -> Sampling:
        """How to draw in this step."""
        return replace(sampling, temperature=self.temperature.coef(step, self.steps))

    @property
    def measuring(self) -> bool:
        """Whether any coefficient depends on what steps measure."""
        return not all(isinstance(part, Memoryless) for part in (self.kl, self.entropy, self.temperature))

    def observe(self, metrics: Mapping[str, float], step: int) -> None:
        """Take in a finished step."""
        for controller in (self.kl, self.entropy, self.temperature):
            controller.observe(metrics, step)

    def state(self) -> dict[str, Any]:
        return {"kl": self.kl.state(), "entropy": self.entropy.state()}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """The reverse of :meth:`state`."""
        self.kl.load_state(state["kl"])
        self.entropy.load_state(state["entropy"])
