"""Where a reward runs programs, the run says how they are confined, and which prompts nobody can judge."""

import json

import covey
from covey.loop.build import confined

TESTS = [{"function": "one", "args": [], "expected": 1}]
ROWS = [{"prompt": f"{n}?", "tests": TESTS} for n in range(4)] + [
    {"prompt": "x", "tests": {"inputs": [1], "outputs": []}}
]


class Listening:
    def __init__(self):
        self.notes = []

    def note(self, line):
        self.notes.append(line)

    def __getattr__(self, name):
        return lambda *args: None


def test_the_level_and_the_unfit_prompts_are_told_and_recorded(model_folder, tmp_path):
    from covey.config import make_config
    from covey.loop.api import start
    from covey.prompts.source import prompts_from_rows

    config = make_config({
        "run": {"dir": str(tmp_path / "run"), "steps": 1},
        "model": {"path": str(model_folder)},
        "sampling": {"prompts_per_step": 2, "group_size": 2, "max_new_tokens": 4},
        "reward": {"parts": ["code"]},
        "eval": {"prompts": 0},
    })  # fmt: skip
    view = Listening()
    result = start(config, prompts=prompts_from_rows(ROWS), view=view)
    levels = json.loads(result.folder.environment.read_text())["sandbox"]
    assert levels["code"] in ("L1", "L2")
    assert confined("code", levels["code"]) in view.notes
    assert any(note.startswith("1 of 5 prompts cannot be judged") and "left out" in note for note in view.notes)


def test_runs_without_programs_say_so(model_folder, tmp_path):
    result = covey.train(
        model=str(model_folder), prompts=["1", "2"], reward=lambda completions: [0.0] * len(completions), steps=1,
        group_size=2, prompts_per_step=1, max_new_tokens=2, dir=str(tmp_path / "run"), quiet=True,
    )  # fmt: skip
    assert json.loads(result.folder.environment.read_text())["sandbox"] == {}


def test_a_weak_level_is_no_secret():
    assert "can read and change files" in confined("code", "L3")
    assert "can read" not in confined("code", "L1")
