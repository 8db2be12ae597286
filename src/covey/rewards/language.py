"""The script that a response is written in."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Literal

from covey.errors import did_you_mean
from covey.rewards.base import ResponseReward
from covey.types import Part, Prompt

SCRIPTS = frozenset((
    "latin", "cyrillic", "greek", "han", "hiragana", "katakana", "hangul", "bopomofo", "arabic", "hebrew",
    "syriac", "devanagari", "bengali", "gurmukhi", "gujarati", "oriya", "tamil", "telugu", "kannada", "malayalam",
    "sinhala", "thai", "lao", "tibetan", "myanmar", "khmer", "georgian", "armenian", "ethiopic", "mongolian",
    "cherokee",
))  # fmt: skip
"""Scripts that can be asked for; a letter of any other counts as of none of them."""
LEAST = 0.1
"""Share of a prompt's letters from which it is written in their script."""

_OTHER_NAMES = {"cjk": "han", "ideographic": "han", "katakana-hiragana": "katakana"}
_JAPANESE = frozenset(("han", "hiragana", "katakana"))
_BLOCKS = {"```": "```", "$$": "$$", r"\[": r"\]"}
_SPANS = {"`": "`", "$": "$", r"\(": r"\)"}
_COMMANDS = re.compile(r"\\[A-Za-z]+|</?[A-Za-z_][\w.-]{0,40}>", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class SameLanguage(ResponseReward):
    """The share of the reply's letters, 0 to 1, that are of the wanted ``scripts``; None for a reply without letters.

    ``scripts`` are names of :data:`SCRIPTS`, or "prompt": those that at least a tenth of the letters of the prompt's
    last message are of, and all three Japanese ones if it has kana. It tells scripts and not languages: French passes
    for English, and Japanese without kana for Chinese. Code between backticks, formulas between ``$``, ``\\(`` or
    ``\\[``, LaTeX commands and tags are left out, in prompt and reply.

    Farmed by writing what it should not see between backticks or dollar signs.
    """

    scripts: tuple[str, ...] | Literal["prompt"] = "prompt"
    name: str = "language"

    def __post_init__(self) -> None:
        if self.scripts == "prompt":
            return
        if not self.scripts or isinstance(self.scripts, str):
            raise ValueError(f'scripts is "prompt" or a list of at least one script, got {self.scripts!r}')
        for script in self.scripts:
            if script not in SCRIPTS:
                raise ValueError(f"{script!r} is no script that is known.{did_you_mean(script, SCRIPTS)}")

    def judge(self, prompt: Prompt, reply: str) -> Part:
        wanted = scripts_of(prompt.text) if self.scripts == "prompt" else frozenset(self.scripts)
        if not wanted:
            return Part(value=None, why="the prompt has no letters to tell its script by")
        counts = count_scripts(reply)
        total = counts.total()
        if not total:
            return Part(value=None, why="the reply has no letters")
        value = sum(counts[script] for script in wanted) / total
        shares = ", ".join(f"{count / total:.0%} {script}" for script, count in counts.most_common(3))
        return Part(value=value, why=shares)


def scripts_of(text: str) -> frozenset[str]:
    """The known scripts that at least a tenth of the letters are of."""
    counts = count_scripts(text)
    found = frozenset(name for name in counts if name in SCRIPTS and counts[name] >= LEAST * counts.total())
    return found | _JAPANESE if found & {"hiragana", "katakana"} else found


def count_scripts(text: str) -> Counter[str]:
    """Letters by script, without code, formulas, commands and tags; "other" for scripts that have no name here."""
    counts: Counter[str] = Counter()
    for sign, count in Counter(prose(text)).items():
        if sign.isalpha():
            counts[script_of(sign)] += count
    return counts


@lru_cache(maxsize=1 << 14)
def script_of(letter: str) -> str:
    """By the first word of its name in Unicode; full width and mathematical letters are taken for the plain ones."""
    plain = unicodedata.normalize("NFKC", letter)[0]
    word = unicodedata.name(plain, "").partition(" ")[0].lower()
    script = _OTHER_NAMES.get(word, word)
    return script if script in SCRIPTS else "other"


def prose(text: str) -> str:
    """The text without code and formulas, of which those inside a line end with it, and without commands and tags."""
    lines = (_without(line, _SPANS) for line in _without(text, _BLOCKS).splitlines())
    return _COMMANDS.sub(" ", "\n".join(lines))


@cache
def _opening(*marks: str) -> re.Pattern[str]:
    return re.compile("|".join(re.escape(mark) for mark in marks))


def _without(text: str, pairs: Mapping[str, str]) -> str:
    """The text without what stands between a mark and the one that closes it; a mark that nothing closes stays."""
    kept, place, unclosed = list[str](), 0, set[str]()
    for match in _opening(*pairs).finditer(text):
        if match.start() < place or match[0] in unclosed:
            continue
        end = text.find(pairs[match[0]], match.end())
        if end < 0:
            unclosed.add(match[0])  # nor will later ones be closed: looking again for each would take the square
            continue
        kept.append(text[place : match.start()])
        place = end + len(pairs[match[0]])
    return " ".join([*kept, text[place:]])
