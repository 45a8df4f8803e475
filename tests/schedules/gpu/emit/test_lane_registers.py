"""Registers of a lane as runs of a local buffer."""

from tvm import tirx

from tvm_iree_ext.schedules.gpu.emit.lane_registers import LaneRegisters


def test_registers_that_do_not_lie_side_by_side_move_alone():
    buffer = tirx.decl_buffer((4, 2), "float16", scope="local")
    pairs = LaneRegisters(buffer, lambda register: [register // 2, register % 2])
    assert pairs.run(8, 4) == 2
    assert LaneRegisters(buffer, lambda register: [register % 4, register // 4]).run(8, 4) == 1
    assert LaneRegisters(buffer).run(6, 8) == 2
