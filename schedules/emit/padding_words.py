"""A padding value as a word, as it is stored by kernels that move elements."""

from tvm_iree_ext.ops.base.padding import Padding, padding_number
from tvm_iree_ext.tir.tir_expressions import Expr, bits


def padding_word(padding: Padding | None, passed: Expr | None, dtype: str) -> Expr:
    """The bits of a padding value; ``passed`` is what came at call time for an operand."""
    if padding != "operand" or passed is None:
        assert not isinstance(padding, str)
        passed = padding_number(padding or 0, dtype)
    return bits(passed, dtype)
