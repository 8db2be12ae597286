"""One row of a data set becomes one prompt."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from covey.errors import PromptError
from covey.types import Message, Prompt

Style = Literal["chat", "plain"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRule:
    """How rows are read.

    The prompt column holds text, or a list of ``{"role", "content"}`` messages. Text becomes one user message, or with
    style "plain" it is tokenised as it stands. ``answer_column`` None takes the column ``answer`` where there is one.
    The other columns go to the rewards as they are, the answer's too. ``system`` is put before prompts that bring no
    system message of their own.
    Raises PromptError for a system message with style "plain".
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

    def read(self, rows: Iterable[Mapping[str, Any]], name: str, where: str | None = None) -> list[Prompt]:
        """All rows, in order. ``name`` becomes the task and begins the uids; errors call the data set ``where``.

        A uid is the row's column ``uid``, else its ``id`` if every row has a different one, else ``name-1``,
        ``name-2``, ... by the number of the row. Raises PromptError naming the row for whatever cannot be read.
        """
        where = where or name
        numbered = [(f"{where}, row {number}", row) for number, row in enumerate(rows, start=1)]
        if not numbered:
            raise PromptError(f"{where} has no rows; at least one prompt is needed")
        for place, row in numbered:
            self._check_columns(row, place)
        uids = _uids([row for _, row in numbered], name, where)
        return [self._prompt(row, uid, name, place) for (place, row), uid in zip(numbered, uids, strict=True)]

    def dress(self, prompt: Prompt) -> Prompt:
        """A ready-made one-question prompt in this style and with this system message."""
        return dataclasses.replace(
            prompt, messages=self._with_system(prompt.messages), plain=prompt.plain or self.style == "plain"
        )

    def _prompt(self, row: Mapping[str, Any], uid: str, name: str, place: str) -> Prompt:
        content = row[self.prompt_column]
        if isinstance(content, str):
            messages: tuple[Message, ...] = (Message(role="user", content=content),)
        else:
            messages = _messages(content, self.prompt_column, place)
        if not messages[-1].content.strip():
            raise PromptError(f"{place}: the prompt is empty; fill the column {self.prompt_column!r} or drop the row")
        plain = self.style == "plain"
        if plain and not isinstance(content, str):
            raise PromptError(f'{place}: the prompt is a list of messages, but prompts.style is "plain"; use "chat"')
        answer = row.get(self.answer_column or "answer")
        return Prompt(
            uid=uid,
            messages=self._with_system(messages),
            answer=None if answer is None else str(answer),
            columns={key: value for key, value in row.items() if key not in (self.prompt_column, "uid")},
            task=name,
            plain=plain,
        )

    def _with_system(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        if self.system and messages[0].role != "system":
            return (Message(role="system", content=self.system), *messages)
        return messages

    def _check_columns(self, row: Mapping[str, Any], place: str) -> None:
        if not isinstance(row, Mapping):
            raise PromptError(f"{place}: expected named columns, got {type(row).__name__}")
        for column, setting in ((self.prompt_column, "prompt_column"), (self.answer_column, "answer_column")):
            if column is not None and column not in row:
                columns = [str(key) for key in row]
                near = difflib.get_close_matches(column, columns, n=1)
                hint = f" Did you mean {near[0]!r}?" if near else ""
                there = ", ".join(columns) or "none"
                raise PromptError(
                    f"{place}: there is no column {column!r}.{hint} The columns are: {there}. Set prompts.{setting}."
                )


def _uids(rows: Sequence[Mapping[str, Any]], name: str, where: str) -> list[str]:
    # An "id" may mean anything, so it names prompts only if it can, and stays a column; "uid" is a promise to be kept.
    ids = [str(row["id"]) for row in rows if row.get("id") not in (None, "")]
    named_by_id = len(set(ids)) == len(rows)
    uids: dict[str, int] = {}
    for number, row in enumerate(rows, start=1):
        given = row.get("uid")
        fallback = ids[number - 1] if named_by_id else f"{name}-{number}"
        uid = fallback if given in (None, "") else str(given)
        if uid in uids:
            raise PromptError(f"{where}: rows {uids[uid]} and {number} have the same uid {uid!r}; make them differ")
        uids[uid] = number
    return list(uids)


def _messages(content: Any, column: str, place: str) -> tuple[Message, ...]:
    if not isinstance(content, Sequence) or isinstance(content, bytes) or not content:
        raise PromptError(f"{place}: {column!r} is {content!r}, expected text or a list of messages")
    for message in content:
        if not isinstance(message, Mapping) or not all(isinstance(message.get(k), str) for k in ("role", "content")):
            raise PromptError(
                f'{place}: {message!r} is not a message {{"role": ..., "content": ...}} with text in both'
            )
    return tuple(Message(role=message["role"], content=message["content"]) for message in content)
