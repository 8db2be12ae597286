import numpy as np
import pytest
import torch

from covey.advantages import GRPO
from covey.batching.layout import pad
from covey.testing.samples import make_scored
from covey.types import Totals


def credited(*groups):
    return GRPO()(list(groups))


def test_totals_count_judged_responses_also_where_the_advantage_is_zero():
    groups = credited(
        make_scored([1, 0], lengths=[3, 5]), make_scored([1, 1], lengths=[2, 2]), make_scored([None, None])
    )
    assert pad(groups, 99).totals == Totals(tokens=12, sequences=4, groups=2)


def test_an_unjudged_response_is_in_no_row_and_no_total():
    batch = pad(credited(make_scored([1, None, 0], lengths=[3, 9, 5])), 1000)
    assert batch.totals == Totals(tokens=8, sequences=2, groups=1)
    assert batch.micro[0].tokens.shape == (2, 8)


def test_silent_groups_are_left_out_unless_a_term_needs_them():
    groups = credited(make_scored([1, 0]), make_scored([1, 1]))
    assert sum(m.tokens.shape[0] for m in pad(groups, 1000).micro) == 2
    kept = pad(groups, 1000, keep_silent=True)
    assert sum(m.tokens.shape[0] for m in kept.micro) == 4
    assert kept.totals == pad(groups, 1000).totals


def test_nothing_to_learn_from_gives_no_micro_batch():
    assert pad(credited(make_scored([1, 1])), 1000).micro == ()


def test_streams_describe_their_tokens():
    (micro,) = pad(credited(make_scored([1, 0], lengths=[2, 4])), 1000).micro
    long, short = 0, 1  # sorted by length
    assert micro.attended.tolist() == [[True] * 7, [True] * 5 + [False] * 2]
    assert micro.trained[short].tolist() == [False] * 3 + [True] * 2 + [False] * 2
    assert micro.positions[short].tolist() == [0, 1, 2, 3, 4, 0, 0]
    assert micro.segment.tolist() == [[0] * 7, [1] * 5 + [-1] * 2]
    assert (micro.advantage[short][micro.trained[short]] > 0).all()
    assert (micro.advantage[long][micro.trained[long]] < 0).all()
    assert (micro.advantage[~micro.trained] == 0).all()
    assert micro.behavior_logp[short][micro.trained[short]].tolist() == [-0.5, -0.5]
    assert torch.isnan(micro.behavior_logp[~micro.trained]).all()


@pytest.mark.parametrize("budget", [1, 10, 16, 40, 1000])
def test_micro_batches_respect_the_budget_and_lose_nothing(budget):
    lengths = [3, 9, 1, 5, 2, 8]
    batch = pad(credited(make_scored([1, 0, 1, 0, 1, 0], lengths=lengths)), budget)
    for micro in batch.micro:
        assert micro.tokens.numel() <= budget or micro.tokens.shape[0] == 1
    rows = [int(n) for micro in batch.micro for n in micro.trained.sum(1)]
    assert sorted(rows) == sorted(lengths)


def test_masks_come_from_lengths_even_if_tokens_look_like_padding():
    scored = make_scored([1, 0], lengths=[3, 5])
    for member in scored.group.members:
        member.tokens[:] = 0  # every token is the pad id
    (micro,) = pad(credited(scored), 1000).micro
    assert int(micro.trained.sum()) == 8
    assert np.array_equal(micro.attended.sum(1).numpy(), [8, 6])
