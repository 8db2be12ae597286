import copy
import math
from dataclasses import replace

import pytest
import torch

from covey.advantages import GRPO
from covey.errors import MismatchError
from covey.learner.learner import Learner, Limits
from covey.learner.optimizer import OptimizerKnobs
from covey.learner.schedule import Schedule
from covey.loop.update import UpdatePlan, old_policy, train_on
from covey.losses import CPGD, Kimi, KLCov, PPOClip, PromptMean, SequenceMean, TopEntropy
from covey.losses.objective import Objective
from covey.testing.samples import make_scored, random_llama
from covey.types import CreditedGroup


def learner_of(model=None, limits=None, lr=1e-2, policy=None, **terms):
    objective = Objective(policy=policy or PPOClip(), aggregation=SequenceMean(), **terms)
    return Learner(
        model or random_llama(), objective, Schedule(peak=lr, steps=10), OptimizerKnobs(max_grad_norm=1e9), limits
    )


def groups(learner=None, count=4):
    """Groups whose sampler's log-probs are the learner's own, if one is given."""
    made = GRPO()([make_scored([1, 0, i / 8], uid=str(i), lengths=[2, 6, 4]) for i in range(count)])
    return made if learner is None else [sampled_by(learner, group) for group in made]


def sampled_by(learner, group):
    from covey.batching.pad import pad_rows
    from covey.batching.rows import bare_rows
    from covey.learner.logprobs import token_logps

    members = []
    for row in bare_rows(group.scored):
        micro = pad_rows([row])
        with torch.no_grad():
            logp = token_logps(learner.model, micro)[0][0].numpy()
        member = row.trajectory
        kept = member.logp.copy()
        kept[member.sampled] = logp[member.sampled]
        members.append(replace(member, logp=kept))
    scored = replace(group.scored, group=replace(group.scored.group, members=tuple(members)))
    return CreditedGroup(scored=scored, advantages=group.advantages, signal=group.signal)


def train(learner, batch, **plan):
    return train_on(learner, batch, UpdatePlan(tokens_per_microbatch=40, **plan), at=0, seed=(0, 0))


def test_one_update_needs_no_old_log_probs():
    learner = learner_of()
    done = train(learner, groups())
    assert (done.old, len(done.updates), done.left_out, learner.version) == ("current", 1, 0, 1)
    assert all(micro.old_logp is None for micro in done.batches[0].micro)
    assert done.updates[0].metrics["ratio/max"] == 1.0


def test_the_samplers_log_probs_serve_where_they_agree():
    learner = learner_of()
    done = train(learner, groups(learner), passes=2)
    assert done.old == "sampler"
    assert done.updates[0].metrics["ratio/max"] == pytest.approx(1.0, abs=1e-5)
    assert done.updates[1].metrics["kl/old"] > 1e-6


def test_a_sampler_that_disagrees_makes_a_pass_necessary():
    learner = learner_of()
    done = train(learner, groups(), passes=2)  # made-up log-probs of -0.5
    assert done.old == "recompute"
    assert done.updates[0].metrics["ratio/max"] == pytest.approx(1.0, abs=1e-5)
    assert done.updates[0].metrics["sampler/gap_max"] > 0.1


@pytest.mark.parametrize("choice", ["sampler", "recompute"])
def test_the_choice_can_be_made_for_good(choice):
    learner = learner_of()
    assert old_policy(learner, [], UpdatePlan(passes=2, old=choice)) == choice
    assert old_policy(learner, [], UpdatePlan(old="recompute")) == "current"  # one update: the same thing, for nothing


def test_mini_batches_have_their_own_denominators_and_lose_nothing():
    learner = learner_of()
    done = train(learner, groups(learner), minibatches=3, passes=2)
    assert len(done.updates) == 6
    assert sorted(batch.totals.groups for batch in done.batches) == [1, 1, 2]
    assert sum(batch.totals.sequences for batch in done.batches) == done.sequences == 12
    assert sum(batch.totals.tokens for batch in done.batches) == done.tokens == 48
    assert learner.version == 6


def test_more_mini_batches_than_groups_are_as_many_as_groups():
    assert len(train(learner_of(), groups(count=2), minibatches=5).updates) == 2


def test_mini_batches_do_not_depend_on_anything_but_the_seed():
    weights = []
    for seed in ((0, 0), (0, 0), (0, 1)):
        learner = learner_of()
        train_on(learner, groups(learner), UpdatePlan(minibatches=2, passes=2), at=0, seed=seed)
        weights.append(torch.cat([p.detach().flatten() for p in learner.model.parameters()]))
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_early_stop_counts_what_it_leaves_out():
    learner = learner_of(lr=3e-5, limits=Limits(stop_kl=1e-2))
    done = train(learner, groups(learner), passes=30)
    assert 1 < len(done.updates) < 30
    assert done.left_out == 30 - len(done.updates)
    assert learner.version == len(done.updates)
    assert all(update.metrics["kl/old"] <= 1e-2 for update in done.updates)  # what exceeds it is not applied


@pytest.mark.parametrize("limits", [Limits(gap_mean=0.01), Limits(gap_max=0.1)])
def test_a_sampler_beyond_the_limit_stops_with_the_weights_untouched(limits):
    learner = learner_of(limits=limits)
    before = copy.deepcopy(learner.model.state_dict())
    with pytest.raises(MismatchError, match="do not agree on the log-probs"):
        train(learner, groups())
    for name, tensor in learner.model.state_dict().items():
        assert torch.equal(tensor, before[name])
    assert train(learner, groups(learner)).updates[0].version == 1  # an agreeing one goes through


def test_a_lost_log_prob_breaks_every_limit():
    learner = learner_of(limits=Limits(gap_mean=0.01))
    batch = groups(learner)
    batch[0].scored.group.members[0].logp[-1] = math.nan
    with pytest.raises(MismatchError):
        train(learner, batch)


def test_drift_in_later_updates_is_no_mismatch():
    learner = learner_of(limits=Limits(gap_mean=1e-4), lr=0.05)
    assert len(train(learner, groups(learner), passes=3).updates) == 3


def test_over_the_kl_limit_the_gradient_is_scaled_or_left_out():
    plain, limited, skipped = learner_of(), learner_of(limits=Limits(kl=1e-3)), learner_of(limits=Limits(kl_skip=1e-3))
    batch = groups()  # the made-up sampler is far off
    first = train(plain, batch).updates[0]
    divergence = first.metrics["sampler/kl_k3"]
    assert divergence > 1e-3
    assert first.metrics["update/weight"] == 1.0
    assert train(limited, batch).updates[0].metrics["update/weight"] == pytest.approx(1e-3 / divergence)
    left = train(skipped, batch).updates[0]
    assert left.skipped
    assert skipped.version == 0


def test_the_scaled_gradient_is_the_gradient_scaled():
    """With SGD-like knobs: the first Adam step is scale-free, so the moments are compared."""
    plain, limited = learner_of(), learner_of(limits=Limits(kl=1e-3))
    weight = train(limited, groups()).updates[0].metrics["update/weight"]
    train(plain, groups())
    for p, q in zip(plain.model.parameters(), limited.model.parameters(), strict=True):
        moment = plain.optimizer.state[p]["exp_avg"]
        torch.testing.assert_close(limited.optimizer.state[q]["exp_avg"], moment * weight, rtol=1e-4, atol=1e-9)


def test_an_empty_step_trains_nothing():
    learner = learner_of()
    silent = GRPO()([make_scored([1, 1]), make_scored([None, None])])
    done = train(learner, silent, passes=2, minibatches=2)
    assert all(update.skipped for update in done.updates)
    assert (learner.version, done.tokens) == (0, 0)
    assert train(learner, [], minibatches=2).updates[0].skipped
    assert not train(learner, []).metrics.get("loss")


def test_metrics_are_of_all_mini_batches_of_the_last_pass():
    learner = learner_of()
    mixed = groups(learner, count=1)
    silent = GRPO()([make_scored([1, 1], uid=str(i)) for i in range(3)])
    done = train(learner, [*silent, *mixed], minibatches=4)
    assert sum(update.skipped for update in done.updates) == 3
    assert done.metrics["grad_norm"] == max(update.grad_norm for update in done.updates) > 0
    assert done.metrics["ratio/max"] == pytest.approx(1.0, abs=1e-5)
    learner = learner_of(lr=0.05)
    done = train(learner, groups(learner), minibatches=2, passes=2)
    last = done.updates[-2:]
    assert done.metrics["loss"] == pytest.approx(sum(update.metrics["loss"] for update in last) / 2)
    assert done.metrics["ratio/max"] == max(update.metrics["ratio/max"] for update in last)
    assert done.metrics["sampler/gap_max"] == done.updates[0].metrics["sampler/gap_max"] < 1e-5


def test_later_updates_are_limited_by_how_far_they_went():
    learner = learner_of(limits=Limits(kl_skip=1e-3), lr=0.05)
    for old in ("sampler", "recompute"):
        done = train(learner, groups(learner), passes=4, old=old)
        assert [update.skipped for update in done.updates] == [False, True, True, True]
    limited = learner_of(limits=Limits(kl=1e-3), lr=0.05)
    weights = [
        update.metrics["update/weight"] for update in train(limited, groups(limited), passes=3, old="sampler").updates
    ]
    assert weights[0] == 1.0
    assert max(weights[1:]) < 1.0


def test_the_probe_looks_at_long_responses_too():
    """Short ones agree, long ones do not: with the smallest micro-batch alone it would go unseen."""
    for budget in (1, 40, 1000):
        learner = learner_of()
        batch = groups(learner)
        batch[0].scored.group.members[1].logp[-1] -= 3.0
        plan = UpdatePlan(passes=2, tokens_per_microbatch=budget)
        assert train_on(learner, batch, plan, at=0, seed=(0,)).old == "recompute"


def test_a_sampler_beyond_the_limit_is_found_whatever_the_old_policy_is():
    for old in ("sampler", "recompute", "auto"):
        with pytest.raises(MismatchError):
            train(learner_of(limits=Limits(gap_max=0.1)), groups(), passes=2, old=old)


@pytest.mark.parametrize("loss", [Kimi(tau=0.5), CPGD(drift_coef=0.5), KLCov(share=0.5)])
def test_losses_that_pull_where_there_is_no_advantage_see_silent_groups(loss):
    learner = learner_of(policy=loss)
    silent = GRPO()([make_scored([1, 1], uid="s", lengths=[3, 3])])
    done = train(learner, [*groups(learner), *[sampled_by(learner, g) for g in silent]], passes=2)
    assert done.tokens == 4 * 12 + 6


def test_a_survey_makes_the_pass_it_needs():
    learner = learner_of(policy=TopEntropy(share=0.25))
    done = train(learner, groups(learner))
    assert done.batches[0].micro[0].old_entropy is not None
    assert done.updates[0].metrics["top_entropy/share"] == pytest.approx(0.25, abs=0.15)


def test_prompt_mean_through_the_learner_does_not_depend_on_the_split():
    norms = []
    for budget in (1000, 20, 1):
        learner = learner_of(random_llama().double())
        learner.objective = replace(learner.objective, aggregation=PromptMean())
        plan = UpdatePlan(tokens_per_microbatch=budget)
        uneven = GRPO()([make_scored([1, 0], lengths=[2, 6]), make_scored([0, 1, 0, 1], uid="q", lengths=[1, 2, 3, 9])])
        norms.append(train_on(learner, uneven, plan, at=0, seed=(0,)).updates[0].grad_norm)
    assert norms == pytest.approx([norms[0]] * 3, abs=1e-10)
