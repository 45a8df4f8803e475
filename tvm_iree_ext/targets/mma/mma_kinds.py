"""Matrix instructions: what each computes, and which lane holds which element of its operands.

Every row of ``mma_layouts.json`` is a kind, by IREE's name.  Its ``schema`` says what the fields
mean; ``source`` tells rows that IREE uses from those derived from vendors' documents.  Rows are
checked when the table is read (:mod:`.mma_table`, :mod:`.mma_table_checks`).

    native          one instruction
    virtual         several calls of a native one over a longer K
    virtual_sparse  a dense product on a 2:4-sparse instruction
    scaled          one instruction with a scale for each block of K
    warpgroup       one instruction of four subgroups, with B in shared memory
    tensor_memory   one instruction of a lane, with A and B in shared memory; C lies in tensor
                    memory, of which each of four subgroups reads its lanes; or all three lie in two
                    workgroups of a cluster (:attr:`Mma.workgroups`)
    scaled_tensor_memory
                    of one workgroup, with a scale for each block of K; scales lie in tensor memory
    opaque          registers without a documented layout
    fma             multiply-adds of each lane (:mod:`.fma_kinds`); in no row of the table
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Literal

import numpy as np

from tvm_iree_ext.base.errors import TargetError
from tvm_iree_ext.layout.nested import Ints, NestedLayout

Kind = Literal[
    "native",
    "virtual",
    "virtual_sparse",
    "scaled",
    "warpgroup",
    "tensor_memory",
    "scaled_tensor_memory",
    "opaque",
    "fma",
]
IN_TENSOR_MEMORY: tuple[Kind, ...] = ("tensor_memory", "scaled_tensor_memory")
"""Kinds whose sums lie there."""
FROM_SHARED: tuple[Kind, ...] = ("warpgroup", *IN_TENSOR_MEMORY)
"""Kinds that read shared memory by descriptors, while lanes go on."""

_TVM_DTYPES = {
    "f64": "float64",
    "f32": "float32",
    "xf32": "float32",  # read as 32-bit floats; the instruction rounds them
    "tf32": "float32",
    "f16": "float16",
    "bf16": "bfloat16",
    "f8e4m3fn": "float8_e4m3fn",
    "f8e5m2": "float8_e5m2",
    "f8e4m3fnuz": "float8_e4m3fnuz",
    "f8e5m2fnuz": "float8_e5m2fnuz",
    "f6e2m3fn": "float6_e2m3fn",
    "f6e3m2fn": "float6_e3m2fn",
    "f4e2m1fn": "float4_e2m1fn",
    "e8m0": "float8_e8m0fnu",
    "ue4m3": "float8_e4m3fn",  # of which the sign is not looked at
    "i32": "int32",
    "i8": "int8",
    "i4": "int4",
}
ROUNDING = ("tf32", "xf32")
"""Types of numbers of float32 that are rounded before they are multiplied."""

_BITS = {
    "f64": 64,
    "f16": 16,
    "bf16": 16,
    "i8": 8,
    "e8m0": 8,
    "ue4m3": 8,
    "f6e2m3fn": 6,
    "f6e3m2fn": 6,
    "i4": 4,
    "f4e2m1fn": 4,
}


def tvm_dtype(dtype: str) -> str:
    """TVM's name of an element type of the table: ``float8_e4m3fn`` for ``f8e4m3fn``."""
    return _TVM_DTYPES[dtype]


def dtype_bits(dtype: str) -> int:
    """Bits of an element of a type of the table, in memory."""
    return 8 if dtype.startswith("f8") else _BITS.get(dtype, 32)


@dataclass(frozen=True)
class MmaOperand:
    """Which lane holds which element of one operand, and in what order.

    Attributes:
        dims: what each dimension is: ``M``, ``N``, ``K``, the blocks ``B``, or the two parts of a
            scaled K, ``Ks`` and ``Kb``.
        dtype: by the table's name; see :func:`tvm_dtype`.
        outer, thread, tstrides, element: of a NestedLayout, per dimension.
        subgroup, sstrides: likewise; 1 and 0 except where subgroups share the instruction.
        reg_order: the digits of an element's place in a lane's registers, slowest first.
        elements_per_lane: how many a lane supplies.
        element_split_lanes: above 1, as many adjacent lanes share a lane's elements, by the slowest
            digit of their places: lane l supplies part ``l % element_split_lanes``.
        lane_replication: how many lanes hold the same element.
        registers: 32-bit registers of a lane.
        packing: how elements lie in them.
    """

    dims: tuple[str, ...]
    dtype: str
    outer: Ints
    thread: Ints
    tstrides: Ints
    element: Ints
    subgroup: Ints
    sstrides: Ints
    reg_order: tuple[str, ...]
    elements_per_lane: int
    element_split_lanes: int
    lane_replication: int
    registers: int
    packing: str

    @property
    def slot_bits(self) -> int:
        """Bits of a lane's registers from an element to the next; 8 may have 4 or 6 in them."""
        return 32 * self.registers // self.elements_per_lane

    @property
    def replica_stride(self) -> int:
        """Lanes from one that holds an element to the next that does; 1 where there is none."""
        held = self.coordinates(
            prod(self.thread) * self.element_split_lanes * self.lane_replication
        )
        alike = np.flatnonzero((held == held[0]).all(axis=(1, 2)))
        return int(alike[1]) if len(alike) > 1 else 1

    @property
    def extents(self) -> Ints:
        """The extent of each dimension of one instruction."""
        tiles = (self.subgroup, self.outer, self.thread, self.element)
        return tuple(prod(tile) for tile in zip(*tiles, strict=True))

    def extent(self, dim: str) -> int:
        """The extent of ``dim``, such as ``K``; the two parts of a scaled K together."""
        return prod(e for name, e in zip(self.dims, self.extents, strict=True) if name[0] == dim)

    def layout(self) -> NestedLayout:
        """The layout of one instruction's operand, its registers in storage order."""
        ones = (1,) * len(self.dims)
        strides = tuple(
            stride if tile > 1 else 0
            for stride, tile in zip(self.tstrides, self.thread, strict=True)
        )
        return NestedLayout(
            self.subgroup, ones, self.outer, self.thread, self.element, self.sstrides, strides
        )

    @property
    def storage_order(self) -> Ints:
        """For each register element of the instruction, its place in the layout's storage.

        A layout stores all outer digits before all element digits; an instruction wants the digits
        in ``reg_order``.
        """
        tiles = {f"o{dim}": tile for dim, tile in enumerate(self.outer)}
        tiles |= {f"e{dim}": tile for dim, tile in enumerate(self.element)}
        places = np.arange(prod(tiles.values())).reshape(list(tiles.values()))
        names = list(tiles)
        ordered = places.transpose([names.index(digit) for digit in self.reg_order])
        return tuple(int(place) for place in ordered.reshape(-1))

    def coordinates(self, lanes: int) -> np.ndarray:
        """What each lane's registers hold: integers ``[lanes, elements_per_lane, rank]``.

        The documented lane map, in the instruction's register order.  ``lanes`` counts those of
        all subgroups that share the instruction.

        >>> from tvm_iree_ext.targets.mma.mma_table import mma_kind
        >>> lhs = mma_kind("NV_MMA_SYNC_F32_16x8x16_F16").lhs
        >>> lhs.coordinates(32)[5].tolist()     # rows 1 and 9, columns 2, 3 and 10, 11
        [[1, 2], [1, 3], [9, 2], [9, 3], [1, 10], [1, 11], [9, 10], [9, 11]]
        """
        size = lanes // prod(self.subgroup)
        ids = np.arange(lanes)[:, None]
        digits = np.indices(self.outer + self.element).reshape(2 * len(self.dims), -1)
        digits = digits[:, list(self.storage_order)]
        held = np.empty((lanes, digits.shape[1], len(self.dims)), int)
        for dim in range(len(self.dims)):
            lane = ids % size // max(1, self.tstrides[dim]) % self.thread[dim]
            group = ids // size // max(1, self.sstrides[dim]) % self.subgroup[dim]
            outer, element = digits[dim], digits[len(self.dims) + dim]
            held[..., dim] = (group * self.outer[dim] + outer) * self.thread[dim] + lane
            held[..., dim] = held[..., dim] * self.element[dim] + element
        if self.element_split_lanes > 1:
            parts = held.reshape(lanes, self.element_split_lanes, -1, len(self.dims))
            held = parts[np.arange(lanes), np.arange(lanes) % self.element_split_lanes]
        return held


@dataclass(frozen=True)
class Mma:
    """A kind of matrix instruction: ``C[m, n] += A[m, k] * B[k, n]``, for each of its blocks.

    Attributes:
        name, vendor, kind, source: see the module.
        arch: the chips that have it.
        a, b, c: element types by the table's names.
        lhs, rhs, acc: the operands; None where the registers are not documented, and for an lhs
            or rhs that is not in registers.
        llvm, ptx: the intrinsic, or None; isa: what the chips' assemblers call it.
        column_major: whether calling it with A and B exchanged gives the transposed accumulator.
        k_order_free: whether one permutation of K in both inputs changes nothing but rounding.
        composed_of: base kind, count and slice of a virtual kind.
        format_codes: immediates that name the operands' types.
        hw_lane_k_map: where the lane map of the hardware differs from the row, by a permutation of
            K that both inputs share.
    """

    name: str
    vendor: str
    kind: Kind
    source: str
    arch: tuple[str, ...]
    m: int
    n: int
    k: int
    blocks: int
    a: str
    b: str
    c: str
    subgroup_size: int
    num_subgroups: int
    lhs: MmaOperand | None
    rhs: MmaOperand | None
    acc: MmaOperand | None
    lhs_scale: MmaOperand | None
    rhs_scale: MmaOperand | None
    llvm: str | None
    isa: tuple[str, ...]
    ptx: str | None
    operand_ir_types: str
    column_major: bool
    k_order_free: bool
    composed_of: Mapping[str, Any] | None
    format_codes: Mapping[str, Any] | None
    hw_lane_k_map: Mapping[str, Any] | None
    sparse_index: Mapping[str, str] | None
    scale_block: int | None
    notes: tuple[str, ...]

    @property
    def flops(self) -> int:
        """Multiplications and additions of one instruction."""
        return 2 * self.m * self.n * self.k * self.blocks

    @property
    def workgroups(self) -> int:
        """Whose shared memory and tensor memory one instruction uses: 1, or a pair."""
        return 2 if self.ptx is not None and "cta_group::2" in self.ptx else 1

    @property
    def sparse_intrinsic(self) -> str | None:
        """LLVM's name of the sparse instruction of which a kind is calls, if it is."""
        if self.kind != "virtual_sparse" or self.composed_of is None:
            return None
        base = str(self.composed_of["base"])  # v_smfmac_f32_16x16x32_f16
        return "llvm.amdgcn." + base.removeprefix("v_").replace("_", ".")

    def on(self, chip: str) -> bool:
        """Whether a chip has it; ``sm_90a`` has what ``sm_90`` has, and more."""
        return chip in self.arch or chip.rstrip("a") in self.arch

    def operand(self, name: str) -> MmaOperand:
        """The operand of a name.

        Raises:
            TargetError: where it is in no register, or in an undocumented one.
        """
        found = getattr(self, name)
        if not isinstance(found, MmaOperand):
            raise TargetError(f"{self.name}: {name} has no documented place in registers")
        return found

    def operands(self) -> dict[str, MmaOperand]:
        """The operands with a documented layout, by name."""
        names = ("lhs", "rhs", "acc", "lhs_scale", "rhs_scale")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}


def _operand(row: dict[str, Any] | None) -> MmaOperand | None:
    if row is None:
        return None
    given: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in row.items()
        if key != "regs32_per_lane"
    }
    rank = len(row["dims"])
    defaults: dict[str, Any] = {
        "subgroup": (1,) * rank,
        "sstrides": (0,) * rank,
        "element_split_lanes": 1,
    }
    return MmaOperand(**(defaults | given), registers=row["regs32_per_lane"])


def read_row(row: Mapping[str, Any]) -> Mma:
    """A kind from a row of the table, not yet checked."""
    operands = row["operands"] or {}
    intrinsic = row["intrinsic"]
    plain = ("name", "vendor", "kind", "source", "m", "n", "k", "blocks", "a", "b", "c")
    optional = ("composed_of", "format_codes", "hw_lane_k_map", "sparse_index", "scale_block")
    named = ("lhs", "rhs", "acc", "lhs_scale", "rhs_scale")
    fields: dict[str, Any] = {key: row[key] for key in (*plain, "subgroup_size")}
    fields |= {key: row.get(key) for key in optional}
    fields |= {name: _operand(operands.get(name)) for name in named}
    return Mma(
        **fields,
        arch=tuple(row["arch"]),
        num_subgroups=row.get("num_subgroups", 1),
        llvm=intrinsic["llvm"],
        isa=tuple(intrinsic["isa"] or ()),
        ptx=intrinsic["ptx"],
        operand_ir_types=row.get("operand_ir_types", ""),
        column_major=bool(row.get("acc_colmajor_by_operand_swap")),
        k_order_free=bool(row.get("k_order_free")),
        notes=tuple(row.get("notes", ())),
    )
