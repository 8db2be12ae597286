"""Rewards that are known to be good or bad, put to the test."""

import asyncio
import json

import pytest

from covey.rewards import (
    CodeTests,
    ExactNumber,
    FunctionReward,
    MathAnswer,
    Scorer,
    SoftOverlong,
    Tags,
    WeightedReward,
)
from covey.rewards.audit import audit
from covey.rewards.audit.frames import FRAMES, right_answer, wrong_answer
from covey.rewards.audit.probes import ABOUT, probes_of
from covey.testing.samples import make_prompt, make_trajectory
from covey.types import Group

PROMPTS = [make_prompt(f"p{i}", f"{i}+{2 * i}=?", str(3 * i)) for i in range(5, 15)]


def make(prompt, sample, text):
    return make_trajectory(prompt.uid, sample, reply=text, reply_tokens=max(1, len(text) // 4))


def groups_of(prompts, replies):
    return [Group(prompt=p, members=tuple(make(p, i, r(p)) for i, r in enumerate(replies))) for p in prompts]


def right(prompt):
    return f"<answer>{prompt.answer}</answer>"


def wrong(prompt):
    return "<answer>-1</answer>"


def babble(prompt):
    return "I do not know"


def run(*rewards, prompts=PROMPTS, replies=(right, wrong, wrong, babble), limit=20):
    items = [item if isinstance(item, WeightedReward) else WeightedReward(reward=item) for item in rewards]
    return asyncio.run(audit(prompts, groups_of(prompts, replies), Scorer(rewards=tuple(items)), make, limit))


def probe(found, name):
    return next(one for one in found.probes if one.name == name)


def test_a_good_reward_is_sound():
    found = run(ExactNumber())
    assert found.verdict.level == "sound", found.verdict
    assert (found.spread, found.pass_rate, found.responses) == (1.0, 0.25, 40)
    assert found.spread_at[2] == pytest.approx(0.5)
    told = found.discrimination
    assert (told.frame, told.right, told.judged_right) == ("answer element", 1.0, 1.0)
    assert {told.beats_wrong, told.beats_other, told.beats_mention, told.beats_both} == {1.0}
    assert {one.paid for one in found.probes if one.name != "usual answer"} == {0.0}
    assert "exact_number 100%" in found.verdict.lesson[1]
    json.dumps(found.to_json(), allow_nan=False)


def test_the_usual_answer_may_be_right_by_chance_and_is_not_held_against_it():
    found = run(ExactNumber())
    assert probe(found, "usual answer").paid == pytest.approx(0.1)
    assert probe(found, "usual answer").correct == 0.0


def test_one_answer_for_most_of_the_data_can_be_lived_on():
    prompts = [make_prompt(f"p{i}", f"{i}?", "7" if i < 7 else str(i)) for i in range(10)]
    found = run(ExactNumber(), prompts=prompts)
    assert any("'usual answer'" in problem for problem in found.verdict.problems)
    assert run(ExactNumber(), prompts=prompts[:2]).verdict.level == "sound"


def test_a_reward_that_looks_for_the_answer_anywhere_is_unsound():
    def contains(completions, answer):
        return [float(a in c[0]["content"]) for c, a in zip(completions, answer, strict=True)]

    found = run(FunctionReward(contains))
    assert found.verdict.level == "unsound"
    assert probe(found, "every number").correct == 1.0
    assert probe(found, "every answer").correct == 1.0
    assert found.discrimination.beats_mention == 0.0
    assert any("every number" in problem for problem in found.verdict.problems)


def test_a_form_that_is_paid_as_much_as_being_right_is_unsound():
    found = run(WeightedReward(reward=ExactNumber(), weight=0.5), WeightedReward(reward=Tags(), weight=1.0))
    assert found.verdict.level == "unsound"
    assert probe(found, "form alone").paid == 1.0
    assert any(
        "'form alone'" in problem and "67% of what a right answer" in problem for problem in found.verdict.problems
    )


def test_the_same_form_behind_a_gate_is_sound():
    gated = WeightedReward(reward=Tags(), weight=1.0, gate="exact_number")
    found = run(WeightedReward(reward=ExactNumber(), weight=0.5), gated)
    assert found.verdict.level == "sound", found.verdict
    assert probe(found, "form alone").paid == 0.0


def test_a_reward_for_words_is_unsound():
    def earnest(completions):
        return [float("Therefore" in c[0]["content"]) for c in completions]

    found = run(WeightedReward(reward=ExactNumber()), WeightedReward(reward=FunctionReward(earnest)))
    assert any("'keywords'" in problem for problem in found.verdict.problems)


def test_shaping_that_turns_the_order_round_is_unsound():
    short = WeightedReward(reward=SoftOverlong(limit=5, margin=3), weight=2.0)
    found = run(ExactNumber(), short, replies=(right, lambda p: "no", wrong))
    assert any("a wrong response is paid as much as a right sibling" in problem for problem in found.verdict.problems)


def test_a_reward_that_pays_everything_tells_nothing_apart():
    def kind(completions):
        return [1.0] * len(completions)

    found = run(FunctionReward(kind))
    assert (found.spread, found.verdict.level) == (0.0, "unsound")
    assert found.discrimination.beats_wrong == 0.0
    assert found.verdict.lesson == ("0 of 10 groups teach something; the others have equal rewards and no advantage",)


def test_a_reward_that_pays_nothing_is_not_called_sound():
    def harsh(completions):
        return [0.0] * len(completions)

    found = run(FunctionReward(harsh))
    assert found.verdict.level == "watch"
    assert found.discrimination.frame is None


def test_a_broken_reward_is_unsound_and_says_why():
    def broken(completions):
        raise KeyError("tests")

    found = run(FunctionReward(broken))
    assert found.verdict.level == "unsound"
    assert any("broken failed on 40 of 40 responses: KeyError: 'tests' (40)" in p for p in found.verdict.problems)
    assert found.parts[0].mean is None


def test_maths_is_told_apart_in_its_own_form():
    prompts = [make_prompt(f"p{i}", "?", answer) for i, answer in enumerate([r"\frac{1}{2}", "x^2+1", "(0,1]", "B"])]
    found = run(MathAnswer(), prompts=prompts, replies=(lambda p: f"\\boxed{{{p.answer}}}", babble))
    assert found.verdict.level == "sound", found.verdict


FUNCTION = [{"function": "double", "args": [n], "expected": 2 * n} for n in (1, 2, 5)]
SUMS = [{"input": f"1 {n}", "output": str(1 + n)} for n in (2, 3, 4)]
CODE = [
    make_prompt("f", "Write double(n).", None, tests=FUNCTION, solution="def double(n):\n    return 2 * n"),
    make_prompt("a", "Write triple(n).", None, tests=["assert triple(2) == 6"], solution="def triple(n):\n    return 3 * n"),
    make_prompt("s", "Print the sum.", None, tests=SUMS, solution="print(sum(map(int, input().split())))"),
]  # fmt: skip


def test_programs_are_told_apart_and_no_trick_is_paid():
    found = run(
        CodeTests(partial=True), prompts=CODE, replies=(lambda p: f"```python\n{p.columns['solution']}\n```", babble)
    )
    assert found.verdict.level == "sound", found.verdict
    assert found.discrimination.frame == "python block"
    paid = {one.name: one.paid for one in found.probes}
    assert paid.pop("first test's result") == pytest.approx(1 / 3)
    assert set(paid.values()) == {0.0}
    assert {"early exit", "hard exit", "always equal", "reads its judge", "silent program"} <= {
        p.name for p in found.probes
    }


def test_tests_that_one_constant_passes_are_unsound():
    one = make_prompt("s", "Print the sum.", None, tests=SUMS[:1], solution="print(3)")
    found = run(CodeTests(), prompts=[one], replies=(babble,))
    assert probe(found, "first test's result").correct == 1.0
    assert found.verdict.level == "unsound"


def test_a_judge_of_programs_in_its_own_process_is_unsound():
    """What many do: run program and asserts together and call it passed when nothing is raised."""

    def exec_asserts(completions, tests, solution):
        paid = []
        for completion, rows in zip(completions, tests, strict=True):
            text = completion[0]["content"].replace("```python\n", "").replace("\n```", "")
            text = text.replace("import os\nos._exit", "import sys\nsys.exit")  # it would end these tests with success
            checks = "\n".join(f"assert {row['function']}({row['args'][0]}) == {row['expected']}" for row in rows)
            try:
                exec(f"{text}\n{checks}", {})
            except SystemExit:
                pass
            except Exception:
                paid.append(0.0)
                continue
            paid.append(1.0)
        return paid

    exec_asserts.__annotations__ = {}
    found = run(FunctionReward(exec_asserts), prompts=CODE[:1], replies=(babble,))
    assert {p.name for p in found.probes if p.correct} >= {"early exit", "always equal"}
    assert found.verdict.level == "unsound"


@pytest.mark.parametrize(
    ("right", "near"),
    [("12", "13"), ("-1.5", "-1.6"), ("B", "C"), ("x=3", "x=4"), ("blue", None), ("return x", "return None")],
)
def test_near_misses(right, near):
    assert wrong_answer(right) == near


def test_every_probe_has_words_and_a_program_goes_before_an_answer():
    assert set(probes_of(PROMPTS[0], FRAMES[0], ["1"], 10)) <= set(ABOUT)
    assert set(probes_of(CODE[0], FRAMES[0], [], 10)) <= set(ABOUT)
    assert right_answer(CODE[0]).startswith("def double")
