"""The GPU rule for the Winograd transforms: a lane for each tile of a channel.

Neighbouring lanes have neighbouring channels, or filters, which is how transformed tiles lie in
memory.  A tile is in registers from where it is read to where it is written.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

from tvm import ir, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.target import Target
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.ops.base.parameters import Parameters
from tvm_iree_ext.ops.families.winograd.winograd import Winograd
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.base.space import TuningSpace, form, powers_of_two
from tvm_iree_ext.schedules.emit import Index, i64, known
from tvm_iree_ext.schedules.gpu.base.gpu_rule import GpuRule
from tvm_iree_ext.schedules.gpu.emit.chip_math import held
from tvm_iree_ext.schedules.gpu.emit.launches import LaneConfig, WorkgroupShape, for_each
from tvm_iree_ext.schedules.shared.winograd_products import multiply
from tvm_iree_ext.targets.gpu import subgroup_size
from tvm_iree_ext.tir.tir_expressions import Expr, cast

Element: TypeAlias = Callable[[int, int], Expr]
_LANES = 128  # each has a whole tile in registers


class GpuWinograd(GpuRule):
    """Winograd transforms on GPUs."""

    name = "gpu.winograd"
    lowers = Winograd

    def heuristic(self, op: Winograd, target: Target) -> LoweringConfig:
        """Workgroups small enough for the registers of a tile in each lane."""
        return LaneConfig("tiles", lanes=_LANES).lowering()

    def space(self, op: Winograd, target: Target) -> TuningSpace:
        """The lanes of a workgroup."""
        lanes = powers_of_two(subgroup_size(target), 256)
        choice = LaneConfig.choice("lanes", lanes)
        return TuningSpace((form(self.heuristic(op, target), choice),))

    def lower(self, op: Winograd, target: Target, config: LoweringConfig) -> ir.IRModule:
        """The module with the kernel of ``op``.

        Raises:
            ScheduleError: for a config that this rule cannot use, saying which number.
        """
        check = self.check(config)
        shape = LaneConfig.parse(check, "tiles").workgroup(check, target)
        with IRBuilder() as builder, I.prim_func(s_tir=True):
            _Tiles(op).emit(shape)
        return ir.IRModule({op.entry: builder.get()})


class _Tiles:
    def __init__(self, op: Winograd) -> None:
        self.op, self.dtype = op, op.compute_dtype
        self.parameters = Parameters.declare(op)
        self.extents: list[Index] = op.places(self.parameters)
        self.count = emit.product(self.extents)

    def emit(self, shape: WorkgroupShape) -> None:
        """The kernel."""
        with I.sblock("root"):
            names = ("input", "result")
            source, result = (emit.flat(self.parameters.buffers[name]) for name in names)
            for name, buffer in zip(names, (source, result), strict=True):
                IRBuilder.name(name, buffer)
            self.source, self.result = source, result
            with for_each(self.count, shape) as number:
                at = self._spread(number)
                if self.op.kind == "output":
                    self._transform(self._tiled(number), self._put_image(at))
                else:
                    is_filter = self.op.kind == "filter"
                    element = self._kernel(at) if is_filter else self._window(at)
                    self._transform(element, self._put_tiled(number))

    def _spread(self, number: Expr) -> list[Expr]:
        found: list[Expr] = []
        for extent in reversed(self.extents[1:]):
            number, value = map(I.Bind, emit.divide(number, extent))
            found.insert(0, value)
        return [number, *found]

    def _transform(self, element: Element, put: Callable[[int, int, Expr], None]) -> None:
        """``L X R^T``, by columns and then by rows."""
        down, across = self.op.factors
        rows, depth, columns = len(down), len(down[0]), len(across[0])
        between = emit.registers(rows * columns, self.dtype)
        for b in range(columns):
            column = [held(element(a, b)) for a in range(depth)]
            for p, value in enumerate(multiply(down, column, held)):
                I.buffer_store(between, value, [p * columns + b])
        for p in range(rows):
            row = [between[p * columns + b] for b in range(columns)]
            for q, value in enumerate(multiply(across, row, held)):
                put(p, q, value)

    def _tiled_at(self, number: Expr, p: int, q: int) -> Expr:
        place = p * self.op.across(self.op.input_tile_size)[1] + q
        return number + i64(self.count) * place if place else number

    def _tiled(self, number: Expr) -> Element:
        return lambda p, q: cast(self.source[self._tiled_at(number, p, q)], self.dtype)

    def _put_tiled(self, number: Expr) -> Callable[[int, int, Expr], None]:
        return lambda p, q, value: self._store(self._tiled_at(number, p, q), value)

    def _store(self, at: Expr, value: Expr) -> None:
        I.buffer_store(self.result, cast(value, str(self.result.dtype)), [at])

    def _kernel(self, at: list[Expr]) -> Element:
        """Elements of a filter's kernel: (m, m, C, F) or (F, C, m, m)."""
        down, across = self.op.factors
        m = len(across[0])
        if self.op.is_tile:
            first = i64(0)
        elif self.op.channels_last:
            count = emit.product(self.extents)
            return lambda a, b: self._load(
                i64(count) * (a * m + b) + at[0] * i64(self.extents[1]) + at[1]
            )
        else:
            first = (at[1] * i64(self.extents[0]) + at[0]) * (len(down[0]) * m)
        return lambda a, b: self._load(first + (a * m + b))

    def _load(self, at: Expr) -> Expr:
        return cast(self.source[at], self.dtype)

    def _place(self, at: list[Expr]) -> tuple[Expr, Expr, Expr, Expr]:
        """Image, first row and column of a tile, and channel."""
        down, across = self.op.across(self.op.output_tile_size)
        if self.op.is_tile:
            return i64(0), i64(0), i64(0), i64(0)
        n, h, w, c = at
        return n, h * down, w * across, c

    def _pixel(self, n: Expr, y: Expr, x: Expr, c: Expr) -> Expr:
        _, height, width, channels = map(i64, self.op.plane(self.parameters))
        if self.op.channels_last:
            return ((n * height + y) * width + x) * channels + c
        return ((n * channels + c) * height + y) * width + x

    def _window(self, at: list[Expr]) -> Element:
        """Elements of an image's window; 0 past its edges."""
        _, height, width, _ = self.op.plane(self.parameters)
        n, row, column, c = self._place(at)
        steps = self.op.across(self.op.output_tile_size)
        sizes = self.op.across(self.op.input_tile_size)
        tiles = self.extents[1:3] if not self.op.is_tile else (1, 1)

        def reaches(extent: Index, axis: int) -> bool:
            """Whether windows may go past an edge."""
            known_count, known_extent = known(tiles[axis]), known(extent)
            if known_count is None or known_extent is None:
                return sizes[axis] > 1
            return (known_count - 1) * steps[axis] + sizes[axis] > known_extent

        down, across = reaches(height, 0), reaches(width, 1)

        def element(a: int, b: int) -> Expr:
            y, x = row + a, column + b
            inside = [y < i64(height)] if down else []
            inside += [x < i64(width)] if across else []
            place = self._pixel(n, y, x, c)
            if not inside:
                return self._load(place)
            cell = emit.registers(1, self.dtype)
            I.buffer_store(cell, tirx.const(0.0, self.dtype), [0])
            with I.If(tirx.all(*inside)), I.Then():
                I.buffer_store(cell, self._load(place), [0])
            return cell[0]

        return element

    def _put_image(self, at: list[Expr]) -> Callable[[int, int, Expr], Any]:
        n, row, column, c = self._place(at)
        return lambda a, b, value: self._store(self._pixel(n, row + a, column + b, c), value)
