"""Calls of an endpoint that refuses, breaks, hangs and talks nonsense, over a real connection."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from covey.rewards.judges.chat import CallError, ChatClient, UnreadableError, seconds_of
from covey.rewards.judges.usage import Usage
from covey.testing.scripted_endpoint import Reply, ScriptedEndpoint


def client(endpoint, **knobs):
    given = {"deadline": 5.0, "retries": 2, "pause": 0.01, "at_once": 4, "usage": Usage(), **knobs}
    return ChatClient(url=endpoint.url, **given)


def turns(*replies):
    """The last one again and again."""
    return lambda body, number: replies[min(number, len(replies) - 1)]


def ask(script, **knobs):
    with ScriptedEndpoint(script) as endpoint:
        made = client(endpoint, **knobs)
        return asyncio.run(made.ask({"model": "m"})), made.usage, endpoint


@pytest.mark.parametrize(
    "failure",
    [Reply(status=429), Reply(status=500), Reply(status=503), Reply(status=408), Reply(drop=True)],
    ids=["429", "500", "503", "408", "dropped"],
)
def test_a_failure_that_may_pass_is_tried_again(failure):
    text, usage, endpoint = ask(turns(failure, failure, Reply(text="yes")))
    assert text == "yes"
    assert (usage.calls, usage.retries) == (3, 2)
    assert (usage.prompt_tokens, usage.completion_tokens) == (10, 5)
    assert endpoint.asked == [{"model": "m"}] * 3


def test_it_gives_up_after_its_retries_and_says_what_the_endpoint_said():
    with pytest.raises(CallError, match=r"HTTP 500: out of memory \(tried 3 times\)"):
        ask(turns(Reply(status=500, body="out of memory")))


@pytest.mark.parametrize("status", [400, 401, 404, 302])
def test_other_refusals_are_final(status):
    with ScriptedEndpoint(turns(Reply(status=status, body="no"))) as endpoint:
        made = client(endpoint)
        with pytest.raises(CallError, match=f"HTTP {status}: no"):
            asyncio.run(made.ask({}))
        assert len(endpoint.asked) == 1


def test_no_endpoint_is_an_error_after_the_retries():
    with ScriptedEndpoint(turns(Reply())) as endpoint:
        made = client(endpoint)
    with pytest.raises(CallError, match="ConnectError"):
        asyncio.run(made.ask({}))
    assert made.usage.calls == 3


def test_a_call_past_its_deadline_is_given_up_and_tried_again():
    began = time.monotonic()
    text, usage, _ = ask(turns(Reply(delay=60), Reply(text="late")), deadline=0.3)
    assert text == "late"
    assert usage.retries == 1
    assert time.monotonic() - began < 5
    with pytest.raises(CallError, match=r"no answer within 0.3 s \(tried 2 times\)"):
        ask(turns(Reply(delay=60)), deadline=0.3, retries=1)


def test_retry_after_is_honoured_in_place_of_the_pause():
    began = time.monotonic()
    text, _, _ = ask(turns(Reply(status=429, headers={"Retry-After": "1"}), Reply(text="yes")), pause=60.0)
    assert text == "yes"
    assert 1.0 <= time.monotonic() - began < 10


def test_an_endpoint_that_wants_an_hour_is_not_waited_for():
    began = time.monotonic()
    with pytest.raises(CallError, match="it asks to wait 3600 s"):
        ask(turns(Reply(status=429, headers={"Retry-After": "3600"})))
    assert time.monotonic() - began < 5


def test_retry_after_may_be_a_date_or_nonsense():
    then = datetime.now(UTC) + timedelta(seconds=100)
    assert 95 < seconds_of(format_datetime(then, usegmt=True)) <= 100
    assert seconds_of("Wed, 21 Oct 2015 07:28:00 GMT") == 0
    assert seconds_of("Wed, 21 Oct 2015 07:28:00 -0000") == 0
    assert [seconds_of(text) for text in ("7", "soon", "", None)] == [7, None, None, None]


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (Reply(body="<html>"), "no chat completion"),
        (Reply(body="[]"), "no chat completion"),
        (Reply(body='{"choices": []}'), "no chat completion"),
        (Reply(body='{"choices": [{"message": {}}]}'), "no chat completion"),
        (Reply(body="[" * 100_000), "no chat completion"),
        (Reply(body='{"choices": [{"message": {"content": null}, "finish_reason": "stop"}]}'), "without text"),
        (Reply(text='{"score": 1}', finish="length"), "cut off"),
    ],
)
def test_an_answer_that_says_nothing_is_unreadable(reply, message):
    with pytest.raises(UnreadableError, match=message):
        ask(turns(reply))


def test_no_more_calls_at_once_than_allowed_and_all_are_answered():
    async def all_of_them(made):
        return await asyncio.gather(*(made.ask({"n": n}) for n in range(9)))

    with ScriptedEndpoint(lambda body, number: Reply(text=str(body["n"]), delay=0.1)) as endpoint:
        made = client(endpoint, at_once=3)
        assert asyncio.run(all_of_them(made)) == [str(n) for n in range(9)]
        assert endpoint.most_at_once == 3
        assert asyncio.run(all_of_them(made)) == [str(n) for n in range(9)]  # in another event loop


def test_waiting_for_ones_turn_is_not_counted():
    async def all_of_them(made):
        return await asyncio.gather(*(made.ask({}) for _ in range(5)))

    with ScriptedEndpoint(turns(Reply(text="x", delay=0.2))) as endpoint:
        made = client(endpoint, at_once=1, deadline=0.7, retries=0)
        assert asyncio.run(all_of_them(made)) == ["x"] * 5


def test_lone_surrogates_travel():
    with ScriptedEndpoint(turns(Reply(text="fine"))) as endpoint:
        asyncio.run(client(endpoint).ask({"text": "\ud800\x00"}))
        assert endpoint.asked == [{"text": "\ud800\x00"}]


def test_the_key_is_sent_and_never_shown():
    with ScriptedEndpoint(turns(Reply(text="fine"))) as endpoint:
        made = client(endpoint, key="secret")
        asyncio.run(made.ask({}))
        asyncio.run(client(endpoint).ask({}))
        assert endpoint.keys == ["Bearer secret", None]
    assert "secret" not in repr(made)


def test_a_caller_who_gives_up_leaves_no_call_behind():
    async def hurried(made):
        try:
            async with asyncio.timeout(0.2):
                await made.ask({"n": 0})
        except TimeoutError:
            return await made.ask({"n": 1})

    with ScriptedEndpoint(lambda body, number: Reply(text="x", delay=60.0 if body["n"] == 0 else 0.0)) as endpoint:
        made = client(endpoint, at_once=1)
        assert asyncio.run(hurried(made)) == "x"
        assert made.usage.calls == 2
