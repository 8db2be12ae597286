"""The contract of rewards that ask a model, of one that is a model, and of one that asks another several times."""

import hashlib
import json

import pytest
import torch
from transformers import LlamaConfig, LlamaForSequenceClassification

from covey.rewards import ExactNumber
from covey.rewards.comparisons import PairwiseJudge
from covey.rewards.judge import LLMJudge
from covey.rewards.reward_model import RewardModel
from covey.rewards.smoothing import MeanOf
from covey.testing.reward_contract import *  # noqa: F403
from covey.testing.samples import character_tokenizer, make_prompt, make_trajectory
from covey.testing.scripted_endpoint import Reply, ScriptedEndpoint
from covey.types import Group


def opinion(body, number):
    """Any, but the same each time."""
    digit = hashlib.sha256(json.dumps(body).encode()).digest()[0] % 3
    return Reply(text=json.dumps({"score": 1 + digit, "winner": ("first", "second", "tie")[digit]}))


@pytest.fixture(scope="module")
def endpoint():
    with ScriptedEndpoint(opinion) as endpoint:
        yield endpoint


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reward_model")
    torch.manual_seed(0)
    knobs = {
        "vocab_size": 60,
        "hidden_size": 16,
        "intermediate_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
    }
    config = LlamaConfig(**knobs, max_position_embeddings=64, num_labels=1, pad_token_id=0, initializer_range=0.4)
    LlamaForSequenceClassification(config).save_pretrained(folder)
    character_tokenizer().save_pretrained(folder)
    return str(folder)


@pytest.fixture(params=["judge", "preference", "reward_model", "mean_of"])
def reward(request, endpoint, folder):
    asked = {"url": endpoint.url, "model": "m"}
    return {
        "judge": lambda: LLMJudge(**asked, rubric="{reply}", scale=(1, 3)),
        "preference": lambda: PairwiseJudge(**asked, rubric="{first} {second}"),
        "reward_model": lambda: RewardModel(model=folder),
        "mean_of": lambda: MeanOf(reward=ExactNumber(), times=3),
    }[request.param]()


@pytest.fixture
def group():
    replies = ["<answer>2</answer>", "2", "so <answer> 3 </answer>", "<answer>2</answer><answer>4</answer>"]
    members = tuple(make_trajectory("p", i, reply=reply) for i, reply in enumerate(replies))
    return Group(prompt=make_prompt(answer="2"), members=members)
