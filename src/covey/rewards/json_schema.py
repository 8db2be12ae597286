"""Format: the response is JSON of a wanted shape."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from covey.errors import ConfigError
from covey.rewards.base import ScoreContext
from covey.rewards.extract import check_places, final_answer
from covey.rewards.programs.source import program_in
from covey.rewards.schema import judge_values, load_schema
from covey.rewards.strict_json import parse
from covey.types import Group, Part, Prompt


@dataclass(frozen=True, kw_only=True)
class JsonSchema:
    """1 if the reply's JSON is valid under ``schema``, else 0. The schema is a table or the path of a JSON file.

    JSON stands at the first of ``places`` that the reply has: "block" is its last closed code block, marked as json or
    not marked; the others are those of :data:`covey.rewards.extract.PLACES`. All of it is read strictly
    (``covey.rewards.strict_json``): one key twice, NaN or text around it is 0. ``format`` in a schema is a
    remark and not checked; references lead to the schema itself or the standard's documents, never to the network.
    Values are checked by ``workers`` interpreters, each at most ``deadline`` seconds long; longer is 0. Needs the extra
    ``schema``; raises ConfigError for a broken one.

    Farmed by the emptiest value that the schema allows: it says nothing of whether the contents are true.
    """

    schema: dict[str, Any] | str | Path
    places: tuple[str, ...] = ("block", "whole")
    deadline: float = 3.0
    workers: int = 2
    name: str = "json_schema"

    def __post_init__(self) -> None:
        check_places([place for place in self.places if place != "block"])
        if not self.places or self.deadline <= 0 or self.workers < 1:
            raise ConfigError(
                "at least one place, deadline > 0 seconds and workers >= 1 expected, got "
                f"{self.places}, {self.deadline} and {self.workers}"
            )
        _ = self.text

    @cached_property
    def text(self) -> str:
        """The schema as JSON, read once."""
        return load_schema(self.schema)

    async def score_group(self, group: Group, context: ScoreContext, /) -> list[Part]:
        judged = (asyncio.to_thread(self.part, group.prompt, member.reply) for member in group.members)
        return list(await asyncio.gather(*judged))

    def part(self, prompt: Prompt, reply: str) -> Part:
        """Of one reply."""
        found = self.extract(reply)
        if found is None:
            return Part(value=0.0, why=f"nothing at {', '.join(self.places)}")
        try:
            value = parse(found)
        except ValueError as error:
            return Part(value=0.0, why=f"no JSON: {error}")
        return judge_values([(self.text, value)], self.workers, self.deadline)

    def extract(self, reply: str) -> str | None:
        """The text that is taken for JSON, or None where no place has any."""
        for place in self.places:
            found = program_in(reply, "json") if place == "block" else final_answer(reply, (place,))
            if found is not None:
                return found
        return None
