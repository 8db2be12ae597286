"""Stage 4: prompts become groups of sampled responses."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

import numpy as np

from covey.engines.base import Engine, Streaming
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
    ended: Callable[[int, Group], None] | None = None,
) -> list[Group]:
    """Sample ``group_size`` responses to every prompt (or as many as it lists): one Group a prompt, in their order.

    All requests go to the engine in one call, so that it may batch them as it likes; responses find their group by
    request id. Each response's seed derives from ``seed``, its place in the call, its prompt's uid and its number.
    ``ended`` is called with a group and its place as soon as the engine has handed over all its responses.
    """
    plan = plan or RolloutPlan()
    sizes = [group_size] * len(prompts) if isinstance(group_size, int) else list(group_size)
    samples = [[*range(size), *([GREEDY] if plan.greedy else [])] for size in sizes]

    def group(place: int, found: Mapping[int, Trajectory]) -> Group:
        members = tuple(found[sample] for sample in range(sizes[place]))
        return Group(prompt=prompts[place], members=members, greedy=found.get(GREEDY))

    groups = {}
    async for place, found in _sample(prompts, engine, chat, sampling, samples, seed, plan):
        groups[place] = group(place, found)
        if ended is not None:
            ended(place, groups[place])
    return [groups[place] for place in range(len(prompts))]


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
    prompts = [group.prompt for group in groups]
    larger = list(groups)
    async for place, found in _sample(prompts, engine, chat, sampling, samples, seed, plan or RolloutPlan()):
        members = (*groups[place].members, *(found[sample] for sample in samples[place]))
        larger[place] = replace(groups[place], members=members)
    return larger


async def _sample(
    prompts: Sequence[Prompt],
    engine: Engine,
    chat: Chat,
    sampling: Sampling,
    samples: Sequence[Sequence[int]],
    seed: tuple[int | str, ...],
    plan: RolloutPlan,
) -> AsyncIterator[tuple[int, Mapping[int, Trajectory]]]:
    """Each prompt's place and the responses with these numbers to it, by number, as soon as the last of them ended."""
    asked: dict[str, tuple[int, int, Request]] = {}
    for place, prompt in enumerate(prompts):
        tokens = chat.encode(prompt)
        for sample in samples[place]:
            drawn = replace(
                sampling,
                seed=derive_seed(*seed, place, prompt.uid, sample),
                temperature=0.0 if sample == GREEDY else sampling.temperature,
            )
            asked[f"{place}/{sample}"] = (
                place,
                sample,
                Request(id=f"{place}/{sample}", tokens=tokens, sampling=drawn),
            )
    found: list[dict[int, Trajectory]] = [{} for _ in prompts]
    for place in (place for place, numbers in enumerate(samples) if not numbers):
        yield place, found[place]
    async for completions in _completions(engine, [request for _, _, request in asked.values()]):
        for completion in completions:
            place, sample, request = asked[completion.id]
            found[place][sample] = _trajectory(prompts[place], sample, request, completion, chat, plan)
            if len(found[place]) == len(samples[place]):
                yield place, found[place]


async def _completions(engine: Engine, requests: Sequence[Request]) -> AsyncIterator[list[Completion]]:
    if not requests:
        return
    if not isinstance(engine, Streaming):
        yield await engine.generate(requests)
        return
    async with aclosing(engine.stream(requests)) as handed_over:
        async for completions in handed_over:
            yield completions


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
