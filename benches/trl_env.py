"""A virtual environment of its own for TRL, made once under the user's cache folder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from covey.learner.fetch import cache_folder

TRL = "1.16.0"
CONSTRAINTS = Path(__file__).parent.parent / "constraints.txt"  # torch, transformers, data sets: the same as Covey's
PACKAGES = (f"trl=={TRL}", "torch", "transformers", "reasoning-gym", "datasets", "pydantic", "jinja2")


def trl_python() -> Path:
    """The interpreter of TRL's environment, which is made if it is not there yet: minutes, mostly of downloading.

    torch comes first and alone: what pip finds under that version stays, where a machine has a CPU build of it.
    Raises CalledProcessError if pip cannot install; the next call begins again.
    """
    folder = cache_folder().parent / "environments" / f"trl-{TRL}"
    python, ready = folder / "bin" / "python", folder / "ready"
    if ready.is_file():
        return python
    print(f"making an environment for TRL {TRL} in {folder}", file=sys.stderr, flush=True)
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
    for wanted in (("torch",), PACKAGES):
        pip = [str(python), "-m", "pip", "install", "--quiet", "--constraint", str(CONSTRAINTS), *wanted]
        subprocess.run(pip, check=True, stdout=sys.stderr)
    ready.touch()
    return python
