"""GRPO in one flat file: torch and transformers, nothing else. Read it from top to bottom.

    python nano_grpo.py --model DIR --steps 20      trains on small products, saves to --out

The method in one sentence: ask the model the same question several times, score every answer, and make the answers
that beat their siblings likelier and the others less likely. PPO learns a second network, the critic, to predict how
good an average answer to a question is; here the siblings say it (DeepSeekMath, arXiv 2402.03300, section 4.1).
A critic costs as much memory as the model and must itself be trained; siblings cost G answers to every question.

Shape letters: G siblings, B rows, S columns, V vocabulary. Entry t of a stream describes token t. The package covey
has the same numbers with the machinery around them; a test feeds both the same rollouts and compares the weights.
"""

from __future__ import annotations

import argparse
import copy
import random
import re

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache, PreTrainedModel

Answer = list[tuple[int, float]]  # one sampled response: a token and its log-prob, T times
Row = tuple[list[int], Answer, float]  # prompt tokens, answer, its advantage

# ---- 1. Prompts -----------------------------------------------------------------------------------------------------


def make_problem(rng: random.Random) -> tuple[str, str]:
    """A question and its right answer: ``("13×17=?", "221")``."""
    a, b = (rng.choice([n for n in range(11, 100) if n % 10]) for _ in range(2))
    return f"{a}×{b}=?", str(a * b)


def encode(tokenizer, question: str) -> list[int]:
    """Prompt tokens up to where the answer begins: through the chat template if the tokenizer has one."""
    if tokenizer.chat_template is None:
        return tokenizer(question)["input_ids"]
    messages = [{"role": "user", "content": question}]
    return tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=True)["input_ids"]


# ---- 2. Groups: sample G answers to one prompt ----------------------------------------------------------------------


def end_token_ids(model, tokenizer) -> set[int]:
    """All ids that end an answer. Chat models have several; missing one would let answers run on for ever."""
    ids: set[int] = set()
    for found in (model.generation_config.eos_token_id, model.config.eos_token_id, tokenizer.eos_token_id):
        ids |= {found} if isinstance(found, int) else set(found or ())
    return ids


@torch.inference_mode()
def sample_group(
    model: PreTrainedModel, ends: set[int], prompt: list[int],
    group_size: int, limit: int, temperature: float, generator: torch.Generator,
) -> list[Answer]:  # fmt: skip
    """G answers as lists of (token, log-prob), each up to ``limit`` tokens.

    The end token is part of an answer: stopping is a choice of the policy like any other, and one that is not trained
    gets no credit for a good end. The log-prob is that of the distribution really sampled from, at the temperature.
    """
    answers: list[Answer] = [[] for _ in range(group_size)]
    cache = DynamicCache(config=model.config)  # keys and values of all tokens so far: each pass feeds only what is new
    feed = torch.tensor([prompt] * group_size)  # [G, prompt], then [G, 1]; one prompt, so nothing is padded
    running = set(range(group_size))
    for _ in range(limit):
        logits = model(input_ids=feed, cache=cache, use_cache=True, logits_to_keep=1).logits[:, -1]
        logp = torch.log_softmax(logits / temperature, dim=-1)  # [G, V]
        feed = torch.multinomial(logp.exp(), 1, generator=generator)  # [G, 1]
        for row in sorted(running):  # rows that have ended go on being computed, but nobody listens
            token = int(feed[row])
            answers[row].append((token, float(logp[row, token])))
            if token in ends:
                running.remove(row)
        if not running:
            break
    return answers


# ---- 3. Rewards -----------------------------------------------------------------------------------------------------


def reward(text: str, gold: str) -> float:
    """1 if the last <answer>...</answer> holds the right number, else 0. How it got there is the model's own affair."""
    found = re.findall(r"<answer>(.*?)</answer>", text, flags=re.DOTALL)
    return float(bool(found) and found[-1].strip() == gold)


# ---- 4. Advantages: siblings replace the critic ---------------------------------------------------------------------


def advantages(rewards: list[float | None], eps: float = 1e-4) -> list[float]:
    """(r - mean) / (std + eps) within one group; None (could not be judged) stays out of the statistics and gets 0.

    The siblings are a few draws from all the answers the policy could give, so the sample standard deviation (n - 1)
    is the estimate of its spread; most systems use it, while the paper writes only "std". The choice rescales the
    gradient by sqrt(G / (G - 1)), 7 % at G = 8. If all rewards agree, nobody is better than anybody: exactly 0, not
    rounding noise divided by rounding noise.
    """
    known = [r for r in rewards if r is not None]
    if len(known) < 2 or max(known) - min(known) <= 1e-8:
        return [0.0] * len(rewards)
    values = torch.tensor(known, dtype=torch.float64)
    mean, std = float(values.mean()), float(values.std(correction=1))
    return [0.0 if r is None else (r - mean) / (std + eps) for r in rewards]


# ---- 5. Batches: one row an answer ----------------------------------------------------------------------------------


def make_batch(rows: list[Row]) -> dict[str, Tensor]:
    """Rows of (prompt, answer, advantage) as padded streams [B, S].

    Masks come from lengths, never from token ids: the pad id is often also an end id, and that one has to be trained.
    """
    width = max(len(prompt) + len(answer) for prompt, answer, _ in rows)
    shape = (len(rows), width)
    batch = {
        "tokens": torch.zeros(shape, dtype=torch.int64),
        "attended": torch.zeros(shape, dtype=torch.bool),
        "trained": torch.zeros(shape, dtype=torch.bool),
        "advantage": torch.zeros(shape),
        "sampler_logp": torch.full(shape, float("nan")),  # the policy as the sampler saw it; see update()
    }
    for i, (prompt, answer, advantage) in enumerate(rows):
        start, stop = len(prompt), len(prompt) + len(answer)
        batch["tokens"][i, :stop] = torch.tensor(prompt + [token for token, _ in answer])
        batch["attended"][i, :stop] = True
        batch["trained"][i, start:stop] = True
        batch["advantage"][i, start:stop] = advantage  # one number for the whole answer: GRPO's credit is coarse
        batch["sampler_logp"][i, start:stop] = torch.tensor([logp for _, logp in answer])
    return batch


# ---- 6. Loss --------------------------------------------------------------------------------------------------------


def token_logps(model: PreTrainedModel, tokens: Tensor, attended: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """Log-prob of every token given those before it, and the entropy it was drawn with, both [B, S].

    Column 0 is 0, nothing precedes it. The temperature must be the sampler's: another one is another policy.
    """
    positions = (attended.long().cumsum(1) - 1).clamp(min=0)
    logits = model(input_ids=tokens, attention_mask=attended.long(), position_ids=positions, use_cache=False).logits
    # [B, S - 1, V], what stands at t - 1 predicts t. In float32: a ratio of two policies is all in the last digits.
    logp = torch.log_softmax(logits[:, :-1] / temperature, dim=-1)
    picked = logp.gather(2, tokens[:, 1:, None]).squeeze(2)  # [B, S - 1]
    entropy = -(logp.exp() * logp).sum(-1)
    return torch.nn.functional.pad(picked, (1, 0)), torch.nn.functional.pad(entropy, (1, 0))


def grpo_loss(
    logp: Tensor,  # [B, S] with gradient, like all streams here
    old_logp: Tensor,
    ref_logp: Tensor | None,
    entropy: Tensor,
    advantage: Tensor,
    trained: Tensor,  # bool
    n_sequences: int,
    clip_low: float = 0.2, clip_high: float = 0.2, kl_coef: float = 0.0, entropy_coef: float = 0.0,
) -> Tensor:  # fmt: skip
    """The clipped objective, averaged over the tokens of an answer, then over answers (arXiv 2402.03300, eq. 3).

    On policy each token's log-prob is pushed up by advantage + kl_coef * (ref / policy - 1): all of GRPO (eq. 21).

    ``n_sequences`` counts the judged answers of the whole optimizer step. It is passed in, because a micro-batch does
    not know it: with a mean of its own, each would weigh the same however many answers it holds. So losses add up.
    Where ``trained`` is False anything may stand, even NaN. It is replaced before exp: multiplied by 0 afterwards, a
    NaN is still a NaN, and an infinity becomes one in backward.
    """
    zero = torch.zeros_like(logp)
    logp = torch.where(trained, logp, zero)
    log_ratio = (logp - torch.where(trained, old_logp, zero)).clamp(-20, 20)  # exp(20) is still far from overflow
    ratio, advantage = log_ratio.exp(), torch.where(trained, advantage, zero)
    # PPO's min (arXiv 1707.06347, eq. 7): going on outside the clip gains nothing more, going wrong is paid in full;
    # a large ratio with A < 0 keeps its whole gradient.
    loss = -torch.minimum(ratio * advantage, ratio.clamp(1 - clip_low, 1 + clip_high) * advantage)
    if kl_coef:
        # k3 estimates KL(policy, reference): never negative, unbiased, small variance (J. Schulman, "Approximating
        # KL divergence", 2020; eq. 4 of the GRPO paper). It keeps the policy near what it could do before.
        assert ref_logp is not None, "kl_coef > 0 needs ref_logp"
        ahead = (torch.where(trained, ref_logp, zero) - logp).clamp(-20, 20)
        loss = loss + kl_coef * (torch.expm1(ahead) - ahead)
    if entropy_coef:
        loss = loss - entropy_coef * torch.where(trained, entropy, zero)
    per_answer = torch.where(trained, loss, zero).sum(1) / trained.sum(1).clamp(min=1)
    return per_answer.sum() / n_sequences


# ---- 7. Update ------------------------------------------------------------------------------------------------------


def learning_rate(step: int, steps: int, peak: float, warmup: int, final_fraction: float) -> float:
    """Linear warm-up, then linear decay to ``final_fraction`` of the peak at the last step; steps count from 0."""
    if step < warmup:
        return peak * (step + 1) / warmup
    span = steps - 1 - warmup
    done = min(1.0, (step - warmup) / span) if span > 0 else 0.0
    return peak * (final_fraction + (1 - final_fraction) * (1 - done))


def make_optimizer(model: PreTrainedModel, peak: float) -> torch.optim.AdamW:
    return torch.optim.AdamW(model.parameters(), lr=peak, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.0)


def update(
    model: PreTrainedModel, optimizer: torch.optim.Optimizer, reference: PreTrainedModel | None,
    batches: list[dict[str, Tensor]], n_sequences: int, lr: float, temperature: float, **loss_knobs: float,
) -> float:  # fmt: skip
    """One optimizer step on all micro-batches, their gradients summed; returns the gradient norm before clipping."""
    optimizer.zero_grad()
    for batch in batches:
        streams = batch["tokens"], batch["attended"], temperature
        logp, entropy = token_logps(model, *streams)
        ref_logp = None
        if reference is not None:
            with torch.no_grad():
                ref_logp, _ = token_logps(reference, *streams)
        # One update a batch is on policy: the old policy is the present one, so the ratio is 1 and only its gradient
        # matters. The loss is then minus the mean of advantages that sum to 0 in each group: about 0, however good or
        # bad the model. Look at the reward instead. Several updates a batch would keep the first logp as the old one.
        # The sampler's log-probs would do too; that they agree is a test of the sampler.
        loss = grpo_loss(
            logp, logp.detach(), ref_logp, entropy, batch["advantage"], batch["trained"], n_sequences, **loss_knobs
        )
        loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    if norm.isfinite():  # one NaN that reaches the weights, or the moments of Adam, never leaves them
        for group in optimizer.param_groups:
            group["lr"] = lr
        optimizer.step()
    return float(norm)


# ---- The loop -------------------------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description="GRPO on products of two-digit numbers")
    parser.add_argument("--model", required=True, help="a Hugging Face folder")
    parser.add_argument("--out", default="nano-grpo-model", help="where to save the trained model")
    numbers = {"steps": 20, "prompts": 16, "group": 8, "limit": 80, "rows": 64, "warmup": 5, "seed": 0}
    for name, default in numbers.items():  # limit: new tokens an answer; rows: answers a micro-batch
        parser.add_argument(f"--{name}", type=int, default=default)
    for name, default in (("lr", 6e-4), ("temperature", 1.0), ("kl", 0.0)):  # a pretrained model wants lr 1e-6
        parser.add_argument(f"--{name}", type=float, default=default)
    args = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    # Evaluation mode for good: dropout would make two passes over the same tokens differ, and the ratio with them.
    model = AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.float32).eval()
    reference = copy.deepcopy(model).requires_grad_(False) if args.kl else None  # nobody pays for it unless it is used
    optimizer = make_optimizer(model, args.lr)
    ends, rng = end_token_ids(model, tokenizer), random.Random(args.seed)
    generator = torch.Generator().manual_seed(args.seed)
    for step in range(args.steps):
        rows: list[Row] = []
        scores: list[float] = []
        silent = 0
        for question, gold in (make_problem(rng) for _ in range(args.prompts)):
            # one prompt -> G answers -> G rewards -> G advantages
            prompt = encode(tokenizer, question)
            answers = sample_group(model, ends, prompt, args.group, args.limit, args.temperature, generator)
            texts = [tokenizer.decode([token for token, _ in answer], skip_special_tokens=True) for answer in answers]
            rewards = [reward(text, gold) for text in texts]
            credit = advantages([*rewards])
            scores += rewards
            silent += not any(credit)
            # All right or all wrong: nothing to learn, so no pass is spent (KL alone would still pull). Its answers
            # do count in n_sequences, or the fewer groups speak, the louder each would be.
            if any(credit) or args.kl:
                rows += zip([prompt] * args.group, answers, credit, strict=True)
        # all rows -> micro-batches -> loss and gradient of each, summed -> one update
        batches = [make_batch(rows[i : i + args.rows]) for i in range(0, len(rows), args.rows)]
        lr = learning_rate(step, args.steps, args.lr, args.warmup, 0.1)
        norm = 0.0
        if batches:
            norm = update(model, optimizer, reference, batches, len(scores), lr, args.temperature, kl_coef=args.kl)
        # metrics: the mean reward is the progress; the share of silent groups says how much of the sampling was in vain
        mean = sum(scores) / len(scores)
        print(f"step {step + 1} reward {mean:.3f} silent {silent}/{args.prompts} grad norm {norm:.3f}", flush=True)
    model.save_pretrained(args.out)
    tokenizer.save_pretrained(args.out)


if __name__ == "__main__":
    main()
