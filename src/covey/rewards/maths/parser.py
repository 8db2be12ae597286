"""From tokens to one expression: the whole of them or nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from covey.rewards.maths.lexer import Token
from covey.rewards.maths.nodes import Call, Name, Node, Number, UnreadableError

FUNCTIONS = {
    "sin": "sin", "cos": "cos", "tan": "tan", "sec": "sec", "csc": "csc", "cot": "cot", "arcsin": "asin",
    "arccos": "acos", "arctan": "atan", "asin": "asin", "acos": "acos", "atan": "atan", "sinh": "sinh", "cosh": "cosh",
    "tanh": "tanh", "ln": "log", "log": "log", "lg": "log", "exp": "exp", "sqrt": "sqrt", "abs": "abs",
    "floor": "floor", "ceil": "ceil", "max": "max", "min": "min", "gcd": "gcd", "lcm": "lcm", "binom": "binom",
}  # fmt: skip
"""By the names that people write."""

GREEK = frozenset({
    "alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu", "nu", "xi",
    "rho", "sigma", "tau", "upsilon", "phi", "chi", "psi", "omega", "Gamma", "Delta", "Theta", "Lambda", "Sigma",
    "Phi", "Psi", "Omega", "ell",
})  # fmt: skip
DEPTH = 30
"""Brackets within brackets; more is no answer."""

_NO_FACTORS = frozenset({"circ", "cup", "in", "pm", "rfloor", "rceil", "overline"})
_OPEN = {"(": ")", "[": "]", "{": "}", "\\{": "\\}"}


class Parser:
    """Recursive descent over tokens; ``expression`` of all of them is what they mean."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens = list(tokens)
        self.place = 0
        self.depth = 0

    def whole(self) -> Node:
        """The expression that all tokens are. Raises UnreadableError."""
        if not self.tokens:
            raise UnreadableError("nothing there")
        node = self.sum()
        if self.place < len(self.tokens):
            raise UnreadableError(f"{self.tokens[self.place].text!r} is not understood")
        return node

    # What is next

    def next(self) -> Token | None:
        return self.tokens[self.place] if self.place < len(self.tokens) else None

    def at(self, *texts: str) -> bool:
        token = self.next()
        return token is not None and token.kind == "sign" and token.text in texts

    def take(self) -> Token:
        token = self.next()
        if token is None:
            raise UnreadableError("it ends too early")
        self.place += 1
        return token

    def expect(self, text: str) -> None:
        if not self.at(text):
            raise UnreadableError(f"{text!r} is missing")
        self.place += 1

    # From loose to tight

    def sum(self) -> Node:
        node = self.product()
        while self.at("+", "-"):
            minus = self.take().text == "-"
            right = self.product()
            node = Call("sub" if minus else "add", (node, right))
        return node

    def product(self) -> Node:
        node = self.signed()
        while True:
            if self.at("*"):
                self.take()
                node = Call("mul", (node, self.signed()))
            elif self.at("/"):
                self.take()
                node = Call("div", (node, self.signed()))
            elif self.starts_factor():
                node = self.beside(node)
            else:
                return node

    def beside(self, left: Node) -> Node:
        """A product without a sign; a fraction behind a whole number makes it a mixed one."""
        start = self.place
        right = self.power()
        mixed = isinstance(left, Number) and left.value.denominator == 1 and self._is_proper(right, start)
        if not mixed and isinstance(right, Number) and self.tokens[start].kind == "number":
            raise UnreadableError("two numbers side by side")
        return Call("add" if mixed else "mul", (left, right))

    def _is_proper(self, node: Node, start: int) -> bool:
        first = self.tokens[start]
        if (first.kind, first.text) != ("command", "frac") or not isinstance(node, Call) or node.name != "div":
            return False
        above, below = node.args
        return isinstance(above, Number) and isinstance(below, Number) and 0 < above.value < below.value

    def signed(self) -> Node:
        if self.at("-"):
            self.take()
            return Call("neg", (self.signed(),))
        if self.at("+"):
            self.take()
            return self.signed()
        return self.power()

    def power(self) -> Node:
        node = self.postfix()
        if self.at("^"):
            self.take()
            if self.degrees():
                return Call("mul", (node, Call("div", (Name("pi"), Number(Fraction(180))))))
            return Call("pow", (node, self.exponent()))
        return node

    def degrees(self) -> bool:
        """Take the ring of ``30^\\circ``, if that is what comes."""
        for marks in (["circ"], ["{", "circ", "}"]):
            if [token.text for token in self.tokens[self.place : self.place + len(marks)]] == marks:
                self.place += len(marks)
                return True
        return False

    def exponent(self) -> Node:
        if self.at("-"):
            self.take()
            return Call("neg", (self.exponent(),))
        if self.at("+"):
            self.take()
        node = self.postfix()
        if self.at("^"):  # 2^3^2 is 2^9
            self.take()
            return Call("pow", (node, self.exponent()))
        return node

    def postfix(self) -> Node:
        node = self.atom()
        while self.at("!"):
            self.take()
            node = Call("factorial", (node,))
        return node

    def starts_factor(self) -> bool:
        token = self.next()
        if token is None:
            return False
        if token.kind == "sign":
            return token.text in ("(", "[", "{")
        return not (token.kind == "command" and token.text in _NO_FACTORS)

    # The tightest

    def atom(self) -> Node:
        token = self.take()
        if token.kind == "number":
            again = self.next()
            if again is not None and (again.kind, again.text) == ("command", "overline"):
                return self.repeating(token.text)
            return Number(_rational(token.text))
        if token.kind == "letters":
            return self.letters(token)
        if token.kind == "text":
            return self.text(token)
        if token.kind == "command":
            return self.command(token.text)
        if token.text in ("(", "[", "{"):
            return self.group(token.text)
        if token.text == "|":
            node = self.nested(self.sum)
            self.expect("|")
            return Call("abs", (node,))
        raise UnreadableError(f"{token.text!r} is not understood")

    def repeating(self, begin: str) -> Node:
        """A decimal whose last digits go on for ever: ``0.1\\overline{6}``."""
        self.take()
        node = self.group(self.take().text) if self.at("{") else self.atom()
        digits = self.tokens[self.place - 2].text
        if "." not in begin or not isinstance(node, Number) or not digits.isdigit():
            raise UnreadableError("an overline that is not over decimals")
        before = len(begin.partition(".")[2])
        tail = Fraction(int(digits), 10**before * (10 ** len(digits) - 1))
        return Number(_rational(begin) + tail)

    def nested(self, parse: Callable[[], Node]) -> Node:
        self.depth += 1
        if self.depth > DEPTH:
            raise UnreadableError(f"more than {DEPTH} brackets within each other")
        node = parse()
        self.depth -= 1
        return node

    def group(self, opened: str) -> Node:
        node = self.nested(self.sum)
        self.expect(_OPEN[opened])
        return node

    def letters(self, token: Token) -> Node:
        """A function, a constant, a variable, or two variables side by side."""
        text = token.text
        if text in FUNCTIONS:
            return self.function(FUNCTIONS[text])
        if text in ("pi", "oo", "inf", "infinity"):
            return Name("pi" if text == "pi" else "oo")
        if len(text) > 2:
            raise UnreadableError(f"{text!r} is a word")
        if len(text) == 2:  # the second goes on: it may have a power of its own
            self.place -= 1
            self.tokens[self.place : self.place + 1] = [Token("letters", text[0]), Token("letters", text[1])]
            self.place += 1
        return self.variable(text[0])

    def text(self, token: Token) -> Node:
        """Upright letters: ``\\mathrm{e}`` and named functions; other text is no part of an expression."""
        if token.text in FUNCTIONS:
            return self.function(FUNCTIONS[token.text])
        if len(token.text) == 1 and token.text.isascii() and token.text.isalpha():
            return self.variable(token.text)
        raise UnreadableError(f"text {token.text!r}")

    def variable(self, name: str) -> Node:
        """With its subscript, which is part of the name."""
        if self.at("_"):
            self.take()
            inner = self.subscript()
            return Name(f"{name}_{inner}")
        return Name(name)

    def subscript(self) -> str:
        if not self.at("{"):
            return self.take().text
        self.take()
        found = []
        while not self.at("}"):
            found.append(self.take().text)
        self.take()
        return "".join(found)

    def command(self, name: str) -> Node:
        if name == "frac":
            above, below = self.argument(), self.argument()
            return Call("div", (above, below))
        if name == "binom":
            return Call("binom", (self.argument(), self.argument()))
        if name == "sqrt":
            return self.root()
        if name in ("pi", "oo"):
            return Name(name)
        if name in FUNCTIONS:
            return self.function(FUNCTIONS[name])
        if name in ("lfloor", "lceil"):
            node = self.nested(self.sum)
            closing = self.take()
            if (closing.kind, closing.text) != ("command", "r" + name[1:]):
                raise UnreadableError(f"\\r{name[1:]} is missing")
            return Call("floor" if name == "lfloor" else "ceil", (node,))
        if name in GREEK:
            return self.variable(name)
        raise UnreadableError(f"\\{name} is not understood")

    def root(self) -> Node:
        degree: Node | None = None
        if self.at("["):
            self.take()
            degree = self.nested(self.sum)
            self.expect("]")
        inner = self.argument()
        return Call("sqrt", (inner,)) if degree is None else Call("root", (inner, degree))

    def argument(self) -> Node:
        """What a LaTeX command takes: a group, or one digit, letter or command."""
        token = self.next()
        if token is None:
            raise UnreadableError("it ends too early")
        if token.kind == "number" and len(token.text) > 1 and token.text.isdigit():
            self.tokens[self.place : self.place + 1] = [
                Token("number", token.text[0], token.spaced),
                Token("number", token.text[1:]),
            ]
        if token.kind == "letters" and len(token.text) > 1:
            first, rest = Token("letters", token.text[0], token.spaced), Token("letters", token.text[1:])
            self.tokens[self.place : self.place + 1] = [first, rest]
        return self.atom()

    def function(self, name: str) -> Node:
        """A function with its power, base and argument: ``sin^2 x``, ``log_2 8``, ``sqrt(2)``, ``max(1, 2)``."""
        if name == "sqrt":
            return self.root()
        power = base = None
        while self.at("^", "_"):
            if self.take().text == "^":
                power = self.exponent()
            else:
                base = self.argument()
        arguments = self.arguments()
        if base is not None:
            if name != "log" or len(arguments) != 1:
                raise UnreadableError(f"{name} with a subscript")
            arguments = (*arguments, base)
        if name in ("sin", "cos", "tan") and power == Call("neg", (Number(Fraction(1)),)):
            name, power = "a" + name, None
        node = Call(name, arguments)
        return node if power is None else Call("pow", (node, power))

    def arguments(self) -> tuple[Node, ...]:
        if self.at("("):
            self.take()
            found = [self.nested(self.sum)]
            while self.at(","):
                self.take()
                found.append(self.nested(self.sum))
            self.expect(")")
            return tuple(found)
        node = self.signed()
        while self.starts_factor() and not self.at("(", "[", "{") and not self._starts_function():
            node = Call("mul", (node, self.power()))
        return (node,)

    def _starts_function(self) -> bool:
        token = self.next()
        return token is not None and token.text in FUNCTIONS


def _rational(text: str) -> Fraction:
    mantissa, _, exponent = text.lower().partition("e")
    if len(exponent) > 4:
        raise UnreadableError("an exponent of more than three digits")
    return Fraction(mantissa.rstrip(".") if mantissa.endswith(".") else mantissa) * Fraction(10) ** int(exponent or 0)
