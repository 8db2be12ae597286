"""Running a program against its tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from covey.rewards.programs.cases import Asserted, Called, Cases, Written
from covey.rewards.programs.outputs import same_text, same_value
from covey.rewards.programs.source import defined, used
from covey.sandbox.frames import NotPlainError
from covey.sandbox.languages import BUILD_FAILED, Language
from covey.sandbox.limits import Limits
from covey.sandbox.outcome import Outcome, ProgramError
from covey.sandbox.process import Asked, Process
from covey.sandbox.remote import RemoteSandbox
from covey.sandbox.sandbox import Sandbox


class UnjudgedError(Exception):
    """The tests cannot tell whether this program is right; no verdict follows."""


@dataclass(frozen=True, slots=True)
class Grade:
    """How many of all tests held, and why the first of the others did not."""

    passed: int
    total: int
    why: str = ""

    @property
    def share(self) -> float:
        """Of the tests that held."""
        return self.passed / self.total


class Grader:
    """Grades programs of one language in a sandbox. ``limits`` are of a whole run.

    A program in Python answers all calls in one run, and reads each input in a run of its own; in other languages it is
    compiled anew for each input.
    """

    def __init__(
        self,
        sandbox: Sandbox | RemoteSandbox,
        limits: Limits,
        language: Language | None = None,
        tolerance: float = 1e-6,
    ) -> None:
        self.sandbox, self.limits, self.language, self.tolerance = sandbox, limits, language, tolerance

    def __call__(self, source: str, cases: Cases, all_of_them: bool = True) -> Grade:
        """``all_of_them`` False stops at the first test that fails, where nobody asks for the share.

        Raises UnjudgedError, and SandboxError if the sandbox fails.
        """
        if cases.written:
            return self._written(source, cases.written, all_of_them)
        if self.language is not None:
            raise UnjudgedError("tests that call functions are for programs in Python")
        source = cases.before + source if cases.before and not source.startswith(cases.before) else source
        return self._called(source, cases.called) if cases.called else self._asserted(source, cases.asserted)

    def run(self, source: str, stdin: str) -> Outcome:
        """One run with this input."""
        if self.language is None:
            return self.sandbox.run(source, stdin, self.limits)
        files = {self.language.file: source}
        return self.sandbox.command(["/bin/sh", "-c", self.language.script], files, stdin, self.limits)

    def builds(self, source: str) -> Outcome:
        """Compile and nothing else."""
        if self.language is None:
            return self.sandbox.run(f"compile({source!r}, 'program.py', 'exec')", "", self.limits)
        check = self.language.script.rpartition(";")[0] or "true"
        return self.sandbox.command(["/bin/sh", "-c", check], {self.language.file: source}, "", self.limits)

    def _written(self, source: str, cases: Sequence[Written], all_of_them: bool) -> Grade:
        passed, why = 0, ""
        for place, case in enumerate(cases):
            outcome = self.run(source, case.stdin)
            problem = self._problem(outcome, case)
            passed += not problem
            why = why or (f"test {place + 1}: {problem}" if problem else "")
            if problem and (not all_of_them or outcome.code == BUILD_FAILED):
                break
        return Grade(passed, len(cases), why)

    def _problem(self, outcome: Outcome, case: Written) -> str:
        if outcome.status != "ended":
            return f"{outcome.status} {outcome.last_error}".strip()
        return "" if same_text(case.expected, outcome.text, self.tolerance) else f"it wrote {outcome.text[:40]!r}"

    def _called(self, source: str, cases: Sequence[Called]) -> Grade:
        passed, why = 0, ""
        with self.sandbox.functions(source, self.limits) as process:
            for place, case in enumerate(cases):
                try:
                    value = process.call(case.function, case.args)
                    problem = "" if same_value(case.expected, value, self.tolerance) else f"it returned {value!r:.40}"
                except NotPlainError as error:
                    raise UnjudgedError(f"an argument of test {place + 1} is {error}") from error
                except ProgramError as error:
                    problem = f"{error.status}: {error}"
                passed += not problem
                why = why or (f"test {place + 1}: {problem}" if problem else "")
                if process.outcome is not None:
                    break
        return Grade(passed, len(cases), why)

    def _asserted(self, source: str, tests: Asserted | None) -> Grade:
        """The tests in one sandbox, the program in another; this side carries each call from one to the other."""
        assert tests is not None
        wanted = set().union(*map(used, (tests.setup, *tests.tests)))
        names = sorted(defined(source) & wanted)
        with (
            self.sandbox.functions(source, self.limits) as program,
            self.sandbox.tests(tests.setup, tests.tests, names, self.limits) as checks,
        ):
            verdicts, whole = self._carried(program, checks)
            if whole and len(verdicts) < len(tests.tests):
                outcome = checks.finish()
                raise UnjudgedError(f"the tests themselves ended early: {outcome.status} {outcome.last_error}")
            ended = "" if whole else f"the program ended: {program.finish().status} {program.finish().last_error}"
        passed = sum(message["held"] is True for message in verdicts)
        failed = (str(message.get("why", "")) for message in verdicts if message["held"] is not True)
        return Grade(passed, len(tests.tests), next(failed, ended).strip())

    @staticmethod
    def _carried(program: Asked, checks: Process) -> tuple[list[dict[str, object]], bool]:
        """What is told of each test, and whether the program answered to the end."""
        verdicts = []
        while (message := checks.receive()) is not None:
            if "held" in message:
                verdicts.append(message)
                continue
            try:
                answer = program.ask(message)
            except ProgramError:
                checks.stop()
                return verdicts, False
            checks.send({key: answer[key] for key in ("value", "error", "text", "args") if key in answer})
        return verdicts, True
