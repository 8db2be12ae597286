import asyncio

import numpy as np
import pytest

from covey.engines.scripted import ScriptedEngine
from covey.errors import ModelError, PromptError
from covey.rollout.chat import Chat, fitting_prompts
from covey.rollout.group import rollout
from covey.rollout.seeds import derive_seed
from covey.testing.samples import make_prompt
from covey.types import Prompt, Sampling

END = frozenset({1})


@pytest.fixture
def chat(tokenizer):
    return Chat(tokenizer, END)


def digit(chat, n):
    return int(chat.encode(make_prompt(text=str(n)))[0])


def run(chat, prompts, script, group_size=3, seed=(0, 0), **knobs):
    engine = ScriptedEngine(script, END)
    return asyncio.run(rollout(prompts, engine, chat, Sampling(**knobs), group_size, seed))


def test_siblings_find_their_group_by_id_whatever_the_order(chat):
    prompts = [make_prompt(uid=f"u{i}", text=f"{i}+1=?") for i in range(4)]

    def first_token_back(request):
        return [int(request.tokens[0]), 1], [-0.1, -0.2]

    groups = run(chat, prompts, first_token_back)  # the engine answers in reverse order
    assert [g.prompt.uid for g in groups] == ["u0", "u1", "u2", "u3"]
    for i, group in enumerate(groups):
        assert [m.sample for m in group.members] == [0, 1, 2]
        assert {m.reply for m in group.members} == {str(i)}
        assert {m.prompt_uid for m in group.members} == {f"u{i}"}


def test_the_same_prompt_twice_makes_two_groups_with_different_seeds(chat):
    seen = []

    def record(request):
        seen.append(request.sampling.seed)
        return [5, 1], [-0.1, -0.2]

    groups = run(chat, [make_prompt(), make_prompt()], record)
    assert len(groups) == 2
    assert len(set(seen)) == 6


def test_a_trajectory_is_exactly_what_the_engine_saw_and_drew(chat):
    (group,) = run(chat, [make_prompt(text="1+1=?")], lambda r: ([7, 8, 1], [-0.1, -0.2, -0.3]), group_size=1)
    (member,) = group.members
    prompt = chat.encode(make_prompt(text="1+1=?"))
    assert member.tokens.tolist() == [*prompt.tolist(), 7, 8, 1]
    assert member.sampled.tolist() == [False] * len(prompt) + [True] * 3
    assert np.isnan(member.logp[: len(prompt)]).all()
    assert member.logp[len(prompt) :].tolist() == pytest.approx([-0.1, -0.2, -0.3])
    assert (member.finish, member.sampled_tokens) == ("stop", 3)


def test_the_sampled_end_token_is_trained_but_not_shown(chat):
    (group,) = run(chat, [make_prompt()], lambda r: ([digit(chat, 4), 1], [-0.1, -0.2]), group_size=1)
    assert group.members[0].reply == "4"
    assert group.members[0].sampled[-1]


def test_seeds_depend_on_every_part_and_their_kind():
    seeds = {derive_seed(*parts) for parts in ((0, 1), (1, 0), (0, "1"), ("01",), (0, 1, 0), ("0", "1"))}
    assert len(seeds) == 6
    assert derive_seed(3, "a") == 7612536040267191405


def test_chat_and_plain_prompts(chat, tokenizer):
    templated = chat.encode(make_prompt(text="1+1=?"))
    plain = chat.encode(Prompt(uid="x", messages=make_prompt(text="1+1=?").messages, plain=True))
    assert templated.tolist() == [*plain.tolist(), tokenizer.convert_tokens_to_ids("\n")]


def test_a_chat_prompt_needs_a_template(tokenizer):
    bare = type(tokenizer)(tokenizer_object=tokenizer.backend_tokenizer, eos_token="<end>", pad_token="<pad>")
    with pytest.raises(ModelError, match='style = "plain"'):
        Chat(bare, END).encode(make_prompt())


def test_prompts_that_are_too_long_are_named_or_dropped(chat):
    short, long = make_prompt(uid="short", text="1"), make_prompt(uid="long", text="1" * 30)
    assert fitting_prompts([short, long], chat, None, 1000, drop=False) == [short, long]
    assert fitting_prompts([short, long], chat, 20, 10, drop=True) == [short]
    with pytest.raises(PromptError, match=r"1 of 2 prompts are too long: long \(31 tokens\)"):
        fitting_prompts([short, long], chat, 20, 10, drop=False)
    with pytest.raises(PromptError, match="no prompt is left"):
        fitting_prompts([long], chat, 20, 10, drop=True)


def test_a_template_that_refuses_a_role_is_named(tokenizer):
    import copy

    strict = copy.deepcopy(tokenizer)
    strict.chat_template = "{{ raise_exception('no system role') }}"
    with pytest.raises(ModelError, match="refuses prompt 'p' with roles user: no system role"):
        Chat(strict, END).encode(make_prompt())


class ShortFirst(ScriptedEngine):
    """Hands completions over one by one, in the order given."""

    def __init__(self, script, order):
        super().__init__(script, END)
        self.order, self.handed = order, []

    async def stream(self, requests):
        known = {request.id: request for request in requests}
        for name in self.order:
            self.handed.append(name)
            yield [self._answer(known[name])]
            await asyncio.sleep(0)


def test_a_group_is_handed_on_as_soon_as_its_last_response_ended(chat):
    order = ["1/0", "0/1", "1/1", "0/0"]
    engine = ShortFirst(lambda request: ([int(request.tokens[0]), 1], [-0.1, -0.2]), order)
    prompts, seen = [make_prompt(uid=f"u{i}", text=f"{i}+1=?") for i in range(2)], []

    def ended(place, group):
        seen.append((place, group.prompt.uid, [m.sample for m in group.members], list(engine.handed)))

    groups = asyncio.run(rollout(prompts, engine, chat, Sampling(), 2, (0, 0), ended=ended))
    assert seen == [(1, "u1", [0, 1], order[:3]), (0, "u0", [0, 1], order)]
    assert [group.prompt.uid for group in groups] == ["u0", "u1"]
