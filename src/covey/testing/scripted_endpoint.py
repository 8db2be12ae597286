"""A chat endpoint that says what a script tells it: a real HTTP server on this machine, for tests of judges."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What the endpoint does with one request: after ``delay`` seconds a status, headers and a body."""

    text: str = ""  # the assistant's message
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0
    finish: str = "stop"
    body: str | None = None  # in place of a chat completion
    drop: bool = False  # close the connection without an answer


Script = Callable[[Mapping[str, Any], int], Reply]
"""From a request's body and its number, 0 the first, to the reply."""


class _Server(ThreadingHTTPServer):
    daemon_threads = False  # closing waits for them
    request_queue_size = 128  # connections that come at once; beyond the usual 5 they are refused


class ScriptedEndpoint:
    """A context manager. ``url`` ends in ``/v1``; ``asked`` are the requests' bodies, ``keys`` their keys.

    Every completion is billed 10 prompt tokens and 5 more.
    """

    def __init__(self, script: Script) -> None:
        self.script = script
        self.asked: list[Mapping[str, Any]] = []
        self.keys: list[str | None] = []
        self.most_at_once = 0
        self._now = 0
        self._lock = threading.Lock()
        self._closing = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> ScriptedEndpoint:
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def reply_to(self, body: Mapping[str, Any], key: str | None) -> Reply:
        with self._lock:
            number = len(self.asked)
            self.asked.append(body)
            self.keys.append(key)
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)
        try:
            reply = self.script(body, number)
            self._closing.wait(reply.delay)
            return reply
        finally:
            with self._lock:
                self._now -= 1


def _handler(endpoint: ScriptedEndpoint) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 5.0  # of an idle connection

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.path != "/v1/chat/completions":
                self._send(404, {}, "no such path")
                return
            reply = endpoint.reply_to(body, self.headers.get("Authorization"))
            if reply.drop:
                self.close_connection = True
                return
            self._send(reply.status, reply.headers, _completion(reply) if reply.body is None else reply.body)

        def _send(self, status: int, headers: Mapping[str, str], text: str) -> None:
            data = text.encode()
            try:
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(data))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)
            except ConnectionError:  # the client gave up
                self.close_connection = True

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing."""

    return Handler


def _completion(reply: Reply) -> str:
    message = {"role": "assistant", "content": reply.text}
    usage = {"prompt_tokens": 10, "completion_tokens": 5}
    return json.dumps({"choices": [{"message": message, "finish_reason": reply.finish}], "usage": usage})
