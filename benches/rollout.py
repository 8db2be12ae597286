"""Sampling speed of the in-process engine beside ``generate``, transformers' continuous batching and vLLM.

    python benches/rollout.py [--systems covey generate continuous vllm] [--model smollm2-135m] [--prompts 4] [--size 8]
                              [--prompt-tokens 42] [--new 64] [--repeats 3] [--json]

Same model in float32, prompts, responses and threads; no end token: every response has its full length, so all do the
same work. Log-probs are asked for where that is possible. One run of each to warm up, then in turn. vLLM is its CPU
build, in a virtual environment that the first run makes. Covey shares a model with ``generate``; others have their own.
"""

from __future__ import annotations

import argparse
import asyncio
import atexit
import json
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from environments import vllm_python
from transformers import ContinuousBatchingConfig, GenerationConfig

from covey.engines.hf import HFEngine
from covey.learner.model import load_policy, resolve
from covey.types import Request, Sampling

SYSTEMS = ("covey", "generate", "continuous", "vllm")


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


def continuous_run(name: str, prompts: list[np.ndarray], size: int, new: int) -> Callable[[int], int]:
    """transformers' ``generate_batch``, with a cache of just the room that is needed, and shared blocks allowed."""
    model, rows, page = load_policy(name, "cpu").model, len(prompts) * size, 32
    knobs = GenerationConfig(
        do_sample=True, temperature=1.0, top_p=1.0, top_k=0, num_return_sequences=size, max_new_tokens=new,
        eos_token_id=-1, pad_token_id=0,
    )  # fmt: skip
    blocks = rows * (2 + (len(prompts[0]) + new) // page)
    limits = ContinuousBatchingConfig(page_size=page, num_blocks=blocks, max_batch_tokens=4096)

    def run(seed: int) -> int:
        torch.manual_seed(seed)
        out = model.generate_batch(
            [prompt.tolist() for prompt in prompts],
            generation_config=knobs,
            continuous_batching_config=limits,
            warmup=False,
        )
        return sum(len(answer.generated_tokens) for answer in out.values())

    return run


def vllm_run(name: str, prompts: list[np.ndarray], size: int, new: int) -> Callable[[int], int]:
    """vLLM in a process that waits, without a core of its own, while others have their turn."""
    job = {"model": resolve(name), "prompts": [prompt.tolist() for prompt in prompts], "size": size, "new": new}
    process = subprocess.Popen(
        [str(vllm_python()), str(Path(__file__).parent / "vllm_side.py"), json.dumps(job)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    atexit.register(process.kill)
    talk, hear = process.stdin, process.stdout
    if talk is None or hear is None or not hear.readline():
        raise SystemExit("vLLM did not start; see for yourself: " + " ".join(map(str, process.args)))  # type: ignore[arg-type]

    def run(seed: int) -> int:
        talk.write(f"{seed}\n")
        talk.flush()
        return json.loads(hear.readline())["tokens"]

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument("--model", default="smollm2-135m")
    for name, default in (("prompts", 4), ("size", 8), ("prompt-tokens", 42), ("new", 64), ("repeats", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--json", action="store_true", help="one object a line")
    args = parser.parse_args()
    model = load_policy(args.model, "cpu").model
    prompts = make_prompts(args.prompts, args.prompt_tokens, model.config.vocab_size)
    own: dict[str, Any] = {"covey": (engine_run, model), "generate": (generate_run, model)}
    own |= {"continuous": (continuous_run, args.model), "vllm": (vllm_run, args.model)}
    systems = {name: own[name][0](own[name][1], prompts, args.size, args.new) for name in args.systems}
    speeds: dict[str, list[float]] = {name: [] for name in systems}
    for repeat in range(args.repeats + 1):
        for name, run in systems.items():
            began = time.perf_counter()
            tokens = run(repeat)
            if repeat:
                speeds[name].append(tokens / (time.perf_counter() - began))
    for name, found in speeds.items():
        ratios = [ours / theirs for ours, theirs in zip(speeds.get("covey", found), found, strict=True)]
        row = {"system": name, **spread(found), "covey_over": spread(ratios)}
        print(json.dumps({**row, **vars(args)}) if args.json else line(name, found, ratios))


def spread(values: list[float]) -> dict[str, float]:
    """Least, middle and most."""
    return {"min": min(values), "median": statistics.median(values), "max": max(values)}


def line(name: str, found: list[float], ratios: list[float]) -> str:
    """A system for a person."""
    turns = ", ".join(f"{value:.1f}" for value in found)
    times = " / ".join(f"{value:.2f}" for value in spread(ratios).values())
    return f"{name:10} {statistics.median(found):7.1f} tokens/s ({turns}); covey over it {times}"


if __name__ == "__main__":
    main()
