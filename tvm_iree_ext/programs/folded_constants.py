"""What constants alone decide is computed at build: the scale of a batch norm, a table, a mask.

    before:  scale = rsqrt(variance + eps),  y = x * scale         after:  y = x * constant

The kernels that would run at every call run once, on this machine, all compiled as one module.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain, count
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import ir, relax, tirx

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.codegen.cpu import cpu_pipeline
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.ops.families.contraction.contraction import Contraction
from tvm_iree_ext.programs.base.relax_passes import (
    constant_of,
    relax_functions,
    with_bindings,
    with_constants,
    with_functions,
)
from tvm_iree_ext.programs.base.tir_calls import Callees, is_reshape, is_tir_call, loops_by_name
from tvm_iree_ext.records.record_choice import lowered
from tvm_iree_ext.schedules.dispatch import schedule_loops
from tvm_iree_ext.targets.names import make_target
from tvm_iree_ext.tir.tir_expressions import known

SMALL_BYTES = 1 << 16
"""Up to so many a result is kept whatever becomes of what it is made of."""

_MOST_GROWTH = 2  # times the bytes that it is made of: float32 of float16, and no broadcast
_MOST_STEPS = 1 << 27  # of a kernel's loops: some tenths of a second
_MOST_FLOPS = 1 << 34  # of a product: as long
_LEAST_INTENSITY = 64  # flops for each byte of a result that is worth its memory
_MOST_SHARE = 0.5  # of the bytes of all constants, for such results


def fold_constants(
    mod: ir.IRModule,
    parameters: dict[str, np.ndarray],
    *,
    ops: Mapping[str, Op] | None = None,
    most_bytes: int | None = None,
) -> ir.IRModule:
    """The module without kernels of constants alone, whose results are added to the constants.

    A result has at most twice the bytes of the constants that it is made of; and where it has more
    than :data:`SMALL_BYTES`, nothing else uses these, so that the program grows by half of it at
    most.  What products make of constants, such as a projection of relative positions, costs more
    time than memory: all of it may grow the constants by half.

    Args:
        mod: a module in which nothing is unused.
        parameters: the constants that functions take behind their arguments, by name.
        ops: the ops of the module's functions, by key; without them products stay.
        most_bytes: of a result; by default any.
    """
    callees = Callees(mod, ops or {})
    products = _products(callees)
    loops = loops_by_name(mod) | {name: callees.functions[name] for name in products}
    functions = {
        var: one for var, one in relax_functions(mod).items() if isinstance(one.body, relax.SeqExpr)
    }
    found = {var: _Function(one, loops, products, parameters) for var, one in functions.items()}
    shared = _used_twice(relax_functions(mod).values())
    for one in found.values():
        one.choose(shared, most_bytes)
    called = {name for one in found.values() for name in one.callees()}
    if not any(one.kept for one in found.values()):
        return mod
    compute = _Kernels({name: loops[name] for name in called}, products)
    return with_functions(
        mod, {var: one.folded(compute, parameters) for var, one in found.items() if one.kept}
    )


def _products(callees: Callees) -> dict[str, Op]:
    """The contractions of known extents, by the names of their functions."""
    ops = {name: callees.op_of_function(one) for name, one in callees.functions.items()}
    return {
        name: op
        for name, op in ops.items()
        if isinstance(op, Contraction) and not op.signature.symbols and op.in_words is op
    }


def _used_twice(functions: Iterable[relax.Function]) -> set[str]:
    """The names of constants that several functions take."""
    once: set[str] = set()
    twice: set[str] = set()
    for function in functions:
        for name in _constants(function).values():
            (twice if name in once else once).add(name)
    return twice


def _constants(function: relax.Function) -> dict[ir.Var, str]:
    """The constants among a function's parameters, and their names."""
    given = int((function.attrs or {}).get("num_input", len(function.params)))
    return {one: one.name for one in function.params[given:]}


@dataclass
class _Computed:
    """A tensor that constants alone decide."""

    call: ir.Call
    operands: list[Any]
    leaves: frozenset[Any] = field(default_factory=frozenset)  # by variable, or constant
    flops: int = 0  # of the products that it takes


class _Function:
    """One function: what is computed of constants, and what of that is kept."""

    def __init__(
        self,
        function: relax.Function,
        loops: Mapping[str, tirx.PrimFunc],
        products: Mapping[str, Op],
        parameters: Mapping[str, np.ndarray],
    ) -> None:
        self._function, self._parameters, self._products = function, parameters, products
        self._names = _constants(function)
        self._computed: dict[ir.Var, _Computed] = {}
        self._outside: dict[Any, None] = {}  # what else is used, in order
        self.kept: dict[ir.Var, _Computed] = {}
        for block in function.body.blocks:
            for binding in block.bindings:
                self._note(binding, loops)
        self._use(function.body.body)

    def _use(self, value: Any) -> None:
        note = self._outside.setdefault
        tvm_ffi.structural_walk(value, [(ir.Var, note), (ir.GenericConst, note)])

    def _note(self, binding: Any, loops: Mapping[str, tirx.PrimFunc]) -> None:
        operands = _operands(binding, loops, self._products)
        if operands is None or not all(map(self._is_constant, operands)):
            self._use(binding.value)
            return
        leaves: set[Any] = set()
        for one in operands:
            leaves |= self._computed[one].leaves if one in self._computed else {one}
        flops = sum(self._computed[one].flops for one in {*operands} if one in self._computed)
        if (
            is_tir_call(binding.value)
            and (name := binding.value.args[0].name_hint) in self._products
        ):
            flops += self._products[name].flops()
        self._computed[binding.var] = _Computed(binding.value, operands, frozenset(leaves), flops)

    def _is_constant(self, value: Any) -> bool:
        is_literal = isinstance(value, ir.GenericConst)
        return is_literal or value in self._names or value in self._computed

    def choose(self, shared: set[str], most_bytes: int | None) -> None:
        """Find what to keep: results that are read by others, or what those that grow are of."""
        wanted: list[Any] = list(self._outside)
        used = {*self._outside, *(var for var, name in self._names.items() if name in shared)}
        seen: set[Any] = set()
        left = _MOST_SHARE * sum(map(_bytes, self._names))  # for results of products
        while wanted:
            var = wanted.pop()
            one = self._computed.get(var)
            if one is None or var in seen:
                continue
            seen.add(var)
            free = one.leaves - used
            size, of, gone = _bytes(var), sum(map(_bytes, one.leaves)), sum(map(_bytes, free))
            is_small = size <= SMALL_BYTES or size <= _MOST_GROWTH * gone
            is_worth_it = one.flops >= _LEAST_INTENSITY * size and size <= left
            if (is_small or is_worth_it) and size <= min(_MOST_GROWTH * of, most_bytes or size):
                self.kept[var] = one
                if not is_small:
                    left -= size
                elif size > SMALL_BYTES:
                    used |= free  # gone for one result alone
            else:
                wanted += one.operands
                used.update(one.operands)

    def callees(self) -> set[str]:
        """The kernels that are to run."""
        names: set[str] = set()
        wanted: list[Any] = list(self.kept)
        while wanted:
            one = self._computed.get(wanted.pop())
            if one is not None:
                names |= {one.call.args[0].name_hint} if is_tir_call(one.call) else set()
                wanted += one.operands
        return names

    def folded(self, compute: "_Kernels", parameters: dict[str, np.ndarray]) -> relax.Function:
        """The function with the results as constants: named ones, if it takes such."""
        made: dict[Any, Any] = {}
        by_result: dict[ir.Var, Any] = {}
        for var, one in self.kept.items():
            key = one.call.args[0], *one.operands, str(var.ty)
            if key not in made:
                array = compute.value(var, self._value)
                made[key] = self._constant(var, one, array, parameters)
            by_result[var] = made[key]
        gone = self._unneeded(by_result)
        function = with_bindings(
            self._function, lambda binding: [] if binding.var in gone else [binding]
        )
        body = tvm_ffi.structural_map(function.body, (ir.Var, lambda var: by_result.get(var, var)))
        function = relax.Function(
            function.params,
            body,
            function.ret_ty,
            is_pure=function.is_pure,
            attrs=function.attrs,
        )
        given = len(function.params) - len(self._names)
        added = [one for one in made.values() if isinstance(one, ir.Var)]
        return with_constants(function, given, added)

    def _constant(
        self, var: ir.Var, one: _Computed, array: np.ndarray, parameters: dict[str, np.ndarray]
    ) -> Any:
        if not self._names:  # such as a loop's body, whose parameters its callers know
            return constant_of(array)
        name = _name([self._names[leaf] for leaf in one.leaves if leaf in self._names], parameters)
        parameters[name] = array
        return relax.Var(name, var.ty)

    def _value(self, value: Any) -> "np.ndarray | _Computed":
        if isinstance(value, ir.GenericConst):
            return value.value.numpy()
        return self._computed[value] if value in self._computed else self._parameters[value.name]

    def _unneeded(self, kept: Mapping[ir.Var, Any]) -> set[ir.Var]:
        """What is computed at no call any more."""
        needed: set[ir.Var] = set()
        wanted: list[Any] = [var for var in self._outside if var not in kept]
        while wanted:
            var = wanted.pop()
            if var in self._computed and var not in kept and var not in needed:
                needed.add(var)
                wanted += self._computed[var].operands
        return set(self._computed) - needed


def _operands(
    binding: Any, loops: Mapping[str, tirx.PrimFunc], products: Mapping[str, Op]
) -> list[Any] | None:
    """What a binding computes a tensor of; None where that is not done at build.

    What depends on positions alone, and on no constant, is no table: kernels compute it faster.
    """
    value = binding.value
    if not isinstance(binding, relax.VarBinding) or _bytes(binding.var) == 0:
        return None
    if is_reshape(value):
        return [value.args[0]]
    if not is_tir_call(value) or not isinstance(value.ty_args[0], relax.TensorType):
        return None
    name = value.args[0].name_hint
    function, operands = loops.get(name), list(value.args[1].fields)
    if function is None or not operands or len(function.params) != len(operands) + 1:
        return None
    if name in products:
        return operands if products[name].flops() <= _MOST_FLOPS else None
    return operands if _steps(function) <= _MOST_STEPS else None


def _bytes(value: Any) -> int:
    """The bytes of a tensor; 0 where a call says how many."""
    kind = value.ty
    if not isinstance(kind, relax.TensorType) or not isinstance(kind.shape, relax.ShapeExpr):
        return 0
    total = item_bytes(str(kind.dtype))
    for extent in map(known, kind.shape.values):
        if extent is None:
            return 0
        total *= extent
    return total


def _steps(function: Any) -> int:
    """How often the innermost loops of a function run, at most."""
    most = 1

    def walk(node: Any, around: int) -> None:
        nonlocal most
        if isinstance(node, tirx.For | tirx.While):
            extent = known(node.extent) if isinstance(node, tirx.For) else None
            around *= _MOST_STEPS + 1 if extent is None else extent
        most = max(most, around)
        parts = ("block", "body", "then_case", "else_case")
        for one in [*getattr(node, "seq", ()), *(getattr(node, part, None) for part in parts)]:
            if one is not None:
                walk(one, around)

    walk(function.body, 1)
    return most


def _name(of: Iterable[str], parameters: Mapping[str, Any]) -> str:
    """A name for a constant that is made of others."""
    base = f"{min(of, default='constant')}.folded"
    names = chain([base], (f"{base}.{number}" for number in count(2)))
    return next(one for one in names if one not in parameters)


class _Kernels:
    """Runs kernels at build."""

    def __init__(self, functions: Mapping[str, tirx.PrimFunc], products: Mapping[str, Op]) -> None:
        self._symbols = {name: f"fold_{place}" for place, name in enumerate(functions)}
        self._results: dict[ir.Var, np.ndarray] = {}
        if not functions:
            return
        target = make_target("llvm")
        cpu_pipeline.register()
        made = {}
        for name, one in functions.items():
            symbol = self._symbols[name]
            if name in products:
                module, _ = lowered(products[name], target)
                made[symbol] = module[products[name].entry].with_attr("global_symbol", symbol)
            else:
                made[symbol] = schedule_loops(one, target, symbol)
        self._library = tvm.compile(
            tvm.IRModule(made), target=target, tir_pipeline=cpu_pipeline.CPU_PIPELINE
        )

    def value(self, var: ir.Var, of: Callable[[Any], "np.ndarray | _Computed"]) -> np.ndarray:
        """A tensor; ``of`` says what it is, or how it is computed."""
        if var in self._results:
            return self._results[var]
        one = of(var)
        if not isinstance(one, _Computed):
            return one
        operands = [self.value(operand, of) for operand in one.operands]
        shape = tuple(map(int, var.ty.shape.values))
        if is_reshape(one.call):
            made = operands[0].reshape(shape)
        else:
            result = tvm.runtime.empty(shape, str(var.ty.dtype))
            # Not by ascontiguousarray, which makes a scalar a line of one.
            arguments = [tvm.runtime.tensor(np.asarray(array, order="C")) for array in operands]
            self._library[self._symbols[one.call.args[0].name_hint]](*arguments, result)
            made = result.numpy()
        self._results[var] = made
        return made
