"""``vector.contract``: the loops that it is of, as ``linalg.generic`` has them.

Factors are widened to the type of sums, as MLIR's lowering does.
"""

from tvm_iree_ext.mlir.base.import_errors import Unsupported
from tvm_iree_ext.mlir.base.ir_values import Value
from tvm_iree_ext.mlir.dialects.linalg_contractions import contraction
from tvm_iree_ext.mlir.dialects.linalg_generic import emit, loops_of
from tvm_iree_ext.mlir.importing.scope import Scope
from tvm_iree_ext.mlir.reading import form
from tvm_iree_ext.mlir.scalars.arith import kind_of

_KINDS = {
    "add": ("arith.addf", "arith.addi"),
    "mul": ("arith.mulf", "arith.muli"),
    "minimumf": ("arith.minimumf", None),
    "maximumf": ("arith.maximumf", None),
    "minnumf": ("arith.minnumf", None),
    "maxnumf": ("arith.maxnumf", None),
    "minsi": (None, "arith.minsi"),
    "maxsi": (None, "arith.maxsi"),
    "minui": (None, "arith.minui"),
    "maxui": (None, "arith.maxui"),
    "and": (None, "arith.andi"),
    "or": (None, "arith.ori"),
    "xor": (None, "arith.xori"),
}
"""What combines products, of floats and of integers, by the words of ``#vector.kind``."""


def _contract(scope: Scope, op: form.ParsedOperation) -> list[Value]:
    loops = loops_of(scope, _as_generic(op))
    found = contraction(scope, loops)
    return emit(scope, loops, op.name) if found is None else found


def _as_generic(op: form.ParsedOperation) -> form.ParsedOperation:
    """The same as ``linalg.generic``, which writes what it adds to."""
    result = op.results[0].type
    if not isinstance(result, form.ParsedTensorType):
        raise Unsupported("a contraction to a scalar; to a vector of one element is supported")
    own, whole = form.ParsedScalarType(result.dtype), kind_of(op.results[0]).is_integer
    word = str(getattr(op.attributes["kind"], "text", "")).removeprefix("#vector.kind<")[:-1]
    combine = _KINDS.get(word, (None, None))[whole]
    if combine is None:
        raise Unsupported(f"combines {result.dtype} by {word}")
    arguments = [
        form.ParsedValue(form.ParsedScalarType(kind_of(value).name), f"%element{number}")
        for number, value in enumerate(op.operands)
    ]
    operations: list[form.ParsedOperation] = []

    def add(name: str, *operands: form.ParsedValue) -> form.ParsedValue:
        made = form.ParsedValue(own, f"%part{len(operations)}")
        operations.append(form.ParsedOperation(name, [*operands], [made], {}, [], op.location))
        return made

    factors = [
        one if one.type == own else add("arith.extsi" if whole else "arith.extf", one)
        for one in arguments[:2]
    ]
    product = add("arith.muli" if whole else "arith.mulf", *factors)
    total = add(combine, arguments[2], product)
    last = form.ParsedOperation("linalg.yield", [total], [], {}, [], op.location)
    block = form.ParsedBlock(arguments, [*operations, last])
    return form.ParsedOperation(
        op.name, op.operands, op.results, op.attributes, [[block]], op.location
    )


VECTOR = {"vector.contract": _contract}
