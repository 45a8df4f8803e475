"""The cases of ``custom_op``: the dialect's example of two fused products.

``custom_two_matmuls_512x64`` is ``(x @ y) @ z`` with rows of 64 between 512 rows and columns.
"""

import numpy as np

from tvm_iree_ext import ops
from tvm_iree_ext.bench.base.bench_case import NUMPY, TORCH, Call, Case, Check, Peer, Values
from tvm_iree_ext.bench.base.checks import normal_operands, within
from tvm_iree_ext.catalog.custom_op import FORMS, tolerance
from tvm_iree_ext.ops.families.custom_op.custom_op import CustomOp

_NAMES = ("input0", "input1", "input2", "init0", "init1")


def custom_op_cases() -> tuple[Case, ...]:
    """All of them."""
    return tuple(two_matmuls(rows, depth) for rows, depth in ((128, 32), (512, 64), (1024, 128)))


def _shapes(rows: int, depth: int, columns: int) -> tuple[tuple[int, int], ...]:
    return ((rows, depth), (depth, depth), (depth, columns), (rows, depth), (rows, columns))


def two_products(rows: int, depth: int, columns: int) -> CustomOp:
    """``x @ y`` and ``(x @ y) @ z``, where x is rows x depth and z depth x columns."""
    shapes, form = _shapes(rows, depth, columns), FORMS["yield a, b"]
    return ops.custom_op(
        shapes[:3],
        shapes[3:],
        indexing_maps=form.maps,
        iterator_types=form.iterators,
        region=form.tile,
    )


def two_matmuls(rows: int, depth: int) -> Case:
    """Both products, rows x depth and rows x rows, in one pass over the rows."""
    op = two_products(rows, depth, rows)
    form, shapes = FORMS["yield a, b"], _shapes(rows, depth, rows)

    def check_of(values: Values) -> Check:
        wide = [values[name].astype(np.float64) for name in _NAMES]
        expected = form.array(*wide)
        want = dict(zip(("result0", "result1"), expected, strict=True))
        return within(want, tolerance(op, values, want))

    return Case(
        name=f"custom_two_matmuls_{rows}x{depth}",
        op=op,
        operands=normal_operands(dict(zip(_NAMES, shapes, strict=True))),
        check=check_of,
        peers=(Peer(NUMPY, _numpy_matmuls), Peer(TORCH, _torch_matmuls)),
    )


def _numpy_matmuls(values: Values) -> Call:
    x, y, z, a, b = (values[name] for name in _NAMES)
    first, second = np.empty_like(a), np.empty_like(b)

    def call() -> tuple[np.ndarray, np.ndarray]:
        np.matmul(x, y, out=first)
        np.add(first, a, out=first)
        np.matmul(first, z, out=second)
        np.add(second, b, out=second)
        return first, second

    return call


def _torch_matmuls(values: Values) -> Call:
    import torch

    x, y, z, a, b = (torch.from_numpy(values[name]) for name in _NAMES)

    def call() -> tuple[np.ndarray, np.ndarray]:
        with torch.inference_mode():
            first = torch.addmm(a, x, y)
            return first.numpy(), torch.addmm(b, first, z).numpy()

    return call
