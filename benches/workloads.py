"""The workloads of ``vs_trl.py``: which prompts, in which order, with which settings. Both sides get the same job."""

from __future__ import annotations

import math
import os
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

import reasoning_gym
from safetensors import safe_open
from side import Job

from covey.config import RunConfig, make_config
from covey.learner.fetch import FETCHABLE, fetch
from covey.learner.schedule import Schedule
from covey.prompts.arithmetic import prompts as arithmetic
from covey.prompts.cursor import Cursor
from covey.prompts.source import prompts_from_rows

STEP_WORKLOADS = {
    "short": {"prompts_per_step": 4, "group_size": 8, "max_new_tokens": 64},
    "prefix": {"prompts_per_step": 4, "group_size": 8, "max_new_tokens": 64},
    "long": {"prompts_per_step": 2, "group_size": 8, "max_new_tokens": 512},
}
WORKLOADS = (*STEP_WORKLOADS, "learn")
EXAMPLES = 8
LONG = (
    "{} Reply with the number alone.",
    "{} First explain in as much detail as you can how to work this out, step by step. Then check it another way.",
    "{} Explain your answer in one sentence.",
    "Write a short story in which somebody has to solve this problem, and end it with the solution. {}",
)
"""Four ways to ask, from a few tokens to the limit."""

TRAIN_SILENT = {"control": "adaptive", "target": 1e-9, "floor": 0.0, "ceiling": 0.0}
"""An entropy control that measures every group and can only ever set a coefficient of 0.

So groups without signal are forwarded and trained as well, and all other arithmetic is that of the plain run.
"""


def questions(count: int) -> list[dict[str, str]]:
    """reasoning-gym's chain_sum with seed 7: two or three terms of one or two digits."""
    knobs = {"min_terms": 2, "max_terms": 3, "min_digits": 1, "max_digits": 2}
    data = reasoning_gym.create_dataset("chain_sum", size=count, seed=7, **knobs)
    return [{"question": str(data[i]["question"]), "answer": str(data[i]["answer"])} for i in range(count)]


def make_rows(workload: str, count: int) -> list[dict[str, Any]]:
    """Rows with ``prompt`` as messages and ``answer``."""
    if workload == "learn":
        return [_row(prompt.text, str(prompt.answer)) for prompt in arithmetic("train")]
    drawn = questions(count + EXAMPLES)
    examples, asked = drawn[:EXAMPLES], drawn[EXAMPLES:]
    if workload == "prefix":
        head = "".join(f"Q: {item['question']}\nA: {item['answer']}\n\n" for item in examples)
        return [_row(head + item["question"], item["answer"]) for item in asked]
    if workload == "long":
        return [_row(LONG[i % len(LONG)].format(item["question"]), item["answer"]) for i, item in enumerate(asked)]
    return [_row(item["question"], item["answer"]) for item in asked]


def _row(text: str, answer: str) -> dict[str, Any]:
    return {"prompt": [{"role": "user", "content": text}], "answer": answer}


def model_folder(name: str) -> Path:
    """The folder that both sides load from; a model that Covey can fetch is fetched."""
    if name == "tiny":
        return Path(str(files("covey") / "assets" / "tiny"))
    return fetch(name) if name in FETCHABLE and not Path(name).exists() else Path(name).resolve()


def count_parameters(folder: Path) -> int:
    """Weights of a model folder; tied ones are stored, and counted, once."""
    total = 0
    for file in folder.glob("*.safetensors"):
        with safe_open(file, "numpy") as stored:
            names = stored.keys()
            total += sum(math.prod(stored.get_slice(name).get_shape()) for name in names)
    return total


def demo() -> dict[str, Any]:
    """The settings of ``covey demo``."""
    return tomllib.loads((files("covey.recipes") / "demo.toml").read_text(encoding="utf-8"))


def base_settings(workload: str, tokens_per_microbatch: int, max_new: int | None, every: int) -> dict[str, Any]:
    """The run file's settings that make a workload what it is."""
    if workload == "learn":
        data = demo()
        data["run"] |= {"save_every": every, "keep": 1_000_000}
        return data
    sampling = {"temperature": 1.0, **STEP_WORKLOADS[workload]} | ({"max_new_tokens": max_new} if max_new else {})
    optim = {"lr": 1e-6, "tokens_per_microbatch": tokens_per_microbatch}
    return {"run": {"steps": 3}, "sampling": sampling, "optim": optim}


def make_job(
    workload: str,
    model: Path,
    *,
    seed: int,
    steps: int | None,
    tokens_per_microbatch: int = 2048,
    max_new: int | None = None,
    every: int = 0,
) -> Job:
    """Everything that a side needs. ``order`` lists the rows of each step in turn, as Covey's seed decides them.

    ``tokens_per_microbatch`` and ``max_new`` are of the step workloads, ``every`` of ``learn``.
    """
    data = base_settings(workload, tokens_per_microbatch, max_new, every)
    reward = "exact_number" if workload == "learn" else "contains"
    data["run"] |= {"seed": seed} | ({"steps": steps} if steps else {})
    data |= {"model": {"path": str(model), "device": "cpu", "threads": threads()}, "eval": {"prompts": 0}}
    data |= {"prompts": {"source": "given"}, "reward": {"parts": [f"given:{reward}"]}}
    config = make_config(data)
    rows = make_rows(workload, 16 * config.sampling.prompts_per_step)
    cursor = Cursor(prompts_from_rows([{**row, "row": i} for i, row in enumerate(rows)]), seed)
    taken = [cursor.take(config.sampling.prompts_per_step) for _ in range(config.run.steps)]
    return {
        "workload": workload,
        "config": config.model_dump(exclude_none=True),
        "rows": rows,
        "order": [prompt.columns["row"] for step in taken for prompt in step],
        "lrs": learning_rates(config),
        "reward": reward,
        "every": every,
    }


def learning_rates(config: RunConfig) -> list[float]:
    """Of each step."""
    knobs = config.optim.model_dump(include={"warmup", "decay", "final_fraction"})
    rate = Schedule(peak=config.optim.lr, steps=config.run.steps, **knobs)
    return [rate(step) for step in range(config.run.steps)]


def threads() -> int:
    """All cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
