"""The order of prompts: a fresh permutation every epoch, a function of seed and epoch alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from covey.errors import PromptError
from covey.types import Prompt


class Cursor:
    """Hands out prompts for ever. Its whole state is two integers, so a resumed run goes on exactly where it was.

    No row is dropped at the end of an epoch: what is missing comes from the next one, so a data set smaller than one
    step works. Only a take that crosses the end of an epoch can hold a prompt twice; its two groups stay apart.
    """

    def __init__(self, prompts: Sequence[Prompt], seed: int) -> None:
        if not prompts:
            raise PromptError("there are no prompts to train on")
        self.prompts = tuple(prompts)
        self.seed = seed
        self.load_state({"epoch": 0, "position": 0})

    def take(self, n: int) -> list[Prompt]:
        """The next ``n`` prompts. Raises ValueError if ``n`` is not positive."""
        if n < 1:
            raise ValueError(f"at least one prompt must be taken, got {n}")
        taken: list[Prompt] = []
        while len(taken) < n:
            if self._position == len(self.prompts):
                self.load_state({"epoch": self.epoch + 1, "position": 0})
            stop = min(self._position + n - len(taken), len(self.prompts))
            taken += [self.prompts[i] for i in self._order[self._position : stop]]
            self._position = stop
        return taken

    def state(self) -> dict[str, int]:
        """``epoch`` (passes finished before this one) and ``position`` (prompts taken in it)."""
        return {"epoch": self.epoch, "position": self._position}

    def load_state(self, state: Mapping[str, int]) -> None:
        """Go on from :meth:`state` of a cursor over the same prompts and seed."""
        self.epoch, self._position = state["epoch"], state["position"]
        self._order = np.random.default_rng([self.seed, self.epoch]).permutation(len(self.prompts))
