"""Shared fixtures. Contract suites live in the package, so that their assertions need rewriting here."""

import os

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
pytest.register_assert_rewrite("covey.testing")


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
