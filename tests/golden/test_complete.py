import json
import re
from pathlib import Path

HERE = Path(__file__).parent


def test_every_worked_example_is_checked_and_says_its_formula():
    cases = json.loads((HERE / "cases.json").read_text(encoding="utf-8"))
    text = "".join(path.read_text(encoding="utf-8") for path in HERE.glob("test_*.py"))
    checked = {name for call in re.findall(r"@golden\(([^)]*)\)", text) for name in re.findall(r'"(\w+)"', call)}
    assert {case["id"] for case in cases} == checked
    assert all(case["formula"] and case["arithmetic"] for case in cases)
