import json

import pytest

from covey.checkpoint.state import load_state, save_state
from covey.checkpoint.store import CheckpointStore, write_folder
from covey.errors import RunFolderError
from covey.types import RunState


def fill(folder):
    (folder / "sub").mkdir()
    (folder / "sub" / "a.txt").write_text("a")
    (folder / "state.json").write_text("{}")


def test_a_folder_is_complete_or_absent(tmp_path):
    def breaks(folder):
        fill(folder)
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_folder(tmp_path / "new", breaks)
    assert list(tmp_path.iterdir()) == []
    write_folder(tmp_path / "new", fill)
    with pytest.raises(OSError, match="disk full"):
        write_folder(tmp_path / "new", breaks)
    assert (tmp_path / "new" / "sub" / "a.txt").read_text() == "a"
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


def test_an_existing_folder_is_replaced_whole(tmp_path):
    write_folder(tmp_path / "x", fill)
    (tmp_path / "x" / "stale.txt").write_text("old")
    write_folder(tmp_path / "x", fill)
    assert sorted(path.name for path in (tmp_path / "x").iterdir()) == ["state.json", "sub"]
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_only_the_newest_are_kept_and_half_written_ones_do_not_count(tmp_path):
    store = CheckpointStore(tmp_path / "checkpoints", keep=2)
    assert store.steps() == []
    for step in (5, 10, 100):
        store.save(step, fill)
    (store.folder / ".step-000200.tmp").mkdir()
    (store.folder / "step-000300").mkdir()  # without its state
    assert store.steps() == [10, 100]
    assert store.path(100).name == "step-000100"


def test_counters_come_back(tmp_path):
    state = RunState(step=3, version=4, cursor={"epoch": 1, "position": 2}, rng={"torch": [1]}, seconds=1.5, tokens=9)
    save_state(tmp_path / "state.json", state)
    assert load_state(tmp_path / "state.json") == state
    for text in ("", "{", '{"step": 1}', "[]"):
        (tmp_path / "bad.json").write_text(text)
        with pytest.raises(RunFolderError, match="not a checkpoint's state"):
            load_state(tmp_path / "bad.json")
    assert json.loads((tmp_path / "state.json").read_text())["step"] == 3
