"""Loading a policy: model, tokenizer and every token that ends a response."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils.logging import disable_progress_bar

from covey.errors import ModelError

Precision = Literal["float32", "bfloat16"]

TINY = "tiny"
"""Name of the model inside the package: a Llama of under a million parameters that has seen some arithmetic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A model with its tokenizer. ``end_tokens`` are all ids that end a response."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    end_tokens: frozenset[int]


def resolve(path: str) -> str:
    """Map the built-in name and the names of fetched models to folders; anything else is a folder or a hub id."""
    from covey.learner.fetch import fetched_folder

    if path == TINY:
        return str(files("covey") / "assets" / TINY)
    path = str(Path(path).expanduser()) if path.startswith("~") else path
    if not Path(path).exists() and (folder := fetched_folder(path)) is not None:
        return str(folder)
    return path


def pick_device(name: str) -> torch.device:
    """``auto`` is the GPU if there is one, else the CPU. Raises ModelError for a device that is not here."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ModelError(f"device {name!r} cannot be used here: {str(error).splitlines()[0]}") from error
    return device


def load_policy(
    path: str, device: str = "auto", trust_remote_code: bool = False, precision: Precision = "float32"
) -> Policy:
    """Load weights with their tokenizer; a folder with an adapter gives its model with the adapter merged.

    Raises ModelError that says what is missing and where.
    """
    from covey.learner.lora import is_adapter, load_merged

    folder = resolve(path)
    if is_adapter(folder):
        return load_merged(folder, lambda base: load_policy(base, device, trust_remote_code, precision))
    _check_folder(path, folder)
    target = pick_device(device)
    disable_progress_bar()  # one file is loaded; the bar would break the live view
    tokenizer = load_tokenizer(path, trust_remote_code)
    try:
        model = AutoModelForCausalLM.from_pretrained(
            folder, dtype=getattr(torch, precision), trust_remote_code=trust_remote_code
        )
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise ModelError(f"cannot load a causal language model from {path!r}: {_first_line(error)}") from error
    model.to(target)  # type: ignore[arg-type]
    return Policy(model=model, tokenizer=tokenizer, end_tokens=end_tokens(model, tokenizer))


def load_tokenizer(path: str, trust_remote_code: bool = False) -> PreTrainedTokenizerBase:
    """The tokenizer of a model, without its weights. Raises ModelError that says what is missing and where."""
    folder = resolve(path)
    try:
        return AutoTokenizer.from_pretrained(folder, trust_remote_code=trust_remote_code)  # type: ignore[no-any-return]
    except (OSError, ValueError, KeyError, TypeError) as error:
        where = "" if Path(folder).exists() else f"there is no folder {path!r} here, and as a hub id: "
        raise ModelError(f"cannot load a tokenizer: {where}{_first_line(error)}") from error


def end_tokens(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """Union of the end ids of generation config, model config and tokenizer: chat models end turns on several."""
    sources: tuple[Any, ...] = (
        getattr(model.generation_config, "eos_token_id", None),
        getattr(model.config.get_text_config(), "eos_token_id", None),
        tokenizer.eos_token_id,
    )
    lists = [[ids] if isinstance(ids, int) else list(ids or ()) for ids in sources]
    return frozenset(int(token) for ids in lists for token in ids)


def _check_folder(path: str, folder: str) -> None:
    local = Path(folder)
    looks_local = path.startswith((".", "/", "~")) or local.exists()
    if not looks_local:
        return
    if not local.is_dir():
        raise ModelError(f"model folder {path!r} does not exist")
    if not (local / "config.json").is_file():
        raise ModelError(f"{path!r} is not a model folder: it has no config.json")
    if not any((local / name).is_file() for name in ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt")):
        raise ModelError(
            f"model folder {path!r} has no tokenizer. Save it there with tokenizer.save_pretrained({path!r})."
        )


def _first_line(error: Any) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
