"""The reference policy: a frozen copy, the same model with its adapter switched off, or none at all."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

from covey.errors import ModelError

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class FrozenCopy:
    """A copy of the policy as it was: as much memory as the weights."""

    def __init__(self, policy: PreTrainedModel) -> None:
        self.policy = policy
        self.model = copy.deepcopy(policy).requires_grad_(False).eval()
        self.refreshed = False

    @contextmanager
    def opened(self) -> Iterator[PreTrainedModel]:
        """Lend the model to forward, in evaluation mode."""
        yield self.model

    @torch.no_grad()
    def refresh(self) -> None:
        """Make the present policy the reference from now on."""
        for mine, current in zip(self.model.parameters(), self.policy.parameters(), strict=True):
            mine.copy_(current)
        self.refreshed = True

    def state_dict(self) -> dict[str, torch.Tensor] | None:
        """What a checkpoint must hold: nothing as long as the starting model is the reference."""
        return dict(self.model.state_dict()) if self.refreshed else None

    def load_state_dict(self, state: dict[str, torch.Tensor]) -> None:
        self.model.load_state_dict(state)
        self.refreshed = True


class AdapterOff:
    """A PEFT model without its adapter: the base weights are the reference, and no copy is needed."""

    def __init__(self, policy: PreTrainedModel) -> None:
        self.policy = policy

    @contextmanager
    def opened(self) -> Iterator[PreTrainedModel]:
        with self.policy.disable_adapter():  # type: ignore[operator, attr-defined]
            yield self.policy

    def refresh(self) -> None:
        raise ModelError(
            "the reference is the model without its adapter and cannot be refreshed; set kl.refresh = 0, or train all "
            "weights"
        )

    def state_dict(self) -> dict[str, torch.Tensor] | None:
        """Nothing: the base weights are in the policy."""
        return None

    def load_state_dict(self, state: dict[str, torch.Tensor]) -> None:
        """Never needed, as there is never anything to save."""


Reference = FrozenCopy | AdapterOff


def make_reference(policy: PreTrainedModel) -> Reference:
    """The cheapest reference for this policy."""
    return AdapterOff(policy) if hasattr(policy, "disable_adapter") else FrozenCopy(policy)
