import itertools

import pytest

from covey.prompts.arithmetic import NUMBERS, SPLITS, Problem, numbers, problems, prompts


def test_the_worked_example():
    problem = Problem(13, 17)
    assert problem in problems("test")
    assert problem.question == "13×17=?"
    assert problem.working == "13×10=100+30=130\n13×7=70+21=91\n130+91=221\n<answer>221</answer>"


def test_every_number_belongs_to_one_split():
    assert sorted(itertools.chain.from_iterable(map(numbers, SPLITS))) == list(NUMBERS)


@pytest.mark.parametrize(("one", "other"), list(itertools.combinations(SPLITS, 2)))
def test_splits_share_no_problem_no_swapped_problem_and_no_line(one, other):
    first, second = problems(one), problems(other)
    pairs = {frozenset((p.a, p.b)) for p in first} & {frozenset((p.a, p.b)) for p in second}
    lines = {line for p in first for line in p.lines} & {line for p in second for line in p.lines}
    assert not pairs
    assert not lines


def test_splits_are_large_enough():
    assert {split: len(problems(split)) for split in SPLITS} == {"train": 4392, "dev": 353, "test": 608}


def test_every_line_is_true():
    for problem in itertools.chain.from_iterable(map(problems, SPLITS)):
        for line in problem.lines:
            sides = [eval(side.replace("×", "*")) for side in line.split("=")]
            assert len(set(sides)) == 1, line
        assert int(problem.answer) == problem.a * problem.b


def test_prompts_carry_answer_and_factors():
    (prompt,) = [p for p in prompts("test") if p.columns == {"a": 13, "b": 17}]
    assert (prompt.uid, prompt.text, prompt.answer) == ("arithmetic-test-13x17", "13×17=?", "221")
    uids = [p.uid for split in SPLITS for p in prompts(split)]
    assert len(set(uids)) == len(uids)


def test_an_unknown_split_is_an_error():
    with pytest.raises(KeyError):
        problems("validation")
