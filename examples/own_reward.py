"""Train with a reward of your own from Python, on prompts of your own.

    python examples/own_reward.py

The reward is called once a group with the arguments that TRL's reward functions get. Here it prefers short right
answers: correctness first, a small bonus for brevity that only a right answer can earn.
"""

import re

import covey

PROMPTS = [{"prompt": f"{a}×{b}=?", "answer": a * b} for a in range(12, 30) for b in range(12, 30) if a % 10 and b % 10]


def short_and_right(completions, answer, **_):
    scores = []
    for completion, gold in zip(completions, answer, strict=True):
        text = completion[0]["content"]
        found = re.findall(r"<answer>(\d+)</answer>", text)
        right = bool(found) and int(found[-1]) == gold
        scores.append((1.0 + 0.1 * (len(text) < 60)) if right else 0.0)
    return scores


if __name__ == "__main__":
    result = covey.train(
        model="tiny",
        prompts=PROMPTS,
        reward=short_and_right,
        holdout=40,  # prompts kept back for the evaluation before and after
        group_size=8,
        prompts_per_step=8,
        max_new_tokens=80,
        steps=15,
        lr=6e-4,
    )
    before, after = (result.summary[key]["pass_at"]["1"]["value"] for key in ("before", "after"))
    print(f"pass@1 on held-out prompts: {before:.0%} -> {after:.0%}; model in {result.model}")
