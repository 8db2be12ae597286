"""A sandbox elsewhere: a service on this machine that answers as SandboxFusion does, and truly runs programs."""

import asyncio
import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from covey.rewards import CodeTests, ScoreContext
from covey.sandbox.outcome import ProgramError, SandboxError
from covey.sandbox.remote import RemoteSandbox
from covey.testing.samples import make_prompt, make_trajectory
from covey.types import Group


class Service(BaseHTTPRequestHandler):
    fails = 0

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert (self.path, asked["language"]) == ("/run_code", "python")
        if type(self).fails:
            type(self).fails -= 1
            answer = {"status": "SandboxError", "message": "no worker is free"}
        else:
            answer = self.result(asked)
        data = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def result(self, asked):
        command = [sys.executable, "-I", "-c", asked["code"]]
        try:
            done = subprocess.run(
                command, input=asked["stdin"], capture_output=True, text=True, timeout=min(2, asked["run_timeout"])
            )
        except subprocess.TimeoutExpired:
            return {"status": "Failed", "run_result": {"status": "TimeLimitExceeded", "stdout": "", "stderr": ""}}
        result = {"status": "Finished", "return_code": done.returncode, "stdout": done.stdout, "stderr": done.stderr}
        return {"status": "Success" if done.returncode == 0 else "Failed", "run_result": result}

    def log_message(self, *args):
        pass


@pytest.fixture
def url():
    Service.fails = 0
    server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("source", "status", "out"),
    [
        ("print(int(input()) * 2)", "ended", "42\n"),
        ("raise ValueError('no')", "error", ""),
        ("while True: pass", "timeout", ""),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "killed", ""),
    ],
)
def test_what_becomes_of_programs(url, source, status, out):
    outcome = RemoteSandbox(url).run(source, "21\n")
    assert (outcome.status, outcome.text) == (status, out)


def test_values_keep_their_types_and_errors_their_names(url):
    source = "class Box:\n    def twice(self, x):\n        return (x, {x})\ndef bad():\n    raise KeyError('k')\ndef leave():\n    import os; os._exit(0)"
    with RemoteSandbox(url).functions(source) as program:
        assert program.call("Box.twice", (3,)) == (3, {3})
        with pytest.raises(ProgramError, match="KeyError"):
            program.call("bad")
        with pytest.raises(ProgramError, match="the program ended: ended"):
            program.call("leave")


def test_output_is_not_taken_for_an_answer(url):
    source = (
        "def f():\n    print('{\"value\": 7}')\n    import sys\n    sys.stdout.flush()\n    import os\n    os._exit(0)"
    )
    with RemoteSandbox(url).functions(source) as program, pytest.raises(ProgramError):
        program.call("f")


PROGRAM = "```python\ndef push(items, x):\n    items.append(x)\n    return len(items)\n```"
CASES = {
    "written": ([{"input": "3", "output": "6"}], "```python\nprint(2 * int(input()))\n```"),
    "called": ([{"function": "push", "args": [[1], 2], "expected": 2}], PROGRAM),
    "asserted": (["assert push([], 5) == 1", "a = [1]; push(a, 2); assert a == [1, 2]"], PROGRAM),
}


def judged(url, tests, *replies):
    members = tuple(make_trajectory("p", i, reply=reply) for i, reply in enumerate(replies))
    group = Group(prompt=make_prompt(tests=tests), members=members)
    return asyncio.run(CodeTests(remote=url, seconds=2.0).score_group(group, ScoreContext()))


@pytest.mark.parametrize("kind", CASES)
def test_the_reward_judges_as_it_does_here(url, kind):
    tests, right = CASES[kind]
    parts = judged(url, tests, right, "```python\nimport sys; sys.exit(0)\n```")
    assert [part.value for part in parts] == [1.0, 0.0]


def test_a_service_that_fails_is_tried_again_and_never_taken_for_a_wrong_program(url):
    tests, right = CASES["written"]
    Service.fails = 1
    assert judged(url, tests, right)[0].value == 1.0
    Service.fails = 2
    (part,) = judged(url, tests, right)
    assert (part.value, part.state) == (None, "failed")
    assert "no worker is free" in part.error


def test_a_service_that_is_not_there_is_a_failure():
    with pytest.raises(SandboxError, match="refused"):
        RemoteSandbox("http://127.0.0.1:9").run("pass")
    with pytest.raises(SandboxError, match="none holds"), RemoteSandbox("http://127.0.0.1:9").tests("", [], []):
        pass


def test_settings():
    with pytest.raises(ValueError, match="http address"):
        CodeTests(remote="localhost:8080")
    with pytest.raises(ValueError, match="http address"):
        CodeTests(remote="http://localhost", language="c")
    assert CodeTests(remote="http://localhost").confinement == "remote"
