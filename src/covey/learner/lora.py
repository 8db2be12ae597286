"""Low-rank adapters through PEFT: small matrices beside the layers are trained, the model's own weights are not."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch

from covey.errors import ConfigError, MissingExtraError, ModelError, did_you_mean

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from covey.learner.model import Policy

ALL_LINEAR = "all-linear"
CONFIG = "adapter_config.json"
"""The file that makes a folder an adapter in PEFT's format."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """An adapter as the run file asks for it: W x + alpha / rank * B A x in every targeted layer (arXiv 2106.09685).

    A is [rank, in], B [out, rank]. ``targets`` are names of layers, whole or their last parts, or "all-linear": every
    linear layer but the one that makes logits. There is no dropout, so all passes see the same weights. Raises
    MissingExtraError where PEFT is not installed.
    """

    rank: int
    alpha: int
    targets: str | tuple[str, ...] = ALL_LINEAR

    def __post_init__(self) -> None:
        peft("lora.rank")

    def on(self, policy: Policy, base: str, seed: int) -> Policy:
        """The policy with this adapter on its model, in place; the model's own weights are frozen.

        B starts at zero, so nothing changes yet; A is drawn from ``seed`` alone. ``base`` is what the adapter's files
        will name as the model that it belongs to. Raises ConfigError for targets that this model does not have.
        """
        library, model = peft("lora.rank"), policy.model
        layers = _layers(model)
        if self.targets != ALL_LINEAR:
            _check_tied(model, layers, self.targets)
        config = library.LoraConfig(
            r=self.rank,
            lora_alpha=self.alpha,
            lora_dropout=0.0,
            target_modules=ALL_LINEAR if self.targets == ALL_LINEAR else list(self.targets),
            task_type="CAUSAL_LM",
        )
        try:
            # PEFT draws on the CPU, whatever the model's device; the state of other generators is nobody's business.
            with torch.random.fork_rng(devices=[]), _quiet():
                torch.default_generator.manual_seed(seed)
                wrapped = library.get_peft_model(model, config)
        except (ValueError, TypeError, NotImplementedError) as error:
            raise ConfigError(self._unfit(layers) or f"lora: {str(error).splitlines()[0]}") from error
        # Experts fused into one matrix are adapted by their old names, which are no modules.
        if not wrapped.base_model.targeted_parameter_names and (unfit := self._unfit(layers)):
            raise ConfigError(unfit)
        config.base_model_name_or_path = base
        return replace(policy, model=cast("PreTrainedModel", wrapped))

    def _unfit(self, layers: Sequence[str]) -> str:
        """What is wrong with the targets, empty if every one of them is a layer."""
        targets = () if self.targets == ALL_LINEAR else self.targets
        unknown = next((target for target in targets if not _matching(target, layers)), None)
        if unknown is None:
            return ""
        there = sorted({name.rpartition(".")[2] for name in layers})
        hint = did_you_mean(unknown, there)
        known = "" if "Allowed" in hint else f" Allowed: {', '.join(there)}."
        return f"lora.targets: this model has no linear layer {unknown!r}.{hint}{known}"


def peft(purpose: str) -> Any:
    """The library. Raises MissingExtraError if it is not installed."""
    try:
        import peft
    except ImportError as error:
        raise MissingExtraError("peft", "lora", purpose) from error
    return peft


def is_adapter(folder: str) -> bool:
    """Whether a folder holds an adapter and not a model."""
    return (Path(folder) / CONFIG).is_file() and not (Path(folder) / "config.json").is_file()


def load_merged(folder: str, load: Callable[[str], Policy]) -> Policy:
    """The model that an adapter belongs to, by ``load``, with the adapter merged into this copy in memory.

    An ordinary model, all of whose weights can be trained. Raises ModelError where model and adapter do not fit, and
    MissingExtraError without PEFT.
    """
    library = peft(f"{folder!r} is an adapter, and loading it")
    try:
        base = json.loads((Path(folder) / CONFIG).read_text(encoding="utf-8"))["base_model_name_or_path"]
    except (OSError, ValueError, KeyError) as error:
        raise ModelError(f"{folder!r} is not a whole adapter: {CONFIG} does not name its model") from error
    policy = load(str(base))
    try:
        with _quiet():
            adapted = library.PeftModel.from_pretrained(policy.model, folder, torch_device=str(policy.model.device))
            merged = adapted.merge_and_unload()
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise ModelError(f"adapter {folder!r} does not fit {base!r}: {str(error).splitlines()[0]}") from error
    return replace(policy, model=merged.requires_grad_(True))


def _layers(model: PreTrainedModel) -> list[str]:
    """Names of the layers that can have an adapter."""
    from transformers.pytorch_utils import Conv1D

    kinds = (torch.nn.Linear, torch.nn.Embedding, Conv1D)
    return [name for name, module in model.named_modules() if isinstance(module, kinds)]


def _matching(target: str, layers: Sequence[str]) -> list[str]:
    return [name for name in layers if name == target or name.endswith(f".{target}")]


def _check_tied(model: PreTrainedModel, layers: Sequence[str], targets: Sequence[str]) -> None:
    """Raise ConfigError for an adapter on one of two layers that share a matrix: merged, both would have it."""
    into, out = model.get_input_embeddings(), model.get_output_embeddings()
    shared = getattr(out, "weight", None)
    if shared is None or getattr(into, "weight", None) is not shared:
        return
    tied = {name for name, module in model.named_modules() if module is into or module is out}
    for target in targets:
        if tied & set(_matching(target, layers)):
            raise ConfigError(
                f"lora.targets: {target!r} is one of two layers that share a matrix in this model (its embeddings are "
                "tied), so an adapter on it alone could not be merged; leave it out"
            )


@contextmanager
def _quiet() -> Iterator[None]:
    """Without PEFT's warnings of its own workings: an attribute's older name, transposed layers, fused experts."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*is_gradient_checkpointing", FutureWarning)
        warnings.filterwarnings("ignore", ".*fan_in_fan_out")
        warnings.filterwarnings("ignore", ".*(rank|alpha)_pattern")
        yield
