"""Calls of matrix instructions: PTX's ``mma`` and ``ldmatrix``, LLVM's ``mfma`` and ``wmma``."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm import tirx
from tvm.target import codegen as llvm

from tvm_iree_ext.base.errors import SimulationError
from tvm_iree_ext.simulator.base.lane_values import element_type
from tvm_iree_ext.simulator.machine.matrix_instructions import (
    chosen_scales,
    kinds_of_llvm,
    kinds_of_ptx,
    ldmatrix,
    matrix_instruction,
)
from tvm_iree_ext.simulator.machine.sparse_instructions import sparse_instruction, sparse_kinds
from tvm_iree_ext.simulator.translation import value_calls
from tvm_iree_ext.simulator.translation.lane_expressions import Expressions, dtype_of, lanes_of
from tvm_iree_ext.simulator.translation.python_source import Code
from tvm_iree_ext.targets.mma.mma_kinds import Mma, MmaOperand
from tvm_iree_ext.targets.mma.mma_table import mma_kind, mma_table
from tvm_iree_ext.targets.mma.scaled_kinds import FUNCTIONS, SCALE_FORMATS, scaled_name


def words_of(operand: MmaOperand | None) -> int:
    """How many registers PTX has for an operand: 64-bit floats are one each."""
    if operand is None:
        return 0
    return operand.elements_per_lane if operand.dtype == "f64" else operand.registers


def operand_values(tr: Expressions, nodes: list[Any]) -> str:
    """The text of a list of registers."""
    texts = [tr.scalar(tr(node), dtype_of(node)) for node in nodes]
    return f"[{', '.join(texts)}]"


@value_calls.handles("ptx.mma*")
def _mma(tr: Expressions, node: Any) -> Code:
    operands, tokens = value_calls.tokens_of(node)
    instruction = ".".join(["mma", *tokens])
    kinds = kinds_of_ptx(instruction)
    if not kinds:
        raise SimulationError(f"the MMA table has no {instruction}")
    mma = kinds[0]
    counts = [words_of(operand) for operand in (mma.acc, mma.lhs, mma.rhs, mma.acc)]
    groups = []
    for count in counts:
        groups.append(operands[:count])
        operands = operands[count:]
    targets, a, b, c = groups
    texts = (operand_values(tr, a), operand_values(tr, b), operand_values(tr, c))
    result = _execute(tr, mma, texts, "None")
    _scatter(tr, targets, result)
    return value_calls.NOTHING


def _execute(tr: Expressions, mma: Mma, operands: tuple[str, str, str], scales: str) -> str:
    function = tr.emitter.object(("mma", mma.name), matrix_instruction(mma.name).execute, mma.name)
    arguments = f"rt, {', '.join(operands)}, {scales}, {tr.mask}, {tr.statement}"
    return tr.emitter.here(f"{function}({arguments})", False).text


def _scatter(tr: Expressions, targets: list[Any], result: str) -> None:
    """Put elements ``[elements, lanes]`` into registers."""
    for at, target in enumerate(targets):
        dtype = dtype_of(target)
        kind = tr.dtype(element_type(dtype))
        word = tr.emitter.here(f"register_of({result}, {at}, {len(targets)}, {kind})", False)
        binding = tr.buffers[target.source]
        index, count, _ = tr.place(target.indices, binding)
        tr.store_at(binding, index, word, count, dtype)


@value_calls.handles("ptx.ldmatrix")
def _ldmatrix(tr: Expressions, node: Any) -> Code:
    operands, tokens = value_calls.tokens_of(node)
    *targets, address = operands
    if "m8n8" not in tokens or "b16" not in tokens:
        raise SimulationError(f"the simulator knows ldmatrix of 8x8 16-bit elements, not {node}")
    at = value_calls.retyped(tr, value_calls.pointer(tr, address), "uint16", value_calls.ZERO)
    function = tr.emitter.object(("ldmatrix",), ldmatrix, "ldmatrix")
    transposed = "trans" in tokens
    words = tr.emitter.here(
        f"{function}(rt, {at.view}, {at.at.text}, {len(targets)}, {transposed}, {tr.mask},"
        f" {tr.statement})",
        False,
    )
    for number, target in enumerate(targets):
        binding = tr.buffers[target.source]
        index, count, _ = tr.place(target.indices, binding)
        word = tr.emitter.here(
            f"bits({words.text}[{number}], {tr.dtype(element_type(dtype_of(target)))})", False
        )
        tr.store_at(binding, index, word, count, dtype_of(target))
    return value_calls.NOTHING


@value_calls.intrinsic("amdgcn.mfma.*", "amdgcn.wmma.*")
def _llvm_mma(tr: Expressions, node: Any) -> Code:
    name = str(llvm.llvm_get_intrinsic_name(int(node.args[0].value)))
    arguments = list(node.args[1:])
    kinds = kinds_of_llvm(name)
    return _amd(tr, node, arguments, kinds, name)


@value_calls.handles("matrix function")
def _function(tr: Expressions, node: Any) -> Code:
    name = str(node.args[0].value).removeprefix("tvm_iree_ext_")
    kinds = [mma for mma in mma_table().values() if mma.name.lower() == name]
    if kinds and kinds[0].kind == "virtual_sparse":
        return _sparse(tr, node, kinds)
    return _amd(tr, node, list(node.args[1:]), kinds, name)


@value_calls.extern(FUNCTIONS)
def _nvidia_scaled(tr: Expressions, node: Any) -> Code:
    """A, B and C, and for each scale a word, the byte in it, and which lanes of four have it."""
    mma = mma_kind(node.name.removeprefix(FUNCTIONS))
    a, b, c, *chosen = node.args
    return _with_words(tr, node, mma, (a, b, c), (chosen[:3], chosen[3:]))


@value_calls.intrinsic("amdgcn.wmma.scale.*")
def _wmma_scaled(tr: Expressions, node: Any) -> Code:
    """Formats before A and B; a half of the lanes, a type and a word for each scale."""
    left, a, right, b, _, c, *chosen = node.args[1:]
    name = str(llvm.llvm_get_intrinsic_name(int(node.args[0].value)))
    names = {code: one for one, code in SCALE_FORMATS.items()}
    kinds = [row for row in kinds_of_llvm(name) if not tr.chip or row.on(tr.chip)]
    if not kinds or any(int(chosen[at].value) for at in (1, 4)):
        raise SimulationError(f"the simulator knows scales of E8M0 here, not {node}")
    formats = [names[int(code.value)] for code in (left, right)]
    zero = tirx.const(0, "int32")
    scales = [(word, zero, half) for half, word in ((chosen[0], chosen[2]), (chosen[3], chosen[5]))]
    mma = mma_kind(scaled_name(kinds[0].name, *formats))
    return _with_words(tr, node, mma, (a, b, c), scales)


def _with_words(
    tr: Expressions, node: Any, mma: Mma, operands: Sequence[Any], chosen: Sequence[Any]
) -> Code:
    """A call with words of scales, the byte of each, and which lanes of those alike have it."""
    scales = []
    for side, (word, byte, thread) in zip(("lhs", "rhs"), chosen, strict=True):
        scale = mma.operand(f"{side}_scale")
        number = f"bits({tr.scalar(tr(word), dtype_of(word))}, {tr.dtype(np.dtype(np.uint32))})"
        choice = f"{int(byte.value)}, {int(thread.value)}"
        alike = f"{scale.lane_replication}, {scale.replica_stride}"
        function = tr.emitter.object(("chosen scales",), chosen_scales, "chosen_scales")
        text = f"{function}({number}, rt.lanes, {choice}, {alike})"
        scales.append(tr.emitter.here(text, False).text)
    a, b, c = (operand_values(tr, [one]) for one in operands)
    result = _execute(tr, mma, (a, b, c), f"([{scales[0]}], [{scales[1]}])")
    dtype = dtype_of(node)
    kind = tr.dtype(element_type(dtype))
    return tr.emitter.here(f"vector_of({result}, {lanes_of(dtype)}, {kind})", False)


@value_calls.intrinsic("amdgcn.smfmac.*")
def _smfmac(tr: Expressions, node: Any) -> Code:
    return _sparse(
        tr, node, sparse_kinds(str(llvm.llvm_get_intrinsic_name(int(node.args[0].value))))
    )


def _sparse(tr: Expressions, node: Any, kinds: list[Mma]) -> Code:
    """A call of A, B, C and the index, of which the lowest part is used."""
    a, b, c, index, *rest = node.args[1:]
    if any(int(arg.value) for arg in rest):
        raise SimulationError(f"the simulator knows the lowest part of the index alone, not {node}")
    fitting = [mma for mma in kinds if not tr.chip or mma.on(tr.chip)]
    if not fitting:
        raise SimulationError(f"the simulator does not know {node} of {tr.chip}")
    product = sparse_instruction(fitting[0].name)
    function = tr.emitter.object(("sparse", fitting[0].name), product.sparse, product.mma.name)
    texts = ", ".join(operand_values(tr, [value]) for value in (a, b, c, index))
    result = tr.emitter.here(f"{function}(rt, {texts}, {tr.mask}, {tr.statement})", False)
    dtype = dtype_of(node)
    kind = tr.dtype(element_type(dtype))
    return tr.emitter.here(f"vector_of({result.text}, {lanes_of(dtype)}, {kind})", False)


def _amd(tr: Expressions, node: Any, arguments: list[Any], kinds: list[Mma], name: str) -> Code:
    """A call whose first three arguments that are no immediates are A, B and C."""
    a, b, c = [arg for arg in arguments if type(arg).__name__ != "IntImm"][:3]
    immediate = [int(arg.value) if type(arg).__name__ == "IntImm" else None for arg in arguments]
    scaled = len(arguments) > 8 and immediate[6] != 0
    if scaled:
        fitting = _scaled(tr, kinds, (a, b), immediate)
    else:
        fitting = [m for m in kinds if m.lhs_scale is None and _fits(tr, m, a, immediate)]
    if not fitting:
        raise SimulationError(f"the MMA table has no {name} of {dtype_of(a)} for {tr.chip}")
    mma = fitting[0]
    scales = "None"
    if mma.lhs_scale is not None:
        scales = f"({operand_values(tr, [arguments[6]])}, {operand_values(tr, [arguments[8]])})"
    texts = (operand_values(tr, [a]), operand_values(tr, [b]), operand_values(tr, [c]))
    result = _execute(tr, mma, texts, scales)
    dtype, count = dtype_of(node), lanes_of(dtype_of(node))
    kind = tr.dtype(element_type(dtype))
    return tr.emitter.here(f"vector_of({result}, {count}, {kind})", False)


def _scaled(
    tr: Expressions, kinds: list[Mma], factors: tuple[Any, Any], immediate: list[int | None]
) -> list[Mma]:
    """The kind with scales and these formats, whose scales are the lowest bytes."""
    names = {code: name for name, code in SCALE_FORMATS.items()}
    codes = [names.get(code) for code in immediate[3:5] if code is not None]
    if len(codes) < 2 or None in codes or [immediate[5], immediate[7]] != [0, 0]:
        return []
    rows = [m for m in kinds if m.lhs_scale is not None and (not tr.chip or m.on(tr.chip))]
    found = []
    for row in rows:
        mma = mma_kind(scaled_name(row.name, *map(str, codes)))
        held = zip(factors, (mma.operand("lhs"), mma.operand("rhs")), strict=True)
        if all(_bits(one) >= 32 * own.registers for one, own in held):  # some may be unused
            found.append(mma)
    return found


def _bits(value: Any) -> int:
    dtype = dtype_of(value)
    return 8 * element_type(dtype).itemsize * lanes_of(dtype)


def _fits(tr: Expressions, mma: Mma, a: Any, immediate: list[int | None]) -> bool:
    """Whether a call may mean a kind: on this chip, with so many bits of A, and these formats."""
    if mma.lhs is None or (tr.chip and not mma.on(tr.chip)):
        return False
    if mma.subgroup_size != tr.subgroup_size:
        return False
    bits = _bits(a)
    registers = mma.lhs.registers * 32
    if not (bits == registers or (registers == 32 and bits < 32)):
        return False
    codes = mma.format_codes or {}
    if not codes:
        return True
    return [codes.get("cbsz_A"), codes.get("blgp_B")] == immediate[3:5]
