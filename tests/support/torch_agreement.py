"""Programs of PyTorch's functions beside eager PyTorch; a module that imports this needs both."""

import pytest

import tvm_iree_ext as ext

torch = pytest.importorskip(
    "torch", reason="PyTorch is not installed: pip install 'tvm-iree-ext[pytorch]'"
)
pytest.importorskip(
    "iree.turbine.aot",
    reason="iree-turbine is not installed: pip install 'tvm-iree-ext[pytorch]'",
    exc_type=ImportError,
)


class Several(torch.nn.Module):
    """The results of a function."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *arguments):
        return self.function(*arguments)


def agrees(function, *arguments, others=(), tolerance=1e-5, **options):
    """Have a program of a function give what the function gives, for several arguments.

    In float64 seven more digits agree.
    """
    program = ext.from_torch(Several(function), *arguments, strict_export=False, **options)
    for given in (arguments, *others):
        came, want = program(*given), function(*given)
        came, want = (one if isinstance(one, tuple) else (one,) for one in (came, want))
        for place, (one, other) in enumerate(zip(came, want, strict=True)):
            bound = tolerance * 1e-7 if other.dtype is torch.float64 else tolerance
            torch.testing.assert_close(
                one,
                other,
                rtol=bound,
                atol=bound,
                equal_nan=True,
                msg=lambda said, place=place: f"result {place}: {said}",
            )
