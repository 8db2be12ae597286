import asyncio
import threading
import time

import pytest

from covey.rewards.together import Together


class Doubling:
    """Doubles numbers, slowly, and remembers what came together and how many calls there were at once."""

    def __init__(self, seconds=0.02):
        self.seconds, self.batches, self.now, self.most = seconds, [], 0, 0

    def __call__(self, questions):
        self.batches.append(list(questions))
        self.now += 1
        self.most = max(self.most, self.now)
        time.sleep(self.seconds)
        self.now -= 1
        if "bad" in questions:
            raise ValueError("bad")
        return [2 * question for question in questions]


def test_what_comes_together_is_answered_together_and_what_comes_meanwhile_after_it():
    answer = Doubling()
    together = Together(answer)

    async def ask():
        late = asyncio.create_task(asyncio.sleep(0.005))
        first = asyncio.gather(together.ask([1, 2]), together.ask([]), together.ask([3]))
        await late
        second = asyncio.gather(together.ask([4]), together.ask([5]))
        return await first, await second

    assert asyncio.run(ask()) == ([[2, 4], [], [6]], [[8], [10]])
    assert answer.batches == [[1, 2, 3], [4, 5]]


def test_another_event_loop_may_ask_too_but_never_at_the_same_time():
    answer = Doubling(0.1)
    together = Together(answer)
    found = []
    threads = [threading.Thread(target=lambda n=n: found.append(asyncio.run(together.ask([n])))) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [[0], [2], [4]]
    assert answer.most == 1


def test_one_who_gives_up_leaves_the_others_alone():
    together = Together(Doubling(0.1))

    async def ask():
        hurried, patient = asyncio.create_task(together.ask([1])), asyncio.create_task(together.ask([2]))
        await asyncio.sleep(0.03)
        hurried.cancel()
        return await patient, await together.ask([3])

    assert asyncio.run(ask()) == ([4], [6])


def test_a_failure_is_everybodys_whose_questions_were_among_them_and_nobody_elses():
    together = Together(Doubling())

    async def ask():
        both = await asyncio.gather(together.ask(["bad"]), together.ask(["x"]), return_exceptions=True)
        return both, await together.ask(["x"])

    (first, second), after = asyncio.run(ask())
    assert isinstance(first, ValueError)
    assert isinstance(second, ValueError)
    assert after == ["xx"]


def test_the_event_loop_is_free_meanwhile():
    async def ask():
        task = asyncio.create_task(Together(Doubling(0.2)).ask([1]))
        ticks = 0
        while not task.done():
            await asyncio.sleep(0.005)
            ticks += 1
        return ticks

    assert asyncio.run(ask()) > 5


@pytest.mark.parametrize("count", [1, 2])
def test_each_gets_its_own(count):
    together = Together(Doubling(0.0))

    async def ask():
        return await asyncio.gather(*(together.ask([n] * count) for n in range(50)))

    assert asyncio.run(ask()) == [[2 * n] * count for n in range(50)]
