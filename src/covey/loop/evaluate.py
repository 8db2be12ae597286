"""Held-out evaluation: greedy accuracy, pass@1 and unbiased pass@k, each with an interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from covey.config import EvalSection
from covey.engines.base import Engine
from covey.metrics.estimate import Estimate, mean_over_problems, pass_at_k, wilson
from covey.rewards.base import ScoreContext
from covey.rewards.score import Scorer, check_failures
from covey.rollout.chat import Chat
from covey.rollout.group import rollout
from covey.types import Prompt, Sampling, ScoredGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One held-out problem with an answer and the verdict on it."""

    question: str
    gold: str | None
    reply: str
    correct: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """``pass_at[1]`` is the mean accuracy at the evaluation temperature. ``unjudged`` responses are in no rate."""

    step: int
    problems: int
    samples: int
    greedy: Estimate | None
    pass_at: Mapping[int, Estimate]
    mean_length: float  # tokens a sampled response
    unjudged: int
    examples: tuple[Example, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain data for ``evaluations.jsonl`` and ``summary.json``."""
        return asdict(self)


async def evaluate(
    prompts: Sequence[Prompt], engine: Engine, chat: Chat, scorer: Scorer, section: EvalSection, sampling: Sampling,
    *, seed: int, step: int, max_failed: float = 0.5,
) -> Evaluation:  # fmt: skip
    """Ask every prompt ``section.samples`` times, and once greedily.

    Seeds depend on ``seed``, the prompt and its place, so two evaluations of a run see the same dice and can be
    compared pair by pair. ``sampling`` gives the token limit; truncation is never applied.
    """
    context = ScoreContext(step=step, evaluating=True)
    limit = sampling.max_new_tokens
    warm = Sampling(temperature=section.temperature, max_new_tokens=limit)
    scored = await scorer(await rollout(prompts, engine, chat, warm, section.samples, (seed, "eval")), context)
    greedy: list[ScoredGroup] = []
    if section.greedy:
        cold = Sampling(temperature=0.0, max_new_tokens=limit)
        greedy = await scorer(await rollout(prompts, engine, chat, cold, 1, (seed, "greedy")), context)
    check_failures([*scored, *greedy], max_failed)
    verdicts = [group.scores[0].correct for group in greedy if group.scores[0].correct is not None]
    lengths = [member.sampled_tokens for group in scored for member in group.group.members]
    everything = [score for group in scored for score in group.scores]
    return Evaluation(
        step=step,
        problems=len(prompts),
        samples=section.samples,
        greedy=wilson(sum(verdicts), len(verdicts)) if verdicts else None,
        pass_at=_pass_rates(scored, section.pass_at),
        mean_length=float(np.mean(lengths)),
        unjudged=sum(score.correct is None for score in everything),
        examples=tuple(_example(group) for group in (greedy or scored)[:3]),
    )


def _pass_rates(scored: Sequence[ScoredGroup], ks: Sequence[int]) -> dict[int, Estimate]:
    counts = []
    for group in scored:
        verdicts = [score.correct for score in group.scores if score.correct is not None]
        counts.append((len(verdicts), sum(verdicts)))
    rates = {}
    for k in sorted({1, *ks}):
        values = [pass_at_k(n, c, k) for n, c in counts if n >= k]
        if values:
            rates[k] = mean_over_problems(np.array(values))
    return rates


def _example(group: ScoredGroup) -> Example:
    prompt, member = group.group.prompt, group.group.members[0]
    return Example(question=prompt.text, gold=prompt.answer, reply=member.reply, correct=group.scores[0].correct)
