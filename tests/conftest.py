"""Shared fixtures. Contract suites live in the package, so that their assertions need rewriting here."""

import os

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
pytest.register_assert_rewrite("covey.testing")


@pytest.fixture(autouse=True)
def one_thread(request):
    """Tiny models gain nothing from more threads, and lose much if the machine is busy."""
    import torch

    before = torch.get_num_threads()
    if request.node.get_closest_marker("slow") is None:
        torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def tokenizer():
    from covey.testing.samples import character_tokenizer

    return character_tokenizer()


@pytest.fixture
def model():
    """A fresh random Llama of 20,000 parameters."""
    from covey.testing.samples import random_llama

    return random_llama()


@pytest.fixture
def model_folder(tmp_path, tokenizer):
    """The same model saved as a Hugging Face folder."""
    from covey.testing.samples import random_llama

    folder = tmp_path / "model"
    random_llama().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


SMALL = {
    "vocab_size": 50, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 1,
    "initializer_range": 0.3,
}  # fmt: skip
ARCHITECTURES = {
    "llama": SMALL,
    "mistral": {**SMALL, "sliding_window": 8},
    "qwen2": SMALL,
    "qwen3": {**SMALL, "head_dim": 8},
    "gemma3_text": {**SMALL, "head_dim": 8, "sliding_window": 8, "final_logit_softcapping": 5.0},
    "phi": {**SMALL, "num_key_value_heads": 4},
    "phi3": SMALL,
    "smollm3": SMALL,
    "gpt2": {"vocab_size": 50, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "bos_token_id": 2,
             "eos_token_id": 1, "initializer_range": 0.3},
    "gpt_neox": {**SMALL, "num_key_value_heads": 4},
}  # fmt: skip


@pytest.fixture
def small_knobs():
    """What most architectures call their sizes."""
    return dict(SMALL)


@pytest.fixture(params=ARCHITECTURES)
def any_model(request):
    """A random model of each kind of causal language model that people train."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(0)
    config = AutoConfig.for_model(request.param, **ARCHITECTURES[request.param])
    return AutoModelForCausalLM.from_config(config).eval()
