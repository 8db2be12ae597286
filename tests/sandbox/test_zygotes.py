"""Zygotes outlive the thread that started them, and nothing else."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from covey.errors import ConfigError
from covey.sandbox.check import best_level
from covey.sandbox.sandbox import Sandbox


@pytest.fixture(scope="module")
def level():
    try:
        return best_level("L3")
    except ConfigError as error:
        pytest.skip(str(error))


def in_a_thread(call):
    found = []
    thread = threading.Thread(target=lambda: found.append(call()))
    thread.start()
    thread.join()
    return found[0]


def test_the_thread_that_started_it_may_end(level):
    sandbox = Sandbox(level, workers=1)
    for _ in range(3):
        assert in_a_thread(lambda: sandbox.run("print(1)")).text == "1\n"
        time.sleep(0.05)
    (_, zygote) = sandbox._programs.get()
    assert zygote.runs == 3
    zygote.kill()


STARTS = """
import os, time
from covey.sandbox.sandbox import Sandbox
sandbox = Sandbox({level!r}, workers=1)
sandbox.run("pass")
with sandbox.functions("def f():\\n    while True: pass"):
    with open(f"/proc/self/task/{{os.getpid()}}/children") as file:
        print(file.read().split()[0], flush=True)
    time.sleep(60)
"""


def test_a_killed_trainer_leaves_no_zygote(level):
    trainer = subprocess.Popen([sys.executable, "-c", STARTS.format(level=level)], stdout=subprocess.PIPE, text=True)
    zygote = int(trainer.stdout.readline())
    os.kill(zygote, 0)
    trainer.send_signal(signal.SIGKILL)
    trainer.wait()
    trainer.stdout.close()
    stop = time.monotonic() + 10
    while alive(zygote) and time.monotonic() < stop:
        time.sleep(0.05)
    assert not alive(zygote)


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().split()[2] != "Z"
    except FileNotFoundError:
        return False
