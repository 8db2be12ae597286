"""What credit and batching cost: 1,000 groups of 16 responses with 2,000 tokens each, beside the step they belong to.

    python benches/advantages.py [--groups 1000] [--size 16] [--tokens 2000] [--json]

For every advantage: seconds for shaping, credit and padding of the whole step. The step that they belong to is measured
on a sample and multiplied: sampling and one training pass of a model with a million parameters, the smallest there is
(the built-in one). Any real model only makes the share smaller.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Sequence

import numpy as np
import torch

from covey.advantages import ADVANTAGES, GroupMean
from covey.advantages.base import Advantage
from covey.advantages.shape import Shaping
from covey.batching.layout import pad
from covey.engines.hf import HFEngine
from covey.learner.learner import Learner
from covey.learner.model import load_policy
from covey.learner.schedule import Schedule
from covey.losses import PPOClip, SequenceMean
from covey.losses.objective import Objective
from covey.types import (
    Group,
    Message,
    Prompt,
    Request,
    Sampling,
    Score,
    ScoredGroup,
    StepReward,
    Trajectory,
    Turn,
)

PROMPT_TOKENS, STEPS = 64, 8


def make_step(groups: int, size: int, tokens: int, seed: int = 0) -> list[ScoredGroup]:
    """Groups with random 0/1 rewards, two reward parts, eight step rewards a response and a greedy response."""
    rng = np.random.default_rng(seed)
    total = PROMPT_TOKENS + tokens
    sampled = np.arange(total) >= PROMPT_TOKENS
    logp = np.where(sampled, -0.5, np.nan).astype(np.float32)
    ends = np.arange(1, tokens + 1)

    def member(uid: str, sample: int) -> Trajectory:
        turn = Turn(start=PROMPT_TOKENS, stop=total, reply="x" * tokens, finish="stop", ends=ends)
        ids = rng.integers(5, 90, size=total)
        return Trajectory(
            prompt_uid=uid, sample=sample, tokens=ids, sampled=sampled, logp=logp, version=0, turns=(turn,)
        )

    def score(right: bool) -> Score:
        steps = tuple(
            StepReward(end=tokens * (i + 1) // STEPS, value=float(v)) for i, v in enumerate(rng.random(STEPS))
        )
        parts = {"right": float(right), "format": float(rng.random() < 0.8)}
        return Score(total=float(right), parts=parts, correct=right, steps=steps)

    step = []
    for g in range(groups):
        uid, rate = str(g), rng.random()
        prompt = Prompt(uid=uid, messages=(Message(role="user", content="x"),))
        members = tuple(member(uid, i) for i in range(size))
        step.append(
            ScoredGroup(
                group=Group(prompt=prompt, members=members, greedy=members[0]),
                scores=tuple(score(bool(rng.random() < rate)) for _ in range(size)),
                greedy=score(bool(rng.random() < rate)),
            )
        )
    return step


def credit_seconds(advantage: Advantage, step: Sequence[ScoredGroup]) -> tuple[float, float]:
    """Seconds for shaping and credit, and for padding."""
    began = time.perf_counter()
    credited = advantage(Shaping()(step))
    between = time.perf_counter()
    pad(credited, 65_536)
    return between - began, time.perf_counter() - between


def step_seconds(groups: int, size: int, tokens: int) -> dict[str, float]:
    """Sampling and training of the whole step, extrapolated from a sample of it with shorter responses.

    Both are linear in the number of responses; a longer response costs a token at least as much as a short one, because
    attention grows with the length. So this is a lower bound of the step.
    """
    policy = load_policy("tiny", "cpu")
    limit = min(tokens, policy.model.config.max_position_embeddings - PROMPT_TOKENS)
    engine = HFEngine(policy.model, frozenset({10**9}), rows=128)  # nothing ends a response early
    prompt = np.arange(PROMPT_TOKENS, dtype=np.int64) % 80 + 5
    requests = [Request(id=str(i), tokens=prompt, sampling=Sampling(max_new_tokens=limit, seed=i)) for i in range(128)]
    began = time.perf_counter()
    asyncio.run(engine.generate(requests))
    sample = (time.perf_counter() - began) / (128 * limit)
    small = make_step(4, 16, limit)
    objective = Objective(policy=PPOClip(), aggregation=SequenceMean())
    learner = Learner(policy.model, objective, Schedule(peak=1e-5, steps=1))
    batch = pad(GroupMean()(small), 16_384)
    trained = sum(int(micro.trained.sum()) for micro in batch.micro)
    began = time.perf_counter()
    learner.step(batch, 0)
    train = (time.perf_counter() - began) / trained
    everything = groups * size * tokens
    return {"sample": sample * everything, "train": train * everything}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=1000)
    parser.add_argument("--size", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=2000)
    parser.add_argument("--json", action="store_true", help="one object a line")
    args = parser.parse_args()
    step = make_step(args.groups, args.size, args.tokens)
    whole = step_seconds(args.groups, args.size, args.tokens)
    rows = []
    for name, cls in ADVANTAGES.items():
        credit, padding = credit_seconds(cls(), step)
        share = (credit + padding) / (sum(whole.values()) + credit + padding)
        rows.append({"advantage": name, "credit_s": credit, "pad_s": padding, "share": share, **whole})
        if args.json:
            print(json.dumps(rows[-1]), flush=True)
        else:
            print(
                f"{name:24} credit {credit:6.2f} s   pad {padding:6.2f} s   {100 * share:6.3f} % of the step",
                flush=True,
            )
    worst = max(row["share"] for row in rows)
    if not args.json:
        threads = torch.get_num_threads()
        print(f"step: sampling {whole['sample']:.0f} s, training {whole['train']:.0f} s on {threads} threads")
        print(f"worst share {100 * worst:.3f} %")
    if worst >= 0.02:
        raise SystemExit("credit and batching take 2 % of the step or more")


if __name__ == "__main__":
    main()
