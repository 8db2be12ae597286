"""Messages to tokens and tokens to text: the only place that does either."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jinja2 import TemplateError

from covey.errors import ModelError, PromptError
from covey.types import Prompt

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class Chat:
    """A tokenizer with its chat template and the ids that end a response."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, end_tokens: frozenset[int]) -> None:
        self.tokenizer: Any = tokenizer  # its methods return unions that no type checker can follow
        self.end_tokens = end_tokens

    def encode(self, prompt: Prompt) -> np.ndarray:
        """Prompt tokens i64[T], ending where the response begins.

        A plain prompt is tokenised as it stands; a chat prompt goes through the template with its generation prompt.
        Raises ModelError when a chat prompt meets a tokenizer without a template.
        """
        if prompt.plain:
            ids = self.tokenizer(prompt.text, add_special_tokens=True)["input_ids"]
        elif self.tokenizer.chat_template is None:
            raise ModelError(
                "the tokenizer has no chat template, but the prompts are chat messages. "
                'Use prompts.style = "plain" for a base model, or a model with a template.'
            )
        else:
            messages = [{"role": message.role, "content": message.content} for message in prompt.messages]
            try:
                encoded = self.tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=True)
            except TemplateError as error:
                roles = ", ".join(message.role for message in prompt.messages)
                raise ModelError(
                    f"the chat template refuses prompt {prompt.uid!r} with roles {roles}: {error}"
                ) from error
            ids = encoded["input_ids"]
        return np.asarray(ids, dtype=np.int64)

    def decode(self, tokens: Sequence[int] | np.ndarray) -> str:
        """The text of a response, without its end token and other special tokens."""
        return self.tokenizer.decode([int(token) for token in tokens], skip_special_tokens=True)

    def ends(self, tokens: Sequence[int] | np.ndarray) -> np.ndarray:
        """For each token the number of characters of the response up to and with it, i64[t]; never falling.

        Decoding a prefix is not a prefix of decoding all (a character may take several tokens), so each token is
        decoded beside the few before it; one that does not yet complete a character ends where its predecessor does.
        """
        ids = [int(token) for token in tokens]
        found, whole = np.zeros(len(ids), dtype=np.int64), len(self.decode(ids))
        boundaries = [0]  # numbers of tokens that end with a whole character
        start, before, done = (
            0,
            0,
            0,
        )  # decoding ids[start : boundaries[-1]] gives `before` characters, all of them `done`
        for i in range(len(ids)):
            now = self.decode(ids[start : i + 1])
            if not now.endswith("\ufffd"):
                done += len(now) - before
                boundaries.append(i + 1)
                start = next((b for b in reversed(boundaries) if b <= i + 1 - _CONTEXT), 0)
                before = len(self.decode(ids[start : i + 1]))
            found[i] = done
        if len(ids) and boundaries[-1] < len(ids):  # bytes at the end that are no character
            found[-1] = whole
        return np.minimum(np.maximum.accumulate(found), whole) if len(ids) else found


_CONTEXT = 4
"""Tokens that each one is decoded beside, at least: the first of a text may lose its leading space."""


def fitting_prompts(
    prompts: Sequence[Prompt], chat: Chat, limit: int | None, new_tokens: int, drop: bool
) -> list[Prompt]:
    """Prompts that leave room for ``new_tokens`` within the model's ``limit`` of positions (None: no limit).

    Raises PromptError that names the prompts which do not fit, or leaves them out when ``drop`` is set.
    """
    if limit is None:
        return list(prompts)
    sizes = {prompt.uid: len(chat.encode(prompt)) for prompt in prompts}
    long = [uid for uid, size in sizes.items() if size + new_tokens > limit]
    if long and not drop:
        shown = ", ".join(f"{uid} ({sizes[uid]} tokens)" for uid in long[:5])
        raise PromptError(
            f"{len(long)} of {len(prompts)} prompts are too long: {shown}{', ...' if len(long) > 5 else ''}. "
            f"The model has {limit} positions and sampling.max_new_tokens = {new_tokens} needs room. "
            'Shorten them, lower max_new_tokens, or set prompts.too_long = "drop".'
        )
    kept = [prompt for prompt in prompts if sizes[prompt.uid] + new_tokens <= limit]
    if not kept:
        raise PromptError(f"no prompt is left: all {len(prompts)} need more than the model's {limit} positions")
    return kept
