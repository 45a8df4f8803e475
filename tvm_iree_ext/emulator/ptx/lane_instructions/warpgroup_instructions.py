"""Products by four warps, whose operands lie in shared memory: ``wgmma``.

Source: PTX ISA 9.0, *Asynchronous Warpgroup Level Matrix Instructions*; of descriptors *Matrix
Descriptor Format* and *Strides*, whose meaning for each layout is that of CUTLASS's canonical
layouts (``cute/arch/mma_sm90_desc.hpp``).  A product ends when its group is waited for, or at once:
see :mod:`..machine.pending_products`.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tvm_iree_ext.emulator.findings import BOUNDS, INSTRUCTION
from tvm_iree_ext.emulator.ptx.lane_instructions.matrix_instructions import (
    accumulated,
    as_registers,
    element_values,
    from_registers,
    numbers,
    product,
    stacked,
)
from tvm_iree_ext.emulator.ptx.lane_instructions.matrix_layouts import (
    accumulator,
    gathered,
    left,
    scattered,
)
from tvm_iree_ext.emulator.ptx.lane_instructions.tensor_copies import swizzled
from tvm_iree_ext.emulator.ptx.machine.execution import Execution
from tvm_iree_ext.emulator.ptx.reading.scalar_types import Value
from tvm_iree_ext.emulator.ptx.reading.syntax import (
    PtxImmediate,
    PtxInstruction,
    PtxOperand,
    RegisterVector,
)
from tvm_iree_ext.emulator.ptx.values.operations import PtxOperation, instruction, items, on_lanes

_WARPS = 4  # of a warpgroup
_M = 64
_SHAPE = re.compile(r"m64n(\d+)k(\d+)")
_BITS = {"tf32": 32, "f16": 16, "bf16": 16, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8}
_SWIZZLE_BYTES = {0: 16, 1: 128, 2: 64, 3: 32}  # by bits 62 and 63 of a descriptor


@dataclass(frozen=True)
class _Form:
    """The modifiers of a product."""

    n: int
    k: int
    d_kind: str
    a_kind: str
    b_kind: str


@instruction("wgmma")
def _wgmma(one: PtxInstruction) -> PtxOperation:
    """*wgmma.fence*, *mma_async*, *commit_group*, *wait_group*."""
    if one.has("mma_async"):
        return _mma_async(one)
    if one.has("wait_group"):
        (newest,) = one.operands
        assert isinstance(newest, PtxImmediate)
        count = newest.value
        return on_lanes(
            lambda lanes: lanes.products.wait(lanes, count, Execution.again, lanes.put), ()
        )
    if one.has("commit_group"):
        return on_lanes(lambda lanes: lanes.products.commit(lanes), ())
    if one.has("fence"):
        return on_lanes(lambda lanes: lanes.products.fence(lanes), ())
    raise ValueError("a form of wgmma")


def _mma_async(one: PtxInstruction) -> PtxOperation:
    """*wgmma.mma_async*: D = A x B + D, or A x B; A from registers or shared memory."""
    if one.has("sp"):
        raise ValueError("a sparse wgmma")
    shape = next(filter(None, map(_SHAPE.fullmatch, one.modifiers)))
    kinds = [name for name in one.modifiers if name in _BITS or name in ("f32", "s32")]
    form = _Form(int(shape[1]), int(shape[2]), *kinds)
    target, a, b, scale_d, *immediates = one.operands
    in_registers = isinstance(a, RegisterVector)
    held_kind = {"f16": "b32"}.get(form.d_kind, form.d_kind)
    registers = items(target)
    signs, major_a, major_b = _immediates(immediates, in_registers)
    a_sources: list[tuple[PtxOperand, str]] = [
        (operand, "b32" if in_registers else "b64") for operand in items(a)
    ]

    def function(lanes: Execution, *values: Value) -> Any:
        held = values[len(a_sources) + 2 :]
        started = _Product(
            form, values[: len(a_sources)], values[len(a_sources)], values[len(a_sources) + 1],
            held, signs, in_registers, major_a, major_b,
        )  # fmt: skip
        used: np.ndarray = np.asarray(lanes.active.any(axis=1))
        if used.all():
            result = _started(lanes, lanes.active, started, lanes.targets)
        else:
            rows = np.flatnonzero(used) if lanes.rows is None else lanes.rows[used]
            active = lanes.active[used]
            some = _started(lanes.again(rows), active, started.some(used), lanes.targets)
            result = tuple(map(_merged(lanes, used), held, some))
        return result if len(result) > 1 else result[0]

    sources = [*a_sources, (b, "b64"), (scale_d, "pred")]
    sources += [(register, held_kind) for register in registers]
    targets = [(register, held_kind) for register in registers]
    return on_lanes(function, sources, targets, whole_warp=True)


def _started(
    lanes: Execution, active: np.ndarray, product_: "_Product", targets: tuple[int, ...]
) -> tuple[Value, ...]:
    """Start a product of warps: what its registers hold from now on."""
    numbers = lanes.warps.numbers if lanes.rows is None else lanes.warps.numbers[lanes.rows]
    if not active.all() or not _by_fours(numbers):
        lanes.found(INSTRUCTION, "not all lanes of the warpgroup execute it")
        return product_.held
    return lanes.products.start(lanes, product_, targets)


def _by_fours(numbers: np.ndarray) -> bool:
    """Whether warps are whole warpgroups."""
    if len(numbers) % _WARPS:
        return False
    fours = numbers.reshape(-1, _WARPS)
    return bool((fours == fours[:, :1] // _WARPS * _WARPS + np.arange(_WARPS)).all())


def _merged(lanes: Execution, used: np.ndarray) -> Callable[[Value, Value], Value]:
    """Registers of all warps, of which some have new values."""

    def merged(old: Value, new: Value) -> Value:
        whole = np.array(lanes.full(old))
        whole[used] = new
        return whole

    return merged


def _immediates(
    immediates: list[PtxOperand], in_registers: bool
) -> tuple[tuple[int, int], bool, bool]:
    """Signs of A and B, and whether M and N are contiguous."""
    values = [one.value for one in immediates if isinstance(one, PtxImmediate)]
    signs = (values[0], values[1]) if len(values) >= 2 else (1, 1)
    majors = values[2:]
    if in_registers:
        return signs, False, bool(majors and majors[0])
    return signs, bool(majors and majors[0]), bool(len(majors) > 1 and majors[1])


@dataclass(frozen=True)
class _Product:
    """A product with its operands, as they were when it began."""

    form: _Form
    a: tuple[Value, ...]
    b: Value
    adds: Value
    held: tuple[Value, ...]
    signs: tuple[int, int]
    in_registers: bool
    major_a: bool
    major_b: bool

    def some(self, chosen: np.ndarray) -> "_Product":
        """The same of some of its warps."""

        def part(value: Value) -> Value:
            return value[chosen] if np.ndim(value) and len(value) > 1 else value

        return replace(
            self, a=tuple(map(part, self.a)), b=part(self.b), adds=part(self.adds),
            held=tuple(map(part, self.held)),
        )  # fmt: skip

    def result(self, lanes: Execution, held: tuple[Value, ...]) -> tuple[Value, ...]:
        """The accumulator's registers, of warps by fours."""
        form = self.form
        bits = _BITS[form.a_kind]
        groups = lanes.count // _WARPS
        if self.in_registers:
            words = stacked(self.a, lanes, np.uint32)
            each = 32 // bits
            fragments = gathered(numbers(words, form.a_kind), left(16, form.k, each))
            a = fragments.reshape(groups, _M, form.k)
        else:
            a = self._tile(lanes, self.a[0], _M, form.a_kind, self.major_a)
        b = self._tile(lanes, self.b, form.n, form.b_kind, self.major_b)
        total = product(a * self.signs[0], np.swapaxes(b, 1, 2) * self.signs[1])
        places = accumulator(16, form.n)
        total = total.reshape(lanes.count, 16, form.n)
        before = gathered(from_registers(held, lanes, form.d_kind), places)
        adds = lanes.full(self.adds)[:, :1, None]
        result = accumulated(total + np.where(adds, before, 0), form.d_kind)
        return as_registers(scattered(result, places), form.d_kind)

    def _tile(
        self, lanes: Execution, descriptor: Value, outer: int, kind: str, outer_major: bool
    ) -> np.ndarray:
        """A tile [warpgroups, outer, k] of shared memory."""
        whole = lanes.full(descriptor)
        if (whole.reshape(lanes.count // _WARPS, -1) != whole[::_WARPS, :1]).any():
            lanes.found(INSTRUCTION, "the lanes of a warpgroup give different descriptors")
        bits = _BITS[kind]
        offsets = tile_offsets(whole[::_WARPS, 0], outer, self.form.k, bits, outer_major)
        shared = lanes.spaces.shared
        if (offsets < 0).any() or int(offsets.max()) + bits // 8 > shared.size:
            lanes.found(BOUNDS, f"a tile outside of the {shared.size} bytes of shared memory")
            offsets = np.clip(offsets, 0, shared.size - bits // 8)
        starts = lanes.groups[::_WARPS, None, None] * shared.stride
        raw = shared.take(starts + offsets, f"u{bits // 8}", lanes)
        if kind == "tf32":
            return numbers(raw, kind)
        return element_values(raw, kind)


def tile_offsets(
    descriptors: np.ndarray, outer: int, k: int, bits: int, outer_major: bool
) -> np.ndarray:
    """Bytes of shared memory of elements [descriptors, outer, k]; outer is M or N.

    contiguous  swizzle  a matrix is              along K   along outer
    K           no       8 rows of 16 bytes       leading   stride
    K           yes      8 rows of its width      inside    stride
    outer       no       8 of K, of 16 bytes      leading   stride
    outer       yes      8 of K, of its width     stride    leading
    """
    words = descriptors.astype(np.uint64)

    def field(first: int) -> np.ndarray:
        part = (words >> np.uint64(first)) & np.uint64(0x3FFF)
        return part.astype(np.int64)[:, None, None] << 4

    start, leading, stride = field(0), field(16), field(32)
    modes = (words >> np.uint64(62)).astype(np.int64)
    found = np.empty((len(words), outer, k), np.int64)
    i, j = np.arange(outer)[:, None], np.arange(k)[None]
    for mode in np.unique(modes):
        chosen = modes == mode
        width = _SWIZZLE_BYTES[int(mode)]
        lead, far = leading[chosen], stride[chosen]
        if outer_major:
            run = width * 8 // bits
            across, along = (far, lead) if width == 16 else (lead, far)
            at = i % run * bits // 8 + i // run * across + j % 8 * width + j // 8 * along
        else:
            byte = j * bits // 8
            at = i % 8 * width + i // 8 * far
            at = at + (byte // 16 * lead + byte % 16 if width == 16 else byte)
        found[chosen] = swizzled(start[chosen] + at, width)
    return found
