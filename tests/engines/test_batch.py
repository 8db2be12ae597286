"""Rows that join and leave: what is computed once, what is no longer computed, and that nobody notices."""

import asyncio
import gc

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from covey.engines import hf, slots
from covey.engines.attend import shares_prompts, token_bytes
from covey.engines.base import Telling
from covey.engines.batch import Batch
from covey.engines.hf import HFEngine
from covey.engines.sampling import BLOCK, draw
from covey.testing.samples import random_llama
from covey.types import Request, Sampling


def requests_of(prompts, siblings=3, new=12, **knobs):
    return [
        Request(
            id=f"{p}/{i}", tokens=np.array(tokens), sampling=Sampling(max_new_tokens=new + p, seed=100 * p + i, **knobs)
        )
        for p, tokens in enumerate(prompts)
        for i in range(siblings)
    ]


def ask(engine, requests):
    return {c.id: c for c in asyncio.run(engine.generate(requests))}


PROMPTS = [[4, 13, 5], [7] * 9, [4, 13, 5, 6, 8, 30], [11], [12, 3], [7] * 9, [20, 21, 22, 23]]


def assert_same(got, expected):
    assert got.keys() == expected.keys()
    for name, completion in got.items():
        assert completion.tokens.tolist() == expected[name].tokens.tolist(), name
        assert completion.finish == expected[name].finish
        np.testing.assert_allclose(completion.logp, expected[name].logp, atol=2e-5)


@pytest.mark.parametrize("rows", [1, 2, 3, 8, 20])
def test_answers_do_not_depend_on_how_many_fit(model, rows):
    requests = requests_of(PROMPTS)
    assert_same(
        ask(HFEngine(model, frozenset({1}), rows=rows), requests), ask(HFEngine(model, frozenset({1})), requests)
    )


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    st.lists(st.lists(st.integers(2, 40), min_size=1, max_size=20), min_size=1, max_size=8),
    st.integers(1, 5),
    st.integers(1, 4),
)
def test_any_mix_of_prompts(prompts, rows, siblings):
    model = random_llama().double()  # in float32 the ways differ in the fifth digit
    requests = requests_of(prompts, siblings)
    engine, plain = HFEngine(model, frozenset({1, 9}), rows=rows), HFEngine(model, frozenset({1, 9}))
    plain.shared = False
    assert_same(ask(engine, requests), ask(plain, requests))


class Counted:
    """Sizes of all passes through a model."""

    def __init__(self, model, monkeypatch):
        self.passes = []
        original = model.forward

        def forward(*args, **kwargs):
            self.passes.append(tuple(kwargs["input_ids"].shape))
            return original(*args, **kwargs)

        monkeypatch.setattr(model, "forward", forward)


def test_a_prompt_is_prefilled_once_for_all_its_responses(model, monkeypatch):
    engine = HFEngine(model, frozenset({999}), rows=4)
    counted = Counted(model, monkeypatch)
    ask(engine, requests_of([[5] * 10, [6] * 7], siblings=8))
    prefills = [shape for shape in counted.passes if shape[1] > 1]
    assert sum(rows for rows, _ in prefills) == 2


def test_ended_rows_are_no_longer_computed(model, monkeypatch):
    engine = HFEngine(model, frozenset({999}))
    counted = Counted(model, monkeypatch)
    requests = [
        Request(id=str(n), tokens=np.array([4, 5]), sampling=Sampling(max_new_tokens=n, seed=n)) for n in (2, 4, 8)
    ]
    ask(engine, requests)
    assert counted.passes == [(1, 2), (3, 1), (2, 1), (2, 1), (1, 1), (1, 1), (1, 1), (1, 1)]


def test_waiting_responses_take_the_place_of_ended_ones(model, monkeypatch):
    engine = HFEngine(model, frozenset({999}), rows=4)
    counted = Counted(model, monkeypatch)
    requests = [
        Request(id=str(i), tokens=np.array([4, 5]), sampling=Sampling(max_new_tokens=2 + 6 * (i % 2), seed=i))
        for i in range(8)
    ]
    ask(engine, requests)
    steps = [rows for rows, columns in counted.passes if columns == 1]
    assert max(steps) == 4
    assert sum(steps) == 4 * 1 + 4 * 7  # one pass less than tokens: the first comes from the prompt's own pass
    assert len(steps) < 2 * 7  # two batches of four, padded to the longest, would take that many


def test_room_for_new_tokens_grows(monkeypatch):
    model = random_llama(positions=256).double()
    requests = requests_of(PROMPTS, new=150)
    whole = ask(HFEngine(model, frozenset({999})), requests)
    monkeypatch.setattr(slots, "COLUMNS", 1)
    assert_same(ask(HFEngine(model, frozenset({999}), rows=4), requests), whole)
    plain = HFEngine(model, frozenset({999}))
    plain.shared = False
    assert_same(ask(plain, requests), whole)


def test_rows_and_prompts_come_and_go(model):
    """Many short rows after one another in a cache that holds only a few: everything moves, nothing changes."""
    requests = requests_of([[4 + p % 30] * (1 + p % 5) for p in range(40)], siblings=1, new=3)
    engine = HFEngine(model, frozenset({999}), rows=2)
    assert_same(ask(engine, requests), ask(HFEngine(model, frozenset({999})), requests))


def test_models_with_other_caches_are_sampled_in_the_plain_way(model):
    assert shares_prompts(model)
    from transformers import Qwen3NextConfig, Qwen3NextForCausalLM

    config = Qwen3NextConfig(
        vocab_size=48, hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2, eos_token_id=1,
        num_key_value_heads=1, head_dim=16, layer_types=["linear_attention", "full_attention"], num_experts=2,
        num_experts_per_tok=1, moe_intermediate_size=16, shared_expert_intermediate_size=16, pad_token_id=0,
        linear_num_value_heads=2, linear_num_key_heads=2, linear_key_head_dim=8, linear_value_head_dim=8,
    )  # fmt: skip
    assert not shares_prompts(Qwen3NextForCausalLM(config))


@pytest.mark.parametrize("vocabulary", [1, 7, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 5])
def test_drawing_inverts_the_cumulative_distribution(vocabulary):
    generator = torch.Generator().manual_seed(vocabulary)
    logits = 3 * torch.randn(64, vocabulary, generator=generator)
    logits[:, ::3] = -torch.inf
    logits[:, -1] = torch.where(torch.arange(64) % 2 == 0, 0.0, -torch.inf) if vocabulary > 1 else 0.0
    logits[:, vocabulary // 2] = 0.0
    chances = torch.softmax(logits, -1)
    uniform = torch.rand(64, generator=generator, dtype=torch.float64)
    uniform[:2] = torch.tensor([0.0, 1.0 - 2**-53], dtype=torch.float64)
    tokens, values = draw(chances, torch.ones(64), uniform)
    torch.testing.assert_close(values, torch.log_softmax(logits, -1).gather(1, tokens[:, None])[:, 0])
    cumulative = chances.double().cumsum(-1)
    for row in range(64):
        assert torch.isfinite(values[row])
        below = cumulative[row, tokens[row] - 1].item() if tokens[row] else 0.0
        target = uniform[row].item() * cumulative[row, -1].item()
        assert below - 1e-6 <= target <= cumulative[row, tokens[row]].item() + 1e-6


def test_drawing_follows_the_distribution():
    chances = torch.softmax(torch.tensor([2.0, 0.0, 1.0, -1.0]), 0)
    uniform = (torch.arange(10_000, dtype=torch.float64) + 0.5) / 10_000
    tokens, _ = draw(chances.expand(10_000, -1), torch.ones(10_000), uniform)
    share = torch.bincount(tokens, minlength=4) / 10_000
    torch.testing.assert_close(share, chances, rtol=0, atol=2e-4)


@pytest.mark.parametrize(
    ("tokens", "most"),
    [(1, 1), (22, 1), (23, 1), (32, 2), (31, 1), (42, 3), (61, 3), (62, 4), (81, 5), (82, 6)],
)
def test_rows_are_as_many_as_their_keys_and_values_have_room(model, tokens, most):
    """Two prompts of 12 and 10 tokens, three answers of 10 tokens each: 22 + 10 + 10, then 20 more for the next."""
    requests = [
        Request(id=f"{n}/{i}", tokens=np.full(n, 5), sampling=Sampling(max_new_tokens=10, seed=i))
        for n in (12, 10)
        for i in range(3)
    ]
    engine = HFEngine(model, frozenset({999}), cache_bytes=tokens * token_bytes(model))
    batch = Batch(model, requests, end_tokens=frozenset({999}), limit=None, rows=64, cache_bytes=engine.cache_bytes)
    assert batch.rows == most
    assert_same(ask(engine, requests), ask(HFEngine(model, frozenset({999})), requests))


def test_a_token_takes_keys_and_values_in_every_layer(model):
    shape = model.config
    assert token_bytes(model) == 2 * 4 * shape.num_hidden_layers * shape.num_key_value_heads * shape.head_dim


def test_rows_with_more_room_than_needed_are_not_given_it():
    model = random_llama(positions=256).double()
    requests = requests_of(PROMPTS[:2], siblings=2, new=5)
    batch = Batch(model, requests, end_tokens=frozenset({999}), limit=256, rows=8, cache_bytes=1 << 30)
    with torch.inference_mode():
        assert len(list(batch.run())) == 4
    assert {store.shape[2] for layer in batch.slots.held for store in layer.own} == {6}


@pytest.mark.parametrize(("longest", "columns"), [(3, {3}), (5, {4}), (6, {4, 6}), (19, {4, 8, 16, 19})])
def test_room_for_new_tokens_doubles_up_to_the_longest_answer(monkeypatch, longest, columns):
    monkeypatch.setattr(slots, "COLUMNS", 4)
    sampling = Sampling(max_new_tokens=longest, seed=1)
    requests = [Request(id=str(i), tokens=np.array([4, 5]), sampling=sampling) for i in range(2)]
    model, found = random_llama(positions=256), set()
    batch = Batch(model, requests, end_tokens=frozenset({999}), limit=256, rows=8, cache_bytes=1 << 30)
    with torch.inference_mode():
        while batch.waiting or batch.active:
            list(batch.run(until=0))
            found |= {store.shape[2] for layer in batch.slots.held for store in layer.own}
    assert found == columns


def long_requests(n=4):
    return [Request(id=str(i), tokens=np.array([4, 5]), sampling=Sampling(max_new_tokens=60, seed=i)) for i in range(n)]


@pytest.mark.parametrize("shared", [True, False], ids=["shared", "plain"])
def test_the_engine_tells_how_far_it_is(model, monkeypatch, shared):
    monkeypatch.setattr(hf, "BURST", 0.0)
    engine, told = HFEngine(model, frozenset({999}), rows=2), []
    engine.shared, engine.listener = shared, told.append
    answers = ask(engine, long_requests())
    assert isinstance(engine, Telling)
    assert [p.ended for p in told] == sorted(p.ended for p in told)
    assert (told[-1].ended, told[-1].asked, told[-1].drawn) == (4, 4, sum(len(c.tokens) for c in answers.values()))
    assert len(told) == (2 * 59 if shared else 2)  # a prompt's own pass draws the first token of its rows
    whole = [c.tokens.tolist() for c in answers.values()]
    assert all(any(tokens[: len(p.newest)] == p.newest.tolist() for tokens in whole) for p in told)


def test_a_cancelled_call_stops_and_leaves_the_engine_as_it_was(model, monkeypatch):
    monkeypatch.setattr(hf, "BURST", 0.0)
    engine, told = HFEngine(model, frozenset({999})), []
    expected = ask(engine, long_requests())

    async def main():
        task = asyncio.create_task(engine.generate(long_requests()))

        def stop(progress):
            told.append(progress.drawn)
            if progress.drawn >= 40:
                task.cancel()

        engine.listener = stop
        with pytest.raises(asyncio.CancelledError):
            await task
        engine.listener = None
        return {c.id: c for c in await engine.generate(long_requests())}

    model.train()
    assert_same(asyncio.run(main()), expected)
    assert told[-1] == 40
    assert model.training
    assert not torch.is_inference_mode_enabled()
    assert model.config._attn_implementation == "sdpa"


def test_calls_at_the_same_time_are_answered_one_after_another(model, monkeypatch):
    monkeypatch.setattr(hf, "BURST", 0.0)
    engine, seen = HFEngine(model, frozenset({999})), []
    expected = ask(engine, long_requests())

    async def bystander():
        for _ in range(20):
            seen.append((torch.is_inference_mode_enabled(), model.config._attn_implementation))
            await asyncio.sleep(0)

    async def main():
        return await asyncio.gather(engine.generate(long_requests()), engine.generate(long_requests()), bystander())

    told = []
    engine.listener = lambda progress: told.append(progress.drawn)
    first, second, _ = asyncio.run(main())
    for answers in (first, second):
        assert_same({c.id: c for c in answers}, expected)
    assert told == [*range(8, 241, 4), *range(8, 241, 4)]  # the second began when the first was done
    assert set(seen) == {(False, "sdpa")}


def test_nothing_of_a_call_outlives_it(model):
    """Keys and values must not wait for the garbage collector: on a GPU and in a large model they would be in the way."""
    engine = HFEngine(model, frozenset({999}))
    gc.collect()
    gc.disable()
    try:
        ask(engine, long_requests())
        assert not [thing for thing in gc.get_objects() if type(thing) in (slots.Slots, slots.SlotLayer, Batch)]
    finally:
        gc.enable()
