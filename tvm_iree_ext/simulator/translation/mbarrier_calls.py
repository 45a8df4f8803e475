"""Calls about barriers in shared memory, and copies of boxes by tensor maps."""

from typing import Any

from tvm_iree_ext.base.errors import SimulationError
from tvm_iree_ext.simulator.translation.lane_expressions import Expressions, dtype_of, operator_name
from tvm_iree_ext.simulator.translation.python_source import Code
from tvm_iree_ext.simulator.translation.value_calls import NOTHING, handles, pointer, tokens_of


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


@handles("cuda.mbarrier_wait")
def _wait(tr: Expressions, node: Any) -> Code:
    address, parity = node.args
    number = tr.scalar(tr(parity), dtype_of(parity))
    tr.emitter.line(
        f"rt.barriers.wait({_barrier(tr, address)}, {number}, {tr.mask}, {tr.statement})"
    )
    return NOTHING


@handles("ptx.cp_async_bulk_tensor_g2s_cluster", "ptx.cp_async_bulk_tensor_g2s_cta")
def _copy_box(tr: Expressions, node: Any) -> Code:
    operands, _ = tokens_of(node)
    target, tensor_map, *first, barrier = operands
    at = pointer(tr, target)
    corner = ", ".join(tr.scalar(tr(value), dtype_of(value)) for value in first)
    tr.emitter.line(
        f"rt.barriers.copy_box({at.view}, {at.at.text}, {_tensor_map(tr, tensor_map)},"
        f" ({corner},), {_barrier(tr, barrier)}, {tr.mask}, {tr.statement})"
    )
    return NOTHING


def _tensor_map(tr: Expressions, node: Any) -> str:
    while operator_name(node) in ("reinterpret", "address_of"):
        node = node.args[0]
    if node not in tr.variables:
        raise SimulationError(f"the simulator takes tensor maps that are parameters, not {node}")
    return tr.variables[node].text
