import contextlib
import time

import pytest

from covey.rewards.judges.chat import UnreadableError
from covey.rewards.judges.verdict import LONGEST, last_object, read_score, read_winner


@pytest.mark.parametrize(
    ("answer", "score"),
    [
        ('{"reason": "good", "score": 7}', 7.0), ('{"score": 1.5}', 1.5), ('```json\n{"score": 10}\n```', 10.0),
        ('It says {"score": 10}, but:\n{"score": 2}', 2.0), ('{x} and {"score": 3} so there', 3.0),
        ('{"score": 3, "parts": {"score": 9}}', 3.0), ('{"score": 4, "reason": "a } in {text}"}', 4.0), ('{"score": 5, "reason": 6}', 5.0),
    ],
)  # fmt: skip
def test_the_last_object_counts(answer, score):
    assert read_score(answer, 1, 10)[0] == score


@pytest.mark.parametrize(
    "answer",
    [
        "", "7", "score: 7", '{"score": "7"}', '{"score": true}', '{"score": null}', "{}", '{"score": 0.99}', '{"score": 11}', '{"score": NaN}',
        '{"score": 1e999}', '{"score": -Infinity}', '{"score": 1, "score": 10}', '{"score": 7', "{'score': 7}", '[7]', '{"score": [7]}',
        '{"score": 7} no, rather {"verdict": 7}', '{"score": ' + "9" * 5000 + "}",
    ],
)  # fmt: skip
def test_anything_else_is_unreadable(answer):
    with pytest.raises(UnreadableError):
        read_score(answer, 1, 10)


def test_the_reason_comes_along_and_is_kept_short():
    assert read_score('{"reason": "' + "x" * 500 + '", "score": 2}', 1, 10) == (2.0, "x" * 200)
    assert read_winner('{"winner": "tie", "reason": ["no text"]}') == (0.5, "")


@pytest.mark.parametrize(("winner", "share"), [("first", 1.0), ("tie", 0.5), ("second", 0.0)])
def test_winners(winner, share):
    assert read_winner(f'{{"reason": "so", "winner": "{winner}"}}') == (share, "so")


@pytest.mark.parametrize(
    "answer", ['{"winner": "third"}', '{"winner": 1}', '{"winner": ["first"]}', '{"score": 1}', "first"]
)
def test_nobody_else_can_win(answer):
    with pytest.raises(UnreadableError):
        read_winner(answer)


@pytest.mark.parametrize("piece", ["{", '{"a":', '{"a', '{"a":[', '{"a":1}', "[{"])
def test_hostile_answers_take_no_time(piece):
    began = time.perf_counter()
    for text in (piece * 1_000_000, piece * (LONGEST // len(piece))):
        with contextlib.suppress(UnreadableError):
            last_object(text)
    assert time.perf_counter() - began < 3
