"""Loops that generate a sequence: caches of keys and values that a call grows and the next one reads."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest
import torch
from torch import nn

import fulgurite as fg

needs_transformers = pytest.mark.skipif(
    importlib.util.find_spec("transformers") is None, reason="transformers is not installed"
)
LENGTH = 20


class Cache:
    """Keys and values of each layer so far."""

    def __init__(self, layers: int) -> None:
        self.keys: list[torch.Tensor | None] = [None] * layers
        self.values: list[torch.Tensor | None] = [None] * layers
        self.seen = 0

    def update(self, layer: int, k: torch.Tensor, v: torch.Tensor) -> Any:
        if self.keys[layer] is not None:
            k = torch.cat([self.keys[layer], k], 1)
            v = torch.cat([self.values[layer], v], 1)
        self.keys[layer], self.values[layer] = k, v
        if layer == 0:
            self.seen += 1
        return k, v


class Attention(nn.Module):
    def __init__(self, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor, cache: Cache) -> torch.Tensor:
        q, k, v = self.qkv(x).chunk(3, -1)
        k, v = cache.update(self.layer, k, v)
        return x + self.out(torch.softmax(q @ k.transpose(1, 2) / 8**0.5, -1) @ v)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 8)
        self.layers = nn.ModuleList([Attention(0), Attention(1)])

    def forward(self, ids: torch.Tensor, cache: Cache) -> torch.Tensor:
        x = self.embedding(ids)
        for layer in self.layers:
            x = layer(x, cache)
        return x @ self.embedding.weight.t()


def generate(step: Any, ids: torch.Tensor, cache: Any) -> torch.Tensor:
    out = []
    with torch.no_grad():
        for _ in range(LENGTH):
            ids = step(ids, cache)[:, -1:].argmax(-1)
            out.append(ids)
    return torch.cat(out, 1)


def check(step: Any, ids: torch.Tensor, new_cache: Any, rounds: int = 4) -> None:
    expected = generate(step, ids, new_cache())
    compiled = fg.jit(step)
    hits = 0
    for _ in range(rounds):
        hits = fg.cache_hits(compiled)
        assert torch.equal(generate(compiled, ids, new_cache()), expected)
    # Each length is a program of its own; what came before is served.
    reasons = (fg.fallbacks(compiled), fg.recompiles(compiled))
    assert fg.cache_hits(compiled) - hits >= LENGTH - 1, reasons
    assert not [r for r in fg.fallbacks(compiled) if r.code in ("FG-212", "FG-200", "FG-201")]


def test_a_cache_of_lists() -> None:
    torch.manual_seed(0)
    model = Model().eval()
    check(lambda x, cache: model(x, cache), torch.tensor([[1, 2, 3]]), lambda: Cache(2))


@needs_transformers
@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_a_cache_of_transformers(name: str) -> None:
    import transformers

    torch.manual_seed(0)
    if name == "gpt2":
        config = transformers.GPT2Config(
            n_layer=2, n_head=2, n_embd=16, vocab_size=50, n_positions=64, bos_token_id=1,
            eos_token_id=2,
        )  # fmt: skip
        model = transformers.GPT2LMHeadModel(config).eval()
    else:
        config = transformers.LlamaConfig(
            hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
            num_key_value_heads=1, vocab_size=50, max_position_embeddings=64,
        )  # fmt: skip
        model = transformers.LlamaForCausalLM(config).eval()

    def step(x: torch.Tensor, cache: Any) -> torch.Tensor:
        return model(x, past_key_values=cache, use_cache=True).logits

    check(step, torch.tensor([[1, 5, 3, 4]]), transformers.DynamicCache)


@needs_transformers
def test_two_caches_of_an_encoder_and_a_decoder() -> None:
    import transformers

    torch.manual_seed(0)
    config = transformers.T5Config(
        d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2, vocab_size=50,
        decoder_start_token_id=0,
    )  # fmt: skip
    model = transformers.T5ForConditionalGeneration(config).eval()
    with torch.no_grad():
        encoded = model.get_encoder()(torch.tensor([[3, 5, 7, 1]]))

    def step(x: torch.Tensor, cache: Any) -> torch.Tensor:
        return model(
            encoder_outputs=encoded, decoder_input_ids=x, past_key_values=cache, use_cache=True
        ).logits

    def new_cache() -> Any:
        return transformers.EncoderDecoderCache(
            transformers.DynamicCache(), transformers.DynamicCache()
        )

    check(step, torch.tensor([[0]]), new_cache)


@needs_transformers
def test_the_loop_of_transformers_itself() -> None:
    import transformers

    torch.manual_seed(0)
    config = transformers.T5Config(
        d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2, vocab_size=50,
        decoder_start_token_id=0, eos_token_id=49, pad_token_id=0,
    )  # fmt: skip
    model = transformers.T5ForConditionalGeneration(config).eval()
    prompts = [torch.tensor([[3, 5, 7, 1]]) + i for i in range(5)]
    expected = [model.generate(p, max_new_tokens=10, do_sample=False) for p in prompts]
    model.forward = step = fg.jit(model.forward)
    for prompt, tokens in zip(prompts, expected, strict=True):
        hits = fg.cache_hits(step)
        assert torch.equal(model.generate(prompt, max_new_tokens=10, do_sample=False), tokens)
    assert fg.cache_hits(step) - hits >= 9, (fg.fallbacks(step), fg.recompiles(step))
