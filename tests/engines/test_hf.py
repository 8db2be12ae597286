import asyncio

import numpy as np
import pytest
import torch

from covey.engines.hf import HFEngine
from covey.errors import ModelError
from covey.testing.samples import random_llama
from covey.types import Request, Sampling


def ask(engine, requests):
    return {c.id: c for c in asyncio.run(engine.generate(requests))}


def request_of(tokens, name="r", **knobs):
    return Request(id=name, tokens=np.array(tokens), sampling=Sampling(**{"max_new_tokens": 12, **knobs}))


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_log_probs_equal_a_plain_forward_pass(model, temperature):
    engine = HFEngine(model, frozenset({1}))
    requests = [request_of([4, 13, 5][: 1 + i % 3], f"{i}", seed=i, temperature=temperature) for i in range(9)]
    for name, completion in ask(engine, requests).items():
        prompt = requests[int(name)].tokens
        ids = torch.tensor(np.concatenate([prompt, completion.tokens]))[None]
        with torch.no_grad():
            logits = model(ids).logits[0, len(prompt) - 1 : -1] / temperature
        expected = torch.log_softmax(logits, -1).gather(1, torch.tensor(completion.tokens)[:, None])[:, 0]
        np.testing.assert_allclose(completion.logp, expected.numpy(), atol=1e-5)


def test_greedy_equals_generate(model):
    prompt = [4, 13, 5, 16]
    expected = model.generate(torch.tensor([prompt]), max_new_tokens=12, do_sample=False, pad_token_id=0)[0, 4:]
    got = ask(HFEngine(model, frozenset({1})), [request_of(prompt, temperature=0.0)])["r"]
    assert got.tokens.tolist() == expected.tolist()[: len(got.tokens)]


def forced(model, token):
    """Make the model say ``token`` for ever."""
    with torch.no_grad():
        model.lm_head.weight = torch.nn.Parameter(torch.zeros_like(model.lm_head.weight))
    model.lm_head.bias = torch.nn.Parameter(torch.zeros(model.config.vocab_size))
    with torch.no_grad():
        model.lm_head.bias[token] = 50.0
    return model


@pytest.mark.parametrize("token", [1, 7, 9])
def test_every_end_token_stops_and_is_part_of_the_answer(token):
    engine = HFEngine(forced(random_llama(), token), frozenset({1, 7, 9}))
    completion = ask(engine, [request_of([4, 5])])["r"]
    assert completion.tokens.tolist() == [token]
    assert completion.finish == "stop"


def test_a_token_that_is_no_end_runs_to_the_limit():
    completion = ask(HFEngine(forced(random_llama(), 8), frozenset({1})), [request_of([4, 5])])["r"]
    assert completion.tokens.tolist() == [8] * 12
    assert completion.finish == "length"


def test_the_end_token_at_the_very_limit_is_a_stop():
    engine = HFEngine(forced(random_llama(), 1), frozenset({1}))
    assert ask(engine, [request_of([4], max_new_tokens=1)])["r"].finish == "stop"


def test_answers_stay_within_the_models_positions():
    engine = HFEngine(forced(random_llama(positions=10), 8), frozenset({1}))
    answers = ask(engine, [request_of([4] * 7, "a", max_new_tokens=50), request_of([4] * 2, "b", max_new_tokens=50)])
    assert len(answers["a"].tokens) == 3
    assert len(answers["b"].tokens) == 8


@pytest.mark.parametrize("size", [0, 64, 70])
def test_a_prompt_without_room_is_an_error(model, size):
    with pytest.raises(ModelError, match="positions"):
        ask(HFEngine(model, frozenset({1})), [request_of([4] * size)])


def test_a_model_without_end_token_is_refused(model):
    with pytest.raises(ModelError, match="eos_token_id"):
        HFEngine(model, frozenset())


def test_sampling_never_runs_in_training_mode(model):
    model.config.attention_dropout = 0.5
    model.train()
    engine = HFEngine(model, frozenset({1}))
    first, second = (ask(engine, [request_of([4, 13, 5], seed=3)])["r"] for _ in range(2))
    np.testing.assert_array_equal(first.logp, second.logp)
    assert model.training


def test_new_weights_change_the_answers_and_the_version():
    engine = HFEngine(random_llama(seed=0), frozenset({1}))
    before = ask(engine, [request_of([4, 13, 5], seed=3)])["r"]
    asyncio.run(engine.load_weights(random_llama(seed=1).state_dict(), 4))
    after = ask(engine, [request_of([4, 13, 5], seed=3)])["r"]
    expected = ask(HFEngine(random_llama(seed=1), frozenset({1})), [request_of([4, 13, 5], seed=3)])["r"]
    assert after.tokens.tolist() == expected.tokens.tolist()
    assert (before.version, after.version) == (0, 4)
    assert before.tokens.tolist() != after.tokens.tolist()


def test_a_row_that_has_ended_does_not_run_out_of_learned_positions():
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=48, n_embd=16, n_layer=1, n_head=2, n_positions=20, eos_token_id=1, bos_token_id=1)
    engine = HFEngine(GPT2LMHeadModel(config).eval(), frozenset({47}))
    answers = ask(engine, [request_of([4] * 2, "a", max_new_tokens=18), request_of([4] * 18, "b", max_new_tokens=18)])
    assert len(answers["b"].tokens) <= 2
    assert (
        answers["a"].tokens.tolist() == ask(engine, [request_of([4] * 2, "a", max_new_tokens=18)])["a"].tokens.tolist()
    )
