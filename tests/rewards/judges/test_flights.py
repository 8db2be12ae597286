import asyncio

import pytest

from covey.rewards.judges.flights import Flights


def test_the_same_work_is_done_once_and_its_failure_is_everybodys():
    begun = []

    async def fail():
        begun.append(1)
        await asyncio.sleep(0.01)
        raise KeyError("x")

    async def three():
        flights = Flights()
        found = await asyncio.gather(*(flights.join("a", fail) for _ in range(3)), return_exceptions=True)
        return found, "a" in flights

    found, left = asyncio.run(three())
    assert [type(error) for error in found] == [KeyError] * 3
    assert (len(begun), left) == (1, False)


def test_it_goes_on_while_anybody_waits_and_stops_when_nobody_does():
    ends = []

    async def work():
        try:
            await asyncio.sleep(0.05)
        except asyncio.CancelledError:
            ends.append("cancelled")
            raise
        ends.append("done")
        return 7

    async def leaving(keys_left):
        flights = Flights()
        first, second = (asyncio.create_task(flights.join("a", work)) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        if not keys_left:
            second.cancel()
        found = await asyncio.gather(first, second, return_exceptions=True)
        await asyncio.sleep(0.01)
        return found[1], list(ends)

    assert asyncio.run(leaving(True)) == (7, ["done"])
    found, seen = asyncio.run(leaving(False))
    assert isinstance(found, asyncio.CancelledError)
    assert seen == ["done", "cancelled"]


def test_work_that_is_over_is_done_anew():
    begun = []

    async def work():
        begun.append(1)
        return len(begun)

    async def twice():
        flights = Flights()
        return [await flights.join("a", work), await flights.join("a", work)]

    assert asyncio.run(twice()) == [1, 2]


def test_keys_do_not_mix():
    async def both():
        flights = Flights()
        return await asyncio.gather(*(flights.join(key, lambda key=key: asyncio.sleep(0, key)) for key in "ab"))

    assert asyncio.run(both()) == ["a", "b"]


def test_a_crowd_of_failures_leaves_nothing_flying():
    async def crowd():
        flights = Flights()

        async def fail():
            raise ValueError("no")

        for _ in range(3):
            with pytest.raises(ValueError, match="no"):
                await flights.join("a", fail)
        return "a" in flights

    assert not asyncio.run(crowd())
