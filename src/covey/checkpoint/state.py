"""What a checkpoint holds: weights, optimizer, generators and the run's counters, as safetensors and JSON only."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from covey.errors import RunFolderError
from covey.types import RunState

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

_SEPARATOR = "::"


def save_model(folder: Path, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    """An ordinary Hugging Face folder that ``AutoModelForCausalLM.from_pretrained`` loads."""
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def load_weights(folder: Path, model: PreTrainedModel) -> None:
    """Put the weights of a saved folder into ``model``, in place. Raises RunFolderError if they do not fit."""
    try:
        # By the library's own loader: what it saves need not have the names of the state dict (mixtures of experts).
        saved = type(model).from_pretrained(folder, dtype=model.dtype)
        model.load_state_dict(saved.state_dict())
    except (RuntimeError, OSError, ValueError, SafetensorError) as error:
        raise RunFolderError(f"{folder}: these weights cannot be loaded into the model: {error}") from error


def save_optimizer(path: Path, optimizer: torch.optim.Optimizer, names: Mapping[torch.nn.Parameter, str]) -> None:
    """Optimizer state by parameter name, e.g. ``exp_avg::model.norm.weight``."""
    tensors = {
        f"{key}{_SEPARATOR}{name}": torch.as_tensor(value).detach().clone().contiguous()
        for parameter, name in names.items()
        for key, value in optimizer.state.get(parameter, {}).items()
    }
    save_file(tensors, path)


def load_optimizer(path: Path, optimizer: torch.optim.Optimizer, names: Mapping[torch.nn.Parameter, str]) -> None:
    """The reverse of :func:`save_optimizer`."""
    by_name = {name: parameter for parameter, name in names.items()}
    found: dict[torch.nn.Parameter, dict[str, torch.Tensor]] = {}
    for key, tensor in load_tensors(path).items():
        field, _, name = key.partition(_SEPARATOR)
        found.setdefault(by_name[name], {})[field] = tensor
    makes_its_own = getattr(optimizer, "init_state", None)
    for parameter, fields in found.items():
        if makes_its_own is None:
            for field, tensor in fields.items():
                stays = field == "step" and not optimizer.defaults.get("fused")  # only a fused kernel counts there
                optimizer.state[parameter][field] = tensor if stays else tensor.to(parameter.device)
        else:
            _fill(optimizer, parameter, fields)


def _fill(optimizer: Any, parameter: torch.nn.Parameter, fields: Mapping[str, torch.Tensor]) -> None:
    """Put a weight's state into the buffers of bitsandbytes, which may be paged."""
    for number, group in enumerate(optimizer.param_groups):
        for place, one in enumerate(group["params"]):
            if one is parameter:
                optimizer.init_state(group, parameter, number, place)
    state = optimizer.state[parameter]
    for field, tensor in fields.items():
        if field == "step":
            state[field] = int(tensor)
        else:
            state[field].copy_(tensor)


def save_tensors(path: Path, tensors: Mapping[str, torch.Tensor]) -> None:
    """Named weights as they are; those that share memory are written once each."""
    save_file({name: tensor.detach().clone().contiguous() for name, tensor in tensors.items()}, path)


def load_tensors(path: Path) -> dict[str, torch.Tensor]:
    """The reverse of :func:`save_tensors`. Raises RunFolderError for a file that is not whole."""
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise RunFolderError(f"{path} is not a complete set of weights: {error}") from error


def capture_rng() -> dict[str, Any]:
    """State of the global generators, for rewards and other user code; Covey's own sampling never uses them."""
    version, words, gauss = random.getstate()
    name, keys, position, has_gauss, cached = np.random.get_state(legacy=True)
    return {
        "python": [version, list(words), gauss],
        "numpy": [name, np.asarray(keys).tolist(), position, has_gauss, cached],
        "torch": torch.get_rng_state().tolist(),
    }


def restore_rng(state: Mapping[str, Any]) -> None:
    """The reverse of :func:`capture_rng`."""
    version, words, gauss = state["python"]
    random.setstate((version, tuple(words), gauss))
    name, keys, position, has_gauss, cached = state["numpy"]
    np.random.set_state((name, np.array(keys, dtype=np.uint32), position, has_gauss, cached))
    torch.set_rng_state(torch.tensor(state["torch"], dtype=torch.uint8))


def save_state(path: Path, state: RunState) -> None:
    """Counters as JSON."""
    path.write_text(json.dumps(asdict(state)), encoding="utf-8")


def load_state(path: Path) -> RunState:
    """The reverse of :func:`save_state`. Raises RunFolderError for a file that is not one."""
    try:
        return RunState(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise RunFolderError(f"{path} is not a checkpoint's state: {error}") from error
