"""Calls of ``tcgen05``, and of what makes its matrix descriptors."""

from collections.abc import Sequence
from typing import Any

from tvm_iree_ext.base.errors import SimulationError
from tvm_iree_ext.simulator.machine.tensor_products import encode
from tvm_iree_ext.simulator.translation.lane_expressions import Expressions, dtype_of, operator_name
from tvm_iree_ext.simulator.translation.matrix_calls import operand_values
from tvm_iree_ext.simulator.translation.python_source import Code
from tvm_iree_ext.simulator.translation.value_calls import (
    NOTHING,
    ZERO,
    handles,
    pointer,
    retyped,
    tokens_of,
)
from tvm_iree_ext.simulator.translation.warpgroup_calls import encoded_descriptor, local_places


def _group(node: Any) -> int:
    """The workgroups of which an instruction speaks."""
    (found,) = (token for token in tokens_of(node)[1] if token.startswith("cta_group::"))
    return int(found.removeprefix("cta_group::"))


def _values(tr: Expressions, nodes: list[Any]) -> list[str]:
    return [tr.scalar(tr(node), dtype_of(node)) for node in nodes]


@handles("cuda.tcgen05_encode_matrix_descriptor")
def _descriptor(tr: Expressions, node: Any) -> Code:
    return encoded_descriptor(tr, node, encode)


@handles("ptx.tcgen05_alloc")
def _allocate(tr: Expressions, node: Any) -> Code:
    (address, columns), _ = tokens_of(node)
    at = retyped(tr, pointer(tr, address), "uint32", ZERO)
    tr.emitter.line(
        f"rt.tensor_memory.allocate({at.view}, {at.at.text}, {tr(columns).text}, {_group(node)},"
        f" {tr.mask}, {tr.statement})"
    )
    return NOTHING


@handles("ptx.tcgen05_relinquish_alloc_permit")
def _allocate_no_more(tr: Expressions, node: Any) -> Code:
    tr.emitter.line(f"rt.tensor_memory.allocate_no_more({tr.mask})")
    return NOTHING


@handles("ptx.tcgen05_dealloc")
def _free(tr: Expressions, node: Any) -> Code:
    address, columns = _values(tr, tokens_of(node)[0])
    tr.emitter.line(
        f"rt.tensor_memory.free({address}, {columns}, {_group(node)}, {tr.mask}, {tr.statement})"
    )
    return NOTHING


@handles("ptx.tcgen05_mma_ss", "ptx.tcgen05_mma_ts")
def _multiply(tr: Expressions, node: Any) -> Code:
    operands, tokens = tokens_of(node)
    address, lhs, rhs, code, *disabled, more = operands
    if any(int(getattr(lanes, "value", 1)) for lanes in disabled):
        raise SimulationError(f"the simulator takes products of all lanes: {node}")
    kind = _token(tokens, "kind::")
    sums, *descriptors, added = _values(tr, [address, lhs, rhs, code, more])
    here = operator_name(node).endswith("ts")
    if here and "cta_group::1" not in tokens:
        raise SimulationError(f"the simulator takes A in one workgroup's tensor memory: {node}")
    tr.emitter.line(
        f"rt.tensor_memory.multiply({kind!r}, {sums}, ({', '.join(descriptors)}), {added},"
        f" {_group(node)}, {tr.mask}, {tr.statement}, lhs_in_tensor_memory={here})"
    )
    return NOTHING


def _token(tokens: Sequence[str], prefix: str) -> str:
    """What follows a prefix in the name of an instruction."""
    return next(one for one in tokens if one.startswith(prefix)).removeprefix(prefix)


@handles("ptx.tcgen05_mma_block_scale_ss")
def _multiply_scaled(tr: Expressions, node: Any) -> Code:
    operands, tokens = tokens_of(node)
    if "cta_group::1" not in tokens:
        raise SimulationError(f"the simulator takes products of one workgroup: {node}")
    kind, vector = _token(tokens, "kind::"), _token(tokens, "scale_vec::")
    sums, lhs, rhs, code, *scales, more = _values(tr, list(operands))
    tr.emitter.line(
        f"rt.tensor_memory.multiply_scaled({kind!r}, {vector!r}, {sums}, ({lhs}, {rhs}, {code}),"
        f" ({', '.join(scales)}), {more}, {tr.mask}, {tr.statement})"
    )
    return NOTHING


@handles("ptx.tcgen05_cp")
def _copy_scales(tr: Expressions, node: Any) -> Code:
    operands, tokens = tokens_of(node)
    if not {"cta_group::1", "32x128b", "warpx4"} <= set(tokens) or "b8x16" in tokens:
        raise SimulationError(f"the simulator takes copies of 32x128b to four subgroups: {node}")
    address, descriptor = _values(tr, list(operands))
    tr.emitter.line(
        f"rt.tensor_memory.copy_scales({address}, {descriptor}, {tr.mask}, {tr.statement})"
    )
    return NOTHING


@handles("ptx.tcgen05_commit")
def _commit(tr: Expressions, node: Any) -> Code:
    at = pointer(tr, tokens_of(node)[0][0])
    tr.emitter.line(
        f"rt.tensor_memory.commit({at.view}, {at.at.text}, {_group(node)}, {tr.mask},"
        f" {tr.statement})"
    )
    return NOTHING


@handles("ptx.tcgen05_commit_multicast")
def _commit_to_pair(tr: Expressions, node: Any) -> Code:
    barrier, targets = tokens_of(node)[0]
    at = pointer(tr, barrier)
    done = f"rt.tensor_memory.committed({_group(node)}, {tr.mask}, {tr.statement})"
    tr.emitter.line(
        f"rt.pair.commit(rt.rank, {at.view}, {at.at.text}, {int(targets.value)}, {done},"
        f" {tr.mask}, {tr.statement})"
    )
    return NOTHING


@handles("ptx.tcgen05_ld")
def _load(tr: Expressions, node: Any) -> Code:
    operands, tokens = tokens_of(node)
    if "32x32b" not in tokens or "pack::16b" in tokens:
        raise SimulationError(f"the simulator takes loads of 32x32b: {node}")
    *targets, address = operands
    (at,) = _values(tr, [address])
    tr.emitter.line(
        f"rt.tensor_memory.load({local_places(tr, targets)}, {at}, {tr.mask}, {tr.statement})"
    )
    return NOTHING


@handles("ptx.tcgen05_st")
def _store(tr: Expressions, node: Any) -> Code:
    operands, tokens = tokens_of(node)
    if "32x32b" not in tokens or "unpack::16b" in tokens:
        raise SimulationError(f"the simulator takes stores of 32x32b: {node}")
    address, *registers = operands
    (at,) = _values(tr, [address])
    values = operand_values(tr, registers)
    tr.emitter.line(f"rt.tensor_memory.store({values}, {at}, {tr.mask}, {tr.statement})")
    return NOTHING


@handles("ptx.tcgen05_wait")
def _wait(tr: Expressions, node: Any) -> Code:
    what = "loads" if "wait::ld" in tokens_of(node)[1] else "stores"
    tr.emitter.line(f"rt.tensor_memory.wait_for_{what}({tr.mask})")
    return NOTHING


@handles("ptx.tcgen05_fence")
def _fence(tr: Expressions, node: Any) -> Code:
    after = "fence::after_thread_sync" in tokens_of(node)[1]
    tr.emitter.line(f"rt.tensor_memory.fence_{'after' if after else 'before'}({tr.mask})")
    return NOTHING
