"""Base of rewards that ask a language model over an OpenAI-compatible endpoint."""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, TypeVar
from weakref import WeakKeyDictionary

from covey.errors import ConfigError
from covey.rewards.judges.chat import ChatClient, UnreadableError, http_library
from covey.rewards.judges.flights import Flights
from covey.rewards.judges.kept import KeptAnswers
from covey.rewards.judges.quoting import fields_of
from covey.rewards.judges.usage import Usage

Verdict = TypeVar("Verdict")


@dataclass(frozen=True, kw_only=True)
class EndpointReward:
    """How to ask ``model`` at ``url``, such as ``http://localhost:8000/v1``; a subclass says what.

    ``rubric`` is the question; each ``{name}`` in it becomes a quoted text: ``{prompt}``, ``{answer}``, a column of the
    prompt, and the names in ``wanted``, all of which must stand there. ``key_env`` names the environment variable that
    holds the key; the key itself stands in no file. ``body`` has further fields of the request, such as
    ``reasoning_effort``; with ``max_completion_tokens`` there, ``max_tokens`` is not sent.

    A call takes at most ``deadline`` seconds, and ``at_once`` are under way at a time; for ``retries`` and ``pause``
    see :class:`covey.rewards.judges.chat.ChatClient`. Answers are kept in the file ``cache``, if one is named, by a
    hash of all that was asked, and found there by later runs. Prices are per million tokens. Needs the extra ``judge``.
    """

    url: str
    model: str
    rubric: str
    key_env: str = ""
    temperature: float = 0.0
    max_new_tokens: int = 1024
    body: dict[str, Any] = field(default_factory=dict)
    deadline: float = 120.0
    retries: int = 4
    pause: float = 1.0
    at_once: int = 16
    cache: str = ""
    prompt_price: float = 0.0
    completion_price: float = 0.0
    wanted: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        http_library()
        if not self.url.startswith(("http://", "https://")):
            raise ConfigError(f"url must begin with http:// or https://, got {self.url!r}")
        if lacking := sorted(self.wanted - fields_of(self.rubric)):
            raise ConfigError(f"rubric must hold {', '.join(f'{{{name}}}' for name in lacking)}, got {self.rubric!r}")
        if self.key_env and not os.environ.get(self.key_env, "").strip():
            raise ConfigError(f"the environment variable {self.key_env!r}, named by key_env, is not set")
        self._check_numbers()
        if self.cache and (self._path.is_dir() or not self._path.parent.is_dir()):
            raise ConfigError(f"cache must be a file in a folder that exists, got {self.cache!r}")

    def _check_numbers(self) -> None:
        least = {"temperature": 0, "retries": 0, "pause": 0, "prompt_price": 0, "completion_price": 0}
        for name, low in {**least, "max_new_tokens": 1, "at_once": 1}.items():
            value = getattr(self, name)
            if not (low <= value < math.inf):
                raise ConfigError(f"{name} of {low} or more expected, got {value}")
        if not 0 < self.deadline < math.inf:
            raise ConfigError(f"deadline above 0 seconds expected, got {self.deadline}")

    @cached_property
    def usage(self) -> Usage:
        """What was asked and paid so far."""
        return Usage()

    @property
    def cost(self) -> float:
        """Of all calls so far, at the prices given."""
        return self.usage.cost(self.prompt_price, self.completion_price)

    async def ask(self, system: str, question: str, read: Callable[[str], Verdict]) -> Verdict:
        """The verdict that ``read`` finds in the model's answer.

        Asked once where it is wanted several times at once, and not at all where the answer is kept. An answer that
        ``read`` raises UnreadableError for is asked for once more and never kept. Raises CallError.
        """
        messages = [{"role": "system", "content": system}, {"role": "user", "content": question}]
        limit = {} if "max_completion_tokens" in self.body else {"max_tokens": self.max_new_tokens}
        body = {"model": self.model, "messages": messages, "temperature": self.temperature} | limit | self.body
        key = hashlib.sha256(json.dumps([self._url, body], sort_keys=True).encode()).hexdigest()
        flights = self._flights.setdefault(asyncio.get_running_loop(), Flights())
        self.usage.shared += key in flights
        return await flights.join(key, lambda: self._asked(key, body, read))

    async def _asked(self, key: str, body: dict[str, Any], read: Callable[[str], Verdict]) -> Verdict:
        kept = await asyncio.to_thread(self._kept.get, key) if self.cache else None
        if kept is not None:
            try:
                verdict = read(kept)
            except UnreadableError:  # kept when verdicts were read differently
                pass
            else:
                self.usage.cache_hits += 1
                return verdict
        try:
            return await self._fresh(key, body, read)
        except UnreadableError:
            self.usage.retries += 1
            return await self._fresh(key, body, read)

    async def _fresh(self, key: str, body: dict[str, Any], read: Callable[[str], Verdict]) -> Verdict:
        try:
            answer = await self._client.ask(body)
            verdict = read(answer)
        except UnreadableError:
            self.usage.unreadable += 1
            raise
        if self.cache:
            await asyncio.to_thread(self._kept.put, key, answer)
        return verdict

    @property
    def _url(self) -> str:
        return self.url.rstrip("/")

    @property
    def _path(self) -> Path:
        return Path(self.cache).expanduser()

    @cached_property
    def _kept(self) -> KeptAnswers:
        return KeptAnswers(self._path)

    @cached_property
    def _flights(self) -> WeakKeyDictionary[asyncio.AbstractEventLoop, Flights]:
        return WeakKeyDictionary()

    @cached_property
    def _client(self) -> ChatClient:
        return ChatClient(
            url=self._url,
            key=os.environ.get(self.key_env, "").strip() if self.key_env else "",
            deadline=self.deadline,
            retries=self.retries,
            pause=self.pause,
            at_once=self.at_once,
            usage=self.usage,
        )
