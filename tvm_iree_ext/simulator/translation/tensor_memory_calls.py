"""Calls of ``tcgen05``, and of what makes its matrix descriptors."""

from typing import Any

from tvm_iree_ext.base.errors import SimulationError
from tvm_iree_ext.simulator.machine.tensor_products import encode
from tvm_iree_ext.simulator.translation.lane_expressions import Expressions, dtype_of
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


@handles("ptx.tcgen05_mma_ss")
def _multiply(tr: Expressions, node: Any) -> Code:
    operands, tokens = tokens_of(node)
    address, lhs, rhs, code, *disabled, more = operands
    if any(int(getattr(lanes, "value", 1)) for lanes in disabled):
        raise SimulationError(f"the simulator takes products of all lanes: {node}")
    kind = next(token for token in tokens if token.startswith("kind::")).removeprefix("kind::")
    sums, *descriptors, added = _values(tr, [address, lhs, rhs, code, more])
    tr.emitter.line(
        f"rt.tensor_memory.multiply({kind!r}, {sums}, ({', '.join(descriptors)}), {added},"
        f" {_group(node)}, {tr.mask}, {tr.statement})"
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


@handles("ptx.tcgen05_wait")
def _wait(tr: Expressions, node: Any) -> Code:
    tr.emitter.line(f"rt.tensor_memory.wait_for_loads({tr.mask})")
    return NOTHING


@handles("ptx.tcgen05_fence")
def _fence(tr: Expressions, node: Any) -> Code:
    after = "fence::after_thread_sync" in tokens_of(node)[1]
    tr.emitter.line(f"rt.tensor_memory.fence_{'after' if after else 'before'}({tr.mask})")
    return NOTHING
