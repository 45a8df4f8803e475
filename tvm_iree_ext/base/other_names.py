"""Names that other libraries have for ops."""

OTHER_NAMES = {
    "argmax": "arg_compare",
    "argmin": "arg_compare",
    "argsort": "sort",
    "conv": "conv_2d",
    "conv1d": "conv_2d",
    "conv3d": "conv_2d",
    "convolution": "conv_2d",
    "cumprod": "scan",
    "cumsum": "scan",
    "einsum": "contraction",
    "flash_attention": "attention",
    "scaled_dot_product_attention": "attention",
    "sdpa": "attention",
    "take": "gather",
}
"""What each name stands for here; that of a product depends on who asks."""
