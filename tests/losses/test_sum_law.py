"""Loss and gradients of a step are the same over every split, order, padding, packing and number of ranks."""

import math

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from covey.losses.objective import Objective
from covey.testing.loss_contract import check_equal
from covey.testing.loss_samples import (
    AGGREGATIONS,
    LOSSES_TRIED,
    loss_and_gradients,
    make_sequences,
    rows_of,
    surveyed,
    terms_for,
    totals_of,
)


@st.composite
def objectives(draw):
    loss = draw(st.sampled_from(LOSSES_TRIED))
    return Objective(
        policy=loss, aggregation=draw(st.sampled_from(AGGREGATIONS)), **draw(st.sampled_from(list(terms_for(loss))))
    )


@st.composite
def cuts(draw, items):
    """A list dealt in order into non-empty lists."""
    parts = [[items[0]]]
    for item in items[1:]:
        parts.append([item]) if draw(st.booleans()) else parts[-1].append(item)
    return parts


@st.composite
def layouts(draw, sequences):
    """Ranks of micro-batches of rows of sequences; a rank may be empty."""
    order = draw(st.permutations(sequences))
    rows = draw(cuts(order))
    micro = draw(cuts(rows))
    ranks = draw(st.integers(1, 3))
    owners = draw(st.lists(st.integers(0, ranks - 1), min_size=len(micro), max_size=len(micro)))
    return [[part for part, owner in zip(micro, owners, strict=True) if owner == rank] for rank in range(ranks)]


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.data(), objectives(), st.integers(0, 1000), st.lists(st.integers(1, 8), min_size=1, max_size=7))
def test_sum_law(data, objective, seed, lengths):
    sequences = make_sequences(seed, lengths)
    totals = totals_of(sequences)
    whole = loss_and_gradients(objective, [rows_of([[s] for s in sequences], totals, False, 0.0)], sequences)
    ranks = data.draw(layouts(sequences))
    garbage = data.draw(st.sampled_from([0.0, math.nan, math.inf, -math.inf]))
    side = data.draw(st.booleans())
    laid = [[rows_of(rows, totals, side, garbage) for rows in rank] for rank in ranks]
    known = iter(surveyed(objective, [inputs for rank in laid for inputs in rank]))
    loss, gradients = torch.zeros((), dtype=torch.float64), [torch.zeros_like(g) for g in whole[1]]
    leaves = [leaf for s in sequences for leaf in (s.logp, s.entropy, s.kl_exact)]
    for rank in laid:  # each rank runs backward on its own; gradients are then summed
        for _ in rank:
            share = objective(next(known)).loss
            found = torch.autograd.grad(share, leaves, allow_unused=True)
            loss = loss + share.detach()
            gradients = [g if new is None else g + new for g, new in zip(gradients, found, strict=True)]
    check_equal((loss, gradients), whole)
