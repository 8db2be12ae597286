"""From a text to what it says as an answer: a value with its unit, a set, an interval, an equation, a word."""

from __future__ import annotations

import re
from collections.abc import Sequence

from covey.rewards.maths.lexer import Token, tokens_of
from covey.rewards.maths.nodes import (
    Answer,
    Call,
    Many,
    Matrix,
    Name,
    Node,
    Number,
    Relation,
    Union,
    UnreadableError,
    Value,
    Word,
)
from covey.rewards.maths.parser import FUNCTIONS, Parser
from covey.rewards.maths.units import ONE_LETTER, is_known

_RELATIONS = ("=", "!=", "<", ">", "<=", ">=")
_OPENING = {"(": 1, "[": 1, "{": 1, "\\{": 1, ")": -1, "]": -1, "}": -1, "\\}": -1}
_THOUSANDS = re.compile(r"(?<![\d,.])\d{1,3}(?:,\d{3})+(?![\d,])", re.ASCII)
_MATRIX = re.compile(r"\\begin\{([pbvB]?matrix|array)\}(?:\{[^{}]*\})?(.*)\\end\{\1\}", re.DOTALL)
_WORD = re.compile(r"[A-Za-z]+(?:-[A-Za-z]+)*")


def read(text: str) -> Answer:
    """What ``text`` says, all of it. Raises UnreadableError."""
    text = _bare(text).replace("{,}", ",")
    if not text:
        raise UnreadableError("there is no answer")
    if matrix := _MATRIX.fullmatch(text):
        return _matrix(matrix[2])
    if _WORD.fullmatch(text) and len(text) > 2 and text.lower() not in FUNCTIONS | {"inf": "", "infinity": ""}:
        return Word(text.lower())
    tokens = tokens_of(_THOUSANDS.sub(lambda m: m[0].replace(",", ""), text) if _is_one_number(text) else text)
    return _answer(_trimmed(tokens))


def _bare(text: str) -> str:
    """Without blanks, dollar signs and full stops around it, and without boxes and bold type."""
    text = text.strip()
    before = None
    while text != before:
        before = text
        text = text.strip().removesuffix(".").strip()
        text = re.sub(r"^\\(?:boxed|fbox|mathbf|bm|boldsymbol)\s*\{((?:[^{}]|\{[^{}]*\})*)\}$", r"\1", text)
        for around in ("$$", "$", "**", "`"):
            if len(text) > 2 * len(around) and text.startswith(around) and text.endswith(around):
                text = text[len(around) : -len(around)]
    return text


def _is_one_number(text: str) -> bool:
    """Commas part thousands only where no bracket makes them part the items of a list."""
    return not re.search(r"[(\[{]", text.replace(r"\text{", "").replace(r"\mathrm{", ""))


def _trimmed(tokens: list[Token]) -> list[Token]:
    while tokens and tokens[-1].kind == "sign" and tokens[-1].text in (".", ",", ";", "?"):
        tokens = tokens[:-1]
    return tokens


def _split(tokens: Sequence[Token], *texts: str) -> tuple[list[list[Token]], list[str]]:
    """The parts between these signs, outside of all brackets, and the signs."""
    parts, signs, depth, bars = [list[Token]()], list[str](), 0, False
    for token in tokens:
        if token.kind == "sign":
            depth += _OPENING.get(token.text, 0)
            bars ^= token.text == "|"
        plain = token.text if token.kind != "text" else token.text.lower()
        if depth == 0 and not bars and plain in texts:
            parts.append([])
            signs.append(plain)
        else:
            parts[-1].append(token)
    return parts, signs


def _answer(tokens: list[Token]) -> Answer:
    """Loosest first: alternatives, lists, relations, unions, brackets, values."""
    for word in ("or", "and"):
        parts, signs = _split(tokens, word)
        if signs:
            found = tuple(_answer(_trimmed(part)) for part in parts)
            return Union(found) if all(_is_range(item) for item in found) else Many("list", found)
    parts, signs = _split(tokens, ",", ";")
    if signs:
        return Many("list", tuple(_answer(part) for part in parts))
    parts, signs = _split(tokens, *_RELATIONS)
    if signs:
        return Relation(tuple(_side(part) for part in parts), tuple(signs))
    parts, signs = _split(tokens, "in")
    if len(signs) == 1 and len(parts[0]) == 1:
        return Relation((_side(parts[0]), _side(parts[1])), ("in",))
    return _side(tokens)


def _is_range(answer: Answer) -> bool:
    inequality = isinstance(answer, Relation) and not {"=", "in"} & set(answer.signs)
    return inequality or (isinstance(answer, Many) and bool(answer.brackets))


def _side(tokens: list[Token]) -> Answer:
    parts, signs = _split(tokens, "cup", "U")
    if signs and all(part and part[0].kind == "sign" for part in parts):
        return Union(tuple(_side(part) for part in parts))
    parts, signs = _split(tokens, "pm")
    if len(signs) == 1:
        return _plus_minus(*parts)
    return _bracketed(tokens) or _special(tokens) or _value(tokens)


def _plus_minus(before: list[Token], after: list[Token]) -> Answer:
    """Both values of ``a ± b``."""
    plus, minus = Token("sign", "+"), Token("sign", "-")
    return Many("list", tuple(_value([*before, sign, *after]) for sign in (plus, minus)))


def _special(tokens: list[Token]) -> Answer | None:
    if [t.text for t in tokens] == ["emptyset"]:
        return Many("set", ())
    if len(tokens) == 1 and tokens[0].kind == "text":
        text = tokens[0].text
        if text == "R":
            ends = Call("neg", (Name("oo"),)), Name("oo")
            return Many("tuple", tuple(Value(end) for end in ends), "()")
        if len(text) > 1:
            inside = re.fullmatch(r"\((\w)\)", text)
            return Value(Name(inside[1])) if inside else Word(" ".join(text.lower().split()))
    return None


def _bracketed(tokens: list[Token]) -> Answer | None:
    """A set, a tuple or an interval, if one pair of brackets holds everything."""
    if len(tokens) < 2 or tokens[0].kind != "sign" or tokens[-1].kind != "sign":
        return None
    opening, closing = tokens[0].text, tokens[-1].text
    if opening not in ("(", "[", "{", "\\{") or closing not in (")", "]", "}", "\\}"):
        return None
    depth = 0
    for token in tokens[:-1]:
        depth += _OPENING.get(token.text, 0) if token.kind == "sign" else 0
        if depth == 0:
            return None
    inner = tokens[1:-1]
    if opening in ("{", "\\{"):
        parts, signs = _split(inner, ",")
        if opening == "{" and inner and not signs:
            return _answer(inner)
        return Many("set", tuple(_answer(part) for part in parts) if inner else ())
    parts, signs = _split(inner, ",")
    if not signs:
        return None if opening == "(" and closing == ")" and not _is_choice(inner) else _single(inner, opening)
    items = tuple(_answer(part) for part in parts)
    if len(items) > 2 and opening + closing not in ("()", "[]"):
        raise UnreadableError("an interval has two ends")
    return Many("tuple", items, opening + closing)


def _is_choice(inner: list[Token]) -> bool:
    return len(inner) == 1 and len(inner[0].text) == 1 and inner[0].text.isalpha()


def _single(inner: list[Token], opening: str) -> Answer:
    return _answer(inner) if opening == "(" else Many("tuple", (_answer(inner),), "[]")


def _matrix(body: str) -> Matrix:
    rows = [row for row in re.split(r"\\\\(?:\[[^\]]*\])?", body) if row.strip()]
    cells = tuple(tuple(Parser(tokens_of(cell)).whole() for cell in row.split("&")) for row in rows)
    if not cells or len({len(row) for row in cells}) != 1:
        raise UnreadableError("a matrix with rows of different lengths")
    return Matrix(cells)


def _value(tokens: list[Token]) -> Value | Word:
    """An expression, and the unit in front of or behind it."""
    unit = ""
    if tokens and tokens[0].kind == "sign" and tokens[0].text == "$":
        tokens, unit = tokens[1:], "dollar"
    elif len(tokens) > 1 and tokens[0].text == "-" and tokens[1].text == "$":
        tokens, unit = [tokens[0], *tokens[2:]], "dollar"
    end = len(tokens)
    while end > 1 and _may_be_unit(tokens[:end]):
        end -= _unit_length(tokens[:end])
    if end == len(tokens):
        return Value(_expression(tokens), unit)
    return Value(_expression(tokens[:end]), _unit_name(tokens[end:]))


def _expression(tokens: list[Token]) -> Node:
    base = _other_base(tokens)
    return base if base is not None else Parser(tokens).whole()


def _other_base(tokens: list[Token]) -> Node | None:
    """Digits with their base as a subscript: ``101_2``."""
    texts = [token.text for token in tokens if token.text not in "{}"]
    if len(texts) != 3 or texts[1] != "_" or not (texts[0].isdigit() and texts[2].isdigit()):
        return None
    digits, base = texts[0], int(texts[2]) if len(texts[2]) < 3 else 0
    if not 2 <= base <= 36 or any(int(digit) >= base for digit in digits):
        raise UnreadableError(f"{digits!r} in base {texts[2]}")
    return Number(Parser([Token("number", str(int(digits, base)))]).whole().value)  # type: ignore[union-attr]


def _unit_length(tokens: list[Token]) -> int:
    """How many of the last tokens are one word of a unit, with its power."""
    if tokens[-1].text == "circ" or (len(tokens) > 1 and tokens[-2].text == "^" and tokens[-1].text in "23"):
        return 2
    if tokens[-1].text == "}" and len(tokens) > 3 and tokens[-2].text in ("circ", "2", "3"):
        return 4
    return 1


def _may_be_unit(tokens: list[Token]) -> bool:
    """Whether the last token, with its power, is a word that measures something."""
    if len(tokens) < 2:
        return False
    last = tokens[-1]
    if last.text == "%" and last.kind == "sign":
        return True
    length = _unit_length(tokens)
    if last.text == "circ":
        return tokens[-2].text == "^" and not any(token.text in FUNCTIONS for token in tokens)
    if length == 4:
        ring = tokens[-2].text == "circ" and not any(token.text in FUNCTIONS for token in tokens)
        return tokens[-4].text == "^" and (ring or (tokens[-2].text in "23" and _may_be_unit(tokens[:-4])))
    if length == 2:
        return len(tokens) > 2 and _may_be_unit(tokens[:-2])
    if last.text == "/" and last.kind == "sign":
        return len(tokens) > 1 and _may_be_unit(tokens[:-1])
    if last.kind == "text":
        word = last.text.strip(" .^23/")
        return last.text not in FUNCTIONS and (len(word) > 1 or word in ONE_LETTER or not word)
    if last.kind != "letters" or last.text in FUNCTIONS or last.text in ("pi", "inf", "infinity", "oo"):
        return False
    before = tokens[-2]
    if len(last.text) == 1:
        return last.text in ONE_LETTER and last.spaced and before.kind == "number" and before.text != "_"
    if len(last.text) == 2 and not is_known(last.text):
        return False
    return before.text not in ("^", "_", "+", "-", "*", "(")


def _unit_name(tokens: Sequence[Token]) -> str:
    plain = ["percent" if t.text == "%" else "degree" if t.text == "circ" else t.text for t in tokens]
    text = " ".join(word for word in plain if word not in ("{", "}"))
    return re.sub(r"\^ ?(degree|C|F)", r"\1", text).replace("^ ", "^").strip()
