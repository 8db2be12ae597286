"""How long it takes to judge answers in mathematics, some of which are made to hang a grader.

    python benches/maths.py [--answers 256] [--hostile 0.02] [--repeats 3] [--workers 2] [--json]

The answers are those of groups of eight: written in several ways, right and wrong. Hostile ones are towers of powers,
factorials of factorials, deep nesting and very long numbers, different ones each time, so that none is known already.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import time

from covey.rewards import MathAnswer, ScoreContext
from covey.testing.samples import make_prompt, make_trajectory
from covey.types import Group

GOLDS = (r"\frac{3}{4}", "42", r"x^2+2x+1", r"\sqrt{2}", r"(0,1]", r"\{1,2,3\}", "12.5", r"\frac{\pi}{6}")
WAYS = {
    r"\frac{3}{4}": ("0.75", "3/4", r"\dfrac{6}{8}", "0.74"),
    "42": ("42", "42.0", "41", r"6\cdot 7"),
    r"x^2+2x+1": ("(x+1)^2", "x^2+2x+1", "(x-1)^2", "1+2x+x^2"),
    r"\sqrt{2}": (r"2^{1/2}", r"\frac{2}{\sqrt{2}}", "1.41", r"\sqrt{3}"),
    r"(0,1]": ("(0,1]", "0<x\\le 1", "[0,1]", "(0,1)"),
    r"\{1,2,3\}": ("1,2,3", r"\{3,2,1\}", r"\{1,2\}", "1, 3, 2"),
    "12.5": (r"\frac{25}{2}", "12.5", "12.50", "25"),
    r"\frac{\pi}{6}": (r"30^\circ", r"\pi/6", r"\frac{\pi}{3}", r"\frac{2\pi}{12}"),
}


def hostile(draw: random.Random) -> str:
    """Something that hangs or breaks a careless grader."""
    a, b = draw.randint(5, 9), draw.randint(10**6, 10**9)
    return draw.choice([
        rf"\frac{{{a}^{{({a}^{{({a}^{{({a}^{a})}}-{draw.randint(1, 99)})}}-5)}}}}{{16}}",
        f"({b}!)!",
        "(" * 400 + str(b) + ")" * 400,
        f"{b}" * 5000,
        rf"\sum_{{k=1}}^{{{b}}} \sin(k^{{{a}}})",
        f"(a+b+c+d+e+f)^{{{draw.randint(60, 99)}}}",
    ])  # fmt: skip


def groups_of(count: int, share: float, draw: random.Random) -> list[Group]:
    """Groups of eight answers; so large a share of all is hostile."""
    bad = set(draw.sample(range(count), round(share * count)))
    groups = []
    for start in range(0, count, 8):
        gold = draw.choice(GOLDS)
        texts = [hostile(draw) if i in bad else draw.choice(WAYS[gold]) for i in range(start, min(count, start + 8))]
        members = tuple(make_trajectory(f"p{start}", i, reply=rf"So \boxed{{{t}}}.") for i, t in enumerate(texts))
        groups.append(Group(prompt=make_prompt(f"p{start}", "?", gold), members=members))
    return groups


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--answers", type=int, default=256)
    parser.add_argument("--hostile", type=float, default=0.02, help="share of the answers")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json", action="store_true", help="one object a line")
    args = parser.parse_args()
    for repeat in range(args.repeats):
        reward = MathAnswer(workers=args.workers)
        groups = groups_of(args.answers, args.hostile, random.Random(repeat))

        async def judged(reward: MathAnswer = reward, groups: list[Group] = groups) -> list[float | None]:
            columns = await asyncio.gather(*(reward.score_group(group, ScoreContext()) for group in groups))
            return [part.value for column in columns for part in column]

        began = time.perf_counter()
        values = asyncio.run(judged())
        row = {
            "answers": len(values),
            "hostile": round(args.hostile * args.answers),
            "seconds": time.perf_counter() - began,
            "right": sum(value or 0.0 for value in values),
            "unjudged": sum(value is None for value in values),
        }
        text = ", ".join(f"{name} {value:.4g}" for name, value in row.items())
        print(json.dumps(row) if args.json else text, flush=True)


if __name__ == "__main__":
    main()
