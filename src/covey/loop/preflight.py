"""Tries every reward before the run begins, so that a broken one is found in a second and leaves nothing behind."""

from __future__ import annotations

import numpy as np

from covey.errors import RewardError
from covey.loop.build import Workshop
from covey.rewards.base import ScoreContext
from covey.rewards.score import judge
from covey.rollout.chat import Chat
from covey.types import Group, Prompt, Trajectory, Turn


async def check_rewards(workshop: Workshop) -> None:
    """Score two made-up responses to the first prompt: its own answer, and a few words.

    Raises RewardError naming the reward if it raises, or returns something that is not one number (or None) a
    response. What it returns is not judged further.
    """
    prompt = workshop.cursor.prompts[0]
    group = Group(
        prompt=prompt,
        members=tuple(
            made_up(prompt, sample, text, workshop.chat) for sample, text in enumerate((prompt.answer or "", "no idea"))
        ),
    )
    for item in workshop.scorer.rewards:
        parts = await judge(item.reward, group, ScoreContext(steps=workshop.config.run.steps, evaluating=True))
        failed = next((part.error for part in parts if part.error), None)
        if failed:
            raise RewardError(
                f"reward {item.reward.name!r} raised {failed} when it was tried on prompt {prompt.uid!r}. "
                "A reward returns None for what it cannot judge."
            )


def made_up(prompt: Prompt, sample: int, text: str, chat: Chat) -> Trajectory:
    """A response that nobody sampled, as the engine would have returned it."""
    start = chat.encode(prompt)
    reply = np.asarray(chat.tokenizer(text, add_special_tokens=False)["input_ids"], dtype=np.int64)
    reply = np.append(reply, min(chat.end_tokens))
    stop = len(start) + len(reply)
    return Trajectory(
        prompt_uid=prompt.uid,
        sample=sample,
        tokens=np.concatenate([start, reply]),
        sampled=np.arange(stop) >= len(start),
        logp=np.where(np.arange(stop) < len(start), np.nan, 0.0).astype(np.float32),
        version=0,
        turns=(Turn(start=len(start), stop=stop, reply=text, finish="stop"),),
    )
