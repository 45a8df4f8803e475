"""The CPU rule for transfer_gather and transfer_scatter, as walks with constant steps."""

from collections.abc import Mapping

from tvm import tirx
from tvm.target import Target
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.ops.base.padding import padding_number
from tvm_iree_ext.ops.base.parameters import Parameters
from tvm_iree_ext.ops.base.symbol_maps import SymbolMap
from tvm_iree_ext.ops.families.transfer.transfer import Transfer
from tvm_iree_ext.ops.families.transfer.transfer_canonical import summable, summable_offset
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.base.cpu_rule import CpuRule
from tvm_iree_ext.schedules.cpu.base.parallel import outweighs_launch
from tvm_iree_ext.schedules.cpu.emit import strided_moves
from tvm_iree_ext.schedules.cpu.emit.strided import StridedBound, StridedLoops, TableNumber, Walk
from tvm_iree_ext.schedules.cpu.emit.tasks import Tasks
from tvm_iree_ext.schedules.emit import Expr, Index
from tvm_iree_ext.targets.cpu import CpuFeatures, cpu_features
from tvm_iree_ext.tir.tir_expressions import bits


class CpuTransfer(CpuRule):
    """transfer_gather and transfer_scatter on an LLVM CPU target."""

    name = "cpu.transfer"
    lowers = Transfer

    def usual(self, op: Transfer, target: Target) -> strided_moves.StridedConfig:
        """Rows, or squares where the vector crosses the base's memory; on all cores if large."""
        dynamic = bool(op.signature.symbols) and not op.gathers  # the copy of a scatter's base
        parallel = dynamic or outweighs_launch(self.name, op.bytes())
        cores = cpu_features(target).cores
        return strided_moves.strided_config(_static_walk(op), item_bytes(op.dtype), cores, parallel)

    def parse(
        self, op: Transfer, target: Target, config: LoweringConfig
    ) -> strided_moves.StridedConfig:
        """The rule's numbers in a config."""
        return strided_moves.parse_strided(_static_walk(op), self.check(config))

    def emit(
        self, op: Transfer, config: strided_moves.StridedConfig, features: CpuFeatures
    ) -> None:
        """Emit the function of ``op``."""
        _emit(op, config, features)


def _static_walk(op: Transfer) -> Walk:
    """The walk before there is a kernel: what is not known stands by a name."""
    names = [*op.signature.symbols, *(o.name for o in op.signature.operands if o.role == "scalar")]
    return transfer_walk(op, {name: tirx.Var(name, "int64") for name in names})


def transfer_walk(op: Transfer, values: Mapping[str, Expr]) -> Walk:
    """The walk over the vector's positions; ``values`` are of extents and scalars by name."""
    rank = len(op.extents)
    base: list[Index] = [e if isinstance(e, int) else values[e] for e in op.base.shape]
    steps: dict[str, list[list[Index]]] = {"far": [[] for _ in range(rank)]}
    starts: dict[str, list[Index]] = {"far": []}
    moves: dict[str, dict[str, list[Index]]] = {f"s{t}": {} for t in range(len(op.index_vecs))}
    summed = set()
    bounds = []
    for axis, (result, stride) in enumerate(
        zip(op.maps[0].results, emit.row_major(base), strict=True)
    ):
        given, extent = op.offsets[axis], base[axis]
        offset: Index = given if isinstance(given, int) else values[f"offset{axis}"]
        weights: dict[str, Index] = {"far": stride}
        if axis in op.checked_axes:
            name = f"axis{axis}"
            weights[name] = 1
            steps[name], starts[name] = [[] for _ in range(rank)], []
            if isinstance(offset, int) and isinstance(extent, int):
                bounds.append(StridedBound(name, extent - offset, -offset))
            else:
                is_summed = result in moves and offset != 0
                summed |= {result} if is_summed else set()
                offset = offset if isinstance(offset, int) else summable_offset(offset)
                starts[name].append(offset)
                bounds.append(StridedBound(name, extent, 0))
        starts["far"].append(emit.product([offset, stride]))
        for name, weight in weights.items():
            if result in moves:
                moves[result].setdefault(name, []).append(weight)
            elif result != "0":
                steps[name][int(result[1:])].append(weight)
    symbols = []
    for t, kind in enumerate(op.index_vecs):
        name = f"index{t}"
        moved = {far: emit.total(each) for far, each in moves[f"s{t}"].items()}
        if not moved:
            continue
        if kind.shape:
            symbols.append(TableNumber(name, moved, f"s{t}" in summed))
            steps[name] = _restricted(op, op.maps[1 + t])
            continue
        number = summable(values[name]) if f"s{t}" in summed else values[name]
        for far, weight in moved.items():
            starts[far].append(emit.product([number, weight]))
    if op.mask_map is not None:
        steps["mask"] = _restricted(op, op.mask_map)
    loops = {name: tuple(emit.total(one) for one in each) for name, each in steps.items()}
    loops["near"] = tuple(emit.row_major(op.extents))
    begins = {name: emit.total(each) for name, each in starts.items()}
    return Walk(StridedLoops(op.extents, loops).merged(), begins, symbols, bounds)


def _restricted(op: Transfer, one: SymbolMap) -> list[list[Index]]:
    """The steps of an operand whose shape is the vector's at the dims of its map."""
    steps: list[list[Index]] = [[] for _ in op.extents]
    shape = [op.extents[dim] for dim in one.dims]
    for dim, stride in zip(one.dims, emit.row_major(shape), strict=True):
        steps[dim].append(stride)
    return steps


def _emit(op: Transfer, config: strided_moves.StridedConfig, features: CpuFeatures) -> None:
    parameters = Parameters.declare(op)
    buffers = parameters.buffers
    values: dict[str, Expr] = {**parameters.symbols, **parameters.scalars}
    result = emit.flat_words(buffers["result"])
    base = emit.flat_words(buffers["base"])
    padding = None
    if op.gathers:
        near, far = result, base
        if op.padding == "operand":
            padding = I.Bind(bits(parameters.scalars["padding"], op.dtype))
        else:
            padding = bits(padding_number(op.padding or 0, op.dtype), op.dtype)
    else:
        near, far = emit.flat_words(buffers["vector"]), result
        extents = [e if isinstance(e, int) else values[e] for e in op.base.shape]
        Tasks(config.splits, config.parallel).copy(result, base, emit.product(extents))
    tables = {
        name: emit.flat(buffer) for name, buffer in buffers.items() if name.startswith("index")
    }
    mask = emit.flat_words(buffers["mask"]) if "mask" in buffers else None
    filled = all(isinstance(extent, int) for extent in op.base.shape)
    memory = strided_moves.StridedMemory(near, far, op.gathers, mask, tables, padding, filled)
    strided_moves.move(transfer_walk(op, values), memory, config, features)
