"""Hand-made data for tests: groups with given rewards, and a tiny random model with a character tokenizer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from covey.types import CreditedGroup, Group, Message, Prompt, Score, ScoredGroup, StepReward, Trajectory, Turn

CHARACTERS = "0123456789+-×=?<>/ \nabcdefghijklmnopqrstuvwxyz"
END, PAD = "<end>", "<pad>"


def make_prompt(uid: str = "p", text: str = "1+1=?", answer: str | None = "2", **columns: object) -> Prompt:
    """A one-message chat prompt."""
    return Prompt(uid=uid, messages=(Message(role="user", content=text),), answer=answer, columns=columns)


def make_trajectory(
    uid: str, sample: int, reply: str = "2", prompt_tokens: int = 3, reply_tokens: int = 4
) -> Trajectory:
    """A trajectory of made-up token ids; log-probs are -0.5 where sampled. The first token holds the whole reply."""
    total = prompt_tokens + reply_tokens
    sampled = np.arange(total) >= prompt_tokens
    turn = Turn(
        start=prompt_tokens, stop=total, reply=reply, finish="stop", ends=np.full(reply_tokens, len(reply), np.int64)
    )
    return Trajectory(
        prompt_uid=uid,
        sample=sample,
        tokens=(np.arange(total, dtype=np.int64) + np.where(sampled, sample, 0)) % 7 + 1,
        sampled=sampled,
        logp=np.where(sampled, -0.5, np.nan).astype(np.float32),
        version=0,
        turns=(turn,),
    )


def make_scored(
    rewards: Sequence[float | None],
    uid: str = "p",
    lengths: Sequence[int] | None = None,
    greedy: float | None = None,
    prompt_tokens: int = 3,
) -> ScoredGroup:
    """A scored group with these totals; a reward of at least 1 counts as correct, None as not judged.

    Each response has one step reward, its total. ``greedy`` adds a greedy response with that reward.
    """
    return _scored([{"made": r} for r in rewards], rewards, uid, lengths, {}, greedy, prompt_tokens)


def make_parts(
    parts: Mapping[str, Sequence[float | None]], weights: Mapping[str, float] | None = None, uid: str = "p"
) -> ScoredGroup:
    """A scored group whose totals are the weighted sums of these parts; None where a part is missing."""
    known = dict(weights or {})
    rows = [dict(zip(parts, row, strict=True)) for row in zip(*parts.values(), strict=True)]
    totals = [
        None if None in row.values() else sum(known.get(name, 1.0) * (value or 0.0) for name, value in row.items())
        for row in rows
    ]
    return _scored(rows, totals, uid, None, known, None)


def _scored(
    parts: Sequence[Mapping[str, float | None]],
    totals: Sequence[float | None],
    uid: str,
    lengths: Sequence[int] | None,
    weights: Mapping[str, float],
    greedy: float | None,
    prompt_tokens: int = 3,
) -> ScoredGroup:
    sizes = lengths or [4] * len(totals)
    members = tuple(
        make_trajectory(uid, i, prompt_tokens=prompt_tokens, reply_tokens=size) for i, size in enumerate(sizes)
    )

    def score(total: float | None, row: Mapping[str, float | None]) -> Score:
        missing = total is None or np.isnan(total)
        steps = () if missing else (StepReward(end=1, value=float(total or 0.0)),)
        return Score(total=total, parts=row, correct=None if missing else (total or 0.0) >= 1, steps=steps)

    return ScoredGroup(
        group=Group(
            prompt=make_prompt(uid), members=members, greedy=None if greedy is None else make_trajectory(uid, -1)
        ),
        scores=tuple(score(total, row) for total, row in zip(totals, parts, strict=True)),
        greedy=None if greedy is None else score(greedy, {}),
        weights=weights,
    )


def values_of(credited: CreditedGroup) -> list[float]:
    """One advantage a member, after checking that it is the same on all sampled tokens and 0 elsewhere."""
    values = []
    for member, stream in zip(credited.scored.group.members, credited.advantages, strict=True):
        drawn = stream[member.sampled]
        assert (drawn == drawn[0]).all(), "a response-level advantage differs between tokens"
        assert (stream[~member.sampled] == 0).all(), "an advantage stands on a token that was not sampled"
        values.append(float(drawn[0]))
    return values


def character_tokenizer() -> PreTrainedTokenizerFast:
    """One token a character; the end token is not the pad token; the template is ``{user}\\n{assistant}<end>``."""
    vocabulary = {token: i for i, token in enumerate([PAD, END, *CHARACTERS])}
    core = Tokenizer(models.WordLevel(vocabulary, unk_token=PAD))
    core.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    core.decoder = decoders.Fuse()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, eos_token=END, pad_token=PAD)
    tokenizer.chat_template = (
        "{% for m in messages %}{{ m['content'] }}"
        "{% if m['role'] == 'assistant' %}" + END + "{% else %}{{ '\\n' }}{% endif %}{% endfor %}"
    )
    return tokenizer


def random_llama(seed: int = 0, layers: int = 2, hidden: int = 32, positions: int = 64) -> LlamaForCausalLM:
    """A Llama with random weights over the character vocabulary, in float32 and evaluation mode."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(CHARACTERS) + 2,
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=positions,
        tie_word_embeddings=True,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=None,
        initializer_range=0.4,
    )
    return LlamaForCausalLM(config).eval()
