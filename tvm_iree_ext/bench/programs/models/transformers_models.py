"""Models of the package ``transformers``: their own code, of fewer layers, with random weights."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from tvm_iree_ext.bench.programs.models.program_model import Model, in_bfloat16, with_open_batch

_LAYERS, _WIDTH, _HEADS, _INNER, _WORDS, _LENGTH = 4, 512, 8, 1408, 8192, 128
_TOKENS = dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id"), 0)
_USUAL = {
    "hidden_size": _WIDTH,
    "num_hidden_layers": _LAYERS,
    "num_attention_heads": _HEADS,
    "intermediate_size": _INNER,
    "vocab_size": _WORDS,
}
_GROUPED = {**_USUAL, "num_key_value_heads": 2}  # grouped-query attention
_COUNTED = {"n_layer": _LAYERS, "n_head": _HEADS, "vocab_size": _WORDS}
_PAIR = {  # an encoder and a decoder
    "d_model": _WIDTH,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": _HEADS,
    "decoder_attention_heads": _HEADS,
    "encoder_ffn_dim": _INNER,
    "decoder_ffn_dim": _INNER,
    "vocab_size": _WORDS,
}
_EXPERTS = {**_GROUPED, "num_experts_per_tok": 2, "max_position_embeddings": 512}


class _First(nn.Module):
    """A model's first result, of one or two tensors in the order of some names."""

    def __init__(self, model: nn.Module, names: tuple[str, ...], options: Mapping[str, Any]):
        super().__init__()
        self.model, self.names, self.options = model, names, dict(options)

    def forward(self, first: Tensor, second: Tensor | None = None) -> Tensor:
        named = dict(zip(self.names, (first, second), strict=False))
        found: Tensor = self.model(**named, **self.options, return_dict=False)[0]
        return found


def _made(kind: str, config: Mapping[str, Any], head: str) -> nn.Module:
    import transformers

    torch.manual_seed(0)
    settings = transformers.AutoConfig.for_model(kind, **_TOKENS, **config)
    model: nn.Module = getattr(transformers, f"AutoModel{head}").from_config(settings)
    return model.eval()


def _words(*shape: int) -> Tensor:
    return torch.randint(0, 1000, shape, generator=torch.Generator().manual_seed(0))


def _causal(kind: str, config: Mapping[str, Any]) -> Model:
    """Prefill of a language model: the logits of all positions."""
    model = _made(kind, config, "ForCausalLM")
    return Model(_First(model, ("input_ids",), {"use_cache": False}), (_words(1, _LENGTH),))


def _encoder(kind: str, config: Mapping[str, Any]) -> Model:
    model = _made(kind, config, "")
    mask = torch.ones(1, _LENGTH, dtype=torch.int64)
    mask[:, _LENGTH - 28 :] = 0  # a sentence that was padded
    return Model(_First(model, ("input_ids", "attention_mask"), {}), (_words(1, _LENGTH), mask))


def _pair(kind: str, config: Mapping[str, Any]) -> Model:
    model = _made(kind, config, "ForSeq2SeqLM")
    names = ("input_ids", "decoder_input_ids")
    return Model(
        _First(model, names, {"use_cache": False}), (_words(1, _LENGTH), _words(1, _LENGTH // 4))
    )


def _whisper() -> Model:
    config = {**_PAIR, "max_source_positions": 200, "max_target_positions": 64}
    model = _made("whisper", config, "ForSpeechSeq2Seq")
    torch.manual_seed(0)
    names = ("input_features", "decoder_input_ids")
    return Model(
        _First(model, names, {"use_cache": False}), (torch.randn(1, 80, 400), _words(1, 32))
    )


def _wav2vec2() -> Model:
    model = _made("wav2vec2", {**_USUAL, "apply_spec_augment": False}, "")
    torch.manual_seed(0)
    return Model(_First(model, ("input_values",), {}), (torch.randn(1, 16000),))


def _images(kind: str, config: Mapping[str, Any], size: int) -> Model:
    model = _made(kind, {**config, "image_size": size}, "")
    torch.manual_seed(0)
    return Model(_First(model, ("pixel_values",), {}), (torch.randn(1, 3, size, size),))


def _decode(kind: str, config: Mapping[str, Any]) -> Model:
    """One position behind others, with keys and values in buffers that a call writes."""
    from transformers.integrations.executorch import TorchExportableModuleWithStaticCache

    model: Any = _made(kind, config, "ForCausalLM")
    model.generation_config.use_cache = True
    model.generation_config.cache_implementation = "static"
    model.generation_config.cache_config = {"batch_size": 1, "max_cache_len": _LENGTH}
    module = TorchExportableModuleWithStaticCache(
        model, batch_size=1, max_cache_len=_LENGTH, device="cpu"
    )
    return Model(_Step(module), (_words(1, 1), torch.tensor([5])))


class _Step(nn.Module):
    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, word: Tensor, place: Tensor) -> Tensor:
        found: Tensor = self.model(input_ids=word, cache_position=place)
        return found


_CAUSAL: dict[str, tuple[str, Mapping[str, Any]]] = {
    "gpt2": ("gpt2", {**_COUNTED, "n_embd": _WIDTH}),
    "llama": ("llama", _GROUPED),
    "mistral": ("mistral", {**_GROUPED, "sliding_window": 64}),
    "mixtral": ("mixtral", {**_EXPERTS, "num_local_experts": 4}),
    "qwen2": ("qwen2", _GROUPED),
    "qwen3": ("qwen3", {**_GROUPED, "head_dim": 64}),
    "qwen3_moe": (
        "qwen3_moe",
        {**_EXPERTS, "head_dim": 64, "num_experts": 8, "moe_intermediate_size": 256},
    ),
    "gemma2": ("gemma2", {**_GROUPED, "head_dim": 64}),
    "gemma3": ("gemma3_text", {**_GROUPED, "head_dim": 64}),
    "phi3": ("phi3", _GROUPED),
    "gpt_neox": ("gpt_neox", _USUAL),
    "opt": (
        "opt",
        {
            **_USUAL,
            "ffn_dim": _INNER,
            "word_embed_proj_dim": _WIDTH,
            "max_position_embeddings": 512,
        },
    ),
    "bloom": ("bloom", {**_COUNTED, "hidden_size": _WIDTH}),
    "mamba": ("mamba", _USUAL),
    "mamba2": (
        "mamba2",
        {**_USUAL, "num_heads": 16, "head_dim": 64, "n_groups": 1, "chunk_size": 64},
    ),
}
_ENCODERS: dict[str, tuple[str, Mapping[str, Any]]] = {
    "bert": ("bert", _USUAL),
    "roberta": ("roberta", _USUAL),
    "distilbert": (
        "distilbert",
        {"dim": _WIDTH, "n_layers": _LAYERS, "n_heads": _HEADS, "hidden_dim": _INNER},
    ),
    "deberta": (
        "deberta-v2",
        {**_USUAL, "relative_attention": True, "pos_att_type": ["c2p", "p2c"]},
    ),
    "modernbert": ("modernbert", _USUAL),
}

_FLOAT32: dict[str, Callable[[], Model]] = {
    **{name: partial(_causal, *one) for name, one in _CAUSAL.items()},
    **{name: partial(_encoder, *one) for name, one in _ENCODERS.items()},
    "t5": partial(
        _pair,
        "t5",
        {
            "d_model": _WIDTH,
            "num_layers": 2,
            "num_heads": _HEADS,
            "d_kv": 64,
            "d_ff": _INNER,
            "vocab_size": _WORDS,
        },
    ),
    "bart": partial(_pair, "bart", _PAIR),
    "whisper": _whisper,
    "wav2vec2": _wav2vec2,
    "dinov2": partial(_images, "dinov2", {**_USUAL, "patch_size": 16}, 224),
    "clip_vision": partial(_images, "clip_vision_model", {**_USUAL, "patch_size": 16}, 224),
    "swin": partial(
        _images,
        "swin",
        {"embed_dim": 96, "depths": [2, 2, 2, 2], "num_heads": [3, 6, 12, 24], "window_size": 7},
        224,
    ),
    "llama_static_cache": partial(_decode, "llama", _GROUPED),
}
_NARROW = ("gpt2", "llama", "qwen3", "gemma3", "mistral", "bert", "t5", "mamba", "dinov2")

MODELS: Mapping[str, Callable[[], Model]] = {
    **_FLOAT32,
    **{f"{name}_bf16": partial(in_bfloat16, _FLOAT32[name]) for name in _NARROW},
    "bert_dynamic": partial(with_open_batch, _FLOAT32["bert"]),
}
"""What makes each, by the name of its program."""
