import json

import pytest

from covey.errors import PromptError
from covey.prompts.source import load_prompts, prompts_from_rows


def test_arithmetic_has_three_splits():
    assert load_prompts("arithmetic", split="test", limit=3)[0].task == "arithmetic"
    with pytest.raises(PromptError, match="train, dev, test"):
        load_prompts("arithmetic", split="validation")


def test_arithmetic_takes_style_and_system():
    (plain,) = load_prompts("arithmetic", split="test", limit=1, style="plain")
    assert (plain.plain, [m.role for m in plain.messages]) == (True, ["user"])
    (chat,) = load_prompts("arithmetic", split="test", limit=1, system="be exact")
    assert [(m.role, m.content) for m in chat.messages] == [("system", "be exact"), ("user", plain.text)]


def test_a_path_is_read_as_rows_and_named_after_the_file(tmp_path):
    path = tmp_path / "sums.json"
    path.write_text(json.dumps([{"prompt": "1+1=?", "answer": 2}, {"prompt": "2+2=?", "answer": 4}]))
    (prompt,) = load_prompts(str(path), split="train", limit=1)
    assert (prompt.uid, prompt.task, prompt.text, prompt.answer) == ("sums-1", "sums", "1+1=?", "2")


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        ("aritmetic", {}, "does not exist. prompts.source is a path, arithmetic, gym:TASK or hf:owner/name"),
        ("arithmetic", {"limit": 0}, "prompts.limit is 0, expected at least 1"),
        (
            "arithmetic",
            {"options": {"size": 3}},
            r"options are for gym: tasks; 'arithmetic' takes none, got \['size'\]",
        ),
        ("arithmetic", {"style": "plain", "system": "s"}, "needs chat messages"),
    ],
)
def test_mistakes_are_named(tmp_path, monkeypatch, source, options, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PromptError, match=message):
        load_prompts(source, split="train", **options)


def test_rows_from_python():
    prompts = prompts_from_rows(["a", {"prompt": "b", "answer": 3, "k": [1]}])
    assert [(p.uid, p.text, p.answer, dict(p.columns)) for p in prompts] == [
        ("rows-1", "a", None, {}),
        ("rows-2", "b", "3", {"answer": 3, "k": [1]}),
    ]


def test_rows_from_python_take_the_rules_of_files():
    (prompt,) = prompts_from_rows(
        [{"q": "a", "gold": 1}], prompt_column="q", answer_column="gold", system="s", name="mine"
    )
    assert (prompt.uid, prompt.task, prompt.answer) == ("mine-1", "mine", "1")
    assert [(m.role, m.content) for m in prompt.messages] == [("system", "s"), ("user", "a")]
    assert prompts_from_rows(["a"], prompt_column="q", style="plain")[0].plain


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("13×17=?", "a list of prompts, got one str"),
        ({"prompt": "a"}, "a list of prompts, got one dict"),
        ([], "rows has no rows"),
        (["a", 3], "rows, row 2: expected named columns, got int"),
    ],
)
def test_what_is_no_list_of_rows(rows, message):
    with pytest.raises(PromptError, match=message):
        prompts_from_rows(rows)
