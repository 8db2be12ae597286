import itertools
import random
import string
import sys
from importlib.resources import files
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from covey.prompts.arithmetic import Problem, problems
from covey.recipes.warmup import (
    BOS,
    END,
    Habits,
    add_without_carry,
    batches,
    corpus,
    drill,
    encode,
    hurried_working,
    main,
    make_tokenizer,
    written_answer,
)

SAMPLES = 5000


def sampled(seed, count=SAMPLES):
    return list(itertools.islice(corpus(seed, Habits()), count))


@pytest.mark.parametrize(
    "text",
    [
        "13×17=?",
        Problem(13, 17).working,
        "  two  blanks \n\n and lines ",
        string.printable[:95] + "\n×",
        "<answer></answer>",
        "so 221",
    ],
)
def test_text_survives_the_tokenizer(text):
    tokenizer = make_tokenizer()
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    assert tokenizer.decode(ids) == text
    assert tokenizer.unk_token_id not in ids


def test_a_tag_is_one_token_and_so_is_a_character():
    tokenizer = make_tokenizer()
    assert len(tokenizer("<answer>221</answer>", add_special_tokens=False)["input_ids"]) == 5


def test_padding_is_not_the_end():
    tokenizer = make_tokenizer()
    ids = [tokenizer.pad_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.unk_token_id]
    assert len(set(ids)) == 4


def test_the_chat_template_and_where_the_answer_begins():
    tokenizer = make_tokenizer()
    ids, start = encode(tokenizer, "13×17=?", "so 221")
    assert tokenizer.decode(ids) == f"{BOS}13×17=?\nso 221{END}"
    assert tokenizer.decode(ids[start:]) == f"so 221{END}"


def test_no_held_out_prompt_or_line_is_in_the_corpus():
    held = [problem for split in ("dev", "test") for problem in problems(split)]
    questions = {f"{a}×{b}=?" for problem in held for a, b in [(problem.a, problem.b), (problem.b, problem.a)]}
    # A line is known by what it works out, left of its first "=": a held-out sum with a wrong result counts as well.
    asked = {line.partition("=")[0] for problem in held for line in problem.lines}
    for question, answer in sampled(0):
        assert question not in questions
        assert question.removesuffix("=?") not in asked
        assert asked.isdisjoint(line.partition("=")[0] for line in answer.split("\n")), (question, answer)


def test_the_same_seed_gives_the_same_corpus():
    assert sampled(3, 300) == sampled(3, 300)
    assert sampled(3, 300) != sampled(4, 300)


def test_forgotten_carries():
    assert [add_without_carry(*pair) for pair in [(130, 91), (2480, 558), (13, 21), (990, 10)]] == [121, 2938, 34, 900]


def test_hurried_pupils_forget_carries_in_products_and_in_the_sum():
    assert hurried_working(58, 17) == (["58×10=580", "58×7=306", "580+306=886"], 886)
    assert hurried_working(13, 17) == (["13×10=130", "13×7=91", "130+91=121"], 121)


def test_each_habit_alone():
    problem, rng = Problem(13, 17), random.Random(0)
    none = dict.fromkeys(("hurried", "guessing", "wordy", "drills", "chains"), 0.0)
    assert written_answer(problem, Habits(**none), rng) == problem.working
    assert written_answer(problem, Habits(**none | {"wordy": 1.0}), rng) == "\n".join([*problem.lines, "so 221"])
    hurried = written_answer(problem, Habits(**none | {"hurried": 1.0}), rng)
    assert hurried == "13×10=130\n13×7=91\n130+91=121\n<answer>121</answer>"
    guess = written_answer(problem, Habits(**none | {"guessing": 1.0}), rng)
    assert abs(int(guess.removeprefix("<answer>").removesuffix("</answer>")) - 221) <= 100


def test_drills_are_right():
    rng = random.Random(0)
    for _ in range(1000):
        question, answer = drill(Habits(), rng)
        sides = [eval(side.replace("×", "*")) for side in answer.split("=")]
        assert question == answer.partition("=")[0] + "=?"
        assert len(set(sides)) == 1, answer


def test_only_answers_are_learned():
    tokenizer = make_tokenizer()
    (ids, labels), _ = next(batches(tokenizer, iter([("13×17=?", "so 221")] * 2), 2, parts=2))
    learned = labels[0][labels[0] != -100]
    assert tokenizer.decode(learned) == f"so 221{END}"
    assert torch.equal(ids[0][labels[0] != -100], learned)


def test_every_optimizer_step_sees_all_pupils():
    """Length tells them apart, so batches made of one length would teach one habit at a time."""
    tokenizer = make_tokenizer()
    for micro in itertools.islice(batches(tokenizer, corpus(0, Habits()), 96), 5):
        assert sum(len(part[0]) for part in micro) == 96
        texts = [tokenizer.decode(row[row != tokenizer.pad_token_id]) for part in micro for row in part[0]]
        first_lines = [text.split("\n")[1] for text in texts if "answer>" in text]
        assert any("+" in line for line in first_lines)  # careful
        assert any("×" in line and "+" not in line for line in first_lines)  # hurried
        assert any("×" not in line for line in first_lines)  # a guess
        assert len(first_lines) < 90  # drills


def test_the_model_in_the_package_has_this_tokenizer_and_is_small(tmp_path):
    make_tokenizer().save_pretrained(tmp_path)
    folder = Path(str(files("covey") / "assets" / "tiny"))
    assert (folder / "tokenizer.json").read_text() == (tmp_path / "tokenizer.json").read_text()
    assert sum(path.stat().st_size for path in folder.iterdir()) < 4_000_000


@pytest.mark.slow
def test_twenty_steps_save_a_folder_that_loads(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["warmup", "--out", str(tmp_path), "--steps", "20", "--rows", "16"])
    main()
    model, tokenizer = AutoModelForCausalLM.from_pretrained(tmp_path), AutoTokenizer.from_pretrained(tmp_path)
    assert model.dtype == torch.bfloat16
    assert model.generation_config.eos_token_id == tokenizer.eos_token_id
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": "13×17=?"}], add_generation_prompt=True, return_dict=True, return_tensors="pt"
    )
    out = model.generate(**prompt, max_new_tokens=4, do_sample=False)
    assert out.shape[1] <= prompt["input_ids"].shape[1] + 4
