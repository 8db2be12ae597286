"""What a program that nobody has read may use."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """``cpu`` and ``wall`` in seconds, the rest in bytes and counts. ``output`` is of each stream."""

    cpu: float = 5.0
    wall: float = 6.0
    memory: int = 1 << 30
    output: int = 1 << 20
    file: int = 8 << 20
    files: int = 64
    tasks: int = 16  # processes and threads, where a namespace counts them
    scratch: int = 16 << 20  # of the folder to write to, where there is one

    def __post_init__(self) -> None:
        wrong = [name for name in self.__slots__ if getattr(self, name) <= 0]
        if wrong:
            raise ValueError(f"limits must be above 0; {', '.join(wrong)} is not")
