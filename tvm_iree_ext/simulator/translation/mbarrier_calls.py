"""Calls about barriers in shared memory, and copies of boxes by tensor maps."""

from typing import Any

from tvm_iree_ext.base.errors import SimulationError
from tvm_iree_ext.simulator.base.lane_values import element_type
from tvm_iree_ext.simulator.machine.pairs import mapped
from tvm_iree_ext.simulator.translation.lane_expressions import Expressions, dtype_of, operator_name
from tvm_iree_ext.simulator.translation.python_source import Code
from tvm_iree_ext.simulator.translation.value_calls import NOTHING, handles, pointer, tokens_of
from tvm_iree_ext.simulator.translation.warpgroup_calls import local_place


def _barrier(tr: Expressions, address: Any) -> str:
    at = pointer(tr, address)
    return f"{at.view}, {at.at.text}"


@handles("ptx.mbarrier_init")
def _init(tr: Expressions, node: Any) -> Code:
    address, count = tokens_of(node)[0]
    tr.emitter.line(
        f"rt.barriers.init({_barrier(tr, address)}, {int(count.value)}, {tr.mask}, {tr.statement})"
    )
    return NOTHING


@handles("ptx.fence_mbarrier_init")
def _fence(tr: Expressions, node: Any) -> Code:
    tr.emitter.line(f"rt.barriers.fence_init({tr.mask})")
    return NOTHING


@handles("ptx.mbarrier_arrive_nocount", "ptx.mbarrier_arrive", "ptx.mbarrier_arrive_expect_tx")
def _arrive(tr: Expressions, node: Any) -> Code:
    operands, tokens = tokens_of(node)
    address, *number = operands
    if "shared::cluster" in tokens:
        if number:
            raise SimulationError(f"the simulator takes one arrival in a cluster, not {node}")
        tr.emitter.line(
            f"rt.pair.arrive(rt.rank, {_in_cluster(tr, address)}, {tr.mask}, {tr.statement})"
        )
        return NOTHING
    nbytes = "0"
    if "expect_tx" in tokens:
        nbytes = tr(number[0]).text
    elif number:
        raise SimulationError(f"the simulator takes one arrival of a lane at a time: {node}")
    tr.emitter.line(
        f"rt.barriers.arrive({_barrier(tr, address)}, {nbytes}, {tr.mask}, {tr.statement})"
    )
    return NOTHING


@handles("ptx.cp_async_mbarrier_arrive")
def _arrive_with_copies(tr: Expressions, node: Any) -> Code:
    operands, tokens = tokens_of(node)
    if "noinc" not in tokens:
        raise SimulationError(f"the simulator knows arrivals that the barrier counts, not {node}")
    tr.emitter.line(
        f"rt.barriers.arrive_with_copies({_barrier(tr, operands[0])}, {tr.mask}, {tr.statement})"
    )
    return NOTHING


@handles("cuda.mbarrier_wait", "cuda.mbarrier_wait_acquire_cluster")
def _wait(tr: Expressions, node: Any) -> Code:
    address, parity = node.args
    number = tr.scalar(tr(parity), dtype_of(parity))
    tr.emitter.line(
        f"rt.barriers.wait({_barrier(tr, address)}, {number}, {tr.mask}, {tr.statement})"
    )
    return NOTHING


@handles("ptx.cp_async_bulk_tensor_g2s_cluster", "ptx.cp_async_bulk_tensor_g2s_cta")
def _copy_box(tr: Expressions, node: Any) -> Code:
    operands, tokens = tokens_of(node)
    target, tensor_map, *first, barrier = operands
    at = pointer(tr, target)
    corner = ", ".join(tr.scalar(tr(value), dtype_of(value)) for value in first)
    copy, place = "rt.barriers.copy_box(", ""
    if "cta_group::2" in tokens:
        copy, place = "rt.pair.copy_box(rt.rank, ", _in_cluster(tr, barrier)
    tr.emitter.line(
        f"{copy}{at.view}, {at.at.text}, {_tensor_map(tr, tensor_map)}, ({corner},),"
        f" {place or _barrier(tr, barrier)}, {tr.mask}, {tr.statement})"
    )
    return NOTHING


def _in_cluster(tr: Expressions, address: Any) -> str:
    """The value of an address in the cluster."""
    return tr.scalar(tr(address), dtype_of(address))


@handles("ptx.mapa_u32")
def _mapped(tr: Expressions, node: Any) -> Code:
    target, own, rank = tokens_of(node)[0]
    binding, index = local_place(tr, target)
    at = pointer(tr, own)
    function = tr.emitter.object("mapped", mapped, "mapped")
    size = element_type(at.dtype).itemsize
    address = f"{at.view}.memory.address + {at.at.text} * {size}"
    value = tr.emitter.here(f"{function}({address}, {int(rank.value)})", False)
    tr.store_at(binding, index, value, 1, "uint32")
    return NOTHING


@handles("ptx.barrier_cluster_arrive")
def _arrive_to_meet(tr: Expressions, node: Any) -> Code:
    tr.emitter.line(f"rt.pair.arrive_to_meet(rt.rank, {tr.mask}, {tr.statement})")
    return NOTHING


@handles("ptx.barrier_cluster_wait")
def _meet(tr: Expressions, node: Any) -> Code:
    tr.emitter.line(f"rt.pair.meet(rt.rank, {tr.mask}, {tr.statement})")
    return NOTHING


def _tensor_map(tr: Expressions, node: Any) -> str:
    while operator_name(node) in ("reinterpret", "address_of"):
        node = node.args[0]
    if node not in tr.variables:
        raise SimulationError(f"the simulator takes tensor maps that are parameters, not {node}")
    return tr.variables[node].text
