"""GRPO in one flat file: torch and transformers, nothing else. Read it from top to bottom.

    python nano_grpo.py --model DIR --steps 20

The method in one sentence: ask the model the same question several times, score every answer, and make the answers
that beat their siblings likelier and the others less likely. PPO learns a second network, the critic, to predict how
good an average answer to a question is; here the siblings say it (DeepSeekMath, arXiv 2402.03300).

Shape letters: G siblings, B rows, S columns, V vocabulary. Entry t of a stream describes token t. The package covey
has the same numbers with the machinery around them; a test feeds both the same rollouts and compares the weights.
"""

from __future__ import annotations

import argparse
import copy
import random
import re

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache

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
def sample_group(model, ends: set[int], prompt: list[int], group_size: int, limit: int, temperature: float, generator):
    """G answers as lists of (token, log-prob), each up to ``limit`` tokens.

    The end token is part of an answer: whoever does not train it teaches the model never to stop. The log-prob is kept
    in the distribution that was really sampled from, at the temperature.
    """
    answers: list[list[tuple[int, float]]] = [[] for _ in range(group_size)]
    cache = DynamicCache(config=model.config)
    feed = torch.tensor([prompt] * group_size)
    running = set(range(group_size))
    for _ in range(limit):
        logits = model(input_ids=feed, cache=cache, use_cache=True, logits_to_keep=1).logits[:, -1]
        logp = torch.log_softmax(logits.float() / temperature, dim=-1)  # [G, V]
        feed = torch.multinomial(logp.exp(), 1, generator=generator)  # [G, 1]
        for row in sorted(running):
            token = int(feed[row])
            answers[row].append((token, float(logp[row, token])))
            if token in ends:
                running.remove(row)
        if not running:
            break
    return answers


# ---- 3. Rewards -----------------------------------------------------------------------------------------------------


def reward(text: str, gold: str) -> float:
    """1 if the last <answer>...</answer> holds the right number. All else in the answer is the model's own affair."""
    found = re.findall(r"<answer>(.*?)</answer>", text, flags=re.DOTALL)
    return float(bool(found) and found[-1].strip() == gold)


# ---- 4. Advantages: siblings replace the critic ---------------------------------------------------------------------


def advantages(rewards: list[float | None], eps: float = 1e-4) -> list[float]:
    """(r - mean) / (std + eps) within one group; None (could not be judged) stays out of the statistics.

    The sample standard deviation (n - 1) is what most systems use; the paper writes the population one. If all agree
    nobody is better than anybody: exactly 0, not rounding noise divided by rounding noise.
    """
    known = [r for r in rewards if r is not None]
    if len(known) < 2 or max(known) - min(known) <= 1e-8:
        return [0.0] * len(rewards)
    values = torch.tensor(known, dtype=torch.float64)
    mean, std = float(values.mean()), float(values.std(correction=1))
    return [0.0 if r is None else (r - mean) / (std + eps) for r in rewards]


# ---- 5. Batches: one row an answer ----------------------------------------------------------------------------------


def make_batch(rows: list[tuple[list[int], list[tuple[int, float]], float]]) -> dict[str, torch.Tensor]:
    """Rows of (prompt, answer, advantage) as padded streams [B, S].

    Masks come from lengths, never from token ids: the pad id may well be an end id that has to be trained.
    """
    width = max(len(prompt) + len(answer) for prompt, answer, _ in rows)
    shape = (len(rows), width)
    batch = {
        "tokens": torch.zeros(shape, dtype=torch.int64),
        "attended": torch.zeros(shape, dtype=torch.bool),
        "trained": torch.zeros(shape, dtype=torch.bool),
        "advantage": torch.zeros(shape),
        "sampler_logp": torch.full(shape, float("nan")),
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


def token_logps(model, tokens: torch.Tensor, attended: torch.Tensor, temperature: float):
    """Log-prob of every token given those before it, and the entropy it was drawn with, both [B, S]."""
    positions = (attended.long().cumsum(1) - 1).clamp(min=0)
    logits = model(input_ids=tokens, attention_mask=attended.long(), position_ids=positions, use_cache=False).logits
    logp = torch.log_softmax(logits[:, :-1].float() / temperature, dim=-1)  # what stands at t - 1 predicts t
    picked = logp.gather(2, tokens[:, 1:, None]).squeeze(2)
    entropy = -(logp.exp() * logp).sum(-1)
    return torch.nn.functional.pad(picked, (1, 0)), torch.nn.functional.pad(entropy, (1, 0))


def grpo_loss(
    logp, old_logp, ref_logp, entropy, advantage, trained, n_sequences,
    clip_low=0.2, clip_high=0.2, kl_coef=0.0, entropy_coef=0.0,
):  # fmt: skip
    """The clipped objective with the paper's aggregation: mean over answers of the mean over their tokens.

    ``n_sequences`` counts the judged answers of the whole optimizer step and is passed in, so that micro-batches can
    be added up. Where ``trained`` is False anything may stand, even NaN; it is replaced before exp, because a NaN
    that is multiplied by 0 afterwards is still a NaN.
    """
    zero = torch.zeros_like(logp)
    logp = torch.where(trained, logp, zero)
    log_ratio = (logp - torch.where(trained, old_logp, zero)).clamp(-20, 20)
    ratio, advantage = log_ratio.exp(), torch.where(trained, advantage, zero)
    # min: a ratio outside the clip gains nothing more. With A < 0 a large ratio keeps its full gradient (1707.06347).
    loss = -torch.minimum(ratio * advantage, ratio.clamp(1 - clip_low, 1 + clip_high) * advantage)
    if kl_coef:
        # k3, Schulman's estimator of KL(policy, reference): never negative, unbiased, small variance
        ahead = (torch.where(trained, ref_logp, zero) - logp).clamp(-20, 20)
        loss = loss + kl_coef * (torch.expm1(ahead) - ahead)
    if entropy_coef:
        loss = loss - entropy_coef * torch.where(trained, entropy, zero)
    per_answer = torch.where(trained, loss, zero).sum(1) / trained.sum(1).clamp(min=1)
    return per_answer.sum() / n_sequences


# ---- 7. Update ------------------------------------------------------------------------------------------------------


def learning_rate(step: int, steps: int, peak: float, warmup: int, final_fraction: float) -> float:
    """Linear warm-up, then linear decay to ``final_fraction`` of the peak at the last step."""
    if step < warmup:
        return peak * (step + 1) / warmup
    span = steps - 1 - warmup
    done = (step - warmup) / span if span > 0 else 0.0
    return peak * (final_fraction + (1 - final_fraction) * (1 - done))


def make_optimizer(model, peak: float):
    return torch.optim.AdamW(model.parameters(), lr=peak, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.0)


def update(
    model, optimizer, reference, batches, n_sequences: int, lr: float, temperature: float, **loss_knobs
) -> float:
    """One optimizer step on all micro-batches; returns the gradient norm before clipping."""
    optimizer.zero_grad()
    for batch in batches:
        streams = batch["tokens"], batch["attended"], temperature
        logp, entropy = token_logps(model, *streams)
        ref_logp = None
        if reference is not None:
            with torch.no_grad():
                ref_logp, _ = token_logps(reference, *streams)
        # A single update is on policy: the old policy is the present one, so the ratio is 1 and only its gradient
        # matters. That is why the loss is about 0 and says nothing about progress.
        loss = grpo_loss(
            logp, logp.detach(), ref_logp, entropy, batch["advantage"], batch["trained"], n_sequences, **loss_knobs
        )
        loss.backward()
    norm = float(torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0))
    if norm == norm and norm != float("inf"):  # a step that is not finite must never reach the weights
        for group in optimizer.param_groups:
            group["lr"] = lr
        optimizer.step()
    return norm


# ---- The loop -------------------------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True, help="a Hugging Face folder")
    parser.add_argument("--out", help="where to save the trained model")
    for name, default in (("steps", 20), ("prompts", 16), ("group", 8), ("limit", 80), ("warmup", 5), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    for name, default in (("lr", 6e-4), ("temperature", 1.0), ("kl", 0.0)):
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
        rows, scores = [], []
        for question, gold in (make_problem(rng) for _ in range(args.prompts)):
            prompt = encode(tokenizer, question)
            answers = sample_group(model, ends, prompt, args.group, args.limit, args.temperature, generator)
            texts = [tokenizer.decode([token for token, _ in answer], skip_special_tokens=True) for answer in answers]
            rewards = [reward(text, gold) for text in texts]
            credit = advantages(list(rewards))
            scores += rewards
            if (
                any(credit) or args.kl
            ):  # a silent group has no gradient but that of KL; it counts in n_sequences either way
                rows += [(prompt, answer, a) for answer, a in zip(answers, credit, strict=True)]
        norm = 0.0
        if rows:
            lr = learning_rate(step, args.steps, args.lr, args.warmup, 0.1)
            batches = [make_batch(rows[i : i + 64]) for i in range(0, len(rows), 64)]
            norm = update(model, optimizer, reference, batches, len(scores), lr, args.temperature, kl_coef=args.kl)
        print(f"step {step + 1} reward {sum(scores) / len(scores):.3f} grad norm {norm:.2f}", flush=True)
    if args.out:
        model.save_pretrained(args.out)
        tokenizer.save_pretrained(args.out)


if __name__ == "__main__":
    main()
