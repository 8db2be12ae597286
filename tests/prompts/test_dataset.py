import json
import sys

import pytest

from covey.errors import MissingExtraError, PromptError
from covey.prompts.source import load_prompts

ROWS = [{"prompt": "1+1=?", "answer": 2, "level": "easy"}, {"prompt": "2+2=?", "answer": 4, "level": "hard"}]


def load(path, **options):
    return load_prompts(str(path), split="train", **options)


def jsonl(folder, rows):
    path = folder / "data.jsonl"
    path.write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n", encoding="utf-8")
    return path


def as_json(folder, rows):
    path = folder / "data.json"
    path.write_text(json.dumps(rows), encoding="utf-8")
    return path


def as_csv(folder, rows):
    path = folder / "data.csv"
    lines = [",".join(rows[0]), *(",".join(str(v) for v in row.values()) for row in rows)]
    path.write_text("\ufeff" + "\r\n".join(lines) + "\r\n", encoding="utf-8")
    return path


def as_parquet(folder, rows):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow.parquet import write_table

    path = folder / "data.parquet"
    write_table(pyarrow.Table.from_pylist(rows), path)
    return path


@pytest.mark.parametrize("write", [jsonl, as_json, as_csv, as_parquet])
def test_every_format_reads_the_same(tmp_path, write):
    prompts = load(write(tmp_path, ROWS))
    raw = str if write is as_csv else int  # a CSV cell is text; rewards get what the file holds
    assert [(p.uid, p.text, p.answer, dict(p.columns), p.plain) for p in prompts] == [
        ("data-1", "1+1=?", "2", {"answer": raw(2), "level": "easy"}, False),
        ("data-2", "2+2=?", "4", {"answer": raw(4), "level": "hard"}, False),
    ]


def test_a_saved_dataset_with_splits(tmp_path):
    datasets = pytest.importorskip("datasets")
    saved = datasets.DatasetDict(
        {"train": datasets.Dataset.from_list(ROWS), "test": datasets.Dataset.from_list(ROWS[:1])}
    )
    saved.save_to_disk(str(tmp_path / "set"))
    assert [p.text for p in load(tmp_path / "set")] == ["1+1=?", "2+2=?"]
    assert [p.text for p in load_prompts(str(tmp_path / "set"), split="test")] == ["1+1=?"]
    with pytest.raises(PromptError, match="no split 'dev'; it has train, test"):
        load_prompts(str(tmp_path / "set"), split="dev")


def test_messages_survive_parquet_and_saved_datasets(tmp_path):
    datasets = pytest.importorskip("datasets")
    chat = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}]
    datasets.Dataset.from_list([{"prompt": chat}]).save_to_disk(str(tmp_path / "set"))
    for path in (as_parquet(tmp_path, [{"prompt": chat}]), tmp_path / "set"):
        (prompt,) = load(path)
        assert [(m.role, m.content) for m in prompt.messages] == [("system", "be brief"), ("user", "hi")]


def test_hub_names_with_split_and_config(tmp_path, monkeypatch):
    datasets = pytest.importorskip("datasets")
    monkeypatch.chdir(tmp_path)  # a folder of the name takes the place of the hub
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    for folder, rows in (("plain", ROWS), ("hard", ROWS[1:])):
        (tmp_path / "owner" / "name" / folder).mkdir(parents=True)
        jsonl(tmp_path / "owner" / "name" / folder, rows)
    configs = "".join(f"- config_name: {c}\n  data_files: {c}/data.jsonl\n" for c in ("plain", "hard"))
    (tmp_path / "owner" / "name" / "README.md").write_text(f"---\nconfigs:\n{configs}---\n")
    (prompt,) = load("hf:owner/name:hard")
    assert (prompt.uid, prompt.text, prompt.answer, prompt.task) == (
        "hf:owner/name:hard-1",
        "2+2=?",
        "4",
        "hf:owner/name:hard",
    )
    assert [p.text for p in load("hf:owner/name:plain", limit=1)] == ["1+1=?"]
    with pytest.raises(PromptError, match=r"cannot load hf:owner/name:hard \(split 'dev'\)"):
        load_prompts("hf:owner/name:hard", split="dev")


def test_a_hub_data_set_that_cannot_be_reached():
    pytest.importorskip("datasets")
    with pytest.raises(PromptError, match=r"cannot load hf:owner/no-such-name \(split 'train'\)"):
        load("hf:owner/no-such-name")


@pytest.mark.parametrize(
    ("module", "source"), [("datasets", "hf:owner/name"), ("datasets", "."), ("pyarrow", "a.parquet")]
)
def test_missing_libraries_name_the_extra(tmp_path, monkeypatch, module, source):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.parquet").write_bytes(b"")
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=r"covey\[data\]"):
        load(source)


def test_chat_rows_keep_their_messages(tmp_path):
    chat = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}]
    (prompt,) = load(jsonl(tmp_path, [{"prompt": chat}]))
    assert [(m.role, m.content) for m in prompt.messages] == [("system", "be brief"), ("user", "hi")]
    assert prompt.answer is None
    assert load(jsonl(tmp_path, [{"prompt": chat}]), system="other")[0].messages == prompt.messages


def test_system_style_limit_columns_and_uid(tmp_path):
    path = jsonl(tmp_path, [{"q": "a", "gold": 1, "uid": "x"}, {"q": "b", "gold": 2, "uid": "y"}])
    (prompt,) = load(path, prompt_column="q", answer_column="gold", system="s", limit=1)
    assert [(m.role, m.content) for m in prompt.messages] == [("system", "s"), ("user", "a")]
    assert (prompt.uid, prompt.answer, dict(prompt.columns)) == ("x", "1", {"gold": 1})
    assert load(path, prompt_column="q", style="plain")[0].plain


def test_an_id_names_prompts_only_where_it_can_and_stays_a_column(tmp_path):
    rows = [{"prompt": "a", "id": 0}, {"prompt": "b", "id": 1}]
    assert [(p.uid, dict(p.columns)) for p in load(jsonl(tmp_path, rows))] == [("0", {"id": 0}), ("1", {"id": 1})]
    for second in (0, None, ""):
        rows[1]["id"] = second
        assert [p.uid for p in load(jsonl(tmp_path, rows))] == ["data-1", "data-2"]


def test_a_uid_of_zero_is_a_uid_and_a_missing_one_is_not(tmp_path):
    rows = [{"prompt": "a", "uid": 0}, {"prompt": "b", "uid": None}, {"prompt": "c"}]
    assert [p.uid for p in load(jsonl(tmp_path, rows))] == ["0", "data-2", "data-3"]


def test_the_same_text_twice_is_two_prompts(tmp_path):
    prompts = load(jsonl(tmp_path, [ROWS[0], ROWS[0]]))
    assert len({p.uid for p in prompts}) == 2


def test_unicode_line_separators_do_not_split_a_row(tmp_path):
    assert load(jsonl(tmp_path, [{"prompt": "a\u2028b\x85c"}]))[0].text == "a\u2028b\x85c"


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([], {}, "no rows"),
        (
            [{"promt": "x", "b": 1}],
            {},
            r"row 1: there is no column 'prompt'. Did you mean 'promt'\? The columns are: promt, b.",
        ),
        (ROWS, {"answer_column": "anser"}, "no column 'anser'. Did you mean 'answer'"),
        (ROWS, {"prompt_column": "zzz"}, "no column 'zzz'. The columns are: prompt, answer, level."),
        ([{"prompt": "  "}], {}, "row 1: the prompt is empty"),
        (
            [{"prompt": [{"role": "system", "content": "s"}, {"role": "user", "content": ""}]}],
            {},
            "row 1: the prompt is empty",
        ),
        ([{"prompt": "x"}, {"prompt": 3}], {}, r"data.jsonl, row 2: 'prompt' is 3"),
        ([{"prompt": [{"role": "user"}]}], {}, "is not a message"),
        ([{"prompt": []}], {}, "expected text or a list"),
        ([{"prompt": [{"role": "user", "content": "x"}]}], {"style": "plain"}, 'style is "plain"'),
        (
            [{"prompt": "x", "uid": "a"}, {"prompt": "y", "uid": "a"}],
            {},
            "data.jsonl: rows 1 and 2 have the same uid 'a'",
        ),
        (["x"], {}, "row 1: expected named columns, got str"),
        (ROWS, {"system": "s", "style": "plain"}, "needs chat messages"),
        (ROWS, {"options": {"a": 1}}, "are for gym: tasks"),
    ],
)
def test_bad_rows_are_named(tmp_path, rows, options, message):
    with pytest.raises(PromptError, match=message):
        load(jsonl(tmp_path, rows), **options)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", '{"prompt": "x"}\n{oops\n', "line 2: not JSON"),
        ("a.json", '{"prompt": "x"}', "expected a list"),
        ("a.json", "[", "not JSON"),
        ("a.csv", "prompt,answer\nx\n", "line 2: expected 2 cells"),
        ("a.csv", "prompt,answer\nx,1,2\n", "line 2: expected 2 cells"),
        ("a.csv", "prompt,prompt\nx,y\n", "two columns have the same name"),
        ("a.csv", 'prompt\n"x\n', "unexpected end of data"),
        ("a.csv", "", "no rows"),
        ("a.txt", "x", "unknown file type '.txt'"),
        ("a.parquet", "x", "not a Parquet file"),
    ],
)
def test_bad_files_are_named(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(PromptError, match=message):
        load(tmp_path / name)


def test_bytes_that_are_no_text(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(PromptError, match="not UTF-8"):
        load(tmp_path / "a.jsonl")


def test_a_missing_file_names_its_neighbours(tmp_path):
    jsonl(tmp_path, ROWS)
    with pytest.raises(PromptError, match=r"does not exist. Nearby: data.jsonl. prompts.source is a path, arithmetic"):
        load(tmp_path / "dat.jsonl")
    with pytest.raises(PromptError, match="no folder"):
        load(tmp_path / "nowhere" / "data.jsonl")
    with pytest.raises(PromptError, match="not a data set"):
        load(tmp_path)
