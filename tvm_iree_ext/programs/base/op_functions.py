"""The functions of a program's ops: one for all calls of ops that compute the same."""

from collections.abc import Callable

from tvm import ir, tirx

from tvm_iree_ext.mlir.importing.imported import OP_ATTRIBUTE
from tvm_iree_ext.mlir.importing.relax_types import OPAQUE
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.tir.byte_parameters import with_words_for_numbers


class OpFunctions:
    """Adds functions of new ops to a module, and the ops to those that are known by name.

    ``add`` takes a function and a name for it, and gives its variable.
    """

    def __init__(
        self, known: dict[str, Op], add: Callable[[tirx.PrimFunc, str], ir.GlobalVar]
    ) -> None:
        self._known, self._add = known, add
        self._by_meaning: dict[str, ir.GlobalVar] = {}

    def __call__(self, op: Op) -> ir.GlobalVar:
        """The function of an op."""
        meaning = str(op.describe())
        if meaning not in self._by_meaning:
            name = f"{op.entry}.{len(self._known)}"
            self._known[name] = op
            function = (
                with_words_for_numbers(op.prim_func())
                .without_attr("global_symbol")
                .with_attr(OP_ATTRIBUTE, name)
            )
            function = function.with_attr("op_pattern", OPAQUE)
            self._by_meaning[meaning] = self._add(function, op.entry)
        return self._by_meaning[meaning]
