"""Sampling speed of the in-process engine beside Hugging Face ``generate``, on the same model, prompts and threads.

    python benches/rollout.py [--model smollm2-135m] [--prompts 4] [--size 8] [--prompt-tokens 42] [--new 64]
                              [--repeats 3] [--json]

No end token: every response has its full length, so both do the same work. One run of each to warm up, then in turn.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch

from covey.engines.hf import HFEngine
from covey.learner.model import load_policy
from covey.types import Request, Sampling


def make_prompts(count: int, tokens: int, vocabulary: int) -> list[np.ndarray]:
    """Random prompts; what they say does not matter for speed."""
    rng = np.random.default_rng(0)
    return [rng.integers(10, vocabulary - 10, tokens) for _ in range(count)]


def engine_run(model, prompts: list[np.ndarray], size: int, new: int) -> Callable[[int], int]:
    """Covey's engine; returns the number of tokens sampled."""
    engine = HFEngine(model, frozenset({10**9}), rows=len(prompts) * size)

    def run(seed: int) -> int:
        requests = [
            Request(id=f"{p}/{i}", tokens=prompt, sampling=Sampling(max_new_tokens=new, seed=seed + 1000 * p + i))
            for p, prompt in enumerate(prompts)
            for i in range(size)
        ]
        return sum(len(completion.tokens) for completion in asyncio.run(engine.generate(requests)))

    return run


def generate_run(model, prompts: list[np.ndarray], size: int, new: int) -> Callable[[int], int]:
    """transformers' ``generate`` with num_return_sequences."""
    ids = torch.as_tensor(np.stack(prompts))

    @torch.inference_mode()
    def run(seed: int) -> int:
        torch.manual_seed(seed)
        out = model.generate(
            ids, attention_mask=torch.ones_like(ids), do_sample=True, temperature=1.0, top_p=1.0, top_k=0,
            num_return_sequences=size, max_new_tokens=new, min_new_tokens=new, pad_token_id=0, eos_token_id=None,
        )  # fmt: skip
        return int(out[:, ids.shape[1] :].numel())

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2-135m")
    for name, default in (("prompts", 4), ("size", 8), ("prompt-tokens", 42), ("new", 64), ("repeats", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--json", action="store_true", help="one object a line")
    args = parser.parse_args()
    model = load_policy(args.model, "cpu").model
    prompts = make_prompts(args.prompts, args.prompt_tokens, model.config.vocab_size)
    systems = {
        "covey": engine_run(model, prompts, args.size, args.new),
        "generate": generate_run(model, prompts, args.size, args.new),
    }
    speeds: dict[str, list[float]] = {name: [] for name in systems}
    for repeat in range(args.repeats + 1):
        for name, run in systems.items():
            began = time.perf_counter()
            tokens = run(repeat)
            if repeat:
                speeds[name].append(tokens / (time.perf_counter() - began))
    for name, found in speeds.items():
        row = {"system": name, "min": min(found), "median": statistics.median(found), "max": max(found)}
        print(json.dumps({**row, **vars(args)}) if args.json else f"{name:9} {row['median']:7.1f} tokens/s {found}")
    ratios = [ours / theirs for ours, theirs in zip(speeds["covey"], speeds["generate"], strict=True)]
    if not args.json:
        print(f"ratio     {min(ratios):.2f} / {statistics.median(ratios):.2f} / {max(ratios):.2f} (min, median, max)")


if __name__ == "__main__":
    main()
