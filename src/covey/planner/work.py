"""How many floating-point operations a step takes, from shapes alone; a multiplication with its addition is two."""

from __future__ import annotations

from covey.planner.sizes import Shape


def forward(shape: Shape, tokens: int, scored: int, pairs: int) -> int:
    """A pass over ``tokens``, with logits for ``scored`` of them.

    ``pairs`` are the pairs of a token and one that it sees, itself included: each costs 4 query_heads head a layer.
    """
    table = shape.vocabulary * shape.hidden
    body = shape.parameters - table * (1 if shape.tied else 2)
    return 2 * body * tokens + 2 * table * scored + 4 * shape.layers * shape.query_heads * shape.head * pairs


def pairs_behind(before: int, tokens: int) -> int:
    """Pairs of ``tokens`` in a row that see each other's past and ``before`` tokens in front of them."""
    return tokens * before + tokens * (tokens + 1) // 2


def sampling(shape: Shape, prompts: int, prompt_tokens: int, group_size: int, new_tokens: int) -> int:
    """Every prompt is passed once, every new token but the last of its response once."""
    passed = prompts * group_size * (new_tokens - 1)
    prefill = forward(shape, prompts * prompt_tokens, prompts, prompts * pairs_behind(0, prompt_tokens))
    pairs = prompts * group_size * pairs_behind(prompt_tokens, new_tokens - 1)
    return prefill + forward(shape, passed, passed, pairs)


def training(
    shape: Shape, prompts: int, prompt_tokens: int, group_size: int, new_tokens: int, checkpointed: bool = False
) -> int:
    """Forward and backward pass (twice the forward one) over packed groups: a prompt once for all its responses.

    ``checkpointed`` layers are passed forward once more.
    """
    passed = prompts * (prompt_tokens + group_size * (new_tokens - 1))
    scored = prompts * group_size * new_tokens
    pairs = prompts * (pairs_behind(0, prompt_tokens) + group_size * pairs_behind(prompt_tokens, new_tokens - 1))
    once = forward(shape, passed, scored, pairs)
    return 3 * once + (forward(shape, passed, 0, pairs) if checkpointed else 0)
