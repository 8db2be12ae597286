from dataclasses import replace

import numpy as np
import pytest
import torch

from covey.losses import TOPR, PPOClip, TokenMean
from covey.losses.corrections import (
    CORRECTIONS,
    OPSM,
    Geometric,
    IcePop,
    K3Filter,
    SequenceMIS,
    SequenceTIS,
    TokenMIS,
    TokenTIS,
)
from covey.losses.corrections.apply import Corrections, mismatch_metrics, sampler_log_ratio
from covey.losses.objective import Objective
from covey.metrics.metric import merge
from covey.testing.loss_samples import inputs_of, make_sequences, rows_of, surveyed, totals_of

f64 = torch.float64


def sampler_off(log_w, advantages, **more):
    """Inputs whose policy is the old one, with log(pi_old / sampler) as given."""
    inputs = inputs_of([[0.0] * len(row) for row in log_w], advantages, **more)
    behavior = inputs.old_logp.clone()
    for i, row in enumerate(log_w):
        behavior[i, : len(row)] -= torch.tensor(row, dtype=f64)
    return replace(inputs, behavior_logp=behavior)


def weights(parts, inputs, **knobs):
    return Corrections(parts=parts, **knobs)(inputs)[0][inputs.trained].tolist()


def test_without_corrections_every_weight_is_one():
    assert weights((), sampler_off([[0.5, -3.0]], [1.0])) == [1.0, 1.0]


@pytest.mark.parametrize(
    ("part", "log_w", "expected"),
    [
        (TokenTIS(ratio_max=1.5), [0.0, np.log(3.0), -1.0], [1.0, 1.5, np.exp(-1.0)]),
        (TokenMIS(ratio_max=1.5), [0.0, np.log(3.0), -1.0], [1.0, 0.0, np.exp(-1.0)]),
        (IcePop(ratio_min=0.5, ratio_max=2.0), [0.0, np.log(3.0), -1.0], [1.0, 0.0, 0.0]),
        (SequenceTIS(ratio_max=3.0), [np.log(2.0), np.log(0.75)], [1.5, 1.5]),
        (SequenceTIS(ratio_max=1.2), [np.log(2.0), np.log(0.75)], [1.2, 1.2]),
        (SequenceMIS(ratio_max=1.2), [np.log(2.0), np.log(0.75)], [0.0, 0.0]),
        (SequenceMIS(ratio_min=0.5), [np.log(0.5), np.log(0.5)], [0.0, 0.0]),
        (Geometric(ratio_min=0.9, ratio_max=1.1), [0.5, -0.5], [1.0, 1.0]),
        (Geometric(ratio_min=0.9, ratio_max=1.1), [0.5, -0.1], [0.0, 0.0]),
        (K3Filter(kl_max=0.1), [0.5, -0.5], [0.0, 0.0]),  # mean of 0.148721 and 0.106531
        (K3Filter(kl_max=0.13), [0.5, -0.5], [1.0, 1.0]),
    ],
)  # fmt: skip
def test_weights(part, log_w, expected):
    assert weights((part,), sampler_off([log_w], [1.0])) == pytest.approx(expected)


def test_opsm_looks_from_the_sampler_to_the_current_policy():
    # the policy has moved by -0.15 since the batch, and was 0.1 below the sampler before: 0.25 in all
    inputs = sampler_off([[-0.1] * 2] * 2, [1.0, -1.0])
    moved = inputs_of([[-0.15] * 2] * 2, [1.0, -1.0])
    inputs = replace(moved, behavior_logp=moved.old_logp + 0.1)
    assert weights((OPSM(delta=0.3),), inputs) == [1.0] * 4
    assert weights((OPSM(delta=0.2),), inputs) == [1.0, 1.0, 0.0, 0.0]


def test_a_filter_and_a_weight_multiply():
    inputs = sampler_off([[0.5, 0.5], [0.01, -0.01]], [1.0, 1.0])
    got = weights((TokenTIS(ratio_max=2.0), Geometric(ratio_min=0.9, ratio_max=1.1)), inputs)
    assert got == pytest.approx([0.0, 0.0, np.exp(0.01), np.exp(-0.01)])
    with pytest.raises(ValueError, match="TokenTIS and IcePop would weigh the same ratio twice"):
        Corrections(parts=(TokenTIS(), IcePop()))


def test_normalised_weights_have_mean_one_over_the_step():
    corrections = Corrections(parts=(TokenTIS(ratio_max=1.3),), normalize=True)
    objective = Objective(policy=PPOClip(), aggregation=TokenMean(), corrections=corrections)
    sequences = make_sequences()
    batches = surveyed(objective, [rows_of([[s]], totals_of(sequences), False, np.nan) for s in sequences])
    everything = torch.cat([corrections(inputs)[0][inputs.trained] for inputs in batches])
    assert everything.mean().item() == pytest.approx(1.0)


def test_weights_carry_no_gradient_and_leave_the_regularisers_alone():
    objective = Objective(
        policy=PPOClip(), aggregation=TokenMean(), entropy_coef=1.0, corrections=Corrections(parts=(TokenMIS(),))
    )
    sequences = make_sequences(lengths=(4,))
    dropped = rows_of([[s] for s in sequences], totals_of(sequences), False, 0.0)
    dropped = replace(dropped, behavior_logp=dropped.old_logp - 5.0)
    loss = objective(dropped).loss
    by_logp, by_entropy = torch.autograd.grad(loss, (sequences[0].logp, sequences[0].entropy), allow_unused=True)
    assert by_logp is None or not by_logp.any()
    assert by_entropy[2:].tolist() == pytest.approx([-0.5 / 4] * 4)  # times the sequence's weight of 0.5


def test_a_loss_that_corrects_itself_takes_no_correction():
    with pytest.raises(ValueError, match="twice"):
        Objective(policy=TOPR(), aggregation=TokenMean(), corrections=Corrections(parts=(TokenTIS(),)))


def test_with_the_sampler_as_old_policy_nothing_is_corrected_twice():
    """Bypass: pi_old is the sampler, so the ratio of the loss holds all of the difference and the weights are 1."""
    inputs = inputs_of([[0.3, -0.2]], [1.0])
    assert weights((TokenTIS(),), inputs) == [1.0, 1.0]


def test_decoupled_and_coupled_clipping_differ():
    # pi/mu = 1.8, mu-to-old 1.5, pi/old 1.2: decoupled 1.5 x min(1.2, 1.2) = 1.8, coupled min(1.8, 1.2) = 1.2
    moved = inputs_of([[np.log(1.2)]], [1.0])
    decoupled = replace(moved, behavior_logp=moved.old_logp - np.log(1.5))
    objective = Objective(policy=PPOClip(), aggregation=TokenMean(), corrections=Corrections(parts=(TokenTIS(),)))
    assert objective(decoupled).loss.item() == pytest.approx(-1.8)
    coupled = replace(decoupled, old_logp=decoupled.behavior_logp)
    assert objective(coupled).loss.item() == pytest.approx(-1.2)


def test_metrics_do_not_depend_on_the_split():
    objective = Objective(
        policy=PPOClip(), aggregation=TokenMean(), corrections=Corrections(parts=(TokenTIS(ratio_max=1.1),))
    )
    sequences = make_sequences(lengths=(3, 70, 1, 300))
    totals = totals_of(sequences)

    def metrics(inputs):
        return {**objective(inputs).metrics, **mismatch_metrics(sampler_log_ratio(inputs), inputs)}

    whole = merge([metrics(rows_of([[s] for s in sequences], totals, False, np.nan))])
    split = merge([metrics(rows_of([[s]], totals, True, np.inf)) for s in sequences])
    assert whole["sampler/ess"] < 1.0
    assert whole.keys() == split.keys()
    for name, value in whole.items():
        assert split[name] == pytest.approx(value, abs=1e-9), name
    assert {name for name in whole if name.startswith("correction/kept/")} == {
        "correction/kept/1-64", "correction/kept/65-256", "correction/kept/257-1024",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("part", "log_w", "expected"),
    [
        (TokenTIS(ratio_max=1.5), [[0.0, 1.0, -1.0]], 1 / 3),
        (SequenceTIS(ratio_max=3.0), [[0.5, 0.4]], 0.0),
        (SequenceTIS(ratio_max=2.0), [[0.5, 0.4]], 1.0),
        (TokenMIS(ratio_max=1.5), [[0.0, 1.0]], 0.0),
        (Geometric(ratio_min=0.5, ratio_max=2.0), [[0.3, -0.3]], 0.0),
        (K3Filter(kl_max=1.0), [[0.3, -0.3]], 0.0),
    ],
)
def test_truncated_is_what_was_cut_to_the_cap(part, log_w, expected):
    metrics = Corrections(parts=(part,))(sampler_off(log_w, [1.0]))[1]
    assert metrics["correction/truncated"].value == pytest.approx(expected)


def test_mismatch_metrics_of_equal_policies():
    metrics = mismatch_metrics(torch.zeros(1, 3, dtype=f64), inputs_of([[0.0] * 3], [1.0]))
    values = {name: metric.value for name, metric in metrics.items()}
    ones = {"sampler/ratio_mean", "sampler/ratio_min", "sampler/ratio_max", "sampler/ppl_ratio", "sampler/ess"}
    assert values == {name: float(name in ones) for name in values}


def test_a_lost_log_prob_is_counted():
    log_w = torch.tensor([[0.0, float("nan")]], dtype=f64)
    assert mismatch_metrics(log_w, inputs_of([[0.0, 0.0]], [1.0]))["sampler/nan"].value == 0.5


@pytest.mark.parametrize("cls", CORRECTIONS.values())
def test_far_samplers_stay_finite(cls):
    for distance in (500.0, -500.0):
        got = weights((cls(),), sampler_off([[distance] * 50], [-1.0]))
        assert np.isfinite(got).all()


@pytest.mark.parametrize(
    "made",
    [
        lambda: TokenTIS(ratio_max=1.0),
        lambda: IcePop(ratio_min=1.5),
        lambda: K3Filter(kl_max=0.0),
        lambda: OPSM(delta=-1.0),
    ],
)
def test_senseless_bounds_are_refused(made):
    with pytest.raises(ValueError, match="got"):
        made()
