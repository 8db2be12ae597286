"""Where the time of a step goes, and how far it is from what the machine's arithmetic allows.

    python benches/floor.py [--model smollm2-135m] [--prompts 4] [--prompt 42] [--group 8] [--response 64]
                            [--tokens-per-microbatch 512] [--repeats 5] [--json]

The floor of a part is its operations (``covey.planner.work``) over the best rate at which this machine multiplies a
[256, hidden] matrix by a weight of the size of the model's gate projection. Times are the best of ``--repeats``; the
shares come from one more step under the profiler, whose own cost they contain. What no operation accounts for is
``python``: the interpreter, and waiting.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from synthetic import Bench, Sizes, matmul_rate
from torch.profiler import ProfilerActivity, profile

from covey.planner import work
from covey.planner.sizes import Shape

KINDS = {
    "products": ("linear_pointwise", "aten::mm", "aten::addmm", "_Product", "_Down"),
    "attention": ("scaled_dot_product", "aten::bmm", "aten::baddbmm", "_TreeAttention"),
    "softmax and drawing": ("softmax", "cumsum", "argmax", "searchsorted", "aten::exp", "logsumexp"),
    "optimizer": ("adam", "foreach", "linalg_vector_norm"),
    "moving": ("copy", "index", "cat", "gather", "scatter", "fill", "embedding", "reorder", "masked", "empty", "zero"),
    "elementwise": ("",),
}  # fmt: skip
"""Operations by a part of their name, the first that fits."""


def kind_of(name: str) -> str:
    """What kind of work an operation of the profiler is."""
    return next(kind for kind, parts in KINDS.items() if any(part in name for part in parts))


def shares(run: Callable[[], Any]) -> dict[str, float]:
    """Seconds by kind, under the profiler; what no operation accounts for is ``python``."""
    began = time.perf_counter()
    with profile(activities=[ProfilerActivity.CPU]) as watched:
        run()
        whole = time.perf_counter() - began
    found: Counter[str] = Counter()
    for event in watched.key_averages():
        found[kind_of(event.key)] += event.self_cpu_time_total / 1e6  # type: ignore[assignment]
    return {**found, "python": max(0.0, whole - sum(found.values()))}


def best(run: Callable[[], Any], repeats: int) -> float:
    """Seconds of the quickest of several runs."""
    found = []
    for _ in range(repeats):
        began = time.perf_counter()
        run()
        found.append(time.perf_counter() - began)
    return min(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2-135m")
    for name, default in (("prompts", 4), ("prompt", 42), ("group", 8), ("response", 64), ("repeats", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--tokens-per-microbatch", type=int, default=512)
    parser.add_argument("--json", action="store_true", help="one object a line")
    args = parser.parse_args()
    steps = (args.prompts, args.prompt, args.group, args.response)
    names = ("prompts", "prompt", "group", "response")
    bench = Bench(
        args.model, Sizes(**dict(zip(names, steps, strict=True)), tokens_per_microbatch=args.tokens_per_microbatch)
    )
    shape = Shape.of(bench.model.config)
    credited = bench.credited(bench.sample(0))
    bench.train(credited)
    rates = {rows: matmul_rate(rows, shape.hidden, shape.mlp) for rows in (args.prompts * args.group, 256)}
    parts: dict[str, tuple[Callable[[], Any], int]] = {
        "sampling": (lambda: bench.sample(1), work.sampling(shape, *steps)),
        "training": (lambda: bench.train(credited), work.training(shape, *steps)),
    }
    for part, (run, operations) in parts.items():
        seconds = best(run, args.repeats)
        floor = operations / max(rates.values())
        row = {
            "part": part, "model": args.model, "sizes": dict(zip(names, steps, strict=True)), "seconds": seconds,
            "gflop": operations / 1e9, "floor": floor, "ratio": seconds / floor, "kinds": shares(run),
            "matmul": {str(rows): rate / 1e9 for rows, rate in rates.items()}, "threads": torch.get_num_threads(),
        }  # fmt: skip
        print(json.dumps(row) if args.json else text(row), flush=True)


def text(row: dict[str, Any]) -> str:
    """A part for a person."""
    whole = sum(row["kinds"].values())
    kinds = sorted(row["kinds"].items(), key=lambda item: -item[1])
    lines = [
        f"{row['part']}: {row['seconds']:.2f} s for {row['gflop']:.3g} GFLOP; floor {row['floor']:.2f} s at "
        f"{max(row['matmul'].values()):.3g} GFLOP/s, ratio {row['ratio']:.2f}",
        *(f"    {name:20} {seconds / whole:6.1%}" for name, seconds in kinds),
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
