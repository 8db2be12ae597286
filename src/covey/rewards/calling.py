"""Calling functions that users bring: with the arguments they take, under a deadline, and their results checked."""

from __future__ import annotations

import asyncio
import functools
import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any

from covey.errors import RewardError
from covey.rewards.serial import Serial

Function = Callable[..., Any]


def accepted(function: Function, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the arguments that the function takes."""
    parameters = inspect.signature(function).parameters.values()
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters):
        return dict(arguments)
    return {p.name: arguments[p.name] for p in parameters if p.name in arguments}


async def called(serial: Serial, function: Function, arguments: Mapping[str, Any], deadline: float) -> Any:
    """What it returns or raises, ``async`` or not; TimeoutError after ``deadline`` seconds."""
    call = functools.partial(function, **arguments)
    value = call() if inspect.iscoroutinefunction(function) else await serial.run(call, deadline)
    if not inspect.isawaitable(value):
        return value
    try:
        return await asyncio.wait_for(value, deadline)
    except TimeoutError as error:
        raise TimeoutError(str(error) or f"it took more than its deadline of {deadline:g} s") from error


def numbers(values: Any, count: int, name: str) -> list[float | None]:
    """The values of a list of this length; None for None and NaN. Raises RewardError for anything else."""
    listed = hasattr(values, "__len__") and hasattr(values, "__getitem__")
    if not listed or isinstance(values, str | bytes | dict):
        raise RewardError(f"reward {name!r} returned {type(values).__name__}, expected a list of {count} numbers")
    if len(values) != count:
        raise RewardError(
            f"reward {name!r} returned {len(values)} values for {count} responses. "
            "Return one number (or None) for each entry of `completions`, in the same order."
        )
    return [number(value, name) for value in values]


def number(value: Any, name: str) -> float | None:
    """The value as a float; None for None and NaN. Raises RewardError for anything else, infinite ones too."""
    if value is None:
        return None
    try:
        found = float(value)
    except (TypeError, ValueError):
        raise RewardError(f"reward {name!r} returned {value!r}, expected a number or None") from None
    if math.isinf(found):
        raise RewardError(f"reward {name!r} returned {found}; rewards must be finite. Clip it or return None.")
    return None if math.isnan(found) else found
