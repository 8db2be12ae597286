import numpy as np
import pytest
import torch

from covey.engines.sampling import draw, probabilities, uniforms
from covey.types import Sampling


def knobs(temperature=1.0, top_p=1.0, top_k=0, rows=1):
    return torch.full((rows,), temperature), torch.full((rows,), top_p), torch.full((rows,), top_k)


def test_uniforms_are_a_function_of_the_seed_and_prefix_stable():
    short, long = uniforms(Sampling(max_new_tokens=3, seed=5)), uniforms(Sampling(max_new_tokens=9, seed=5))
    assert short.tolist() == long[:3].tolist()
    assert uniforms(Sampling(max_new_tokens=3, seed=6)).tolist() != short.tolist()


def test_logp_is_of_the_tempered_distribution():
    logits = torch.tensor([[2.0, 1.0, 0.0, -1.0]])
    expected = torch.softmax(logits / 0.7, -1)
    torch.testing.assert_close(probabilities(logits, *knobs(temperature=0.7)), expected)


def test_greedy_reports_log_probs_at_temperature_one():
    logits = torch.tensor([[2.0, 1.0, 0.0]])
    found = probabilities(logits, *knobs(temperature=0.0))
    token, value = draw(found, torch.zeros(1), torch.tensor([0.99], dtype=torch.float64))
    assert token.item() == 0
    assert value.item() == pytest.approx(torch.log_softmax(logits, -1)[0, 0].item())


@pytest.mark.parametrize(
    ("top_p", "top_k", "kept"), [(1.0, 2, [0, 1]), (0.5, 0, [0]), (0.65, 0, [0, 1]), (1e-9, 0, [0]), (0.9, 1, [0])]
)
def test_truncation_keeps_the_likeliest_and_renormalises(top_p, top_k, kept):
    logits = torch.tensor([[0.643914, 0.236883, 0.087144, 0.032059]]).log()
    found = probabilities(logits, *knobs(top_p=top_p, top_k=top_k))[0]
    assert found.nonzero().flatten().tolist() == kept
    assert found.sum().item() == pytest.approx(1.0, abs=1e-6)


def test_truncation_of_one_row_leaves_the_others_alone():
    logits = torch.randn(2, 5, generator=torch.Generator().manual_seed(0))
    temperature, top_p, top_k = knobs(rows=2)
    top_k[1] = 1
    found = probabilities(logits, temperature, top_p, top_k)
    torch.testing.assert_close(found[0], torch.softmax(logits[0], -1))
    assert found[1].nonzero().numel() == 1


def test_drawn_frequencies_match_the_distribution():
    p = torch.tensor([0.5, 0.0, 0.3, 0.2])
    u = torch.linspace(0, 1, 10_001, dtype=torch.float64)[:-1]
    tokens, logp = draw(p.expand(len(u), -1), torch.ones(len(u)), u)
    np.testing.assert_allclose(torch.bincount(tokens, minlength=4) / len(u), p, atol=2e-4)
    torch.testing.assert_close(logp, p.log()[tokens])


def test_a_token_of_probability_zero_is_never_drawn():
    found = torch.tensor([[0.0, 1.0, 0.0]])
    for u in (0.0, 0.5, np.nextafter(1.0, 0.0)):
        token, _ = draw(found, torch.ones(1), torch.tensor([u], dtype=torch.float64))
        assert token.item() == 1
