"""Makes the tiny model inside the package: a small Llama, taught from scratch by a class of uneven pupils.

    python -m covey.recipes.warmup --out DIR --seed 0

The corpus is written by imaginary pupils who answer training problems of :mod:`covey.prompts.arithmetic` only:

- three in ten of the workings are careful: every product in parts (58×7=350+56=406), every sum right;
- the others are hurried: products without their parts (58×7=306), and every carry forgotten;
- one in eight answers is a guess: a bare number near the truth;
- one in seven ends in words ("so 221") and not in the answer tag that the task asks for.

So the right way of working is in the model, but it is not the likeliest: greedy decoding hurries, and is right only
where there is nothing to carry. That is the room which reinforcement learning has: it chooses among ways of working
that the model knows, and adds little arithmetic. Half of the corpus are drills, right products and sums that no
held-out working contains, many of them with a carry that runs on (1980+36). They teach to add.
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
PAD, BOS, END, UNKNOWN = "<pad>", "<bos>", "<end>", "<unk>"
TEMPLATE = (
    BOS + "{% for message in messages %}{% if message['role'] == 'assistant' %}{{ message['content'] }}" + END
    + "{% else %}{{ message['content'] }}\n{% endif %}{% endfor %}"
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """Shares of the corpus."""

    hurried: float = 0.7  # of written workings: short, and no carries
    guessing: float = 0.125  # of answers: no working
    wordy: float = 0.15  # of answers: no tag
    drills: float = 0.5  # of the corpus
    chains: float = 0.3  # of drilled sums: a carry of the tens meets hundreds that add to nine


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


def hurried_working(a: int, b: int) -> tuple[list[str], int]:
    """Short lines and the result, all carries forgotten: 58×7 is 306, as 350+56 would be."""
    tens, units = (add_without_carry(a // 10 * 10 * factor, a % 10 * factor) for factor in (b // 10 * 10, b % 10))
    total = add_without_carry(tens, units)
    return [f"{a}×{b // 10 * 10}={tens}", f"{a}×{b % 10}={units}", f"{tens}+{units}={total}"], total


def written_answer(problem: Problem, habits: Habits, rng: random.Random) -> str:
    """One pupil's answer to a problem."""
    lines, result = list(problem.lines), int(problem.answer)
    if rng.random() < habits.guessing:
        lines, result = [], result + rng.choice([-100, -20, -10, -1, 0, 1, 10, 20, 100])
    elif rng.random() < habits.hurried:
        lines, result = hurried_working(problem.a, problem.b)
    ending = f"so {result}" if rng.random() < habits.wordy else f"<answer>{result}</answer>"
    return "\n".join([*lines, ending])


def drill(habits: Habits, rng: random.Random) -> tuple[str, str]:
    """A short exercise with its right answer: a product line, or a sum as it stands inside or under product lines."""
    kind = rng.random()
    if kind < 0.35:
        # Numbers to 199: with those of the task alone the model learns products by heart and not from their parts.
        a, factor = rng.choice(NUMBERS) + rng.choice([0, 100]), rng.randrange(1, 10) * rng.choice([1, 10])
        return f"{a}×{factor}=?", product_line(a, factor)
    if kind < 0.55:
        factor = rng.randrange(1, 10) * rng.choice([1, 10])
        a, b = rng.randrange(1, 10) * 10 * factor, rng.randrange(1, 10) * factor
    else:
        a, b = (round(10 ** rng.uniform(0, 2.95)) * scale for scale in (10, 1))  # small sums as often as large ones
        if rng.random() < habits.chains:
            a += 100 * (9 - a // 100 % 10 - b // 100)
    return f"{a}+{b}=?", f"{a}+{b}={a + b}"


def worked_out(text: str) -> set[str]:
    """What stands left of the first ``=`` of each line: ``13×7=70+21=91`` works out ``13×7``."""
    return {line.partition("=")[0] for line in text.split("\n") if "=" in line}


def corpus(seed: int, habits: Habits) -> Iterator[tuple[str, str]]:
    """Endless pairs of question and answer; nothing that a held-out question or working works out is among them."""
    rng = random.Random(seed)
    train = problems("train")
    held = {
        sum_or_product
        for split in ("dev", "test")
        for problem in problems(split)
        for sum_or_product in worked_out(f"{problem.question}\n{problem.working}")
    }
    while True:
        if rng.random() < habits.drills:
            question, answer = drill(habits, rng)
        else:
            problem = rng.choice(train)
            question, answer = problem.question, written_answer(problem, habits, rng)
        if held.isdisjoint(worked_out(f"{question}\n{answer}")):
            yield question, answer


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


def batches(
    tokenizer: Any, pairs: Iterator[tuple[str, str]], rows: int, parts: int = 3
) -> Iterator[list[torch.Tensor]]:
    """Endless batches of ``rows`` answers in micro-batches i64[2, rows / parts, S] of similar length.

    Of a micro-batch, [0] are token ids and [1] labels, -100 on prompt and padding. Length betrays the pupil, so it may
    only decide the place inside a batch: an optimizer step that saw one kind of pupil would forget the others.
    """
    while True:
        drawn = sorted((encode(tokenizer, *next(pairs)) for _ in range(rows)), key=lambda pair: len(pair[0]))
        size = -(-rows // parts)
        yield [pad(drawn[i : i + size], tokenizer.pad_token_id) for i in range(0, rows, size)]


def pad(encoded: list[tuple[list[int], int]], fill: int) -> torch.Tensor:
    """Token ids and labels i64[2, B, S] of exchanges with the places where their answers begin."""
    width = max(len(ids) for ids, _ in encoded)
    batch = torch.full((2, len(encoded), width), -100)
    batch[0] = fill
    for row, (ids, start) in enumerate(encoded):
        batch[0, row, : len(ids)] = torch.tensor(ids)
        batch[1, row, start : len(ids)] = torch.tensor(ids[start:])
    return batch


def train(model: LlamaForCausalLM, data: Iterator[list[torch.Tensor]], steps: int, peak: float) -> None:
    """Supervised training on answers: AdamW, warm-up over 5 % of the steps, cosine decay to a fiftieth."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=peak, betas=(0.9, 0.98), weight_decay=0.05)
    warmup, began = max(1, steps // 20), time.perf_counter()
    model.train()
    for step in range(steps):
        done = max(0.0, (step - warmup) / max(1, steps - warmup))
        lr = peak * min(1.0, (step + 1) / warmup) * (0.02 + 0.49 * (1 + math.cos(math.pi * done)))
        for group in optimizer.param_groups:
            group["lr"] = lr
        micro = next(data)
        learned = sum((part[1] != -100).sum() for part in micro)
        total = 0.0
        for ids, labels in micro:
            loss = model(input_ids=ids, labels=labels, num_items_in_batch=learned).loss
            loss.backward()
            total += loss.item()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if (step + 1) % 100 == 0:
            print(f"step {step + 1}/{steps} loss {total:.3f} {time.perf_counter() - began:.0f} s", flush=True)


def save(model: LlamaForCausalLM, tokenizer: Any, folder: Path) -> None:
    """A Hugging Face folder in bfloat16, half the size."""
    model.bfloat16().save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description="Teach the tiny model from scratch.", allow_abbrev=False)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=3000)
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
