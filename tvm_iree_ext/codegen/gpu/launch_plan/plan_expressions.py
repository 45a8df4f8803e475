"""Names and arithmetic of launch plans: expressions of TIR as texts in Python's arithmetic."""

import ast
import keyword
import re
from collections.abc import Callable
from typing import Any

from tvm import ir

from tvm_iree_ext.base.errors import BuildError

_RESERVED = {"min", "max", "int", "float", "gpu", "stream", "Int", "Pointer", "Stream", "Gpu"}
# Of C++, in which a plan is written out, too.
_CPP = (
    "alignas alignof and_eq asm atomic_cancel atomic_commit bitand bitor compl concept const_cast"
    " consteval constexpr constinit co_await co_return co_yield decltype dynamic_cast noexcept"
    " not_eq nullptr or_eq reinterpret_cast requires static_assert static_cast thread_local typeid"
    " wchar_t xor xor_eq char8_t char16_t char32_t"
    " auto bool case catch char const default delete do double enum explicit export extern friend"
    " goto inline long mutable namespace new operator private protected public register short"
    " signed sizeof static struct switch template this throw typedef typename union unsigned using"
    " virtual void volatile"
)
_RESERVED |= {*_CPP.split()}

_BINARY: dict[str, Callable[[], ast.operator]] = {
    "Add": ast.Add,
    "Sub": ast.Sub,
    "Mul": ast.Mult,
    "LShift": ast.LShift,
    "RShift": ast.RShift,
    "BitwiseAnd": ast.BitAnd,
    "BitwiseOr": ast.BitOr,
    "BitwiseXor": ast.BitXor,
    "bitwise_and": ast.BitAnd,
    "bitwise_or": ast.BitOr,
    "bitwise_xor": ast.BitXor,
    "shift_left": ast.LShift,
    "shift_right": ast.RShift,
}
_COMPARE: dict[str, Callable[[], ast.cmpop]] = {
    "EQ": ast.Eq,
    "NE": ast.NotEq,
    "LT": ast.Lt,
    "LE": ast.LtE,
    "GT": ast.Gt,
    "GE": ast.GtE,
}
_DIVISIONS: dict[str, Callable[[], ast.operator]] = {
    "FloorDiv": ast.FloorDiv,
    "FloorMod": ast.Mod,
    # Python has no division towards 0; extents are not below it.
    "Div": ast.FloorDiv,
    "Mod": ast.Mod,
}
_LOGIC: dict[str, Callable[[], ast.boolop]] = {"And": ast.And, "Or": ast.Or}


class Names:
    """The names of a plan's arrays and numbers, and what is computed of them."""

    def __init__(self) -> None:
        self.names: dict[Any, str] = {}
        self.taken: set[str] = set()

    def name(self, variable: Any) -> str:
        """A name that neither Python, C++ nor the plan has taken."""
        self.names[variable] = found = self.fresh(str(variable.name))
        return found

    def fresh(self, wanted: str) -> str:
        """A name like ``wanted`` that neither Python, C++ nor the plan has taken."""
        base = re.sub(r"\W", "_", wanted) or "workspace"
        if base[0].isdigit() or keyword.iskeyword(base) or base in _RESERVED:
            base = f"_{base}"
        name, count = base, 1
        while name in self.taken:
            count += 1
            name = f"{base}_{count}"
        self.taken.add(name)
        return name

    def number(self, value: Any) -> int | str:
        """A number, or the text of an expression."""
        node = self._expression(value)
        if isinstance(node, ast.Constant) and type(node.value) is int:
            return node.value
        return ast.unparse(ast.fix_missing_locations(node))

    def _expression(self, node: Any) -> ast.expr:
        kind = type(node).__name__
        if kind in ("IntImm", "FloatImm"):
            return ast.Constant(float(node.value) if kind == "FloatImm" else int(node.value))
        if isinstance(node, ir.Var):
            if node not in self.names:
                raise BuildError(
                    f"a launch plan has no value for {node.name}: no array's shape gives it"
                )
            return ast.Name(self.names[node])
        if kind in _BINARY:
            return self._binary(_BINARY[kind](), node.a, node.b)
        if kind in _COMPARE:
            return ast.Compare(
                self._expression(node.a), [_COMPARE[kind]()], [self._expression(node.b)]
            )
        if kind in _LOGIC:
            return ast.BoolOp(_LOGIC[kind](), [self._expression(node.a), self._expression(node.b)])
        if kind == "Not":
            return ast.UnaryOp(ast.Not(), self._expression(node.a))
        if kind in ("Min", "Max"):
            return self._call(kind.lower(), node.a, node.b)
        if kind == "Div" and _is_float(str(node.ty.dtype)):
            return self._binary(ast.Div(), node.a, node.b)
        if kind in _DIVISIONS:
            return self._divided(_DIVISIONS[kind](), node.a, node.b)
        if kind == "Select":
            return self._choice(node.condition, node.true_value, node.false_value)
        if kind == "Cast":
            return self._cast(node)
        function = called(node)
        if function in _BINARY:
            return self._binary(_BINARY[function](), *node.args)
        if function == "if_then_else":
            return self._choice(*node.args)
        raise BuildError(f"a launch plan has no {function or kind}: {node}")

    def _binary(self, operator: ast.operator, a: Any, b: Any) -> ast.expr:
        return ast.BinOp(self._expression(a), operator, self._expression(b))

    def _divided(self, operator: ast.operator, a: Any, b: Any) -> ast.expr:
        """A division of whole numbers, the divisor of which is never below 0.

        It is 0 where TVM has moved a division out of the branch that asks for its divisor; the
        result is then not used.
        """
        divisor = self._expression(b)
        if not (isinstance(divisor, ast.Constant) or _is_positive(b)):
            divisor = ast.Call(ast.Name("max"), [ast.Constant(1), divisor], [])
        return ast.BinOp(self._expression(a), operator, divisor)

    def _choice(self, condition: Any, yes: Any, no: Any) -> ast.expr:
        return ast.IfExp(self._expression(condition), self._expression(yes), self._expression(no))

    def _call(self, name: str, *arguments: Any) -> ast.expr:
        return ast.Call(ast.Name(name), [self._expression(one) for one in arguments], [])

    def _cast(self, node: Any) -> ast.expr:
        """A conversion between integers and floats; widths matter only to what is launched."""
        source, target = (_is_float(str(one.ty.dtype)) for one in (node.value, node))
        if source == target:
            return self._expression(node.value)
        return self._call("float" if target else "int", node.value)


def _is_positive(node: Any) -> bool:
    """Whether the larger of a number from 1 and another is asked for."""
    numbers = (node.a, node.b) if type(node).__name__ == "Max" else ()
    return any(type(one).__name__ == "IntImm" and int(one) > 0 for one in numbers)


def _is_float(dtype: str) -> bool:
    return "float" in dtype


def called(node: Any) -> str:
    """The name of the function that a call is of, without TVM's prefix; empty for all else."""
    name = str(getattr(getattr(node, "op", None), "name", ""))
    return name.removeprefix("tirx.").removeprefix("prim.")
