"""A tiny random model learns in seconds; with its rewards shuffled among siblings it does not."""

import random

import pytest

import covey

PROMPTS = [f"{a}+{b}=?" for a in range(4) for b in range(4)]


def digits(completions):
    """Share of digits among five characters; a shorter answer misses some."""
    return [sum(ch.isdigit() for ch in c[0]["content"][:5]) / 5 for c in completions]


class Shuffled:
    """The same numbers, handed to the wrong siblings."""

    name = "shuffled"

    def __init__(self, seed):
        self.rng = random.Random(seed)

    def __call__(self, completions):
        values = digits(completions)
        self.rng.shuffle(values)
        return values


def learn(reward, model_folder, folder, seed):
    result = covey.train(
        model=str(model_folder),
        prompts=PROMPTS,
        reward=reward,
        dir=str(folder),
        seed=seed,
        steps=25,
        group_size=8,
        prompts_per_step=8,
        max_new_tokens=5,
        lr=1e-2,
        quiet=True,
        **{"eval.prompts": 0},
    )
    rewards = [line["reward/mean"] for line in result.folder.read_metrics()]
    texts = covey.read_rollouts(folder)
    first, last = (texts[texts.step.isin(steps)].reply for steps in ([0, 1], [23, 24]))
    share = [sum(digits([[{"content": reply}] for reply in replies])) / len(replies) for replies in (first, last)]
    return rewards, share


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_reward_rises(model_folder, tmp_path, seed):
    rewards, (before, after) = learn(digits, model_folder, tmp_path / "run", seed)
    assert before < 0.4
    assert after > 0.8
    assert sum(rewards[-5:]) / 5 > sum(rewards[:5]) / 5 + 0.3


def test_shuffled_rewards_teach_nothing(model_folder, tmp_path):
    """Without a signal the policy drifts at random: some runs up, some down, nowhere near what a reward teaches."""
    shares = [learn(Shuffled(seed), model_folder, tmp_path / str(seed), seed)[1] for seed in range(3)]
    before, after = (sum(column) / 3 for column in zip(*shares, strict=True))
    assert before < 0.4
    assert after < before + 0.15
