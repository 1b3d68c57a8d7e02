"""Models of Hugging Face transformers: small configurations, random weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import transformers
from torch import Tensor, nn

from bench.zoo.study import OneModule, Parts, Study, integers, random

VOCABULARY = 96


class HuggingFace(OneModule):
    model: str  # the class
    config: str
    options: dict[str, Any]

    def make(self) -> nn.Module:
        config = getattr(transformers, self.config)(**self.options)
        return getattr(transformers, self.model)(config)

    def batch(self, i: int) -> tuple[tuple, dict[str, Any]]:
        ids = integers(i, VOCABULARY, 2, 12)
        return (), {"input_ids": ids, "labels": ids, "use_cache": False}

    def loss(self, result: Any, i: int) -> Tensor:
        return result.loss

    def outputs(self, result: Any) -> list[Tensor]:
        return [result.loss, result.logits]


class Causal(HuggingFace):
    def generators(self) -> dict[str, Callable[[Parts], Tensor]]:
        ids = integers(7, VOCABULARY, 2, 5)

        def without_cache(f: Parts) -> Tensor:
            return f["model"].generate(ids, max_new_tokens=6, do_sample=False, use_cache=False)

        def with_cache(f: Parts) -> Tensor:
            return f["model"].generate(ids, max_new_tokens=6, do_sample=False)

        return {"generate, no cache": without_cache, "generate, cache": with_cache}


class Gpt2(Causal):
    name = "HF GPT-2 ×2"
    model, config = "GPT2LMHeadModel", "GPT2Config"
    options = dict(
        vocab_size=VOCABULARY, n_positions=64, n_embd=32, n_layer=2, n_head=4,
        bos_token_id=1, eos_token_id=2, pad_token_id=2,
    )  # fmt: skip


class Llama(Causal):
    name = "HF Llama ×2"
    model, config = "LlamaForCausalLM", "LlamaConfig"
    options = dict(
        vocab_size=VOCABULARY, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64, pad_token_id=2,
    )  # fmt: skip


class Mixtral(Causal):
    name = "HF Mixtral ×2, 4 experts"
    model, config = "MixtralForCausalLM", "MixtralConfig"
    options = dict(
        vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=2,
        max_position_embeddings=64, output_router_logits=True, pad_token_id=2,
    )  # fmt: skip


class Bert(HuggingFace):
    name = "HF BERT ×2, masked LM"
    model, config = "BertForMaskedLM", "BertConfig"
    options = dict(
        vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=64, max_position_embeddings=64,
    )  # fmt: skip

    def batch(self, i: int) -> tuple[tuple, dict[str, Any]]:
        ids = integers(i, VOCABULARY, 2, 12)
        mask = (integers(i + 1, 4, 2, 12) > 0).long()
        return (), {"input_ids": ids, "attention_mask": mask, "labels": ids}


class T5(HuggingFace):
    name = "HF T5 2+2"
    model, config = "T5ForConditionalGeneration", "T5Config"
    options = dict(
        vocab_size=VOCABULARY, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4,
        decoder_start_token_id=0,
    )  # fmt: skip

    def batch(self, i: int) -> tuple[tuple, dict[str, Any]]:
        ids, labels = integers(i, VOCABULARY, 2, 12), integers(i + 1, VOCABULARY, 2, 8)
        return (), {"input_ids": ids, "labels": labels, "use_cache": False}

    def generators(self) -> dict[str, Callable[[Parts], Tensor]]:
        ids = integers(7, VOCABULARY, 2, 9)
        return {
            "generate, no cache": lambda f: f["model"].generate(
                ids, max_new_tokens=6, do_sample=False, use_cache=False
            )
        }


class Vit(HuggingFace):
    name = "HF ViT ×2"
    model, config = "ViTForImageClassification", "ViTConfig"
    options = dict(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
        image_size=16, patch_size=4, num_labels=10,
    )  # fmt: skip

    def batch(self, i: int) -> tuple[tuple, dict[str, Any]]:
        return (), {"pixel_values": random(i, 2, 3, 16, 16), "labels": integers(i, 10, 2)}


class Mamba(HuggingFace):
    """Gives tensors of its results Python attributes; its scan is a loop."""

    name = "HF Mamba ×2"
    model, config = "MambaForCausalLM", "MambaConfig"
    options = dict(vocab_size=VOCABULARY, hidden_size=32, state_size=4, num_hidden_layers=2)

    def batch(self, i: int) -> tuple[tuple, dict[str, Any]]:
        ids = integers(i, VOCABULARY, 2, 8)
        return (), {"input_ids": ids, "labels": ids}


class Whisper(HuggingFace):
    """Copies its configuration in each forward."""

    name = "HF Whisper 1+1"
    model, config = "WhisperForConditionalGeneration", "WhisperConfig"
    options = dict(
        vocab_size=VOCABULARY, num_mel_bins=8, d_model=32, encoder_layers=1, decoder_layers=1,
        encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48,
        max_source_positions=10, max_target_positions=16, pad_token_id=0, bos_token_id=1,
        eos_token_id=2, decoder_start_token_id=3,
    )  # fmt: skip

    def batch(self, i: int) -> tuple[tuple, dict[str, Any]]:
        return (), {"input_features": random(i, 2, 8, 20), "labels": integers(i, VOCABULARY, 2, 6)}


STUDIES: list[type[Study]] = [Gpt2, Llama, Bert, T5, Vit, Mixtral, Mamba, Whisper]
