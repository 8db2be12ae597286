"""Verdicts on written answers: the table, each way round, from every kind of thread, under attack, in time."""

import asyncio
import json
import multiprocessing
import threading
import time
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from covey.rewards.maths.compare import Options
from covey.rewards.maths.judge import Judge

TABLE = json.loads(Path(__file__).with_name("cases.json").read_text(encoding="utf-8"))
CASES, FIELD = TABLE["ours"], TABLE["field"]  # expected, given, right; field: pairs that verifiers in use judge wrongly
PLACES = ("boxed", "tag:answer", "hashes", "phrase", "formula", "whole")
RIGHT = {"correct": True, "gold_unparsed": None}


@cache
def judge():
    return Judge(places=PLACES)


@cache
def alike():
    """Where nothing is looked for inside the reply: all of it is the answer."""
    return Judge(places=("whole",))


def verdict(gold, reply):
    found = judge()(gold, reply)
    assert found.why
    return RIGHT.get(found.kind, False)


@pytest.mark.parametrize(("gold", "answer", "right"), CASES + FIELD)
def test_the_table(gold, answer, right):
    assert verdict(gold, answer) is right


@pytest.mark.parametrize(("gold", "answer", "right"), CASES)
def test_each_way_round(gold, answer, right):
    """But an expected percentage is also met by its bare number, and what cannot be read makes no expectation."""
    if right is None or judge().problem(answer) or "%" in gold + answer or "percent" in gold + answer:
        return
    assert verdict(answer, gold) is right


def in_a_thread(pairs):
    found = []
    thread = threading.Thread(target=lambda: found.extend(verdict(gold, answer) for gold, answer in pairs))
    thread.start()
    thread.join()
    return found


def in_async_code(pairs):
    async def ask():
        return await asyncio.gather(*(asyncio.to_thread(verdict, gold, answer) for gold, answer in pairs))

    return asyncio.run(ask())


def in_a_child(pairs):
    judge()  # the child inherits interpreters that are not its own
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.starmap(verdict, pairs)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("context", [in_a_thread, in_async_code, in_a_child])
def test_the_same_from_everywhere(context):
    table = FIELD + CASES[::7]
    assert context([(gold, answer) for gold, answer, _ in table]) == [right for _, _, right in table]


HANGS = [
    r"\boxed{\dfrac{5^{\left(5^{\left(5^{\left(5^5\right)}\right)} - 4\right)} - 5}{16}}", "10**10**10",
    "9^{9^{9^{9}}}", "(10^9)!", "((((10!)!)!)!)", r"\sum_{k=1}^{10^{12}} k^{k}", r"\int_0^1 x^x dx", "(" * 300 + "1" + ")" * 300,
    "(a+b+c+d+f)^{60}", "1" * 900, "2^{2^{2^{2^{2^{2}}}}}", r"\sqrt{" * 25 + "2" + "}" * 25, r"\binom{10^9}{5\cdot10^8}",
    "-" * 900 + "1", "x" * 900, "1+" * 400 + "1", r"\frac{1}{" * 29 + "3" + "}" * 29, r"e^{e^{e^{e^{e}}}}",
    r"\sin(10^{10^{5}})", "1.0e999999999", "gcd(2^{4000}-1,2^{3999}-1)", r"\lfloor 10^{1000}\pi \rfloor", "|" * 300,
    "{" * 400, r"\begin{pmatrix}" + "1&" * 300 + r"1\end{pmatrix}", "7^{7^{7^{7}}}+\\pi", r"(1+\pi)^{300000}",
]  # fmt: skip


@pytest.mark.parametrize("hostile", HANGS)
def test_no_answer_takes_longer_than_its_deadline(hostile):
    began = time.monotonic()
    assert verdict("42", hostile) is False
    assert time.monotonic() - began < 6.0
    assert verdict(r"\sqrt{2}", r"\frac{2}{\sqrt{2}}") is True


@pytest.mark.parametrize("hostile", HANGS)
def test_no_expected_answer_takes_longer_either(hostile):
    began = time.monotonic()
    judge()(hostile, "41")
    assert time.monotonic() - began < 6.0


PIECES = st.sampled_from([
    *"0123456789xyei+-*/^_!(){}[]|,.=<>$% \\", r"\frac", r"\sqrt", r"\pi", r"\cup", r"\in", r"\infty", r"\boxed{", r"\text{cm}",
    r"\le", r"\pm", "sin", "log", "or", "π", "½", "²", "−", "°", r"\left(", r"\right)", "10^{99}", "x=", "\x00", "𝟗", "１", "\u202e",
])  # fmt: skip


@settings(max_examples=1000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(PIECES, max_size=40).map("".join))
def test_whatever_is_written_gets_a_verdict(text):
    found = judge()("42", text)
    assert found.kind in ("correct", "wrong", "answer_unparsed", "timeout")
    assert alike()(text, text).kind in ("correct", "gold_unparsed", "answer_unparsed")


@pytest.mark.parametrize("text", ["x=x", "0=0", "x<x", "0x+0y=0", r"\emptyset", "x=y", "[1,1]", "-x=-x"])
def test_what_is_written_alike_is_the_same(text):
    assert alike()(text, text).kind in ("correct", "gold_unparsed")


def test_an_expected_answer_that_cannot_be_read_says_why():
    assert "cannot be read" in judge().problem("see figure 3")
    assert "division by zero" in judge().problem("1/0")
    assert judge().problem(r"\frac{\pi}{2}") == ""


def test_options():
    assert Judge(Options(units="require"))("12", "12 km").kind == "wrong"
    assert Judge(Options(units="require"))("12 km", "12 km").kind == "correct"
    assert Judge(Options(percent="strict"))("10%", "10").kind == "wrong"
    assert Judge(Options(percent="strict"))("10%", "0.1").kind == "correct"
    assert Judge(Options(order_matters=True))("1, 2", "2, 1").kind == "wrong"
    assert Judge(Options(order_matters=True))("1, 2", "1, 2").kind == "correct"
    assert Judge(Options(rel_tol=1e-3))(r"\pi", "3.1416").kind == "correct"
    assert Judge(Options(rel_tol=1e-3))(r"\pi", "3.2").kind == "wrong"
    assert Judge(Options(rel_tol=1e-3))("1000", "1000.5").kind == "correct"


@pytest.mark.parametrize(
    ("reply", "right"),
    [
        (r"so \boxed{8}, no: \boxed{7}", True),
        (r"so \boxed{7}, no: \boxed{8}", False),
        (r"\boxed{6, 7}", False),
        ("1 2 3 4 5 6 7 8 9", False),
        ("The answer is 7.", True),
        ("The answer is 7. Or 8?", True),
        ("the answer is 8. Wait, the answer is: 7", True),
        ("<answer>7</answer>", True),
        ("work #### 7", True),
        ("is it $8$ or $7$", True),
        (r"\boxed{", False),
        (r"\boxed{\frac{14}{2}}", True),
        ("", False),
    ],
)
def test_the_last_answer_at_the_first_place_counts(reply, right):
    assert verdict("7", reply) is right
