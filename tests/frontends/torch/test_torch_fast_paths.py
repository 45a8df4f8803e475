"""Operators of layers, and their parts, in eager PyTorch."""

import pytest

torch = pytest.importorskip("torch", reason="pip install 'tvm-iree-ext[pytorch]'")

from tvm_iree_ext.frontends.torch.torch_fast_paths import attention, encoder_layer, in_parts  # noqa: E402

LEFT_OUT = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
CAUSAL = torch.ones(5, 5, dtype=torch.bool).triu(1)


def masks(heads):
    """Masks as the operators take them, with their types."""
    per_head = (CAUSAL | LEFT_OUT[:, None, None]).expand(2, heads, 5, 5)
    return [(None, None), (CAUSAL, 0), (LEFT_OUT, 1), (per_head, 2)]


@pytest.mark.costly
@pytest.mark.parametrize("needs", [(False, False), (True, True), (True, False)])
def test_attention(needs):
    torch.manual_seed(0)
    x, weights = torch.randn(2, 5, 8), (torch.randn(24, 8), torch.randn(24))
    fixed = (x, x, x, 8, 2, *weights, torch.randn(8, 8), torch.randn(8))
    operator = torch._native_multi_head_attention
    assert in_parts(operator) is attention
    with torch.no_grad():
        for mask, kind in masks(2):
            want = operator(*fixed, mask, *needs, kind)
            came = attention(*fixed, mask, *needs, kind)
            torch.testing.assert_close(came[0], want[0])
            if needs[0]:
                torch.testing.assert_close(came[1], want[1])


@pytest.mark.parametrize("uses_gelu", [False, True])
@pytest.mark.parametrize("is_norm_first", [False, True])
def test_encoder_layer(uses_gelu, is_norm_first):
    torch.manual_seed(0)
    shapes = [(24, 8), (24,), (8, 8), (8,)], [(8,)] * 4 + [(16, 8), (16,), (8, 16), (8,)]
    first, second = ([torch.randn(shape) for shape in some] for some in shapes)
    fixed = (torch.randn(2, 5, 8), 8, 2, *first, uses_gelu, is_norm_first, 1e-5, *second)
    operator = torch._transformer_encoder_layer_fwd
    assert in_parts(operator) is encoder_layer
    with torch.no_grad():
        for mask, kind in masks(2):
            came, want = encoder_layer(*fixed, mask, kind), operator(*fixed, mask, kind)
            torch.testing.assert_close(came, want, rtol=1e-4, atol=1e-4)
