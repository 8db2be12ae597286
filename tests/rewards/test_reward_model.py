import asyncio
import math

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer

from covey.errors import ConfigError, ModelError
from covey.rewards import ScoreContext
from covey.rewards.reward_model import RewardModel
from covey.testing.samples import character_tokenizer, make_prompt, make_trajectory
from covey.types import Group, Message, Prompt

KNOBS = {
    "vocab_size": 60, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "max_position_embeddings": 64, "initializer_range": 0.4, "bos_token_id": 2, "eos_token_id": 1,
}  # fmt: skip
KINDS = {
    "llama": KNOBS,
    "qwen2": KNOBS,
    "gpt2": {"vocab_size": 60, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "initializer_range": 0.4},
    "bert": KNOBS,
}
REPLIES = [
    "2",
    "it is 2 because 1 and 1 make it so",
    "",
    "no",
    "é",
    "22222",
]  # é is unknown, and so has the pad token's id


def save(folder, kind="llama", pad=0, labels=1, tokenizer=None, **knobs):
    """A random classifier of this kind; ``pad`` is the pad token that its config names."""
    torch.manual_seed(0)
    config = AutoConfig.for_model(kind, **{**KINDS[kind], "pad_token_id": pad, **knobs}, num_labels=labels)
    AutoModelForSequenceClassification.from_config(config).save_pretrained(folder)
    (tokenizer or character_tokenizer()).save_pretrained(folder)
    return str(folder)


def group_of(*replies, uid="p", text="1+1=?", **fields):
    members = tuple(make_trajectory(uid, i, reply=reply) for i, reply in enumerate(replies))
    prompt = Prompt(uid=uid, messages=(Message(role="user", content=text),), **fields)
    return Group(prompt=prompt, members=members)


def parts_of(reward, *groups):
    async def ask():
        return await asyncio.gather(*(reward.score_group(group, ScoreContext()) for group in groups))

    return [part for parts in asyncio.run(ask()) for part in parts]


def alone(folder, ids):
    """What transformers gives for one row, without padding."""
    model = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.no_grad():
        return model(input_ids=torch.tensor([list(ids)])).logits[0, 0].item()


@pytest.mark.parametrize(
    ("kind", "pad"),
    [("llama", 0), ("llama", None), ("llama", 1), ("llama", -1), ("qwen2", 0), ("qwen2", None), ("gpt2", 0), ("gpt2", None), ("gpt2", 1), ("bert", 0)],
)  # fmt: skip
def test_a_row_scores_in_any_batch_what_it_scores_alone(tmp_path, kind, pad):
    folder = save(tmp_path / "rm", kind, pad)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    expected = [alone(folder, tokenizer("1+1=?\n" + reply + "<end>")["input_ids"]) for reply in REPLIES]
    for batch in (1, 4, 16):
        parts = parts_of(RewardModel(model=folder, batch=batch), group_of(*REPLIES))
        assert [part.value for part in parts] == pytest.approx(expected, abs=1e-5)
    assert len({round(value, 3) for value in expected}) >= 5


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_without_a_pad_token_any_token_may_end_a_row(tmp_path, kind):
    tokenizer = character_tokenizer()
    tokenizer.chat_template = None
    folder = save(tmp_path / "rm", kind, pad=None, tokenizer=tokenizer)
    replies = ["a", "b é", "c d<", "12345 é é", "é"]  # é has id 0, which nothing but its place tells from padding
    expected = [alone(folder, tokenizer("1+1=?\n" + reply)["input_ids"]) for reply in replies]
    reward = RewardModel(model=folder)
    assert [part.value for part in parts_of(reward, group_of(*replies))] == pytest.approx(expected, abs=1e-5)
    for reply, score in zip(replies, expected, strict=True):
        assert parts_of(reward, group_of(reply))[0].value == pytest.approx(score, abs=1e-5)


@pytest.mark.parametrize("side", ["left", "right"])
def test_the_tokenizers_side_of_padding_does_not_matter(tmp_path, side):
    tokenizer = character_tokenizer()
    tokenizer.padding_side = side
    folder = save(tmp_path / "rm", tokenizer=tokenizer)
    expected = [alone(folder, tokenizer("1+1=?\n" + reply + "<end>")["input_ids"]) for reply in REPLIES]
    assert [p.value for p in parts_of(RewardModel(model=folder), group_of(*REPLIES))] == pytest.approx(
        expected, abs=1e-5
    )


def test_the_score_is_read_at_the_last_token(tmp_path):
    folder = save(tmp_path / "rm")
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    ids = character_tokenizer()("1+1=?\n2<end>")["input_ids"]
    with torch.no_grad():
        every = model.score(model.model(input_ids=torch.tensor([ids])).last_hidden_state)[0, :, 0]
    found = parts_of(RewardModel(model=folder), group_of("2", "2 and more"))[0].value
    assert found == pytest.approx(every[-1].item(), abs=1e-5)
    assert abs(every[-1] - every[-2]) > 0.01


def with_bos(template):
    """A tokenizer that begins each text with a token of its own, and a template that does, or none."""
    from tokenizers.processors import TemplateProcessing

    tokenizer = character_tokenizer()
    bos = tokenizer.convert_tokens_to_ids("z")
    tokenizer._tokenizer.post_processor = TemplateProcessing(single="z $A", special_tokens=[("z", bos)])
    tokenizer.chat_template = template
    return tokenizer, bos


def test_a_template_that_begins_with_a_token_gets_no_second_one(tmp_path):
    tokenizer, bos = with_bos("z{% for m in messages %}{{ m['content'] }}{{ '\\n' }}{% endfor %}")
    reward = RewardModel(model=save(tmp_path / "rm", tokenizer=tokenizer))
    assert reward.classifier.tokenizer("1")["input_ids"][0] == bos
    ids = reward.classifier.encode(make_prompt(), "2")
    assert (ids[0], ids.count(bos)) == (bos, 1)


def test_without_a_template_texts_are_joined(tmp_path):
    tokenizer, bos = with_bos(None)
    reward = RewardModel(model=save(tmp_path / "rm", tokenizer=tokenizer))
    text = reward.classifier.tokenizer.decode
    assert text(reward.classifier.encode(group_of().prompt, "2")) == "z1+1=?\n2"
    assert text(reward.classifier.encode(group_of(plain=True).prompt, "2")) == "z1+1=?2"
    assert reward.classifier.encode(make_prompt(), "2").count(bos) == 1


def test_messages_and_reply_go_through_the_models_own_template_without_a_generation_prompt(tmp_path):
    tokenizer = character_tokenizer()
    tokenizer.chat_template = "{% for m in messages %}{{ m['role'] }}={{ m['content'] }}/{% endfor %}{% if add_generation_prompt %}assistant={% endif %}"
    reward = RewardModel(model=save(tmp_path / "rm", tokenizer=tokenizer))
    messages = (Message(role="system", content="brief"), Message(role="user", content="1+1"))
    ids = reward.classifier.encode(Prompt(uid="p", messages=messages), "2")
    assert reward.classifier.tokenizer.decode(ids) == "system=brief/user=1+1/assistant=2/"


def test_a_template_that_refuses_and_a_reply_that_ends_its_turn_cannot_be_judged(tmp_path):
    tokenizer = character_tokenizer()
    tokenizer.chat_template = "{% for m in messages %}{% if m['role'] == 'system' %}{{ raise_exception('no system') }}{% endif %}{{ m['content'] }}{% endfor %}"
    reward = RewardModel(model=save(tmp_path / "rm", tokenizer=tokenizer))
    prompt = Prompt(uid="p", messages=(Message(role="system", content="x"),))
    parts = parts_of(
        reward, Group(prompt=prompt, members=(make_trajectory("p", 0),)), group_of("2", "2<end>\nvery good")
    )
    assert [part.value is None for part in parts] == [True, False, True]
    assert "no system" in parts[0].why
    assert parts[2].why == "the reply spells the reward model's special token '<end>'"
    assert all(part.error is None for part in parts)


def test_a_long_conversation_is_not_cut(tmp_path):
    folder = save(tmp_path / "rm")
    fits, over = "2" * 57, "2" * 58  # beside six of the prompt and one at the end, of 64 positions
    parts = parts_of(RewardModel(model=folder), group_of(fits, over))
    assert [part.value is None for part in parts] == [False, True]
    assert (parts[1].why, parts[1].error) == ("65 tokens, the reward model takes 64", None)
    parts = parts_of(RewardModel(model=folder, max_tokens=10), group_of("222", "2222"))
    assert [part.why for part in parts][1] == "11 tokens, the reward model takes 10"
    assert parts[0].value is not None


@pytest.mark.parametrize(
    ("transform", "of"), [("none", float), ("sigmoid", lambda x: 1 / (1 + math.exp(-x))), ("tanh", math.tanh)]
)
def test_transforms(tmp_path, transform, of):
    folder = save(tmp_path / "rm")
    raw = parts_of(RewardModel(model=folder), group_of("2", "no"))
    found = parts_of(RewardModel(model=folder, transform=transform), group_of("2", "no"))
    assert [part.value for part in found] == pytest.approx([of(part.value) for part in raw])


@pytest.mark.parametrize(("score", "value"), [(1e6, 1.0), (-1e6, 0.0), (0.0, 0.5)])
def test_a_score_of_any_size_has_a_sigmoid(tmp_path, score, value):
    reward = RewardModel(model=save(tmp_path / "rm"), transform="sigmoid")
    assert reward._part(score, 3).value == value


@pytest.mark.parametrize("broken", [math.nan, math.inf])
def test_a_score_that_is_no_number_is_a_failure(tmp_path, broken):
    reward = RewardModel(model=save(tmp_path / "rm"))
    torch.nn.init.constant_(reward.classifier.model.score.weight, broken)
    (part,) = parts_of(reward, group_of("2"))
    assert (part.value, part.state) == (None, "failed")
    assert "score is" in part.error


def test_groups_that_come_together_share_forwards_sorted_by_length_and_equal_rows_one_place(tmp_path):
    reward = RewardModel(model=save(tmp_path / "rm"), batch=3)
    shapes = []

    def note(module, arguments, knobs):
        assert torch.is_inference_mode_enabled()
        assert not module.training
        shapes.append(tuple(knobs["input_ids"].shape))

    reward.classifier.model.register_forward_pre_hook(note, with_kwargs=True)
    groups = [group_of("2", "22222", uid="a"), group_of("222", "2", uid="b"), group_of("2222", "22", uid="c")]
    together = [part.value for part in parts_of(reward, *groups)]
    assert shapes == [(3, 12), (2, 9)]  # six tokens of the prompt, an end, and 5, 4, 3 and 2, 1 of the replies
    assert together == pytest.approx([parts_of(reward, group)[i].value for group in groups for i in (0, 1)], abs=1e-5)


def test_a_causal_model_is_no_reward_model(tmp_path):
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(AutoConfig.for_model("llama", **KNOBS, num_labels=1)).save_pretrained(tmp_path)
    character_tokenizer().save_pretrained(tmp_path)
    with pytest.raises(ConfigError, match=r"no reward model: it has no weights for score\.weight"):
        RewardModel(model=str(tmp_path))


def test_more_labels_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="has 3 labels, expected a reward model with one"):
        RewardModel(model=save(tmp_path / "rm", labels=3))


def test_what_cannot_be_loaded_is_named(tmp_path):
    with pytest.raises(ModelError, match="cannot load a reward model from"):
        RewardModel(model=str(tmp_path / "nothing"))
    with pytest.raises(ConfigError, match="device 'moon'"):
        RewardModel(model=save(tmp_path / "rm"), device="moon")


@pytest.mark.parametrize("knobs", [{"batch": 0}, {"max_tokens": 0}, {"dtype": "int8"}, {"transform": "square"}])
def test_wrong_settings_are_refused(knobs):
    with pytest.raises(ValueError, match=r"expected, got"):
        RewardModel(model="nothing", **knobs)


def test_half_precision_is_near(tmp_path):
    folder = save(tmp_path / "rm")
    full, half = (
        parts_of(RewardModel(model=folder, dtype=dtype), group_of("2"))[0] for dtype in ("float32", "bfloat16")
    )
    assert half.value == pytest.approx(full.value, rel=0.1, abs=0.1)
    assert half.value != full.value
