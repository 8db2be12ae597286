"""What the audit of a reward needs from a run file: prompts, groups of responses, and a way to make responses up."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from covey.config import RunConfig
from covey.errors import PromptError
from covey.learner.model import load_tokenizer
from covey.loop.build import build_bench, fitting, make_prompts
from covey.loop.components import make_scorer
from covey.loop.lockstep import train_sampling
from covey.prompts.cursor import Cursor
from covey.rewards import judgeable
from covey.rewards.audit import Audit, audit
from covey.rewards.score import Scorer
from covey.rollout.chat import Chat
from covey.rollout.group import rollout
from covey.rollout.made_up import made_up
from covey.types import Group, Prompt, Trajectory


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """Prompts with their groups, who scores them, and who makes responses up. ``note``: prompts that were left out."""

    prompts: Sequence[Prompt]
    groups: Sequence[Group]
    scorer: Scorer
    chat: Chat
    note: str = ""


async def audit_reward(config: RunConfig, prompts: int, responses: Path | None = None) -> tuple[Audit, str]:
    """The audit of a run file's reward, and a note on prompts that were left out; empty if there are none.

    Groups are sampled from its model for so many of its training prompts, or taken from a file: JSON lines with
    ``prompt`` (a prompt's text or uid) and ``responses``. Raises ConfigError, PromptError, ModelError or RewardError.
    """
    material = await sampled(config, prompts) if responses is None else from_file(config, responses)
    limit = config.sampling.max_new_tokens

    def make(prompt: Prompt, sample: int, text: str) -> Trajectory:
        return made_up(prompt, sample, text, material.chat)

    return await audit(material.prompts, material.groups, material.scorer, make, limit), material.note


async def sampled(config: RunConfig, count: int) -> Material:
    """Groups from the model, drawn as training would."""
    train, _ = make_prompts(config)
    bench = build_bench(config, held_out=())
    train, note = judgeable(train, bench.scorer.rewards, config.reward.unfit)
    usable = fitting(config, train, bench.chat, bench.engine)
    asked = Cursor(usable, config.run.seed).take(min(count, len(usable)))
    sampling, size = train_sampling(config), config.sampling.group_size
    groups = await rollout(asked, bench.engine, bench.chat, sampling, size, (config.run.seed, "audit"))
    return Material(prompts=asked, groups=groups, scorer=bench.scorer, chat=bench.chat, note=note)


def from_file(config: RunConfig, path: Path) -> Material:
    """Groups from a file; no model is loaded, only its tokenizer."""
    train, held_out = make_prompts(config)
    known: dict[str, Prompt] = {}
    for prompt in (*held_out, *train):
        known |= {prompt.text: prompt, prompt.uid: prompt}
    tokenizer = load_tokenizer(config.model.path, config.model.trust_remote_code)
    end = tokenizer.eos_token_id
    chat = Chat(tokenizer, frozenset({end if isinstance(end, int) else 0}))
    replies: dict[str, list[str]] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if line.strip():
            prompt, texts = _row(line, known, f"{path}, line {number}")
            replies.setdefault(prompt.uid, []).extend(texts)
    by_uid = {prompt.uid: prompt for prompt in known.values()}
    groups = [
        Group(prompt=by_uid[uid], members=tuple(made_up(by_uid[uid], i, text, chat) for i, text in enumerate(texts)))
        for uid, texts in replies.items()
    ]
    if not groups:
        raise PromptError(f"{path} holds no responses")
    prompts = [group.prompt for group in groups]
    return Material(prompts=prompts, groups=groups, scorer=make_scorer(config.reward), chat=chat)


def _row(line: str, known: Mapping[str, Prompt], where: str) -> tuple[Prompt, list[str]]:
    try:
        row = json.loads(line)
        prompt, texts = row["prompt"], row["responses"]
    except (ValueError, KeyError, TypeError) as error:
        raise PromptError(f'{where}: expected {{"prompt": text or uid, "responses": [texts]}}: {error}') from error
    if prompt not in known:
        raise PromptError(f"{where}: no prompt of the run file has the text or uid {str(prompt)[:60]!r}")
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise PromptError(f"{where}: responses must be a list of texts")
    return known[prompt], texts
