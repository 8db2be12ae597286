"""The last steps before a program runs, and the program's own frame. Runs inside, with everything taken away.

Of what decides whether the program is right nothing is here: inputs come one at a time, results go out as data.
"""

from __future__ import annotations

import atexit
import builtins
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
            if job["kind"] == "tests":
                check(code, space, job)
                return 0
            exec(code, space)
            answer(space)
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


def answer(space: dict[str, Any]) -> None:
    """Call the function that each question names, and answer with its value or what it raised."""
    while (question := read_frame(QUESTIONS)) is not None:
        message: dict[str, Any] = {"id": question["id"]}
        try:
            function = _found(space, question["function"])
            arguments = [unpack(value) for value in question["args"]]
            named = {name: unpack(value) for name, value in question["kwargs"].items()}
            message["value"] = pack(function(*arguments, **named))
            after = [_packed(argument) for argument in arguments]
            if after != question["args"]:
                message["args"] = after  # what the function did to its arguments
        except MemoryError:
            raise
        except Exception as error:
            message |= {"error": type(error).__name__, "text": str(error)[:200]}
        sys.stdout.flush()
        _send(message)


def _packed(argument: Any) -> Any:
    try:
        return pack(argument)
    except NotPlainError:
        return None


def _send(message: dict[str, Any]) -> None:
    data = frame(message)
    while data:
        data = data[os.write(RESULTS, data) :]


def check(setup: Any, space: dict[str, Any], job: dict[str, Any]) -> None:
    """Run tests against functions that are elsewhere: each call goes out as a message and comes back as a value.

    Tells of every test by itself whether it held. An error outside of them ends the program.
    """
    for name in job["names"]:
        space[name] = _elsewhere(name)
    exec(setup, space)
    for text in job["tests"]:
        try:
            exec(compile(text, "test.py", "exec", dont_inherit=True), space)
            _send({"held": True, "why": ""})
        except Exception as error:
            _send({"held": False, "why": f"{type(error).__name__}: {error}"[:200]})


def _elsewhere(name: str) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        named = {key: pack(value) for key, value in kwargs.items()}
        _send({"function": name, "args": [pack(argument) for argument in args], "kwargs": named})
        answer = read_frame(QUESTIONS)
        if "error" in answer:
            kind = getattr(builtins, answer["error"], RuntimeError)
            raise kind(answer["text"]) if issubclass(kind, Exception) else RuntimeError(answer["text"])
        for argument, after in zip(args, answer.get("args") or [], strict=False):
            if type(argument) in (list, bytearray) and after is not None:
                argument[:] = unpack(after)
            elif type(argument) in (dict, set) and after is not None:
                argument.clear()
                argument.update(unpack(after))
        return unpack(answer["value"])

    call.__name__ = name.rpartition(".")[2]
    return call


def _found(space: dict[str, Any], name: str) -> Any:
    """A function, or a method of a fresh object where the name is ``Class.method``."""
    owner, _, method = name.partition(".")
    if owner not in space:
        raise NameError(f"name {owner!r} is not defined")
    return getattr(space[owner](), method) if method else space[owner]
