"""Programs run elsewhere, by a service with SandboxFusion's ``/run_code``, as if they ran in the sandbox here."""

from __future__ import annotations

import contextlib
import json
import secrets
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any

from covey.sandbox.limits import Limits
from covey.sandbox.outcome import Outcome, ProgramError, SandboxError, Status
from covey.sandbox.process import Asked, Process
from covey.sandbox.sandbox import Sandbox

GRACE = 30.0
"""Seconds beyond a program's own limit for the service to answer, queueing included."""

_FRAMES = (files("covey.sandbox") / "frames.py").read_text(encoding="utf-8")

_CALL = """import json, sys
frames = {{"__name__": "frames"}}
exec({frames!r}, frames)
question, space = {question!r}, {{"__name__": "program"}}
exec(compile({source!r}, "program.py", "exec"), space)
message = {{}}
try:
    name, _, method = question["function"].partition(".")
    function = getattr(space[name](), method) if method else space[name]
    arguments = [frames["unpack"](value) for value in question["args"]]
    named = {{name: frames["unpack"](value) for name, value in question["kwargs"].items()}}
    message["value"] = frames["pack"](function(*arguments, **named))
    after = [frames["pack"](argument) for argument in arguments]
    if after != question["args"]:
        message["args"] = after
except Exception as error:
    message = {{"error": type(error).__name__, "text": str(error)[:200]}}
sys.stdout.write("\\n" + {mark!r} + json.dumps(message) + "\\n")
"""


class RemoteSandbox:
    """Runs Python programs at ``url``, such as ``http://localhost:8080``. What holds them there, nobody knows here.

    A function is called in a run of its own each time, so what a program keeps between calls is lost. Tests that call
    it run in ``local``, a sandbox here; without one they cannot be judged.
    """

    level = "remote"

    def __init__(self, url: str, local: Sandbox | None = None) -> None:
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"a url that begins with http:// or https:// expected, got {url!r}")
        self.url, self.local = url.rstrip("/") + "/run_code", local
        self.limits = Limits()

    def run(self, source: str, stdin: str | bytes = b"", limits: Limits | None = None) -> Outcome:
        """A program, to its end. Raises SandboxError if the service fails or cannot be reached."""
        limits = limits or self.limits
        text = stdin.decode() if isinstance(stdin, bytes) else stdin
        body = {"code": source, "language": "python", "stdin": text, "run_timeout": limits.wall}
        return self._outcome(self._posted(body, limits.wall + GRACE), limits)

    def command(
        self, argv: Sequence[str], files: Mapping[str, str], stdin: str | bytes = b"", limits: Limits | None = None
    ) -> Outcome:
        """Not there: the service takes programs, not commands. Raises SandboxError."""
        raise SandboxError("a remote sandbox runs programs in Python only")

    @contextlib.contextmanager
    def functions(self, source: str, limits: Limits | None = None) -> Iterator[RemoteProgram]:
        """A program whose functions are called one after another."""
        yield RemoteProgram(self, source, limits or self.limits)

    @contextlib.contextmanager
    def tests(
        self, setup: str, tests: Sequence[str], names: Sequence[str], limits: Limits | None = None
    ) -> Iterator[Process]:
        """See :meth:`covey.sandbox.sandbox.Sandbox.tests`. Raises SandboxError without a sandbox here."""
        if self.local is None:
            raise SandboxError("assert statements run in a sandbox here, and none holds; tests as calls need none")
        with self.local.tests(setup, tests, names, limits) as process:
            yield process

    def _posted(self, body: Mapping[str, Any], patience: float) -> Mapping[str, Any]:
        data, kind = json.dumps(body).encode(), {"Content-Type": "application/json"}
        try:
            with urllib.request.urlopen(urllib.request.Request(self.url, data, kind), timeout=patience) as answer:
                found = json.load(answer)
        except (OSError, ValueError) as error:  # refused, late, lost, no JSON
            raise SandboxError(f"{self.url}: {type(error).__name__}: {error}") from error
        if not isinstance(found, dict):
            raise SandboxError(f"{self.url} answered with {type(found).__name__}, an object expected")
        return found

    def _outcome(self, answer: Mapping[str, Any], limits: Limits) -> Outcome:
        result = answer.get("run_result")
        if answer.get("status") == "SandboxError" or not isinstance(result, dict):
            raise SandboxError(f"{self.url}: {answer.get('status')} {str(answer.get('message') or '')[:200]}".strip())
        out, err = (str(result.get(name) or "").encode() for name in ("stdout", "stderr"))
        code = result.get("return_code")
        status: Status = "ended" if code == 0 else "error"
        if result.get("status") == "TimeLimitExceeded":
            status = "timeout"
        elif max(len(out), len(err)) > limits.output:
            status = "output_limit"
        elif code is not None and code < 0:
            status = "killed"
        seconds = float(result.get("execution_time") or 0.0)
        return Outcome(
            status=status, stdout=out[: limits.output], stderr=err[: limits.output], code=code, seconds=seconds
        )


class RemoteProgram(Asked):
    """A program elsewhere; each question is a run of its own."""

    def __init__(self, sandbox: RemoteSandbox, source: str, limits: Limits) -> None:
        self.sandbox, self.source, self.limits = sandbox, source, limits
        self.outcome: Outcome | None = None

    def ask(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to one question. Raises ProgramError when the program ends without one."""
        mark = f"{secrets.token_hex(16)} "  # a program's own output is not taken for its answer
        asked = {"function": question["function"], "args": question["args"], "kwargs": question["kwargs"]}
        text = _CALL.format(frames=_FRAMES, question=asked, source=self.source, mark=mark)
        outcome = self.sandbox.run(text, "", self.limits)
        lines = [line for line in outcome.text.splitlines() if line.startswith(mark)]
        try:
            answer = json.loads(lines[-1].removeprefix(mark)) if lines and outcome.status == "ended" else None
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict) or ("value" in answer) == ("error" in answer):
            self.outcome = outcome
            raise ProgramError(outcome.status, outcome.last_error or f"the program ended: {outcome.status}")
        return answer

    def finish(self) -> Outcome:
        """How the last run ended, if it ended without an answer."""
        return self.outcome or Outcome(status="ended", stdout=b"", stderr=b"", code=0)
