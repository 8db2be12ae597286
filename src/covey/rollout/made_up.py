"""Responses that nobody sampled, to try rewards on."""

from __future__ import annotations

import numpy as np

from covey.rollout.chat import Chat
from covey.types import Prompt, Trajectory, Turn


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
        turns=(Turn(start=len(start), stop=stop, reply=text, finish="stop", ends=chat.ends(reply)),),
    )
