"""What every engine holds. Give the fixtures ``engine`` and ``prompt_tokens`` (two prompts of different lengths).

Set the fixture ``draws`` to False for an engine whose answers do not depend on the seed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from covey.engines.base import Streaming
from covey.types import Completion, Request, Sampling


@pytest.fixture
def draws() -> bool:
    return True


def ask(engine: Any, requests: Sequence[Request]) -> dict[str, Completion]:
    return {completion.id: completion for completion in asyncio.run(engine.generate(requests))}


def make_requests(prompt_tokens: Sequence[Sequence[int]], n: int = 3, **knobs: Any) -> list[Request]:
    return [
        Request(
            id=f"{p}-{i}",
            tokens=np.asarray(tokens, dtype=np.int64),
            sampling=replace(Sampling(max_new_tokens=12, seed=100 * p + i), **knobs),
        )
        for p, tokens in enumerate(prompt_tokens)
        for i in range(n)
    ]


def test_every_request_is_answered_by_its_id(engine: Any, prompt_tokens: Any) -> None:
    requests = make_requests(prompt_tokens)
    assert set(ask(engine, requests)) == {request.id for request in requests}


def test_what_it_hands_over_on_the_way_is_what_it_answers(engine: Any, prompt_tokens: Any) -> None:
    if not isinstance(engine, Streaming):
        pytest.skip("it answers all at once")
    requests = make_requests(prompt_tokens)

    async def streamed() -> list[Completion]:
        return [completion async for ended in engine.stream(requests) for completion in ended]

    found, asked = asyncio.run(streamed()), ask(engine, requests)
    assert sorted(completion.id for completion in found) == sorted(asked)
    for completion in found:
        assert completion.tokens.tolist() == asked[completion.id].tokens.tolist()


def test_completions_are_well_formed(engine: Any, prompt_tokens: Any) -> None:
    for completion in ask(engine, make_requests(prompt_tokens, n=8)).values():
        assert completion.tokens.dtype == np.int64
        assert completion.logp.dtype == np.float32
        assert 1 <= len(completion.tokens) == len(completion.logp) <= 12
        assert np.isfinite(completion.logp).all()
        assert (completion.logp <= 0).all()
        assert completion.finish in ("stop", "length")
        if completion.finish == "length":
            assert len(completion.tokens) == 12


def test_same_seed_same_answer_whatever_the_company(engine: Any, prompt_tokens: Any) -> None:
    requests = make_requests(prompt_tokens)
    together, shuffled = ask(engine, requests), ask(engine, requests[::-1])
    for request in requests:
        alone = ask(engine, [request])[request.id]
        for other in (together[request.id], shuffled[request.id]):
            assert alone.tokens.tolist() == other.tokens.tolist()
            np.testing.assert_allclose(alone.logp, other.logp, atol=1e-4)


def test_different_seeds_differ(engine: Any, prompt_tokens: Any, draws: bool) -> None:
    answers = {tuple(c.tokens.tolist()) for c in ask(engine, make_requests(prompt_tokens[:1], n=8)).values()}
    assert (len(answers) > 1) == draws


def test_greedy_ignores_the_seed(engine: Any, prompt_tokens: Any) -> None:
    answers = ask(engine, make_requests(prompt_tokens[:1], n=4, temperature=0.0)).values()
    assert len({tuple(c.tokens.tolist()) for c in answers}) == 1


def test_the_limit_is_each_request_s_own(engine: Any, prompt_tokens: Any) -> None:
    short, long = make_requests(prompt_tokens[:1], n=2)
    short = replace(short, sampling=replace(short.sampling, max_new_tokens=1))
    answers = ask(engine, [short, long])
    assert len(answers[short.id].tokens) == 1
    assert answers[long.id].tokens.tolist() == ask(engine, [long])[long.id].tokens.tolist()


def test_completions_carry_the_version_of_the_weights(engine: Any, prompt_tokens: Any) -> None:
    asyncio.run(engine.load_weights(getattr(engine, "model", None), 7))
    assert {c.version for c in ask(engine, make_requests(prompt_tokens)).values()} == {7}


def test_nothing_asked_nothing_answered(engine: Any) -> None:
    assert asyncio.run(engine.generate([])) == []


def test_close_twice(engine: Any) -> None:
    asyncio.run(engine.close())
    asyncio.run(engine.close())
