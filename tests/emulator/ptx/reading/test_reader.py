"""Reading PTX: declarations, operands, constants, scopes; what is no PTX is refused."""

import pytest

from tvm_iree_ext.base.errors import EmulationError
from tvm_iree_ext.emulator.ptx.reading.reader import read
from tvm_iree_ext.emulator.ptx.reading.syntax import (
    PtxAddress,
    PtxImmediate,
    PtxInstruction,
    PtxRegister,
    RegisterVector,
    ResultPair,
)

HEAD = ".version 9.0\n.target sm_80\n.address_size 64\n"


def instructions(body, head=""):
    text = f"{HEAD}{head}\n.visible .entry k(.param .u64 k_param_0) {{\n{body}\n}}\n"
    function = read(text).functions["k"]
    return [one for one in function.body if isinstance(one, PtxInstruction)]


def operand(text, place=-1):
    registers = ".reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<9>; .reg .pred %p<3>;"
    return instructions(f"{registers} op.b32 {text};")[0].operands[place]


@pytest.mark.parametrize(
    ("text", "value", "bits"),
    [
        ("0f3F800000", 0x3F800000, 32), ("-0f3F800000", 0xBF800000, 32),
        ("0d3FF0000000000000", 0x3FF0000000000000, 64), ("-7", -7, 0), ("0xFFU", 255, 0),
        ("010", 8, 0), ("0b101", 5, 0), ("1.0", 0x3FF0000000000000, 64),
    ],
)  # fmt: skip
def test_constants(text, value, bits):
    assert operand(f"%r1, {text}") == PtxImmediate(value, bits)


def test_operands():
    vector = operand("{%r1, %r2}, %r3", 0)
    assert isinstance(vector, RegisterVector)
    assert [item.name for item in vector.items] == ["%r1", "%r2"]
    address = operand("%r1, [%rd2+-12]")
    assert isinstance(address, PtxAddress)
    assert (address.base.name, address.offset) == ("%rd2", -12)
    box = operand("[%rd1], [%rd2, {%r1, %r2}], [%rd3]", 1)
    assert [item.name for item in box.coordinates] == ["%r1", "%r2"]
    pair = operand("%r1|%p1, %r2", 0)
    assert isinstance(pair, ResultPair)
    assert isinstance(pair.second, PtxRegister)
    assert pair.second.type == "pred"


def test_modifiers_and_guards():
    body = ".reg .pred %p<2>; .reg .b32 %r<3>; @!%p1 ld.shared::cta.u32 %r1, [m];"
    (one,) = instructions(body)
    assert (one.opcode, one.modifiers) == ("ld", ("shared::cta", "u32"))
    assert (one.guard.name, one.guard_negated) == ("%p1", True)


def test_variables_of_all_spaces():
    text = (
        HEAD + ".const .align 4 .u32 t[2] = {1, 2};\n.extern .shared .align 128 .b8 d[];\n"
        ".visible .entry k(.param .align 64 .b8 map[128], .param .u32 n) .maxntid 128, 1, 1 {\n"
        ".local .align 8 .b8 depot[24]; .shared .align 16 .b8 m[8][4]; ret; }"
    )
    module = read(text)
    assert module.variables["t"].data == b"\1\0\0\0\2\0\0\0"
    assert (module.variables["d"].nbytes, module.variables["d"].alignment) == (0, 128)
    kernel = module.functions["k"]
    assert [(one.nbytes, one.alignment) for one in kernel.parameters] == [(128, 64), (4, 4)]
    assert kernel.lanes == (128, 1, 1)
    assert {name: one.nbytes for name, one in kernel.variables.items()} == {"depot": 24, "m": 32}


def test_registers_of_inner_braces_are_others():
    body = ".reg .b32 %r1; { .reg .b64 %r1; op.b64 %r1; } op.b32 %r1;"
    inner, outer = (one.operands[0] for one in instructions(body))
    assert (inner.type, outer.type) == ("b64", "b32")


@pytest.mark.parametrize("text", ["", "ELF", HEAD + "add.u32 %r1, %r2, %r3;"])
def test_what_is_no_ptx_is_refused(text):
    with pytest.raises(EmulationError, match="PTX"):
        read(text)
