"""Texts inside a question, between marks that none of them can close."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping

from covey.types import Prompt

_FIELD = re.compile(r"\{([^\W\d]\w*)\}")


class MissingTextError(Exception):
    """A prompt lacks something that the rubric asks for."""


def fields_of(rubric: str) -> frozenset[str]:
    """The names that stand in braces. Other braces are text."""
    return frozenset(_FIELD.findall(rubric))


def fill(rubric: str, prompt: Prompt, texts: Mapping[str, str]) -> tuple[str, str]:
    """The rubric with each ``{name}`` replaced by its text, quoted, and the nonce of the marks.

    Names are those of ``texts``, "prompt", "answer" and the prompt's columns, in this order. A text stands between
    ``<<<NAME NONCE>>>`` and ``<<<end NAME NONCE>>>``. The nonce is a hash of everything that is quoted, so the same
    question has the same one; no text holds it. Raises MissingTextError for a name that the prompt does not have.
    """
    quoted = {name: texts[name] if name in texts else _text_of(prompt, name) for name in fields_of(rubric)}
    nonce = hashlib.sha256(json.dumps([rubric, quoted], sort_keys=True).encode()).hexdigest()[:16]
    while any(nonce in text for text in quoted.values()):
        nonce = hashlib.sha256(nonce.encode()).hexdigest()[:16]

    def block(match: re.Match[str]) -> str:
        name = match[1]
        return f"<<<{name} {nonce}>>>\n{quoted[name]}\n<<<end {name} {nonce}>>>"

    return _FIELD.sub(block, rubric), nonce


def _text_of(prompt: Prompt, name: str) -> str:
    if name == "prompt":
        messages = prompt.messages
        return prompt.text if len(messages) == 1 else "\n\n".join(f"{m.role}: {m.content}" for m in messages)
    value = prompt.answer if name == "answer" and prompt.answer is not None else prompt.columns.get(name)
    if value is None:
        raise MissingTextError(f"the prompt has no {name!r}, which the rubric asks for")
    return value if isinstance(value, str) else json.dumps(value, default=str, sort_keys=True)
