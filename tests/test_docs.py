"""Docs say what is: every setting is explained, every link leads somewhere, the tour prints what it says."""

import contextlib
import io
import re
from pathlib import Path

import pytest

from covey.config import Component, RunConfig

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


@pytest.mark.parametrize("section", RunConfig.model_fields)
def test_every_setting_of_the_run_file_is_explained(section):
    page = (ROOT / "docs" / "run-file.md").read_text(encoding="utf-8")
    text = page.split(f"## [{section}]")[1].split("\n## ")[0]
    for name in RunConfig.model_fields[section].annotation.model_fields:
        if not (name == "name" and issubclass(RunConfig.model_fields[section].annotation, Component)):
            assert f"`{name}`" in text, f"{section}.{name}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8")):
        assert "://" in target or (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_tree_of_the_readme_is_the_tree():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    packages = {path.parent.name for path in (ROOT / "src" / "covey").glob("*/__init__.py")}
    shown = set(re.findall(r"^  (\w+)/ ", text, flags=re.MULTILINE))
    assert shown == packages


def test_the_tour_prints_what_it_says():
    page = (ROOT / "docs" / "tour.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```(python|text)\n(.*?)```", page, flags=re.DOTALL)
    space: dict = {}
    said = ""
    assert sum(kind == "text" for kind, _ in blocks) > 5
    for kind, body in blocks:
        if kind == "python":
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(body, "tour.md", "exec"), space)
            said = out.getvalue()
        else:
            assert said == body, body
