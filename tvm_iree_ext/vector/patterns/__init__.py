"""The vector patterns: each a rewrite of a program into another, with the same results.

Every one takes a program and gives a new one, and can be used alone; :mod:`.stages` has the order
in which they lead from structured ops to native vectors.
"""

from tvm_iree_ext.vector.patterns.canonicalization import canonicalize
from tvm_iree_ext.vector.patterns.decomposition import decompose_slices
from tvm_iree_ext.vector.patterns.hoisting import hoist_transfers
from tvm_iree_ext.vector.patterns.lowering_contracts import lower_contracts, lower_outer_products
from tvm_iree_ext.vector.patterns.lowering_lanes import lower_gathers, lower_rows, lower_slices
from tvm_iree_ext.vector.patterns.lowering_reductions import lower_reductions
from tvm_iree_ext.vector.patterns.lowering_transfers import lower_transfers
from tvm_iree_ext.vector.patterns.lowering_transposes import lower_transposes
from tvm_iree_ext.vector.patterns.native import NativeShape, RegisterWidths
from tvm_iree_ext.vector.patterns.tiling import Tiling, tile
from tvm_iree_ext.vector.patterns.unit_dims import drop_unit_dims
from tvm_iree_ext.vector.patterns.unrolling import unroll
from tvm_iree_ext.vector.patterns.vectorization import vectorize

__all__ = [
    "NativeShape",
    "RegisterWidths",
    "Tiling",
    "canonicalize",
    "decompose_slices",
    "drop_unit_dims",
    "hoist_transfers",
    "lower_contracts",
    "lower_gathers",
    "lower_outer_products",
    "lower_reductions",
    "lower_rows",
    "lower_slices",
    "lower_transfers",
    "lower_transposes",
    "tile",
    "unroll",
    "vectorize",
]
