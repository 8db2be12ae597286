"""``covey demo``: the tiny model inside the package learns two-digit multiplication."""

from __future__ import annotations

import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("overrides", nargs="*", metavar="section.key=value", help="e.g. run.seed=1 run.steps=20")
    parser.add_argument("--print", action="store_true", dest="show", help="print the run file and stop")


def run(arguments: argparse.Namespace) -> int:
    from importlib.resources import as_file, files

    from covey.config import load_config

    source = files("covey.recipes") / "demo.toml"
    if arguments.show:
        print(source.read_text(encoding="utf-8"), end="")
        return 0
    with as_file(source) as path:
        config = load_config(path, arguments.overrides)

    from covey.cli.train import report
    from covey.loop.api import start

    report(start(config).summary)
    return 0
