import pytest

from covey.errors import PromptError
from covey.prompts.source import load_prompts
from covey.rewards import GymScore

pytest.importorskip("reasoning_gym")

SMALL = {"min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 1, "size": 300}


def load(task, split, **options):
    return load_prompts(f"gym:{task}", split=split, options=options)


def test_splits_share_no_question_even_where_there_are_few():
    found = {split: {p.text for p in load("chain_sum", split, **SMALL)} for split in ("train", "dev", "test")}
    assert all(len(texts) > 3 for texts in found.values())
    assert not found["train"] & found["dev"]
    assert not found["train"] & found["test"]
    assert not found["dev"] & found["test"]


def test_questions_of_a_split_differ_and_uids_too():
    prompts = load("chain_sum", "train", **SMALL)
    assert len({p.text for p in prompts}) == len({p.uid for p in prompts}) == len(prompts)


def test_the_draw_is_a_function_of_the_seed():
    assert load("chain_sum", "train", seed=3) == load("chain_sum", "train", seed=3)
    assert load("chain_sum", "train", seed=3) != load("chain_sum", "train", seed=4)


def test_the_tasks_own_verifier_judges():
    prompt = load("chain_sum", "test")[0]
    assert GymScore().judge(prompt, f"so <answer>{prompt.answer}</answer>").value == 1.0
    wrong = GymScore().judge(prompt, "<answer>-1</answer>")
    assert (wrong.correct, wrong.value < 1) == (False, True)
    assert GymScore().judge(prompt, "none").why == "no <answer> element"


@pytest.mark.parametrize(
    ("task", "split", "options", "message"),
    [
        ("chain_sums", "train", {}, "Did you mean 'chain_sum'"),
        ("chain_sum", "validation", {}, "train, dev, test"),
        ("chain_sum", "train", {"min_term": 2}, "does not take"),
        ("chain_sum", "train", {"min_terms": -2}, "does not take"),
    ],
)
def test_mistakes_are_named(task, split, options, message):
    with pytest.raises(PromptError, match=message):
        load(task, split, **options)
