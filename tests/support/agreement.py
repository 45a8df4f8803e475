"""Kernels beside references."""

from tvm_iree_ext import registry
from tvm_iree_ext.base.comparison import first_difference
from tvm_iree_ext.building.kernel_build import build


def check(op, *arguments, kernel=None, config=None):
    """Run a kernel of ``op`` and compare with the reference; returns the kernel's results.

    Where no kernel is given it is built for this machine, with ``config``.
    """
    entry = registry.find(op.name)
    operands = dict(zip((o.name for o in op.signature.arguments), arguments, strict=True))
    want = entry.reference(op, operands)
    allowed = entry.tolerance(op, operands, want)
    got = (kernel or build(op, config=config))(*arguments)
    got = got if isinstance(got, tuple) else (got,)
    for operand, array in zip(op.signature.results, got, strict=True):
        assert not first_difference(operand.name, array, want[operand.name], allowed[operand.name])
    return got
