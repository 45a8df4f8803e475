"""Attention and transformer layers that PyTorch has as one operator without gradients, as parts.

``torch.export`` can be kept from them (``torch_export``); dynamo has them in its graphs before a
backend is asked.
"""

from typing import Any


def attention(
    query: Any,
    key: Any,
    value: Any,
    width: int,
    heads: int,
    qkv_weight: Any,
    qkv_bias: Any,
    projection: Any,
    projection_bias: Any,
    mask: Any = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> tuple[Any, Any]:
    """``aten::_native_multi_head_attention``, of ``[batch, positions, width]``."""
    import torch

    functional = torch.nn.functional
    parts = zip(qkv_weight.chunk(3), qkv_bias.chunk(3), (query, key, value), strict=True)
    q, k, v = (
        functional.linear(x, weight, bias).unflatten(-1, (heads, -1)).transpose(1, 2)
        for weight, bias, x in parts
    )
    added = None
    if mask is not None:
        if mask_type == 1:  # of keys, per batch
            mask = mask.view(mask.shape[0], 1, 1, mask.shape[-1])
        mask = mask.bool()  # as the operator does: of numbers all but 0 are left out
        added = torch.zeros_like(mask, dtype=q.dtype).masked_fill(mask, float("-inf"))
    weights = None
    if need_weights or added is not None:
        scores = q @ k.transpose(-2, -1) / (width // heads) ** 0.5
        weights = torch.softmax(scores if added is None else scores + added, -1)
        mixed = weights @ v
        weights = weights.mean(1) if average_attn_weights else weights
        weights = weights if need_weights else None
    else:
        mixed = functional.scaled_dot_product_attention(q, k, v, attn_mask=added)
    return functional.linear(mixed.transpose(1, 2).flatten(2), projection, projection_bias), weights


def encoder_layer(
    x: Any,
    width: int,
    heads: int,
    qkv_weight: Any,
    qkv_bias: Any,
    projection: Any,
    projection_bias: Any,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: Any,
    norm_bias_1: Any,
    norm_weight_2: Any,
    norm_bias_2: Any,
    weight_1: Any,
    bias_1: Any,
    weight_2: Any,
    bias_2: Any,
    mask: Any = None,
    mask_type: int | None = None,
) -> Any:
    """``aten::_transformer_encoder_layer_fwd``, of ``[batch, positions, width]``."""
    import torch

    functional = torch.nn.functional

    def norm(x: Any, weight: Any, bias: Any) -> Any:
        return functional.layer_norm(x, (width,), weight, bias, eps)

    def attended(x: Any) -> Any:
        of = (width, heads, qkv_weight, qkv_bias, projection, projection_bias, mask)
        return attention(x, x, x, *of, need_weights=False, mask_type=mask_type)[0]

    def fed(x: Any) -> Any:
        hidden = functional.linear(x, weight_1, bias_1)
        hidden = functional.gelu(hidden) if use_gelu else functional.relu(hidden)
        return functional.linear(hidden, weight_2, bias_2)

    if norm_first:
        x = x + attended(norm(x, norm_weight_1, norm_bias_1))
        return x + fed(norm(x, norm_weight_2, norm_bias_2))
    x = norm(x + attended(x), norm_weight_1, norm_bias_1)
    return norm(x + fed(x), norm_weight_2, norm_bias_2)


def in_parts(target: Any) -> Any:
    """The function that a node calls, in parts where it is such an operator."""
    import torch

    if target is torch._transformer_encoder_layer_fwd:
        return encoder_layer
    return attention if target is torch._native_multi_head_attention else target
