"""A plan of attention for a config, refused where the chip has no room for it."""

from tvm.target import Target

from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.ops.families.attention.attention import Attention
from tvm_iree_ext.schedules.gpu.attention.attention_config import GpuAttentionConfig
from tvm_iree_ext.schedules.gpu.attention.attention_plan import AttentionPlan
from tvm_iree_ext.schedules.gpu.attention.attention_products import (
    Feed,
    is_multiply_add,
    product_kinds,
)
from tvm_iree_ext.schedules.gpu.attention.attention_registers import attention_registers
from tvm_iree_ext.targets.gpu import gpu_chip, subgroup_size


def plan_attention(op: Attention, target: Target, config: GpuAttentionConfig) -> AttentionPlan:
    """Derive a kernel's layouts and check them against the chip.

    Raises:
        ScheduleError: for a config that the chip or the op cannot have, saying why.
    """
    chip, size = gpu_chip(target), subgroup_size(target)
    first, second, column_major = product_kinds(chip, size, op, config.mma_kind)
    subgroups, rows, keys = config.subgroups, config.rows, config.keys
    row_tiles = rows // (subgroups * first.m)
    plan = AttentionPlan(op, config, chip, size, first, second, column_major, row_tiles)
    lanes = subgroups * size
    reasons = {
        f"{first.name} is not on {chip.name}": not (is_multiply_add(first) or first.on(chip.name)),
        f"{first.name} is for subgroups of {first.subgroup_size} lanes, not {size}": (
            first.subgroup_size != size
        ),
        f"{rows} rows are no multiple of {subgroups} subgroups of {first.m}": (
            rows % (subgroups * first.m) != 0 or rows < 1
        ),
        f"{keys} keys are no multiple of {first.n} and {second.k}": (
            keys % first.n != 0 or keys % second.k != 0 or keys < 1
        ),
        f"{lanes} lanes; a workgroup has at most {chip.max_lanes}": lanes > chip.max_lanes,
    }
    for reason, holds in reasons.items():
        if holds:
            raise ScheduleError(f"gpu.attention: {reason}")
    if plan.output_slots is None:
        raise ScheduleError(f"gpu.attention: {first.name} and {second.name} spread rows unalike")
    if plan.feed is Feed.SHUFFLE and list(order := second.operand("lhs").storage_order) != sorted(
        order
    ):
        raise ScheduleError(
            f"gpu.attention: {second.name} takes weights in an order that shuffles do not give"
        )
    if plan.shared_memory_bytes > chip.shared_memory_bytes:
        raise ScheduleError(
            f"gpu.attention: tiles of {keys} keys take {plan.shared_memory_bytes} bytes of shared"
            f" memory; a workgroup of {chip.name} has {chip.shared_memory_bytes}"
        )
    registers = attention_registers(plan)
    if registers > chip.max_registers:
        raise ScheduleError(
            f"gpu.attention: a lane needs some {registers} registers for {plan.row_tiles} x"
            f" {first.m} rows and {keys} keys; {chip.name} has {chip.max_registers}"
        )
    return plan
