import time

import pytest

from covey.rewards.language import SameLanguage, prose, script_of, scripts_of
from covey.testing.samples import make_prompt


@pytest.mark.parametrize(
    ("letter", "script"),
    [
        ("a", "latin"), ("é", "latin"), ("ß", "latin"), ("ж", "cyrillic"), ("λ", "greek"), ("漢", "han"), ("々", "han"), ("ひ", "hiragana"), ("カ", "katakana"), ("ー", "katakana"), ("ｶ", "katakana"),
        ("한", "hangul"), ("ㄱ", "hangul"), ("ا", "arabic"), ("א", "hebrew"), ("क", "devanagari"), ("ก", "thai"), ("ა", "georgian"), ("Ａ", "latin"), ("𝐀", "latin"), ("ᚠ", "other"), ("豈", "han"),
    ],
)  # fmt: skip
def test_scripts_of_letters(letter, script):
    assert script_of(letter) == script


@pytest.mark.parametrize(
    ("scripts", "reply", "value"),
    [
        (("latin",), "Hello 123!", 1.0), (("latin",), "ab жж", 0.5), (("cyrillic", "latin"), "ab жж", 1.0), (("han",), "答案是 x", 0.75), (("han", "hiragana", "katakana"), "カードを引く", 1.0),
        (("han",), "答案 $x+y$ 是 `print(x)` <answer>二</answer>", 1.0), (("han",), "答 \\frac{1}{2} \\boxed{3}", 1.0), (("han",), "答\n```python\nprint('hello')\n```\n案", 1.0),
        (("han",), "答 $$\nabc\n$$ \\[ x \\] \\( y \\)", 1.0), (("han",), "答 $5 ab\n$", 1 / 3), (("han",), "答 ``` ab", 1 / 3), (("thai",), "ᚠก", 0.5),
    ],
)  # fmt: skip
def test_the_share_of_letters_of_the_wanted_scripts(scripts, reply, value):
    part = SameLanguage(scripts=scripts).judge(make_prompt(), reply)
    assert part.value == pytest.approx(value, abs=1e-12)
    assert part.correct is None
    assert part.why


@pytest.mark.parametrize("reply", ["", "42 = 42", "`code`", "$x$", "\\frac", "😀", "<answer>3</answer>"])
def test_a_reply_without_letters_is_not_judged(reply):
    part = SameLanguage(scripts=("latin",)).judge(make_prompt(), reply)
    assert (part.value, part.why) == (None, "the reply has no letters")


@pytest.mark.parametrize(
    ("text", "scripts"),
    [
        ("What is it?", {"latin"}), ("这个 GPU 是什么东西", {"han", "latin"}), ("这个东西是什么呢我们都不知道吧 x", {"han"}), ("カードは何ですか", {"han", "hiragana", "katakana"}), ("1+1=?", set()),
        ("Что такое `list`?", {"cyrillic"}),
    ],
)  # fmt: skip
def test_scripts_of_a_prompt(text, scripts):
    assert scripts_of(text) == scripts


def test_the_prompt_says_which_scripts_are_wanted():
    reward = SameLanguage()
    assert reward.judge(make_prompt(text="Что это?"), "Это da").value == 3 / 5
    assert reward.judge(make_prompt(text="What?"), "Это").value == 0.0
    assert reward.judge(make_prompt(text="1+1=?"), "two").value is None


def test_it_tells_scripts_and_not_languages():
    assert SameLanguage().judge(make_prompt(text="What is it?"), "Je ne sais pas.").value == 1.0


@pytest.mark.parametrize("mark", ["```", "`", "$", "$$", "\\(", "\\[", "\\(a\\)", "`a` ", "<a", "\\a", "$\n", "а"])
def test_hostile_replies_take_no_time(mark):
    began = time.monotonic()
    prose(mark * 200_000)
    SameLanguage(scripts=("latin",)).judge(make_prompt(), mark * 200_000)
    assert time.monotonic() - began < 4


@pytest.mark.parametrize(
    ("scripts", "message"), [((), "at least one"), (("latn",), "Did you mean 'latin'"), ("latin", "at least one")]
)
def test_unknown_scripts_are_refused(scripts, message):
    with pytest.raises(ValueError, match=message):
        SameLanguage(scripts=scripts)
