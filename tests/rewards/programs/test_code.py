"""Programs judged by their tests: right ones pass, wrong and cunning ones do not; failures of the sandbox are apart."""

import asyncio
import shutil
import sys

import pytest

from covey.advantages import GRPO
from covey.errors import RewardError
from covey.rewards.base import ScoreContext
from covey.rewards.code import CodeTests
from covey.rewards.programs.cases import cases_of
from covey.rewards.programs.outputs import same_text, same_value
from covey.rewards.programs.source import program_in
from covey.rewards.score import Scorer, WeightedReward
from covey.sandbox.outcome import SandboxError
from covey.testing.samples import make_prompt, make_trajectory
from covey.types import Group

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox is for Linux")


def reply(program, language="python"):
    return f"Here it is.\n```{language}\n{program}\n```\n"


@pytest.fixture(scope="module")
def code():
    return CodeTests(seconds=2.0)


@pytest.fixture(scope="module")
def partial():
    return CodeTests(seconds=2.0, partial=True)


def part(reward, program, **columns):
    return reward.part(make_prompt(**columns), reply(program))


ADD = [{"function": "add", "args": [1, 2], "expected": 3}, {"function": "add", "args": [5, -2], "expected": 3}]
ADD_ASSERTED = ["assert add(1, 2) == 3", "assert add(5, -2) == 3"]
ADD_CHECKED = "def check(candidate):\n    assert candidate(1, 2) == 3\n    assert candidate(5, -2) == 3\n"
SHAPES = {
    "called": {"tests": ADD},
    "asserted": {"tests": ADD_ASSERTED},
    "mbpp": {"test_list": ADD_ASSERTED, "test_setup_code": "import math"},
    "humaneval": {"test": ADD_CHECKED, "entry_point": "add", "prompt_code": "import math\n"},
    "apps": {"tests": {"inputs": [[1, 2], [5, -2]], "outputs": [3, 3], "fn_name": "add"}},
    "json": {"tests": '{"inputs": [[1, 2]], "outputs": [3], "fn_name": "add"}'},
}
RIGHT = [
    "def add(a, b):\n    return a + b",
    "add = lambda a, b: a + b",
    "from operator import add",
    "def helper(a):\n    return a\ndef add(a, b):\n    print('noise')\n    return helper(a) + b",
]
CUNNING = [
    "def add(a, b):\n    return -1",
    "import sys\ndef add(a, b):\n    return -1\nsys.exit(0)",
    "import os\ndef add(a, b):\n    return -1\nos._exit(0)",
    "import atexit, os\natexit.register(lambda: os._exit(0))\ndef add(a, b):\n    return -1",
    "def add(a, b):\n    raise SystemExit(0)",
    "import sys\nsys.excepthook = lambda *a: __import__('os')._exit(0)\ndef add(a, b):\n    return -1",
    "class E:\n    def __eq__(s, o): return True\n    def __ne__(s, o): return False\n    def __bool__(s): return True\n"
    "def add(a, b): return E()",
    "class I(int):\n    def __eq__(s, o): return True\n    __hash__ = int.__hash__\ndef add(a, b): return I(7)",
    "import builtins\nbuiltins.abs = lambda x: 0\ndef add(a, b): return 99.0",
    "class add:\n    def __init__(self, a, b): pass\n    def __eq__(self, other): return True",
    "def add(a, b): return 3.5",
    "def add(a, b): return '3'",
    "def add(a, b): return True",
    "def add(a, b):\n    while True: pass",
    "def add(a, b): return [0] * (1 << 40)",
    "import json\njson.dumps = lambda *a, **k: '{\"id\": 1, \"value\": {\"int\": \"0x3\"}}'\ndef add(a, b): return -1",
    "import os, struct\nd = b'{\"id\": 1, \"value\": {\"int\": \"0x3\"}}'\nos.write(3, struct.pack('>I', len(d)) + d)\n"
    "def add(a, b): return -1",
    "import os, struct\ndef add(a, b):\n    d = b'{\"held\": true}'\n    os.write(3, struct.pack('>I', len(d)) + d)\n    return -1",
    "import sys\nfor m in list(sys.modules.values()):\n    for n in ('pack', 'same_value'):\n"
    "        if hasattr(m, n): setattr(m, n, lambda *a: True)\ndef add(a, b): return -1",
    "import sys\ndef add(a, b):\n    f = sys._getframe()\n    while f:\n        for v in f.f_locals.values():\n"
    "            if isinstance(v, dict) and 'expected' in v: return v['expected']\n        f = f.f_back\n    return -1",
    "import gc\ndef add(a, b):\n    for o in gc.get_objects():\n        if isinstance(o, dict) and 'expected' in o: return o['expected']\n"
    "    return -1",
    "add = 3",
    "def other(a, b): return a + b",
    "this is no program",
    "",
]  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("program", RIGHT)
def test_right_programs_pass(shape, program, code):
    found = part(code, program, **SHAPES[shape])
    assert (found.value, found.correct) == (1.0, True), found.why


@pytest.mark.parametrize("shape", ["called", "asserted", "humaneval"])
@pytest.mark.parametrize("program", CUNNING)
def test_wrong_and_cunning_programs_do_not(shape, program, code):
    found = part(code, program, **SHAPES[shape])
    assert (found.value, found.correct) == (0.0, False), found.why
    assert found.error is None


@pytest.mark.parametrize("program", CUNNING[1:10])
def test_the_same_programs_fool_a_grader_that_runs_them_beside_the_tests(program):
    """At least those that a plain exit code believes: so the test above is known to bite."""
    import subprocess

    source = program + "\n" + "\n".join(ADD_ASSERTED)
    fooled = subprocess.run([sys.executable, "-c", source], capture_output=True).returncode == 0
    cannot = "SystemExit" not in program and "excepthook" not in program and "abs" not in program
    assert fooled or not cannot


WRITTEN = [
    ("print(0.333333)", "0.333333333333", 1.0),
    ("print(0.3334)", "0.333333333333", 0.0),
    ("print(10000001)", "10000000", 0.0),
    (r"print('1 2 \n3\n')", "1 2\n3", 1.0),
    (r"print('1 2\n4')", "1 2\n3", 0.0),
    ("print(1)", "1 2\n3", 0.0),
    (r"print('1 2\n3\n4')", "1 2\n3", 0.0),
    (r"import sys; sys.stdout.buffer.write(b'7\n')", "7", 1.0),
    ("print(10**5000)", "1" + "0" * 5000, 1.0),
    ("print(10**5000 + 1)", "1" + "0" * 5000, 0.0),
    ("import sys; print(1, file=sys.stderr); print(7)", "7", 1.0),
    ("print('nan')", "0.5", 0.0),
    ("print('inf')", "0.5", 0.0),
    ("print(7); import sys; sys.exit(1)", "7", 0.0),
    ("print(7); 1/0", "7", 0.0),
    ("print(input())", "3", 0.0),
]


@pytest.mark.parametrize(("program", "expected", "value"), WRITTEN)
def test_what_is_written(program, expected, value, code):
    assert part(code, program, tests=[{"input": "", "output": expected}]).value == value


READING = [
    "import sys\nn=int(sys.stdin.buffer.readline())\nprint(sum(map(int,sys.stdin.buffer.readline().split())))",
    "import sys\nL=sys.stdin.buffer.readlines()\nprint(sum(map(int,L[1].split())))",
    "import sys\nfor l in sys.stdin.buffer: s=l\nprint(sum(map(int,s.split())))",
    "n=int(input())\nprint(sum(map(int,input().split())))",
    "import sys\nprint(sum(map(int,sys.stdin.read().split()[1:])))",
    "import os\nprint(sum(map(int,os.read(0,100).split()[1:])))",
    "print(sum(map(int,open(0).read().split()[1:])))",
    "import sys\ninput = sys.stdin.readline\ninput()\nprint(sum(map(int,input().split())))",
    "def main():\n    input()\n    print(sum(map(int,input().split())))\nif __name__ == '__main__':\n    main()",
]


@pytest.mark.parametrize("program", READING)
def test_every_way_of_reading(program, code):
    assert part(code, program, tests=[{"input": "3\n1 2 3\n", "output": "6"}]).value == 1.0


def test_all_tests_count(partial, code):
    tests = [{"input": str(i), "output": str(i)} for i in range(12)]
    ten = "n = int(input())\nprint(n if n < 10 else 0)"
    assert part(code, ten, tests=tests).value == 0.0
    found = part(partial, ten, tests=tests)
    assert found.value == pytest.approx(10 / 12)
    assert found.correct is False
    assert part(partial, "print(input())", tests=tests).value == 1.0
    assert part(partial, "def add(a, b): return a + b if a == 1 else 0", tests=ADD).value == 0.5
    assert part(partial, "def add(a, b): return a + b if a == 1 else 0", tests=ADD_ASSERTED).value == 0.5


def test_no_tests_is_no_verdict(code):
    for columns in ({}, {"tests": []}, {"tests": {"inputs": [], "outputs": []}}, {"test_list": []}):
        found = part(code, "print(1)", **columns)
        assert (found.value, found.correct, found.error) == (None, None, None)


def test_tests_that_do_not_fit_together_are_an_error():
    with pytest.raises(RewardError, match="3 inputs and 2 outputs"):
        cases_of({"tests": {"inputs": ["1", "2", "3"], "outputs": ["1", "2"]}})
    with pytest.raises(RewardError, match="lacks 'output'"):
        cases_of({"tests": [{"input": "1"}]})


def test_a_reply_without_a_program(code):
    for text in ("", "def add(a, b): return a + b", "```python\nunclosed", "```\n```", "```text\nx\n```"):
        assert code.part(make_prompt(tests=ADD), text).value == 0.0


def test_the_last_program_counts():
    assert program_in("```python\n1\n```\nthen\n```python\n2\n```") == "2\n"
    assert program_in("```python\n1\n```\noutput:\n```\n2\n```") == "1\n"
    assert program_in("```\n1\n```") == "1\n"
    assert program_in("```cpp\n1\n```", "cpp") == program_in("```c++\n1\n```", "cpp") == "1\n"
    assert program_in("``` python\n1\n```") == "1\n"
    assert program_in("```python\n'''```'''\n```") is not None


def test_what_a_function_does_to_its_arguments_is_seen(code):
    tests = ["a = [3, 1, 2]\nsort(a)\nassert a == [1, 2, 3]", "d = {1: 2}\nfill(d)\nassert d == {1: 2, 3: 4}"]
    assert part(code, "def sort(a): a.sort()\ndef fill(d): d[3] = 4", tests=tests).value == 1.0
    assert part(code, "def sort(a): return sorted(a)\ndef fill(d): d[3] = 4", tests=tests).value == 0.0


def test_what_a_function_raises_is_seen(code):
    tests = ["try:\n    f(0)\n    assert False\nexcept ZeroDivisionError:\n    pass"]
    assert part(code, "def f(x): return 1 / x", tests=tests).value == 1.0
    assert part(code, "def f(x): return 1", tests=tests).value == 0.0


def test_values_keep_their_types(code):
    values = "[1, 2.5, 'é', None, True, (1, 2), {3}, frozenset({4}), b'5', 1j, {(1,): [2]}, 10**5000, float('inf')]"
    assert part(code, f"def f(): return {values}", tests=[f"assert f() == {values}"]).value == 1.0
    assert part(code, "def f(x): return type(x).__name__", tests=["assert f((1, 2)) == 'tuple'"]).value == 1.0


@pytest.mark.parametrize(
    ("expected", "value", "same"),
    [
        (3, 3, True), (3, True, False), (3, 3.0, False), (3.0, 3, True), (1.0, 1.0 + 1e-9, True), (1.0, 1.1, False),
        ([1, 2], (1, 2), True), ((1, 2), [1, 2], False), ([1], [1, 2], False), ({"a": 1.0}, {"a": 1}, True),
        ("a", "a", True), ("a", b"a", False), (None, None, True), (None, 0, False), (0, False, False), ([], None, False),
        (float("inf"), float("inf"), True), (1.0, float("nan"), False), (10**400, 10**400, True), (1.0, 10**400, False),
    ],
)  # fmt: skip
def test_same_value(expected, value, same):
    assert same_value(expected, value) is same


def test_same_text_does_not_take_numbers_of_other_scripts():
    assert not same_text("0.5", "٠.٥")
    assert same_text("1e-3 x", "0.001  x\n\n")


class Failing:
    """A grader whose sandbox fails for one program."""

    def __init__(self, grader):
        self.grader, self.failures = grader, 0

    def __call__(self, source, cases, all_of_them):
        if "broken" in source:
            self.failures += 1
            raise SandboxError("the connection was reset")
        return self.grader(source, cases, all_of_them)


def test_a_failure_of_the_sandbox_is_no_failure_of_the_program():
    reward = CodeTests(seconds=0.5)
    failing = Failing(reward.grader)
    reward.__dict__["grader"] = failing
    programs = ["print(7)", "print(8)", "print('broken')", "while True: pass"]
    members = tuple(make_trajectory("p", i, reply=reply(program)) for i, program in enumerate(programs))
    group = Group(prompt=make_prompt(tests=[{"input": "", "output": "7"}]), members=members)
    scorer = Scorer(rewards=(WeightedReward(reward=reward),))
    (scored,) = asyncio.run(scorer([group], ScoreContext()))
    assert [score.total for score in scored.scores] == [1.0, 0.0, None, 0.0]
    assert [bool(score.error) for score in scored.scores] == [False, False, True, False]
    assert failing.failures == 2  # it was tried again
    (credited,) = GRPO()([scored])
    found = [row.max() if abs(row.max()) > abs(row.min()) else row.min() for row in credited.advantages]
    assert found == pytest.approx([1.154501, -0.57725, 0.0, -0.57725], abs=1e-5)


SUM = {
    "c": '#include <stdio.h>\nint main(){int a,b;scanf("%d %d",&a,&b);printf("%d\\n",a+b);}',
    "cpp": "#include <iostream>\nint main(){int a,b;std::cin>>a>>b;std::cout<<a+b<<std::endl;}",
    "javascript": "const [a,b]=require('fs').readFileSync(0,'utf8').split(' ').map(Number);console.log(a+b)",
    "bash": "read a b; echo $((a+b))",
}
TOOLS = {"c": "gcc", "cpp": "g++", "javascript": "node", "bash": "bash"}


@pytest.mark.parametrize("level", ["L1", "L2"])
@pytest.mark.parametrize("language", SUM)
def test_other_languages(language, level, monkeypatch):
    if shutil.which(TOOLS[language], path="/usr/local/bin:/usr/bin:/bin") is None:
        pytest.skip(f"{TOOLS[language]} is not installed")
    reward = CodeTests(language=language, minimum=level, seconds=10.0, memory_mb=4096)
    monkeypatch.setattr("covey.rewards.code.best", lambda minimum: level)
    tests = [{"input": "1 2", "output": "3"}, {"input": "-5 2", "output": "-3"}]
    prompt = make_prompt(tests=tests)
    found = reward.part(prompt, reply(SUM[language], language))
    assert found.value == 1.0, found.why
    assert reward.part(prompt, reply(SUM[language].replace("a+b", "a-b"), language)).value == 0.0
    assert reward.part(prompt, reply("this is } no program", language)).value == 0.0


def test_building_alone():
    reward = CodeTests(kind="builds")
    assert reward.part(make_prompt(), reply("def f(): return 1")).value == 1.0
    assert reward.part(make_prompt(), reply("def f( return 1")).value == 0.0
