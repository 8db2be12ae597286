import gzip
import json

import pytest

from covey.errors import RunFolderError
from covey.observe.run_folder import RunFolder, open_run, read_lines


def test_a_folder_without_config_is_no_run(tmp_path):
    with pytest.raises(RunFolderError, match="not a run folder"):
        open_run(tmp_path)
    (tmp_path / "config.toml").write_text("")
    assert open_run(tmp_path) == RunFolder(tmp_path)
    with pytest.raises(RunFolderError, match="has not finished"):
        open_run(tmp_path).read_summary()


def test_a_line_cut_off_by_a_crash_is_left_out(tmp_path):
    whole = json.dumps({"step": 0, "x": "a\u2028b"}, ensure_ascii=False) + "\n"
    (tmp_path / "m.jsonl").write_text(whole + '{"step": 1, "x"', encoding="utf-8")
    assert list(read_lines(tmp_path / "m.jsonl")) == [{"step": 0, "x": "a\u2028b"}]
    with gzip.open(tmp_path / "m.jsonl.gz", "wt", encoding="utf-8") as file:
        file.write(whole)
    assert list(read_lines(tmp_path / "m.jsonl.gz")) == [{"step": 0, "x": "a\u2028b"}]
    assert list(read_lines(tmp_path / "none")) == []


def test_a_shard_cut_off_in_the_middle_gives_what_it_has(tmp_path):
    path = tmp_path / "m.jsonl.gz"
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps({"step": i, "x": str(hash(str(i)))}) + "\n" for i in range(2000))
    path.write_bytes(path.read_bytes()[:-2000])
    lines = list(read_lines(path))
    assert 0 < len(lines) < 2000
    assert [line["step"] for line in lines] == list(range(len(lines)))
