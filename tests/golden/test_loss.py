"""Losses, aggregations, KL, entropy and corrections against worked examples, to 1e-6 in float64. See cases.json."""

import numpy as np
import pytest
import torch

from covey.controllers.ziegler import Ziegler
from covey.learner.logprobs import token_logps
from covey.losses import (
    CISPO,
    GSPO,
    SAPO,
    TOPR,
    VESPO,
    ConstantLength,
    DualClip,
    GSPOToken,
    KLCov,
    PPOClip,
    SequenceMean,
    SequenceSum,
    TokenMean,
)
from covey.losses.corrections import OPSM, IcePop, SequenceTIS, TokenMIS, TokenTIS
from covey.losses.corrections.apply import mismatch_metrics
from covey.losses.covariance import covariance, survey_means
from covey.losses.kl import ESTIMATORS, k3
from covey.losses.ratio import log_ratio
from covey.testing.loss_samples import inputs_of
from covey.types import MicroBatch

golden = pytest.mark.golden
close = {"rtol": 0, "atol": 1e-6}
f64 = torch.float64


def multipliers(loss, inputs):
    """-dloss/dlog pi of each token of the first row."""
    (gradient,) = torch.autograd.grad(loss(inputs).values.sum(), inputs.logp)
    return -gradient[0].numpy()


def compare(loss, inputs, losses, wanted, kinks=()):
    np.testing.assert_allclose(loss(inputs).values[0].detach(), losses, **close)
    away = [i for i in range(len(wanted)) if i not in kinks]  # at a kink both one-sided derivatives are right
    np.testing.assert_allclose(multipliers(loss, inputs)[away], np.array(wanted)[away], **close)


@golden("L01", "L02", "L03", "L04")
def test_clipped_surrogate(case):
    params, rho = case["params"], case["inputs"]["ratio"]
    bounds = {"clip_low": params["eps_low"], "clip_high": params["eps_high"]}
    loss = DualClip(**bounds, ratio_max=params["dual_clip_c"]) if params["dual_clip_c"] else PPOClip(**bounds)
    kinks = [i for i, r in enumerate(rho) if r in (1 - params["eps_low"], 1 + params["eps_high"])]
    inputs = inputs_of([np.log(rho).tolist()], [case["inputs"]["advantage"]])
    compare(loss, inputs, case["expected"]["loss"], case["expected"]["neg_dloss_dlogp"], kinks)


@golden("L05")
def test_aggregations(case):
    inputs, expected = inputs_of(case["inputs"]["log_ratio"], case["inputs"]["advantages"]), case["expected"]
    values = PPOClip(clip_low=case["params"]["eps"], clip_high=case["params"]["eps"])(inputs).values
    np.testing.assert_allclose(values[inputs.trained].detach(), np.concatenate(expected["token_losses"]), **close)
    for aggregation, name in (
        (SequenceMean(), "seq_mean_token_mean"),
        (TokenMean(), "token_mean"),
        (ConstantLength(length=case["params"]["L_max"]), "dr_grpo"),
        (SequenceSum(), "seq_mean_token_sum"),
    ):
        assert aggregation(values, inputs).item() == pytest.approx(expected[name], abs=1e-9)


@golden("L07")
def test_one_ratio_a_response(case):
    expected, row = case["expected"], case["inputs"]["log_ratio"]
    bounds = {"clip_low": case["params"]["eps_low"], "clip_high": case["params"]["eps_high"]}
    for loss in (GSPO(**bounds), GSPOToken(**bounds)):
        for advantage, value, pull in (
            (1.0, expected["loss_pos"], expected["grad_pos_per_token"]),
            (-1.0, expected["loss_neg"], expected["neg_dloss_dlogp_neg_per_token"]),
        ):
            inputs = inputs_of([row], [advantage])
            total = SequenceMean()(loss(inputs).values, inputs)
            (gradient,) = torch.autograd.grad(total, inputs.logp)
            assert total.item() == pytest.approx(value, abs=1e-9)
            np.testing.assert_allclose(-gradient[0], [pull] * 3, **close)
    wide = GSPO(clip_low=0.5, clip_high=0.5)(inputs_of([row], [1.0])).values
    np.testing.assert_allclose(-wide[0].detach(), [expected["s"]] * 3, **close)
    whole = SequenceTIS(ratio_max=10.0)(torch.tensor([row], dtype=f64), inputs_of([row], [1.0]))
    np.testing.assert_allclose(whole[0], [expected["product_ratio"]] * 3, **close)


@golden("L08")
def test_capped_weight(case):
    inputs, expected = case["inputs"], case["expected"]
    streams = inputs_of([np.log(inputs["ratio"]).tolist()], [inputs["advantage"]], logp=[inputs["logp"]])
    low, high = case["params"]["bounds"]
    for loss, name in (
        (CISPO(ratio_max=case["params"]["ratio_max"]), "capped"),
        (CISPO(ratio_min=low, ratio_max=high), "bounded"),
    ):
        compare(loss, streams, expected[f"loss_{name}"], expected[f"multiplier_{name}"])


@golden("L09", "L10")
def test_soft_gate(case):
    loss = SAPO(tau_positive=case["params"]["tau"], tau_negative=case["params"]["tau"])
    inputs = inputs_of([np.log(case["inputs"]["ratio"]).tolist()], [case["inputs"]["advantage"]])
    compare(loss, inputs, case["expected"]["loss"], case["expected"]["neg_dloss_dlogp"])


@golden("L12")
def test_covariance(case):
    inputs = inputs_of([[0.0] * 4], [case["inputs"]["advantages"]], logp=[case["inputs"]["logp"]])
    found = covariance(inputs, survey_means(inputs))[0]
    np.testing.assert_allclose(found, case["expected"]["cov"], **close)
    assert found.mean().item() == pytest.approx(case["expected"]["mean_cov"], abs=1e-9)
    bound = KLCov(share=case["params"]["kl_cov_top"] / 4).survey(inputs)["cov_bound"]
    assert (found >= bound).nonzero().flatten().tolist() == [case["expected"]["kl_cov_index"]]


@golden("L13")
def test_tapered_weight_of_wrong_answers(case):
    now, then = case["inputs"]["seq_logp"], case["inputs"]["seq_logp_behaviour"]
    halves = [[a / 2, a / 2] for a in now]  # two tokens a response
    ratios = [[(a - b) / 2] * 2 for a, b in zip(now, then, strict=True)]
    inputs = inputs_of(ratios, case["inputs"]["reward"], logp=halves)
    values = TOPR()(inputs).values.sum(1)
    np.testing.assert_allclose(values.detach(), case["expected"]["loss"], **close)
    (gradient,) = torch.autograd.grad(values.sum(), inputs.logp)
    np.testing.assert_allclose(gradient[:, 0].abs(), case["expected"]["weight"], **close)


@golden("L14")
def test_smooth_weight(case):
    params, log_w = case["params"], torch.tensor(case["inputs"]["seq_ratio"], dtype=f64).log()
    loss = VESPO(
        k_positive=params["k_pos"], lambda_positive=params["lambda_pos"],
        k_negative=params["k_neg"], lambda_negative=params["lambda_neg"],
    )  # fmt: skip
    np.testing.assert_allclose(loss.phi(log_w, torch.ones(3).bool()), case["expected"]["phi_pos"], **close)
    np.testing.assert_allclose(loss.phi(log_w, torch.zeros(3).bool()), case["expected"]["phi_neg"], **close)


@golden("L15")
def test_on_policy_the_loss_is_no_measure_of_progress(case):
    inputs = inputs_of([[0.0] * length for length in case["inputs"]["lengths"]], case["inputs"]["advantages"])
    for aggregation, value, pull in (
        (SequenceMean(), "seq_mean_token_mean", "neg_dloss_dlogp_seq"),
        (TokenMean(), "token_mean", "neg_dloss_dlogp_token"),
    ):
        loss = aggregation(PPOClip()(inputs).values, inputs)
        (gradient,) = torch.autograd.grad(loss, inputs.logp)
        assert loss.item() == pytest.approx(case["expected"][value], abs=1e-9)
        np.testing.assert_allclose(-gradient[:, 0], case["expected"][pull], **close)


@golden("K01")
def test_kl_estimates(case):
    pi, ref = (torch.tensor(case["inputs"][name], dtype=f64) for name in ("pi", "ref"))
    expected, ratio = case["expected"], pi.log() - ref.log()
    for name in ("k1", "k2", "k3"):
        values = ESTIMATORS[name](ratio)
        np.testing.assert_allclose(values, expected[name], **close)
        assert (pi * values).sum().item() == pytest.approx(expected[f"E_{name}"], abs=1e-9)
        if name != "k2":
            variance = (pi * values.square()).sum() - (pi * values).sum().square()
            assert variance.item() == pytest.approx(expected[f"var_{name}"], abs=1e-9)
    assert expected["E_k1"] == expected["kl_exact"]


@golden("K02")
def test_kl_gradients_on_policy(case):
    pi, ref = (torch.tensor(case["inputs"][name], dtype=f64) for name in ("pi", "ref"))
    logits = pi.log().requires_grad_()

    def gradient(values):  # of the expectation under pi, which as the sampler has no gradient
        return torch.autograd.grad((pi * values).sum(), logits)[0].numpy()

    def ratio():
        return torch.log_softmax(logits, 0) - ref.log()

    for name in ("k1", "k2", "k3"):
        np.testing.assert_allclose(
            gradient(ESTIMATORS[name](ratio())), case["expected"][f"E_grad_{name}_as_loss"], **close
        )
    straight = gradient(ESTIMATORS["straight_through"](ratio()))
    np.testing.assert_allclose(straight, case["expected"]["grad_kl"], **close)
    np.testing.assert_allclose(ESTIMATORS["straight_through"](ratio()).detach(), k3(ratio()).detach(), **close)
    for name in ("k1", "k3"):
        penalty = ESTIMATORS[name](ratio()).detach()
        in_reward = gradient(penalty * torch.log_softmax(logits, 0))
        np.testing.assert_allclose(in_reward, case["expected"][f"{name}_in_reward"], **close)


@golden("K04")
def test_adaptive_coefficient(case):
    params = case["params"]
    controller = Ziegler(first=case["inputs"]["beta0"], target=params["target"], horizon=params["horizon"])
    for kl, beta in zip(case["inputs"]["kl_sequence"], case["expected"]["beta"], strict=True):
        controller.observe({"kl/ref": kl, "sequences/trained": float(params["n_steps"])}, 0)
        assert controller.coef(0, 1) == pytest.approx(beta, abs=1e-12)


@golden("K06")
def test_k3_grows_like_the_ratio_and_is_bounded(case):
    for ahead, value, pull in zip(
        case["inputs"]["ref_minus_logp"], case["expected"]["k3"], case["expected"]["neg_dk3_dlogp"], strict=True
    ):
        logp = torch.zeros(1, dtype=f64, requires_grad=True)
        found = k3(log_ratio(logp, torch.full((1,), ahead, dtype=f64), torch.ones(1, dtype=torch.bool)))
        assert found.item() == pytest.approx(value, rel=1e-9, abs=1e-9)
        (gradient,) = torch.autograd.grad(found.sum(), logp)
        assert -gradient.item() == pytest.approx(pull, rel=1e-9, abs=1e-9)


@golden("E01")
def test_exact_entropy(case):
    logits = torch.tensor(case["inputs"]["logits"], dtype=f64, requires_grad=True)

    class Fixed(torch.nn.Module):
        def forward(self, input_ids, **_):
            return type("Out", (), {"logits": logits.expand(*input_ids.shape, -1)})

    micro = one_row([0, 0, 1, 2, 3])
    logp, entropy = token_logps(Fixed(), micro, entropy_grad=True)
    drawn = logp[micro.trained]
    p, expected = drawn.exp().detach(), case["expected"]
    np.testing.assert_allclose(p, expected["p"], **close)
    np.testing.assert_allclose(-drawn.detach(), expected["sampled_estimates"], **close)
    assert entropy[0, 1].item() == pytest.approx(expected["H"], abs=1e-9)
    assert -(p * drawn.detach()).sum().item() == pytest.approx(expected["E_sampled"], abs=1e-9)
    (gradient,) = torch.autograd.grad(entropy[0, 1], logits, retain_graph=True)
    np.testing.assert_allclose(gradient, expected["dH_dlogits"], **close)
    (noise,) = torch.autograd.grad((p * -drawn).sum(), logits, retain_graph=True)
    np.testing.assert_allclose(noise, expected["E_grad_of_minus_logp"], **close)
    (scored,) = torch.autograd.grad((p * -drawn.detach() * drawn).sum(), logits)
    np.testing.assert_allclose(scored, expected["score_form"], **close)


def one_row(tokens):
    """A micro-batch of one row whose first token is the prompt."""
    shape = (1, len(tokens))
    trained = torch.arange(len(tokens))[None] > 0
    ones = torch.ones(shape)
    return MicroBatch(
        tokens=torch.tensor([tokens]), attended=ones.bool(), positions=torch.arange(len(tokens))[None],
        segment=torch.zeros(shape, dtype=torch.int64), trained=trained, advantage=ones, behavior_logp=ones,
        temperature=ones, weight=ones, group_tokens=torch.full(shape, len(tokens) - 1),
    )  # fmt: skip


@golden("O01")
def test_weights_for_the_sampler(case):
    rho, expected, params = case["inputs"]["ratio_train_over_rollout"], case["expected"], case["params"]
    log_w = torch.tensor([rho], dtype=f64).log()
    inputs = inputs_of([log_w[0].tolist()], [1.0])
    low, high = params["icepop"]
    for correction, name in (
        (TokenTIS(ratio_max=params["C"]), "tis"),
        (TokenMIS(ratio_max=params["C"]), "mis_upper_only"),
        (IcePop(ratio_min=low, ratio_max=high), "icepop"),
    ):
        np.testing.assert_allclose(correction(log_w, inputs)[0], expected[name], **close)
    assert SequenceTIS(ratio_max=100.0)(log_w, inputs)[0, 0].item() == pytest.approx(expected["seq_product"], abs=1e-9)
    assert SequenceTIS(ratio_max=params["C"])(log_w, inputs)[0, 0].item() == expected["seq_tis"]
    metrics = mismatch_metrics(log_w, inputs)
    assert metrics["sampler/ess"].value * len(rho) == pytest.approx(expected["ess"], abs=1e-9)
    assert metrics["sampler/chi2_token"].value == pytest.approx(expected["chi2_token"], abs=1e-9)
    assert 1 / metrics["sampler/ppl_ratio"].value == pytest.approx(expected["geo_mean"], abs=1e-9)


@golden("O02")
def test_metrics_of_the_mismatch(case):
    train, roll = (torch.tensor([case["inputs"][name]], dtype=f64) for name in ("logp_train", "logp_rollout"))
    found = mismatch_metrics(train - roll, inputs_of([(train - roll)[0].tolist()], [1.0]))
    expected = case["expected"]
    for metric, name in (
        ("sampler/kl_k1", "kl_k1"),
        ("sampler/kl_k3", "kl_k3"),
        ("sampler/ppl_ratio", "ppl_ratio"),
        ("sampler/chi2_token", "chi2_token"),
        ("sampler/gap_max", "max_abs"),
    ):
        assert found[metric].value == pytest.approx(expected[name], abs=1e-9)
    assert 1 / found["sampler/ppl_ratio"].value == pytest.approx(expected["geo_ratio"], abs=1e-9)


@golden("O04")
def test_far_off_wrong_answers_are_dropped(case):
    old, now = (np.array(case["inputs"][name]) for name in ("logp_old", "logp"))
    inputs = inputs_of((now - old).tolist(), case["inputs"]["advantages"], logp=now.tolist())
    weights = OPSM(delta=case["params"]["delta"])(torch.zeros(3, 2, dtype=f64), inputs)
    assert weights.tolist() == [[keep] * 2 for keep in case["expected"]["keep"]]
    np.testing.assert_allclose((old - now).mean(1), case["expected"]["seq_kl"], **close)
