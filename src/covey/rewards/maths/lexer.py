"""From LaTeX, plain text or Unicode to tokens: one spelling for what is written in many ways."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from covey.rewards.maths.nodes import UnreadableError

LONGEST = 1000
"""Characters of an answer; a longer one is no answer."""


@dataclass(frozen=True, slots=True)
class Token:
    """``kind`` is number, letters, command, text or sign; ``spaced`` if something invisible stood in front of it."""

    kind: str
    text: str
    spaced: bool = False


_UNICODE = {
    "−": "-", "–": "-", "—": "-", "×": r"\times ", "·": r"\cdot ", "⋅": r"\cdot ", "∙": r"\cdot ", "÷": "/", "∕": "/",
    "⁄": "/", "√": r"\sqrt ", "∛": r"\sqrt[3]", "∞": r"\infty ", "≤": r"\le ", "≥": r"\ge ", "⩽": r"\le ",
    "⩾": r"\ge ", "≠": r"\ne ", "∪": r"\cup ", "∈": r"\in ", "±": r"\pm ", "°": r"^\circ ", "∅": r"\emptyset ",
    "≈": r"\approx ", "ℝ": r"\mathbb{R}", "′": "'", "\N{MICRO SIGN}": "u", "⟨": "(", "⟩": ")", "，": ",", "％": r"\%",
}  # fmt: skip
_GREEK_NAMES = (
    *("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu"),
    *("nu", "xi", "omicron", "pi", "rho", "varsigma", "sigma", "tau", "upsilon", "phi", "chi", "psi", "omega"),
)
_GREEK = {chr(ord("α") + i): f"\\{name} " for i, name in enumerate(_GREEK_NAMES)} | {
    sign: f"\\{name} "
    for sign, name in zip(
        "ΓΔΘΛΣΦΨΩ", ("Gamma", "Delta", "Theta", "Lambda", "Sigma", "Phi", "Psi", "Omega"), strict=True
    )
}
_RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ", "0123456789+-n")
_LOWERED = str.maketrans("₀₁₂₃₄₅₆₇₈₉₊₋ₙ", "0123456789+-n")
_INVISIBLE = re.compile(
    r"\\(?:left|right|[bB]igg?[lrm]?|displaystyle|textstyle|limits|mathstrut|hfill|quad|qquad)(?![a-zA-Z])"
    r"|(?<!\\)\\[,;:!>\s]|~"
)
_TOKEN = re.compile(
    r"""
      (?P<number>\d+\.(?=\s*\\overline)|\d+(?:\.\d+)?(?:[eE][+-]?\d+(?![\w.]))?|\.\d+)
    | (?P<text>\\(?:text(?:bf|it|rm|normal)?|mbox|math(?:rm|bf|it|sf|bb)|operatorname\*?|boldsymbol|rm|bf)
        \s*\{(?P<inner>[^{}]*)\})
    | (?P<command>\\(?:[a-zA-Z]+|[{}%$&_\#|\\]))
    | (?P<letters>[a-zA-Z]+)
    | (?P<sign>\*\*|<=|>=|!=|==|[-+*/^_=<>(){}\[\],;:!|&'%$.?])
    """,
    re.VERBOSE | re.ASCII,
)
_SIGNS = {
    "**": "^", "==": "=", "times": "*", "cdot": "*", "ast": "*", "div": "/", "le": "<=", "leq": "<=", "leqslant": "<=",
    "ge": ">=", "geq": ">=", "geqslant": ">=", "ne": "!=", "neq": "!=", "lt": "<", "gt": ">", "colon": ":",
    "lbrace": "\\{", "rbrace": "\\}", "lbrack": "[", "rbrack": "]", "langle": "(", "rangle": ")", "lvert": "|",
    "rvert": "|", "vert": "|", "mid": "|", "lparen": "(", "rparen": ")", "approx": "=", "simeq": "=", "equiv": "=",
    "%": "%", "$": "$", "\\": "\\\\", "&": "&", "to": "->", "dfrac": "frac", "tfrac": "frac", "cfrac": "frac",
    "dbinom": "binom", "tbinom": "binom", "degree": "circ", "varnothing": "emptyset", "varepsilon": "epsilon",
    "vartheta": "theta", "varphi": "phi", "infty": "oo", "Re": "re",
}  # fmt: skip
_COMMANDS = {"frac", "binom", "circ", "emptyset", "epsilon", "theta", "phi", "oo"}


def tokens_of(text: str) -> list[Token]:
    """The tokens of a text. Raises UnreadableError for a sign that no answer has, or too long a text."""
    if len(text) > LONGEST:
        raise UnreadableError(f"{len(text)} characters")
    text, found, place = _plain(text), list[Token](), 0
    spaced = False
    while place < len(text):
        if text[place].isspace():
            spaced, place = True, place + 1
            continue
        match = _TOKEN.match(text, place)
        if match is None:
            raise UnreadableError(f"{text[place]!r} is not part of an answer")
        token = _token(match, spaced)
        if token is not None:
            found.append(token)
        spaced, place = token is None, match.end()
    return found


def _plain(text: str) -> str:
    """The same text in ASCII, as LaTeX writes it."""
    text = re.sub("[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ]+", lambda m: f"^{{{m[0].translate(_RAISED)}}}", text)
    text = re.sub("[₀₁₂₃₄₅₆₇₈₉₊₋ₙ]+", lambda m: f"_{{{m[0].translate(_LOWERED)}}}", text)
    text = re.sub("[¼½¾⅐-⅞]", lambda m: " \\frac{{{}}}{{{}}}".format(*_vulgar(m[0])), text)
    for sign, plain in (*_UNICODE.items(), *_GREEK.items()):
        text = text.replace(sign, plain)
    text = unicodedata.normalize("NFKC", text)
    text = text.replace(r"\(", " ").replace(r"\)", " ").replace(r"\[", " ").replace(r"\]", " ")
    text = text.replace("{,}", ",").replace(r"\!", "")
    return _INVISIBLE.sub(" ", text)


def _vulgar(sign: str) -> tuple[str, str]:
    above, _, below = unicodedata.normalize("NFKC", sign).partition("⁄")
    return above, below


def _token(match: re.Match[str], spaced: bool) -> Token | None:
    """One token; None for a dollar sign that only marks mathematics."""
    kind = match.lastgroup or ""
    if match["text"]:
        return Token("text", match["inner"].strip(), spaced)
    text = match[0]
    if kind == "command":
        name = _SIGNS.get(text[1:], text[1:])
        if text[1:] in "{}":
            return Token("sign", text, spaced)
        command = name in _COMMANDS or text[1:] not in _SIGNS
        return Token("command" if command else "sign", name, spaced)
    if kind == "sign" and text == "$":
        return None
    return Token(kind, _SIGNS.get(text, text) if kind == "sign" else text, spaced)
