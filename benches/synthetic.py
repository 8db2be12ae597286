"""Steps on made-up tokens of chosen sizes, for benches: what is said does not matter for speed."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from covey.advantages import GRPO
from covey.engines.hf import HFEngine
from covey.kernels.memory import give_back_freed_memory, keep_freed_memory
from covey.learner.learner import Learner
from covey.learner.model import resolve
from covey.learner.schedule import Schedule
from covey.losses import PPOClip, SequenceMean
from covey.losses.objective import Objective
from covey.testing.samples import make_scored
from covey.types import Completion, CreditedGroup, Request, Sampling

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """What a step is made of. ``vocabulary`` other than None is that of a random model, of the same shape otherwise."""

    prompts: int = 2
    prompt: int = 64
    group: int = 8
    response: int = 64
    vocabulary: int | None = None
    tokens_per_microbatch: int = 512
    precision: str = "float32"
    checkpointing: bool = False
    layout: str = "packed"


class Bench:
    """A model with its engine and learner, sampling and training groups of these sizes."""

    def __init__(self, name: str, sizes: Sizes) -> None:
        keep_freed_memory()
        torch.manual_seed(0)
        self.sizes = sizes
        self.model = load(name, sizes)
        self.engine = HFEngine(self.model, frozenset({10**9}))  # nothing ends a response but its length
        self.learner = Learner(
            self.model,
            Objective(policy=PPOClip(), aggregation=SequenceMean()),
            Schedule(peak=1e-6, steps=1000),
            layout=sizes.layout,  # type: ignore[arg-type]
            checkpointing=sizes.checkpointing,
        )
        rng = np.random.default_rng(0)
        vocabulary = self.model.config.vocab_size
        self.prompts = [rng.integers(10, vocabulary - 10, sizes.prompt) for _ in range(sizes.prompts)]

    def sample(self, seed: int) -> list[Completion]:
        """Every response at its full length."""
        knobs = [
            (p, i, Sampling(max_new_tokens=self.sizes.response, seed=seed + 1000 * p + i))
            for p in range(len(self.prompts))
            for i in range(self.sizes.group)
        ]
        requests = [Request(id=f"{p}/{i}", tokens=self.prompts[p], sampling=knob) for p, i, knob in knobs]
        found = {completion.id: completion for completion in asyncio.run(self.engine.generate(requests))}
        return [found[f"{p}/{i}"] for p, i, _ in knobs]

    def credited(self, completions: Sequence[Completion]) -> list[CreditedGroup]:
        """Groups in which every other response is right."""
        size, groups = self.sizes.group, []
        for p, prompt in enumerate(self.prompts):
            lengths = [self.sizes.response] * size
            scored = make_scored([float(i % 2) for i in range(size)], f"p{p}", lengths, prompt_tokens=len(prompt))
            members = tuple(
                replace(
                    member,
                    tokens=np.concatenate([prompt, completion.tokens]),
                    logp=np.concatenate([np.full(len(prompt), np.nan, np.float32), completion.logp]),
                )
                for member, completion in zip(scored.group.members, completions[p * size : (p + 1) * size], strict=True)
            )
            groups.append(replace(scored, group=replace(scored.group, members=members)))
        return GRPO()(groups)

    def train(self, credited: Sequence[CreditedGroup]) -> int:
        """One optimizer step; how many micro-batches it had."""
        batch = self.learner.layout(credited, self.sizes.tokens_per_microbatch)
        self.learner.step(batch, 0)
        return len(batch.micro)


def load(name: str, sizes: Sizes) -> PreTrainedModel:
    """The model, or a random one of its shape with another vocabulary."""
    precision = getattr(torch, sizes.precision)
    if sizes.vocabulary is None:
        return AutoModelForCausalLM.from_pretrained(resolve(name), dtype=precision)
    config = AutoConfig.from_pretrained(resolve(name))
    config.vocab_size = sizes.vocabulary
    return AutoModelForCausalLM.from_config(config, dtype=precision)


def matmul_rate(rows: int, inner: int, outer: int, seconds: float = 1.0) -> float:
    """FLOP/s of the quickest way to multiply float32 [rows, inner] by a weight [outer, inner], best of many tries."""
    x, weight = torch.randn(rows, inner), torch.randn(outer, inner)
    ways = [lambda: torch.nn.functional.linear(x, weight)]
    if torch.backends.mkldnn.is_available():
        ready = torch.ops.mkldnn._reorder_linear_weight(weight)
        ways.append(lambda: torch.ops.mkldnn._linear_pointwise(x, ready, None, "none", [], ""))
    best = float("inf")
    for way in ways:
        stop = time.perf_counter() + seconds / len(ways)
        while time.perf_counter() < stop:
            began = time.perf_counter()
            way()
            best = min(best, time.perf_counter() - began)
    return 2.0 * rows * inner * outer / best


def resident(name: str = "VmRSS") -> int:
    """Bytes of this process in memory, ``VmHWM`` the most since :func:`forget_peak`. Linux only."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))


def forget_peak() -> int:
    """Begin to look for a peak anew; what is resident now, with all freed memory given back."""
    gc.collect()
    give_back_freed_memory()
    Path("/proc/self/clear_refs").write_text("5")
    return resident()
