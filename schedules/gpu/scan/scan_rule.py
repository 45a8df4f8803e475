"""The GPU rule for scans: one walk along each line or, where lines are few and long, its parts.

    whole     a workgroup walks along its lines, tile by tile, with what lies before in registers
    rows      parts are tiles; workgroups tell one another what theirs come to
    columns   what each part of a line comes to; the scan of that; each part, from what lies before

Parts of columns are read twice, all else once.  A tile has few positions of a column: what
workgroups would have to tell one another of each is no longer little beside it.  Where the call
tells the extents, it tells which it is.
Each tile is scanned in brackets, the earlier always first:

    before the tile + subgroups before + accesses before + lanes before + elements of the lane

Where the order of the definition counts, a lane takes a line alone, element by element.
"""

from dataclasses import replace

from tvm import ir
from tvm.script.ir_builder import IRBuilder
from tvm.target import Target
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.intrin.kernel_attributes import EXACT_BUFFERS
from tvm_iree_ext.ops.families.scan import Scan
from tvm_iree_ext.schedules.gpu.lines.line_plan import LinePlan, LineShape
from tvm_iree_ext.schedules.gpu.lines.line_rule import LineRule
from tvm_iree_ext.schedules.gpu.lines.line_tile import ALIGNMENT_BYTES, LineWords
from tvm_iree_ext.schedules.gpu.scan.scan_kernels import ScanKernels
from tvm_iree_ext.schedules.shared.lines import held_dtype
from tvm_iree_ext.schedules.shared.scan_operands import ScanOperands


class GpuScan(LineRule):
    """Scans on NVIDIA's and AMD's GPUs."""

    name = "gpu.scan"
    lowers = Scan

    def lines(self, op: Scan) -> LineShape:
        """Shared by lanes where the op allows."""
        left = (held_dtype(op.type.dtype),)
        return replace(
            LineShape.of(op.type, op.dimension, op.in_order, left), looks_back=not op.in_order
        )

    def lower(self, op: Scan, target: Target, config: LoweringConfig) -> ir.IRModule:
        """The module with the function of ``op``.

        Raises:
            ScheduleError: for a config that this rule cannot use, saying which number.
        """
        plan = LinePlan.of(self.lines(op), target, self.check(config))
        with IRBuilder() as builder, I.prim_func(s_tir=True):
            I.func_attr({EXACT_BUFFERS: True})
            operands = ScanOperands.declare(op, align=ALIGNMENT_BYTES, make=LineWords.declare)
            ScanKernels(plan, operands).emit()
        return ir.IRModule({op.entry: builder.get()})
