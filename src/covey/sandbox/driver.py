"""The last steps before a program runs, and the program's own frame. Runs inside, with everything taken away.

Of what decides whether the program is right nothing is here: inputs come one at a time, results go out as data.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import traceback
from typing import Any

from covey.sandbox.frames import NotPlainError, frame, pack, read_frame, unpack

RESULTS, QUESTIONS = 3, 4
"""File handles, beside the usual three."""

MEMORY = 77
"""Exit code of a program that ran out of memory."""


def run(job: dict[str, Any]) -> int:
    """Run the job's source and return the exit code."""
    sys.set_int_max_str_digits(0)
    sys.setrecursionlimit(20_000)
    sys.argv = ["program"]
    try:
        code = compile(job["source"], "program.py", "exec", dont_inherit=True)
        space: dict[str, Any] = {"__name__": "__main__" if job["kind"] == "program" else "program"}
        if job["kind"] == "program":
            os.close(RESULTS)
            os.close(QUESTIONS)
            exec(code, space)
        else:
            exec(code, space)
            answer(space, job["names"])
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except MemoryError:
        return MEMORY
    except BaseException:
        with contextlib.suppress(BaseException):
            traceback.print_exc(limit=-5)
        return 1
    finally:
        with contextlib.suppress(BaseException):
            atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(BaseException):
                stream.flush()
    return 0


def answer(space: dict[str, Any], names: dict[str, str]) -> None:
    """Call the function that each question names, and answer with its value or what it raised."""
    while (question := read_frame(QUESTIONS)) is not None:
        try:
            function = _found(space, question["function"])
            arguments = [unpack(value) for value in question["args"]]
            named = {name: unpack(value) for name, value in question["kwargs"].items()}
            message = {"id": question["id"], "value": pack(function(*arguments, **named))}
        except NotPlainError as error:
            message = {"id": question["id"], "error": "NotPlainError", "text": str(error)[:200]}
        except MemoryError:
            raise
        except Exception as error:
            message = {"id": question["id"], "error": type(error).__name__, "text": str(error)[:200]}
        sys.stdout.flush()
        data = frame(message)
        while data:
            data = data[os.write(RESULTS, data) :]


def _found(space: dict[str, Any], name: str) -> Any:
    """A function, or a method of a fresh object where the name is ``Class.method``."""
    owner, _, method = name.partition(".")
    if owner not in space:
        raise NameError(f"name {owner!r} is not defined")
    return getattr(space[owner](), method) if method else space[owner]
