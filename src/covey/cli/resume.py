"""``covey resume RUN_DIR``"""

from __future__ import annotations

import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run_dir", help="a run folder with a checkpoint")


def run(arguments: argparse.Namespace) -> int:
    from covey.cli.train import report
    from covey.loop.api import resume

    report(resume(arguments.run_dir).summary)
    return 0
