"""What the options of training cost and save: time and memory of one optimizer step with each, in turn.

    python benches/options.py [--options plain padded checkpointing bfloat16 compiled] [--model smollm2-135m]
                              [--prompts 2] [--prompt 64] [--group 8] [--response 64] [--tokens-per-microbatch 512]
                              [--repeats 3] [--json]

``plain`` is packed float32 without any of them, ``padded`` the other layout, ``compiled`` runs each layer through
torch.compile, whose first step is not counted and is given as ``first``. Every step is in a process of its own, the
options take turns, and the figures are medians. ``above`` is what was resident at most in the second step, less what
was before: gradients, activations and what is made on the way.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from dataclasses import asdict, replace
from typing import Any

from synthetic import MIB, Bench, Sizes, forget_peak, resident

OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "padded": {"layout": "padded"},
    "checkpointing": {"checkpointing": True},
    "bfloat16": {"precision": "bfloat16"},
    "compiled": {},
}
Row = dict[str, Any]


def measure(model: str, option: str, sizes: Sizes) -> Row:
    """A first and a second step, in this process."""
    bench = Bench(model, replace(sizes, **OPTIONS[option]))
    credited = bench.credited(bench.sample(0))
    if option == "compiled":
        for layer in bench.model.model.layers:
            layer.compile(dynamic=True)
    began = time.perf_counter()
    bench.train(credited)
    first = time.perf_counter() - began
    before, began = forget_peak(), time.perf_counter()
    bench.train(credited)
    seconds = time.perf_counter() - began
    return {"first_s": first, "seconds": seconds, "mib": (resident("VmHWM") - before) / MIB}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--options", nargs="+", choices=OPTIONS, default=list(OPTIONS))
    parser.add_argument("--model", default="smollm2-135m")
    for name in ("prompts", "prompt", "group", "response", "tokens_per_microbatch"):
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=getattr(Sizes(), name))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="one object a line")
    parser.add_argument("--point", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.point:
        option, sizes = json.loads(args.point)
        print(json.dumps(measure(args.model, option, Sizes(**sizes))))
        return
    names = ("prompts", "prompt", "group", "response", "tokens_per_microbatch")
    sizes = asdict(Sizes(**{name: getattr(args, name) for name in names}))
    found: dict[str, list[Row]] = defaultdict(list)
    for _ in range(args.repeats):
        for option in args.options:
            again = [sys.executable, __file__, "--model", args.model, "--point", json.dumps([option, sizes])]
            output = subprocess.run(again, stdout=subprocess.PIPE, text=True, check=True).stdout
            found[option].append(json.loads(output.splitlines()[-1]))
    for option, rows in found.items():
        row = {"option": option, **{name: statistics.median(r[name] for r in rows) for name in rows[0]}}
        print(json.dumps({**row, "all_s": [r["seconds"] for r in rows]}) if args.json else line(row), flush=True)


def line(row: Row) -> str:
    """One option for a person."""
    return f"{row['option']:14} {row['seconds']:6.2f} s, first {row['first_s']:6.2f} s, above {row['mib']:6.0f} MiB"


if __name__ == "__main__":
    main()
