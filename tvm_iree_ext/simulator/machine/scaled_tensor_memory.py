"""Scales in tensor memory: their copies from shared memory, and products with them.

What a lane copies and multiplies is done in its order; a barrier's ``commit`` says of both.  Scales
lie in the 32 lanes of each subgroup alike.
"""

from typing import Any

import numpy as np

from tvm_iree_ext.simulator.base.findings import INSTRUCTION
from tvm_iree_ext.simulator.base.lane_values import Value
from tvm_iree_ext.simulator.base.workgroup_state import NOBODY
from tvm_iree_ext.simulator.machine.scaled_tensor_products import ScaledProduct
from tvm_iree_ext.simulator.machine.shared_tiles import DescribedTile, read_tile
from tvm_iree_ext.simulator.machine.tensor_memory import TensorMemory
from tvm_iree_ext.simulator.machine.tensor_products import DEPTH_BYTES, Known

_ROWS, _ROW_BYTES = 32, 16  # of what is copied, to as many lanes of each subgroup
_COLUMNS = 4  # that are copied to
_COPIES = 4  # of each row
_BYTE = "i8"  # as which bytes are read


class ScaledTensorMemory(TensorMemory):
    """Tensor memory of a workgroup, with scales."""

    def copy_scales(self, address: Value, descriptor: Value, mask: Any, statement: int) -> None:
        """A lane starts copying 32 rows of 16 bytes of shared memory to the lanes of each subgroup.

        ``descriptor`` says where they lie.
        """
        if mask is NOBODY:
            return
        self._check_group(1, mask, statement)
        lane = self._starting(mask, statement)
        values = (("an address in tensor memory", address), ("a matrix descriptor", descriptor))
        first, tile = self._spelt(values, lane, mask, statement)
        place = self._place(tile, lane, statement)
        subgroup = lane // self._state.subgroup_size
        if place is None or not self._inside(subgroup, first, _COLUMNS, lane, statement):
            return
        columns = slice(first, first + _COLUMNS)
        self._check_accesses(subgroup, columns, "copied to", lane, statement)
        raw, never = self._bytes(place, _ROWS, _ROW_BYTES, True, "tcgen05.cp", lane, statement)
        words = np.ascontiguousarray(raw.astype(np.int8)).view(np.uint32)
        known = ~never.reshape(_ROWS, _COLUMNS, -1).any(axis=2)
        self._words[:, columns] = np.tile(words, (_COPIES, 1))
        self._written[:, columns] = np.tile(known, (_COPIES, 1))
        self._multiplied[columns] = self._products + 1
        self._state.counts["tcgen05.cp"] += 1

    def _bytes(
        self,
        place: DescribedTile,
        rows: int,
        width: int,
        k_major: bool,
        who: str,
        lane: int,
        statement: int,
    ) -> Known:
        """Rows of bytes of shared memory, and which were never written."""
        at = place.addresses(rows, width, 8, k_major=k_major)
        return read_tile(self._state, at, _BYTE, who, lane, statement, self._log)[:2]

    def multiply_scaled(
        self,
        kind: str,
        vector: str,
        address: Value,
        descriptors: tuple[Value, Value, Value],
        scales: tuple[Value, Value],
        more: Value,
        mask: Any,
        statement: int,
    ) -> None:
        """A lane starts a product; see :meth:`multiply`.

        ``vector`` is how many scales a row has, such as ``1X``; ``scales`` are the addresses of
        those of A and of B.
        """
        if mask is NOBODY:
            return
        self._check_group(1, mask, statement)
        lane = self._starting(mask, statement)
        values = (
            ("an address in tensor memory", address),
            ("a matrix descriptor", descriptors[0]),
            ("a matrix descriptor", descriptors[1]),
            ("an instruction descriptor", descriptors[2]),
            ("an address in tensor memory", scales[0]),
            ("an address in tensor memory", scales[1]),
            ("whether to accumulate", more),
        )
        first, *tiles, code, scales_a, scales_b, added = self._spelt(values, lane, mask, statement)
        product = ScaledProduct.with_scales(kind, vector, code)
        if product is None:
            self._report_code(kind, code, lane, statement)
            return
        operands = []
        for number, scale in enumerate((scales_a, scales_b)):
            outer, dtype, k_major = product.operands[number]
            place = self._place(tiles[number], lane, statement)
            count = product.scale_columns[number]
            words = self._scales(scale, count, lane, statement)
            if place is None or words is None:
                return
            read = self._bytes(place, outer, DEPTH_BYTES, k_major, "tcgen05.mma", lane, statement)
            elements = product.elements(read, dtype)
            operands.append(product.scaled(elements, words, product.first[number]))
        lhs, rhs = operands
        self._add(product, [lhs], rhs, first, added, lane, statement)

    def _scales(self, first: int, count: int, lane: int, statement: int) -> Known | None:
        """Columns of scales, and which were written."""
        subgroup = lane // self._state.subgroup_size
        if not self._inside(subgroup, first, count, lane, statement):
            return None
        columns = slice(first, first + count)
        words = self._words[:, columns].reshape(_COPIES, _ROWS, count)
        known = self._written[:, columns].reshape(_COPIES, _ROWS, count)
        if (known.all(axis=0) & (words != words[0]).any(axis=0)).any():
            self._state.report(
                INSTRUCTION, statement, (lane,),
                f"columns {first}..{first + count - 1} of tensor memory are read as scales, and"
                " are not the same for each subgroup's lanes",
            )  # fmt: skip
        return words[0], np.asarray(known.all(axis=0))
