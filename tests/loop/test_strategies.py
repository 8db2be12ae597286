import asyncio
import random
from dataclasses import replace

import pytest

from covey.advantages.shape import Shaping
from covey.controllers import PassRates
from covey.engines.scripted import ScriptedEngine
from covey.errors import RewardError
from covey.loop.strategies import STRATEGIES, Desk, Fixed, Predictive, Reactive, Refill
from covey.loop.strategies.base import verdicts
from covey.prompts.cursor import Cursor
from covey.rewards import ExactNumber, FunctionReward, Scorer, WeightedReward
from covey.rewards.base import ScoreContext
from covey.rollout.budget import Extension
from covey.rollout.chat import Chat
from covey.testing.samples import make_prompt
from covey.types import Part, Sampling

END = frozenset({1})
RATES = {"0": 0.0, "1": 0.3, "2": 0.6, "3": 1.0, "4": 0.2, "5": 0.5}


@pytest.fixture
def chat(tokenizer):
    return Chat(tokenizer, END)


def desk(chat, rates=RATES, size=4, prompts=3, step=0, rewards=None, seen=None):
    """An engine that answers right with the chance of each prompt, decided by the request's seed alone."""
    right, wrong = (chat.encode(make_prompt(text=text))[0] for text in "79")
    asked = {chat.encode(make_prompt(text=uid))[0]: rate for uid, rate in rates.items()}

    def answer(request):
        if seen is not None:
            seen.append(request)
        good = random.Random(request.sampling.seed).random() < asked[request.tokens[0]]
        return [int(right if good else wrong), 1], [-0.1, -0.2]

    rewards = rewards or (WeightedReward(reward=ExactNumber(tag="")),)
    return Desk(
        cursor=Cursor([make_prompt(uid=uid, text=uid, answer="7") for uid in rates], seed=0),
        engine=ScriptedEngine(answer, END),
        chat=chat,
        scorer=Scorer(rewards=rewards),
        sampling=Sampling(max_new_tokens=4),
        prompts_per_step=prompts,
        group_size=size,
        seed=(0, step),
        context=ScoreContext(),
        rates=PassRates(),
    )


def collect(strategy, at):
    return asyncio.run(strategy(at))


def sizes(groups):
    return [len(group.group.members) for group in groups]


def test_fixed_takes_all(chat):
    found = collect(Fixed(), desk(chat))
    assert sizes(found.groups) == [4, 4, 4]
    assert (found.rejected, found.rounds, found.equal_prompts) == ((), 1, False)


def test_refill_keeps_mixed_groups_until_the_step_is_full(chat):
    found = collect(Refill(max_rounds=50), desk(chat, size=8))
    assert len(found.groups) == 3
    assert all(min(verdicts(group)) > 0 for group in found.groups)
    assert found.rejected
    assert found.rounds > 1
    assert len(found.everything) == len(found.groups) + len(found.rejected)


def test_refill_filters_on_correctness_and_not_on_the_shaped_reward(chat):
    """All wrong, yet of different length: a reward with a length term has spread, and the group is still useless."""

    class Length:
        name = "length"

        async def score_group(self, group, context):
            return [Part(value=0.1 * i) for i in range(len(group.members))]

    both = (WeightedReward(reward=ExactNumber(tag="")), WeightedReward(reward=Length()))
    found = collect(Refill(max_rounds=2), desk(chat, rates={"0": 0.0, "3": 1.0}, prompts=2, rewards=both))
    assert found.groups == ()
    assert found.rounds == 2
    assert len({score.total for score in found.rejected[0].scores}) == 4


def test_refill_says_what_happens_when_rounds_run_out(chat):
    hopeless = {"0": 0.0, "1": 0.0, "2": 0.5}
    short = collect(Refill(max_rounds=1), desk(chat, rates=hopeless, size=8))
    assert len(short.groups) < 3
    kept = collect(Refill(max_rounds=1, fallback="keep"), desk(chat, rates=hopeless, size=8))
    assert len(kept.groups) == 3
    assert kept.rejected == ()


def test_refill_rounds_have_seeds_of_their_own(chat):
    seen = []
    collect(Refill(max_rounds=3), desk(chat, rates={"0": 0.0}, prompts=1, seen=seen))
    assert len(seen) == len({request.sampling.seed for request in seen}) == 12


def test_refill_can_undo_the_larger_step(chat):
    found = collect(Refill(max_rounds=50, undo_scale=True), desk(chat, size=8))
    accepted = sum(min(verdicts(group)) > 0 for group in found.everything) / len(found.everything)
    assert [group.group.scale for group in found.groups] == pytest.approx([accepted] * 3)


def test_predictive_sizes_come_from_earlier_steps_only(chat):
    at = desk(chat, prompts=6, size=4)
    assert sizes(collect(Predictive(), at).groups) == [4] * 6  # nothing known: equal shares
    at = desk(chat, prompts=6, size=4)
    for uid, rate in RATES.items():
        for _ in range(20):
            at.rates.observe(uid, right=round(8 * rate), wrong=8 - round(8 * rate))
    found = collect(Predictive(largest=16), at)
    by_uid = {group.group.prompt.uid: len(group.group.members) for group in found.groups}
    assert sum(by_uid.values()) == 24
    assert by_uid["0"] == by_uid["3"] == 2
    assert by_uid["1"] > by_uid["2"] > 2
    assert found.equal_prompts
    # the first members are those that fixed groups would have had
    usual = collect(Fixed(), desk(chat, prompts=6, size=2))
    for larger, group in zip(found.groups, usual.groups, strict=True):
        assert [m.reply for m in larger.group.members[:2]] == [m.reply for m in group.group.members]


def test_reactive_extends_groups_that_agree(chat):
    found = collect(Reactive(chunk=4, largest=32, hope=0.0), desk(chat, prompts=6, size=2))
    by_uid = {group.group.prompt.uid: group for group in found.groups}
    assert len(by_uid["0"].group.members) == len(by_uid["3"].group.members) == 32  # never mixed
    for uid in ("1", "2", "4", "5"):
        assert min(verdicts(by_uid[uid])) > 0
    assert found.rounds > 2
    for group in found.groups:
        samples = [member.sample for member in group.group.members]
        assert samples == list(range(len(samples)))


def test_reactive_gives_up_where_there_is_no_hope(chat):
    at = desk(chat, rates={"0": 0.0}, prompts=1, size=8)
    at.rates.observe("0", right=0, wrong=400)
    found = collect(Reactive(chunk=8, largest=32, hope=0.5), at)
    assert sizes(found.groups) == [8]


def test_reactive_divides_by_the_factor_at_the_earlier_rate(chat):
    at = desk(chat, rates={"1": 0.3}, prompts=1, size=4)
    for _ in range(50):
        at.rates.observe("1", right=1, wrong=9)
    rate, prior = at.rates.means(["1"])[0], at.rates.prior()
    rule = Extension(chunk=4, largest=16, hope=0.0)
    found = collect(Reactive(chunk=4, largest=16, hope=0.0), at)
    assert found.groups[0].group.scale == pytest.approx(1 / rule.scale(rate, 4, prior))
    assert found.groups[0].group.scale < 0.9
    plain = collect(Reactive(chunk=4, largest=16, hope=0.0, correct=False), desk(chat, rates={"1": 0.3}, prompts=1))
    assert plain.groups[0].group.scale == 1.0


def test_reactive_leaves_a_prompt_that_nobody_can_judge(chat):
    nothing = (WeightedReward(reward=FunctionReward(lambda completions: [None] * len(completions), name="none")),)
    found = collect(Reactive(chunk=4, largest=32, hope=0.0), desk(chat, rates={"0": 0.0}, prompts=1, rewards=nothing))
    assert sizes(found.groups) == [4]


def test_pass_rates_are_told_by_what_was_drawn_before_looking(chat):
    found = collect(Reactive(chunk=4, largest=32, hope=0.0), desk(chat, rates={"1": 0.3}, prompts=1, size=2))
    assert found.unconditional == 2
    assert sum(verdicts(found.groups[0], found.unconditional)) == 2


def test_truncated_responses_that_are_dropped_do_not_make_a_group_mixed(chat):
    at = desk(chat, rates={"5": 0.5}, prompts=1, size=10)
    at.sampling = replace(at.sampling, max_new_tokens=1)  # every answer is cut short
    at.shaping = Shaping(truncated="drop")
    assert collect(Refill(max_rounds=1), at).groups == ()
    at = desk(chat, rates={"5": 0.5}, prompts=1, size=10)
    at.sampling = replace(at.sampling, max_new_tokens=1)
    assert len(collect(Refill(max_rounds=1), at).groups) == 1


def test_undoing_the_scale_of_a_step_that_was_filled_up(chat):
    """4 of 32 groups kept in a step of 8 or so: the mean over trained groups is the mean over all that were sampled."""
    rates = {"0": 0.0, "3": 1.0, "5": 0.5}
    for fallback in ("short", "keep"):
        found = collect(Refill(max_rounds=1, fallback=fallback, undo_scale=True), desk(chat, rates=rates, size=10))
        mixed = [group for group in found.groups if min(verdicts(group)) > 0]
        assert sum(group.group.scale for group in mixed) / len(found.groups) == pytest.approx(len(mixed) / 3)


def test_an_extended_group_is_scored_as_a_whole(chat):
    calls = []

    def best(completions):
        calls.append(len(completions))
        return [0.0] * len(completions)

    at = desk(chat, rates={"0": 0.0}, prompts=1, size=2, rewards=(WeightedReward(reward=FunctionReward(best)),))
    collect(Reactive(chunk=3, largest=8, hope=0.0), at)
    assert calls == [2, 5, 8]


@pytest.mark.parametrize("cls", STRATEGIES.values())
def test_one_step_is_the_same_again(cls, chat):
    first, second = (collect(cls(), desk(chat, step=3, size=4)) for _ in range(2))
    assert [[m.reply for m in g.group.members] for g in first.everything] == [
        [m.reply for m in g.group.members] for g in second.everything
    ]


@pytest.mark.parametrize(
    "made",
    [
        lambda: Refill(max_rounds=0),
        lambda: Predictive(smallest=1),
        lambda: Predictive(largest=1),
        lambda: Reactive(chunk=0),
    ],
)
def test_senseless_knobs_are_refused(made):
    with pytest.raises(ValueError, match=r"got|expected"):
        made()


class OneByOne(ScriptedEngine):
    """Hands over prompt after prompt, and notes when it was asked for more."""

    def __init__(self, script, log):
        super().__init__(script, END)
        self.log = log

    async def stream(self, requests):
        for place in sorted({request.id.split("/")[0] for request in requests}):
            self.log.append(f"sampled {place}")
            yield [self._answer(request) for request in requests if request.id.split("/")[0] == place]
            await asyncio.sleep(0.01)


def test_groups_are_judged_while_others_are_sampled(chat):
    log = []

    async def judged(completions):
        log.append("judged")
        return [1.0] * len(completions)

    at = desk(chat, rewards=(WeightedReward(reward=FunctionReward(judged)),))
    at.engine = OneByOne(at.engine.script, log)
    found = collect(Fixed(), at)
    assert log == ["sampled 0", "judged", "sampled 1", "judged", "sampled 2", "judged"]
    assert sizes(found.groups) == [4, 4, 4]


def test_a_broken_reward_stops_the_step_and_leaves_no_task_behind(chat):
    async def infinite(completions):
        return [float("inf")] * len(completions)

    at = desk(chat, rewards=(WeightedReward(reward=FunctionReward(infinite)),))
    at.engine = OneByOne(at.engine.script, [])

    async def stopped():
        with pytest.raises(RewardError, match="must be finite"):
            await Fixed()(at)
        await asyncio.sleep(0)
        return len(asyncio.all_tasks())

    assert asyncio.run(stopped()) == 1
