"""``covey models [get NAME]``"""

from __future__ import annotations

import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", nargs="?", choices=["list", "get"], default="list")
    parser.add_argument("name", nargs="?", help="e.g. smollm2-135m")


def run(arguments: argparse.Namespace) -> int:
    from covey.errors import ModelError
    from covey.learner.fetch import FETCHABLE, cache_folder, fetch

    if arguments.action == "get":
        if not arguments.name:
            raise ModelError(f"which model? covey models get NAME, one of: {', '.join(FETCHABLE)}")
        print(fetch(arguments.name))
        return 0
    print("tiny            built in: a small Llama that has seen some arithmetic")
    for name, entry in FETCHABLE.items():
        there = (cache_folder() / name / "config.json").is_file()
        print(f"{name:<15} {'fetched' if there else 'covey models get ' + name}: {entry.about}")
    print("Any local Hugging Face folder works as model.path, and any hub id where the hub can be reached.")
    return 0
