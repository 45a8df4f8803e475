"""An operator of PyTorch's that no front end will ever take: it is the tests' own."""

import torch


@torch.library.custom_op("tests_of_tvm_iree_ext::opaque", mutates_args=())
def opaque(x: torch.Tensor) -> torch.Tensor:
    """Its operand, of the same type and shape."""
    return x.clone()


opaque.register_fake(torch.empty_like)
