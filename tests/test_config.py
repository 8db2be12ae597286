import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covey.config import RunConfig, load_config, make_config, section_of, to_toml
from covey.errors import ConfigError


def test_an_empty_file_is_a_whole_run():
    assert make_config({}) == RunConfig()


def test_overrides_are_toml_values_and_bare_words_are_strings():
    config = make_config(
        {"loss": {"clip_low": 0.1}},
        [
            "loss.clip_high=0.28",
            "run.name=first",
            "run.steps=7",
            "eval.greedy=false",
            'reward.parts=["tags"]',
            "optim.lr=1",
        ],
    )
    assert config.loss.knobs == {"clip_low": 0.1, "clip_high": 0.28}
    assert (config.run.name, config.run.steps, config.eval.greedy, config.optim.lr) == ("first", 7, False, 1.0)
    assert [part.name for part in config.reward.parts] == ["tags"]


def test_component_knobs_stand_beside_the_name():
    config = make_config({"reward": {"parts": [{"name": "exact_number", "tag": "", "weight": 2.0}]}})
    (part,) = config.reward.parts
    assert (part.weight, part.knobs) == (2.0, {"tag": ""})


@pytest.mark.parametrize(
    ("data", "overrides", "message"),
    [
        ({"samplin": {}}, [], "unknown key samplin. Did you mean 'sampling'?"),
        ({"sampling": {"group_sze": 3}}, [], "unknown key sampling.group_sze. Did you mean 'group_size'?"),
        ({"sampling": {"group_size": "8"}}, [], "sampling.group_size = '8': input should be a valid integer"),
        ({"sampling": {"group_size": True}}, [], "sampling.group_size = True"),
        ({"optim": {"lr": -1.0}}, [], "optim.lr = -1.0: input should be greater than or equal to 0"),
        ({"optim": {"lr": float("nan")}}, [], "optim.lr = nan"),
        ({"optim": {"decay": "exp"}}, [], "optim.decay = 'exp': input should be 'constant', 'linear' or 'cosine'"),
        ({"run": 3}, [], "run = 3"),
        ({}, ["sampling.top_p=0.9"], "the ratio of an unchanged policy would not be 1"),
        ({}, ["sampling.top_k=50"], "training samples from the whole distribution"),
        ({}, ["sampling.temperature=0.0"], "sampling.temperature = 0.0: input should be greater than 0"),
        (
            {},
            ["sampling.temperature_last=0.7"],
            "temperature_last and temperature_shape (linear or cosine) belong together",
        ),
        ({}, ["eval.samples=2"], "eval.pass_at 4 needs eval.samples >= 4"),
        ({}, ["reward.parts=[{weight=2.0}]"], "reward.parts.0.name is missing"),
        ({}, ["nonsense"], "not of the form section.key=value"),
        ({}, ["=3"], "not of the form"),
        ({"run": {"name": "x"}}, ["run.name.first=3"], "is a value, not a section"),
        ({}, ["model.pth=x"], "Did you mean 'path'"),
        ({}, ["lora.rank=-1"], "lora.rank = -1: input should be greater than or equal to 0"),
        ({}, ["lora.rank=4", "lora.alpha=0"], "lora.alpha = 0: input should be greater than or equal to 1"),
        ({}, ["lora.rank=4", "lora.dropout=0.1"], "unknown key lora.dropout."),
        ({}, ["lora.rank=4", "lora.targets=[]"], 'lora.targets: "all-linear" or a list of layer names expected'),
        ({}, ["lora.rank=4", "lora.targets=[3]"], 'lora.targets: "all-linear" or a list of layer names expected'),
        ({}, ["lora.rank=4", "lora.targets=all"], "got 'all'"),
        ({}, ["lora.alpha=4"], "lora: rank is missing beside alpha: e.g. rank = 16, or 0 for no adapter"),
    ],
)
def test_mistakes_name_the_field_and_the_nearest_spelling(data, overrides, message):
    with pytest.raises(ConfigError) as error:
        make_config(data, overrides)
    assert message in str(error.value)


def test_an_adapter_can_be_switched_off_on_the_command_line():
    config = make_config({"lora": {"rank": 8, "targets": ["q_proj"]}}, ["lora.rank=0"])
    assert (config.lora.rank, config.lora.alpha, config.lora.targets) == (0, None, ["q_proj"])


def test_several_mistakes_are_told_at_once():
    with pytest.raises(ConfigError, match=r"run.step\..*optim.lr"):
        make_config({"run": {"step": 3}, "optim": {"lr": "fast"}})


def test_files(tmp_path):
    with pytest.raises(ConfigError, match="Write one with: covey init"):
        load_config(tmp_path / "none.toml")
    bad = tmp_path / "bad.toml"
    bad.write_text("[run\n")
    with pytest.raises(ConfigError, match="not valid TOML"):
        load_config(bad)
    bad.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="not valid TOML"):
        load_config(bad)


def test_leaf_names_find_their_section():
    assert section_of("group_size") == "sampling.group_size"
    assert section_of("loss.clip_high") == "loss.clip_high"
    assert [section_of(name) for name in ("rank", "alpha", "targets")] == ["lora.rank", "lora.alpha", "lora.targets"]
    assert section_of("lora_rank") == section_of("lora.rank") == "lora.rank"
    with pytest.raises(ConfigError, match="Did you mean 'group_size'"):
        section_of("grup_size")
    with pytest.raises(ConfigError, match=r"could be .*sampling.temperature"):
        section_of("temperature")


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(
    name=texts,
    lr=st.floats(0, 1e300),
    options=st.dictionaries(
        texts, st.one_of(st.booleans(), st.integers(-(2**60), 2**60), texts, st.lists(texts, max_size=3)), max_size=3
    ),
)
def test_a_written_run_file_reads_back_the_same(name, lr, options):
    config = make_config(
        {
            "run": {"name": name},
            "lora": {"rank": 4, "targets": ["q_proj", name or "v_proj"]},
            "optim": {"lr": lr},
            "prompts": {"options": options},
            "loss": {"clip_high": 0.28},
        }
    )
    assert make_config(tomllib.loads(to_toml(config))) == config
