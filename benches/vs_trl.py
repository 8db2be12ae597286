"""A whole GRPO step, and a whole small run, beside Hugging Face TRL's GRPOTrainer, in one command.

    python benches/vs_trl.py [--workload short prefix long learn] [--repeats 3] [--steps N] [--model smollm2-135m]
                             [--micro 8,32] [--tokens-per-microbatch 2048] [--max-new N] [--json] [--trl-python PATH]

Both sides get the same model folder, prompts in the same order (the token ids are compared), group size, prompts a
step, learning rates, seeds, temperature 1, float32, no KL term, and all cores. Sampling differs, so tokens differ: see
the time per token. Runs take turns, each in a fresh process. TRL gets the fastest micro-batch of ``--micro``, each
tried once. The first run makes an environment for TRL in the user's cache folder.

Step workloads, SmolLM2-135M, reasoning-gym's chain_sum, reward 1 if the answer is in the reply:
    short    4 prompts x 8 responses of at most 64 tokens
    prefix   the same with eight solved examples before each question
    long     2 prompts x 8 responses of at most 512 tokens, asked for in a few words or many: lengths differ
A step lasts from the end of the one before to its own end: sampling, rewards, training, logging. Numbers of a run are
medians over its steps without the first; ``tokens`` are sampled ones, ``signal`` is the share of groups whose rewards
differ. States are 16 bytes a parameter: float32 weights, gradients and Adam's two moments. ``above states`` is peak
resident memory less states: interpreter, libraries, caches, activations. ``above loaded`` takes off what was resident
after loading the model, and 12 bytes a parameter; neither is given where no group had a signal and Covey trained
nothing. ``covey_all`` is Covey training groups without signal too.

``learn``: the settings of ``covey demo`` and its tiny model on both sides, until 90 % of 500 held-out problems are
right when answered greedily. Every ``--every`` steps the weights are saved and evaluated by Covey's code, for both
sides alike; neither is counted. Seconds and tokens are those of the steps up to the first evaluation at 90 %.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from environments import trl_python
from side import Job
from workloads import STEP_WORKLOADS, TRAIN_SILENT, WORKLOADS, count_parameters, make_job, model_folder

HERE = Path(__file__).parent
MIB = 1024 * 1024
GOAL = 0.9
SYSTEMS = ("covey", "trl", "covey_all")
Row = dict[str, Any]
Answer = Callable[[dict[str, Any]], bool]


class SideError(Exception):
    """A side ended without a result; ``memory`` if it ran out of it."""

    def __init__(self, text: str, memory: bool) -> None:
        super().__init__(text)
        self.memory = memory


def run_side(script: str, python: Path, job: Job, answer: Answer = lambda shown: True) -> Row:
    """Run a side in a fresh process and return its result; ``answer`` says whether it shall go on.

    Raises SideError.
    """
    offline = {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "TRANSFORMERS_VERBOSITY": "error"}
    paths = os.pathsep.join([str(HERE.parent / "src"), *filter(None, [os.environ.get("PYTHONPATH")])])
    with tempfile.TemporaryDirectory() as scratch:
        file, log = Path(scratch) / "job.json", Path(scratch) / "log"
        file.write_text(json.dumps(job), encoding="utf-8")
        with log.open("w") as errors:
            process = subprocess.Popen(
                [str(python), str(HERE / script), str(file)], env={**os.environ, **offline, "PYTHONPATH": paths},
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
            )  # fmt: skip
            result = _talk(process, answer)
        if result is None:
            tail = log.read_text(errors="replace")[-3000:]
            memory = process.returncode == -9 or "MemoryError" in tail or "allocate memory" in tail
            raise SideError(f"{script} ended with {process.returncode}:\n{tail}", memory)
    asked = [prompt for step in result["steps"] for prompt in step["prompts"]]
    return {**result, "asked": asked}


def _talk(process: subprocess.Popen[str], answer: Answer) -> Row | None:
    """Answer a side's questions until its result comes; None if it dies first."""
    result = None
    assert process.stdin is not None
    assert process.stdout is not None
    with process:
        for line in process.stdout:
            message = json.loads(line)
            if "result" in message:
                result = message["result"]
            else:
                process.stdin.write("go\n" if answer(message) else "stop\n")
                process.stdin.flush()
    return result if process.returncode == 0 else None


def best_micro(job: Job, sizes: Sequence[int], python: Path, show: Callable[[Row], None]) -> int:
    """The micro-batch with which TRL's second step is fastest; one that runs out of memory is passed over."""
    sampling = job["config"]["sampling"]
    responses = sampling["prompts_per_step"] * sampling["group_size"]
    fitting = sorted(
        {size for size in sizes if responses % size == 0} | ({responses} if max(sizes) > responses else set())
    )
    if not fitting:
        raise SystemExit(f"none of --micro {sizes} divides the step's {responses} responses")
    if len(fitting) == 1:
        return fitting[0]
    short = {**job, "every": 0, "config": {**job["config"], "run": {**job["config"]["run"], "steps": 2}}}
    found: dict[int, float] = {}
    for size in fitting:
        row: Row = {"kind": "trial", "workload": job["workload"], "system": "trl", "micro": size}
        try:
            result = run_side("trl_side.py", python, {**short, "micro": size})
            found[size] = result["steps"][-1]["step_s"]
            show({**row, "step_s": found[size], "peak_mib": result["peak_mib"]})
        except SideError as error:
            if not error.memory:
                raise
            show({**row, "step_s": None, "peak_mib": None})
    if not found:
        raise SystemExit(f"TRL ran out of memory with every micro-batch of {fitting}")
    return min(found, key=lambda size: found[size])


def step_row(system: str, job: Job, result: Row, parameters: int) -> Row:
    """The numbers of one run: medians over the steps after the first, which warms up."""
    steps = result["steps"][1:] or result["steps"]
    middle = {
        name: statistics.median(step[name] for step in steps) for name in ("step_s", "sample_s", "train_s", "tokens")
    }
    seconds, tokens = (sum(step[name] for step in steps) for name in ("step_s", "tokens"))
    states, peak, loaded = 16 * parameters / MIB, result["peak_mib"], result["loaded_mib"]
    trained = system != "covey" or any(step["signal"] for step in result["steps"])  # else Covey makes no gradients
    known = trained and peak is not None and loaded is not None
    return {
        "kind": "run", "workload": job["workload"], "system": system, "seed": job["config"]["run"]["seed"],
        "micro": job["micro"] if system == "trl" else None, **middle,
        "tokens_per_s": tokens / seconds, "ms_per_token": 1000 * seconds / tokens,
        "signal": statistics.mean(step["signal"] for step in steps),
        "peak_mib": peak, "loaded_mib": loaded, "states_mib": states,
        "above_states_mib": peak - states if known else None,
        "above_loaded_mib": peak - loaded - 0.75 * states if known else None,
        "steps_s": [round(step["step_s"], 3) for step in result["steps"]],
    }  # fmt: skip


def check_prompts(ours: Row, theirs: Row) -> None:
    """Both sides asked the same. Raises SystemExit if not: then nothing may be compared."""
    shared = min(len(ours["asked"]), len(theirs["asked"]))
    if ours["asked"][:shared] != theirs["asked"][:shared]:
        raise SystemExit("the two sides did not ask the same prompts in the same order")


def systems_run(job: Job, wanted: Sequence[str], python: Path, parameters: int, show: Callable[[Row], None]) -> None:
    """One turn of each system on the same job."""
    entropy = {"entropy": {**job["config"]["entropy"], **TRAIN_SILENT}}
    first = None
    for system in wanted:
        changed = {**job, "config": {**job["config"], **entropy}} if system == "covey_all" else job
        script = "trl_side.py" if system == "trl" else "covey_side.py"
        result = run_side(script, python if system == "trl" else Path(sys.executable), changed)
        first = first or result
        check_prompts(first, result)
        show(step_row(system, job, result, parameters))


def ratio_rows(workload: str, rows: Sequence[Row], names: Sequence[str], key: str = "seed") -> list[Row]:
    """TRL over each of Covey's systems, turn by turn: min, median and max of each name."""
    made = []
    by_system = {system: {row[key]: row for row in rows if row["system"] == system} for system in SYSTEMS}
    for ours in ("covey", "covey_all"):
        pairs = [(by_system["trl"][at], row) for at, row in by_system[ours].items() if at in by_system["trl"]]
        for name in names:
            values = [(theirs[name] or 0, mine[name] or 0) for theirs, mine in pairs]
            found = sorted(theirs / mine for theirs, mine in values if theirs > 0 and mine > 0)
            if found:
                spread = {"min": found[0], "median": statistics.median(found), "max": found[-1]}
                made.append({"kind": "ratio", "workload": workload, "of": f"trl/{ours}", "name": name, **spread})
    return made


def bench_steps(workload: str, args: argparse.Namespace, python: Path, show: Callable[[Row], None]) -> None:
    """A step workload: every system in turn, ``--repeats`` times, each time with the next seed."""
    model = model_folder(args.model)
    parameters, rows, micro = count_parameters(model), [], None

    def keep(row: Row) -> None:
        rows.append(row)
        show(row)

    for seed in range(args.repeats):
        job = make_job(
            workload, model, seed=seed, steps=args.steps, tokens_per_microbatch=args.tokens_per_microbatch,
            max_new=args.max_new,
        )  # fmt: skip
        if "trl" in args.systems:
            micro = micro or best_micro(job, args.micro, python, show)
        systems_run({**job, "micro": micro}, args.systems, python, parameters, keep)
    names = ("step_s", "ms_per_token", "sample_s", "train_s", "above_states_mib", "above_loaded_mib")
    for row in ratio_rows(workload, rows, names):
        show(row)


class Examiner:
    """Greedy accuracy of saved weights on held-out problems of the demo, by Covey's evaluation."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.curve: list[Row] = []

    def accuracy(self, folder: Path) -> float:
        """Share of 500 held-out problems that the model in ``folder`` gets right greedily."""
        from covey.config import make_config
        from covey.loop.build import build_bench

        sections = {name: self.job["config"][name] for name in ("sampling", "model")}
        asking = {"prompts": {"source": "arithmetic"}, "eval": {"prompts": 500}}
        config = make_config({**sections, **asking, "model": {**sections["model"], "path": str(folder)}})
        verdicts = asyncio.run(self._verdicts(build_bench(config), config.sampling.max_new_tokens))
        return sum(verdicts) / len(verdicts)

    async def _verdicts(self, bench: Any, limit: int) -> list[bool]:
        from covey.rewards.base import ScoreContext
        from covey.rollout.group import rollout
        from covey.types import Sampling

        cold = Sampling(temperature=0.0, max_new_tokens=limit)
        groups = await rollout(bench.eval_prompts, bench.engine, bench.chat, cold, 1, (0, "greedy"))
        scored = await bench.scorer(groups, ScoreContext(step=0, evaluating=True))
        return [bool(group.scores[0].correct) for group in scored]

    def __call__(self, shown: Row) -> bool:
        """Whether training shall go on, which it does until the goal is reached."""
        found = self.accuracy(Path(shown["folder"]))
        self.curve.append(
            {"step": shown["step"], "seconds": shown["seconds"], "tokens": shown["tokens"], "greedy": found}
        )
        return found < GOAL


def bench_learn(args: argparse.Namespace, python: Path, show: Callable[[Row], None]) -> None:
    """Both systems from the tiny model to the goal, with as many seeds as repeats."""
    model, micro, rows = model_folder("tiny"), None, []
    wanted = [system for system in args.systems if system != "covey_all"]
    for seed in range(args.repeats):
        job = make_job("learn", model, seed=seed, steps=args.steps, every=args.every)
        if "trl" in wanted:
            micro = micro or best_micro(job, [*args.micro, 10**9], python, show)
        first = None
        for system in wanted:
            examiner = Examiner(job)
            script = "trl_side.py" if system == "trl" else "covey_side.py"
            side = python if system == "trl" else Path(sys.executable)
            result = run_side(script, side, {**job, "micro": micro}, examiner)
            first = first or result
            check_prompts(first, result)
            last = (
                examiner.curve[-1] if examiner.curve else {"step": 0, "seconds": None, "tokens": None, "greedy": None}
            )
            reached = bool(examiner.curve) and last["greedy"] >= GOAL
            row = {"kind": "learn", "workload": "learn", "system": system, "seed": seed, "reached": reached, **last}
            rows.append({**row, "micro": micro if system == "trl" else None, "curve": examiner.curve})
            show(rows[-1])
    for row in ratio_rows("learn", [row for row in rows if row["reached"]], ("seconds", "tokens", "step")):
        show(row)


def text_of(row: Row) -> str:
    """A row for people."""

    def number(name: str, digits: int = 2) -> str:
        return "-" if row.get(name) is None else f"{row[name]:.{digits}f}"

    head = f"{row['workload']:7}"
    if row["kind"] == "trial":
        found = f"step {number('step_s')} s, peak {number('peak_mib', 0)} MiB" if row["step_s"] else "out of memory"
        return f"{head}trl trial, micro-batch {row['micro']}: {found}"
    if row["kind"] == "ratio":
        spread = f"{number('min')} / {number('median')} / {number('max')} (min, median, max)"
        return f"{head}{row['of']:14} {row['name']:17} {spread}"
    head += f"{row['system']:10} seed {row['seed']}" + (f" micro {row['micro']}" if row["micro"] else "") + ": "
    if row["kind"] == "learn":
        verdict = f"{100 * GOAL:.0f} % {'' if row['reached'] else 'not '}reached at step {row['step']}"
        return f"{head}{verdict}, {number('seconds', 1)} s, {row['tokens']} tokens, greedy {number('greedy', 3)}"
    return head + (
        f"step {number('step_s')} s (sampling {number('sample_s')}, training {number('train_s')}),"
        f" {number('tokens', 0)} tokens, {number('tokens_per_s', 1)} tokens/s, {number('ms_per_token')} ms/token,"
        f" signal {number('signal')}, peak {number('peak_mib', 0)} MiB = states {number('states_mib', 0)}"
        f" + {number('above_states_mib', 0)} (loaded {number('loaded_mib', 0)}, above {number('above_loaded_mib', 0)})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", nargs="+", choices=WORKLOADS, default=["short", "prefix"])
    parser.add_argument("--repeats", type=int, default=3, help="turns of each system, each with the next seed")
    parser.add_argument("--steps", type=int, help="default 3; for learn the demo's")
    parser.add_argument("--every", type=int, default=5, help="steps between evaluations of learn")
    parser.add_argument("--model", default="smollm2-135m", help="of the step workloads")
    parser.add_argument("--micro", type=lambda text: [int(part) for part in text.split(",")], default=[8, 32])
    parser.add_argument("--tokens-per-microbatch", type=int, default=2048, help="Covey's, for the step workloads")
    parser.add_argument("--max-new", type=int, help="tokens of a response at most, in place of the step workload's")
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument("--trl-python", type=Path, help="an interpreter that has TRL")
    parser.add_argument("--json", action="store_true", help="one object a line")
    args = parser.parse_args()
    python = args.trl_python or (trl_python() if "trl" in args.systems else Path())

    def show(row: Row) -> None:
        print(json.dumps(row) if args.json else text_of(row), flush=True)

    for workload in args.workload:
        if workload in STEP_WORKLOADS:
            bench_steps(workload, args, python, show)
        else:
            bench_learn(args, python, show)


if __name__ == "__main__":
    main()
