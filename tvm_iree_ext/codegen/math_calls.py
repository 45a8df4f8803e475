"""Calls of functions such as exp replaced by expressions, which take their argument several times.

An argument is bound to a variable in front of its statement.  What a function of another one's
value takes is kept in a register, and so is what is long: TVM's analyzer puts what a variable is
bound to in its place, which of a chain makes an expression that grows exponentially.  A condition
that guards such a call becomes a branch: nothing of it may be computed in front.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import tvm_ffi
from tvm import DataType, ir, tirx

from tvm_iree_ext.tir.function_body import with_body
from tvm_iree_ext.tir.purity import is_guard

Expr: TypeAlias = ir.Expr

Share: TypeAlias = Callable[[Expr], Expr]
"""Makes a value that is used several times cheap to repeat: a variable bound to it."""


@dataclass(frozen=True)
class Rarely:
    """A value, and what computes another at a cost where a scalar condition holds."""

    usual: Expr
    condition: Expr
    rare: Callable[[Share], Expr]


Lowering: TypeAlias = Callable[[ir.Call, Share], "Expr | Rarely | None"]
"""The expression that stands for a call; None where the call may stay."""

# TVM's own expressions for functions, by attributes of their operators, and what is none of them.
_EXPANDED = [
    f"{kind}.{what}" for kind in ("llvm", "default") for what in ("FLowerIntrinsic", "FLegalize")
]
_ONES = "fma fabs floor trunc nearbyint round sqrt copysign popcount prefetch"
_INSTRUCTIONS = {ir.Op.get(f"tirx.{name}") for name in _ONES.split()} | {ir.Op.get("prim.ceil")}


def _is_expanded(call: ir.Call) -> bool:
    """Whether TVM puts an expression in the place of a call."""
    if not isinstance(call.op, ir.Op) or call.op in _INSTRUCTIONS:
        return False
    return any(call.op.get_attr(name) is not None for name in _EXPANDED)


def replace_calls(
    func: tirx.PrimFunc, lowering: Lowering, is_ours: Callable[[ir.Call], bool] = _is_expanded
) -> tirx.PrimFunc:
    """The function with calls replaced; the arguments of those that TVM replaces are bound."""

    def is_function(call: ir.Call) -> bool:
        return is_ours(call) or _is_expanded(call)

    with_functions = _statements_with(func.body, is_function)
    if not with_functions:
        return func

    def lower(statement: Any) -> Any:
        if hash(statement) not in with_functions:
            return statement
        return _Statement(lowering, is_function).lowered(statement)

    def bind_condition(branch: tirx.IfThenElse) -> Any:
        if hash(branch.condition) not in with_functions:
            return branch
        var = tirx.Var("v", "bool")
        bound = tirx.Bind(var, branch.condition)
        with_functions.add(hash(bound))
        return _sequence([bound, tirx.IfThenElse(var, branch.then_case, branch.else_case)])

    body = tvm_ffi.structural_map(func.body, (tirx.IfThenElse, bind_condition))
    return with_body(func, tvm_ffi.structural_map(body, (_SIMPLE, lower)))


_MOST_EXPANDED = 60
"""The most nodes of an expression that TVM's analyzer is left to make of a variable.

With 300 atan2 of float64 took 12 s to build, with 60 a third of one.
"""

_SIMPLE = (tirx.BufferStore, tirx.Bind, tirx.Evaluate)  # statements without others in them


def _statements_with(body: Any, is_function: Callable[[ir.Call], bool]) -> set[int]:
    """The identities of the simple statements, and conditions of branches, that call functions.

    A single walk, which meets a statement before its expressions: a walk costs more to begin
    than a statement to look at, and kernels have thousands.
    """
    statements: set[int] = set()
    current = None

    def statement(node: tirx.Stmt) -> None:
        nonlocal current
        current = None
        if isinstance(node, _SIMPLE):
            current = hash(node)
        elif isinstance(node, tirx.IfThenElse):
            current = hash(node.condition)

    def call(node: ir.Call) -> None:
        if current is not None and current not in statements and is_function(node):
            statements.add(current)

    tvm_ffi.structural_walk(body, [(tirx.Stmt, statement), (ir.Call, call)], order="pre")
    return statements


class _Statement:
    """Lowers one statement, to statements in front of it."""

    def __init__(self, lowering: Lowering, is_function: Callable[[ir.Call], bool]) -> None:
        self._lowering, self._is_function = lowering, is_function
        self._before: list[Any] = []
        self._renamed: dict[ir.Var, Expr] = {}
        self._sizes: dict[ir.Var, int] = {}  # of what variables are bound to, expanded
        self._is_inner = False  # whether a value is computed with, and not only stored

    def lowered(self, statement: Any) -> Any:
        """The statement after those that it needs."""
        self._is_inner = isinstance(statement, tirx.Bind)
        statement = self._mutated(statement)
        return _sequence([*self._before, statement])

    def _mutated(self, node: Any) -> Any:
        callbacks = [(ir.Call, self._call), (tirx.Let, self._let), (ir.Var, self._variable)]
        return tvm_ffi.structural_mutate(node, callbacks)

    def _has_functions(self, node: Any) -> bool:
        calls: list[ir.Call] = []
        tvm_ffi.structural_walk(node, (ir.Call, calls.append))
        return any(map(self._is_function, calls))

    def _variable(self, var: ir.Var, _mutator: Any) -> Expr:
        return self._renamed.get(var, var)

    def _let(self, let: tirx.Let, mutator: Any) -> Expr:
        inner, self._is_inner = self._is_inner, True
        value = mutator.mutate(let.value)
        self._is_inner = inner
        self._renamed[let.var] = self._bound(value)
        return mutator.mutate(let.body)

    def _call(self, call: ir.Call, mutator: Any) -> Expr:
        if is_guard(call) and self._has_functions(call):
            return self._branches(*call.args)
        if not self._is_function(call):
            return mutator.default_mutate(call)
        inner, self._is_inner = self._is_inner, True
        arguments = [self._bound(mutator.mutate(one)) for one in call.args]
        self._is_inner = inner
        call = ir.Call(call.op, arguments, attrs=call.attrs, ret_ty=call.ty)
        value = self._lowering(call, self._bound)
        if isinstance(value, Rarely):
            return self._unless(value)
        value = call if value is None else value
        return self._kept(value) if inner else value

    def _bound(self, value: Expr) -> Expr:
        """A variable of a value, or the value where it is as cheap."""
        if not hasattr(value.ty, "dtype") or isinstance(
            value, ir.Var | tirx.FloatImm | tirx.IntImm | ir.StringImm
        ):
            return value
        dtype = DataType(str(value.ty.dtype))
        if dtype.lanes > 1 and str(dtype).startswith("bool"):
            return value  # TVM's analyzer knows no variables of vectors of bools
        size = self._expanded_size(value)
        if size > _MOST_EXPANDED:
            return self._kept(value)
        var = tirx.Var("v", str(value.ty.dtype))
        self._sizes[var] = size
        self._before.append(tirx.Bind(var, value))
        return var

    def _expanded_size(self, value: Expr) -> int:
        """The nodes of an expression with those that its variables are bound to."""
        size = 0

        def count(node: Expr) -> None:
            nonlocal size
            size += self._sizes.get(node, 1) if isinstance(node, ir.Var) else 1

        tvm_ffi.structural_walk(value, (ir.Expr, count))
        return size

    def _kept(self, value: Expr) -> Expr:
        cell, place = self._cell(value)
        self._before.append(tirx.BufferStore(cell, value, place))
        return tirx.BufferLoad(cell, place)

    def _cell(self, like: Expr) -> tuple[Any, list[Expr]]:
        """A register for a value or a vector, and the place of all of it."""
        dtype = DataType(str(like.ty.dtype))
        element, lanes = str(dtype.with_lanes(1)), dtype.lanes
        cell = tirx.decl_buffer((lanes,), element, "kept", scope="local")
        self._before.append(tirx.AllocBuffer(cell))
        zero = tirx.const(0, "int32")
        return cell, [zero if lanes == 1 else tirx.Ramp(zero, tirx.const(1, "int32"), lanes)]

    def _unless(self, choice: Rarely) -> Expr:
        """The usual value, but for a branch that is seldom taken."""
        cell, place = self._cell(choice.usual)
        self._before.append(tirx.BufferStore(cell, choice.usual, place))
        before, self._before = self._before, []
        rare = tirx.BufferStore(cell, choice.rare(self._bound), place)
        rare, self._before = _sequence([*self._before, rare]), before
        self._before.append(tirx.IfThenElse(choice.condition, rare, None))
        return tirx.BufferLoad(cell, place)

    def _branches(self, condition: Expr, *choices: Expr) -> Expr:
        """A choice, of which a branch computes one."""
        condition = self._mutated(condition)
        cell, place = self._cell(choices[0])
        before, inner, self._is_inner = self._before, self._is_inner, False
        ways = []
        for choice in choices:
            self._before = []
            value = self._mutated(choice)
            ways.append(_sequence([*self._before, tirx.BufferStore(cell, value, place)]))
        self._before, self._is_inner = before, inner
        self._before.append(tirx.IfThenElse(condition, *ways))
        return tirx.BufferLoad(cell, place)


def _sequence(statements: list[Any]) -> Any:
    return tirx.SeqStmt(statements) if len(statements) > 1 else statements[0]
