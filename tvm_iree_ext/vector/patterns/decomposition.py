"""Decomposing slices of n-D vectors: into whole registers, and slices of one.

before:  r = insert_strided_slice v[3] into d[3x3] at [1, 0]     after:  r = insert v, d[1]
before:  r = insert_strided_slice v[2] into d[3x4] at [1, 1]
after:   row = extract d[1];  row' = insert_strided_slice v into row at [1];  r = insert row', d[1]
before:  r = extract_strided_slice d[4x4] at [1, 2] sizes [2, 2]
after:   2 x (row = extract d[..];  part = extract_strided_slice row at [2] sizes [2];  insert part)
"""

from tvm_iree_ext.vector.ir.core import Operation, Value
from tvm_iree_ext.vector.patterns.canonicalization import settled
from tvm_iree_ext.vector.patterns.folding import fold_constants
from tvm_iree_ext.vector.programs.builder import Builder
from tvm_iree_ext.vector.programs.vector_program import VectorProgram


def decompose_slices(program: VectorProgram) -> VectorProgram:
    """Leave no strided slice of a vector with more than one dim."""
    return settled(program, fold_constants, decompose_insert, decompose_extract)


def decompose_insert(op: Operation, b: Builder) -> bool:
    """The pattern for insert_strided_slice."""
    if op.name != "vector.insert_strided_slice" or op.operand("dest").rank < 2:
        return False
    value, dest = op.operands
    op.replace_by(_inserted(b, value, dest, list(op.attributes["offsets"])))
    return True


def _inserted(b: Builder, value: Value, dest: Value, offsets: list[int]) -> Value:
    if value.type == dest.type:
        return value
    if dest.rank == 1:
        return b.insert_strided_slice(value, dest, offsets)
    if value.rank < dest.rank:
        rows = [(offsets[0], value)]
    else:
        rows = [(offsets[0] + n, b.extract(value, [n])) for n in range(value.shape[0])]
    for position, row in rows:
        whole = row
        if row.shape != dest.shape[1:]:
            whole = _inserted(b, row, b.extract(dest, [position]), offsets[1:])
        dest = b.insert_at(whole, dest, [position])
    return dest


def decompose_extract(op: Operation, b: Builder) -> bool:
    """The pattern for extract_strided_slice."""
    vector = op.operands[0] if op.operands else None
    if op.name != "vector.extract_strided_slice" or vector is None or vector.rank < 2:
        return False
    offsets, sizes = list(op.attributes["offsets"]), list(op.result.shape)
    result = None
    for n in range(sizes[0]):
        row = b.extract(vector, [offsets[0] + n])
        if row.shape != tuple(sizes[1:]):
            row = b.extract_strided_slice(row, offsets[1:], sizes[1 : len(offsets)])
        if sizes[0] == 1:
            result = b.broadcast(row, sizes)
        else:
            start = result or b.constant(0, op.result.type)
            result = b.insert_at(row, start, [n])
    assert result is not None
    op.replace_by(result)
    return True
