"""Made-up replies and what they are paid: right and wrong answers, and probes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from covey.rewards.audit.frames import Frame, frames_of, right_answer, wrong_answer
from covey.rewards.audit.probes import ABOUT, answers_of, is_right, probes_of
from covey.rewards.base import ScoreContext
from covey.rewards.score import Scorer
from covey.types import Group, Prompt, Score, Trajectory

Maker = Callable[[Prompt, int, str], Trajectory]
"""``make(prompt, sample, text)`` is a response of that text that nobody sampled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Discrimination:
    """Whether right answers are told from wrong ones. Shares are over prompts for which both could be made and judged.

    A frame of None: in no known form is any right answer paid as right, so nothing can be said.
    """

    frame: str | None
    right: float | None  # mean total of right answers
    judged_right: float | None  # share of right answers that count as correct
    beats_wrong: float | None  # right answer above a near miss
    beats_other: float | None  # right answer above another prompt's
    beats_mention: float | None  # right answer above a near miss whose text mentions the right one
    beats_both: float | None  # right answer above giving it together with a near miss
    exceptions: tuple[str, ...]  # prompts where it is not so


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """What a reply that solves nothing is paid."""

    name: str
    about: str
    prompts: int  # tried on
    paid: float | None  # mean total
    most: float | None  # the largest total
    correct: float | None  # share that counts as correct where it is not
    above: float | None  # share of prompts where it is above the mean of the sampled siblings
    failed: int  # of them, the reward broke on


async def scored_texts(
    prompts: Sequence[Prompt], texts: Sequence[Sequence[str]], scorer: Scorer, make: Maker
) -> list[tuple[Score, ...]]:
    """One group a prompt, of these replies; scored as siblings."""
    groups = [
        Group(prompt=prompt, members=tuple(make(prompt, i, text) for i, text in enumerate(replies)))
        for prompt, replies in zip(prompts, texts, strict=True)
    ]
    return [group.scores for group in await scorer(groups, ScoreContext(evaluating=True))]


async def best_frame(prompts: Sequence[Prompt], scorer: Scorer, make: Maker) -> tuple[Frame, bool]:
    """The form in which right answers are paid most, and whether any counts as correct in it."""
    known = [prompt for prompt in prompts if right_answer(prompt) is not None]
    frames = frames_of(scorer.rewards)
    if not known:
        return frames[0], False
    texts = [[frame.around(right_answer(prompt) or "") for frame in frames] for prompt in known]
    scores = await scored_texts(known, texts, scorer, make)

    def worth(i: int) -> tuple[float, float]:
        correct = float(np.mean([bool(row[i].correct) for row in scores]))
        paid = _mean([total for row in scores if (total := row[i].total) is not None])
        return correct, -np.inf if paid is None else paid

    best = max(range(len(frames)), key=worth)
    return frames[best], worth(best)[0] > 0


async def discriminate(
    prompts: Sequence[Prompt], frame: Frame, found: bool, scorer: Scorer, make: Maker
) -> Discrimination:
    """Pay right answers, near misses and other prompts' answers in this form."""
    known = [prompt for prompt in prompts if right_answer(prompt) is not None] if found else []
    answers = [right_answer(prompt) or "" for prompt in known]
    others = [next((a for a in answers[i:] + answers[:i] if a != answer), None) for i, answer in enumerate(answers)]
    texts = [_replies(frame, answer, other) for answer, other in zip(answers, others, strict=True)]
    scores = await scored_texts(known, [[text or "" for text in row] for row in texts], scorer, make)
    beats: dict[int, list[bool]] = {1: [], 2: [], 3: [], 4: []}
    exceptions = []
    for prompt, row, score in zip(known, texts, scores, strict=True):
        for place, results in beats.items():
            right, other = score[0].total, score[place].total
            if row[place] is None or right is None or other is None:
                continue
            results.append(right > other)
            if not results[-1]:
                exceptions.append(f"{prompt.uid}: {row[0]!r:.60} is paid {right:g}, {row[place]!r:.60} {other:g}")
    totals = [total for score in scores if (total := score[0].total) is not None]
    return Discrimination(
        frame=frame.name if found else None,
        right=_mean(totals),
        judged_right=_mean([bool(score[0].correct) for score in scores if score[0].correct is not None]),
        beats_wrong=_mean(beats[1]),
        beats_other=_mean(beats[2]),
        beats_mention=_mean(beats[3]),
        beats_both=_mean(beats[4]),
        exceptions=tuple(exceptions[:5]),
    )


def _replies(frame: Frame, right: str, other: str | None) -> list[str | None]:
    """Right, near miss, another's, the right one only mentioned, both given; None for what cannot be made."""
    wrong = wrong_answer(right)
    one_line = wrong is not None and "\n" not in right  # programs are not given side by side
    return [
        frame.around(right),
        None if wrong is None else frame.around(wrong),
        None if other is None else frame.around(other),
        f"At first I thought it is {right}.\n{frame.around(wrong or '')}" if one_line else None,
        frame.around(f"{right} or {wrong}") if one_line else None,
    ]


async def try_probes(
    prompts: Sequence[Prompt],
    frame: Frame,
    limit: int,
    scorer: Scorer,
    make: Maker,
    sampled: Mapping[str, float],
) -> list[Probe]:
    """Every probe on every prompt. ``sampled``: by prompt uid, the mean total of the responses that were sampled."""
    answers = answers_of(prompts)
    replies = [probes_of(prompt, frame, answers, limit) for prompt in prompts]
    scores = await scored_texts(prompts, [list(row.values()) for row in replies], scorer, make)
    named = [dict(zip(row, found, strict=True)) for row, found in zip(replies, scores, strict=True)]
    probes = []
    for name in [name for name in ABOUT if any(name in row for row in named)]:
        rows = [(prompt, row[name]) for prompt, row in zip(prompts, named, strict=True) if name in row]
        totals = [(prompt, score.total) for prompt, score in rows if score.total is not None]
        verdicts = [score.correct for p, score in rows if not is_right(name, p, answers) and score.total is not None]
        probes.append(
            Probe(
                name=name,
                about=ABOUT[name],
                prompts=len(rows),
                paid=_mean([total for _, total in totals]),
                most=max((total for _, total in totals), default=None),
                correct=_mean([bool(verdict) for verdict in verdicts]),
                above=_mean([total > sampled[prompt.uid] for prompt, total in totals if prompt.uid in sampled]),
                failed=sum(score.error is not None for _, score in rows),
            )
        )
    return probes


def _mean(values: Sequence[float | bool]) -> float | None:
    return float(np.mean(values)) if len(values) else None
