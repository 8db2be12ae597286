"""``covey doctor``: is this machine ready, and how fast is it?"""

from __future__ import annotations

import argparse
import json
import time
from importlib import metadata
from typing import Any


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="one JSON object instead of lines")


PACKAGES = ("torch", "transformers", "tokenizers", "safetensors", "numpy", "pydantic", "rich")
EXTRAS = {"data": "datasets", "gym": "reasoning-gym", "gguf": "gguf", "frames": "pandas", "lora": "peft"}


def run(arguments: argparse.Namespace) -> int:
    facts = examine()
    if arguments.json:
        print(json.dumps(facts))
    else:
        for name, value in facts.items():
            print(f"{name:<24} {value}")
    return 0 if facts["tiny model"].startswith("ok") else 1


def examine() -> dict[str, Any]:
    """Everything worth knowing, as plain data. The last entry really samples from the built-in model."""
    import os
    import platform

    import torch

    facts: dict[str, Any] = {"python": platform.python_version(), "system": platform.platform()}
    facts |= {package: version(package) for package in PACKAGES}
    facts |= {f"extra {extra}": version(package) for extra, package in EXTRAS.items()}
    facts["cores"] = os.cpu_count()
    facts["threads of torch"] = torch.get_num_threads()
    facts["gpus"] = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())] or "none"
    facts["matrix product"] = f"{gigaflops():.0f} GFLOP/s in float32"
    facts["tiny model"] = try_tiny()
    return facts


def version(package: str) -> str:
    """Installed version, or how to get it."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def gigaflops(size: int = 1024, repeats: int = 10) -> float:
    """Measured speed of float32 matrix products."""
    import torch

    a = torch.randn(size, size)
    torch.mm(a, a)
    began = time.perf_counter()
    for _ in range(repeats):
        torch.mm(a, a)
    return repeats * 2 * size**3 / (time.perf_counter() - began) / 1e9


def try_tiny() -> str:
    """Load the built-in model and let it answer 13×17 once."""
    import asyncio

    from covey.config import make_config
    from covey.errors import CoveyError
    from covey.loop.build import build_bench
    from covey.observe.view import one_line
    from covey.prompts.source import prompts_from_rows
    from covey.rollout.group import rollout
    from covey.types import Sampling

    try:
        bench = build_bench(make_config({}), held_out=())
        began = time.perf_counter()
        greedy = Sampling(temperature=0.0, max_new_tokens=64)
        prompts = prompts_from_rows(["13×17=?"])
        group = asyncio.run(rollout(prompts, bench.engine, bench.chat, greedy, 1, (0, "doctor")))[0]
    except CoveyError as error:
        return f"failed: {error}"
    speed = group.members[0].sampled_tokens / (time.perf_counter() - began)
    return f"ok, {speed:.0f} tokens/s for one response: {one_line(group.members[0].reply, 80)}"
