import numpy as np
import pytest
import torch

from covey.advantages import GRPO
from covey.batching.layout import pack, pad
from covey.batching.pack import bins, columns
from covey.batching.rows import step_rows
from covey.testing.samples import make_scored


def credited(*lengths, prompt_tokens=10):
    rewards = [[float(i == 0) for i in range(len(some))] for some in lengths]
    return GRPO()(
        [
            make_scored(reward, uid=str(g), lengths=list(some), prompt_tokens=prompt_tokens)
            for g, (reward, some) in enumerate(zip(rewards, lengths, strict=True))
        ]
    )


def trained_cells(batch):
    """Everything a loss sees of each trained token, in an order that no layout decides."""
    names = ("tokens", "positions", "advantage", "behavior_logp", "temperature", "weight", "group_tokens")
    rows = [
        tuple(getattr(micro, name)[cell].item() for name in names)
        for micro in batch.micro
        for cell in map(tuple, micro.trained.nonzero().tolist())
    ]
    return sorted(rows)


@pytest.mark.parametrize("budget", [10_000, 60, 25, 1])
def test_a_loss_sees_the_same_cells_in_both_layouts(budget):
    groups = credited([3, 9, 5], [2, 2], [7, 1, 4, 4])
    packed, padded = pack(groups, budget), pad(groups, budget)
    assert packed.totals == padded.totals
    assert trained_cells(packed) == trained_cells(padded)


def test_a_group_pays_for_its_prompt_once():
    (micro,) = pack(credited([3, 9, 5], prompt_tokens=20), 1000).micro
    assert micro.tree.tokens.numel() == 20 + 2 + 8 + 4  # the last tokens predict nothing
    assert micro.tokens.shape == (1, 60 + 3 + 9 + 5)


def test_no_micro_batch_is_over_the_budget_unless_one_row_is():
    groups = credited([3, 9, 5], [2, 2], [7, 1, 4, 4], [30, 30])
    for budget in (200, 60, 45):
        assert all(micro.tree.tokens.numel() <= budget for micro in pack(groups, budget).micro)
    assert max(micro.tree.tokens.numel() for micro in pack(groups, 1).micro) == 39


def test_micro_batches_cost_nearly_the_same():
    units, _ = step_rows(credited(*[[n, n] for n in range(5, 60, 3)]))
    for g, rows in enumerate(units):
        for row in rows:
            row.trajectory.tokens[:] += 10 * g  # prompts of their own
    loads = [columns(rows) for rows in bins(units, 400)]
    assert max(loads) <= 1.1 * min(loads)


def test_a_long_row_does_not_scatter_the_short_ones():
    units, _ = step_rows(credited([300, 300], *[[4, 4]] * 20))
    assert len(bins(units, 50)) <= 4


def test_nothing_to_train_makes_no_micro_batch():
    groups = GRPO()([make_scored([1, 1])])
    assert pack(groups, 100).micro == ()
    assert len(pack(groups, 100, keep_silent=True).micro) == 1


def test_streams_name_the_sequence_of_every_cell():
    (micro,) = pack(credited([3, 1]), 1000).micro
    assert micro.segment[0].tolist() == [0] * 13 + [1] * 11
    assert torch.equal(micro.attended, torch.ones_like(micro.attended))
    assert micro.positions[0].tolist() == [*range(13), *range(11)]
    assert np.isnan(micro.behavior_logp[~micro.trained].numpy()).all()
