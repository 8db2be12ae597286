"""Rows from files: JSONL, JSON and CSV in the core; Parquet and Hugging Face data sets through the extra ``data``."""

from __future__ import annotations

import csv
import difflib
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from covey.errors import MissingExtraError, PromptError

Row = Mapping[str, Any]

_SOURCES = "prompts.source is a path, arithmetic, gym:TASK or hf:owner/name."


def read_rows(path: Path, split: str) -> Iterable[Row]:
    """Rows of a file, or of a split of a data set saved with ``save_to_disk``. A file has no splits.

    Raises PromptError for what cannot be read, MissingExtraError where a library is missing.
    """
    if path.is_dir():
        return _saved_dataset(path, split)
    if not path.is_file():
        raise PromptError(f"data file {str(path)!r} does not exist.{_nearby(path)} {_SOURCES}")
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise PromptError(f"{path}: unknown file type {path.suffix!r}; known are {', '.join(sorted(_READERS))}")
    try:
        return list(reader(path))
    except UnicodeDecodeError as error:
        raise PromptError(f"{path} is not UTF-8 text: {error}") from error


def read_hub(name: str, split: str) -> Iterable[Row]:
    """Rows of ``owner/name`` or ``owner/name:config`` on the Hugging Face hub, or in a folder of that name here.

    Raises PromptError if it cannot be loaded, MissingExtraError without ``datasets``.
    """
    datasets = _datasets("Reading a Hugging Face data set")
    repository, _, config = name.partition(":")
    try:
        return datasets.load_dataset(repository, config or None, split=split)
    except Exception as error:  # the library raises many kinds; what the user needs is its message
        raise PromptError(f"cannot load hf:{name} (split {split!r}): {type(error).__name__}: {error}") from error


def _nearby(path: Path) -> str:
    if not path.parent.is_dir():
        return f" There is no folder {str(path.parent)!r} either."
    near = difflib.get_close_matches(path.name, [entry.name for entry in path.parent.iterdir()], n=3)
    return f" Nearby: {', '.join(near)}." if near else ""


def _jsonl(path: Path) -> Iterable[Row]:
    for number, line in enumerate(path.read_text(encoding="utf-8-sig").split("\n"), start=1):
        if line.strip():
            try:
                yield json.loads(line)
            except json.JSONDecodeError as error:
                raise PromptError(f"{path}, line {number}: not JSON: {error}") from error


def _json(path: Path) -> Iterable[Row]:
    try:
        rows = json.loads(path.read_text(encoding="utf-8-sig"))
    except json.JSONDecodeError as error:
        raise PromptError(f"{path}: not JSON: {error}") from error
    if not isinstance(rows, list):
        raise PromptError(f"{path} holds one {type(rows).__name__}, expected a list of rows (or use .jsonl)")
    return rows


def _csv(path: Path) -> Iterable[Row]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file, strict=True)
        try:
            header = list(reader.fieldnames or ())
            if len(set(header)) < len(header):
                raise PromptError(f"{path}: two columns have the same name in the header {', '.join(header)}")
            for row in reader:
                if None in row or None in row.values():
                    raise PromptError(f"{path}, line {reader.line_num}: expected {len(header)} cells as in the header")
                yield row
        except csv.Error as error:
            raise PromptError(f"{path}, line {reader.line_num}: {error}") from error


def _parquet(path: Path) -> Iterable[Row]:
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import read_table
    except ImportError as error:
        raise MissingExtraError("pyarrow", "data", "Reading Parquet") from error
    try:
        return read_table(path).to_pylist()
    except (ArrowException, OSError) as error:
        raise PromptError(f"{path} is not a Parquet file: {error}") from error


def _saved_dataset(path: Path, split: str) -> Iterable[Row]:
    datasets = _datasets("Reading a saved data set")
    try:
        loaded = datasets.load_from_disk(str(path))
    except (FileNotFoundError, ValueError, OSError) as error:
        raise PromptError(f"{path} is not a data set saved with save_to_disk: {error}") from error
    if isinstance(loaded, datasets.DatasetDict):
        if split not in loaded:
            raise PromptError(f"{path} has no split {split!r}; it has {', '.join(loaded)}. Set prompts.split.")
        return loaded[split]
    return loaded


def _datasets(purpose: str) -> Any:
    try:
        import datasets
    except ImportError as error:
        raise MissingExtraError("datasets", "data", purpose) from error
    return datasets


_READERS: dict[str, Callable[[Path], Iterable[Row]]] = {
    ".jsonl": _jsonl,
    ".json": _json,
    ".csv": _csv,
    ".parquet": _parquet,
}
