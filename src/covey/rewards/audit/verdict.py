"""From numbers to words: whether this reward can be trained on, and what it would teach."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from covey.rewards.audit.made import Discrimination, Probe
from covey.rewards.audit.parts import TOTAL, PartReport
from covey.rewards.audit.probes import USUAL

Level = Literal["sound", "watch", "unsound"]

FARMED = 0.5
"""A probe that is paid this share of what a right answer is paid can be lived on."""

ENOUGH = 8
"""Prompts from which on it means something that one answer is right for half of them."""

SLOW = 30.0
"""Seconds a call from which a reward may hold up a step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """``unsound``: do not train on it as it is. ``watch``: it may be meant so; look at it."""

    level: Level
    problems: tuple[str, ...]  # what makes it unsound
    doubts: tuple[str, ...]
    lesson: tuple[str, ...]  # what GRPO would learn from this step

    @property
    def text(self) -> str:
        """The verdict in one sentence."""
        return {
            "sound": "No probe is worth writing, and right answers are paid more than wrong ones.",
            "watch": "Nothing that forbids training, but look at the doubts.",
            "unsound": "Do not train on this reward yet.",
        }[self.level]


def about_probes(probes: Sequence[Probe], right: float | None) -> tuple[list[str], list[str]]:
    """Problems and doubts that the probes raise; ``right`` is the mean total of right answers."""
    problems, doubts = [], []
    for probe in probes:
        if probe.paid is None or (probe.name == USUAL and probe.prompts < ENOUGH):
            continue
        paid = f"{probe.name!r} ({probe.about}) is paid {probe.paid:.3g}"
        if probe.correct:
            problems.append(f"{paid} and counts as correct on {probe.correct:.0%} of the prompts, where it is not")
        elif right is not None and right > 0 and probe.paid >= FARMED * right:
            problems.append(f"{paid}, {probe.paid / right:.0%} of what a right answer is paid ({right:.3g})")
        elif right is None and probe.paid > 0:
            doubts.append(f"{paid}; what a right answer is paid is not known")
        elif probe.above is not None and probe.above >= 0.5:
            doubts.append(
                f"{paid}, above the mean of its siblings on {probe.above:.0%} of the prompts: it would spread"
            )
        if probe.failed:
            doubts.append(f"the reward broke on {probe.failed} of {probe.prompts} {probe.name!r} probes")
    return problems, doubts


def about_discrimination(found: Discrimination) -> tuple[list[str], list[str]]:
    """Problems and doubts of telling right from wrong."""
    if found.frame is None:
        return [], [
            "no right answer counts as correct in any form that is known here, so whether right is told from wrong was "
            "not tried: give a file of responses"
        ]
    problems, doubts = [], []
    if found.judged_right is not None and found.judged_right < 0.9:
        problems.append(f"only {found.judged_right:.0%} of right answers count as correct (form: {found.frame})")
    shares = {
        "a near miss": found.beats_wrong,
        "another prompt's answer": found.beats_other,
        "a near miss whose text mentions the right answer": found.beats_mention,
        "the right answer given together with a wrong one": found.beats_both,
    }
    for what, share in shares.items():
        if share is not None and share < 1:
            (problems if share < 0.95 else doubts).append(
                f"a right answer is not paid more than {what} on {1 - share:.0%} of the prompts"
            )
    return problems, doubts


def about_parts(parts: Sequence[PartReport], inverted: tuple[int, int]) -> tuple[list[str], list[str]]:
    """Problems and doubts of the parts."""
    problems, doubts = [], []
    for part in parts:
        total = part.judged + part.abstained + part.failed
        why = f": {part.reasons[0]}" if part.reasons else ""
        if part.failed:
            (problems if part.failed > 0.05 * total else doubts).append(
                f"{part.name} failed on {part.failed} of {total} responses{why}"
            )
        if part.abstained and part.name != TOTAL:
            doubts.append(f"{part.name} did not judge {part.abstained} of {total} responses{why}")
        if part.seconds is not None and part.seconds > SLOW:
            doubts.append(f"{part.name} takes {part.seconds:.0f} s a group")
    bad, pairs = inverted
    if bad:
        text = f"a wrong response is paid as much as a right sibling, or more, in {bad} of {pairs} pairs"
        (problems if bad > 0.05 * pairs else doubts).append(f"{text}: shaping outweighs correctness")
    return problems, doubts


def lesson(
    groups: int, teaching: int, mixed: int, parts: Sequence[PartReport], length: float | None
) -> tuple[str, ...]:
    """What the update would push towards."""
    if not groups:
        return ()
    lines = [f"{teaching} of {groups} groups teach something; the others have equal rewards and no advantage"]
    if teaching:
        if mixed < teaching:
            lines.append(f"in {teaching - mixed} of them all are right, all are wrong, or nobody knows: shaping alone")
        ranked = sorted((part for part in parts if part.influence is not None), key=lambda part: -(part.influence or 0))
        shares = ", ".join(f"{part.name} {part.influence:.0%}" for part in ranked)
        if shares:
            lines.append(f"who is above whom is decided by: {shares}")
        if length is not None and abs(length) >= 0.3:
            lines.append(f"{'longer' if length > 0 else 'shorter'} responses are paid more (correlation {length:+.2f})")
    return tuple(lines)


def conclude(problems: Sequence[str], doubts: Sequence[str], taught: tuple[str, ...]) -> Verdict:
    """The verdict over everything."""
    level: Level = "unsound" if problems else "watch" if doubts else "sound"
    return Verdict(level=level, problems=tuple(problems), doubts=tuple(doubts), lesson=taught)
