"""Multiply-adds of a lane's own registers, where no matrix instruction has the type."""

from tvm.tirx.script import builder as I

from tvm_iree_ext.intrin.nvidia import Load, Store
from tvm_iree_ext.targets.mma.mma_kinds import Mma, MmaOperand


def multiply_add(mma: Mma, a: Load, b: Load, acc: Load, store: Store) -> None:
    """Emit ``acc += a * b`` for the rows and columns of a lane, a step of K after the other."""
    lhs, rhs = mma.operand("lhs"), mma.operand("rhs")
    rows, columns = lhs.elements_per_lane // mma.k, rhs.elements_per_lane // mma.k
    row, first_k = _strides(lhs, 0, rows, mma.k)
    column, second_k = _strides(rhs, 1, columns, mma.k)
    with I.unroll(0, mma.k) as k, I.unroll(0, rows) as i, I.unroll(0, columns) as j:
        product = a(i * row + k * first_k, 1) * b(j * column + k * second_k, 1)
        store(i * columns + j, 1, acc(i * columns + j, 1) + product)


def _strides(operand: MmaOperand, own: int, count: int, depth: int) -> tuple[int, int]:
    """Registers between a lane's neighbours along M or N, and along K."""
    along_k = operand.reg_order[-1] == f"e{1 - own}"
    return (depth, 1) if along_k else (1, count)
