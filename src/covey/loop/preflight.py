"""Tries rewards and sampler before the run begins: what is broken is found in a second and leaves nothing behind."""

from __future__ import annotations

from dataclasses import replace

from covey.batching.rows import bare_rows
from covey.errors import RewardError
from covey.learner.learner import exceeds, mismatch
from covey.loop.build import Workshop
from covey.loop.lockstep import train_sampling
from covey.rewards.base import ScoreContext
from covey.rewards.score import judge
from covey.rollout.group import rollout
from covey.rollout.made_up import made_up
from covey.types import Group, ScoredGroup, StepBatch, Totals


async def check_rewards(workshop: Workshop) -> None:
    """Score two made-up responses to the first prompt: its own answer, and a few words; and choose their tokens.

    Raises AdvantageError from a token choice of the user's own that fails, and RewardError naming the reward if it
    raises, or returns something that is not one number (or None) a response. What it returns is not judged further.
    """
    prompt = workshop.cursor.prompts[0]
    group = Group(
        prompt=prompt,
        members=tuple(
            made_up(prompt, sample, text, workshop.chat) for sample, text in enumerate((prompt.answer or "", "no idea"))
        ),
    )
    for member in group.members:
        workshop.shaping.tokens(member)  # a choice that cannot read text says so here
    for item in workshop.scorer.rewards:
        parts = await judge(item.reward, group, ScoreContext(steps=workshop.config.run.steps, evaluating=True))
        failed = next((part.error for part in parts if part.error), None)
        if failed:
            raise RewardError(
                f"reward {item.reward.name!r} raised {failed} when it was tried on prompt {prompt.uid!r}. "
                "A reward returns None for what it cannot judge."
            )


async def check_agreement(workshop: Workshop, prompts: int = 4, tokens: int = 16) -> None:
    """Sample a few short responses as training will, and compare their log-probs with the trainer's.

    Raises MismatchError where they differ by more than ``optim.gap_mean`` or ``optim.gap_max``.
    """
    w = workshop
    usual = w.controls.sampling(train_sampling(w.config), 0)
    short = replace(usual, max_new_tokens=min(tokens, usual.max_new_tokens))
    asked = w.cursor.prompts[:prompts]
    groups = await rollout(asked, w.engine, w.chat, short, 1, (w.config.run.seed, "agreement"))
    rows = [row for group in groups for row in bare_rows(ScoredGroup(group=group, scores=()))]
    micro = w.learner.layout.filled(rows)
    count = sum(int(row.trained.sum()) for row in rows)
    gap = w.learner.probe(StepBatch(micro=(micro,), totals=Totals(tokens=count, sequences=len(rows), groups=len(rows))))
    if exceeds(gap.mean, w.learner.limits.gap_mean) or exceeds(gap.largest, w.learner.limits.gap_max):
        raise mismatch(gap, w.learner.limits)
