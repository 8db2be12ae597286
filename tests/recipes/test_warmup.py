import itertools
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
    encode,
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


def test_pupils_are_careful_forgetful_or_guess():
    class Never:
        def random(self):
            return 1.0

    class Always(Never):
        def random(self):
            return 0.0

        def choice(self, among):
            return among[0]

    problem = Problem(12, 98)  # 1080+96=1176, with a carry
    forgetful = Habits(forgetful=1.1)  # more than certain: this generator draws 1.0
    assert written_answer(problem, Habits(), Never()) == problem.working
    assert written_answer(problem, forgetful, Never()).endswith("\n1080+96=1076\n<answer>1076</answer>")
    assert written_answer(problem, Habits(), Always()) == "so 1076"  # a guess, 100 below, in words


def test_only_answers_are_learned():
    tokenizer = make_tokenizer()
    ids, labels = next(batches(tokenizer, iter([("13×17=?", "so 221")] * 16), 2))
    learned = labels[0][labels[0] != -100]
    assert tokenizer.decode(learned) == f"so 221{END}"
    assert torch.equal(ids[0][labels[0] != -100], learned)


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
