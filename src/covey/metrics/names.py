"""The catalogue: every metric of ``metrics.jsonl`` once, with its unit, its meaning and where it should lie."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MetricName:
    """What one name means. ``healthy`` is a range or trend in words; empty where none can be stated in general."""

    unit: str
    meaning: str
    healthy: str = ""


METRICS: dict[str, MetricName] = {
    "reward/mean": MetricName("reward", "mean total reward of judged responses", "rises"),
    "reward/part/*": MetricName("reward", "mean of one reward part over responses it judged", "rises"),
    "reward/logged/*": MetricName("any", "mean of a value that a reward function logged in this step"),
    "reward/failed": MetricName("share", "responses that a reward failed to judge", "0"),
    "reward/unjudged": MetricName("share", "responses without a total reward, failed ones included", "near 0"),
    "pass_rate": MetricName("share", "judged responses that are correct, whatever shaping is added", "rises"),
    "group/ok": MetricName("share", "groups with a learning signal", "above 0.3"),
    "group/all_right": MetricName("share", "groups whose responses are all correct", "below 0.7"),
    "group/all_wrong": MetricName("share", "groups whose responses are all wrong", "below 0.7"),
    "group/zero_variance": MetricName("share", "groups with equal rewards of mixed or unknown correctness"),
    "group/too_few": MetricName("share", "groups with fewer than two judged responses", "0"),
    "group/reward_std": MetricName("reward", "mean over groups of the sample standard deviation of rewards", "above 0"),
    "group/distinct": MetricName("share", "different response texts in a group, mean over groups", "above 0.3"),
    "advantage/mean": MetricName("advantage", "mean over judged responses", "near 0"),
    "advantage/abs_mean": MetricName("advantage", "mean absolute value over judged responses", "above 0"),
    "length/mean": MetricName("tokens", "sampled tokens a response"),
    "length/p95": MetricName("tokens", "95th percentile of sampled tokens"),
    "length/max": MetricName("tokens", "longest response"),
    "length/truncated": MetricName("share", "responses that ran into the token limit", "below 0.05"),
    "loss": MetricName("nats", "the step's loss; near 0 by construction when on policy, so no sign of progress"),
    "grad_norm": MetricName("1", "gradient norm before clipping", "below 10"),
    "lr": MetricName("1", "learning rate of the step"),
    "update/skipped": MetricName("count", "updates without effect: nothing to learn, or a non-finite gradient", "0"),
    "entropy": MetricName("nats", "exact entropy a trained token at the sampling temperature", "falls slowly"),
    "kl/ref": MetricName("nats", "k3 estimate of KL(policy, reference) a trained token", "0.01 to 0.5"),
    "kl/old": MetricName("nats", "k3 estimate of KL to the policy before this batch, a trained token", "below 0.05"),
    "clip/low": MetricName("share", "trained tokens clipped at the lower bound", "below 0.1"),
    "clip/high": MetricName("share", "trained tokens clipped at the upper bound", "below 0.1"),
    "ratio/mean": MetricName("1", "mean ratio of new to old policy over trained tokens", "0.9 to 1.1"),
    "ratio/max": MetricName("1", "largest ratio of new to old policy", "below 5"),
    "sampler/gap_max": MetricName(
        "nats", "largest difference of trainer and sampler log-prob before updates", "< 1e-3"
    ),
    "sampler/gap_mean": MetricName("nats", "mean absolute difference of trainer and sampler log-prob", "< 1e-4"),
    "sampler/ratio_mean": MetricName("1", "mean ratio of trainer to sampler before updates", "1 to 1e-4"),
    "tokens/sampled": MetricName("tokens", "tokens sampled in this step"),
    "tokens/trained": MetricName("tokens", "sampled tokens that were forwarded and trained on"),
    "tokens/total": MetricName("tokens", "tokens sampled since the run began, evaluation not counted"),
    "seconds/sample": MetricName("s", "sampling"),
    "seconds/score": MetricName("s", "rewards and advantages"),
    "seconds/train": MetricName("s", "batching, annotation and updates"),
    "seconds/step": MetricName("s", "the whole step without evaluation and checkpoints"),
    "speed/sampled": MetricName("tokens/s", "sampled tokens over sampling time"),
    "memory/peak": MetricName("MiB", "peak resident memory of the process so far"),
    "epoch": MetricName("count", "passes over the prompts finished"),
}


def describe(name: str) -> MetricName:
    """Look a name up, also one of a family such as ``reward/part/tags``. Raises KeyError for an unknown name."""
    if name in METRICS:
        return METRICS[name]
    for family, entry in METRICS.items():
        if family.endswith("*") and name.startswith(family[:-1]):
            return entry
    raise KeyError(f"{name!r} is not in the catalogue covey.metrics.names.METRICS")
