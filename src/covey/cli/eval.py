"""``covey eval TARGET [section.key=value ...]``"""

from __future__ import annotations

import argparse
import json
import sys


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", help="run folder, run file, or model (folder, hub id, fetched name, tiny)")
    parser.add_argument("overrides", nargs="*", metavar="section.key=value", help="e.g. eval.prompts=500")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")


def run(arguments: argparse.Namespace) -> int:
    from covey.cli.target import config_of
    from covey.errors import ConfigError

    config = config_of(arguments.target, arguments.overrides)

    import asyncio

    from covey.loop.build import build_bench
    from covey.loop.evaluate import evaluate
    from covey.loop.lockstep import train_sampling

    bench = build_bench(config)
    if not bench.eval_prompts:
        raise ConfigError("there are no held-out prompts: set eval.prompts, and prompts.eval_source or prompts.holdout")
    for note in bench.notes:
        print(note, file=sys.stderr)
    evaluation = asyncio.run(
        evaluate(
            bench.eval_prompts,
            bench.engine,
            bench.chat,
            bench.scorer,
            config.eval,
            train_sampling(config),
            seed=config.run.seed,
            step=0,
            max_failed=config.reward.max_failed,
        )
    )
    if arguments.json:
        print(json.dumps(evaluation.to_json(), ensure_ascii=False))
        return 0

    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, padding=(0, 2), header_style="dim")
    table.add_column(config.model.path)
    table.add_column("95 % interval")
    if evaluation.greedy:
        table.add_row("greedy", str(evaluation.greedy))
    for k, estimate in evaluation.pass_at.items():
        table.add_row(f"pass@{k}", str(estimate))
    table.add_row("problems × samples", f"{evaluation.problems} × {evaluation.samples}")
    table.add_row("mean length", f"{evaluation.mean_length:.1f} tokens")
    table.add_row("unjudged responses", str(evaluation.unjudged))
    Console().print(table)
    return 0
