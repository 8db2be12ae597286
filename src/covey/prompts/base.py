"""One row of a data set becomes one prompt."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from covey.errors import PromptError, did_you_mean
from covey.types import Message, Prompt

Style = Literal["chat", "plain"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRule:
    """How rows are read.

    The prompt column holds text, or a list of ``{"role", "content"}`` messages. Text becomes one user message, or with
    style "plain" it is tokenised as it stands. ``answer_column`` None takes the column ``answer`` where there is one.
    Every other column goes to the rewards.
    """

    prompt_column: str = "prompt"
    answer_column: str | None = None
    style: Style = "chat"
    system: str | None = None

    def __post_init__(self) -> None:
        if self.system and self.style == "plain":
            raise PromptError(
                'prompts.system needs chat messages; with prompts.style = "plain" put it into the prompts'
            )

    def read(self, rows: Iterable[Mapping[str, Any]], name: str) -> list[Prompt]:
        """All rows, in order. Raises PromptError naming the row for whatever cannot be read."""
        prompts = [self._prompt(row, name, number) for number, row in enumerate(rows, start=1)]
        if not prompts:
            raise PromptError(f"{name} has no rows; at least one prompt is needed")
        seen: dict[str, int] = {}
        for number, prompt in enumerate(prompts, start=1):
            if prompt.uid in seen:
                raise PromptError(f"{name}: rows {seen[prompt.uid]} and {number} have the same uid {prompt.uid!r}")
            seen[prompt.uid] = number
        return prompts

    def _prompt(self, row: Mapping[str, Any], name: str, number: int) -> Prompt:
        where = f"{name}, row {number}"
        self._check_columns(row, where)
        content = row[self.prompt_column]
        if isinstance(content, str):
            messages: tuple[Message, ...] = (Message(role="user", content=content),)
        else:
            messages = _messages(content, self.prompt_column, where)
        if not any(message.content.strip() for message in messages):
            raise PromptError(f"{where}: the prompt is empty")
        plain = self.style == "plain"
        if plain and not isinstance(content, str):
            raise PromptError(f'{where}: the prompt is a list of messages, but prompts.style is "plain"; use "chat"')
        if self.system and messages[0].role != "system":
            messages = (Message(role="system", content=self.system), *messages)
        answer_column = self.answer_column or "answer"
        answer = row.get(answer_column)
        taken = {self.prompt_column, answer_column, "uid"}
        return Prompt(
            uid=str(row.get("uid") or f"{name}-{number}"),
            messages=messages,
            answer=None if answer is None else str(answer),
            columns={key: value for key, value in row.items() if key not in taken},
            task=name,
            plain=plain,
        )

    def _check_columns(self, row: Mapping[str, Any], where: str) -> None:
        if not isinstance(row, Mapping):
            raise PromptError(f"{where}: expected named columns, got {type(row).__name__}")
        for column, setting in ((self.prompt_column, "prompt_column"), (self.answer_column, "answer_column")):
            if column is not None and column not in row:
                hint = did_you_mean(column, [str(key) for key in row])
                raise PromptError(f"{where}: there is no column {column!r}.{hint} Set prompts.{setting}.")


def _messages(content: Any, column: str, where: str) -> tuple[Message, ...]:
    if not isinstance(content, Sequence) or isinstance(content, bytes) or not content:
        raise PromptError(f"{where}: {column!r} is {content!r}, expected text or a list of messages")
    for message in content:
        if not isinstance(message, Mapping) or not all(isinstance(message.get(k), str) for k in ("role", "content")):
            raise PromptError(
                f'{where}: {message!r} is not a message {{"role": ..., "content": ...}} with text in both'
            )
    return tuple(Message(role=message["role"], content=message["content"]) for message in content)
