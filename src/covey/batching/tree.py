"""Sequences that begin alike become a tree: every shared beginning stands there once, prompt or response."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from covey.types import Tree

SHORTEST = 8
"""Tokens that a beginning must have to be shared: below this a node of its own costs more than computing it again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A node in the making: tokens ``start:stop`` of sequence ``sample``, which all of ``members`` have in common."""

    start: int
    stop: int
    sample: int
    members: tuple[int, ...]
    inner: tuple[Branch, ...]

    def walk(self) -> Iterator[Branch]:
        """This node and all below, depth first."""
        yield self
        for branch in self.inner:
            yield from branch.walk()

    @property
    def columns(self) -> int:
        """Tokens of this node and all below."""
        return sum(branch.stop - branch.start for branch in self.walk())


def grow(sequences: Sequence[np.ndarray], shortest: int = SHORTEST) -> list[Branch]:
    """The forest of i64[T] ``sequences``: its leaves' paths are the sequences, and none is there twice."""
    keys = [sequence.astype(">i8").tobytes() for sequence in sequences]  # bytes that sort as the numbers do
    order = sorted((i for i in range(len(sequences)) if len(sequences[i])), key=lambda i: keys[i])
    return _fork(sequences, order, 0, shortest)


def _fork(sequences: Sequence[np.ndarray], order: Sequence[int], at: int, shortest: int) -> list[Branch]:
    """Branches for sorted sequences that are alike up to ``at``; those that end there have nothing more to add."""
    order = [i for i in order if len(sequences[i]) > at]
    if not order:
        return []
    stop = _common(sequences[order[0]], sequences[order[-1]], at)
    if len(order) == 1 or stop - at >= shortest:
        inner = _fork(sequences, order, stop, shortest)
        return [Branch(start=at, stop=stop, sample=order[0], members=tuple(order), inner=tuple(inner))]
    return [
        branch for part in _parted(sequences, order, stop) for branch in _again(sequences, part, at, stop, shortest)
    ]


def _again(sequences: Sequence[np.ndarray], order: Sequence[int], at: int, stop: int, shortest: int) -> list[Branch]:
    """Too little in common to share: go on with those that have the next token in common too."""
    if len(sequences[order[0]]) > stop:
        return _fork(sequences, order, at, shortest)
    return [Branch(start=at, stop=stop, sample=order[0], members=tuple(order), inner=())]  # equal, and short


def _parted(sequences: Sequence[np.ndarray], order: Sequence[int], at: int) -> list[list[int]]:
    """Sorted sequences by the token at ``at``; those that end there by themselves."""
    parts: dict[int, list[int]] = {}
    for i in order:
        parts.setdefault(int(sequences[i][at]) if len(sequences[i]) > at else -1, []).append(i)
    return list(parts.values())


def _common(first: np.ndarray, last: np.ndarray, at: int) -> int:
    """Length of what two sequences, alike up to ``at``, have in common."""
    shorter = min(len(first), len(last))
    differ = np.flatnonzero(first[at:shorter] != last[at:shorter])
    return at + int(differ[0]) if differ.size else shorter


def tree_of(sequences: Sequence[np.ndarray], shortest: int = SHORTEST) -> Tree:
    """The tree of i64[T] sequences, each of 2 tokens or more, laid end to end in ``source`` [1, sum of T].

    The last token of a sequence predicts nothing, so the tree ends before it.
    """
    firsts = np.cumsum([0, *(len(sequence) for sequence in sequences)])
    source = np.full(int(firsts[-1]), -1, dtype=np.int64)
    tokens, positions, nodes, taken = [], [], [], 0
    for root in grow([sequence[:-1] for sequence in sequences], shortest):
        for branch in root.walk():
            own = branch.stop - branch.start
            tokens.append(sequences[branch.sample][branch.start : branch.stop])
            positions.append(np.arange(branch.start, branch.stop))
            nodes.append((taken, taken + own, taken + branch.columns))
            for i in branch.members:
                source[firsts[i] + branch.start + 1 : firsts[i] + branch.stop + 1] = np.arange(taken, taken + own)
            taken += own
    return Tree(
        tokens=torch.from_numpy(np.concatenate(tokens)[None]),
        positions=torch.from_numpy(np.concatenate(positions)[None]),
        nodes=tuple(nodes),
        source=torch.from_numpy(source[None]),
    )
