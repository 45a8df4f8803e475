"""The GPU rules of ``iree_linalg_ext.fft``, one butterfly stage, and of whole transforms."""

from typing import Any

from tvm import ir, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.target import Target
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.ops.base.parameters import Parameters
from tvm_iree_ext.ops.families.fft.fft import Fft
from tvm_iree_ext.ops.families.fft.fft_transform import FftTransform
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.base.config import LoweringConfig
from tvm_iree_ext.schedules.base.rule import ConfigCheck
from tvm_iree_ext.schedules.base.space import Choice, TuningSpace, form, powers_of_two, refusal
from tvm_iree_ext.schedules.emit import i64
from tvm_iree_ext.schedules.gpu.base.gpu_rule import GpuRule
from tvm_iree_ext.schedules.gpu.emit.chip_math import held
from tvm_iree_ext.schedules.gpu.emit.launches import WorkgroupShape, for_each, workgroup_shape
from tvm_iree_ext.schedules.gpu.fft.fft_passes import TransformShape, transform_kernel
from tvm_iree_ext.schedules.shared.fft.fft_roots import unit_roots
from tvm_iree_ext.targets.gpu import gpu_chip, subgroup_size
from tvm_iree_ext.tir.tir_expressions import Expr, cast

_LANES = 256
_SHARED_BYTES = 32 << 10  # of a workgroup: enough for its lanes, and several fit a core
_RADIX = 8  # points of a lane: with their turns within 64 registers
_MOST_RADIX = 16
_PARTS = ("real", "imag")


class GpuFft(GpuRule):
    """A butterfly stage on GPUs, a lane for each butterfly."""

    name = "gpu.fft"
    lowers = Fft

    def heuristic(self, op: Fft, target: Target) -> LoweringConfig:
        """As many lanes as hide the way to memory."""
        return LoweringConfig(algorithm="butterflies", workgroup_tile={"lanes": _LANES})

    def space(self, op: Fft, target: Target) -> TuningSpace:
        """The lanes of a workgroup."""
        lanes = powers_of_two(subgroup_size(target), gpu_chip(target).max_lanes)
        return TuningSpace(
            (form(self.heuristic(op, target), Choice("workgroup_tile.lanes", lanes)),)
        )

    def lower(self, op: Fft, target: Target, config: LoweringConfig) -> ir.IRModule:
        """The module with the kernel of ``op``.

        Raises:
            ScheduleError: for a config that this rule cannot use, saying which number.
        """
        check = self.check(config)
        check.algorithm("butterflies")
        shape = workgroup_shape(check, target)
        with IRBuilder() as builder, I.prim_func(s_tir=True):
            _emit_stage(op, shape)
        return ir.IRModule({op.entry: builder.get()})


def _emit_stage(op: Fft, shape: WorkgroupShape) -> None:
    parameters = Parameters.declare(op)
    dtype = op.compute_dtype
    extents = [parameters.extent(extent) for extent in op.shape]
    stage = parameters.scalars["stage"] if op.stage == "operand" else i64(op.stage)
    # Of a stage below 1, which there is none, nothing fits.
    bits = tirx.Select(stage >= 1, tirx.min(stage - 1, i64(61)), i64(61))
    half = i64(1) << bits if op.stage == "operand" else i64(1 << (int(op.stage) - 1))
    with I.sblock("root"):
        flat = {name: emit.flat(buffer) for name, buffer in parameters.buffers.items()}
        for name, buffer in flat.items():
            IRBuilder.name(name, buffer)
        total = emit.product(extents)
        with for_each(emit.ceil_div(total, 2), shape) as number:
            block, j = emit.divide(number, half)
            j = I.Bind(j)
            low = I.Bind(block * half * 2 + j)
            # A stage that the line or the coefficients do not have, which only a caller can give,
            # is not computed.
            fits = tirx.And(low + half < i64(total), half * 2 <= i64(extents[-1]))
            if op.coefficients is not None:
                fits = tirx.And(fits, half <= i64(parameters.extent(op.coefficients)))
            with I.If(fits), I.Then():
                _butterfly(op, flat, j, low, I.Bind(low + half), half, dtype)


def _butterfly(
    op: Fft, flat: dict[str, Any], j: Expr, low: Expr, high: Expr, half: Expr, dtype: str
) -> None:
    if op.coefficients is not None:
        w = [held(cast(flat[f"{part}_coeff"][j], dtype)) for part in _PARTS]
    else:
        w = [held(part) for part in unit_roots(j, half * 2, dtype, 1)]
    u = [held(cast(flat[f"{part}_init"][low], dtype)) for part in _PARTS]
    a = [held(cast(flat[f"{part}_init"][high], dtype)) for part in _PARTS]
    t = held(w[0] * a[0] - w[1] * a[1]), held(w[0] * a[1] + w[1] * a[0])
    for place, part in enumerate(_PARTS):
        I.buffer_store(flat[part], cast(u[place] + t[place], op.dtype), [low])
        I.buffer_store(flat[part], cast(u[place] - t[place], op.dtype), [high])


class GpuFftTransform(GpuRule):
    """A whole transform on GPUs."""

    name = "gpu.fft_transform"
    lowers = FftTransform

    def heuristic(self, op: FftTransform, target: Target) -> LoweringConfig:
        """Lines of up to some thousand elements in shared memory, eight points a lane at a time."""
        item = item_bytes(op.compute_dtype)
        elements = _SHARED_BYTES // (4 * item)
        lanes = min(_LANES, max(subgroup_size(target), elements // _RADIX))
        return LoweringConfig(
            algorithm="stockham",
            workgroup_tile={"elements": elements, "lanes": lanes},
            register_tile={"radix": _RADIX},
        )

    def space(self, op: FftTransform, target: Target) -> TuningSpace:
        """The largest radix, what lies in shared memory, the lanes."""
        lanes = powers_of_two(subgroup_size(target), gpu_chip(target).max_lanes)
        choices = (
            Choice("workgroup_tile.elements", powers_of_two(128, 4096)),
            Choice("workgroup_tile.lanes", lanes),
            Choice("register_tile.radix", powers_of_two(2, _MOST_RADIX)),
        )
        usual = self.heuristic(op, target)

        def refused(config: LoweringConfig) -> str | None:
            return refusal(lambda: self._shape(op, target, self.check(config)))

        return TuningSpace.of(usual, [form(usual, *choices)], refused)

    def lower(self, op: FftTransform, target: Target, config: LoweringConfig) -> ir.IRModule:
        """The module with the kernels of ``op``.

        Raises:
            ScheduleError: for a config that this rule cannot use, saying which number.
        """
        shape = self._shape(op, target, self.check(config))
        return ir.IRModule({op.entry: transform_kernel(op, shape)})

    @staticmethod
    def _shape(op: FftTransform, target: Target, check: ConfigCheck) -> TransformShape:
        check.algorithm("stockham")
        elements = check.tile("workgroup_tile", "elements")
        check.power_of_two("workgroup_tile['elements']", elements, _MOST_RADIX)
        radix = check.tile("register_tile", "radix", _MOST_RADIX)
        check.power_of_two("register_tile['radix']", radix, 2)
        taken = 4 * elements * item_bytes(op.compute_dtype)
        most = gpu_chip(target).declared_shared_memory_bytes
        check.need(taken <= most, f"{elements} elements are {taken} bytes; there are {most}")
        return TransformShape(workgroup_shape(check, target), elements, radix)
