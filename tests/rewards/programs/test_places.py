"""Programs whose tests run beside them never wait for each other."""

import asyncio

import pytest

from covey.rewards import CodeTests, ScoreContext
from covey.testing.samples import make_prompt, make_trajectory
from covey.types import Group

REPLY = "```python\ndef double(n):\n    return 2 * n\n```"


@pytest.mark.parametrize("workers", [1, 2])
def test_many_at_once_with_few_workers(workers):
    prompt = make_prompt(tests=["assert double(2) == 4", "assert sorted([double(1)]) == [2]"])
    group = Group(prompt=prompt, members=tuple(make_trajectory("p", i, reply=REPLY) for i in range(12)))
    reward = CodeTests(workers=workers, minimum="L3")

    async def judged():
        return await asyncio.wait_for(reward.score_group(group, ScoreContext()), 60)

    assert [part.value for part in asyncio.run(judged())] == [1.0] * 12
