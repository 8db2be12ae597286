"""Operations counted from shapes are those that torch counts when it runs such a model."""

import asyncio

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoConfig, AutoModelForCausalLM

from covey.engines.hf import HFEngine
from covey.planner import work
from covey.planner.sizes import Shape
from covey.types import Request, Sampling


@pytest.fixture(params=[("llama", True), ("llama", False), ("qwen2", True), ("qwen3", False), ("mistral", True)])
def model(request, small_knobs):
    name, tied = request.param
    torch.manual_seed(0)
    config = AutoConfig.for_model(name, **{**small_knobs, "tie_word_embeddings": tied})
    return AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()


def norms_of(model):
    return sum(p.numel() for name, p in model.named_parameters() if p.ndim == 1 and "norm" in name)


def test_a_shape_is_read_from_a_configuration(model):
    extra = sum(p.numel() for name, p in model.named_parameters() if "q_norm" in name or "k_norm" in name)
    assert Shape.of(model.config).parameters == sum(p.numel() for p in model.parameters()) - extra


def test_a_pass_takes_the_operations_that_torch_counts(model):
    """Eager attention makes all pairs; norms and biases, which torch does not count, are taken off."""
    ids = torch.arange(5, 16)[None]
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(input_ids=ids, use_cache=False)
    shape = Shape.of(model.config)
    small = sum(
        p.numel() for n, p in model.named_parameters() if p.ndim == 1 and "q_norm" not in n and "k_norm" not in n
    )
    assert work.forward(shape, 11, 11, 11 * 11) - 2 * small * 11 == counter.get_total_flops()


def test_what_a_token_sees():
    assert work.pairs_behind(0, 4) == 1 + 2 + 3 + 4
    assert work.pairs_behind(10, 3) == 11 + 12 + 13
    assert work.pairs_behind(10, 0) == 0


SHAPE = Shape(vocabulary=7, hidden=4, layers=2, mlp=6, query_heads=2, kv_heads=1, head=2)


def test_sampling_and_training_by_hand():
    """Two prompts of 5 tokens with three answers of 3: tokens in and scored, and pairs, counted out."""
    prefilled, passed = 2 * 5, 2 * 3 * 2
    decoded = 2 * 3 * (6 + 7)
    assert work.sampling(SHAPE, 2, 5, 3, 3) == work.forward(SHAPE, prefilled + passed, 2 + passed, 2 * 15 + decoded)
    once = work.forward(SHAPE, prefilled + passed, 2 * 3 * 3, 2 * 15 + decoded)
    assert work.training(SHAPE, 2, 5, 3, 3) == 3 * once
    again = work.forward(SHAPE, prefilled + passed, 0, 2 * 15 + decoded)
    assert work.training(SHAPE, 2, 5, 3, 3, checkpointed=True) == 3 * once + again


def test_the_engine_passes_the_tokens_that_are_counted(small_knobs):
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model("llama", **small_knobs)).eval()
    engine, passed = HFEngine(model, frozenset({999})), []
    model.model.register_forward_pre_hook(
        lambda module, args, kwargs: passed.append(kwargs["input_ids"].numel()), with_kwargs=True
    )
    requests = [
        Request(id=f"{p}/{i}", tokens=np.array([p + 1] * 5), sampling=Sampling(max_new_tokens=4, seed=i))
        for p in range(2)
        for i in range(3)
    ]
    asyncio.run(engine.generate(requests))
    assert sum(passed) == 2 * 5 + 2 * 3 * 3
