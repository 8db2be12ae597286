"""What became of a program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["ended", "error", "timeout", "memory", "output_limit", "killed", "protocol"]
"""``ended``: exit code 0. ``error``: another. ``killed``: a signal. ``protocol``: it spoke when it was not asked."""


class SandboxError(Exception):
    """The sandbox itself failed, whatever the program did: no verdict on the program follows from it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a program ended and what it wrote; streams are cut at the output limit."""

    status: Status
    stdout: bytes
    stderr: bytes
    code: int | None = None
    seconds: float = 0.0

    @property
    def text(self) -> str:
        """Standard output, bad bytes replaced."""
        return self.stdout.decode("utf-8", errors="replace")

    @property
    def last_error(self) -> str:
        """The last line of standard error, for people."""
        lines = self.stderr.decode("utf-8", errors="replace").strip().splitlines()
        return lines[-1][:200] if lines else ""


class ProgramError(Exception):
    """A call into a program came to nothing; ``status`` says how, ``raised`` what the function itself raised."""

    def __init__(self, status: Status | Literal["raised", "not_plain"], text: str, raised: str = "") -> None:
        super().__init__(text)
        self.status = status
        self.raised = raised
