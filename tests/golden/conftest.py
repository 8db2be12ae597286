import json
from pathlib import Path

CASES = {case["id"]: case for case in json.loads((Path(__file__).parent / "cases.json").read_text(encoding="utf-8"))}
CHECKED = set()


def pytest_generate_tests(metafunc):
    """``@golden("A01", "A02")`` runs a test once a case, which it takes as ``case``."""
    marker = metafunc.definition.get_closest_marker("golden")
    if marker:
        CHECKED.update(marker.args)
        metafunc.parametrize("case", [CASES[name] for name in marker.args], ids=marker.args)
