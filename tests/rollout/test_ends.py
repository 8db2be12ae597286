"""Which characters of the reply each token gave."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from covey.learner.model import resolve
from covey.rollout.chat import Chat


@pytest.fixture(scope="module")
def byte_chat():
    """A byte-level tokenizer: one character may take up to four tokens."""
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<end>"],
        show_progress=False,
    )
    core.train_from_iterator(["the answer is <answer> 42 </answer>"] * 10, trainer)
    return Chat(PreTrainedTokenizerFast(tokenizer_object=core, eos_token="<end>"), frozenset({0}))


def check(chat, text, end):
    tokens = [*chat.tokenizer(text, add_special_tokens=False)["input_ids"], *end]
    ends = chat.ends(tokens)
    assert ends.dtype == np.int64
    assert (np.diff(ends) >= 0).all()
    reply = chat.decode(tokens)
    assert ends[-1] == len(reply)
    for i, stop in enumerate(ends):  # a whole prefix decodes to what its end says
        prefix = chat.decode(tokens[: i + 1])
        if not prefix.endswith("\ufffd"):
            assert prefix == reply[:stop]


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.text(alphabet=st.sampled_from("ab <>/answer42 \né×😀漢"), min_size=1, max_size=40))
def test_byte_level(byte_chat, text):
    check(byte_chat, text, [0])


@pytest.mark.parametrize("text", ["1", "13×17=221", "<answer>221</answer>\n"])
def test_characters(tokenizer, text):
    check(Chat(tokenizer, frozenset({1})), text, [1])


def test_the_tiny_model(byte_chat):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(resolve("tiny"))
    check(
        Chat(tokenizer, frozenset({tokenizer.eos_token_id})),
        "13×10=130\n<answer>221</answer>",
        [tokenizer.eos_token_id],
    )


def test_parts_of_a_character_end_where_it_has_not_begun(byte_chat):
    tokens = byte_chat.tokenizer("a😀b", add_special_tokens=False)["input_ids"]
    assert byte_chat.ends(tokens).tolist() == [1, 1, 1, 1, 2, 3]


def test_nothing_has_no_ends(byte_chat):
    assert byte_chat.ends([]).tolist() == []
