"""The lists of programs.  Making one imports its framework; the lists do not."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from tvm_iree_ext.base.suggestions import did_you_mean
from tvm_iree_ext.bench.programs.program_case import Framework, ProgramCase

_MODELS = "tvm_iree_ext.bench.programs.models"
_F16 = "float16: 11 bits, rounded after each operation"
_BF16 = "bfloat16: 8 bits, rounded after each operation"
_CHOICE = "a choice or a rounding: float64 takes another where two are near"


def _of(framework: Framework, domain: str) -> partial[ProgramCase]:
    return partial(ProgramCase, framework=framework, module=f"{_MODELS}.{domain}")


_language, _vision = _of("torch", "language"), _of("torch", "vision")
_recurrent, _tables = _of("torch", "recurrent"), _of("torch", "tables")
_mixtures, _scans = _of("jax", "mixtures"), _of("jax", "scans")
_training, _choices, _arrays = _of("jax", "training"), _of("jax", "choices"), _of("jax", "arrays")

_PROGRAMS = (
    _language("gpt2_block"),
    _language("gpt2_block_f16", relative=1e-2, absolute=1e-2, reason=_F16),
    _language("gpt2_block_bf16", relative=3e-2, absolute=3e-2, reason=_BF16),
    _language("gpt2_block_dynamic"),
    _language("gpt2_small"),
    _language("llama_prefill"),
    _language("llama_decode"),
    _language("llama_decode_f16", relative=1e-2, absolute=1e-2, reason=_F16),
    _language("bert_layer"),
    _language("bert_layer_dynamic"),
    _language("cross_entropy"),
    _vision("vit_block"),
    _vision("resnet18"),
    _vision("mobilenetv2_block"),
    _vision("mobilenetv2"),
    _vision("swin_block"),
    _vision("unet_block"),
    _vision("unet_bilinear_up"),
    _vision("conv_transpose"),
    _vision("timestep_mlp", relative=1e-3, absolute=1e-3, reason="sines of up to 999 in float32"),
    _recurrent("lstm"),
    _recurrent("gru"),
    _tables("embedding_bag"),
    _tables("torch_sort"),
    _tables("int8_linear", reference="framework", reason=_CHOICE),
    _mixtures("moe", reference="framework", reason=_CHOICE),
    _mixtures("moe_ragged", reference="framework", reason=_CHOICE),
    _scans("jax_rnn_scan"),
    _scans("mamba_scan"),
    _scans("mamba_assoc_scan"),
    _training("mlp_train_step"),
    _training("cnn_train_step"),
    _training("cnn_train_step_strided"),
    _training("transformer_train_step"),
    _training("embedding_bag_grad"),
    _choices("sample_token", reference="framework", reason=_CHOICE),
    _choices("beam_search_step", reference="framework", reason=_CHOICE),
    _choices("argsort"),
    _choices("nms"),
    _arrays("fft_conv", relative=1e-3, reason="sums of 2048 terms that cancel"),
    _arrays("cumsum_cumprod", relative=1e-3, absolute=1e-3, reason="2048 steps, each rounded"),
    _arrays(
        "cg_while_loop",
        relative=1e-2,
        absolute=1e-2,
        reference="framework",
        reason="steps until a residual in float32 is small: one more or less",
    ),
    _arrays("linalg_solve"),
    _arrays("cholesky"),
    _arrays("segment_sum"),
    _arrays("gnn_layer"),
    _arrays("int8_matmul_jax", reference="framework", reason=_CHOICE),
    _arrays(
        "jax_attention_bf16",
        relative=3e-2,
        absolute=3e-2,
        reason=_BF16,
        reference="framework",
    ),
)
PROGRAMS = {case.name: case for case in _PROGRAMS}
"""Those whose code stands in this package."""

_OF_TRANSFORMERS = """
    gpt2 llama mistral mixtral qwen2 qwen3 qwen3_moe gemma2 gemma3 phi3 gpt_neox opt bloom mamba
    mamba2 bert roberta distilbert deberta modernbert t5 bart whisper wav2vec2 dinov2 clip_vision
    swin llama_static_cache bert_dynamic
    gpt2_bf16 llama_bf16 qwen3_bf16 gemma3_bf16 mistral_bf16 bert_bf16 t5_bf16 mamba_bf16
    dinov2_bf16
"""
_OF_VISION_PACKAGES = """
    resnet50 mobilenet_v3 efficientnet_b0 convnext_tiny densenet121 squeezenet googlenet
    inception_v3 shufflenet regnet vit_b_16 swin_t maxvit deit_small mixer_s16 efficientvit resnest
    diffusion_unet diffusion_vae resnet50_dynamic vit_b_16_dynamic
    resnet50_bf16 vit_b_16_bf16 convnext_tiny_bf16 swin_t_bf16 diffusion_unet_bf16
"""


_FRAMEWORK: dict[str, Any] = {"relative": 1e-3, "absolute": 1e-3, "reference": "framework"}
_OTHERWISE: dict[str, dict[str, Any]] = {
    "mixtral": {**_FRAMEWORK, "reason": _CHOICE},
    "qwen3_moe": {**_FRAMEWORK, "reason": _CHOICE},
    "llama_static_cache": {**_FRAMEWORK, "reason": "its cache stays in float32"},
    "mamba_bf16": {
        "relative": 0.2,
        "absolute": 0.2,
        "reason": "bfloat16 at each of 128 steps: eager PyTorch is 0.14 of the largest off",
    },
}
"""How whole models are compared that are not compared as the others."""


def _whole(name: str, module: str) -> ProgramCase:
    """A model as it is trained, of many layers: the error of each is that of its inputs, too."""
    make = _of("torch", module)
    if name in _OTHERWISE:
        return make(name, **_OTHERWISE[name])
    if name.endswith("_bf16"):
        return make(name, relative=5e-2, absolute=5e-2, reason=_BF16)
    return make(name, relative=1e-3, absolute=1e-3, reason="float32, through many layers")


MODELS = {
    name: _whole(name, module)
    for module, names in (
        ("transformers_models", _OF_TRANSFORMERS),
        ("vision_packages", _OF_VISION_PACKAGES),
    )
    for name in names.split()
}
"""Whole models of packages: ``pip install 'tvm-iree-ext[models]'``."""


def select_programs(
    names: Sequence[str] = (),
    containing: str = "",
    listed: Mapping[str, ProgramCase] = PROGRAMS,
) -> list[ProgramCase]:
    """Programs by name, or all whose name contains one of several texts with ``|`` between.

    They are of :data:`PROGRAMS` or :data:`MODELS`.  One that is asked for by its whole name is
    built, too, where it is otherwise left out.

    Raises:
        ValueError: for a name that there is not, and where no program is left.
    """
    for name in names:
        if name not in listed:
            hint = did_you_mean(name, listed)
            raise ValueError(f"no program {name!r}{hint or '; there are ' + ', '.join(listed)}")
    if names:
        return [replace(listed[name], left_out="") for name in dict.fromkeys(names)]
    parts = containing.split("|")
    chosen = [case for case in listed.values() if any(part in case.name for part in parts)]
    if not chosen:
        raise ValueError(f"no program has {containing!r} in its name: {', '.join(listed)}")
    return chosen
