"""Stage 4: prompts become groups of sampled responses."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from covey.engines.base import Engine
from covey.rollout.chat import Chat
from covey.rollout.seeds import derive_seed
from covey.types import Completion, Group, Prompt, Request, Sampling, Trajectory, Turn


async def rollout(
    prompts: Sequence[Prompt],
    engine: Engine,
    chat: Chat,
    sampling: Sampling,
    group_size: int,
    seed: tuple[int | str, ...],
) -> list[Group]:
    """Sample ``group_size`` responses to every prompt: one Group a prompt, in the order of the prompts.

    All requests go to the engine in one call, so that it may batch them as it likes; responses find their group by
    request id. Each response's seed derives from ``seed``, its place in the call, its prompt's uid and its number.
    """
    encoded = [chat.encode(prompt) for prompt in prompts]
    requests = {}
    for place, (prompt, tokens) in enumerate(zip(prompts, encoded, strict=True)):
        for sample in range(group_size):
            drawn = derive_seed(*seed, place, prompt.uid, sample)
            name = f"{place}/{sample}"
            requests[name] = Request(
                id=name,
                tokens=tokens,
                sampling=Sampling(
                    temperature=sampling.temperature,
                    top_p=sampling.top_p,
                    top_k=sampling.top_k,
                    max_new_tokens=sampling.max_new_tokens,
                    seed=drawn,
                ),
            )
    completions = {completion.id: completion for completion in await engine.generate(list(requests.values()))}
    return [
        Group(
            prompt=prompt,
            members=tuple(
                _trajectory(prompt, sample, tokens, completions[f"{place}/{sample}"], chat)
                for sample in range(group_size)
            ),
        )
        for place, (prompt, tokens) in enumerate(zip(prompts, encoded, strict=True))
    ]


def _trajectory(prompt: Prompt, sample: int, tokens: np.ndarray, completion: Completion, chat: Chat) -> Trajectory:
    start, stop = len(tokens), len(tokens) + len(completion.tokens)
    return Trajectory(
        prompt_uid=prompt.uid,
        sample=sample,
        tokens=np.concatenate([tokens, completion.tokens]),
        sampled=np.arange(stop) >= start,
        logp=np.concatenate([np.full(start, np.nan, dtype=np.float32), completion.logp]),
        version=completion.version,
        turns=(Turn(start=start, stop=stop, reply=chat.decode(completion.tokens), finish=completion.finish),),
    )
