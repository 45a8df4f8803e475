"""Element types: for each op those that it takes, and why it does not take the others.

The docs' table is made of this (``scripts/element_types.py``), and each cell is tested: what an op
takes is built and run in its smallest case, what it does not is refused.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tvm_iree_ext import ops
from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.signature import TensorType
from tvm_iree_ext.catalog.base.random_arrays import small_numbers
from tvm_iree_ext.catalog.custom_op import FORMS
from tvm_iree_ext.layout.nested import NestedLayout
from tvm_iree_ext.ops.base.op import Op

Make = Callable[[str], Op]
Reasons = Mapping[str, str]
"""Why element types are not taken, by type."""


@dataclass(frozen=True)
class ElementTypes:
    """The element types of an op's main operand.

    Attributes:
        make: the op's smallest case over elements of a type; OpError for one that is not taken.
        refused: the types that are not taken, each with the reason.
        foreign: for a kind of target, such as ``cuda``, the types that no rule of it takes.
        in_text: the types that an imported program does not have the op of, each with the reason;
            MLIR's ``index`` may be among them, which elsewhere is int64.
        ordinals: names of the operands that are indices, each with a number below which they are.
    """

    make: Make
    refused: Reasons = field(default_factory=dict)
    foreign: Mapping[str, Reasons] = field(default_factory=dict)
    in_text: Reasons = field(default_factory=dict)
    ordinals: Mapping[str, int] = field(default_factory=dict)

    @property
    def refused_in_text(self) -> dict[str, str]:
        """The types that an imported program does not have the op of, each with the reason."""
        found = {**self.refused, **self.in_text}
        if "int64" in found:
            found.setdefault("index", found["int64"])
        return found

    @property
    def taken(self) -> tuple[str, ...]:
        """The types that the op takes."""
        return tuple(one for one in dtypes.ELEMENTS if one not in self.refused)

    def case(self, dtype: str, rng: np.random.Generator) -> tuple[Op, dict[str, Any]]:
        """The smallest case of a type: the op, and operands by name."""
        op = self.make(dtype)
        operands: dict[str, Any] = {}
        for operand in op.signature.arguments:
            shape = tuple(int(extent) for extent in operand.shape)
            if operand.name in self.ordinals:
                drawn = rng.permutation(max(self.ordinals[operand.name], int(np.prod(shape))))
                kind = dtypes.numpy_dtype(operand.dtype)
                operands[operand.name] = drawn[: int(np.prod(shape))].reshape(shape).astype(kind)
            elif operand.dtype == "bool":
                operands[operand.name] = np.asarray(rng.random(shape) < 0.5)
            else:
                operands[operand.name] = small_numbers(rng, shape, operand.dtype)
        return op, operands


def _but(*taken: str, reason: str, **others: str) -> dict[str, str]:
    """All types but some, for one reason; ``others`` are groups with reasons of their own."""
    found = {one: reason for one in dtypes.ELEMENTS if one not in taken}
    groups = {"complex_": dtypes.COMPLEX, "integers": (*dtypes.INTEGERS, *dtypes.INTEGERS4)}
    for name, why in others.items():
        found |= {one: why for one in groups[name] if one in found}
    return found


_FNUZ = {
    "cuda": {
        name: "AMD's type; CUDA's code has no such type"
        for name in dtypes.FLOATS8
        if name.endswith("fnuz")
    }
}
_VECTORS = dict.fromkeys(dtypes.COMPLEX, "MLIR's vectors have no complex elements")
_FACTORS = (*dtypes.FLOATS, *dtypes.FLOATS8, *dtypes.INTEGERS4, "int8")
_SUMS = "sums of products are of floats, and of integers of 8 bits and of 4"
_SHAPE = (3, 5)


def _a(shape: tuple[int, ...], dtype: str) -> TensorType:
    return TensorType(shape, dtype)


def _of_parts(dtype: str, sign: str) -> str:
    """A comparator: of complex numbers, which have no order, of their real parts."""
    return f"real(arg0) {sign} real(arg1)" if dtype in dtypes.COMPLEX else sign


def _attention(dtype: str) -> Op:
    kinds = (_a((1, 2, 4, 8), dtype), _a((1, 2, 6, 8), dtype), _a((1, 2, 6, 8), dtype))
    return ops.attention(*kinds, output_dtype=None if dtype in dtypes.FLOATS else "float32")


def _online_attention(dtype: str) -> Op:
    kinds = (_a((1, 2, 4, 8), dtype), _a((1, 2, 6, 8), dtype), _a((1, 2, 6, 8), dtype))
    return ops.online_attention(*kinds)


def _exp_reduction(dtype: str) -> Op:
    return ops.exp_reduction(
        [_a((3, 5), dtype)],
        [_a((3,), "float64" if dtype == "float64" else "float32")] * 2,
        indexing_maps=["(m, k) -> (m, k)", "(m, k) -> (m)", "(m, k) -> (m)"],
        iterator_types=["parallel", "reduction"],
        exp_reduced_operands=[1],
        region="arg1, arg0 + arg2",
    )


def _custom_op(dtype: str) -> Op:
    form = "yield t with t[j] = index(0) + j"
    return ops.custom_op(
        [],
        [_a((5,), dtype)],
        indexing_maps=["(d0) -> (d0)"],
        iterator_types=["parallel"],
        region=FORMS[form].tile,
    )


_LAYOUT = NestedLayout((1, 1), (1, 1), (1, 1), (4, 1), (1, 4), (0, 0), (1, 0))


def _combined(dtype: str) -> str:
    return "or" if dtype == "bool" else "add"


_TRANSFER = ["(d0, d1)[s0] -> (s0, d1)", "(d0, d1)[s0] -> (d0)"]
_BOOLS = "1 > 0"


def _map_load(dtype: str) -> Op:
    padding = _BOOLS if dtype == "bool" else "1"
    return ops.map_load(_a(_SHAPE, dtype), (5, 4), f"arg1, arg0, {padding}")


_FLOATS_ONLY = "transforms multiply by fractions"
ELEMENT_TYPES: dict[str, ElementTypes] = {
    "iree_linalg_ext.attention": ElementTypes(
        _attention,
        _but(
            *dtypes.FLOATS,
            *dtypes.FLOATS8,
            reason="softmax is of floats",
            complex_="softmax needs an order",
        ),
    ),
    "iree_linalg_ext.online_attention": ElementTypes(
        _online_attention,
        _but(
            *dtypes.FLOATS,
            *dtypes.FLOATS8,
            reason="softmax is of floats",
            complex_="softmax needs an order",
        ),
    ),
    "iree_linalg_ext.exp_reduction": ElementTypes(
        _exp_reduction, _but(*dtypes.FLOATS, reason="exponentials are of floats from 16 bits")
    ),
    "iree_linalg_ext.custom_op": ElementTypes(_custom_op),
    "iree_linalg_ext.fft": ElementTypes(
        lambda dtype: ops.fft(_a((2, 4), dtype), _a((2, 4), dtype), stage=1),
        _but(
            *dtypes.FLOATS,
            reason="roots of unity are of floats from 16 bits",
            complex_="complex numbers are two operands",
        ),
    ),
    "tvm_iree_ext.fft_transform": ElementTypes(
        lambda dtype: ops.fft_transform(_a((2, 4), dtype), _a((2, 4), dtype)),
        _but(
            *dtypes.FLOATS,
            reason="roots of unity are of floats from 16 bits",
            complex_="complex numbers are two operands",
        ),
    ),
    "iree_linalg_ext.pack": ElementTypes(
        lambda dtype: ops.pack(
            _a((5, 3), dtype),
            inner_dims_pos=[0],
            inner_tiles=[4],
            padding_value=True if dtype == "bool" else 1,
        )
    ),
    "iree_linalg_ext.unpack": ElementTypes(
        lambda dtype: ops.unpack(_a((2, 3, 4), dtype), (5, 3), inner_dims_pos=[0], inner_tiles=[4])
    ),
    "iree_linalg_ext.scatter": ElementTypes(
        lambda dtype: ops.scatter(
            _a((3, 5), dtype), (3,), _a((4, 5), dtype), region=_combined(dtype)
        ),
        ordinals={"indices": 4},
        in_text={"index": "the dialect's regions are of integers and floats here"},
    ),
    "iree_linalg_ext.gather": ElementTypes(
        lambda dtype: ops.gather(_a((4, 5), dtype), (3,)), ordinals={"indices": 4}
    ),
    "iree_linalg_ext.scan": ElementTypes(
        lambda dtype: ops.scan(_a(_SHAPE, dtype), _combined(dtype), dimension=1),
    ),
    "iree_linalg_ext.map_load": ElementTypes(_map_load),
    "iree_linalg_ext.map_store": ElementTypes(
        lambda dtype: ops.map_store(_a((3, 5), dtype), _a((5, 3), dtype), "arg1, arg0, arg0 < 2")
    ),
    "iree_linalg_ext.sort": ElementTypes(
        lambda dtype: ops.sort(_a(_SHAPE, dtype), dimension=1, region=_of_parts(dtype, "<")),
    ),
    "iree_linalg_ext.topk": ElementTypes(
        lambda dtype: ops.topk(_a((3, 9), dtype), k=2, region=_of_parts(dtype, ">")),
        ordinals={"output_indices_init": 6},
    ),
    "iree_linalg_ext.topk_v2": ElementTypes(
        lambda dtype: ops.topk_v2(
            _a((3, 9), dtype), None, (3, 2), k=2, is_sorted=True, region=_of_parts(dtype, ">")
        ),
        ordinals={"output_indices_init": 6},
    ),
    "iree_linalg_ext.im2col": ElementTypes(
        lambda dtype: ops.im2col(
            _a((1, 4, 4, 2), dtype), kernel_size=[2, 2], batch_pos=[0], m_pos=[1, 2], k_pos=[3]
        )
    ),
    "iree_linalg_ext.arg_compare": ElementTypes(
        lambda dtype: ops.arg_compare(_a(_SHAPE, dtype), _of_parts(dtype, ">"), dimension=1),
        ordinals={"init_index": 3},
    ),
    "iree_linalg_ext.winograd.filter_transform": ElementTypes(
        lambda dtype: ops.winograd_filter_transform(
            _a((3, 3, 2, 2), dtype), output_tile_size=2, kernel_size=3, kernel_dimensions=(0, 1)
        ),
        _but(*dtypes.FLOATS, reason=_FLOATS_ONLY),
    ),
    "iree_linalg_ext.winograd.input_transform": ElementTypes(
        lambda dtype: ops.winograd_input_transform(
            _a((1, 6, 6, 2), dtype), output_tile_size=2, kernel_size=3, image_dimensions=(1, 2)
        ),
        _but(*dtypes.FLOATS, reason=_FLOATS_ONLY),
    ),
    "iree_linalg_ext.winograd.output_transform": ElementTypes(
        lambda dtype: ops.winograd_output_transform(
            _a((4, 4, 1, 2, 2, 2), dtype),
            output_tile_size=2,
            kernel_size=3,
            image_dimensions=(1, 2),
        ),
        _but(*dtypes.FLOATS, reason=_FLOATS_ONLY),
    ),
    "iree_vector_ext.arg_compare": ElementTypes(
        lambda dtype: ops.vector_ext.arg_compare(
            _a(_SHAPE, dtype), _of_parts(dtype, ">"), dimension=1
        ),
        ordinals={"init_index": 3},
        in_text=_VECTORS,
    ),
    "iree_vector_ext.transfer_gather": ElementTypes(
        lambda dtype: ops.vector_ext.transfer_gather(
            _a((4, 5), dtype), (3,), result=(3, 5), indexing_maps=_TRANSFER
        ),
        ordinals={"index0": 5},
        in_text=_VECTORS,
    ),
    "iree_vector_ext.transfer_scatter": ElementTypes(
        lambda dtype: ops.vector_ext.transfer_scatter(
            _a((3, 5), dtype), _a((4, 5), dtype), (3,), indexing_maps=_TRANSFER
        ),
        ordinals={"index0": 5},
        in_text=_VECTORS,
    ),
    "iree_vector_ext.to_layout": ElementTypes(
        lambda dtype: ops.vector_ext.to_layout(_a((4, 4), dtype), _LAYOUT),
        in_text=_VECTORS,
    ),
    "iree_vector_ext.to_simt": ElementTypes(
        lambda dtype: ops.vector_ext.to_simt(
            _a((4, 4), dtype),
            _LAYOUT,
            num_subgroups=1,
            subgroup_size=4,
            padding=False if dtype == "bool" else 0,
        ),
        in_text=_VECTORS,
    ),
    "iree_vector_ext.to_simd": ElementTypes(
        lambda dtype: ops.vector_ext.to_simd(
            _a((1, 4, 1, 4), dtype), _LAYOUT, num_subgroups=1, subgroup_size=4
        ),
        in_text=_VECTORS,
    ),
    "tvm_iree_ext.conv_2d": ElementTypes(
        lambda dtype: ops.conv_2d(_a((1, 4, 4, 2), dtype), _a((3, 3, 2, 2), dtype)),
        _but(*_FACTORS, reason=_SUMS),
        foreign=_FNUZ,
    ),
    "tvm_iree_ext.contraction": ElementTypes(
        lambda dtype: ops.matmul(_a((4, 8), dtype), _a((8, 4), dtype)),
        _but(*_FACTORS, reason=_SUMS),
        foreign=_FNUZ,
    ),
    "tvm_iree_ext.grouped_matmul": ElementTypes(
        lambda dtype: ops.grouped_matmul(_a((4, 8), dtype), _a((1, 8, 4), dtype), (1,)),
        _but(*_FACTORS, reason=_SUMS),
        foreign=_FNUZ,
        ordinals={"offsets": 4},
    ),
}
