"""The tensors that stand for an operand of a program: a complex one is two, a strided one, too.

A strided operand is the line of memory that its elements lie in, from the first to the last, and a
tensor without elements whose extents are those of the operand, its strides, and 0.
"""

from dataclasses import replace

from tvm_iree_ext.base.dtypes import COMPLEX_PARTS
from tvm_iree_ext.base.signature import Operand


def parts_of(operand: Operand) -> list[Operand]:
    """An operand as the tensors that stand for it, in order."""
    if operand.role == "unused":
        return []
    if operand.strides:
        return _strided(operand)
    if operand.dtype not in COMPLEX_PARTS:
        return [operand]
    role = "input" if operand.role == "scalar" else operand.role
    return [
        Operand(f"{operand.name}.{part}", operand.shape, COMPLEX_PARTS[operand.dtype], role)
        for part in ("real", "imag")
    ]


def _strided(operand: Operand) -> list[Operand]:
    home = operand.in_place_of or operand.name
    line = replace(operand, name=f"{operand.name}.elements", shape=(f"{home}_span",), strides=())
    if operand.role == "result":  # in place of one that says the same
        return [replace(line, in_place_of=f"{home}.elements")]
    layout = Operand(operand.name, (*operand.shape, *operand.strides, 0), "uint8")
    return [layout, line]
