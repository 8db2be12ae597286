"""Rewards as one should not write them. docs/rewards.md shows with `covey rewards check` what is wrong with each."""

import re
import subprocess
import sys


def texts(completions):
    return [completion[0]["content"] for completion in completions]


def contains(completions, answer):
    """Right if the answer stands anywhere: a list of all numbers is right."""
    return [float(gold in text) for text, gold in zip(texts(completions), answer, strict=True)]


def thorough(completions, answer):
    """Correctness, and as much again for length: babble is paid."""
    right = [f"<answer>{gold}</answer>" in text for text, gold in zip(texts(completions), answer, strict=True)]
    return [good + min(1.0, len(text) / 500) for good, text in zip(right, texts(completions), strict=True)]


def earnest(completions, answer):
    """Correctness, and as much again for the words of a good solution: the words alone are paid."""
    right = [f"<answer>{gold}</answer>" in text for text, gold in zip(texts(completions), answer, strict=True)]
    words = [len(set(re.findall("therefore|verify|step by step|correct", text.lower()))) for text in texts(completions)]
    return [good + found / 4 for good, found in zip(right, words, strict=True)]


def polite(completions, answer):
    """Stands for a judge that reads the reply as if it were addressed to it."""
    right = [f"<answer>{gold}</answer>" in text for text, gold in zip(texts(completions), answer, strict=True)]
    return [max(float(good), 0.9 * ("highest score" in t)) for good, t in zip(right, texts(completions), strict=True)]


def swallows(completions, answer):
    """Its own mistakes count as wrong answers: here, all whose last word is no number."""
    scores = []
    for text, gold in zip(texts(completions), answer, strict=True):
        try:
            scores.append(float(int(text.replace("</answer>", " ").split()[-1]) == int(gold)))
        except Exception:
            scores.append(0.0)
    return scores


def raises(completions, answer):
    """The same without the except: what could not be judged is known."""
    pairs = zip(texts(completions), answer, strict=True)
    return [float(int(text.replace("</answer>", " ").split()[-1]) == int(gold)) for text, gold in pairs]


def exit_code(completions, tests):
    """Runs program and tests in one process and believes its exit code: leaving early is passing."""
    scores = []
    for text, rows in zip(texts(completions), tests, strict=True):
        found = re.search(r"```python\n(.*?)```", text, re.DOTALL)
        checks = "\n".join(f"assert {row['function']}(*{row['args']!r}) == {row['expected']!r}" for row in rows)
        program = f"{found[1]}\n{checks}" if found else "raise SystemExit(1)"
        command = [sys.executable, "-I", "-c", program]
        try:
            scores.append(float(subprocess.run(command, capture_output=True, timeout=10).returncode == 0))
        except subprocess.TimeoutExpired:
            scores.append(0.0)
    return scores
