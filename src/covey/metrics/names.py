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
    "reward/abstained/*": MetricName("share", "responses that a part could not judge and said so", "near 0"),
    "reward/failed/*": MetricName("share", "responses over which a part broke, was late or unreachable", "0"),
    "seconds/reward/*": MetricName("s", "time of one call of a reward, for one group, waiting included"),
    "reward/logged/*": MetricName("any", "mean of a value that a reward function logged in this step"),
    "reward/failed": MetricName("share", "responses that a reward failed to judge", "0"),
    "reward/unjudged": MetricName("share", "responses without a total reward, failed ones included", "near 0"),
    "judge/calls/*": MetricName("count", "requests sent to a judge so far, repeated ones included"),
    "judge/kept/*": MetricName("count", "questions to a judge that its file of answers knew, so far"),
    "judge/tokens/*": MetricName("tokens", "of questions and answers of a judge so far, as its endpoint counts"),
    "judge/cost/*": MetricName("money", "of a judge so far, at the prices given"),
    "probe/above": MetricName("share", "prompts where the best probe is paid more than its siblings' mean", "0"),
    "probe/*": MetricName("reward", "total that a reply which solves nothing is paid, mean over prompts", "0"),
    "grader/pass_rate/*": MetricName("share", "responses that a grader which is never paid thinks right", "rises"),
    "grader/refused/*": MetricName("share", "responses that count as correct and that grader thinks wrong", "near 0"),
    "pass_rate": MetricName("share", "judged responses that are correct, whatever shaping is added", "rises"),
    "group/ok": MetricName("share", "groups with a learning signal", "above 0.3"),
    "group/all_right": MetricName("share", "groups whose responses are all correct", "below 0.7"),
    "group/all_wrong": MetricName("share", "groups whose responses are all wrong", "below 0.7"),
    "group/zero_variance": MetricName("share", "groups with equal rewards of mixed or unknown correctness"),
    "group/too_few": MetricName("share", "groups with fewer than two judged responses", "0"),
    "group/reward_std": MetricName("reward", "mean over groups of the sample standard deviation of rewards", "above 0"),
    "group/distinct": MetricName("share", "different response texts in a group, mean over groups", "above 0.3"),
    "group/distinct_2": MetricName("share", "different pairs of neighbouring tokens in a group, mean over groups"),
    "advantage/mean": MetricName(
        "advantage", "mean over responses with trained tokens, of their trained tokens", "near 0"
    ),
    "advantage/std": MetricName("advantage", "standard deviation over the same", "0.3 to 2"),
    "advantage/abs_mean": MetricName("advantage", "mean absolute value over judged responses", "above 0"),
    "length/mean": MetricName("tokens", "sampled tokens a response"),
    "length/right": MetricName("tokens", "mean of sampled tokens over right responses"),
    "length/wrong": MetricName("tokens", "mean of sampled tokens over wrong responses"),
    "length/p95": MetricName("tokens", "95th percentile of sampled tokens"),
    "length/max": MetricName("tokens", "longest response"),
    "length/truncated": MetricName("share", "responses that ran into the token limit", "below 0.05"),
    "loss": MetricName("nats", "the step's loss; near 0 by construction when on policy, so no sign of progress"),
    "grad_norm": MetricName("1", "gradient norm before clipping, the largest of the step's updates", "below 10"),
    "lr": MetricName("1", "learning rate of the step"),
    "update/count": MetricName("count", "optimizer steps on this batch"),
    "update/left_out": MetricName("count", "optimizer steps that early stopping left out"),
    "update/weight": MetricName("1", "factor on the update because KL was over its limit", "1"),
    "update/recomputed": MetricName("0 or 1", "old log-probs were computed anew: the sampler's were too far off"),
    "update/skipped": MetricName("count", "updates without effect: nothing to learn, or a non-finite gradient", "0"),
    "entropy": MetricName("nats", "exact entropy a trained token at the sampling temperature", "falls slowly"),
    "entropy/coef": MetricName("1", "entropy coefficient of the step"),
    "kl/ref": MetricName("nats", "k3 estimate of KL(policy, reference) a trained token", "0.01 to 0.5"),
    "kl/ref_sequence": MetricName("nats", "the same summed over the tokens of a response, mean over responses"),
    "kl/coef": MetricName("1", "KL coefficient of the step"),
    "kl/old": MetricName("nats", "k3 estimate of KL to the policy before this batch, a trained token", "below 0.05"),
    "clip/low": MetricName("share", "trained tokens clipped at the lower bound", "below 0.1"),
    "clip/high": MetricName("share", "trained tokens clipped at the upper bound", "below 0.1"),
    "clip/dual": MetricName("share", "trained tokens beyond the dual clip's ceiling", "near 0"),
    "clip/covariance": MetricName("share", "trained tokens that clip_cov detached", "about its share"),
    "kl_cov/share": MetricName("share", "trained tokens that kl_cov holds back", "about its share"),
    "top_entropy/share": MetricName("share", "trained tokens above the entropy bound", "about its share"),
    "topr/weight": MetricName("1", "mean weight of responses with a negative advantage under topr", "above 0.1"),
    "vespo/weight": MetricName("1", "mean weight of trained tokens under vespo", "near 1"),
    "ratio/mean": MetricName("1", "mean ratio of new to old policy over trained tokens", "0.9 to 1.1"),
    "ratio/max": MetricName("1", "largest ratio of new to old policy", "below 5"),
    "sampler/gap_max": MetricName(
        "nats", "largest difference of trainer and sampler log-prob before updates", "< 1e-3"
    ),
    "sampler/gap_mean": MetricName("nats", "mean absolute difference of trainer and sampler log-prob", "< 1e-4"),
    "sampler/ratio_mean": MetricName("1", "mean ratio of trainer to sampler before updates", "1 to 1e-4"),
    "sampler/ratio_min": MetricName("1", "smallest ratio of trainer to sampler before updates", "above 0.5"),
    "sampler/ratio_max": MetricName("1", "largest ratio of trainer to sampler before updates", "below 2"),
    "sampler/kl_k1": MetricName("nats", "KL(sampler, trainer) a token, mean log-ratio; may be negative", "near 0"),
    "sampler/kl_k3": MetricName("nats", "KL(sampler, trainer) a token, k3 estimate", "below 1e-3"),
    "sampler/ppl_ratio": MetricName("1", "perplexity under the trainer over that under the sampler", "near 1"),
    "sampler/chi2_token": MetricName("1", "mean squared ratio less 1, over tokens; may be negative", "near 0"),
    "sampler/chi2_sequence": MetricName("1", "the same of whole responses' ratios", "near 0"),
    "sampler/ess": MetricName("share", "effective sample size of the token ratios", "above 0.9"),
    "sampler/nan": MetricName("share", "trained tokens without a log-prob from the sampler", "0"),
    "sampler/lag_mean": MetricName("updates", "how much older the sampler's weights were, mean", "0 in lockstep"),
    "sampler/lag_max": MetricName("updates", "how much older the sampler's weights were, most", "0 in lockstep"),
    "correction/weight": MetricName("1", "mean weight of trained tokens after correction", "near 1"),
    "correction/dropped": MetricName("share", "trained tokens of weight 0", "below 0.05"),
    "correction/truncated": MetricName("share", "trained tokens whose ratio was cut to the cap", "below 0.05"),
    "correction/kept/*": MetricName("share", "trained tokens not dropped, by length of their response in tokens"),
    "sampling/groups": MetricName("count", "groups sampled in this step, rejected ones included"),
    "sampling/responses": MetricName("count", "responses sampled in this step"),
    "sampling/kept": MetricName("share", "sampled groups that are trained on", "above 0.5"),
    "sampling/rounds": MetricName("count", "rounds of sampling"),
    "sampling/group_size": MetricName("count", "mean size of the sampled groups"),
    "sampling/temperature": MetricName("1", "temperature of the step"),
    "suggest/group_size": MetricName("count", "size at which a prompt of median pass rate is mixed in 19 of 20 groups"),
    "suggest/temperature": MetricName("1", "temperature to try: higher where siblings repeat each other"),
    "sequences/trained": MetricName("count", "responses in the denominators of the loss"),
    "tokens/sampled": MetricName("tokens", "tokens sampled in this step, greedy baselines included"),
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
