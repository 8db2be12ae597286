"""Stage 4: prompts become groups of sampled responses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from covey.engines.base import Engine
from covey.rollout.chat import Chat
from covey.rollout.seeds import derive_seed
from covey.types import Completion, Group, Prompt, Request, Sampling, Trajectory, Turn

GREEDY = -1
"""The sample number of a group's greedy response."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutPlan:
    """What to sample beside the responses themselves.

    ``greedy``: one more response a prompt at temperature 0. ``text_ends``: keep which characters each token gave.
    """

    greedy: bool = False
    text_ends: bool = False


async def rollout(
    prompts: Sequence[Prompt],
    engine: Engine,
    chat: Chat,
    sampling: Sampling,
    group_size: int | Sequence[int],
    seed: tuple[int | str, ...],
    plan: RolloutPlan | None = None,
) -> list[Group]:
    """Sample ``group_size`` responses to every prompt (or as many as it lists): one Group a prompt, in their order.

    All requests go to the engine in one call, so that it may batch them as it likes; responses find their group by
    request id. Each response's seed derives from ``seed``, its place in the call, its prompt's uid and its number.
    """
    plan = plan or RolloutPlan()
    sizes = [group_size] * len(prompts) if isinstance(group_size, int) else list(group_size)
    samples = [[*range(size), *([GREEDY] if plan.greedy else [])] for size in sizes]
    sampled = await _sample(prompts, engine, chat, sampling, samples, seed, plan)
    return [
        Group(
            prompt=prompt,
            members=tuple(found[sample] for sample in range(size)),
            greedy=found.get(GREEDY),
        )
        for prompt, size, found in zip(prompts, sizes, sampled, strict=True)
    ]


async def extend(
    groups: Sequence[Group],
    engine: Engine,
    chat: Chat,
    sampling: Sampling,
    more: Sequence[int],
    seed: tuple[int | str, ...],
    plan: RolloutPlan | None = None,
) -> list[Group]:
    """Sample ``more[i]`` further responses for group i and add them to it.

    With the seed of the first call and all its groups in order, they are those that a larger group would have had.
    """
    samples = [
        list(range(len(group.members), len(group.members) + extra)) for group, extra in zip(groups, more, strict=True)
    ]
    sampled = await _sample(
        [group.prompt for group in groups], engine, chat, sampling, samples, seed, plan or RolloutPlan()
    )
    return [
        replace(group, members=(*group.members, *(found[sample] for sample in numbers)))
        for group, numbers, found in zip(groups, samples, sampled, strict=True)
    ]


async def _sample(
    prompts: Sequence[Prompt],
    engine: Engine,
    chat: Chat,
    sampling: Sampling,
    samples: Sequence[Sequence[int]],
    seed: tuple[int | str, ...],
    plan: RolloutPlan,
) -> list[Mapping[int, Trajectory]]:
    """The responses with these numbers to each prompt, by number."""
    encoded = [chat.encode(prompt) for prompt in prompts]
    requests = {}
    for place, (prompt, tokens) in enumerate(zip(prompts, encoded, strict=True)):
        for sample in samples[place]:
            drawn = replace(
                sampling,
                seed=derive_seed(*seed, place, prompt.uid, sample),
                temperature=0.0 if sample == GREEDY else sampling.temperature,
            )
            requests[f"{place}/{sample}"] = Request(id=f"{place}/{sample}", tokens=tokens, sampling=drawn)
    completions = {found.id: found for found in await engine.generate(list(requests.values()))} if requests else {}
    return [
        {
            sample: _trajectory(
                prompt, sample, requests[f"{place}/{sample}"], completions[f"{place}/{sample}"], chat, plan
            )
            for sample in samples[place]
        }
        for place, prompt in enumerate(prompts)
    ]


def _trajectory(
    prompt: Prompt, sample: int, request: Request, completion: Completion, chat: Chat, plan: RolloutPlan
) -> Trajectory:
    start, stop = len(request.tokens), len(request.tokens) + len(completion.tokens)
    turn = Turn(
        start=start,
        stop=stop,
        reply=chat.decode(completion.tokens),
        finish=completion.finish,
        ends=chat.ends(completion.tokens) if plan.text_ends else None,
    )
    return Trajectory(
        prompt_uid=prompt.uid,
        sample=sample,
        tokens=np.concatenate([request.tokens, completion.tokens]),
        sampled=np.arange(stop) >= start,
        logp=np.concatenate([np.full(start, np.nan, dtype=np.float32), completion.logp]),
        version=completion.version,
        turns=(turn,),
        temperature=request.sampling.temperature or 1.0,  # greedy log-probs are those at temperature 1
    )
