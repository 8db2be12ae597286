"""The cache that rows of one prompt share: what each row sees, and where things are after others have left."""

from types import SimpleNamespace

import pytest
import torch

from covey.engines.slots import Slots

CPU = torch.device("cpu")


def filled(*values, width=3):
    """A prefilled cache of one layer: one head of one number, ``value + column``."""
    keys = torch.tensor([[[[v + c] for c in range(width)]] for v in values], dtype=torch.float32)
    return SimpleNamespace(layers=[SimpleNamespace(keys=keys, values=-keys)])


def add(slots, changed, *tokens):
    slots.begin(changed, CPU)
    new = torch.tensor(tokens, dtype=torch.float32)[:, None, None, None]
    return slots.held[0].update(new, -new)[0][:, 0, :, 0].tolist()


@pytest.fixture
def slots():
    """Two rows of prompt a (three tokens), one of prompt b (two, so padded by one), each with one token."""
    slots = Slots(1, rows=4, longest=100)
    slots.join([(b"a", 3), (b"b", 2)], filled(10, 20), ())
    for key in (b"a", b"b", b"a"):
        slots.admit(key)
    assert add(slots, True, 1, 2, 3) == [[1], [2], [3]]
    return slots


def test_rows_of_a_prompt_are_seated_together(slots):
    step = slots.step
    assert (step.prompts, step.seats, step.seat.tolist()) == (2, 2, [0, 2, 1])
    rows = torch.arange(3.0)[:, None, None, None]
    assert step.seated(rows).squeeze().tolist() == [[0, 2], [1, 0]]
    assert torch.equal(step.risen(step.seated(rows)), rows)


def test_what_a_row_sees(slots):
    slots.release(2)
    slots.admit(b"b")
    slots.begin(True, CPU)
    seen = (slots.step.mask(None) == 0)[:, 0, 0].int().tolist()
    assert seen == [[1, 1, 1, 1, 1], [0, 1, 1, 1, 1], [0, 1, 1, 1, 0]]
    near = (slots.step.mask(2) == 0)[:, 0, 0].int().tolist()
    assert near == [[0, 0, 0, 1, 1], [0, 0, 0, 1, 1], [0, 0, 1, 1, 0]]


def test_the_last_row_takes_the_place_of_one_that_leaves(slots):
    slots.release(0)
    assert (slots.prompt, slots.added) == ([b"a", b"b"], [1, 1])
    assert add(slots, True, 30, 20) == [[3, 30], [2, 20]]
    slots.release(1)
    assert add(slots, True, 300) == [[3, 30, 300]]
    assert add(slots, False, 3000) == [[3, 30, 300, 3000]]


def test_prompts_that_nobody_needs_are_forgotten(slots):
    slots.join([(b"c", 1)], filled(30, width=1), {b"b"})
    assert slots.lengths == {b"b": 2, b"c": 1}
    keys = slots.held[0].prompts[0][:, 0, :, 0]
    assert keys[:, -1].tolist() == [22, 30]
    assert keys[0, -2:].tolist() == [21, 22]
    assert keys.shape[1] == 2


def test_a_wider_prompt_widens_the_others(slots):
    slots.join([(b"c", 5)], filled(30, width=5), {b"a", b"b"})
    assert slots.held[0].prompts[0][:, 0, :, 0].tolist() == [
        [0, 0, 10, 11, 12], [0, 0, 20, 21, 22], [30, 31, 32, 33, 34],
    ]  # fmt: skip
