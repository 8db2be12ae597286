"""What a run has trained, on disk: all weights as a Hugging Face folder, or an adapter in PEFT's format.

checkpoint    model/ with all weights, or adapter/ with the adapter alone
final model   all weights, the adapter merged into them; the adapter itself beside them in adapter/
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import save_file

from covey.checkpoint.state import load_tensors, load_weights, save_model
from covey.errors import RunFolderError

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

WEIGHTS = "adapter_model.safetensors"


def is_adapted(model: PreTrainedModel) -> bool:
    """Whether an adapter is trained and not the model's own weights."""
    return hasattr(model, "disable_adapter")


def save_trained(folder: Path, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    """Write what a checkpoint of ``model`` needs, into ``folder/model`` or ``folder/adapter``."""
    if is_adapted(model):
        save_adapter(folder / "adapter", model)
    else:
        save_model(folder / "model", model, tokenizer)


def load_trained(folder: Path, model: PreTrainedModel) -> None:
    """The reverse of :func:`save_trained`, in place. Raises RunFolderError if it does not fit."""
    if is_adapted(model):
        load_adapter(folder / "adapter", model)
    else:
        load_weights(folder / "model", model)


def save_final(folder: Path, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    """An ordinary Hugging Face folder, with the adapter merged if there is one, and also apart in ``adapter/``.

    The weights in memory stay as they are: layers are merged as copies, one after the other.
    """
    if not is_adapted(model):
        save_model(folder, model, tokenizer)
        return
    base: PreTrainedModel = model.get_base_model()  # type: ignore[operator, attr-defined]
    base.save_pretrained(folder, state_dict=merged_weights(base))
    tokenizer.save_pretrained(folder)
    save_adapter(folder / "adapter", model)


@torch.no_grad()
def merged_weights(base: PreTrainedModel) -> dict[str, torch.Tensor]:
    """The state dict of a model inside a PEFT model as if it had never had an adapter but its trained weights.

    Adapted layers are new tensors on the CPU; all others are the model's own.
    """
    from peft.tuners.tuners_utils import BaseTunerLayer

    weights: dict[str, torch.Tensor] = dict(base.state_dict())
    homes: dict[str, Any] = {name: layer for name, layer in base.named_modules() if isinstance(layer, BaseTunerLayer)}
    for home, layer in homes.items():
        if home.removesuffix(".base_layer") in homes and home.endswith(".base_layer"):
            continue  # an adapter on top of this one brings both
        for name in layer.state_dict():
            del weights[f"{home}.{name}"]
        weights |= {f"{home}.{name}": tensor.cpu() for name, tensor in _merged(layer).items()}
    return weights


def _merged(layer: Any) -> dict[str, torch.Tensor]:
    """The state dict of an adapted layer's own layer, with the adapter in it."""
    layer = copy.deepcopy(layer)
    while hasattr(layer, "base_layer"):
        layer.merge()
        layer = layer.base_layer
    return layer.state_dict()


def save_adapter(folder: Path, model: PreTrainedModel) -> None:
    """The adapter alone, as ``peft.PeftModel.from_pretrained(base, folder)`` loads it."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in adapter_tensors(model).items()}
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})
    config: Any = copy.copy(model.peft_config["default"])  # type: ignore[index]
    config.inference_mode = True
    for name, value in vars(config).items():
        if isinstance(value, set):
            setattr(config, name, sorted(value))  # the order of a set differs between processes
    config.save_pretrained(folder)


def load_adapter(folder: Path, model: PreTrainedModel) -> None:
    """Put a saved adapter into ``model``, in place. Raises RunFolderError if it is of another shape."""
    from peft import set_peft_model_state_dict

    saved, own = load_tensors(folder / WEIGHTS), adapter_tensors(model)
    if {name: tensor.shape for name, tensor in saved.items()} != {name: t.shape for name, t in own.items()}:
        raise RunFolderError(f"{folder}: this adapter is not of the rank and targets of the run file")
    set_peft_model_state_dict(model, saved)


def adapter_tensors(model: PreTrainedModel) -> dict[str, torch.Tensor]:
    """The adapter's weights by PEFT's names."""
    from peft import get_peft_model_state_dict

    return get_peft_model_state_dict(model, save_embedding_layers=False)  # they are never resized
