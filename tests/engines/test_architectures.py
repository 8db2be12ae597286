"""Sampler and trainer agree with each other and with a plain forward pass on every kind of causal language model."""

import asyncio

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from covey.advantages import GRPO
from covey.batching.layout import pad
from covey.engines.attend import shares_prompts
from covey.engines.hf import HFEngine
from covey.errors import ModelError
from covey.learner.logprobs import token_logps
from covey.types import Group, Message, Prompt, Request, Sampling, Score, ScoredGroup, Trajectory, Turn


def sample(model, prompts, temperature):
    engine = HFEngine(model, frozenset({1}))
    requests = [
        Request(id=str(i), tokens=np.array(p), sampling=Sampling(max_new_tokens=20, seed=i, temperature=temperature))
        for i, p in enumerate(prompts)
    ]
    return {int(c.id): c for c in asyncio.run(engine.generate(requests))}


OTHERS = {
    # caps of attention scores, known to the shared way; transformers honours them in its eager attention
    "gemma2": ({"head_dim": 8, "attn_logit_softcapping": 0.5, "sliding_window": 8}, "eager", True),
    # sinks, and chunks of which the try with a few tokens would see nothing: sampled in the plain way
    "gpt_oss": ({"head_dim": 8, "sliding_window": 8, "num_local_experts": 2, "num_experts_per_tok": 1}, "eager",
                False),
    "llama4_text": ({"head_dim": 8, "attention_chunk_size": 8, "intermediate_size_mlp": 64,
                     "num_local_experts": 2, "layer_types": ["chunked_attention", "full_attention"]}, "eager", False),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_attention_of_other_kinds_is_known_or_left_to_the_plain_way(name, small_knobs):
    knobs, attention, shared = OTHERS[name]
    torch.manual_seed(0)
    config = AutoConfig.for_model(name, **{**small_knobs, **knobs})
    model = AutoModelForCausalLM.from_config(config, attn_implementation=attention).eval()
    assert shares_prompts(model) is shared
    prompts = [[5, 6, 7], [8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18], [5, 6, 7]]
    for i, completion in sample(model, prompts, 1.0).items():
        ids = torch.tensor([*prompts[i], *completion.tokens])
        with torch.no_grad():
            everything = torch.log_softmax(model(ids[None]).logits[0, len(prompts[i]) - 1 : -1].float(), -1)
        expected = everything.gather(1, ids[len(prompts[i]) :, None])[:, 0].numpy()
        np.testing.assert_allclose(completion.logp, expected, atol=2e-5)


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_sampler_forward_pass_and_trainer_agree(any_model, temperature):
    prompts = [[5, 6, 7], [8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18], [3], [5, 6, 7], [4, 4, 4, 4], [5, 6, 7]]
    assert shares_prompts(any_model)
    completions = sample(any_model, prompts, temperature)
    members = []
    for i, prompt in enumerate(prompts):
        ids = torch.tensor([*prompt, *completions[i].tokens])
        with torch.no_grad():
            everything = torch.log_softmax(any_model(ids[None]).logits[0, len(prompt) - 1 : -1] / temperature, -1)
        expected = everything.gather(1, ids[len(prompt) :, None])[:, 0].numpy()
        np.testing.assert_allclose(completions[i].logp, expected, atol=2e-5)
        sampled = np.arange(len(ids)) >= len(prompt)
        logp = np.full(len(ids), np.nan, dtype=np.float32)
        logp[sampled] = completions[i].logp
        turn = Turn(start=len(prompt), stop=len(ids), reply="", finish="stop")
        members.append(
            Trajectory(
                prompt_uid="p",
                sample=i,
                tokens=ids.numpy(),
                sampled=sampled,
                logp=logp,
                version=0,
                turns=(turn,),
                temperature=temperature,
            )
        )
    prompt = Prompt(uid="p", messages=(Message(role="user", content="x"),))
    scores = tuple(Score(total=float(i), parts={}) for i in range(len(prompts)))
    scored = ScoredGroup(group=Group(prompt=prompt, members=tuple(members)), scores=scores)
    (micro,) = pad(GRPO()([scored]), 10_000).micro
    with torch.no_grad():
        logp, _ = token_logps(any_model, micro)
    gap = (logp - micro.behavior_logp)[micro.trained].abs().max()
    assert gap < 2e-5


STATES = {
    # whose state is not given to the next pass: refused
    "mamba": ({"state_size": 4, "conv_kernel": 4}, False),
    "rwkv": ({"context_length": 64}, False),
    "mamba2": ({"state_size": 4, "num_heads": 8, "head_dim": 8, "n_groups": 1}, True),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("name", STATES)
def test_a_model_whose_state_is_not_known_is_sampled_rightly_or_refused(name, dtype):
    knobs, right = STATES[name]
    torch.manual_seed(0)
    ends = {"bos_token_id": 2, "eos_token_id": 1, "pad_token_id": 0}
    config = AutoConfig.for_model(name, vocab_size=48, hidden_size=32, num_hidden_layers=2, **ends, **knobs)
    model = AutoModelForCausalLM.from_config(config).to(dtype).eval()
    prompts = [[5, 6, 7], [8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18]]
    if not right:
        with pytest.raises(ModelError, match="cannot be sampled here"):
            HFEngine(model, frozenset({1}))
        return
    for i, completion in sample(model, prompts, 1.0).items():
        ids = torch.tensor([*prompts[i], *completion.tokens])
        with torch.no_grad():
            everything = torch.log_softmax(model(ids[None]).logits[0, len(prompts[i]) - 1 : -1].float(), -1)
        expected = everything.gather(1, ids[len(prompts[i]) :, None])[:, 0].numpy()
        np.testing.assert_allclose(completion.logp, expected, atol=2e-5 if dtype == torch.float32 else 0.1)
