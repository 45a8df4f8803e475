"""Calls of ``wgmma``, and of what makes its descriptors."""

from collections.abc import Callable, Sequence
from typing import Any

from tvm_iree_ext.base.errors import SimulationError
from tvm_iree_ext.simulator.base.lane_values import element_type
from tvm_iree_ext.simulator.machine.matrix_instructions import kinds_of_ptx, matrix_instruction
from tvm_iree_ext.simulator.machine.warpgroup import encode
from tvm_iree_ext.simulator.translation.lane_expressions import (
    Binding,
    Expressions,
    dtype_of,
    operator_name,
)
from tvm_iree_ext.simulator.translation.matrix_calls import operand_values, words_of
from tvm_iree_ext.simulator.translation.python_source import Code
from tvm_iree_ext.simulator.translation.value_calls import NOTHING, handles, pointer, tokens_of


@handles("cuda.wgmma_encode_matrix_descriptor")
def _descriptor(tr: Expressions, node: Any) -> Code:
    return encoded_descriptor(tr, node, encode)


def encoded_descriptor(tr: Expressions, node: Any, encode: Callable[..., Any]) -> Code:
    """A matrix descriptor into a local buffer, by the function that has its bits."""
    target, address, leading, stride, mode = node.args
    binding, index = local_place(tr, target)
    at = pointer(tr, address)
    size = element_type(at.dtype).itemsize
    function = tr.emitter.object(("descriptor", operator_name(node)), encode, "encode")
    value = tr.emitter.here(
        f"{function}({at.view}.memory.address + {at.at.text} * {size}, {tr(leading).text},"
        f" {tr(stride).text}, {int(mode.value)})",
        False,
    )
    tr.store_at(binding, index, value, 1, "uint64")
    return NOTHING


def local_place(tr: Expressions, node: Any) -> tuple[Binding, Code]:
    """The local buffer and index that an address, or a load, is about."""
    if operator_name(node) == "address_of":
        node = node.args[0]
    if operator_name(node) == "buffer_data":
        return tr.buffers[node.args[0]], Code("0", True, 0, 0)
    binding = tr.buffers[node.source]
    index, _, _ = tr.place(node.indices, binding)
    return binding, index


def local_places(tr: Expressions, nodes: Sequence[Any]) -> str:
    """The text of local buffers and indices."""
    places = [local_place(tr, node) for node in nodes]
    pairs = (f"({binding.text}, {tr.register(binding, index, 1)})" for binding, index in places)
    return f"[{', '.join(pairs)}]"


@handles("ptx.wgmma_fence", "ptx.wgmma_noop*", "cuda.wgmma_noop_barrier")
def _fence(tr: Expressions, node: Any) -> Code:
    return NOTHING


@handles("ptx.fence_proxy*")
def _proxy(tr: Expressions, node: Any) -> Code:
    tr.emitter.line(f"rt.fence_proxy({tr.mask})")
    return NOTHING


@handles("ptx.wgmma_commit_group*")
def _commit(tr: Expressions, node: Any) -> Code:
    tr.emitter.line("rt.warpgroup.commit()")
    return NOTHING


@handles("ptx.wgmma_wait_group*")
def _wait(tr: Expressions, node: Any) -> Code:
    newest = tr(tokens_of(node)[0][0])
    tr.emitter.line(f"rt.warpgroup.wait({newest.text}, {tr.mask})")
    return NOTHING


@handles("ptx.wgmma*")
def _wgmma(tr: Expressions, node: Any) -> Code:
    operands, tokens = tokens_of(node)
    instruction = ".".join(["wgmma", *tokens])
    kinds = kinds_of_ptx(instruction)
    if not kinds:
        raise SimulationError(f"the MMA table has no {instruction}")
    mma = kinds[0]
    targets, rest = operands[: words_of(mma.acc)], operands[words_of(mma.acc) :]
    in_registers = not operator_name(node).endswith("ss")
    if in_registers:
        count = words_of(mma.lhs)
        a, rest = operand_values(tr, rest[:count]), rest[count:]
    else:
        a, rest = tr(rest[0]).text, rest[1:]
    b, add, *immediates = rest
    signs = [int(part.value) for part in immediates]
    sign_a, sign_b, *majors = signs or [1, 1]
    major_b = majors[-1] if majors else 0
    major_a = majors[0] if len(majors) > 1 else 0
    product = tr.emitter.object(("product", mma.name), matrix_instruction(mma.name), mma.name)
    flags = f"({tr.scalar(tr(add), dtype_of(add))}, {sign_a}, {sign_b}, {major_a}, {major_b})"
    tr.emitter.line(
        f"rt.warpgroup.issue({product}, {local_places(tr, targets)}, {a}, {tr(b).text}, {flags},"
        f" {tr.mask}, {tr.statement})"
    )
    return NOTHING
