"""PyTorch's operators on floats of 16 bits, beside float64: rounded once at the end."""

import pytest
from torch_agreement import Several, torch

import tvm_iree_ext as ext
from tvm_iree_ext.frontends.torch import torch_decompositions

F = torch.nn.functional
NARROW = [torch.float16, torch.bfloat16]


def rounds_once(function, *arguments):
    """Have a program give what the function gives in float64, rounded to 16 bits.

    What float32 loses on the way may turn a rounding: a fiftieth more than half a last place.
    """
    program = ext.from_torch(Several(function), *arguments, strict_export=False)
    wide = [one.double() if one.is_floating_point() else one for one in arguments]
    for place, (came, want) in enumerate(zip(program(*arguments), function(*wide), strict=True)):
        eps = torch.finfo(came.dtype).eps
        torch.testing.assert_close(
            came.double(),
            want,
            rtol=0.51 * eps,
            atol=max(1e-6, 0.51 * torch.finfo(came.dtype).tiny * eps),
            msg=lambda said, place=place: f"result {place}: {said}",
        )


def drawn(kind, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0)).to(kind)


@pytest.mark.costly
@pytest.mark.parametrize("kind", NARROW, ids=str)
def test_norms_and_softmax_are_rounded_once(kind):
    def norms(x, image, weight):
        return (
            *(F.layer_norm(x, (768,), weight, weight), F.rms_norm(x, (768,), weight)),
            *(F.group_norm(image, 2), F.instance_norm(image)),
            *(F.softmax(x, -1), F.log_softmax(x, -1), x.logsumexp(1), F.softmax(x, 0)),
        )

    rounds_once(norms, drawn(kind, 3, 768) + 2, drawn(kind, 2, 4, 9, 9), drawn(kind, 768))


@pytest.mark.parametrize("kind", NARROW, ids=str)
def test_reductions_and_scans_are_rounded_once(kind):
    def reduced(x, near_one):
        return (
            *(x.sum(1), x.mean(1), x.mean(), x.var(1), x.std(1), *torch.var_mean(x, 1)),
            *(x.norm(dim=1), x.cumsum(1), near_one.prod(1)),
        )

    rounds_once(reduced, drawn(kind, 3, 1000) + 1, 1 + drawn(kind, 3, 60) / 64)


@pytest.mark.costly
@pytest.mark.parametrize("kind", NARROW, ids=str)
def test_what_is_computed_of_each_element_is_rounded_once(kind):
    def elementwise(x, other):
        return (
            *(F.silu(x), F.gelu(x), F.gelu(x, approximate="tanh"), torch.sigmoid(x), F.mish(x)),
            *(F.softplus(x), F.elu(x), F.selu(x), F.hardswish(x), F.hardsigmoid(x), F.glu(x)),
            *(torch.expm1(x), torch.log1p(x.abs()), torch.atan2(x, other), F.logsigmoid(x)),
            *(torch.addcmul(x, x, other), torch.addcdiv(x, x, other), x.pow(3)),
            *(torch.lerp(x, other, 0.3), x * 0.1, 0.3 + x, torch.sub(x, other, alpha=0.7), x / 3),
        )

    rounds_once(elementwise, drawn(kind, 100, 6), drawn(kind, 100, 6).flip(0))


@pytest.mark.costly
@pytest.mark.parametrize("kind", NARROW, ids=str)
def test_pools_and_losses_are_rounded_once(kind):
    def images(x, other):
        return (
            *(F.avg_pool2d(x, 3), F.adaptive_avg_pool2d(x, 1), F.mse_loss(x, other)),
            *(F.interpolate(x, scale_factor=2.0, mode="bilinear"), F.smooth_l1_loss(x, other)),
        )

    x = drawn(kind, 2, 3, 12, 12)
    rounds_once(images, x, x.flip(0))


def test_types_stay_as_they_are_and_what_is_rounded_once_stays_in_16_bits():
    """Sums, differences and products of two, whose result in float32 would be rounded alike."""
    x = drawn(torch.float16, 5)

    def mixed(x):
        return (
            *(x.sum(dtype=torch.float32), x.softmax(0, dtype=torch.float16), x.float().sum()),
            *(x + x, x * 2, torch.where(x > 0.1, x, -x)),
        )

    program = ext.from_torch(Several(mixed), x, strict_export=False)
    for came, want in zip(program(x), mixed(x), strict=True):
        torch.testing.assert_close(came, want)
    exported = torch.export.export(Several(lambda x: x + x * 2), (x,))
    assert torch_decompositions.replaced(exported) is exported
