"""What this machine can do at most, measured: multiply-adds and memory reads per second.

Kernels of our own, through the pipeline that all kernels take:

    fma:   count chains in registers, each x = x * a + b; enough of them to hide the latency
    dots:  the same, of an instruction that adds products of neighbours of a type to each x
    tiles: the same, of one that multiplies tiles of them, four side by side
    read:  the sum of an array, a contiguous part of it per thread: of one that no cache holds, and
           of smaller ones, several times over

Each figure is the best of many short runs: whatever else a machine does only ever slows it down.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tvm
from tvm import ir, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.target import Target
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import item_bytes, numpy_dtype
from tvm_iree_ext.base.errors import BuildError
from tvm_iree_ext.codegen.cpu import cpu_pipeline
from tvm_iree_ext.runtime import tvm_runtime
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.products import amx
from tvm_iree_ext.schedules.cpu.products.amx import TILE, TilePlace, TileProduct, tile_product
from tvm_iree_ext.schedules.cpu.products.dot_products import dot_product_of
from tvm_iree_ext.schedules.emit import i64
from tvm_iree_ext.targets.cpu import CpuFeatures, cpu_features
from tvm_iree_ext.targets.names import TargetLike, make_target

_FMA_STEPS = 200_000
_TILE_STEPS = 20_000
_TILE_PAIR = 2  # tiles of each factor that are multiplied with one another
_SPARE_REGISTERS = 4  # for a, b and what LLVM wants
_READ_BYTES = 256 << 20  # beyond the last cache of most machines
_READ_VECTORS = 8  # sums in flight
_CACHED_BYTES = (1 << 20, 4 << 20, 16 << 20, 64 << 20)
_CACHED_PASSES = 8  # in a call, so that waking threads is little beside them
_PASSED_BYTES = 128 << 20  # by such a call: the shorter it is, the more often nobody interrupts it
_SECONDS = 0.25  # of each figure


@dataclass(frozen=True)
class Peaks:
    """The figures for one number of threads."""

    threads: int
    gflops: dict[str, float]
    """Multiply-adds in registers, counted as two, by element type: the most of all ways."""
    read_gbps: float
    """Memory that is read, in 10^9 bytes per second."""
    cached_gbps: dict[int, float] = field(default_factory=dict)
    """Arrays that are read again and again, by their bytes."""

    def multiply_adds(self, dtype: str) -> float:
        """The rate for a type, in GFLOP/s; narrow ones can also be computed in float32."""
        own = self.gflops.get(dtype, 0.0)
        return max(own, self.gflops["float32"]) if item_bytes(dtype) < 4 or not own else own

    def gbps(self, footprint: int) -> float:
        """The rate for so many bytes: that of the next larger array, or of memory."""
        sizes = [size for size in self.cached_gbps if size >= footprint]
        return self.cached_gbps[min(sizes)] if sizes else self.read_gbps


def measure_peaks(
    threads: Sequence[int] = (1,),
    dtypes: Sequence[str] = ("float32", "float64"),
    target: TargetLike = "llvm",
) -> list[Peaks]:
    """The peaks for each number of threads; about a quarter of a second for each figure.

    Args:
        dtypes: beside those of which the CPU multiplies neighbours or tiles in one instruction.

    Raises:
        BuildError: for a target that is not this machine's CPU.
    """
    resolved = make_target(target)
    features = cpu_features(resolved)
    dtypes = (*dtypes, *sorted(features.dot_dtypes))
    fma = {dtype: _compiled(fma_kernel(features, dtype), resolved) for dtype in dtypes}
    tiles = {
        dtype: _compiled(tile_kernel(product), resolved)
        for dtype in features.tile_dtypes
        if (product := tile_product(features, dtype))
    }
    read, read_again = (
        _compiled(read_kernel(features, passes), resolved) for passes in (1, _CACHED_PASSES)
    )
    lanes = features.lanes(32)
    memory = _aligned((_READ_BYTES // 4 // (_READ_VECTORS * lanes), _READ_VECTORS * lanes))
    memory.fill(1.0)
    row_bytes = memory.shape[1] * 4
    found = []
    for count in threads:
        with tvm_runtime.threads(count):
            gflops = {dtype: _fma_gflops(fma[dtype], features, dtype, count) for dtype in dtypes}
            for dtype, call in tiles.items():
                gflops[dtype] = max(gflops.get(dtype, 0.0), _tile_gflops(call, dtype, count))
            sums = _aligned((count, lanes))
            cached = {}
            for size in _CACHED_BYTES:
                again = size * _CACHED_PASSES <= _PASSED_BYTES
                call, passes = (read_again, _CACHED_PASSES) if again else (read, 1)
                cached[size] = passes * _read_gbps(call, memory[: size // row_bytes], sums)
            found.append(Peaks(count, gflops, _read_gbps(read, memory, sums), cached))
    return found


def _read_gbps(call: Any, memory: np.ndarray, sums: np.ndarray) -> float:
    """The rate of one pass, each task of which reads as many rows."""
    tasks = len(sums)
    bytes_read = memory.nbytes // len(memory) * (len(memory) // tasks * tasks)
    return bytes_read / _least_seconds(lambda: call(memory, sums)) / 1e9


def _fma_gflops(call: Any, features: CpuFeatures, dtype: str, threads: int) -> float:
    dot = dot_product_of(features, dtype)
    held, group = (dot.sums, dot.group) if dot else (dtype, 1)
    lanes = features.lanes(item_bytes(held) * 8)
    factors = np.array([0.5, 1.0], numpy_dtype(dtype))  # x -> x / 2 + 1 stays near 2
    if dot:
        factors = factors.repeat(group).view(np.uint32)
    out = np.zeros((threads, lanes), numpy_dtype(held))
    seconds = _least_seconds(lambda: call(factors, out))
    return 2 * threads * _FMA_STEPS * _chains(features) * lanes * group / seconds / 1e9


def _tile_gflops(call: Any, dtype: str, threads: int) -> float:
    group = 4 // item_bytes(dtype)
    products = _TILE_STEPS * _TILE_PAIR**2 * TILE**3 * group
    out = np.zeros((threads, TILE), np.uint32)
    return 2 * threads * products / _least_seconds(lambda: call(out)) / 1e9


def _least_seconds(call: Callable[[], Any]) -> float:
    call()
    least, end = float("inf"), time.perf_counter() + _SECONDS
    while (start := time.perf_counter()) < end:
        call()
        least = min(least, time.perf_counter() - start)
    return least


def _aligned(shape: tuple[int, int]) -> np.ndarray:
    """A float32 array that starts on a cache line."""
    count = shape[0] * shape[1]
    room = np.empty(count + 16, np.float32)
    first = -room.ctypes.data % 64 // 4
    return room[first : first + count].reshape(shape)


def _compiled(func: tirx.PrimFunc, target: Target) -> Any:
    cpu_pipeline.register()
    name = str(func.attrs["global_symbol"])
    module = ir.IRModule({name: func})
    try:
        return tvm.compile(module, target, tir_pipeline=cpu_pipeline.CPU_PIPELINE)[name]
    except (RuntimeError, ValueError, TypeError) as error:  # TVM's checks raise all three
        raise BuildError(f"cannot measure the peaks of {target}: {error}") from error


def _chains(features: CpuFeatures) -> int:
    return features.vector_registers - _SPARE_REGISTERS


def fma_kernel(features: CpuFeatures, dtype: str) -> tirx.PrimFunc:
    """``fma(factors[2], out[tasks, lanes])``: the chains of each task, summed at the end.

    Of neighbours of ``dtype``, where an instruction multiplies those, factors are words.
    """
    dot = dot_product_of(features, dtype)
    held, given = (dot.sums, "uint32") if dot else (dtype, dtype)
    lanes, chains = features.lanes(item_bytes(held) * 8), _chains(features)
    tasks = tirx.Var("tasks", "int64")
    with IRBuilder() as builder, I.prim_func(s_tir=True):
        I.func_name("fma")
        I.func_attr({"global_symbol": "fma", "tirx.noalias": True})
        factors = I.arg("factors", I.buffer([2], given, align=item_bytes(given)))
        out = I.arg("out", I.buffer([tasks, i64(lanes)], held, align=item_bytes(held)))
        declared = dot.declared(lanes) if dot else nullcontext()
        with I.sblock("root"), declared, I.parallel(i64(0), tasks) as task:
            tile = emit.registers(chains * lanes, held)
            a, b = (I.Bind(emit.splat(factors[i], lanes)) for i in range(2))
            at = [[emit.run(chain * lanes, lanes)] for chain in range(chains)]
            for chain in range(chains):
                start = emit.splat(tirx.const(chain, held), lanes)
                I.buffer_store(tile, start if dot else b + start, at[chain])
            with emit.serial(_FMA_STEPS):
                for place in at:
                    x = tile[tuple(place)]
                    I.buffer_store(tile, dot.add(x, a, b, lanes) if dot else x * a + b, place)
            I.buffer_store(out, _sum(tile, at), [task, emit.run(0, lanes)])
    return builder.get()


def tile_kernel(product: TileProduct) -> tirx.PrimFunc:
    """``tiles(out[tasks, 16])``: products of tiles of zeros, by each task, and a row of them."""
    tasks = tirx.Var("tasks", "int64")
    with IRBuilder() as builder, I.prim_func(s_tir=True):
        I.func_name("tiles")
        I.func_attr({"global_symbol": "tiles", "tirx.noalias": True})
        out = I.arg("out", I.buffer([tasks, i64(TILE)], "uint32", align=4))
        with I.sblock("root"), amx.declared(), I.parallel(i64(0), tasks) as task:
            lines, row = _TILE_PAIR**2 * TILE, emit.run(0, TILE)
            factors, sums = (emit.scratch([lines, TILE], "uint32") for _ in range(2))
            with emit.serial(lines) as line:
                zeros = emit.splat(tirx.const(0, "uint32"), TILE)
                I.buffer_store(factors, zeros, [line, row])
            with amx.configured():
                product.multiply(
                    rows=_TILE_PAIR,
                    columns=_TILE_PAIR,
                    depth=_TILE_STEPS,
                    a=lambda i, k: TilePlace(factors, (i * TILE, 0), TILE),
                    b=lambda k, j: TilePlace(factors, ((_TILE_PAIR + j) * TILE, 0), TILE),
                    sums=lambda i, j: TilePlace(sums, ((i * _TILE_PAIR + j) * TILE, 0), TILE),
                    carried=False,
                )
            I.buffer_store(out, sums[i64(0), row], [task, row])
    return builder.get()


def read_kernel(features: CpuFeatures, passes: int = 1) -> tirx.PrimFunc:
    """``read(x[rows, 8 * lanes], out[tasks, lanes])``: each task sums its share of the rows.

    Args:
        features: of the CPU.
        passes: how many times it does.
    """
    lanes, dtype = features.lanes(32), "float32"
    tasks, rows = tirx.Var("tasks", "int64"), tirx.Var("rows", "int64")
    with IRBuilder() as builder, I.prim_func(s_tir=True):
        I.func_name("read")
        I.func_attr({"global_symbol": "read", "tirx.noalias": True})
        x = I.arg("x", I.buffer([rows, i64(_READ_VECTORS * lanes)], dtype, align=4))
        out = I.arg("out", I.buffer([tasks, i64(lanes)], dtype, align=4))
        with I.sblock("root"), I.parallel(i64(0), tasks) as task:
            tile = emit.registers(_READ_VECTORS * lanes, dtype)
            at = [[emit.run(vector * lanes, lanes)] for vector in range(_READ_VECTORS)]
            for place in at:
                I.buffer_store(tile, emit.splat(tirx.const(0.0, dtype), lanes), place)
            share = I.Bind(tirx.floordiv(rows, tasks))
            with emit.serial(passes), emit.serial(share) as row:
                for place in at:
                    loaded = x[task * share + row, place[0]]
                    I.buffer_store(tile, tile[tuple(place)] + loaded, place)
            I.buffer_store(out, _sum(tile, at), [task, emit.run(0, lanes)])
    return builder.get()


def _sum(tile: Any, at: Sequence[Any]) -> Any:
    total = tile[tuple(at[0])]
    for place in at[1:]:
        total = total + tile[tuple(place)]
    return total
