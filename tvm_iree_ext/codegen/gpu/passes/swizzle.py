"""Permute the columns of shared-memory tiles, so that columns of a matrix fall on all banks.

A schedule names the buffers in the function's attribute
:data:`~tvm_iree_ext.intrin.kernel_attributes.SWIZZLES`, with the numbers of
:class:`~tvm_iree_ext.layout.analysis.Swizzle`, which says where a column is stored.  Its rows are
parts of the buffer's rows, or several of them: then rows are exchanged, too.  The rewriting is at
the accesses, since an index map of TVM's is affine, and XOR is not.

Matrix descriptors (``wgmma``) name the swizzle themselves: their pointers stay as they are, and
hardware takes the row from the address, so that buffers are aligned to where the pattern repeats.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import tvm_ffi
from tvm import DataType, ir, sym, tirx
from tvm.ir import TensorLoad

from tvm_iree_ext.base.errors import BuildError
from tvm_iree_ext.intrin.kernel_attributes import SWIZZLES
from tvm_iree_ext.layout.analysis import Swizzle

_ACCESS_PTR = ir.Op.get("tirx.tvm_access_ptr")
_DESCRIPTOR = ir.Op.get("tirx.cuda.wgmma_encode_matrix_descriptor")


@tirx.transform.prim_func_pass(opt_level=0)
def swizzle_shared(
    func: tirx.PrimFunc, _mod: ir.IRModule, _ctx: ir.transform.PassContext
) -> tirx.PrimFunc:
    """Rewrite the accesses of the buffers that the attribute names; runs before flattening.

    Raises:
        BuildError: for a name that no shared buffer has, a swizzle that does not permute the
            elements of a buffer, or an access across columns.
    """
    asked = func.attrs.get(SWIZZLES)
    if not asked:
        return func
    swizzles = {
        str(name): Swizzle(*(int(number) for number in numbers)) for name, numbers in asked.items()
    }
    found: dict[int, Swizzle] = {}
    aligned: dict[int, Any] = {}
    names: set[str] = set()

    def see(alloc: Any) -> None:
        buffer = alloc.buffer
        if buffer.name in swizzles and buffer.scope().startswith("shared"):
            swizzle = swizzles[buffer.name]
            _check(buffer, swizzle)
            again = tirx.decl_buffer(
                buffer.shape, str(buffer.dtype), buffer.name, scope=buffer.scope(),
                strides=buffer.strides,
                data_alignment=max(int(buffer.data_alignment), _period_bytes(buffer, swizzle)),
            )  # fmt: skip
            aligned[hash(buffer)], found[hash(again)] = again, swizzle
            names.add(buffer.name)

    tvm_ffi.structural_walk(func.body, (tirx.AllocBuffer, see))
    if missing := sorted(set(swizzles) - names):
        raise BuildError(f"swizzle: no shared buffer is named {', '.join(missing)}")
    body = tvm_ffi.structural_map(
        func.body, (ir.Var, lambda variable: aligned.get(hash(variable), variable))
    )
    return func.with_body(_Swizzler(found, body).rewritten())


def _period_bytes(buffer: Any, swizzle: Swizzle) -> int:
    """How many bytes later the same columns are permuted alike."""
    columns = swizzle.row_elements // swizzle.access_elements
    rows = columns * swizzle.per_phase
    return rows * swizzle.row_elements * DataType(str(buffer.dtype)).bits // 8


class _Swizzler:
    def __init__(self, swizzles: Mapping[int, Swizzle], body: Any) -> None:
        self.swizzles, self.body = swizzles, body
        self.analyzer = sym.Analyzer()
        self.plain: set[int] = set()  # pointers of descriptors

    def rewritten(self) -> Any:
        tvm_ffi.structural_walk(
            self.body,
            [
                (ir.Call, self._see),
                (tirx.For, lambda loop: self._bind(loop.loop_var, loop.min, loop.extent)),
                (tirx.AttrStmt, self._see_thread),
            ],
            order="pre",
        )
        return tvm_ffi.structural_map(
            self.body,
            [(TensorLoad, self._load), (tirx.BufferStore, self._store), (ir.Call, self._pointer)],
        )

    def _see(self, call: Any) -> None:
        if call.op.same_as(_DESCRIPTOR):
            self.plain.update(hash(argument) for argument in call.args)

    def _see_thread(self, attr: Any) -> None:
        if attr.attr_key == "thread_extent":
            self._bind(attr.node.var, 0, attr.value)

    def _bind(self, var: Any, low: Any, extent: Any) -> None:
        self.analyzer.bind(var, ir.Range.from_min_extent(low, extent), allow_override=True)

    def _load(self, load: Any) -> Any:
        if (swizzle := self.swizzles.get(hash(load.source))) is None:
            return load
        return tirx.BufferLoad(load.source, self._indices(load.source, load.indices, swizzle))

    def _store(self, store: Any) -> Any:
        if (swizzle := self.swizzles.get(hash(store.buffer))) is None:
            return store
        indices = self._indices(store.buffer, store.indices, swizzle)
        return tirx.BufferStore(store.buffer, store.value, indices)

    def _pointer(self, call: Any) -> Any:
        if not call.op.same_as(_ACCESS_PTR) or hash(call) in self.plain:
            return call
        data = call.args[1]
        owner = data.args[0] if isinstance(data, ir.Call) and data.args else data
        if (swizzle := self.swizzles.get(hash(owner))) is None:
            return call
        # Padded rows are farther apart than the elements that are permuted.
        pitch = owner.strides[-2] if owner.strides else swizzle.row_elements
        row = call.args[2] // pitch
        column = self._column(self._phase(row, swizzle), call.args[2] % pitch, swizzle)
        place = row * pitch + column
        return ir.Call(call.op, [*call.args[:2], place, *call.args[3:]], ret_ty=call.ty)

    def _indices(self, buffer: Any, indices: Sequence[Any], swizzle: Swizzle) -> list[Any]:
        last = indices[-1]
        lanes, base = 1, last
        if isinstance(last, tirx.Ramp):
            lanes, base = int(last.lanes), last.base
            inside = swizzle.access_elements % lanes == 0 and int(last.stride) == 1
            if not inside or not self.analyzer.can_prove_equal(base % lanes, 0):
                raise BuildError(
                    f"swizzle: {buffer.name} is accessed by {lanes} elements at {base}; its"
                    f" columns have {swizzle.access_elements}"
                )
        outer = list(indices[:-1])
        row: Any = 0
        for index, extent in zip(outer, buffer.shape[:-1], strict=True):
            row = row * extent + index
        width, joint = int(buffer.shape[-1]), _rows_joined(buffer, swizzle)
        part = self.analyzer.simplify(base // swizzle.row_elements)
        if joint == 1:
            row = row * (width // swizzle.row_elements) + part
            phase = self._phase(row, swizzle)
        else:
            phase = self._phase(row // joint, swizzle)
            columns = width // swizzle.access_elements
            outer[-1] = tirx.bitwise_xor(outer[-1], self.analyzer.simplify(phase // columns))
            phase = self.analyzer.simplify(phase % columns)
        column = self._column(phase, self.analyzer.simplify(base % swizzle.row_elements), swizzle)
        column = column + part * swizzle.row_elements
        if lanes > 1:
            column = tirx.Ramp(column, tirx.const(1, str(column.ty.dtype)), lanes)
        return [*outer, column]

    def _phase(self, row: Any, swizzle: Swizzle) -> Any:
        """XOR mask of a row's columns."""
        columns = swizzle.row_elements // swizzle.access_elements
        return self.analyzer.simplify(row // swizzle.per_phase % columns)

    def _column(self, phase: Any, at: Any, swizzle: Swizzle) -> Any:
        column = self.analyzer.simplify(at // swizzle.access_elements)
        permuted = tirx.bitwise_xor(column, phase)
        inside = self.analyzer.simplify(at % swizzle.access_elements)
        return permuted * swizzle.access_elements + inside


def _rows_joined(buffer: Any, swizzle: Swizzle) -> int:
    """How many of a buffer's rows are one of the swizzle's."""
    return max(1, swizzle.row_elements // int(buffer.shape[-1]))


def _check(buffer: Any, swizzle: Swizzle) -> None:
    """Refuse what is no permutation of a buffer's elements.

    Raises:
        BuildError: where rows of neither divide the other's, or have no power of two of columns.
    """
    width, row, access = int(buffer.shape[-1]), swizzle.row_elements, swizzle.access_elements
    joint, rest = divmod(row, width)
    parted = buffer.strides or len(buffer.shape) < 2
    if width % row and (rest or parted or int(buffer.shape[-2]) % joint):
        raise BuildError(
            f"swizzle: {buffer.name} has {width} elements in its last dimension; rows of {row}"
            " must divide it, or be several that lie side by side"
        )
    columns = row // access
    if row % access or width % access or columns & (columns - 1):
        raise BuildError(
            f"swizzle: {buffer.name} has {width} elements in its last dimension; rows of {row}"
            f" must be a power of two of columns of {access}, which divide both"
        )
