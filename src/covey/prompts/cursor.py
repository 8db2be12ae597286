"""The order of prompts: a fresh permutation every epoch, a function of seed and epoch alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from covey.errors import PromptError
from covey.types import Prompt


class Cursor:
    """Hands out prompts for ever. Its whole state is three integers, so a resumed run goes on exactly where it was.

    No row is dropped at the end of an epoch: what a take lacks comes from the next one, so a data set smaller than one
    step works. The rule at that seam: a prompt that the take already holds from the old epoch is passed over, and the
    next take begins with those passed over. So a take of at most as many as there are holds no prompt twice, and every
    epoch still gives each prompt exactly once before the next one begins. A larger take simply wraps.
    """

    def __init__(self, prompts: Sequence[Prompt], seed: int) -> None:
        if not prompts:
            raise PromptError("there are no prompts to train on")
        self.prompts = tuple(prompts)
        self.seed = seed
        self._begin(0)

    @property
    def epoch(self) -> int:
        """Epochs finished before the one that the last taken prompt belongs to."""
        return self._epoch

    def take(self, n: int) -> list[Prompt]:
        """The next ``n`` prompts. Raises ValueError if ``n`` is not positive."""
        if n < 1:
            raise ValueError(f"at least one prompt must be taken, got {n}")
        taken = [self._order[position] for position in self._passed_over[:n]]
        self._passed_over = self._passed_over[n:]
        held: set[int] = set()  # what this take has from the epoch before, as long as repeats can be avoided
        while len(taken) < n:
            if self._position == len(self.prompts):
                self._begin(self._epoch + 1)
                held = set(taken) if n <= len(self.prompts) else set()
            index = self._order[self._position]
            if index in held:
                self._passed_over.append(self._position)
            else:
                taken.append(index)
            self._position += 1
        return [self.prompts[index] for index in taken]

    def state(self) -> dict[str, int]:
        """``epoch``, ``position`` in its order, and ``passed_over``: bit i is set if position i comes before it all."""
        return {
            "epoch": self._epoch,
            "position": self._position,
            "passed_over": sum(1 << position for position in self._passed_over),
        }

    def load_state(self, state: Mapping[str, int]) -> None:
        """Go on from :meth:`state` of a cursor over the same prompts and seed.

        Raises PromptError if there are fewer prompts than the saved position.
        """
        position, bits = state["position"], state.get("passed_over", 0)
        if position > len(self.prompts):
            raise PromptError(
                f"the saved run stood at prompt {position} of an epoch, but there are only {len(self.prompts)} "
                "prompts; resume with the data set that it was started with"
            )
        self._begin(state["epoch"])
        self._position = position
        self._passed_over = [i for i in range(bits.bit_length()) if bits >> i & 1]

    def _begin(self, epoch: int) -> None:
        self._epoch, self._position = epoch, 0
        self._passed_over: list[int] = []  # positions of this epoch's order, ascending, all before self._position
        self._order = np.random.default_rng([self.seed, epoch]).permutation(len(self.prompts)).tolist()
