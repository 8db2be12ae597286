"""``covey sample TARGET QUESTION``: several answers at once, with their scores."""

from __future__ import annotations

import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", help="run folder, run file, or model (folder, hub id, fetched name, tiny)")
    parser.add_argument("question", help='what to ask, e.g. "13×17=?"')
    parser.add_argument("overrides", nargs="*", metavar="section.key=value", help="e.g. prompts.style=plain")
    parser.add_argument("-n", type=int, default=4, help="answers (default 4)")
    parser.add_argument("-t", "--temperature", type=float, default=1.0, help="0 is greedy (default 1)")
    parser.add_argument("--top-p", type=float, default=1.0)
    parser.add_argument("--top-k", type=int, default=0)
    parser.add_argument("--max-new-tokens", type=int, help="default: as in the run")
    parser.add_argument("--answer", help="the right answer, so that the rewards can judge")
    parser.add_argument("--seed", type=int, default=0)


def run(arguments: argparse.Namespace) -> int:
    from covey.cli.target import config_of
    from covey.errors import ConfigError

    limits = arguments.n >= 1 and arguments.temperature >= 0 and 0 < arguments.top_p <= 1 and arguments.top_k >= 0
    if not limits or (arguments.max_new_tokens is not None and arguments.max_new_tokens < 1):
        raise ConfigError(
            "sample: -n >= 1, --temperature >= 0, 0 < --top-p <= 1, --top-k >= 0 and --max-new-tokens >= 1 expected"
        )
    config = config_of(arguments.target, [*arguments.overrides, "eval.prompts=1000000"])

    import asyncio

    from covey.loop.build import build_bench
    from covey.loop.components import GIVEN
    from covey.rewards import ExactNumber, ScoreContext, WeightedReward
    from covey.rollout.group import rollout
    from covey.types import Message, Prompt, Sampling

    lost = any(part.name.startswith(f"{GIVEN}:") for part in config.reward.parts)
    stand_in = [WeightedReward(reward=ExactNumber())] if lost else None  # asking needs no reward, judging does
    bench = build_bench(config, held_out=(), rewards=stand_in)
    prompt = find_prompt(config, arguments.question) if arguments.answer is None else None
    prompt = prompt or Prompt(
        uid="asked",
        messages=(Message(role="user", content=arguments.question),),
        answer=arguments.answer,
        task=config.prompts.source,
        plain=config.prompts.style == "plain",
    )
    sampling = Sampling(
        temperature=arguments.temperature,
        top_p=arguments.top_p,
        top_k=arguments.top_k,
        max_new_tokens=arguments.max_new_tokens or config.sampling.max_new_tokens,
    )

    async def ask():
        groups = await rollout([prompt], bench.engine, bench.chat, sampling, arguments.n, (arguments.seed, "sample"))
        return (await bench.scorer(groups, ScoreContext(evaluating=True)))[0]

    show(asyncio.run(ask()))
    return 0


def find_prompt(config, question: str):
    """The prompt of the run's data that asks this, with its answer and columns, so that the rewards can judge."""
    from covey.errors import PromptError
    from covey.loop.build import make_prompts

    try:
        train, held_out = make_prompts(config)
    except PromptError:  # the data need not be here any more to ask the model something
        return None
    return next((prompt for prompt in (*held_out, *train) if prompt.text == question), None)


def show(scored) -> None:
    """Print every answer with its score and the reason for it."""
    from rich.console import Console
    from rich.text import Text

    from covey.observe.view import show as number

    console = Console(soft_wrap=True)
    for member, score in zip(scored.group.members, scored.scores, strict=True):
        reasons = "; ".join(f"{name}: {why}" for name, why in score.why.items())
        head = (
            f"── {member.sample + 1}  score {number(score.total, 2)}  {member.sampled_tokens} tokens  {member.finish}"
        )
        console.print(Text(f"{head}  {reasons}".rstrip(), style="dim"))
        console.print(Text(member.reply))
