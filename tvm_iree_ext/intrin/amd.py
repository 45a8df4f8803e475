"""Calls of AMD's matrix instructions, as LLVM intrinsics.

The row's ``operand_ir_types`` says which LLVM types the operands have: bytes travel as integers,
and older instructions take bfloat16 as 16-bit integers.  What stands around A, B and C (signs,
modifiers, formats) is by family.

TVM's LLVM code generation has no bfloat type, which the newest instructions take.  Those are called
through functions over 16-bit integers, which :func:`bfloat_definitions` defines in LLVM's own
language, and which are linked into the kernel and inlined.
"""

import functools
import re
from collections.abc import Iterable, Sequence
from typing import Any

from tvm import ir, tirx
from tvm.target import codegen as llvm

from tvm_iree_ext.intrin import amd_sparse as sparse
from tvm_iree_ext.targets.mma.mma_kinds import Mma
from tvm_iree_ext.targets.mma.mma_table import mma_table
from tvm_iree_ext.targets.mma.scaled_kinds import SCALE_FORMATS

_ELEMENT = {
    "half": "float16",
    "bfloat": "bfloat16",
    "float": "float32",
    "double": "float64",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
}
_TYPE = re.compile(r"<(\d+) x (half|bfloat|float|double|i16|i32)>|\b(half|float|double|i32|i64)\b")


def ir_types(mma: Mma) -> tuple[str, str, str]:
    """The types of A, B and C that the LLVM intrinsic takes, by TVM's names.

    >>> from tvm_iree_ext.targets.mma.mma_table import mma_kind
    >>> ir_types(mma_kind("WMMAR3_I32_16x16x16_I8"))
    ('int32x4', 'int32x4', 'int32x8')
    """
    if mma.kind == "virtual_sparse":
        return sparse.ir_types(mma)
    if mma.kind == "scaled":
        words = [mma.operand(side).registers for side in ("lhs", "rhs", "acc")]
        return f"int32x{words[0]}", f"int32x{words[1]}", f"float32x{words[2]}"
    types = []
    for count, vector, scalar in _TYPE.findall(mma.operand_ir_types):
        types.append(f"{_ELEMENT[vector]}x{count}" if count else _ELEMENT[scalar])
    if mma.operand_ir_types.startswith("i1"):
        a, b, c = types[:3]
    elif mma.operand_ir_types.startswith("a,b,c"):
        a = b = c = types[0]
    else:
        a, c = types[:2]
        b = a
    return a, b, c


def spread(mma: Mma) -> bool:
    """Whether a 16-bit accumulator has a 32-bit register for each value, and uses its low half."""
    acc = mma.operand("acc")
    return mma.c in ("f16", "bf16") and 16 * acc.elements_per_lane < 32 * acc.registers


def call(
    mma: Mma,
    a: Any,
    b: Any,
    c: Any,
    scales: Sequence[Any] = (),
    halves: Sequence[int] = (0, 0),
) -> Any:
    """The accumulator after the instruction: an expression of the type of ``c``.

    Args:
        mma: a native or scaled kind of AMD's.
        a, b, c: vectors of a lane's registers, in the instruction's order.
        scales: of A and of B, for a scaled kind: a byte each, or a word of those along K.
        halves: of the lanes, that have the scales of A and of B where both halves could.
    """
    a_type, b_type, c_type = map(_as_words, ir_types(mma))
    held_type = str(c.ty.dtype)
    count = mma.operand("acc").elements_per_lane
    if mma.kind == "scaled" and mma.operand("lhs_scale").elements_per_lane == 1:
        scales = [tirx.Cast("int32", _as(scale, "uint8")) for scale in scales]
    else:
        scales = [_as(scale, "int32") for scale in scales]
    a, b = _as(a, a_type), _as(b, b_type)
    if spread(mma):
        c = _as(c, f"{c_type.partition('x')[0]}x{count}")
        c = tirx.Shuffle([c, c], [register // 2 for register in range(2 * count)])
    else:
        c = _as(c, c_type)
    if _takes_bfloat(mma):
        result = tirx.call_pure_extern(c_type, bfloat_function(mma), a, b, c)
    else:
        result = tirx.call_llvm_pure_intrin(
            c_type, mma.llvm, *_arguments(mma, a, b, c, scales, halves)
        )
    if spread(mma):
        result = tirx.Shuffle([result], [2 * register for register in range(count)])
    return _as(result, held_type)


def sparse_call(mma: Mma, a: Any, b: Any, c: Any, index: Any) -> Any:
    """Call a sparse instruction on its own operands; see :mod:`.amd_sparse`."""
    a_type, b_type, c_type = map(_as_words, ir_types(mma))
    a, b = _as(a, a_type), _as(b, b_type)
    if _takes_bfloat(mma):
        return tirx.call_pure_extern(c_type, bfloat_function(mma), a, b, c, index)
    zero = tirx.const(0, "int32")
    return tirx.call_llvm_pure_intrin(c_type, mma.sparse_intrinsic, a, b, c, index, zero, zero)


def bfloat_function(mma: Mma) -> str:
    """The function that stands for an instruction with bfloat operands."""
    return f"tvm_iree_ext_{mma.name.lower()}"


def kinds_called(call: Any) -> list[Mma]:
    """The native, scaled and sparse kinds that a call may mean; none for a call of something else.

    Several where one instruction serves several types: on one chip they differ in the formats that
    the call gives, or not at all.
    """
    if call.op.same_as(_LLVM_CALL) and isinstance(call.args[0], tirx.IntImm):
        kinds = _by_intrinsic().get(int(call.args[0]), [])
        given = [str(arg.ty.dtype) for arg in call.args[1:]]
        found = [row for row in kinds if _as_words(ir_types(row)[0]) in given]
        # Of other formats than the table's: their registers are as many as the formats need.
        return found or [row for row in kinds if row.kind == "scaled"]
    if call.args and isinstance(call.args[0], ir.StringImm):
        return [
            row
            for row in mma_table().values()
            if row.kind in _CALLED and bfloat_function(row) == call.args[0].value
        ]
    return []


_CALLED = ("native", "scaled", "virtual_sparse")

_LLVM_CALL = ir.Op.get("tirx.call_llvm_pure_intrin")


@functools.cache
def _by_intrinsic() -> dict[int, list[Mma]]:
    found: dict[int, list[Mma]] = {}
    for row in mma_table().values():
        if row.kind in _CALLED and row.vendor == "amd":
            number = int(llvm.llvm_lookup_intrinsic_id(row.sparse_intrinsic or row.llvm))
            found.setdefault(number, []).append(row)
    return found


def _takes_bfloat(mma: Mma) -> bool:
    if mma.kind == "virtual_sparse":
        return sparse.takes_bfloat(mma)
    return "bfloat" in mma.operand_ir_types


def _as_words(dtype: str) -> str:
    return dtype.replace("bfloat16", "int16")


def bfloat_definitions(kinds: Iterable[Mma]) -> str:
    """LLVM IR of the functions for those of ``kinds`` that take bfloat operands."""
    return "\n".join(_definition(mma) for mma in kinds if _takes_bfloat(mma))


_LLVM_TYPES = {"bfloat16": "bfloat", "int16": "i16", "float32": "float"}


def _llvm_type(dtype: str) -> str:
    element, _, lanes = dtype.partition("x")
    return f"<{lanes} x {_LLVM_TYPES[element]}>"


def _definition(mma: Mma) -> str:
    own = [_llvm_type(dtype) for dtype in ir_types(mma)]
    outside = [_llvm_type(_as_words(dtype)) for dtype in ir_types(mma)]
    casts = [
        f"  %{name}.own = bitcast {given} %{name} to {type_}"
        for name, given, type_ in zip("abc", outside, own, strict=True)
    ]
    a, b, c = (f"{type_} %{name}.own" for name, type_ in zip("abc", own, strict=True))
    taken = [f"{t} %{n}" for t, n in zip(outside, "abc", strict=True)]
    if mma.kind == "virtual_sparse":
        mangled, arguments = str(mma.sparse_intrinsic), f"{a}, {b}, {c}, i32 %index, i32 0, i32 0"
        taken.append("i32 %index")
    elif "gfx1250" in mma.arch:
        mangled = f"{mma.llvm}.{_mangled(own[2])}.{_mangled(own[0])}"
        arguments = f"i1 0, {a}, i1 0, {b}, i16 0, {c}, i1 0, i1 0"
    else:
        mangled, arguments = str(mma.llvm), f"{a}, {b}, {c}, i32 0, i32 0, i32 0"
    declared = ", ".join(argument.rpartition(" ")[0] for argument in arguments.split(", "))
    parameters = ", ".join(taken)
    return "\n".join(
        (
            f"declare {own[2]} @{mangled}({declared})",
            f"define linkonce_odr {outside[2]} @{bfloat_function(mma)}({parameters}) {{",
            *casts,
            f"  %result = call {own[2]} @{mangled}({arguments})",
            f"  %words = bitcast {own[2]} %result to {outside[2]}",
            f"  ret {outside[2]} %words",
            "}",
        )
    )


def _mangled(llvm_type: str) -> str:
    count, _, element = llvm_type.strip("<>").partition(" x ")
    return f"v{count}{ {'bfloat': 'bf16', 'float': 'f32'}[element] }"


def _as(value: Any, dtype: str) -> Any:
    return value if str(value.ty.dtype) == dtype else tirx.reinterpret(dtype, value)


def _arguments(
    mma: Mma, a: Any, b: Any, c: Any, scales: Sequence[Any], halves: Sequence[int]
) -> list[Any]:
    name = str(mma.llvm)
    zero, no, yes = (tirx.const(v, d) for v, d in ((0, "int32"), (0, "bool"), (1, "bool")))
    if ".scale." in name:
        formats = [tirx.const(SCALE_FORMATS[one], "int32") for one in (mma.a, mma.b)]
        left, right = scales or (zero, zero)
        if name.startswith("llvm.amdgcn.mfma."):
            return [a, b, c, *formats, zero, left, zero, right]
        first, second = (tirx.const(half, "int32") for half in halves)
        given = [first, zero, left, second, zero, right, no, no]  # zero: scales are of E8M0
        return [formats[0], a, formats[1], b, tirx.const(0, "int16"), c, *given]
    if name.startswith("llvm.amdgcn.mfma."):
        return [a, b, c, zero, zero, zero]
    newest = "gfx1250" in mma.arch
    reuse = [no, no] if newest else []
    if mma.a in ("i8", "i4"):
        return [yes, a, yes, b, c, *reuse, no]
    if newest:
        modifier = tirx.const(0, "int16")
        if mma.a.startswith("f8"):
            return [a, b, modifier, c, *reuse]
        return [no, a, no, b, modifier, c, *reuse]
    return [a, b, c, no] if mma.c in ("f16", "bf16") else [a, b, c]
