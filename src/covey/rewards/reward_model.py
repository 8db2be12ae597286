"""A trained reward model: a sequence classifier with one label scores the conversation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from covey.rewards.base import ScoreContext
from covey.rewards.classifier import Classifier, UnfitError, load_classifier
from covey.rewards.together import Together
from covey.types import Group, Part, Prompt


@dataclass(frozen=True, kw_only=True)
class RewardModel:
    """The score that a reward model gives the prompt's messages with the reply as the assistant's.

    ``model`` is a folder or a hub id of a sequence classifier with one label, loaded when the reward is made; its own
    tokenizer and chat template are used. ``transform`` is applied to the logit: "sigmoid" gives 0 to 1, "tanh" -1 to 1,
    "none" a number of any size. ``batch`` is rows a forward, ``max_tokens`` the longest conversation (by default as
    many as the model has positions); a longer one cannot be judged (None) and is never cut. ``device`` is "auto" (the
    GPU if there is one) or a name; ``dtype`` "auto" is that of the saved weights, and in float32 a score does not
    depend on the batch to 1e-5. Groups that come together are scored together, one forward at a time, on a thread.

    Raises ConfigError for a model with more labels or without trained weights for its head. Farmed by whatever the
    model learned to like, length above all: watch it beside a reward that knows right from wrong, and keep a KL term.
    """

    model: str
    batch: int = 16
    max_tokens: int | None = None
    device: str = "auto"
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    transform: Literal["none", "sigmoid", "tanh"] = "none"
    trust_remote_code: bool = False
    name: str = "reward_model"

    def __post_init__(self) -> None:
        if self.batch < 1 or (self.max_tokens is not None and self.max_tokens < 1):
            raise ValueError(f"batch >= 1 and max_tokens >= 1 expected, got {self.batch} and {self.max_tokens}")
        if self.dtype not in DTYPES or self.transform not in TRANSFORMS:
            raise ValueError(
                f"dtype of {', '.join(DTYPES)} and transform of {', '.join(TRANSFORMS)} expected, got {self.dtype!r} "
                f"and {self.transform!r}"
            )
        _ = self.classifier

    @cached_property
    def classifier(self) -> Classifier:
        """The model with its tokenizer, loaded once."""
        return load_classifier(
            self.model,
            max_tokens=self.max_tokens,
            device=self.device,
            dtype=self.dtype,
            trust_remote_code=self.trust_remote_code,
        )

    @cached_property
    def _together(self) -> Together[tuple[Prompt, str], Part]:
        return Together(self._parts)

    async def score_group(self, group: Group, context: ScoreContext, /) -> list[Part]:
        return await self._together.ask([(group.prompt, member.reply) for member in group.members])

    def _parts(self, asked: list[tuple[Prompt, str]]) -> list[Part]:
        """One part a conversation, of any number of groups."""
        rows: list[tuple[int, ...] | Part] = []
        for prompt, reply in asked:
            try:
                rows.append(self.classifier.encode(prompt, reply))
            except UnfitError as error:
                rows.append(Part(value=None, why=str(error)))
        scores = iter(self.classifier.scores([row for row in rows if not isinstance(row, Part)], self.batch))
        return [row if isinstance(row, Part) else self._part(next(scores), len(row)) for row in rows]

    def _part(self, score: float, tokens: int) -> Part:
        if not math.isfinite(score):
            why = f"the reward model's score is {score}"
            return Part(value=None, why=why, error=why)
        return Part(value=TRANSFORMS[self.transform](score), why=f"score {score:.4g} of {tokens} tokens")


def _sigmoid(score: float) -> float:
    return (1.0 + math.tanh(score / 2)) / 2  # no overflow on either side


DTYPES = ("auto", "float32", "bfloat16", "float16")
TRANSFORMS = {"none": float, "sigmoid": _sigmoid, "tanh": math.tanh}
