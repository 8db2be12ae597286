"""How many responses a prompt deserves: from earlier pass rates, before sampling, or by looking while sampling."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import exp, lgamma

import numpy as np


def knapsack(rates: Sequence[float], budget: int, smallest: int, largest: int) -> list[int]:
    """Sizes that maximise the summed value of all groups, value(p, n) = (1 - p^n - (1 - p)^n) p (1 - p)^2.

    ``budget`` responses in all, each size within [smallest, largest] (arXiv 2509.25849, eq. 9). From one response on
    the gain of one more, (p^n (1 - p) + (1 - p)^n p) p (1 - p)^2, only falls, so taking the largest gain is optimal.
    What no prompt gains from goes to the smaller groups. Raises ValueError if the budget does not fit the bounds.
    """

    def gain(rate: float, size: int) -> float:
        return (rate**size * (1 - rate) + (1 - rate) ** size * rate) * rate * (1 - rate) ** 2

    return _spend(rates, budget, smallest, largest, gain)


def neyman(rates: Sequence[float], budget: int, smallest: int, largest: int) -> list[int]:
    """Sizes that minimise the summed variance of the prompts' gradients, sum of p (1 - p) / n, in whole numbers.

    Close to n proportional to sqrt(p (1 - p)), the large-group limit of arXiv 2602.01601. Raises ValueError if the
    budget does not fit between the bounds.
    """
    return _spend(rates, budget, smallest, largest, lambda rate, size: rate * (1 - rate) / (size * (size + 1)))


def _spend(
    rates: Sequence[float], budget: int, smallest: int, largest: int, gain: Callable[[float, int], float]
) -> list[int]:
    """Give one response at a time to the prompt that gains most; ties to the smaller group, then the earlier prompt."""
    if not 1 <= smallest <= largest or not smallest * len(rates) <= budget <= largest * len(rates):
        raise ValueError(
            f"1 <= smallest <= largest and {len(rates)} x smallest <= budget <= {len(rates)} x largest expected, got "
            f"smallest {smallest}, largest {largest}, budget {budget}"
        )
    sizes = [smallest] * len(rates)
    heap = [(-gain(rate, smallest), smallest, i) for i, rate in enumerate(rates) if smallest < largest]
    heapq.heapify(heap)
    for _ in range(budget - smallest * len(rates)):
        _, size, i = heapq.heappop(heap)
        sizes[i] = size + 1
        if sizes[i] < largest:
            heapq.heappush(heap, (-gain(rates[i], sizes[i]), sizes[i], i))
    return sizes


def neyman_shares(rates: Sequence[float], budget: float) -> np.ndarray:
    """The same in real numbers without bounds, f64[P]: budget sqrt(p (1 - p)) / its sum."""
    spread = np.sqrt(np.asarray(rates) * (1 - np.asarray(rates)))
    return budget * spread / spread.sum()


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """When to sample further responses for a group, ``chunk`` at a time up to ``largest`` in all.

    Stops once at least ``right`` responses are right and ``wrong`` are wrong, or when the chance that the R responses
    left bring what is missing is below ``hope``: Beta-binomial, from a Beta(a, b) prior and the counts so far. For n
    that are all wrong and ``right = 1`` that is 1 - product over j < R of (b + n + j) / (a + b + n + j).
    """

    chunk: int = 8
    largest: int = 32
    right: int = 1
    wrong: int = 1
    hope: float = 0.1

    def __post_init__(self) -> None:
        if self.chunk < 1 or self.largest < 2 or min(self.right, self.wrong) < 1 or not 0 <= self.hope < 1:
            raise ValueError(f"chunk >= 1, largest >= 2, right, wrong >= 1 and 0 <= hope < 1 expected, got {self}")

    def more(self, right: int, wrong: int, prior: tuple[float, float] = (1.0, 1.0), drawn: int | None = None) -> int:
        """How many responses to add to a group with these counts; 0 to stop.

        ``drawn`` counts those that could not be judged too. A group of which none could is left as it is.
        """
        left = self.largest - (right + wrong if drawn is None else drawn)
        if left <= 0 or right + wrong == 0:
            return 0
        missing = max(0, self.right - right), max(0, self.wrong - wrong)
        if missing == (0, 0) or self.chance(right, wrong, left, prior, missing) < self.hope:
            return 0
        return min(self.chunk, left)

    @staticmethod
    def chance(
        right: int,
        wrong: int,
        left: int,
        prior: tuple[float, float] = (1.0, 1.0),
        missing: tuple[int, int] | None = None,
    ) -> float:
        """Chance that ``left`` more responses hold ``missing`` right and wrong ones.

        By default one of the kind that there is none of.
        """
        a, b = prior[0] + right, prior[1] + wrong
        hits, misses = missing or (int(right == 0), int(wrong == 0))
        return sum(_beta_binomial(k, left, a, b) for k in range(hits, left - misses + 1))

    def scale(self, rate: float, first: int, prior: tuple[float, float] = (1.0, 1.0)) -> float:
        """What extending does to a prompt's expected gradient under leave-one-out credit, if its pass rate is ``rate``.

        Groups that agree are extended and pooled, so prompts with extreme rates weigh more: the factor is the expected
        sample variance c (n - c) / (n (n - 1)) of the final group over p (1 - p). Exact, by going through all counts.
        Dividing by its value at a rate that is known from earlier steps takes the effect out again.
        """
        if not 0 < rate < 1:
            return 1.0
        return _final_variance(self, round(rate, 6), first, prior) / (rate * (1 - rate))


@lru_cache(maxsize=4096)
def _final_variance(rule: Extension, rate: float, first: int, prior: tuple[float, float]) -> float:
    """Expected c (n - c) / (n (n - 1)) when the rule has stopped, starting with ``first`` responses."""
    pending, expected = {(0, 0): 1.0}, 0.0
    while pending:
        following: dict[tuple[int, int], float] = {}
        for (right, wrong), chance in pending.items():
            extra = first if right + wrong == 0 else rule.more(right, wrong, prior)
            if extra == 0:
                n = right + wrong
                expected += chance * right * wrong / (n * (n - 1)) if n > 1 else 0.0
                continue
            for hits, likely in enumerate(_binomial(extra, rate)):
                after = (right + hits, wrong + extra - hits)
                following[after] = following.get(after, 0.0) + chance * likely
        pending = following
    return expected


def _beta_binomial(k: int, n: int, a: float, b: float) -> float:
    """Chance of ``k`` successes in ``n`` trials whose rate has a Beta(a, b) distribution."""
    ways = lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)
    return exp(ways + lgamma(k + a) + lgamma(n - k + b) - lgamma(n + a + b) + lgamma(a + b) - lgamma(a) - lgamma(b))


def _binomial(n: int, rate: float) -> np.ndarray:
    """Chances of 0 .. n successes, f64[n + 1]."""
    chances = np.array([1.0])
    for _ in range(n):
        chances = np.append(chances * (1 - rate), 0.0) + np.append(0.0, chances * rate)
    return chances
