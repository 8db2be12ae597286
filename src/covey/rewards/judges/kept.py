"""A model's answers on disk, so that no question is paid twice."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from covey.rewards.judges.chat import CallError

BUSY = 30.0
"""Seconds that a writer waits for another one, perhaps of another run."""


class KeptAnswers:
    """Answers by key in one SQLite file, made when the first is kept. Threads and processes may share the file.

    Raises CallError where the file cannot be used.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def get(self, key: str) -> str | None:
        if not self.path.exists():
            return None
        with self._open() as database:
            row = database.execute("SELECT answer FROM answers WHERE key = ?", (key,)).fetchone()
        return None if row is None else str(row[0])

    def put(self, key: str, answer: str) -> None:
        with self._open() as database, database:
            database.execute("INSERT OR REPLACE INTO answers VALUES (?, ?)", (key, answer))

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        # A connection belongs to one thread and must not cross a fork; opening one takes less than a millisecond.
        try:
            with closing(sqlite3.connect(self.path, timeout=BUSY)) as database:
                database.execute("CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, answer TEXT NOT NULL)")
                yield database
        except sqlite3.Error as error:
            raise CallError(f"the answers kept in {self.path} cannot be used: {error}") from error
