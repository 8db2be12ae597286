"""One family of errors. Each says what happened, what was expected, and what to do; the CLI prints only that."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class CoveyError(Exception):
    """Base of every error that Covey raises on purpose. ``covey`` prints its text and exits with code 2."""


class ConfigError(CoveyError, ValueError):
    """A run file or override is wrong: an unknown key, a wrong type, a value out of range, a contradiction."""


class PromptError(CoveyError, ValueError):
    """A data set cannot be used: missing file or column, no rows, a prompt that is too long."""


class ModelError(CoveyError, ValueError):
    """A model or tokenizer cannot be loaded or does not fit the task."""


class RewardError(CoveyError, RuntimeError):
    """A reward broke its contract, or failed too often to train on."""


class AdvantageError(CoveyError, ValueError):
    """Rewards are not of the kind that the advantage takes."""


class MismatchError(CoveyError, RuntimeError):
    """Sampler and trainer give different log-probs for the same tokens and weights, beyond the stated limit."""


class RunFolderError(CoveyError, RuntimeError):
    """A run folder is missing, already in use, or cannot be read."""


class MissingExtraError(CoveyError, ImportError):
    """An optional library is needed. The text names the extra to install."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs the package {package}. Install it with: pip install 'covey[{extra}]'")


def did_you_mean(name: str, allowed: Iterable[str]) -> str:
    """Return ``" Did you mean 'x'?"`` for the nearest allowed spelling, or the list of what is allowed."""
    options = sorted(allowed)
    near = difflib.get_close_matches(name, options, n=1, cutoff=0.6)
    if near:
        return f" Did you mean {near[0]!r}?"
    return f" Allowed: {', '.join(options)}." if options else ""
