"""The simulator's check that a dimension has an index, called from checked GPU kernels."""

from typing import Any

import numpy as np

from tvm_iree_ext.access_checks.check_library import INDEX, access_of
from tvm_iree_ext.simulator.base.findings import BOUNDS, some
from tvm_iree_ext.simulator.base.lane_values import Value
from tvm_iree_ext.simulator.base.workgroup_state import NOBODY
from tvm_iree_ext.simulator.machine.workgroup import SimulatedWorkgroup
from tvm_iree_ext.simulator.translation.lane_expressions import Expressions
from tvm_iree_ext.simulator.translation.python_source import Code
from tvm_iree_ext.simulator.translation.value_calls import extern


@extern(INDEX)
def _index(tr: Expressions, node: Any) -> Code:
    """The index, and a finding where it is outside in a lane that takes part."""
    index, span, extent = (tr(argument) for argument in node.args[:3])
    ask = tr.emitter.object(("index", INDEX), _inside, "inside")
    text = (
        f"{ask}(rt, {index.text}, {span.text}, {extent.text}, {int(node.args[3])}, {tr.mask},"
        f" {tr.statement})"
    )
    return tr.emitter.here(text, index.uniform)


def _inside(
    rt: SimulatedWorkgroup,
    index: Value,
    span: Value,
    extent: Value,
    number: int,
    mask: Any,
    statement: int,
) -> Any:
    if mask is NOBODY:
        return 0
    at: Any = rt.decided(f"an index in {access_of(number)}", index, mask, statement)
    wrong: Any = (np.asarray(at) < 0) | (np.asarray(at) + span >= extent)
    if not wrong.any():
        return at
    lanes = np.flatnonzero(np.broadcast_to(wrong, (rt.lanes,)) & rt.active(mask))
    if lanes.size:
        first = int(np.broadcast_to(at, (rt.lanes,))[lanes[0]])
        message = f"{some(lanes)}: index {first} is outside of 0..{int(extent) - 1} in"
        rt.report(BOUNDS, statement, lanes, f"{message} {access_of(number)}", element=first)
    return np.where(wrong, 0, at) if np.ndim(at) else 0
