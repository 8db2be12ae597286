"""How programs in other languages are compiled and run. To add one, add a line."""

from __future__ import annotations

import shutil
from dataclasses import dataclass

from covey.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Language:
    """``file`` is the program's name; ``build`` and ``run`` are shell commands in its folder; they need ``tool``."""

    file: str
    run: str
    tool: str
    build: str = ""

    @property
    def script(self) -> str:
        """Both, one after the other; nothing is run if the build fails."""
        return (
            f"{self.build} >build.log 2>&1 || {{ tail -c 2000 build.log >&2; exit 99; }}; {self.run}"
            if self.build
            else self.run
        )


BUILD_FAILED = 99
"""Exit code."""

_LOADED = "for l in /lib64/ld-linux-x86-64.so.2 /lib/ld-linux-aarch64.so.1; do [ -e $l ] && exec $l ./program; done"
# By the loader: what a confined compiler writes is no executable file, because it may not change modes.

LANGUAGES = {
    "c": Language("program.c", _LOADED, "gcc", "gcc -O2 -std=c17 -o program program.c -lm"),
    "cpp": Language("program.cpp", _LOADED, "g++", "g++ -O2 -std=c++20 -o program program.cpp"),
    "javascript": Language("program.js", "exec node program.js", "node"),
    "ruby": Language("program.rb", "exec ruby program.rb", "ruby"),
    "rust": Language("program.rs", _LOADED, "rustc", "rustc -O -o program program.rs"),
    "java": Language("Main.java", "exec java -Xmx512m Main", "javac", "javac Main.java"),
    "bash": Language("program.sh", "exec bash program.sh", "bash"),
}


def language(name: str) -> Language:
    """Raises ConfigError for one that is not in the table, or whose tool is not installed."""
    if name not in LANGUAGES:
        raise ConfigError(f"no language {name!r}. Allowed: python, {', '.join(LANGUAGES)}.")
    if shutil.which(LANGUAGES[name].tool, path="/usr/local/bin:/usr/bin:/bin") is None:
        raise ConfigError(f"programs in {name} need {LANGUAGES[name].tool}, which is not installed in /usr.")
    return LANGUAGES[name]
