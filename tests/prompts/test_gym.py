import sys
import warnings

import pytest

from covey.errors import MissingExtraError, PromptError
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
    texts = [{prompt.text for prompt in load("chain_sum", "train", seed=seed)} for seed in (3, 4)]
    assert len(texts[0] & texts[1]) < 50  # near seeds must not give the same rows shifted by one


def test_a_prompt_carries_what_the_verifier_needs():
    prompt = load("chain_sum", "test")[0]
    entry = prompt.columns["entry"]
    assert entry["metadata"]["source_dataset"] == "chain_sum"
    assert prompt.text == entry["question"] + "\nGive the final answer inside <answer></answer>."
    assert (prompt.uid, prompt.task, prompt.answer) == ("gym-chain_sum-test-0", "gym:chain_sum", entry["answer"])


def test_a_task_without_one_right_answer_has_none():
    assert load("graph_color", "test")[0].answer is None


def test_style_and_system_are_kept():
    (plain,) = load_prompts("gym:chain_sum", split="test", style="plain", limit=1)
    (chat,) = load_prompts("gym:chain_sum", split="test", system="s", limit=1)
    assert (plain.plain, len(plain.messages)) == (True, 1)
    assert (chat.plain, [message.role for message in chat.messages]) == (False, ["system", "user"])
    with pytest.raises(PromptError, match="needs chat messages"):
        load_prompts("gym:chain_sum", split="test", style="plain", system="s")


def test_warnings_of_the_library_stay_inside_and_ours_get_out(monkeypatch):
    import reasoning_gym

    def noisy(name, size, seed):
        warnings.warn("theirs", DeprecationWarning, stacklevel=1)
        return [{"question": str(seed + i), "answer": "1", "metadata": {}} for i in range(size)]

    monkeypatch.setattr(reasoning_gym, "create_dataset", noisy)
    assert len(load("chain_sum", "test")) == 200  # warnings are errors here
    with pytest.warns(UserWarning, match="ours"):
        warnings.warn("ours", UserWarning, stacklevel=1)


def test_without_the_library_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "reasoning_gym", None)
    with pytest.raises(MissingExtraError, match=r"reasoning-gym.*covey\[gym\]"):
        load("chain_sum", "train")


def test_a_task_with_too_few_questions_says_so(monkeypatch):
    import reasoning_gym

    same = {"question": "one question", "answer": "1", "metadata": {}}
    monkeypatch.setattr(reasoning_gym, "create_dataset", lambda name, size, seed: [same] * size)
    assert len(load("chain_sum", "test")) == 1
    with pytest.raises(PromptError, match="all 1000 train questions are in a held-out split"):
        load("chain_sum", "train")


def test_the_tasks_own_verifier_judges():
    prompt = load("chain_sum", "test")[0]
    assert GymScore().judge(prompt, f"so <answer>{prompt.answer}</answer>").value == 1.0
    wrong = GymScore().judge(prompt, "<answer>-1</answer>")
    assert (wrong.correct, wrong.value) == (False, 0.0)
    assert GymScore().judge(prompt, "none").why == "no <answer> element"


@pytest.mark.parametrize(
    ("task", "split", "options", "message"),
    [
        ("chain_sums", "train", {}, "Did you mean 'chain_sum'"),
        ("chain_sum", "validation", {}, "train, dev, test"),
        ("chain_sum", "train", {"min_term": 2}, "does not take"),
        ("chain_sum", "train", {"min_terms": -2}, "does not take"),
        ("chain_sum", "test", {"size": 0}, "options.size is 0, expected a whole number of at least 1"),
        ("chain_sum", "train", {"seed": "x"}, "options.seed is 'x'"),
    ],
)
def test_mistakes_are_named(task, split, options, message):
    with pytest.raises(PromptError, match=message):
        load(task, split, **options)


def test_a_prompt_from_elsewhere_cannot_be_judged():
    from covey.types import Message, Prompt

    asked = Prompt(uid="x", messages=(Message(role="user", content="1+1"),), task="gym:chain_sum")
    assert GymScore().judge(asked, "<answer>2</answer>").value is None
