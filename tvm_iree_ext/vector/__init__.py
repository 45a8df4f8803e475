"""Vectors of any rank with static shapes: a small SSA form, its ops and its rules.

A tile program is written with :func:`program`; see :mod:`.builder` for an example.  It is printed
with ``print``, computed in NumPy with :meth:`VectorProgram.evaluate`, and compiled with
``tvm_iree_ext.build``.
"""

from tvm_iree_ext.vector import article_programs, patterns
from tvm_iree_ext.vector.ir.affine_maps import AffineMap
from tvm_iree_ext.vector.ir.core import Block, Operation, Value
from tvm_iree_ext.vector.ir.vector_errors import VectorError
from tvm_iree_ext.vector.ir.vector_types import (
    BufferType,
    RankedTensorType,
    ScalarType,
    VectorType,
    buffer,
    scalar,
    tensor,
    vector,
)
from tvm_iree_ext.vector.programs.builder import Builder, ProgramBuilder, program
from tvm_iree_ext.vector.programs.vector_program import VectorProgram
from tvm_iree_ext.vector.stages import Stage, stages

__all__ = [
    "AffineMap",
    "Block",
    "BufferType",
    "Builder",
    "Operation",
    "ProgramBuilder",
    "RankedTensorType",
    "ScalarType",
    "Stage",
    "Value",
    "VectorError",
    "VectorProgram",
    "VectorType",
    "article_programs",
    "buffer",
    "patterns",
    "program",
    "scalar",
    "stages",
    "tensor",
    "vector",
]
