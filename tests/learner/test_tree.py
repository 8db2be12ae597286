"""A model run over a tree of sequences gives what it gives the sequences one by one: values and gradients."""

import copy
from contextlib import contextmanager
from dataclasses import replace
from types import MethodType

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from covey.advantages import GRPO
from covey.batching.layout import pack, pad
from covey.batching.tree import tree_of
from covey.learner.head import splits
from covey.learner.learner import Learner
from covey.learner.logprobs import token_divergences, token_logps
from covey.learner.schedule import Schedule
from covey.learner.tree import follows_trees, run_over
from covey.learner.tree_dense import Dense, Flex
from covey.learner.tree_kernel import Parts
from covey.losses import PPOClip, SequenceMean
from covey.losses.objective import Objective
from covey.testing.samples import make_scored, random_llama

SEQUENCES = [
    np.array(sequence)
    for sequence in (
        [*range(5, 17), 3, 4, 5, 6],
        [*range(5, 17), 3, 4, 9, 9, 9, 9, 9, 2],
        [*range(5, 17), 40],
        [*range(5, 14), 30, 31, 32],
        [44, 45, 46],
    )
]


def groups():
    return GRPO()([make_scored([1, 0, 0], lengths=[9, 2, 6], prompt_tokens=12), make_scored([0, 1], "q", [5, 1])])


def in_double(model):
    """The model in float64 throughout: transformers' RMSNorm computes in float32 whatever its weights are."""

    def norm(module, states):
        gain = module.weight + ("Gemma" in type(module).__name__)
        eps = module.variance_epsilon if hasattr(module, "variance_epsilon") else module.eps
        return gain * states * torch.rsqrt(states.pow(2).mean(-1, keepdim=True) + eps)

    model = copy.deepcopy(model).double()
    for module in model.modules():
        if type(module).__name__.endswith("RMSNorm"):
            module.forward = MethodType(norm, module)
    return model


def test_every_architecture_follows_trees(any_model):
    assert follows_trees(any_model)


@pytest.mark.parametrize("shortest", [1, 3, 100])
def test_states_are_those_of_the_sequences_alone(any_model, shortest):
    any_model = any_model.double()
    tree, first = tree_of(SEQUENCES, shortest), 0
    with torch.no_grad():
        found = run_over(any_model, any_model, tree).logits[0]
        for sequence in SEQUENCES:
            alone = any_model(torch.from_numpy(sequence)[None, :-1]).logits[0]
            mine = found[tree.source[0, first + 1 : first + len(sequence)]]
            torch.testing.assert_close(mine, alone, rtol=0, atol=1e-10)
            first += len(sequence)


@pytest.mark.parametrize("budget", [1000, 25])
def test_both_layouts_give_the_same_loss_and_gradients(any_model, budget):
    """Policy, exact KL to a reference and entropy: one objective with everything that reads a model's output."""
    found = {}
    for layout in (pack, pad):
        model = in_double(any_model)
        objective = Objective(policy=PPOClip(), aggregation=SequenceMean(), kl_coef=0.1, entropy_coef=0.05)
        learner = Learner(model, objective, Schedule(peak=1e-2, steps=10))
        with torch.no_grad():
            torch.manual_seed(1)
            for p in model.parameters():
                p.add_(0.01 * torch.randn_like(p))
        batch = learner.annotate(layout(groups(), budget))
        parts = [learner._backward(micro, batch.totals, {})["loss"].value for micro in batch.micro]
        found[layout] = (sum(parts), [p.grad for p in model.parameters()])
    assert found[pack][0] == pytest.approx(found[pad][0], abs=1e-10)
    for packed, padded in zip(found[pack][1], found[pad][1], strict=True):
        torch.testing.assert_close(packed, padded, rtol=0, atol=1e-10)


@pytest.mark.parametrize("window", [None, 1, 3, 8, 50])
@pytest.mark.parametrize("heads", [(4, 4), (4, 2)])
def test_the_kernel_against_a_mask_written_out(window, heads):
    torch.manual_seed(0)
    tree = tree_of(SEQUENCES, 3)
    size = tree.tokens.numel()
    shapes = [(size, heads[0], 8), (size, heads[1], 8), (size, heads[1], 8)]
    streams = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
    upstream = torch.randn(shapes[0], dtype=torch.float64)
    found = []
    for kernel in (Parts, Dense):
        out = kernel(tree.nodes, tree.positions).attend(*streams, 0.3, window)
        found.append((out, *torch.autograd.grad(out, streams, upstream)))
    for mine, dense in zip(*found, strict=True):
        torch.testing.assert_close(mine, dense, rtol=0, atol=1e-12)


def test_the_kernel_passes_gradcheck():
    tree = tree_of(SEQUENCES[1:3], 3)
    parts, size = Parts(tree.nodes, tree.positions), tree.tokens.numel()
    streams = [torch.randn(size, 2, 4, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    assert torch.autograd.gradcheck(lambda *s: parts.attend(*s, 0.5, 4), streams)


def test_flex_attention_sees_what_the_written_mask_sees():
    tree = tree_of(SEQUENCES, 3)
    flex, dense = Flex(tree.nodes, tree.positions), Dense(tree.nodes, tree.positions)
    columns = torch.arange(tree.tokens.numel())
    for window in (None, 4):
        mask = flex._make(flex.sees(window)).mask_mod(None, None, columns[:, None], columns[None])
        assert torch.equal(mask, dense._make(dense.sees(window)))


def test_extreme_scores_stay_finite():
    """Normalisers far apart in a node and the one above: their weights are exactly 0 and 1, never NaN."""
    tree = tree_of(SEQUENCES[:3], 3)
    size = tree.tokens.numel()
    query, key = torch.full((size, 1, 8), 40.0), torch.full((size, 1, 8), 40.0)
    key[:12] *= -1
    value = torch.randn(size, 1, 8)
    streams = [stream.requires_grad_() for stream in (query, key, value)]
    out = Parts(tree.nodes, tree.positions).attend(*streams, 1.0, None)
    out.sum().backward()
    assert all(stream.isfinite().all() for stream in (out, *(s.grad for s in streams)))


def test_a_batch_of_one_and_empty_branches_do_no_harm(model):
    (micro,) = pack(GRPO()([make_scored([1, 0], lengths=[1, 1])]), 1000).micro
    (plain,) = pad(GRPO()([make_scored([1, 0], lengths=[1, 1])]), 1000).micro
    assert token_logps(model, micro)[0][micro.trained].tolist() == pytest.approx(
        token_logps(model, plain)[0][plain.trained].tolist(), abs=1e-6
    )


def test_exact_divergence_over_a_tree(model):
    from contextlib import nullcontext

    other = random_llama(seed=3)
    (micro,), (plain,) = pack(groups(), 1000).micro, pad(groups(), 1000).micro
    found = [token_divergences(model, lambda: nullcontext(other), one)[2][one.trained] for one in (micro, plain)]
    assert sorted(found[0].tolist()) == pytest.approx(sorted(found[1].tolist()), rel=1e-5)
    assert found[0].min() > 0


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("gemma2", {"attn_logit_softcapping": 5.0, "query_pre_attn_scalar": 8, "head_dim": 8}),
        ("bloom", {"hidden_size": 32, "n_layer": 2, "n_head": 4}),
        ("mamba", {"hidden_size": 32, "num_hidden_layers": 2, "state_size": 4}),
    ],
)
def test_models_that_cannot_follow_a_tree_take_padded_rows(kind, settings):
    common = {"vocab_size": 60, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
              "num_attention_heads": 4, "num_key_value_heads": 2, "pad_token_id": 0, "eos_token_id": 1}  # fmt: skip
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **{**common, **settings})).eval()
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(3.0)
    before = model.config._attn_implementation
    assert not follows_trees(model)
    assert model.config._attn_implementation == before
    objective = Objective(policy=PPOClip(), aggregation=SequenceMean())
    assert Learner(model, objective, Schedule(peak=1e-2, steps=1)).layout is pad


def test_a_fresh_model_comes_apart_whatever_runs_first(model):
    """Whether head and decoder come apart is tried on a plain pass, also where the first pass of all is over a tree."""
    learner = Learner(model, Objective(policy=PPOClip(), aggregation=SequenceMean()), Schedule(peak=1e-2, steps=10))
    learner.step(pack(groups(), 1000), 0)
    assert splits(model)


def test_a_model_is_left_with_its_own_attention(model):
    before = model.config._attn_implementation
    assert follows_trees(model)
    assert model.config._attn_implementation == before


def test_the_same_batch_gives_the_same_bits():
    """Many responses fork off one token of the prompt; sums of their gradients must not depend on who comes first."""
    model = random_llama(hidden=512, layers=1).eval()
    scored, random = (
        make_scored([i % 2 for i in range(64)], lengths=[8] * 64, prompt_tokens=20),
        np.random.default_rng(0),
    )
    members = tuple(replace(one, tokens=np.r_[5:25, random.integers(5, 45, 8)]) for one in scored.group.members)
    micro = pack(GRPO()([replace(scored, group=replace(scored.group, members=members))]), 1000).micro[0]
    assert int(torch.bincount(micro.tree.source[micro.trained]).max()) == 64
    found = set()
    with several_threads():
        for _ in range(60):
            model.zero_grad()
            token_logps(model, micro)[0].sum().backward()
            found.add(model.model.norm.weight.grad.numpy().tobytes())
    assert len(found) == 1


@contextmanager
def several_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        yield
    finally:
        torch.set_num_threads(before)
