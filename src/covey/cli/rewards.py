"""``covey rewards check RUN.toml``: what this reward pays for, before a run is paid for."""

from __future__ import annotations

import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", choices=["check"], help="put the reward of a run file to the test")
    parser.add_argument("target", help="run file, or run folder (its trained model is asked)")
    parser.add_argument("overrides", nargs="*", metavar="section.key=value", help="e.g. sampling.group_size=4")
    parser.add_argument("--model", help="the model to sample from, in place of the run file's")
    parser.add_argument("-n", type=int, default=32, help="prompts to ask, a group each (default 32)")
    parser.add_argument("--responses", metavar="FILE", help='JSON lines {"prompt": ..., "responses": [...]}; no model')
    parser.add_argument("--json", action="store_true", help="one JSON object instead of tables")
    parser.add_argument("--html", metavar="FILE", help="write a page with the same tables too")


def run(arguments: argparse.Namespace) -> int:
    """0 if the reward can be trained on, 1 if it should not be."""
    import asyncio
    import json
    from pathlib import Path

    from covey.cli.target import config_of
    from covey.errors import ConfigError

    if arguments.n < 1:
        raise ConfigError(f"rewards check: -n is {arguments.n}, expected at least 1")
    if arguments.responses is not None and not Path(arguments.responses).is_file():
        raise ConfigError(f"rewards check: there is no file {arguments.responses!r}")
    model = [] if arguments.model is None else [f"model.path={json.dumps(arguments.model)}"]
    config = config_of(arguments.target, [*arguments.overrides, *model])

    from covey.loop.audit import audit_reward
    from covey.observe.audit_page import page, tables

    responses = None if arguments.responses is None else Path(arguments.responses)
    found, note = asyncio.run(audit_reward(config, arguments.n, responses))
    if arguments.html:
        Path(arguments.html).write_text(page(found, arguments.target), encoding="utf-8")
    if arguments.json:
        print(json.dumps(found.to_json(), ensure_ascii=False))
    else:
        from rich.console import Console

        console = Console(soft_wrap=False)
        for item in tables(found):
            console.print(item)
        if note:
            console.print(note)
    return 1 if found.verdict.level == "unsound" else 0
