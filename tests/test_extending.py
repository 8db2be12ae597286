"""docs/extending.md: its blocks are one module, whose parts pass the contracts and train."""

import re
import sys
from pathlib import Path

import pytest

import covey
from covey.testing.advantage_contract import *  # noqa: F403
from covey.testing.group_advantage_contract import *  # noqa: F403
from covey.testing.loss_contract import *  # noqa: F403

PAGE = Path(__file__).parents[1] / "docs" / "extending.md"


@pytest.fixture(scope="module")
def methods(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (folder / "my_methods.py").write_text("\n".join(blocks), encoding="utf-8")
    sys.path.insert(0, str(folder))
    import my_methods

    yield my_methods
    sys.path.remove(str(folder))


@pytest.fixture
def advantage(methods):
    return methods.Median()


@pytest.fixture
def policy_loss(methods):
    return methods.SoftClip()


def test_all_of_them_train_together(methods, model_folder, tmp_path):
    result = covey.train(
        str(model_folder), [f"{a}+{b}=?" for a in range(4) for b in range(4)],
        lambda completions: [sum(ch.isdigit() for ch in c[0]["content"]) / 4 for c in completions],
        dir=str(tmp_path / "run"), quiet=True, steps=2, group_size=4, prompts_per_step=2, max_new_tokens=5,
        advantage="my_methods:Median", loss="my_methods:SoftClip", tokens="my_methods:numbers", groups="my_methods:Best",
        **{"loss.correction": ["my_methods:Root"], "eval.prompts": 0},
    )  # fmt: skip
    for line in result.folder.read_metrics():
        assert line["sampling/groups"] == 4
        assert line["sampling/kept"] == 0.5
        assert line["correction/weight"] == pytest.approx(1.0, abs=1e-4)
        assert 0 < line["tokens/trained"] < line["tokens/sampled"]
