"""The flat recipe and the library have the same numbers."""

import ast
import inspect
from dataclasses import replace

import numpy as np
import pytest
import torch

from covey.advantages import GRPO
from covey.batching.layout import pad
from covey.learner.learner import Learner
from covey.learner.schedule import Schedule
from covey.losses import PPOClip, SequenceMean
from covey.losses.objective import Objective
from covey.recipes import nano_grpo
from covey.testing.samples import make_scored, random_llama, values_of

STEPS, PEAK, WARMUP, FINAL = 3, 5e-3, 2, 0.1
RECORDED = [
    [([1.0, 0.0, 0.0, None], [2, 6, 4, 3]), ([0.0, 1.0, 1.0, 0.0], [5, 1, 3, 3])],
    [([1.0, 1.0, 1.0, 1.0], [2, 2, 2, 2]), ([0.5, 0.25, 1.0, 0.0], [3, 4, 5, 6])],
    [([0.0, 1.0], [7, 2]), ([None, 1.0, 0.0], [1, 2, 3])],
]


def recorded_steps():
    return [
        [make_scored(rewards, uid=f"{step}-{i}", lengths=lengths) for i, (rewards, lengths) in enumerate(groups)]
        for step, groups in enumerate(RECORDED)
    ]


def nano_batch(groups, keep_silent):
    rows, judged = [], 0
    for group in groups:
        credit = nano_grpo.advantages([score.total for score in group.scores])
        for member, score, value in zip(group.group.members, group.scores, credit, strict=True):
            if score.total is None:
                continue
            judged += 1
            if keep_silent or any(credit):
                drawn = member.sampled
                answer = list(zip(member.tokens[drawn].tolist(), member.logp[drawn].tolist(), strict=True))
                rows.append((member.tokens[~drawn].tolist(), answer, value))
    return nano_grpo.make_batch(rows), judged


@pytest.mark.parametrize("terms", [{}, {"kl_coef": 0.05, "entropy_coef": 0.01}], ids=["plain", "kl+entropy"])
def test_losses_gradients_and_weights_agree_over_three_steps(terms):
    theirs, ours = random_llama().double(), random_llama().double()  # Adam makes rounding of tiny gradients visible
    with torch.no_grad():  # the reference is not the start, so that KL pulls from the first step
        moved = [0.02 * torch.randn_like(p) for p in theirs.parameters()]
    objective = Objective(policy=PPOClip(), aggregation=SequenceMean(), **terms)
    schedule = Schedule(peak=PEAK, steps=STEPS, warmup=WARMUP, decay="linear", final_fraction=FINAL)
    learner = Learner(ours, objective, schedule)
    reference = random_llama().double().requires_grad_(False) if terms else None
    for model in (theirs, ours):
        with torch.no_grad():
            for p, m in zip(model.parameters(), moved, strict=True):
                p.add_(m)
    optimizer = nano_grpo.make_optimizer(theirs, PEAK)
    for step, groups in enumerate(recorded_steps()):
        batch, judged = nano_batch(groups, bool(terms))
        lr = nano_grpo.learning_rate(step, STEPS, PEAK, WARMUP, FINAL)
        assert lr == pytest.approx(schedule(step), rel=1e-12)
        loss = nano_loss(theirs, reference, batch, judged, terms)
        norm = nano_grpo.update(theirs, optimizer, reference, [batch], judged, lr, 1.0, **terms)
        annotated = learner.annotate(pad(GRPO()(groups), 25, keep_silent=bool(terms)))
        assert len(annotated.micro) > 1
        result = learner.step(annotated, step)
        assert result.metrics["loss"] == pytest.approx(loss, abs=1e-10)
        assert result.grad_norm == pytest.approx(norm, rel=1e-9)
        for got, expected in zip(ours.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(got, expected, rtol=0, atol=1e-8)


def nano_loss(model, reference, batch, judged, terms):
    with torch.no_grad():
        streams = batch["tokens"], batch["attended"], 1.0
        logp, entropy = nano_grpo.token_logps(model, *streams)
        ref = nano_grpo.token_logps(reference, *streams)[0] if reference is not None else None
        loss = nano_grpo.grpo_loss(logp, logp, ref, entropy, batch["advantage"], batch["trained"], judged, **terms)
    return float(loss)


def test_the_gradients_agree_token_for_token():
    model = random_llama()
    groups = recorded_steps()[0]
    batch, judged = nano_batch(groups, keep_silent=False)
    logp, entropy = nano_grpo.token_logps(model, batch["tokens"], batch["attended"], 0.7)
    nano_grpo.grpo_loss(
        logp, logp.detach(), None, entropy, batch["advantage"], batch["trained"], judged
    ).backward()  # fmt: skip
    expected = [p.grad.clone() for p in model.parameters()]
    learner = Learner(model, Objective(policy=PPOClip(), aggregation=SequenceMean()), Schedule(peak=1.0, steps=1))
    learner.optimizer.zero_grad()
    step = pad(GRPO()(groups), 25)
    for micro in step.micro:
        cooler = replace(micro, temperature=torch.full_like(micro.temperature, 0.7))
        learner._backward(cooler, step.totals, {})
    for p, e in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(p.grad, e, rtol=1e-5, atol=1e-6)


def test_advantages_agree():
    for group in [g for groups in recorded_steps() for g in groups]:
        mine = nano_grpo.advantages([score.total for score in group.scores])
        np.testing.assert_allclose(mine, values_of(GRPO()([group])[0]), atol=1e-6)


def test_masked_cells_may_hold_anything():
    trained = torch.tensor([[False, True, True], [False, True, False]])
    logp = torch.tensor([[9.0, -1.0, -2.0], [9.0, -0.5, 9.0]])
    arguments = [torch.where(trained, x, float("nan")) for x in (logp, logp - 0.1, logp + 0.2, -logp, torch.ones(2, 3))]
    knobs = {"kl_coef": 0.1, "entropy_coef": 0.1}
    clean = nano_grpo.grpo_loss(logp, logp - 0.1, logp + 0.2, -logp, torch.ones(2, 3), trained, 2, **knobs)
    assert nano_grpo.grpo_loss(*arguments, trained, 2, **knobs) == pytest.approx(float(clean))


def test_sampled_log_probs_are_those_of_a_forward_pass(model):
    generator = torch.Generator().manual_seed(0)
    answers = nano_grpo.sample_group(model, {1, 5}, [4, 13, 5], 4, 10, 0.8, generator)
    batch = nano_grpo.make_batch([([4, 13, 5], answer, 1.0) for answer in answers])
    with torch.no_grad():
        logp, _ = nano_grpo.token_logps(model, batch["tokens"], batch["attended"], 0.8)
    torch.testing.assert_close(logp[batch["trained"]], batch["sampler_logp"][batch["trained"]], rtol=0, atol=1e-5)
    assert all(token not in (1, 5) for answer in answers for token, _ in answer[:-1])


def test_it_is_short_and_stands_alone():
    source = inspect.getsource(nano_grpo)
    assert source.count("\n") <= 300
    tops = {"__future__", "argparse", "copy", "random", "re", "torch", "transformers"}
    for node in ast.walk(ast.parse(source)):
        names = [node.module] if isinstance(node, ast.ImportFrom) else [a.name for a in getattr(node, "names", [])]
        if isinstance(node, ast.Import | ast.ImportFrom):
            assert {name.split(".")[0] for name in names} <= tops


def test_it_runs(model_folder, tmp_path, monkeypatch, capsys):
    out = tmp_path / "trained"
    words = f"nano --model {model_folder} --out {out} --steps 2 --prompts 2 --group 3 --limit 6 --kl 0.1"
    monkeypatch.setattr("sys.argv", words.split())
    nano_grpo.main()
    assert capsys.readouterr().out.count("reward") == 2
    assert (out / "model.safetensors").is_file()
