"""Whole short runs: every name of the run file trains, and what remembers earlier steps goes on after a resume."""

import json
import math

import pytest
import torch
from safetensors.torch import load_file

import covey
from covey.advantages import ADVANTAGES, GRPO
from covey.errors import AdvantageError, ConfigError, MismatchError, RewardError
from covey.loop import preflight
from covey.loop.strategies import STRATEGIES
from covey.losses import AGGREGATIONS, LOSSES
from covey.losses.corrections import CORRECTIONS
from covey.metrics.names import describe
from covey.types import CreditedGroup, Part, StepReward

PROMPTS = [f"{a}+{b}=?" for a in range(4) for b in range(4)]


def digits(completions):
    """Share of digits, in [0, 1]: some siblings are better than others."""
    return [min(1.0, sum(ch.isdigit() for ch in c[0]["content"]) / 4) for c in completions]


class Stepwise:
    """The same, a step reward for every character too; right with two digits or more."""

    name = "stepwise"

    async def score_group(self, group, context):
        parts = []
        for member in group.members:
            good = [float(ch.isdigit()) for ch in member.reply]
            steps = tuple(StepReward(end=i + 1, value=value) for i, value in enumerate(good))
            parts.append(Part(value=min(1.0, sum(good) / 4), correct=sum(good) > 1, steps=steps))
        return parts


def run(model_folder, folder, **settings):
    usual = {
        "reward": Stepwise(), "steps": 2, "group_size": 4, "prompts_per_step": 4, "max_new_tokens": 5, "lr": 1e-2,
        "seed": 1, "tokens_per_microbatch": 60, "eval.prompts": 0,
    }  # fmt: skip
    return covey.train(str(model_folder), PROMPTS, dir=str(folder), quiet=True, **{**usual, **settings})


def check(result, model_folder):
    """The weights moved, and every metric is in the catalogue and finite."""
    before, after = (load_file(path / "model.safetensors") for path in (model_folder, result.folder.final))
    assert any(not torch.equal(before[name], tensor) for name, tensor in after.items())
    lines = result.folder.read_metrics()
    for line in lines:
        for name, value in line.items():
            assert name == "step" or describe(name).unit
            assert value is None or math.isfinite(value)
    return lines


@pytest.mark.parametrize("name", ADVANTAGES)
def test_every_advantage_trains(name, model_folder, tmp_path):
    knobs = {"advantage.k": 2} if name == "pass_at_k" else {}
    check(run(model_folder, tmp_path / "run", **{"advantage.name": name, **knobs}), model_folder)


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_trains_in_repeated_updates(name, model_folder, tmp_path):
    result = run(
        model_folder, tmp_path / "run", updates_per_batch=2, minibatches=2,
        **{"loss.name": name, "loss.aggregation": "token_mean"},
    )  # fmt: skip
    for line in check(result, model_folder):
        assert line["update/count"] == 4
        assert line["kl/old"] > 0


@pytest.mark.parametrize("name", AGGREGATIONS)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_aggregation_and_strategy(name, strategy, model_folder, tmp_path):
    result = run(model_folder, tmp_path / "run", **{"loss.aggregation": name, "groups.name": strategy})
    for line in check(result, model_folder):
        assert line["sampling/responses"] >= line["sequences/trained"]
        assert line["tokens/sampled"] >= line["tokens/trained"]


@pytest.mark.parametrize("estimator", ["k1", "k2", "k3", "straight_through", "exact"])
@pytest.mark.parametrize("where", ["loss", "reward"])
def test_every_divergence(estimator, where, model_folder, tmp_path):
    settings = {"kl_coef": 0.1, "estimator": estimator, "where": where, "advantage.name": "rloo"}
    if (estimator, where) == ("exact", "reward"):
        with pytest.raises(ConfigError, match="credits none of them"):
            run(model_folder, tmp_path / "run", **settings)
        assert not (tmp_path / "run").exists()
        return
    lines = check(run(model_folder, tmp_path / "run", **settings), model_folder)
    assert lines[0]["kl/ref"] == pytest.approx(0.0, abs=1e-9)
    assert lines[1]["kl/ref"] > 1e-4
    assert lines[1]["kl/ref_sequence"] > lines[1]["kl/ref"]


@pytest.mark.parametrize("name", CORRECTIONS)
def test_every_correction_leaves_an_agreeing_sampler_alone(name, model_folder, tmp_path):
    """At equal weights they all are 1: the run is the one without."""
    plain, corrected = (
        run(model_folder, tmp_path / key, **{"loss.correction": parts}).folder.read_metrics()
        for key, parts in (("plain", []), ("corrected", [name]))
    )
    assert corrected[-1]["reward/mean"] == plain[-1]["reward/mean"]
    assert corrected[-1]["grad_norm"] == pytest.approx(plain[-1]["grad_norm"], rel=1e-3)
    assert corrected[-1]["correction/weight"] == pytest.approx(1.0, abs=1e-4)
    assert corrected[-1]["correction/dropped"] == 0.0


@pytest.mark.parametrize("control", [{"kl.control": "ziegler", "kl.target": 1e-5}, {"kl.control": "band", "kl.warmup": 0, "kl.low": 1e-6, "kl.high": 2e-6}])  # fmt: skip
def test_the_kl_coefficient_moves(control, model_folder, tmp_path):
    lines = run(model_folder, tmp_path / "run", steps=4, kl_coef=0.1, **control).folder.read_metrics()
    assert lines[0]["kl/coef"] == 0.1
    assert lines[-1]["kl/coef"] > lines[1]["kl/coef"]


def test_entropy_and_temperature_follow_their_schedules(model_folder, tmp_path):
    lines = run(
        model_folder, tmp_path / "run", steps=3, entropy_coef=0.1, temperature_last=0.5,
        temperature_shape="linear", **{"entropy.control": "linear"},
    ).folder.read_metrics()  # fmt: skip
    assert [line["entropy/coef"] for line in lines] == pytest.approx([0.1, 0.05, 0.0])
    assert [line["sampling/temperature"] for line in lines] == pytest.approx([1.0, 0.75, 0.5])
    for line in lines:  # sampler and trainer follow together
        assert line["sampler/gap_max"] < 1e-5
        assert line["ratio/max"] == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("temperature", [0.3, 0.7, 1.0, 1.5])
@pytest.mark.parametrize("old", ["auto", "sampler", "recompute"])
def test_the_first_ratio_is_one_at_every_temperature(temperature, old, model_folder, tmp_path):
    """Old log-probs from the sampler or computed anew: either way an unchanged policy has a ratio of 1."""
    lines = run(
        model_folder,
        tmp_path / "run",
        steps=1,
        updates_per_batch=2,
        old_logp=old,
        lr=0.0,
        **{"sampling.temperature": temperature},
    ).folder.read_metrics()
    seen = lines[0]
    assert seen["ratio/max"] == pytest.approx(1.0, abs=1e-5)
    assert seen["ratio/mean"] == pytest.approx(1.0, abs=1e-5)
    rounding = 1e-5 / min(temperature, 1.0)  # of logits in float32, which the temperature divides
    assert seen["sampler/ratio_max"] == pytest.approx(1.0, abs=rounding)
    assert seen["sampler/ratio_min"] == pytest.approx(1.0, abs=rounding)
    assert seen["clip/low"] == seen["clip/high"] == 0.0


def test_a_reference_that_is_refreshed_is_the_policy_again(model_folder, tmp_path):
    lines = run(model_folder, tmp_path / "run", steps=4, kl_coef=0.1, refresh=2).folder.read_metrics()
    assert lines[1]["kl/ref"] > 1e-4
    assert lines[2]["kl/ref"] == pytest.approx(0.0, abs=1e-9)
    assert lines[3]["kl/ref"] > 1e-4


@pytest.mark.parametrize(
    "settings",
    [
        {"advantage.name": "hybrid_running"},
        {"advantage.name": "spo", "group_size": 1, "updates_per_batch": 2},
        {"groups.name": "predictive"},
        {"groups.name": "reactive", "groups.largest": 8},
        {"groups.name": "refill"},
        {"kl_coef": 0.1, "refresh": 1, "kl.control": "band", "kl.warmup": 0},
        {"kl_coef": 0.1, "where": "reward", "advantage.name": "reinforce_pp", "group_size": 1, "kl.control": "ziegler"},
        {"entropy.control": "adaptive", "entropy.target": 5.0, "minibatches": 2},
        {"precision": "bfloat16", "lr": 1e-4, "gap_mean": 0.0, "gap_max": 0.0},
        {"layout": "padded", "checkpointing": True},
    ],
    ids=lambda settings: "+".join(str(value) for value in settings.values()),
)
def test_a_resumed_run_remembers_what_it_knew(settings, model_folder, tmp_path):
    whole = run(model_folder, tmp_path / "whole", steps=4, save_every=2, **settings)

    broken = Stepwise()
    original = broken.score_group

    async def fails_later(group, context):
        if context.step >= 2:
            raise KeyboardInterrupt
        return await original(group, context)

    broken.score_group = fails_later
    with pytest.raises(KeyboardInterrupt):
        run(model_folder, tmp_path / "half", steps=4, save_every=2, reward=broken, **settings)
    covey.resume(tmp_path / "half", prompts=PROMPTS, reward=Stepwise(), quiet=True)
    for mine, theirs in zip(covey.open_run(tmp_path / "half").read_metrics(), whole.folder.read_metrics(), strict=True):
        for name, value in theirs.items():
            if not name.startswith(("seconds/", "speed/", "memory/")):
                assert mine[name] == value, name
    for name, tensor in load_file(whole.folder.final / "model.safetensors").items():
        assert torch.equal(tensor, load_file(tmp_path / "half" / "final" / "model.safetensors")[name])


def test_a_sampler_of_another_temperature_is_found_before_the_run(model_folder, tmp_path, monkeypatch):
    """The commonest silent fault: the trainer's softmax is not the sampler's."""
    original = preflight.bare_rows
    from dataclasses import replace

    def wrong(group):
        return [replace(row, trajectory=replace(row.trajectory, temperature=0.8)) for row in original(group)]

    monkeypatch.setattr(preflight, "bare_rows", wrong)
    with pytest.raises(MismatchError, match=r"mean difference .* \(limit 0.01\)"):
        run(model_folder, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    run(model_folder, tmp_path / "run", gap_mean=0.0, gap_max=0.0)


def test_an_infinite_reward_stops_the_run_with_the_weights_untouched(model_folder, tmp_path):
    def sometimes(completions, trainer_state):
        return [math.inf if trainer_state.global_step == 1 and i == 0 else 1.0 * i for i in range(len(completions))]

    with pytest.raises(RewardError, match="must be finite"):
        run(model_folder, tmp_path / "run", reward=sometimes, save_every=1, steps=3)
    folder = covey.open_run(tmp_path / "run")
    assert len(folder.read_metrics()) == 1
    saved = load_file(folder.checkpoints / "step-000001" / "model" / "model.safetensors")
    assert all(torch.isfinite(tensor).all() for tensor in saved.values())


def test_dropout_never_makes_two_passes_differ(model_folder, tmp_path):
    config = json.loads((model_folder / "config.json").read_text())
    config["attention_dropout"] = 0.5
    (model_folder / "config.json").write_text(json.dumps(config))
    lines = run(
        model_folder, tmp_path / "run", kl_coef=0.1, updates_per_batch=2, old_logp="recompute", lr=0.0
    ).folder.read_metrics()
    for line in lines:
        assert line["sampler/gap_max"] < 1e-5
        assert line["ratio/max"] == pytest.approx(1.0, abs=1e-5)
        assert line["kl/ref"] == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("tokens", ["answer", "after_reasoning", "all"])
def test_only_chosen_tokens_are_trained(tokens, model_folder, tmp_path):
    lines = run(model_folder, tmp_path / "run", **{"tokens.name": tokens}).folder.read_metrics()
    if tokens == "all":
        assert lines[0]["tokens/trained"] > 0
    else:  # no such text in the answers of a random model: nothing to train, and nothing breaks
        assert lines[0]["tokens/trained"] == 0
        assert lines[0]["update/skipped"] == 1.0
        assert lines[0]["group/too_few"] == 1.0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"group_size": 1}, "fewer than 2 responses none has siblings"),
        ({"advantage.name": "pass_at_k"}, "fewer than 5 responses"),
        ({"advantage.name": "pkpo", "advantage.k": 5}, "fewer than 5 responses"),
        ({"advantage.name": "pkpo", "groups.name": "predictive"}, "groups.smallest = 2"),
        ({"kl_coef": 0.1, "kl.first": 0.5}, "unknown key kl.first"),
        ({"kl_coef": 0.1, "kl.control": "zeigler"}, "unknown kl.control 'zeigler'"),
        ({"kl_coef": 5.0, "kl.control": "band"}, "within floor"),
        ({"entropy_coef": 0.1, "entropy.control": "linear", "entropy.last": -1.0}, "reward certainty"),
        ({"loss.correction": [], "correction_normalize": True}, "nothing to normalise"),
        ({"advantage.name": "spo", "advantage.prior_size": 0.0}, "prior_size > 0"),
        ({"advantage.eps": -1.0}, "advantage 'grpo': eps must be finite and not negative, got -1.0"),
        ({"kl.control": "ziegler"}, "is 0 and would stay 0"),
        ({"loss.correction": ["token_tis", "icepop"]}, "weigh the same ratio twice"),
        ({"loss.correction": ["tokentis"]}, "Did you mean 'token_tis'"),
        ({"loss.name": "topr", "loss.correction": ["icepop"]}, "twice"),
        ({"kl_coef": 0.1, "unbiased": True, "estimator": "exact"}, "unbiased"),
        ({"groups.name": "predictive", "groups.largest": 3}, "groups.largest expected"),
        ({"groups.name": "reactive", "group_size": 32}, "nothing is extended"),
        ({"groups.name": "refill", "group_size": 1, "advantage.name": "rloo"}, "never mixed"),
        ({"advantage.name": "hybrid", "group_size": 1, "prompts_per_step": 1}, "nothing to compare with"),
        ({"advantage.name": "spo", "where": "reward", "kl_coef": 0.1}, "fixed range"),
        ({"advantage.name": "gdpo", "reward.scale": 2.0}, "weigh the parts"),
        ({"loss.name": "reinforce", "old_logp": "sampler"}, "has none"),
        ({"refresh": 2}, "but kl.coef is 0"),
        ({"entropy.control": "cosine"}, "does nothing"),
        ({"kl.control": "ziegler", "kl_coef": 0.1, "kl.horizon": 3.0}, "kl.horizon must be above"),
        ({"loss.name": "topr", "loss.correction": ["token_tis"]}, "twice"),
        ({"groups.name": "refil"}, "Did you mean 'refill'"),
        ({"advantage.name": "rlo"}, "Did you mean 'rloo'"),
        ({"advantage.name": "gdpo", "where": "reward", "kl_coef": 0.1}, "not computed from the total"),
        ({"loss.name": "cispo", "loss.clip_high": 0.2}, "unknown key loss.clip_high"),
        ({"reward.clip": [1.0, 0.0]}, "clip = \\[low, high\\]"),
        ({"entropy.control": "adaptiv"}, "Did you mean 'adaptive'"),
        ({"tokens.name": "answr"}, "Did you mean 'answer'"),
    ],
)  # fmt: skip
def test_contradictions_are_named_before_anything_is_written(settings, message, model_folder, tmp_path):
    with pytest.raises(ConfigError, match=message):
        run(model_folder, tmp_path / "run", **settings)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", [name for name, cls in ADVANTAGES.items() if getattr(cls, "smallest_group", 2) == 1])
def test_one_response_a_prompt_is_enough_for_some(name, model_folder, tmp_path):
    result = run(model_folder, tmp_path / "run", group_size=1, steps=3, **{"advantage.name": name})
    assert any(line["advantage/abs_mean"] > 0 for line in check(result, model_folder))


@pytest.mark.parametrize("returned", [None, "text", [(1,)], [("a", "b")]])
def test_a_token_function_of_ones_own_is_tried_before_the_run(returned, model_folder, tmp_path, monkeypatch):
    import types

    module = types.ModuleType("own_tokens")
    module.choose = lambda reply: returned
    monkeypatch.setitem(__import__("sys").modules, "own_tokens", module)
    with pytest.raises(AdvantageError, match=r"must return \(start, stop\) pairs"):
        run(model_folder, tmp_path / "run", tokens="own_tokens:choose")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (lambda groups: None, "one CreditedGroup for each"),
        (lambda groups: [], "one CreditedGroup for each"),
        (lambda groups: [shortened(g) for g in groups], "one number a token"),
        (lambda groups: [spoiled(g) for g in groups], "not finite for prompt"),
    ],
)
def test_an_advantage_of_ones_own_must_keep_its_word(broken, message, model_folder, tmp_path, monkeypatch):
    import types

    module = types.ModuleType("own_advantage")
    module.Own = type("Own", (), {"__call__": lambda self, groups: broken(groups)})
    monkeypatch.setitem(__import__("sys").modules, "own_advantage", module)
    with pytest.raises(AdvantageError, match=message):
        run(model_folder, tmp_path / "run", advantage="own_advantage:Own")


def shortened(group):
    credited = GRPO()([group])[0]
    return CreditedGroup(scored=group, advantages=tuple(a[:-1] for a in credited.advantages), signal="ok")


def spoiled(group):
    credited = GRPO()([group])[0]
    return CreditedGroup(scored=group, advantages=tuple(a * math.nan for a in credited.advantages), signal="ok")


def test_weights_of_rewards_can_be_given_in_python(model_folder, tmp_path):
    parts = [{"name": "exact_number"}, {"name": "tags", "weight": 0.1}]
    rows = [{"prompt": prompt, "answer": "1"} for prompt in PROMPTS]
    settings = {"steps": 1, "group_size": 4, "max_new_tokens": 4, "eval.prompts": 0, "reward.parts": parts}
    result = covey.train(str(model_folder), rows, dir=str(tmp_path / "run"), quiet=True, **settings)
    assert 'weight" = 0.1' in result.folder.config.read_text()
    with pytest.raises(ConfigError, match="say the same thing"):
        covey.train(str(model_folder), rows, "tags", dir=str(tmp_path / "other"), quiet=True, **settings)


def test_equal_answers_are_no_signal_while_the_policy_is_the_reference(model_folder, tmp_path):
    """The penalty of step 0 is rounding noise: it must not make siblings differ."""
    lines = run(
        model_folder, tmp_path / "run", steps=1, reward=lambda completions: [1.0] * len(completions),
        kl_coef=0.5, where="reward", estimator="k1", **{"advantage.name": "rloo"},
    ).folder.read_metrics()  # fmt: skip
    assert lines[0]["group/ok"] == 0.0
    assert lines[0]["update/skipped"] == 1.0


def test_a_stopped_update_tells_how_far_the_policy_was(model_folder, tmp_path):
    (line, *_) = run(model_folder, tmp_path / "run", steps=1, updates_per_batch=9, stop_kl=1e-6).folder.read_metrics()
    assert line["update/left_out"] > 0
    assert line["kl/old"] > 1e-6


def test_over_the_kl_limit_the_policy_moves_less(model_folder, tmp_path):
    """Adam is blind to the size of a gradient: scaling it alone would limit nothing."""
    moved = []
    for name, limit in (("free", 0.0), ("limited", 1e-6)):
        result = run(model_folder, tmp_path / name, steps=1, updates_per_batch=4, kl_limit=limit)
        before, after = (load_file(path / "model.safetensors") for path in (model_folder, result.folder.final))
        moved.append(max(float((before[key] - tensor).abs().max()) for key, tensor in after.items()))
    assert moved[1] < 0.6 * moved[0]
