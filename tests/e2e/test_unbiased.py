"""Expected gradients by enumeration: a policy over 3 tokens and responses of length 2, all groups, exact probabilities.

The expectation of (1/n) sum_i A_i grad log pi(o_i) over all groups is compared with the gradient of the objective that
an estimator claims to climb.
"""

import itertools
from functools import lru_cache

import numpy as np
import pytest
import torch

from covey.advantages import OPO, PKPO, RLOO, GroupMean, Hybrid, HybridRunning, ReMax
from covey.batching.layout import pad
from covey.batching.rows import group_rows
from covey.loop.strategies.base import verdicts
from covey.losses import Reinforce, SequenceSum
from covey.losses.objective import Objective
from covey.rollout.budget import Extension
from covey.testing.samples import make_scored, values_of
from covey.types import LossInputs, Totals

RESPONSES = list(itertools.product(range(3), repeat=2))


def policy(seed):
    """Logits [4, 3]: of the first token, and of the second after each first. Returns probabilities [9], scores [9, 12]."""
    logits = torch.randn(4, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64, requires_grad=True)
    table = torch.log_softmax(logits, dim=1)
    logps = [table[0, a] + table[1 + a, b] for a, b in RESPONSES]
    scores = torch.stack([torch.autograd.grad(logp, logits, retain_graph=True)[0].flatten() for logp in logps])
    return torch.stack(logps).detach().exp().numpy(), scores.numpy()


BINARY = np.array([1.0, 0, 0, 0, 1, 0, 0, 1, 0])
GRADED = np.array([0.0, 0.5, 1.0, 0.25, 0.0, 0.75, 1.0, 0.0, 0.5])


def true_gradient(probabilities, scores, rewards):
    return (probabilities * rewards) @ scores


def expected(probabilities, scores, rewards, size, credit):
    """Mean over all groups; ``credit`` takes the group's rewards and gives advantages, or None to reject it."""
    total, accepted = np.zeros(scores.shape[1]), 0.0
    for outcome in itertools.product(range(9), repeat=size):
        values = credit(tuple(rewards[list(outcome)]))
        if values is not None:
            chance = np.prod(probabilities[list(outcome)])
            accepted += chance
            total += chance * (np.asarray(values) @ scores[list(outcome)]) / size
    return total, accepted


def by(estimator, **extra):
    return lru_cache(lambda rewards: values_of(estimator([make_scored(list(rewards), **extra)])[0]))


@pytest.mark.parametrize("rewards", [BINARY, GRADED], ids=["binary", "graded"])
def test_leave_one_out_is_exact_and_the_mean_is_short_by_a_share(rewards):
    probabilities, scores = policy(0)
    true = true_gradient(probabilities, scores, rewards)
    for size in (2, 3, 4):
        got, _ = expected(probabilities, scores, rewards, size, by(RLOO()))
        np.testing.assert_allclose(got, true, atol=1e-7)
        got, _ = expected(probabilities, scores, rewards, size, by(GroupMean()))
        np.testing.assert_allclose(got, true * (size - 1) / size, atol=1e-7)


@pytest.mark.parametrize("greedy", [0.0, 1.0])
@pytest.mark.parametrize("size", [1, 3])
def test_greedy_baseline(greedy, size):
    probabilities, scores = policy(1)
    got, _ = expected(probabilities, scores, GRADED, size, by(ReMax(), greedy=greedy))
    np.testing.assert_allclose(got, true_gradient(probabilities, scores, GRADED), atol=1e-7)


@pytest.mark.parametrize("rewards", [BINARY, GRADED], ids=["binary", "graded"])
@pytest.mark.parametrize(("size", "k"), [(3, 1), (3, 2), (4, 2), (4, 3), (3, 3)])
def test_best_of_k(rewards, size, k):
    probabilities, scores = policy(2)
    true = np.zeros(scores.shape[1])
    for outcome in itertools.product(range(9), repeat=k):
        picked = list(outcome)
        true += np.prod(probabilities[picked]) * rewards[picked].max() * scores[picked].sum(0)
    got, _ = expected(probabilities, scores, rewards, size, by(PKPO(k=k)))
    np.testing.assert_allclose(got, true, atol=1e-6)


def patterns(probabilities, rewards, size):
    """All groups as multisets of rewards with their chances: what other prompts look like to a baseline."""
    found = {}
    for outcome in itertools.product(range(9), repeat=size):
        key = tuple(sorted(rewards[list(outcome)]))
        found[key] = found.get(key, 0.0) + np.prod(probabilities[list(outcome)])
    return found.items()


@pytest.mark.parametrize("size", [1, 2])
def test_hybrid_baseline(size):
    """Three prompts: the shrinkage of one depends on the groups of the others, never on its own."""
    policies, rewards = [policy(seed) for seed in (3, 4, 5)], [BINARY, np.roll(BINARY, 2), 1 - BINARY]
    for own in range(3):
        probabilities, scores = policies[own]
        total = np.zeros(scores.shape[1])
        others = [patterns(policies[i][0], rewards[i], 2) for i in range(3) if i != own]
        for (first, p), (second, q) in itertools.product(*others):
            rest = [make_scored(list(first), uid="y"), make_scored(list(second), uid="z")]
            credit = lru_cache(lambda r, rest=rest: values_of(Hybrid()([make_scored(list(r), uid="x"), *rest])[0]))
            got, _ = expected(probabilities, scores, rewards[own], size, credit)
            total += p * q * got
        np.testing.assert_allclose(total, true_gradient(probabilities, scores, rewards[own]), atol=1e-7)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_hybrid_baseline_with_running_statistics(size):
    estimator = HybridRunning()
    for step in range(3):
        estimator.observe(
            [make_scored([1.0, 0.0, step % 2], uid=str(i)) for i in range(3)] + [make_scored([0, 0, 0.0])], 0.0
        )
    assert all(value > 0 for value in estimator.state().values())
    probabilities, scores = policy(6)
    got, _ = expected(probabilities, scores, GRADED, size, by(estimator))
    np.testing.assert_allclose(got, true_gradient(probabilities, scores, GRADED), atol=1e-7)


def test_a_baseline_that_sees_its_own_lengths_is_biased():
    """The optimal length-weighted baseline contains the response itself: the check above can fail."""
    probabilities, scores = policy(0)
    got, _ = expected(probabilities, scores, BINARY, 3, by(OPO()))
    assert np.abs(got - true_gradient(probabilities, scores, BINARY)).max() > 1e-3


def test_filter_and_refill_divides_by_the_acceptance():
    policies, rewards = [policy(7), policy(8)], [BINARY, np.roll(BINARY, 1) * (np.arange(9) < 6)]
    unfiltered, filtered, acceptance = 0.0, 0.0, 0.0
    for (probabilities, scores), values in zip(policies, rewards, strict=True):
        credit = by(RLOO())
        accept = lru_cache(lambda r, credit=credit: credit(r) if min(verdicts(make_scored(list(r)))) > 0 else None)
        kept, chance = expected(probabilities, scores, values, 3, accept)
        unfiltered = unfiltered + 0.5 * true_gradient(probabilities, scores, values)
        filtered, acceptance = filtered + 0.5 * kept, acceptance + 0.5 * chance
    assert 0.2 < acceptance < 0.8
    # what an accepted group contributes on average: the filtered sum over the chance of acceptance
    np.testing.assert_allclose(filtered / acceptance, unfiltered / acceptance, atol=1e-7)


def test_budgets_that_were_fixed_before_sampling_are_unbiased():
    """Two prompts with 2 and 4 responses: with equal weight a prompt, the batch's gradient is that of the mean prompt."""
    policies, rewards, sizes = [policy(9), policy(10)], [BINARY, GRADED], [2, 4]
    batch = RLOO()([make_scored([1.0, 0.0], uid="x"), make_scored([1.0, 0.0, 0.0, 1.0], uid="y")])
    weights = [float(micro.weight[row, -1]) for micro in pad(batch, 1, equal_prompts=True).micro for row in range(1)]
    assert sorted(weights) == pytest.approx([0.75] * 4 + [1.5] * 2)  # mean size 3 over 4 and over 2
    total, count = 0.0, sum(sizes)
    for (probabilities, scores), values, size in zip(policies, rewards, sizes, strict=True):
        got, _ = expected(probabilities, scores, values, size, by(RLOO()))
        total = total + (count / 2 / size) * size * got / count
    true = sum(true_gradient(*p, r) for p, r in zip(policies, rewards, strict=True)) / 2
    np.testing.assert_allclose(total, true, atol=1e-7)


@pytest.mark.parametrize(
    "rule", [Extension(chunk=2, largest=6, hope=0.0), Extension(chunk=1, largest=5, wrong=2, hope=0.3)]
)
def test_extending_multiplies_by_the_factor_that_is_divided_out(rule):
    """Sequential sampling of one prompt, enumerated draw by draw: its gradient is scale times the true one."""
    probabilities, scores = policy(11)
    right = BINARY == 1
    p, first = float(probabilities[right].sum()), 2
    hit = probabilities[right] @ scores[right] / p  # mean score of a right and of a wrong response
    miss = probabilities[~right] @ scores[~right] / (1 - p)

    def walk(c, n, pending, chance):
        if pending == 0:
            more = rule.more(c, n - c)
            if more == 0:
                credit = RLOO.of_rewards(np.array([1.0] * c + [0.0] * (n - c)))
                return chance * (credit[:c].sum() * hit + credit[c:].sum() * miss) / n
            return walk(c, n, more, chance)
        return walk(c + 1, n + 1, pending - 1, chance * p) + walk(c, n + 1, pending - 1, chance * (1 - p))

    true = true_gradient(probabilities, scores, BINARY)
    got = walk(0, 0, first, 1.0)
    np.testing.assert_allclose(got, rule.scale(p, first) * true, atol=1e-6)
    assert abs(rule.scale(p, first) - 1) > 0.02


def test_the_objective_has_that_gradient():
    """What is enumerated above is what the loss does: (1/B) sum_i A_i grad log pi(o_i)."""
    _, scores = policy(12)
    logits = torch.randn(4, 3, generator=torch.Generator().manual_seed(12), dtype=torch.float64, requires_grad=True)
    outcome = [0, 5, 7]
    table = torch.log_softmax(logits, dim=1)
    logp = torch.stack(
        [torch.stack([table[0, RESPONSES[o][0]], table[1 + RESPONSES[o][0], RESPONSES[o][1]]]) for o in outcome]
    )
    (credited,) = RLOO()([make_scored(list(GRADED[outcome]), lengths=[2, 2, 2])])
    assert len(group_rows(credited)) == 3
    values = torch.tensor(values_of(credited), dtype=torch.float64)
    inputs = LossInputs(
        logp=logp, entropy=None, advantage=values[:, None].expand(-1, 2), trained=torch.ones(3, 2).bool(),
        segment=torch.arange(3)[:, None].expand(-1, 2), old_logp=logp.detach(), ref_logp=None,
        totals=Totals(tokens=6, sequences=3, groups=1),
    )  # fmt: skip
    loss = Objective(policy=Reinforce(), aggregation=SequenceSum())(inputs).loss
    (gradient,) = torch.autograd.grad(loss, logits)
    np.testing.assert_allclose(-gradient.flatten(), values.numpy() @ scores[outcome] / 3, atol=1e-9)
