"""The examples that need nothing but this package train, and what they promise is measured."""

import json
from pathlib import Path

from covey.cli.main import main

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_arithmetic_with_gates_trains_and_is_watched(tmp_path):
    run = tmp_path / "run"
    words = [f"run.dir={run}", "run.steps=2", "reward.watch_every=1", "eval.prompts=8", "sampling.prompts_per_step=8"]
    assert main(["train", str(EXAMPLES / "arithmetic_gates.toml"), *words]) == 0
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert len(lines) == 2
    for line in lines:
        assert line["reward/part/tags"] <= line["reward/part/exact_number"]  # the gate: form counts where it is right
        assert line["reward/part/wrong_repetition"] <= 0.0
        assert line["grader/refused/math"] < 0.05
        assert line["probe/form_alone"] == 0.0
        assert line["probe/above"] <= 0.5
        assert line["update/skipped"] == 0.0
