"""Scalar expressions as text, such as ``2 * tanh(arg0)``: one meaning for TensorIR and for NumPy.

A region may be given as such a text.  The caller brings the functions, so the same text becomes
TIR expressions when an op is built, and array arithmetic when its reference is computed.
"""

import ast
import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tvm_iree_ext.base.errors import OpError

MOST_PARTS = 1000
"""Most operations and operands of an expression: compilers take time by their square."""

_BINARY: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
}
_LOGIC: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.And: operator.and_,
    ast.Or: operator.or_,
}
_COMPARE: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}


def evaluate(
    text: str,
    arguments: Mapping[str, Any],
    functions: Mapping[str, Callable[..., Any]],
    number: Callable[[Any], Any] = lambda value: value,
    beside: Callable[[Any, Sequence[Any]], Any] = lambda value, others: value,
) -> Any:
    """The value of ``text`` for the named arguments.

    Allowed are numbers, the arguments' names, ``+ - * / // %``, ``& | ^``, one comparison at a
    time, ``and`` and ``or`` between comparisons, calls of ``functions``, and, for several values,
    commas between them.  ``number`` makes a number's value from what Python reads; ``beside`` that
    of an operand, by all operands of its operation.

    Raises:
        OpError: for anything else, naming it, and for more than :data:`MOST_PARTS`.
    """

    def refuse(node: ast.AST, why: str) -> OpError:
        return OpError(f"region {_shown(text)}: {_shown(ast.unparse(node))} {why}")

    def combined(node: ast.BinOp, combine: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
        try:
            return combine(a, b)
        except RuntimeError as error:  # TVM's, of a quotient of integers
            if not isinstance(node.op, ast.Div) or isinstance(error, RecursionError):
                raise
            why = "divides integers; write // for a whole quotient, or make one a float"
            raise refuse(node, f"{why}, as in 1.0 * {ast.unparse(node.left)}") from None

    def operands(*nodes: ast.AST) -> list[Any]:
        values = [*map(visit, nodes)]
        return [beside(value, values) for value in values]

    def visit(node: ast.AST) -> Any:
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            return number(node.value)
        if isinstance(node, ast.Name):
            if node.id not in arguments:
                raise refuse(node, f"is unknown; arguments are {', '.join(arguments)}")
            return arguments[node.id]
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -visit(node.operand)
        if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
            return combined(node, _BINARY[type(node.op)], *operands(node.left, node.right))
        if isinstance(node, ast.BoolOp):
            return functools.reduce(_LOGIC[type(node.op)], map(visit, node.values))
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARE:
            value = _COMPARE[type(node.ops[0])](*operands(node.left, node.comparators[0]))
            # TVM's == and != give what Python may take for a truth value; this is the expression.
            return value.asobject() if hasattr(value, "asobject") else value
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
            if node.func.id not in functions:
                raise refuse(
                    node, f"calls no known function; known are {', '.join(sorted(functions))}"
                )
            return functions[node.func.id](*operands(*node.args))
        raise refuse(node, "is not a number, an argument, arithmetic, a comparison or a call")

    body = _parsed(text)
    try:
        if isinstance(body, ast.Tuple):
            return tuple(visit(element) for element in body.elts)
        return visit(body)
    except RecursionError:
        raise OpError(f"region {_shown(text)} nests too deep") from None


def names(text: str) -> set[str]:
    """The names of values that a text reads."""
    tree = list(ast.walk(_parsed(text)))
    called = {id(node.func) for node in tree if isinstance(node, ast.Call)}
    return {node.id for node in tree if isinstance(node, ast.Name) and id(node) not in called}


def parts(text: str) -> list[str]:
    """The texts between the outer commas: one for each value."""
    body = _parsed(text)
    return [ast.unparse(one) for one in body.elts] if isinstance(body, ast.Tuple) else [text]


@functools.lru_cache(maxsize=256)  # references compare millions of elements by the same few
def _parsed(text: str) -> ast.expr:
    """The tree of a text; OpError for one that is no expression, or too large a one."""
    try:
        body = ast.parse(text, mode="eval").body
    except SyntaxError as error:
        raise OpError(f"region {_shown(text)}: {error.msg}") from None
    except (RecursionError, MemoryError):
        raise OpError(f"region {_shown(text)} nests too deep") from None
    count = sum(isinstance(node, ast.expr) for node in ast.walk(body))
    if count > MOST_PARTS:
        raise OpError(
            f"region {_shown(text)} has {count} operations and operands; expected {MOST_PARTS} at"
            " most"
        )
    return body


def _shown(text: str) -> str:
    """A text for a message, shortened."""
    return repr(text if len(text) <= 200 else f"{text[:100]}...{text[-50:]}")
