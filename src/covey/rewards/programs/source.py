"""The program inside a response."""

from __future__ import annotations

import ast
import re

_BLOCK = re.compile(r"^[ \t]*```[ \t]*([\w+#-]*)[^\n]*\n(.*?)^[ \t]*```", re.DOTALL | re.MULTILINE)
_NAMES = {
    "python": {"python", "python3", "py", ""},
    "javascript": {"javascript", "js", ""},
    "cpp": {"cpp", "c++", "cc", ""},
}


def program_in(reply: str, language: str = "python") -> str | None:
    """The last closed code block of the language, or without one; None if there is none."""
    wanted = _NAMES.get(language, {language, ""})
    blocks = [(name.lower(), code) for name, code in _BLOCK.findall(reply)]
    named = [code for name, code in blocks if name in wanted - {""}]
    plain = [code for name, code in blocks if name in wanted]
    found = named or plain
    return found[-1] if found else None


def defined(source: str) -> set[str]:
    """Names that a Python program defines at the top; empty if it does not parse."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    found = set[str]()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
    return found


def used(source: str) -> set[str]:
    """Names that occur in a Python text; empty if it does not parse."""
    try:
        return {node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)}
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
