"""Vectors of any rank with static shapes: a small SSA form, its ops and its rules.

A tile program is written with :func:`program`; see :mod:`.builder` for an example.  It is printed
with ``print``, computed in NumPy with :meth:`Program.evaluate`, and compiled with
``tvm_iree_ext.build``.
"""

from tvm_iree_ext.vector import patterns, programs
from tvm_iree_ext.vector.builder import Builder, ProgramBuilder, program
from tvm_iree_ext.vector.driver import Stage, stages
from tvm_iree_ext.vector.errors import VectorError
from tvm_iree_ext.vector.ir import Block, Operation, Value
from tvm_iree_ext.vector.maps import AffineMap
from tvm_iree_ext.vector.tile_program import Program
from tvm_iree_ext.vector.types import (
    BufferType,
    ScalarType,
    TensorType,
    VectorType,
    buffer,
    scalar,
    tensor,
    vector,
)

__all__ = [
    "AffineMap",
    "Block",
    "BufferType",
    "Builder",
    "Operation",
    "Program",
    "ProgramBuilder",
    "ScalarType",
    "Stage",
    "TensorType",
    "Value",
    "VectorError",
    "VectorType",
    "buffer",
    "patterns",
    "program",
    "programs",
    "scalar",
    "stages",
    "tensor",
    "vector",
]
