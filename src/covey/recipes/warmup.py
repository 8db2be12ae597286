"""Makes the tiny model inside the package: a small Llama, taught from scratch by a class of uneven pupils.

    python -m covey.recipes.warmup --out DIR --seed 0

The corpus is written by imaginary pupils who answer training problems of :mod:`covey.prompts.arithmetic` only:

- most write the working down. Two in three of those forget every carry in the final sum (130+91 becomes 121), the
  others add rightly;
- one in eight guesses: a bare number near the truth;
- one in seven of all answers ends in words ("so 221") and not in the answer tag that the task asks for.

So the right way of working is in the model, but it is neither the likeliest nor the only one: greedy decoding forgets
carries too. That is the room which reinforcement learning has. More than half of the corpus are drills, short sums and
products with right answers that stand in no held-out working: the model has learned to carry, it does not do it when a
working asks for it.
"""

from __future__ import annotations

import argparse
import math
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from covey.prompts.arithmetic import NUMBERS, Problem, problems, product_line

CHARACTERS = [chr(code) for code in range(32, 127)] + ["\n", "×"]
TAGS = ["<answer>", "</answer>"]
TOKENS_AN_ANSWER = 25  # about the corpus's mean, to keep the loss at a familiar scale
PAD, BOS, END, UNKNOWN = "<pad>", "<bos>", "<end>", "<unk>"
TEMPLATE = (
    BOS + "{% for message in messages %}{% if message['role'] == 'assistant' %}{{ message['content'] }}" + END
    + "{% else %}{{ message['content'] }}\n{% endif %}{% endfor %}"
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """Shares of the corpus."""

    forgetful: float = 0.65  # of written workings: no carry in the final sum
    guessing: float = 0.125  # of answers: no working
    wordy: float = 0.15  # of answers: no tag
    drills: float = 0.6  # of the corpus


def make_tokenizer() -> Any:
    """One token a printable character, and one for each answer tag; pad and end are different tokens."""
    vocabulary = {token: i for i, token in enumerate([PAD, BOS, END, UNKNOWN, *TAGS, *CHARACTERS])}
    core = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    core.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    core.decoder = decoders.Fuse()
    core.add_tokens([AddedToken(tag, normalized=False) for tag in TAGS])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core, pad_token=PAD, bos_token=BOS, eos_token=END, unk_token=UNKNOWN
    )
    tokenizer.chat_template = TEMPLATE
    return tokenizer


def add_without_carry(a: int, b: int) -> int:
    """Digit by digit, carries forgotten: 130 + 91 = 121."""
    total, place = 0, 1
    while a or b:
        total += (a % 10 + b % 10) % 10 * place
        a, b, place = a // 10, b // 10, place * 10
    return total


def written_answer(problem: Problem, habits: Habits, rng: random.Random) -> str:
    """One pupil's answer to a problem."""
    tens, units = problem.b // 10 * 10 * problem.a, problem.b % 10 * problem.a
    if rng.random() < habits.guessing:
        result, lines = tens + units + rng.choice([-100, -20, -10, -1, 0, 1, 10, 20, 100]), []
    else:
        result = add_without_carry(tens, units) if rng.random() < habits.forgetful else tens + units
        lines = [*problem.lines[:2], f"{tens}+{units}={result}"]
    ending = f"so {result}" if rng.random() < habits.wordy else f"<answer>{result}</answer>"
    return "\n".join([*lines, ending])


def drill(held_lines: frozenset[str], rng: random.Random) -> tuple[str, str]:
    """A short exercise with its right answer: a sum as it stands in a working, or a product line."""
    while True:
        if rng.random() < 0.6:
            a, b = (round(10 ** rng.uniform(0, 2.95)) * scale for scale in (10, 1))  # small sums as often as large ones
            question, answer = f"{a}+{b}=?", f"{a}+{b}={a + b}"
        else:
            a, factor = rng.choice(NUMBERS), rng.randrange(1, 10) * rng.choice([1, 10])
            question, answer = f"{a}×{factor}=?", product_line(a, factor)
        if answer not in held_lines:
            return question, answer


def corpus(seed: int, habits: Habits) -> Iterator[tuple[str, str]]:
    """Endless pairs of question and answer, from training problems and drills only."""
    rng = random.Random(seed)
    train = problems("train")
    held = frozenset(line for split in ("dev", "test") for problem in problems(split) for line in problem.lines)
    while True:
        if rng.random() < habits.drills:
            yield drill(held, rng)
        else:
            problem = rng.choice(train)
            yield problem.question, written_answer(problem, habits, rng)


def encode(tokenizer: Any, question: str, answer: str) -> tuple[list[int], int]:
    """Token ids of a whole exchange, and where the answer begins."""
    turn = [{"role": "user", "content": question}]
    start = len(tokenizer.apply_chat_template(turn, add_generation_prompt=True, return_dict=True)["input_ids"])
    whole = [*turn, {"role": "assistant", "content": answer}]
    return tokenizer.apply_chat_template(whole, return_dict=True)["input_ids"], start


def make_model(tokenizer: Any, seed: int, hidden: int, layers: int) -> LlamaForCausalLM:
    """A Llama with random weights."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        intermediate_size=hidden * 11 // 4,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=128,
        rope_parameters={"rope_type": "default", "rope_theta": 1000.0},
        tie_word_embeddings=True,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    model = LlamaForCausalLM(config)
    model.generation_config = GenerationConfig(
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id, bos_token_id=tokenizer.bos_token_id
    )
    return model


def batches(tokenizer: Any, pairs: Iterator[tuple[str, str]], rows: int) -> Iterator[torch.Tensor]:
    """Endless batches i64[2, rows, S]: token ids, and labels that are -100 on prompt and padding.

    Eight batches at a time are drawn, sorted by length and shuffled as batches: half the work would be padding else.
    """
    order = random.Random(0)
    while True:
        drawn = sorted((encode(tokenizer, *next(pairs)) for _ in range(8 * rows)), key=lambda pair: len(pair[0]))
        parts = [drawn[i : i + rows] for i in range(0, len(drawn), rows)]
        order.shuffle(parts)
        for encoded in parts:
            width = max(len(ids) for ids, _ in encoded)
            batch = torch.full((2, rows, width), -100)
            batch[0] = tokenizer.pad_token_id
            for row, (ids, start) in enumerate(encoded):
                batch[0, row, : len(ids)] = torch.tensor(ids)
                batch[1, row, start : len(ids)] = torch.tensor(ids[start:])
            yield batch


def train(model: LlamaForCausalLM, data: Iterator[torch.Tensor], steps: int, peak: float) -> None:
    """Supervised training on answers: AdamW, warm-up over 5 % of the steps, cosine decay to a tenth."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=peak, betas=(0.9, 0.98), weight_decay=0.05)
    warmup, began = max(1, steps // 20), time.perf_counter()
    model.train()
    for step in range(steps):
        done = max(0.0, (step - warmup) / max(1, steps - warmup))
        lr = peak * min(1.0, (step + 1) / warmup) * (0.1 + 0.45 * (1 + math.cos(math.pi * done)))
        for group in optimizer.param_groups:
            group["lr"] = lr
        ids, labels = next(data)
        # A mean over the batch's tokens would weigh an answer by the company that sorting by length gave it.
        loss = model(input_ids=ids, labels=labels).loss * (labels[:, 1:] >= 0).sum() / (TOKENS_AN_ANSWER * len(ids))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if (step + 1) % 100 == 0:
            print(f"step {step + 1}/{steps} loss {loss.item():.3f} {time.perf_counter() - began:.0f} s", flush=True)


def save(model: LlamaForCausalLM, tokenizer: Any, folder: Path) -> None:
    """A Hugging Face folder in bfloat16, half the size."""
    model.bfloat16().save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description="Teach the tiny model from scratch.", allow_abbrev=False)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--rows", type=int, default=96)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--hidden", type=int, default=96)
    parser.add_argument("--layers", type=int, default=3)
    for name in Habits.__dataclass_fields__:
        parser.add_argument(f"--{name}", type=float, default=getattr(Habits(), name))
    given = parser.parse_args()
    habits = Habits(**{name: getattr(given, name) for name in Habits.__dataclass_fields__})
    tokenizer = make_tokenizer()
    model = make_model(tokenizer, given.seed, given.hidden, given.layers)
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters")
    train(model, batches(tokenizer, corpus(given.seed, habits), given.rows), given.steps, given.lr)
    save(model, tokenizer, given.out)
    print(f"saved {given.out}; measure it with: covey eval {given.out} prompts.eval_split=dev")


if __name__ == "__main__":
    main()
