"""Make ``local`` fragments with thread dimensions private to a lane.

A fragment is written as one buffer of a whole workgroup, ``[subgroup, batch, lane, register]``, so
that schedules and TensorIntrins can say which lane holds what.  A lane touches its own part only.
In each dimension an index is what the thread ids contribute, which is a lane's constant, plus what
they do not:

    fragment[threadIdx.y, b, threadIdx.x, r]      becomes      fragment[0, b, 0, r]

and the dimensions shrink to what is left.  TVM's ``warp`` scope serves one subgroup only, and its
lowering breaks where common subexpressions were taken out of the indices.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import tvm_ffi
from tvm import ir, sym, tirx
from tvm.ir import TensorLoad

from tvm_iree_ext.base.errors import BuildError
from tvm_iree_ext.tir.function_body import with_body

_LARGEST_UNROLL = 4096  # pieces that one loop nest may become


@tirx.transform.prim_func_pass(opt_level=0)
def privatize_local(
    func: tirx.PrimFunc, _mod: ir.IRModule, _ctx: ir.transform.PassContext
) -> tirx.PrimFunc:
    """Take the thread ids out of the indices of ``local`` buffers, and shrink the buffers.

    Runs before buffers are flattened, and before common subexpressions hide the thread ids.

    Raises:
        BuildError: where a lane would touch what another holds.
    """
    return _Privatizer(func).run()


class _Privatizer:
    def __init__(self, func: tirx.PrimFunc) -> None:
        self.func = func
        self.analyzer = sym.Analyzer()
        self.zeros: dict[int, Any] = {}  # thread ids
        self.bound: dict[int, Any] = {}  # variables of Bind, with their values
        self.buffers: list[Any] = []
        self.accesses: dict[int, list[list[Any]]] = {}

    def run(self) -> tirx.PrimFunc:
        tvm_ffi.structural_walk(
            self.func.body,
            [
                (tirx.AttrStmt, self._see_thread),
                (tirx.For, self._see_loop),
                (tirx.Bind, self._see_binding),
                (tirx.AllocBuffer, self._see_allocation),
            ],
            order="pre",
        )
        self.accesses = {_identity(buffer): [] for buffer in self.buffers}
        tvm_ffi.structural_walk(
            self.func.body,
            [
                (TensorLoad, lambda load: self._see(load.source, load.indices)),
                (tirx.BufferStore, lambda store: self._see(store.buffer, store.indices)),
            ],
        )
        private: dict[int, Any] = {}
        for buffer in self.buffers:
            places = self.accesses[_identity(buffer)]
            if any(self._on_threads(index) for place in places for index in place):
                private[_identity(buffer)] = self._shrunk(buffer, places)
        return self.func.with_body(self._rewritten(private)) if private else self.func

    def _see_thread(self, attr: Any) -> None:
        if attr.attr_key == "thread_extent" and str(attr.node.thread_tag).startswith("threadIdx"):
            var = attr.node.var
            self.zeros[_identity(var)] = tirx.const(0, str(var.ty.dtype))
            self._bind(var, 0, attr.value)

    def _see_loop(self, loop: Any) -> None:
        self._bind(loop.loop_var, loop.min, loop.extent)

    def _bind(self, var: Any, low: Any, extent: Any) -> None:
        self.analyzer.bind(var, ir.Range.from_min_extent(low, extent), allow_override=True)

    def _see_binding(self, bind: Any) -> None:
        self.bound[_identity(bind.var)] = bind.value

    def _see_allocation(self, alloc: Any) -> None:
        if alloc.buffer.scope() == "local":
            self.buffers.append(alloc.buffer)

    def _see(self, buffer: Any, indices: Sequence[Any]) -> None:
        if (places := self.accesses.get(_identity(buffer))) is not None:
            places.append([self._inlined(index) for index in indices])

    def _inlined(self, index: Any) -> Any:
        """The index with bound variables replaced by what they are bound to."""
        while _uses(index, self.bound):
            index = _substitute(index, self.bound)
        return index

    def _on_threads(self, index: Any) -> bool:
        return _uses(index, self.zeros)

    def _without_threads(self, index: Any) -> Any:
        return self.analyzer.simplify(_substitute(index, self.zeros))

    def _shrunk(self, buffer: Any, places: list[list[Any]]) -> Any:
        """The buffer with the extents that a single lane needs."""
        shape = []
        for dim in range(len(buffer.shape)):
            indices = [place[dim] for place in places]
            self._check_private(buffer, dim, indices)
            declared = int(buffer.shape[dim])
            shape.append(max(self._extent(self._without_threads(i), declared) for i in indices))
        return tirx.decl_buffer(
            shape, str(buffer.dtype), buffer.name, scope="local",
            data_alignment=int(buffer.data_alignment),
        )  # fmt: skip

    def _check_private(self, buffer: Any, dim: int, indices: list[Any]) -> None:
        """Every access adds the same to its index for its lane."""
        shares = [
            self.analyzer.simplify(_base(index) - self._without_threads(_base(index)))
            for index in indices
        ]
        for share in shares[1:]:
            if not self.analyzer.can_prove_equal(shares[0], share):
                raise BuildError(
                    f"{self.func.attrs.get('global_symbol', 'kernel')}: local buffer {buffer.name}:"
                    f" lanes add {shares[0]} and {share} to the index of dimension {dim}; each lane"
                    " must keep to its own part, or exchange elements by shuffles or shared memory"
                )

    def _extent(self, index: Any, declared: int) -> int:
        """How far an index goes; as far as it may where nothing else is known."""
        span = 1
        if isinstance(index, tirx.Ramp):
            span = (int(index.lanes) - 1) * int(index.stride) + 1
        return min(declared, int(self.analyzer.const_int_bound(_base(index)).max_value) + span)

    def _rewritten(self, private: dict[int, Any]) -> Any:
        def load(node: Any) -> Any:
            if (buffer := private.get(_identity(node.source))) is None:
                return node
            return tirx.BufferLoad(buffer, self._indices(node.indices))

        def store(node: Any) -> Any:
            if (buffer := private.get(_identity(node.buffer))) is None:
                return node
            return tirx.BufferStore(buffer, node.value, self._indices(node.indices))

        def alloc(node: Any) -> Any:
            if (buffer := private.get(_identity(node.buffer))) is None:
                return node
            return tirx.AllocBuffer(buffer, node.annotations)

        return tvm_ffi.structural_map(
            self.func.body,
            [(TensorLoad, load), (tirx.BufferStore, store), (tirx.AllocBuffer, alloc)],
        )

    def _indices(self, indices: Sequence[Any]) -> list[Any]:
        return [self._without_threads(self._inlined(index)) for index in indices]


def _identity(buffer: Any) -> int:
    return int(buffer.__hash__())


def _uses(index: Any, variables: Collection[int]) -> bool:
    return any(_identity(var) in variables for var in tirx.analysis.undefined_vars(index))


def _substitute(index: Any, values: Mapping[int, Any]) -> Any:
    return tvm_ffi.structural_map(index, (ir.Var, lambda var: values.get(_identity(var), var)))


def _base(index: Any) -> Any:
    return index.base if isinstance(index, tirx.Ramp) else index


@tirx.transform.prim_func_pass(opt_level=0)
def unroll_local_indexing(
    func: tirx.PrimFunc, _mod: ir.IRModule, _ctx: ir.transform.PassContext
) -> tirx.PrimFunc:
    """Unroll the loops that count through ``local`` buffers: registers have constant indices.

    A loop left standing would move the whole fragment to memory.  Loops of unknown extent, and
    nests of more than a few thousand pieces, stay.
    """

    def unrolled(loop: Any) -> Any:
        if loop.kind != tirx.ForKind.SERIAL or not isinstance(loop.extent, tirx.IntImm):
            return loop
        if not _indexes_local(loop) or int(loop.extent) * _pieces(loop.body) > _LARGEST_UNROLL:
            return loop
        return tirx.For(
            loop.loop_var, loop.min, loop.extent, tirx.ForKind.UNROLLED, loop.body,
            loop.thread_binding, loop.annotations,
        )  # fmt: skip

    return with_body(func, tvm_ffi.structural_map(func.body, (tirx.For, unrolled)))


def _indexes_local(loop: Any) -> bool:
    found = []
    counted = {_identity(loop.loop_var)}

    def see(buffer: Any, indices: Sequence[Any]) -> None:
        if buffer.scope() == "local" and any(_uses(index, counted) for index in indices):
            found.append(buffer)

    _walk_accesses(loop.body, see)
    return bool(found)


def _walk_accesses(body: Any, see: Callable[[Any, Sequence[Any]], None]) -> None:
    tvm_ffi.structural_walk(
        body,
        [
            (TensorLoad, lambda load: see(load.source, load.indices)),
            (tirx.BufferStore, lambda store: see(store.buffer, store.indices)),
        ],
    )


def _pieces(body: Any) -> int:
    """How many times the innermost statements stand when the loops inside are unrolled."""
    largest = 1

    def see(loop: Any) -> None:
        nonlocal largest
        if loop.kind == tirx.ForKind.UNROLLED and isinstance(loop.extent, tirx.IntImm):
            largest = max(largest, int(loop.extent) * _pieces(loop.body))

    tvm_ffi.structural_walk(body, (tirx.For, see))
    return largest
