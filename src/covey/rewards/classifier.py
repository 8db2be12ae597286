"""Scores of conversations by a sequence-classification model: the same in any batch as for the row alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from jinja2 import TemplateError

from covey.errors import ConfigError, ModelError
from covey.types import Prompt


class UnfitError(Exception):
    """A conversation that the model cannot read as it is."""


@dataclass(frozen=True, kw_only=True)
class Classifier:
    """A model of one label with its own tokenizer.

    A row's score is the one that transformers gives for the row alone, without padding: a decoder's is read at the last
    token that is not the model's pad token, or at the last one if the model has no pad token.
    """

    model: Any
    tokenizer: Any
    limit: int | None  # tokens of a row; None: any number

    def encode(self, prompt: Prompt, reply: str) -> tuple[int, ...]:
        """Token ids of the conversation, by the chat template, without a generation prompt.

        Without a template the texts are joined, by line breaks unless the prompt is plain, with the tokenizer's own
        special tokens around them. Raises UnfitError for a conversation that is too long, that the template refuses,
        or whose reply spells one of the tokenizer's special tokens, which would end its turn.
        """
        if self._special is not None and (found := self._special.search(reply)):
            raise UnfitError(f"the reply spells the reward model's special token {found[0]!r}")
        if self.tokenizer.chat_template is None:
            gap = "" if prompt.plain else "\n"
            ids = self.tokenizer(gap.join([*(m.content for m in prompt.messages), reply]))["input_ids"]
        else:
            messages = [{"role": message.role, "content": message.content} for message in prompt.messages]
            messages.append({"role": "assistant", "content": reply})
            try:
                # the template writes the special tokens, and none are added to them
                ids = self.tokenizer.apply_chat_template(messages, add_generation_prompt=False, return_dict=True)
            except TemplateError as error:
                raise UnfitError(f"the reward model's chat template refuses the conversation: {error}") from error
            ids = ids["input_ids"]
        if not ids:
            raise UnfitError("a conversation without a token")
        if self.limit is not None and len(ids) > self.limit:
            raise UnfitError(f"{len(ids)} tokens, the reward model takes {self.limit}")
        return tuple(ids)

    def scores(self, rows: Sequence[tuple[int, ...]], batch: int) -> list[float]:
        """The label's logit for each row, float32. Rows of like length share a forward; equal rows have one score."""
        ordered = sorted(set(rows), key=lambda row: (len(row), row), reverse=True)  # a lack of memory shows at once
        found: dict[tuple[int, ...], float] = {}
        for start in range(0, len(ordered), batch):
            some = ordered[start : start + batch]
            found.update(zip(some, self._forward(some), strict=True))
        return [found[row] for row in rows]

    def _forward(self, rows: Sequence[tuple[int, ...]]) -> list[float]:
        import torch

        pad = self._padding(rows)
        lengths = torch.tensor([len(row) for row in rows])
        tokens = torch.full((len(rows), int(lengths.max())), pad, dtype=torch.long)
        for place, row in enumerate(rows):
            tokens[place, : len(row)] = torch.tensor(row)
        attended = torch.arange(tokens.shape[1]) < lengths[:, None]
        device = self.model.device
        with torch.inference_mode():
            output = self.model(input_ids=tokens.to(device), attention_mask=attended.long().to(device))
        return output.logits.float()[:, 0].tolist()

    def _padding(self, rows: Sequence[tuple[int, ...]]) -> int:
        """The id to pad with, on the right.

        Transformers looks for a row's end by the pad token's id alone. A model without one gets an id for this batch
        that no row ends with, so the end found is the last token.
        """
        if self._own_padding is not None:
            return self._own_padding
        ends = {row[-1] for row in rows}
        pad = next(token for token in range(len(ends) + 1) if token not in ends)
        for config in (self.model.config, self.model.config.get_text_config()):
            config.pad_token_id = pad
        return pad

    @cached_property
    def _own_padding(self) -> int | None:
        config = self.model.config.get_text_config()
        pad = config.pad_token_id
        return pad if pad is not None and 0 <= pad < config.vocab_size else None

    @cached_property
    def _special(self) -> re.Pattern[str] | None:
        spelled = {str(token) for token in self.tokenizer.added_tokens_decoder.values() if token.special}
        spelled |= set(self.tokenizer.all_special_tokens)
        return re.compile("|".join(map(re.escape, sorted(spelled, key=len, reverse=True)))) if spelled else None


def load_classifier(
    path: str, *, max_tokens: int | None, device: str, dtype: str, trust_remote_code: bool
) -> Classifier:
    """Load a reward model from a folder or the hub, in evaluation mode.

    Raises ConfigError for a model that is no reward model, ModelError for one that cannot be loaded.
    """
    import torch
    from safetensors import SafetensorError
    from transformers import AutoModelForSequenceClassification, AutoTokenizer
    from transformers.utils.logging import disable_progress_bar

    folder = str(Path(path).expanduser()) if path.startswith("~") else path
    target = _device(device)
    kind = dtype if dtype == "auto" else getattr(torch, dtype)
    disable_progress_bar()  # it would break the live view
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=trust_remote_code)
        model, info = AutoModelForSequenceClassification.from_pretrained(
            folder, dtype=kind, trust_remote_code=trust_remote_code, output_loading_info=True
        )
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ModelError(f"cannot load a reward model from {path!r}: {reason}") from error
    if missing := sorted(info["missing_keys"]):
        raise ConfigError(
            f"{path!r} is no reward model: it has no weights for {', '.join(missing[:3])}, which would be random"
        )
    if model.config.num_labels != 1:
        raise ConfigError(f"{path!r} has {model.config.num_labels} labels, expected a reward model with one")
    model.config.get_text_config().use_cache = False  # nothing is generated
    model.to(target).eval().requires_grad_(False)
    return Classifier(model=model, tokenizer=tokenizer, limit=_limit(model, tokenizer, max_tokens))


def _device(name: str) -> Any:
    import torch

    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ConfigError(f"device {name!r} cannot be used here: {str(error).splitlines()[0]}") from error
    return device


def _limit(model: Any, tokenizer: Any, max_tokens: int | None) -> int | None:
    """The least of what is asked for, the model's positions and what the tokenizer says."""
    positions = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    known = [limit for limit in (max_tokens, positions, tokenizer.model_max_length) if limit is not None]
    limit = min(known, default=None)
    return None if limit is None or limit > 1e9 else int(limit)  # tokenizers say 1e30 for "not known"
