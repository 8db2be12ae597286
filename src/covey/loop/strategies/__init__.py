"""How a step gets its groups. One file a strategy."""

from covey.loop.strategies.base import Collected, Desk, Strategy
from covey.loop.strategies.fixed import Fixed
from covey.loop.strategies.predictive import Predictive
from covey.loop.strategies.reactive import Reactive
from covey.loop.strategies.refill import Refill

STRATEGIES: dict[str, type] = {
    "fixed": Fixed,
    "refill": Refill,
    "predictive": Predictive,
    "reactive": Reactive,
}

__all__ = ["STRATEGIES", "Collected", "Desk", "Fixed", "Predictive", "Reactive", "Refill", "Strategy"]
