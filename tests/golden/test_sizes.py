"""Bytes from the shape of a model against worked examples. See cases.json."""

import pytest

from covey.planner.sizes import STATES, Shape, kv_pool, logits, logits_peak

golden = pytest.mark.golden


def shape_of(layers=1, kv_heads=1, head=1, **more):
    known = {"vocabulary": 1, "hidden": 1, "mlp": 1, "query_heads": 1, **more}
    return Shape(layers=layers, kv_heads=kv_heads, head=head, **known)


@golden("R01")
def test_cache_of_keys_and_values(case):
    for name, (layers, kv_heads, head) in case["inputs"]["models"].items():
        shape = shape_of(layers, kv_heads, head)
        assert shape.kv_per_token(case["params"]["bytes"]) == case["expected"]["kv"][name]
    assert kv_pool(shape, 1, 0, 32, 512) == case["expected"]["seed_estimate_G32_512_llama2"]
    assert kv_pool(shape, 1, 256, 32, 512) == case["expected"]["with_prompt256_shared"]


@golden("R02")
def test_parameters(case):
    for name, row in case["inputs"]["cfg"].items():
        vocabulary, hidden, layers, mlp, query, kv, head, tied, bias = row
        shape = Shape(
            vocabulary=vocabulary, hidden=hidden, layers=layers, mlp=mlp, query_heads=query, kv_heads=kv, head=head,
            tied=tied, qkv_bias=bias,
        )  # fmt: skip
        assert shape.parameters == case["expected"]["params"][name]


@golden("R03")
def test_states(case):
    parameters, expected = case["inputs"]["params"], case["expected"]
    mixed = STATES["adam_mixed"] * parameters
    assert mixed == expected["adam_mixed_16B"] == expected["grpo_rule_noref_16"]
    assert STATES["adam_mixed_fp32_gradients"] * parameters == expected["adam_mixed_fp32grad_18B"]
    assert STATES["adam_bf16"] * parameters == expected["pure_bf16_8B"]
    assert STATES["adam_fp32"] * parameters == expected["fp32_16B"]
    with_critic = 2 * mixed + 2 * 2 * parameters  # a critic of the same size, a reference and a reward model
    assert with_critic == expected["ppo_36"]
    assert mixed + 2 * 2 * parameters == expected["grpo_with_ref_rm_20"]
    savings = [1 - (mixed + extra * parameters) / with_critic for extra in (4, 2, 0)]
    assert savings == pytest.approx(expected["saving_vs_ppo"], abs=1e-9)


@golden("R04")
def test_logits(case):
    tokens, vocabulary = case["inputs"]["tokens"], case["inputs"]["vocab"]
    assert logits(tokens, vocabulary) == case["expected"]["bf16_logits"]
    assert logits(tokens, vocabulary, 4) == case["expected"]["fp32_logits"]
    assert logits_peak(tokens, vocabulary) == case["expected"]["naive_peak_bf16_plus_3_fp32"]


@golden("R06")
def test_activations(case):
    size = case["inputs"]
    shape = shape_of(kv_heads=size["n_kv"], head=size["d"], hidden=size["h"], mlp=size["f"], query_heads=size["n_q"])
    assert shape.activations_per_token(2) == case["expected"]["bf16"]
    assert shape.activations_per_token(4) == case["expected"]["fp32"]
    assert shape.activations_per_token(2, checkpointed=True) == case["expected"]["checkpointed_bf16"]
    large = shape_of(kv_heads=4, head=128, hidden=3584, mlp=18944, query_heads=28)
    assert large.activations_per_token(2) == case["expected"]["qwen25_7b_bf16"]
    assert large.activations_per_token(2, checkpointed=True) == case["expected"]["qwen25_7b_checkpointed"]
