"""Functions of PyTorch's complex tensors, beside eager PyTorch, and their errors."""

from torch_agreement import Several, agrees, torch

import tvm_iree_ext as ext

_NAMES = """exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal sin cos tan sinh cosh tanh
    asin acos atan asinh acosh atanh sigmoid sgn angle abs"""
NAMES = _NAMES.split()


def all_of(x):
    return tuple(getattr(torch, name)(x) for name in NAMES)


def distances(came, want):
    """Relative errors in norm, where the right value is finite."""
    finite = torch.isfinite(want)
    return ((came.to(want.dtype) - want).abs() / want.abs())[finite]


def test_functions_of_complex_numbers_are_right_to_four_ulp_over_the_whole_range():
    torch.manual_seed(0)
    scales = torch.tensor([1e-30, 1e-4, 3.0, 1e6, 1e30]).reshape(-1, 1)
    x = torch.randn(5, 40, dtype=torch.complex64) * scales
    program = ext.from_torch(Several(all_of), x, strict_export=False)
    for name, came, eager, want in zip(
        NAMES, program(x), all_of(x), all_of(x.to(torch.complex128)), strict=True
    ):
        assert came.dtype is eager.dtype, name
        fits = want.abs().float().isfinite() & (want.abs() > 1e-35)
        assert (distances(came[fits], want[fits]) < 4 * 2**-23).all(), name


def test_complex128_is_as_pytorch_has_it_at_open_extents_and_signed_zeros():
    torch.manual_seed(0)
    batch = torch.export.Dim("batch", min=2)
    parts = torch.tensor([0.0, -0.0, 1.0, -1.0, 0.5, -2.0], dtype=torch.float64)
    x = torch.complex(*torch.meshgrid(parts, parts, indexing="ij")).reshape(-1, 4)
    names = ["exp", "sqrt", "tanh", "sinh", "asin", "acos", "asinh", "acosh", "atan", "sigmoid"]

    def finite(x):
        return tuple(getattr(torch, name)(x) for name in names)

    other = torch.randn(3, 4, dtype=torch.complex128)
    agrees(finite, x, others=[(other,)], dynamic_shapes=(({0: batch},),))


def test_numbers_become_complex_and_real_again():
    def converted(x, z):
        return (
            *(x.to(torch.complex64), x.to(torch.complex128), z.to(torch.complex128)),
            *(z.real.to(torch.complex64).exp(), torch.fft.fft2(x, norm="ortho")),
        )

    agrees(converted, torch.randn(3, 4), torch.randn(3, 4, dtype=torch.complex64))


def test_true_becomes_one():
    """And not -1, which its one bit is with a sign."""
    agrees(lambda x: x.to(torch.complex64), torch.tensor([True, False, True]))
