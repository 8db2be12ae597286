"""Time and memory of sampling and training against group size, prompt, response and vocabulary, beside the formula.

    python benches/costs.py [--axis group prompt response vocabulary] [--model smollm2-135m] [--repeats 3] [--json]

One size is changed at a time, from 2 prompts of 64 tokens with 8 responses of 64; a micro-batch holds a prompt and 448
tokens of responses, so that no prompt is passed oftener than its responses need. Every point is a fresh process; times
are the best of ``--repeats``. Nothing ends a response before its length, so the work is known exactly.

Operations are those of ``covey.planner.work``; ``rate`` is operations over time. Memory is what was resident at most
less what was before, weights and optimizer state. Its formula is: for sampling, keys and values with room for every
response, and a copy of the linear layers' weights; for training, gradients, the activations of the largest micro-batch
and three times the logits of its trained tokens. ``ratio`` is measured over formula.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from dataclasses import asdict, replace
from typing import Any

import torch
from synthetic import MIB, Bench, Sizes, forget_peak, resident

from covey.learner.logprobs import CELLS
from covey.planner import work
from covey.planner.sizes import Shape

BASE = Sizes()
AXES: dict[str, list[int]] = {
    "group": [2, 4, 8, 16, 32, 64],
    "prompt": [32, 128, 512, 2048],
    "response": [16, 64, 256],
    "vocabulary": [2048, 8192, 32768, 131072],
}
Row = dict[str, Any]


def measure(model: str, sizes: Sizes, repeats: int) -> Row:
    """One point, in this process."""
    bench = Bench(model, sizes)
    shape = Shape.of(bench.model.config)
    bench.train(bench.credited(bench.sample(0)))  # moments are made, code is warm
    times: dict[str, list[float]] = {"sample": [], "train": []}
    peaks: dict[str, list[int]] = {"sample": [], "train": []}
    micro = 0
    for repeat in range(repeats):
        before, began = forget_peak(), time.perf_counter()
        completions = bench.sample(repeat + 1)
        times["sample"].append(time.perf_counter() - began)
        peaks["sample"].append(resident("VmHWM") - before)
        credited, before, began = bench.credited(completions), forget_peak(), time.perf_counter()
        micro = bench.train(credited)
        times["train"].append(time.perf_counter() - began)
        peaks["train"].append(resident("VmHWM") - before)
    batch = bench.learner.layout(credited, sizes.tokens_per_microbatch)
    expected = {"sample": sampling_bytes(shape, sizes), "train": training_bytes(shape, batch)}
    steps = (sizes.prompts, sizes.prompt, sizes.group, sizes.response)
    done = {"sample": work.sampling(shape, *steps), "train": work.training(shape, *steps)}
    row: Row = {"sizes": asdict(sizes), "micro": micro, "threads": torch.get_num_threads()}
    for part in ("sample", "train"):
        row[part] = {
            "seconds": min(times[part]),
            "gflop": done[part] / 1e9,
            "rate": done[part] / min(times[part]) / 1e9,
            "mib": min(peaks[part]) / MIB,
            "mib_formula": expected[part] / MIB,
        }
    return row


def sampling_bytes(shape: Shape, sizes: Sizes) -> int:
    """Keys and values, and the packed copy of all linear weights."""
    table = shape.vocabulary * shape.hidden
    packed = shape.parameters - (0 if shape.tied else table)
    room = sizes.prompts * (sizes.prompt + sizes.group * sizes.response)
    return 4 * packed + shape.kv_per_token(4) * room


def training_bytes(shape: Shape, batch: Any) -> int:
    """Gradients, and the micro-batch that needs most."""
    each = shape.layers * shape.activations_per_token(4, quick=True)
    needs = []
    for micro in batch.micro:
        trained = int(micro.trained.sum())
        tokens = int(micro.attended.sum()) if micro.tree is None else micro.tree.tokens.numel()
        needs.append(each * tokens + 3 * 4 * min(trained * shape.vocabulary, CELLS))
    return 4 * shape.parameters + max(needs)


def points(axes: list[str]) -> list[tuple[str, Sizes]]:
    """Every point of these axes."""
    found = [(axis, replace(BASE, **{axis: value})) for axis in axes for value in AXES[axis]]
    return [(axis, replace(s, tokens_per_microbatch=max(s.tokens_per_microbatch, s.prompt + 448))) for axis, s in found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--axis", nargs="+", choices=AXES, default=list(AXES))
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="one object a line")
    parser.add_argument("--point", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.point:
        print(json.dumps(measure(args.model, Sizes(**json.loads(args.point)), args.repeats)))
        return
    for axis, sizes in points(args.axis):
        again = [sys.executable, __file__, "--model", args.model, "--repeats", str(args.repeats)]
        found = subprocess.run(
            [*again, "--point", json.dumps(asdict(sizes))], stdout=subprocess.PIPE, text=True, check=True
        )
        row = json.loads(found.stdout.splitlines()[-1])
        print(json.dumps(row) if args.json else line(axis, row), flush=True)


def line(axis: str, row: Row) -> str:
    """One point for a person."""
    parts = [
        f"{part} {found['seconds']:6.2f} s {found['rate']:5.0f} GFLOP/s, {found['mib']:5.0f} MiB "
        f"(formula {found['mib_formula']:5.0f}, ratio {found['mib'] / found['mib_formula']:.2f})"
        for part, found in ((part, row[part]) for part in ("sample", "train"))
    ]
    return f"{axis:10} {row['sizes'][axis]:6}: " + " | ".join(parts) + f" | {row['micro']} micro-batches"


if __name__ == "__main__":
    main()
