import subprocess
import sys

import pytest

CODE = """
import resource, torch
from covey.kernels.memory import give_back_freed_memory, keep_freed_memory
if {keep}:
    assert keep_freed_memory()
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 2**20
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        torch.ones(1 << 24)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
faults()
print(faults())
if {keep}:
    before = resident()
    assert give_back_freed_memory()
    assert resident() < before - 32  # the tensor of 64 MiB
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="of glibc")
def test_freed_memory_is_used_again_and_not_fetched_anew():
    found = [
        int(subprocess.run([sys.executable, "-c", CODE.format(keep=keep)], check=True, capture_output=True).stdout)
        for keep in (False, True)
    ]
    assert found[1] < found[0] / 10
