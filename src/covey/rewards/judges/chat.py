"""Calls of an OpenAI-compatible chat endpoint: few at a time, each under a deadline, repeated where that helps."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from weakref import WeakKeyDictionary

from covey.errors import MissingExtraError
from covey.rewards.judges.usage import Usage

LONGEST_WAIT = 300.0
"""Seconds before a call is repeated; an endpoint that asks for more is not asked again."""


class CallError(Exception):
    """A question got no answer."""


class UnreadableError(CallError):
    """A question got an answer that says nothing."""


class _PassingError(Exception):
    """A failure that may be gone in a while; ``wait`` is in seconds, if the endpoint says how long."""

    def __init__(self, text: str, wait: float | None = None) -> None:
        super().__init__(text)
        self.wait = wait


@dataclass(slots=True)
class _Line:
    """What belongs to one event loop."""

    gate: asyncio.Semaphore
    client: Any = None
    users: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatClient:
    """Asks ``url``/chat/completions, at most ``at_once`` calls at a time.

    Statuses 408, 409, 429 and 5xx, lost connections and calls beyond ``deadline`` seconds are repeated up to
    ``retries`` times: after what Retry-After says, else after ``pause`` seconds, twice as long each time. Connections
    stay open while there are questions.
    """

    url: str
    key: str = field(default="", repr=False)
    deadline: float
    retries: int
    pause: float
    at_once: int
    usage: Usage
    lines: WeakKeyDictionary[asyncio.AbstractEventLoop, _Line] = field(default_factory=WeakKeyDictionary, repr=False)

    async def ask(self, body: Mapping[str, Any]) -> str:
        """The answer's text. Raises UnreadableError for one without text or cut off, CallError for none."""
        content = json.dumps(body).encode()  # escaped, so lone surrogates in a reply do no harm
        loop = asyncio.get_running_loop()
        line = self.lines.get(loop)
        if line is None:
            line = self.lines[loop] = _Line(asyncio.Semaphore(self.at_once))
        async with line.gate, self._connected(line) as client:
            attempt = 0
            while True:
                try:
                    return await self._once(client, content)
                except _PassingError as error:
                    wait = self.pause * 2**attempt * random.uniform(1.0, 1.5) if error.wait is None else error.wait
                    if attempt == self.retries or wait > LONGEST_WAIT:
                        asked = f"; it asks to wait {wait:g} s" if error.wait is not None else ""
                        raise CallError(f"{error}{asked} (tried {attempt + 1} times)") from error
                attempt += 1
                self.usage.retries += 1
                await asyncio.sleep(wait)

    @asynccontextmanager
    async def _connected(self, line: _Line) -> AsyncIterator[Any]:
        """The client that all calls under way share; the last one closes it."""
        httpx = http_library()
        if not line.users:
            headers = {
                "Content-Type": "application/json",
                **({"Authorization": f"Bearer {self.key}"} if self.key else {}),
            }
            limits = httpx.Limits(max_connections=self.at_once, max_keepalive_connections=self.at_once)
            line.client = httpx.AsyncClient(headers=headers, limits=limits, timeout=None)
        client = line.client
        line.users += 1
        try:
            yield client
        finally:
            line.users -= 1
            if not line.users:
                await client.aclose()

    async def _once(self, client: Any, content: bytes) -> str:
        self.usage.calls += 1
        try:
            async with asyncio.timeout(self.deadline):
                response = await client.post(f"{self.url}/chat/completions", content=content)
        except TimeoutError:
            raise _PassingError(f"no answer within {self.deadline:g} s") from None
        except http_library().TransportError as error:
            raise _PassingError(f"{type(error).__name__}: {error}") from error
        status = response.status_code
        if status in (408, 409, 429) or status >= 500:
            raise _PassingError(
                f"HTTP {status}: {response.text[:200]}", seconds_of(response.headers.get("retry-after"))
            )
        if status != 200:
            raise CallError(f"HTTP {status}: {response.text[:200]}")
        return self._text(response)

    def _text(self, response: Any) -> str:
        try:
            data = response.json()
            used = data.get("usage") or {}
            self.usage.prompt_tokens += int(used.get("prompt_tokens") or 0)
            self.usage.completion_tokens += int(used.get("completion_tokens") or 0)
            choice = data["choices"][0]
            text, finish = choice["message"]["content"], choice.get("finish_reason")
        except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:
            raise UnreadableError(f"no chat completion: {response.text[:200]!r}") from error
        if finish == "length":
            raise UnreadableError("the answer was cut off at its token limit; raise max_new_tokens")
        if not isinstance(text, str) or not text:
            raise UnreadableError(f"an answer without text (finish_reason {finish!r})")
        return text


def http_library() -> Any:
    """The HTTP client that the Hugging Face hub's library uses too. Raises MissingExtraError."""
    try:
        import httpx2
    except ImportError as error:
        raise MissingExtraError("httpx2", "judge", "A reward that asks a model") from error
    return httpx2


def seconds_of(header: str | None) -> float | None:
    """How long Retry-After asks to wait, given as seconds or as a date (RFC 9110, 10.2.3); None if it says nothing."""
    if header is None:
        return None
    if header.strip().isdecimal():
        return float(header)
    try:
        moment = parsedate_to_datetime(header)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())
