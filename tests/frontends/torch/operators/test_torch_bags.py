"""PyTorch's bags of embeddings, of one length and of others."""

import pytest
from torch_agreement import torch

import tvm_iree_ext as ext

WEIGHT = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
PADDING = 2


class Bags(torch.nn.Module):
    """Bags of the same rows in several modes, with padding and without."""

    def __init__(self, modes, **options):
        super().__init__()
        self.modes, self.options = modes, options

    def forward(self, indices, offsets=None, factors=None):
        return tuple(
            torch.nn.functional.embedding_bag(
                indices,
                WEIGHT.to(torch.float32 if factors is None else factors.dtype),
                offsets,
                mode=mode,
                padding_idx=padding,
                per_sample_weights=factors,
                **self.options,
            )
            for mode in self.modes
            for padding in (None, PADDING)
        )


def agrees(module, *several, tolerance=1e-6, **options):
    """Have a program of a module give what it gives, for several tuples of arguments."""
    program = ext.from_torch(module, *several[0], **options)
    for arguments in several:
        for came, want in zip(program(*arguments), module(*arguments), strict=True):
            torch.testing.assert_close(came, want, rtol=tolerance, atol=tolerance)


def test_bags_of_one_length_are_reduced_along_an_axis():
    """Of all modes; one bag is padding alone."""
    indices = torch.tensor([[0, 4, 1], [PADDING] * 3, [3, PADDING, 3]])
    free = {0: torch.export.Dim("bags"), 1: torch.export.Dim("length")}
    module = Bags(("sum", "mean", "max"))
    agrees(module, (indices.int(),))
    agrees(module, (indices,), (indices[:1, :2],), (indices[:, :1],), dynamic_shapes=(free,))


@pytest.mark.costly
@pytest.mark.parametrize("has_last", [False, True])
def test_bags_begin_at_offsets(has_last):
    """Some are empty."""
    indices = torch.tensor([0, 4, 1, PADDING, PADDING, 3, 1, 0])
    first, second = torch.tensor([0, 3, 3, 5, 8]), torch.tensor([0, 0, 1, 2, 8])
    module = Bags(("sum", "mean", "max"), include_last_offset=has_last)
    agrees(module, (indices, first), (indices, second))


@pytest.mark.costly
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16], ids=str)
def test_rows_of_a_sum_have_factors(dtype):
    indices = torch.tensor([0, 4, 1, PADDING, PADDING, 3])
    factors, offsets = torch.arange(6.0).to(dtype), torch.tensor([0, 2, 2])
    tolerance = 1e-3 if dtype is torch.float16 else 1e-6
    agrees(Bags(("sum",)), (indices, offsets, factors), tolerance=tolerance)


def test_rows_of_bags_of_one_length_have_factors():
    class Weighed(torch.nn.Module):
        def forward(self, indices, factors):
            return Bags(("sum",))(indices, None, factors)

    agrees(Weighed(), (torch.tensor([[0, 4, 1], [PADDING, 3, 3]]), torch.randn(2, 3)))
