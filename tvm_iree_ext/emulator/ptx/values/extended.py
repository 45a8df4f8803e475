"""Integer arithmetic over several words, by the carry flag.

Source: PTX ISA 9.0, *Extended-Precision Arithmetic Instructions*.  The flag is a register of its
own, ``%carry``, which the reader puts behind an instruction's operands.
"""

from tvm_iree_ext.emulator.ptx.reading.reader import EXTENDED
from tvm_iree_ext.emulator.ptx.reading.scalar_types import Value, bits_of
from tvm_iree_ext.emulator.ptx.reading.syntax import PtxInstruction
from tvm_iree_ext.emulator.ptx.values.integers import high
from tvm_iree_ext.emulator.ptx.values.operations import PtxOperation, instruction


@instruction("add.cc", "sub.cc", "mad.cc", "addc", "subc", "madc", "addc.cc", "subc.cc", "madc.cc")
def _extended(one: PtxInstruction) -> PtxOperation:
    """*add.cc*, *addc*, *sub.cc*, *subc*, *mad.cc*, *madc*."""
    raw = f"b{bits_of(one.type)}"
    target, *sources, carry = one.operands
    takes_carry, gives_carry = one.opcode in EXTENDED, one.has("cc")
    is_high = one.has("hi")

    def function(*values: Value) -> tuple[Value, Value] | Value:
        words, taken = (values[:-1], values[-1]) if takes_carry else (values, None)
        if one.opcode.startswith("sub"):
            result, flag = _difference(words[0], words[1], taken)
        elif one.opcode.startswith("mad"):
            product = high(f"u{raw[1:]}")(words[0], words[1]) if is_high else words[0] * words[1]
            result, flag = _sum(product, words[2], taken)
        else:
            result, flag = _sum(words[0], words[1], taken)
        return (result, flag) if gives_carry else result

    takes = [(operand, raw) for operand in sources] + ([(carry, "pred")] if takes_carry else [])
    gives = [(target, raw)] + ([(carry, "pred")] if gives_carry else [])
    return PtxOperation(function, takes, gives)


def _sum(a: Value, b: Value, carry: Value | None) -> tuple[Value, Value]:
    total = a + b
    flag = total < a
    if carry is not None:
        more = total + carry.astype(total.dtype)
        flag, total = flag | (more < total), more
    return total, flag


def _difference(a: Value, b: Value, borrow: Value | None) -> tuple[Value, Value]:
    rest = a - b
    flag = a < b
    if borrow is not None:
        less = rest - borrow.astype(rest.dtype)
        flag, rest = flag | (less > rest), less
    return rest, flag
