"""Logits for trained tokens alone, in pieces, with what each architecture does to them."""

from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch
from transformers import (
    CohereConfig,
    CohereForCausalLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    GraniteConfig,
    GraniteForCausalLM,
)

from covey.advantages import GRPO
from covey.batching.layout import pad
from covey.learner import logprobs
from covey.learner.head import splits, trained_states
from covey.learner.logprobs import token_divergences, token_logps
from covey.testing.samples import make_scored, random_llama

SMALL = {
    "vocab_size": 48, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "pad_token_id": 0, "eos_token_id": 1, "bos_token_id": 2, "initializer_range": 0.4,
}  # fmt: skip


def make(kind):
    torch.manual_seed(0)
    if kind == "soft cap":
        return Gemma2ForCausalLM(Gemma2Config(**SMALL, head_dim=8, final_logit_softcapping=3.0)).eval()
    if kind == "scale":
        return CohereForCausalLM(CohereConfig(**SMALL, logit_scale=0.3)).eval()
    if kind == "divisor":
        return GraniteForCausalLM(GraniteConfig(**SMALL, logits_scaling=4.0)).eval()
    return random_llama()


@pytest.fixture
def micro():
    (found,) = pad(GRPO()([make_scored([1, 0, 0], lengths=[2, 6, 4])]), 1000).micro
    return found


def plain(model, micro):
    """Log-probs and entropies by the model's own logits."""
    logits = model(
        input_ids=micro.tokens, attention_mask=micro.attended.long(), position_ids=micro.positions, use_cache=False
    ).logits[:, :-1]
    table = torch.log_softmax(logits, -1)
    logp = table.gather(2, micro.tokens[:, 1:, None])[..., 0]
    mask = micro.trained[:, 1:]
    return logp[mask], -(table.exp() * table).sum(-1)[mask]


@pytest.mark.parametrize("kind", ["llama", "soft cap", "scale", "divisor"])
def test_the_halves_are_the_whole(kind, micro):
    model = make(kind)
    assert splits(model)
    logp, entropy = token_logps(model, micro)
    expected = plain(model, micro)
    torch.testing.assert_close(logp[micro.trained], expected[0], rtol=0, atol=1e-5)
    torch.testing.assert_close(entropy[micro.trained], expected[1], rtol=0, atol=1e-5)


class Louder(torch.nn.Module):
    """An architecture that does something to its logits that nobody told the head about."""

    def __init__(self):
        super().__init__()
        self.inner = random_llama()
        self.config, self.device = self.inner.config, torch.device("cpu")

    def get_decoder(self):
        return self.inner.get_decoder()

    def get_output_embeddings(self):
        return self.inner.get_output_embeddings()

    def forward(self, **inputs):
        out = self.inner(**inputs)
        out.logits = 3 * out.logits
        return out


def test_what_does_not_come_apart_is_left_whole(micro):
    model = Louder()
    assert not splits(model)
    torch.testing.assert_close(token_logps(model, micro)[0][micro.trained], plain(model, micro)[0], rtol=0, atol=1e-5)


def test_only_trained_tokens_have_logits(micro):
    model, seen = random_llama(), []
    splits(model)
    model.lm_head.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0].shape[0]))
    token_logps(model, micro)
    assert max(seen) == int(micro.trained.sum()) == 12


def gradients(loss, model):
    return torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)


@pytest.mark.parametrize("cells", [1, 48, 100, 48 * 5])
def test_pieces_change_nothing(micro, cells, monkeypatch):
    model, reference = random_llama().double(), random_llama(seed=1).double()
    weights = torch.randn(4, *micro.tokens.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def everything():
        streams = token_divergences(model, lambda: nullcontext(reference), micro, entropy_grad=True)
        loss = sum((w * s).sum() for w, s in zip(weights, streams, strict=True))
        pair = token_logps(model, micro, entropy_grad=True)
        loss = loss + (weights[0] * pair[0]).sum() + (weights[1] * pair[1]).sum()
        return (*streams, *pair), gradients(loss, model)

    whole = everything()
    monkeypatch.setattr(logprobs, "CELLS", cells)
    pieces = everything()
    for mine, theirs in zip((*pieces[0], *pieces[1]), (*whole[0], *whole[1]), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-10)


def test_pieces_are_computed_again_and_not_kept(micro, monkeypatch):
    """What is saved for the backward pass holds no [tokens, vocabulary] matrix."""
    model = random_llama()
    splits(model)
    states, head = trained_states(model, micro)

    def kept_rows():
        kept = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
            token_logps(model, micro)
        return {t.shape[0] for t in kept if t.ndim == 2 and t.shape[1] == 48} - {32, 48}  # less the weights

    assert head(states).shape == (12, 48)
    assert kept_rows() == {12}
    monkeypatch.setattr(logprobs, "CELLS", 48 * 2)
    assert kept_rows() == set()


def test_no_trained_token_is_no_error(micro):
    nothing = replace(micro, trained=torch.zeros_like(micro.trained))
    logp, entropy = token_logps(random_llama(), nothing)
    assert not logp.any()
    assert not entropy.any()
