"""What a controller is: it turns a measured value into the coefficient of the next step, and can be saved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class Controller(Protocol):
    """A coefficient that may change from step to step."""

    def coef(self, step: int, steps: int, /) -> float:
        """The coefficient to use in ``step`` of a run of ``steps``; 0 is the first."""
        ...

    def observe(self, metrics: Mapping[str, float], step: int, /) -> None:
        """Take in the metrics of a finished step. A value that is missing or not finite changes nothing."""
        ...

    def state(self) -> dict[str, Any]:
        """All that it remembers, as JSON."""
        ...

    def load_state(self, state: Mapping[str, Any], /) -> None:
        """The reverse of ``state``."""
        ...


class Memoryless:
    """Base of controllers that follow the step number alone."""

    __slots__ = ()

    def observe(self, metrics: Mapping[str, float], step: int, /) -> None:
        """Nothing to take in."""

    def state(self) -> dict[str, Any]:
        return {}

    def load_state(self, state: Mapping[str, Any], /) -> None:
        """Nothing to restore."""
