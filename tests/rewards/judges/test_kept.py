import threading

import pytest

from covey.rewards.judges.chat import CallError
from covey.rewards.judges.kept import KeptAnswers


def test_answers_are_found_by_another_and_the_last_one_counts(tmp_path):
    path = tmp_path / "answers.sqlite"
    kept = KeptAnswers(path)
    assert kept.get("a") is None
    assert not path.exists()
    kept.put("a", "one é\x00")
    kept.put("b", "two")
    kept.put("a", "three")
    assert [KeptAnswers(path).get(key) for key in "abc"] == ["three", "two", None]


def test_many_threads_may_write(tmp_path):
    kept = KeptAnswers(tmp_path / "answers.sqlite")
    threads = [threading.Thread(target=kept.put, args=(str(n), str(n))) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [kept.get(str(n)) for n in range(20)] == [str(n) for n in range(20)]


def test_a_file_that_is_no_database_is_said_to_be_none(tmp_path):
    path = tmp_path / "answers.sqlite"
    path.write_text("x" * 5000)
    with pytest.raises(CallError, match=r"answers\.sqlite cannot be used: file is not a database"):
        KeptAnswers(path).get("a")
