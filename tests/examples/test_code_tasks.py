"""The code tasks that ship: right references pass, expected mistakes do not, and prompts say what the tests ask."""

import ast
import asyncio
import json
import re
from collections import Counter
from pathlib import Path
from types import MappingProxyType

import pytest

from covey.config import load_config
from covey.errors import ConfigError
from covey.loop.build import make_prompts
from covey.loop.components import make_scorer
from covey.prompts.source import load_prompts
from covey.rewards.base import ScoreContext
from covey.rewards.code import CodeTests, best
from covey.rewards.fit import judgeable
from covey.testing.samples import make_prompt, make_trajectory
from covey.types import Group

ROOT = Path(__file__).parents[2]
FILE, RUN_FILE = ROOT / "examples" / "code_tasks.jsonl", ROOT / "examples" / "code.toml"
TASKS = {row["id"]: row for row in map(json.loads, FILE.read_text(encoding="utf-8").splitlines())}

SIGNATURE = re.compile(r"Write a Python function `((\w+)\(.*?\))`\. It ")
RETURNS = re.compile(r"Example: `(.+)` returns `(.+)`\.")
CHANGES = re.compile(r"Example: after `(.+)` the value of `(\w+)` is `(.+)`\.")
PRINTS = re.compile(r"Example input:\n(.+)\n\nExample output:\n(.+)\n\nPrint", re.DOTALL)


def kind(task):
    first = task["tests"][0]
    return "asserted" if isinstance(first, str) else "called" if "function" in first else "written"


def of_kind(*kinds):
    return {name: task for name, task in TASKS.items() if kind(task) in kinds}


@pytest.fixture(scope="module")
def level():
    try:
        return best("L3")
    except ConfigError as error:
        pytest.skip(f"no sandbox: {error}")


@pytest.fixture(scope="module")
def verdicts(level):
    """What the reward says of programs, by task; with ``tests`` in place of the task's own."""
    reward = CodeTests(partial=True, minimum="L3", seconds=4.0)

    def verdict(name, program, tests):
        return reward.part(make_prompt(name, tests=tests), f"```python\n{program}\n```")

    async def judged(programs, tests):
        asked = (asyncio.to_thread(verdict, n, p, tests.get(n, TASKS[n]["tests"])) for n, p in programs.items())
        return dict(zip(programs, await asyncio.gather(*asked), strict=True))

    return lambda programs, tests=MappingProxyType({}): asyncio.run(judged(programs, tests))


def refused(parts):
    """Those that are not right, with the reason."""
    return {name: part.why or part.error for name, part in parts.items() if part.correct is not True}


def passing(parts):
    """Those that pass, or were not judged at all."""
    return {name: part.value for name, part in parts.items() if part.correct is not False}


def test_how_many_there_are():
    kinds = Counter(map(kind, TASKS.values()))
    assert len(FILE.read_text(encoding="utf-8").splitlines()) == len(TASKS) == kinds.total() >= 72
    assert kinds["called"] >= 50
    assert kinds["written"] >= 14
    assert kinds["asserted"] >= 8
    levels = Counter(task["level"] for task in TASKS.values())
    assert levels.keys() == {1, 2, 3}
    assert min(levels.values()) >= 20


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_every_task_is_whole(task):
    assert list(task) == ["id", "topic", "level", "prompt", "tests", "solution"]
    assert 5 <= len(task["tests"]) <= 10
    assert len({json.dumps(test) for test in task["tests"]}) == len(task["tests"])
    assert task["prompt"].endswith("in one ```python block.")
    assert "```" not in task["solution"]


def test_prompts_and_solutions_differ():
    assert len({task["prompt"] for task in TASKS.values()}) == len(TASKS)
    solutions = {name: ast.unparse(ast.parse(task["solution"])).replace(name, "f") for name, task in TASKS.items()}
    assert len(set(solutions.values())) == len(TASKS)


@pytest.mark.parametrize("name", of_kind("called", "asserted"))
def test_the_names_in_a_prompt_are_those_of_its_tests(name):
    task = TASKS[name]
    signature, function = SIGNATURE.match(task["prompt"]).groups()
    assert function == name
    defined = ast.parse(f"def {signature}: pass").body[0].args
    assert any(
        isinstance(node, ast.FunctionDef) and node.name == name and ast.unparse(node.args) == ast.unparse(defined)
        for node in ast.parse(task["solution"]).body
    )
    if kind(task) == "called":
        assert {test["function"] for test in task["tests"]} == {name}
        assert {len(test["args"]) for test in task["tests"]} == {len(defined.args)}
    else:
        for test in task["tests"]:
            calls = {n.func.id for n in ast.walk(ast.parse(test)) if isinstance(n, ast.Call)}
            assert {name} <= calls <= {name, "list", "range", "set"}


@pytest.mark.parametrize("name", of_kind("called", "written"))
def test_no_constant_answers_more_than_three_fifths(name):
    """With a share paid, one that did would be a good place to stop learning."""
    answers = Counter(json.dumps(test.get("expected", test.get("output"))) for test in TASKS[name]["tests"])
    assert max(answers.values()) <= 0.6 * answers.total()


def test_every_solution_passes_all_its_tests(verdicts):
    parts = verdicts({name: task["solution"] for name, task in TASKS.items()})
    assert refused(parts) == {}
    assert {part.value for part in parts.values()} == {1.0}


def example(task):
    """The example of a prompt, as a test."""
    if kind(task) == "written":
        given, printed = PRINTS.search(task["prompt"]).groups()
        return {"input": given + "\n", "output": printed + "\n"}
    if found := CHANGES.search(task["prompt"]):
        return "{}\nassert {} == {}".format(*found.groups())
    return "assert {} == {}".format(*RETURNS.search(task["prompt"]).groups())


def test_every_example_is_true_and_none_of_the_tests(verdicts):
    examples = {name: [example(task)] for name, task in TASKS.items()}
    assert refused(verdicts({name: task["solution"] for name, task in TASKS.items()}, examples)) == {}
    for name, task in TASKS.items():
        (shown,) = examples[name]
        if kind(task) == "called":
            call = ast.parse(shown).body[0].test.left
            assert [ast.literal_eval(argument) for argument in call.args] not in [t["args"] for t in task["tests"]]
        else:
            assert shown not in task["tests"]
            assert kind(task) == "asserted" or shown["input"] not in [test["input"] for test in task["tests"]]


def hard_coded(name, task):
    """A program that knows the answer to the first test alone."""
    first = task["tests"][0]
    if kind(task) == "written":
        return f"print({first['output']!r}, end='')"
    if kind(task) == "called":
        return f"def {name}(*arguments):\n    return {first['expected']!r}"
    told = [node.test for node in ast.walk(ast.parse(first)) if isinstance(node, ast.Assert)]
    returned = [ast.unparse(test.comparators[0]) for test in told if isinstance(test.left, ast.Call)] or ["None"]
    changed = [ast.unparse(test.comparators[0]) for test in told if isinstance(test.left, ast.Name)]
    lines = [f"    there.clear()\n    there += {new}" for new in changed if not new.startswith("{")]
    lines += [f"    there.clear()\n    there.update({new})" for new in changed if new.startswith("{")]
    head = f"def {name}(there=None, *others, **named):"
    return "\n".join([head, *lines, f"    return {returned[0]}"])


def test_the_first_answer_hard_coded_passes_the_first_test_and_not_all(verdicts):
    parts = verdicts({name: hard_coded(name, task) for name, task in TASKS.items()})
    assert passing(parts) == {}
    assert {name: part.value for name, part in parts.items() if not 0.0 < part.value < 1.0} == {}


def test_nothing_returned_and_nothing_printed_fail(verdicts):
    idle = dict.fromkeys(of_kind("written"), "pass")
    idle |= {name: f"def {name}(*arguments, **named):\n    return None" for name in of_kind("called", "asserted")}
    parts = verdicts(idle)
    assert passing(parts) == {}
    assert max(part.value for part in parts.values()) <= 0.5


MISTAKES = {
    # A rule that holds for the example, or for most numbers, and not for all.
    "is_multiple": "def is_multiple(n, k): return n >= k and n % k == 0",
    "to_fahrenheit": "def to_fahrenheit(celsius): return celsius * 9 // 5 + 32",
    "sign": "def sign(n): return 1 if n >= 0 else -1",
    "distance": "def distance(a, b): return b - a",
    "school_grade": "def school_grade(p): return 'A' if p > 90 else 'B' if p > 75 else 'C' if p > 50 else 'F'",
    "sum_to": "def sum_to(n): return sum(range(n))",
    "clock_hour": "def clock_hour(hour, passed): return hour + passed if hour + passed < 24 else hour + passed - 24",
    "last_digit": "def last_digit(n): return n % 10",
    "count_digits": "def count_digits(n): return len(str(n))",
    "is_leap_year": "def is_leap_year(year): return year % 4 == 0",
    "cents_each": "import math\ndef cents_each(total, people): return math.ceil(total / people)",
    "divisors": "def divisors(n): return [k for k in range(1, n) if n % k == 0]",
    "trailing_zeros": "def trailing_zeros(n): return str(n).count('0')",
    "is_power_of_two": "def is_power_of_two(n): return n > 0 and n % 2 == 0",
    "fewest_coins": "def fewest_coins(c): return c // 50 + c % 50 // 10 + c % 10 // 5 + c % 5 // 2 + c % 5 % 2",
    "triangle_kind": "def triangle_kind(a, b, c): return ['equilateral', 'isosceles', 'scalene'][len({a, b, c}) - 1]",
    "common_divisor": "def common_divisor(numbers): return min(numbers)",
    # Text: the empty one, the middle, capitals.
    "first_and_last": "def first_and_last(word): return word[0] + word[-1]",
    "every_second": "def every_second(text): return text[1::2]",
    "without_blanks": "def without_blanks(text): return ''.join(text.split())",
    "same_ends": "def same_ends(text): return text[0] == text[-1]",
    "dashed": "def dashed(word, n): return (word + '-') * n",
    "count_words": "def count_words(text): return text.count(' ') + 1",
    "count_letter": "def count_letter(text, letter): return text.count(letter)",
    "initials": "def initials(name): return ''.join(word[0].upper() for word in name.split(' '))",
    "masked": "def masked(number): return '*' * (len(number) - 4) + number[len(number) - 4:]",
    "reads_both_ways": "def reads_both_ways(text): return text.lower() == text.lower()[::-1]",
    "longest_word": "def longest_word(sentence): return sorted(sentence.split(), key=len)[-1]",
    "swap_halves": "def swap_halves(text): half = (len(text) + 1) // 2; return text[half:] + text[:half]",
    "is_pin": "def is_pin(text): return text.isdigit()",
    "extension": "def extension(name): return name.split('.')[1]",
    "shift_letters": "def shift_letters(text, shift): return ''.join(chr(ord(c) + shift) for c in text)",
    "run_lengths": "def run_lengths(text): return ''.join(c + str(text.count(c)) for c in dict.fromkeys(text))",
    "common_start": "def common_start(a, b): return ''.join(x for x, y in zip(a, b) if x == y)",
    "same_letters": "def same_letters(a, b): return set(a.lower()) == set(b.lower())",
    "brackets_match": "def brackets_match(t): return t.count('(') == t.count(')') and t.count('[') == t.count(']')",
    # Lists: the last item, equal items, negative ones, none.
    "count_above": "def count_above(numbers, limit): return sum(n >= limit for n in numbers)",
    "first_or": "def first_or(items, default): return items and items[0] or default",
    "first_squares": "def first_squares(n): return [i * i for i in range(n)]",
    "countdown": "def countdown(n): return list(range(n, 0, -1))",
    "mean": "def mean(numbers): return sum(numbers) / len(numbers)",
    "spread": "def spread(numbers): return max(numbers, default=0)",
    "never_falls": "def never_falls(numbers): return all(a < b for a, b in zip(numbers, numbers[1:]))",
    "second_largest": "def second_largest(numbers): return sorted(numbers)[-2] if len(numbers) > 1 else None",
    "without_repeats": "def without_repeats(items): return sorted(set(items))",
    "rotate_left": "def rotate_left(items, k): return items[k:] + items[:k]",
    "missing_number": "def missing_number(numbers): return next(n for n in range(len(numbers)) if n not in numbers)",
    "place_of_largest": "def place_of_largest(numbers): return numbers.index(max(numbers))",
    "take_turns": "def take_turns(a, b): return [item for pair in zip(a, b) for item in pair]",
    "has_pair": "def has_pair(numbers, target): return any(target - n in numbers for n in numbers)",
    "in_pieces": "def in_pieces(items, size): return [items[i:i + size] for i in range(0, len(items) - size + 1, size)]",
    "longest_run": "def longest_run(numbers): return max((numbers.count(n) for n in numbers), default=0)",
    "best_profit": "def best_profit(prices): return max(prices, default=0) - min(prices, default=0)",
    "cheapest": "def cheapest(prices): return min(prices, key=prices.get) if prices else ''",
    "added_stock": "def added_stock(a, b): return {**a, **b}",
    "favourite": "def favourite(votes): return max(sorted(set(votes)), key=votes.count, default='')",
    # Programs: input of other lengths than the example's.
    "add_line": "a, b = input().split()\nprint(a + b)",
    "hello_name": "print('Hello, ' + input().split()[0] + '!')",
    "clap_game": "for i in range(1, int(input())): print('clap' if i % 4 == 0 else i)",
    "largest_and_place": "n = list(map(int, input().split()))\nprint(max(n), n.index(max(n)))",
    "lines_and_words": "print(1, len(input().split()))",
    "clock_later": "h, m = map(int, input().split(':'))\nm += int(input())\nprint(f'{h + m // 60:02}:{m % 60:02}')",
    "primes_up_to": "n = int(input())\nprint(*[k for k in range(2, n) if all(k % d for d in range(2, k))] or ['none'])",
    "word_table": "words = input().split()\nfor word in dict.fromkeys(words): print(word, words.count(word))",
    # What happens to the arguments.
    "double_all": "def double_all(numbers): return [2 * n for n in numbers]",
    "with_added": "def with_added(items, item):\n    items.append(item)\n    return items",
    "swap_ends": "def swap_ends(items): items[0], items[-1] = items[-1], items[0]",
    "add_points": "def add_points(scores, name, points): scores[name] += points",
    "largest_of": "def largest_of(numbers): return max(numbers)",
    "remove_every": "def remove_every(items, value):\n    n = items.count(value)\n    for i in items:\n        if i == value:\n            items.remove(i)\n    return n",
    "by_age": "def by_age(people):\n    people.sort(key=lambda person: (person[1], person[0]))\n    return people",
    "read_age": "def read_age(text): return int(text)",
}  # fmt: skip


def test_expected_mistakes_fail(verdicts):
    assert passing(verdicts(MISTAKES)) == {}


def test_the_run_file_trains_on_them_and_holds_some_back(monkeypatch):
    monkeypatch.chdir(ROOT)
    config = load_config(RUN_FILE)
    train, held_out = make_prompts(config)
    assert len(held_out) == config.eval.prompts == config.prompts.holdout
    assert len(train) == len(TASKS) - len(held_out)
    assert {prompt.uid for prompt in train + held_out} == TASKS.keys()
    kept, note = judgeable(train + held_out, make_scorer(config.reward).rewards, "error")
    assert (len(kept), note) == (len(TASKS), "")


def test_the_run_file_pays_shares_and_one_block_of_a_right_program(level, monkeypatch):
    if level == "L3":
        pytest.skip("the run file wants a confinement of L2, which does not hold here")
    monkeypatch.chdir(ROOT)
    (prompt,) = (p for p in load_prompts(str(FILE), split="train") if p.uid == "sign")
    block = f"```python\n{TASKS['sign']['solution']}```"
    replies = [block, f"Here it is:\n{block}\n", f"{block}\nIt compares.", f"```python\n{MISTAKES['sign']}\n```", "1"]
    members = tuple(make_trajectory("sign", i, reply=text) for i, text in enumerate(replies))
    scorer = make_scorer(load_config(RUN_FILE).reward)
    (scored,) = asyncio.run(scorer([Group(prompt=prompt, members=members)], ScoreContext()))
    assert [score.total for score in scored.scores] == pytest.approx([1.1, 1.1, 1.0, 5 / 6, 0.0])
    assert [score.correct for score in scored.scores] == [True, True, True, False, False]
