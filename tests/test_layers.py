"""The direction of imports, the size of files and functions, and what a light command may import."""

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

SRC = Path(__file__).parents[1] / "src" / "covey"

# From the bottom up. A module imports only from lines above its own line here; packages of one line are strangers.
LAYERS = [
    {"types", "errors"},
    {"config"},
    {"metrics"},
    {"advantages", "losses", "controllers"},
    {"batching", "kernels"},
    {"checkpoint", "planner", "sandbox"},
    {"prompts", "engines", "rewards"},
    {"rollout", "learner", "observe"},
    {"loop"},
    {"recipes"},
    {"cli", "testing"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}

# Functions over 60 lines or files over 400, each with its reason.
TOO_LONG_ALLOWED: dict[str, str] = {}


def modules():
    return sorted(SRC.rglob("*.py"))


def home(path: Path) -> str:
    return path.relative_to(SRC).parts[0].removesuffix(".py")


def imported(path: Path) -> list[str]:
    """Names of covey modules that a file imports anywhere, also inside functions and for type checking."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "covey":
            found.append(node.module)
        elif isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.split(".")[0] == "covey"]
    return found


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(SRC)))
def test_imports_point_down(path):
    own = home(path)
    if own == "__init__":  # the front door names what it hands out, lazily
        return
    for name in imported(path):
        parts = name.split(".")
        other = parts[1] if len(parts) > 1 else "types"  # "import covey" is for its version
        assert other == own or LEVEL[other] < LEVEL[own], f"{path.relative_to(SRC)} must not import {name}"


def test_every_package_has_a_level():
    assert {home(path) for path in modules()} - {"__init__"} == set(LEVEL)


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(SRC)))
def test_files_and_functions_stay_small(path):
    text = path.read_text(encoding="utf-8")
    name = str(path.relative_to(SRC))
    if name not in TOO_LONG_ALLOWED:
        assert text.count("\n") <= 400, f"{name} has {text.count(chr(10))} lines; 400 is the limit"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            size = (node.end_lineno or node.lineno) - node.lineno + 1
            key = f"{name}::{node.name}"
            assert size <= 60 or key in TOO_LONG_ALLOWED, f"{key} has {size} lines; 60 is the limit"


LIGHT = {
    "import covey": "import covey",
    "covey --help": "from covey.cli.main import main; main(['--help'])",
    "covey models": "from covey.cli.main import main; main(['models'])",
    "covey init": "from covey.cli.main import main; main(['init', 'made.toml'])",
    "covey demo --print": "from covey.cli.main import main; main(['demo', '--print'])",
    "reading a run": "from covey.observe.run_folder import RunFolder",
    "the view": "import covey.observe.view",
    "advantages": "import covey.advantages",
    "prompts": "import covey.prompts.source, covey.prompts.cursor, covey.prompts.arithmetic",
}


@pytest.mark.parametrize("code", LIGHT.values(), ids=LIGHT)
def test_light_commands_import_no_torch(code, tmp_path):
    check = "import sys; heavy = {'torch', 'transformers', 'datasets', 'pandas'} & set(sys.modules); assert not heavy, heavy"
    program = f"try:\n    {code}\nexcept SystemExit:\n    pass\n{check}"
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_file_that_is_no_module_is_in_the_wheel():
    settings = tomllib.loads((SRC.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = settings["tool"]["setuptools"]["package-data"]["covey"]
    for path in SRC.rglob("*"):
        if path.is_file() and path.suffix not in (".py", ".pyc"):
            inside = path.relative_to(SRC)
            assert any(inside.match(pattern) for pattern in patterns), f"{inside} is in no pattern of package-data"
