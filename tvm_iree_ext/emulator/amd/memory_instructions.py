"""Loads, stores and atomics of global, private and scalar memory.

GLOBAL, FLAT, SCRATCH, MUBUF and SMEM instructions, and their like on RDNA 4.

Sources: "CDNA3 Instruction Set Architecture" and "RDNA3 Instruction Set Architecture", chapters
"Scalar Memory Operations", "Vector Memory Operations" (buffers, range checking) and "Flat Memory
Instructions".
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tvm_iree_ext.base.errors import EmulationError
from tvm_iree_ext.emulator.amd.access_forms import AccessForm, access_form
from tvm_iree_ext.emulator.amd.atomic_operations import AtomicOperation, atomic_operation
from tvm_iree_ext.emulator.amd.decoding import Instruction
from tvm_iree_ext.emulator.amd.operands import (
    PRIVATE_APERTURE,
    SHARED_APERTURE,
    is_register,
    pair,
    scalar_getter,
)
from tvm_iree_ext.emulator.amd.outstanding import MemoryOperation
from tvm_iree_ext.emulator.amd.running import Running
from tvm_iree_ext.emulator.amd.shared_memory import WorkgroupMemory
from tvm_iree_ext.emulator.amd.wave_state import FIRST_VECTOR, Array, CodeStep, Waves
from tvm_iree_ext.emulator.findings import BOUNDS, MISALIGNED

_NOTHING = ("BUFFER_WBL2", "BUFFER_INV", "BUFFER_GL0_INV", "BUFFER_GL1_INV", "GLOBAL_WB",
            "GLOBAL_INV", "GLOBAL_WBINV", "S_DCACHE_INV", "S_GL1_INV", "S_DCACHE_WB")  # fmt: skip
_SPACE = "memory"  # the same whichever instruction accesses it
_OFF = (124, 125, 127)  # SADDR that is none: NULL on RDNA, 0x7F on CDNA


def signed(value: int, bits: int) -> int:
    """A field as a number with a sign."""
    return value - (1 << bits) if value >> (bits - 1) & 1 else value


class VectorAccess:
    """Compiles an access of memory by all lanes into a step."""

    def __init__(self, instruction: Instruction, first_accumulator: int) -> None:
        self.instruction, self.chip = instruction, instruction.chip
        self._accumulators = first_accumulator if instruction.get("acc") else 0
        self.reads: set[int] = set()
        self.writes: set[int] = set()
        space, _, rest = instruction.name.partition("_")
        self._space = space  # GLOBAL, FLAT, SCRATCH or BUFFER
        self._kind, _, self._form_name = rest.partition("_")

    def step(self) -> CodeStep:
        """What executes it.

        Raises:
            EmulationError: for an access that is not emulated.
        """
        one = self.instruction
        if one.name.startswith(_NOTHING):
            return self._finished(lambda waves: None)
        if self._kind == "ATOMIC":
            return self._finished(self._atomic(atomic_operation(one)))
        form = access_form(self._form_name)
        if form is None or self._kind not in ("LOAD", "STORE") or one.get("lds"):
            raise EmulationError(f"{one.name} is not emulated")
        return self._finished(self._load(form) if self._kind == "LOAD" else self._store(form))

    def _finished(self, execute: Callable[[Any], None]) -> CodeStep:
        one = self.instruction
        reads, writes = frozenset(self.reads), frozenset(self.writes)
        return CodeStep(execute, one.place, one.place + one.size, one.__repr__, reads, writes)

    def _registers(self, field: str, count: int, into: set[int]) -> list[int]:
        """The rows of a field's vector registers."""
        first = self.instruction.get(field) - FIRST_VECTOR + self._accumulators
        rows = list(range(first, first + count))
        into.update(FIRST_VECTOR + row for row in rows)
        return rows

    @property
    def _data_field(self) -> str:
        one = self.instruction
        return next(name for name in ("vdata", "vsrc", "data") if one.has(name))

    @property
    def _target_field(self) -> str:
        return "vdst" if self.instruction.has("vdst") else "vdata"

    @property
    def _store_counter(self) -> str:
        return "vm" if self.chip.is_cdna else "vs"

    def _load(self, form: AccessForm) -> Callable[[Running], None]:
        address = self._addresses(form.bytes)
        # Loads come in order: one into registers that an earlier one writes needs no wait.
        rows = self._registers(self._target_field, max(1, form.bytes // 4), set())
        targets = [FIRST_VECTOR + row for row in rows]
        keeps = [form.kept] * len(rows) if form.kept else ()

        def execute(waves: Running) -> None:
            waves.outstanding.settle(_SPACE)
            values = self._read(waves, address, form)
            waves.outstanding.begin(
                MemoryOperation("vm", waves.active, waves.mask(), targets, values, keeps)
            )

        return execute

    def _read(
        self, waves: Running, address: Callable[[Running], Array], form: AccessForm
    ) -> list[Array]:
        places, mask = address(waves), waves.mask()
        if self._space == "SCRATCH":
            return form.loaded(_private_load(waves, places, form, mask))
        if self._space == "FLAT":
            return form.loaded(_flat_load(waves, places, form, mask))
        if self._space == "BUFFER":
            inside = places != np.uint64(0)
            mask = inside if mask is None else mask & inside
            values = waves.memory.load(places, form.element, form.count, mask, waves.site())
            return form.loaded(np.where(inside, values, 0).astype(form.element))
        return form.loaded(waves.memory.load(places, form.element, form.count, mask, waves.site()))

    def _store(self, form: AccessForm) -> Callable[[Running], None]:
        address = self._addresses(form.bytes)
        rows = self._registers(self._data_field, max(1, form.bytes // 4), self.reads)
        counter, space = self._store_counter, self._space

        def execute(waves: Running) -> None:
            places = address(waves)
            values = form.stored([waves.vector[row] for row in rows])
            mask, site = waves.full_mask(), waves.site()
            if space == "SCRATCH":
                _private_store(waves, places, form, values, mask)
                waves.outstanding.begin(MemoryOperation(counter, waves.active, None))
                return
            if space == "BUFFER":
                mask = mask & (places != np.uint64(0))

            def effect(due: Array) -> None:
                lanes = mask & due[:, None]
                if space == "FLAT":
                    _flat_store(waves, places, form, values, lanes)
                else:
                    waves.memory.store(places, values, lanes, site)

            waves.outstanding.begin(
                MemoryOperation(counter, waves.active, None, effect=effect, space=_SPACE)
            )

        return execute

    def _atomic(self, operation: AtomicOperation) -> Callable[[Running], None]:
        one = self.instruction
        size = np.dtype(operation.element).itemsize
        address = self._addresses(size)
        words = size // 4
        rows = self._registers(self._data_field, words * operation.operands, self.reads)
        returns = bool(one.get("glc") | one.get("sc0") | (one.get("th") & 1))
        targets: list[int] = []
        if returns:
            targets = self._registers(self._target_field, words, self.writes)
        counter, space = "vm" if returns else self._store_counter, self._space

        def execute(waves: Running) -> None:
            waves.outstanding.settle(_SPACE)
            places, mask = address(waves), waves.mask()
            operands = [_word(waves, rows[at : at + words]) for at in range(0, len(rows), words)]
            given = operands[0] if operation.operands == 1 else np.stack(operands)
            if space == "BUFFER":
                inside = places != np.uint64(0)
                mask = inside if mask is None else mask & inside
            waves.memory.misaligned(places, size, mask, waves.site())
            places = places & ~np.uint64(size - 1)
            old = waves.memory.update(places, operation.change, given, mask, waves.site())
            values = [old] if words == 1 else _two(old)
            registers = [FIRST_VECTOR + row for row in targets]
            arriving = values if returns else []
            waves.outstanding.begin(
                MemoryOperation(counter, waves.active, waves.mask(), registers, arriving)
            )

        return execute

    def _addresses(self, size: int) -> Callable[[Running], Array]:
        """What computes each lane's address [wave, lane]: of private memory an offset."""
        if self._space == "BUFFER":
            return self._buffer_addresses(size)
        one = self.instruction
        field = "vaddr" if one.has("vaddr") else "addr"
        base = one.get("saddr")
        offset = self._offset()
        if self._space == "SCRATCH":
            return self._private_addresses(field, base, offset)
        row = one.get(field) - FIRST_VECTOR
        if base in _OFF or self._space == "FLAT":
            self.reads.update((FIRST_VECTOR + row, FIRST_VECTOR + row + 1))
            moved = np.uint64(offset & 0xFFFFFFFF_FFFFFFFF)
            return lambda waves: pair(waves.vector[row], waves.vector[row + 1]) + moved
        self.reads.update((FIRST_VECTOR + row, base, base + 1))
        scalar = scalar_getter(base, 64, self.chip)
        moved = np.uint64(offset & 0xFFFFFFFF_FFFFFFFF)
        return lambda waves: (scalar(waves) + moved)[:, None] + waves.vector[row]

    def _offset(self) -> int:
        one = self.instruction
        if one.has("ioffset"):
            return signed(one.get("ioffset"), 24)
        if self._space == "FLAT" and self.chip.is_cdna:
            return one.get("offset")
        return signed(one.get("offset"), 13)

    def _private_addresses(self, field: str, base: int, offset: int) -> Callable[[Running], Array]:
        one = self.instruction
        row = one.get(field) - FIRST_VECTOR
        has_vector = bool(one.get("sve")) if self.chip.has_architected_scratch else base in _OFF
        has_scalar = base not in _OFF
        if has_vector:
            self.reads.add(FIRST_VECTOR + row)
        if has_scalar:
            self.reads.add(base)

        def addresses(waves: Running) -> Array:
            found = np.full((waves.count, waves.lanes), offset, np.int64)
            if has_vector:
                found += waves.vector[row].view(np.int32)
            if has_scalar:
                found += waves.scalar[base].view(np.int32)[:, None]
            return found

        return addresses

    def _buffer_addresses(self, size: int) -> Callable[[Running], Array]:
        """Addresses in a raw buffer; 0 for what is outside of it, where loads give 0.

        A lane's offset and the instruction's are added in 32 bits: the sum may wrap, and LLVM makes
        use of that (``splitBufferOffsets`` of its AMDGPU back end; no longer from gfx1250 on).
        """
        one = self.instruction
        resource = one.get("srsrc") if one.has("srsrc") else one.get("rsrc")
        row = one.get("vaddr") - FIRST_VECTOR
        by_lane, indexed = bool(one.get("offen")), bool(one.get("idxen"))
        if indexed:
            raise EmulationError(f"{one.name} is of a structured buffer, which is not emulated")
        offset = one.get("ioffset") if one.has("ioffset") else one.get("offset")
        scalar = scalar_getter(one.get("soffset"), 32, self.chip, literal=one.literal)
        self.reads.update(range(resource, resource + 4))
        if by_lane:
            self.reads.add(FIRST_VECTOR + row)
        if is_register(one.get("soffset"), self.chip):
            self.reads.add(one.get("soffset"))

        def addresses(waves: Running) -> Array:
            words = waves.scalar[resource : resource + 4].astype(np.uint64)
            base = words[0] | ((words[1] & np.uint64(0xFFFF)) << np.uint64(32))
            offsets = np.full((waves.count, waves.lanes), offset, np.uint32)
            if by_lane:
                offsets += waves.vector[row]
            inside = offsets.astype(np.uint64)
            fits = inside + np.uint64(size) <= words[2][:, None]
            whole = base[:, None] + inside + scalar(waves).astype(np.uint64)[:, None]
            return np.where(fits, whole, np.uint64(0))

        return addresses


def _word(waves: Waves, rows: Sequence[int]) -> Array:
    if len(rows) == 1:
        return waves.vector[rows[0]].copy()
    return pair(waves.vector[rows[0]], waves.vector[rows[1]])


def _two(values: Array) -> list[Array]:
    words = np.ascontiguousarray(values).view(np.uint32).reshape(*values.shape, 2)
    return [words[..., 0], words[..., 1]]


def _private_places(
    waves: Running, places: Array, form: AccessForm, mask: Array | None
) -> tuple[Array, Array]:
    """Offsets that are inside of the waves' scratch, and lanes; others are findings."""
    size = waves.kernel.descriptor.scratch_bytes
    lanes = waves.full_mask() if mask is None else mask
    outside = lanes & ((places < 0) | (places + form.bytes > size))
    message = f"{form.bytes} bytes of private memory, of which there are {size}"
    waves.faults.add_lanes(BOUNDS, message, waves.site(), outside, places)
    return np.clip(places, 0, max(0, size - form.bytes)), lanes & ~outside


def _private_load(waves: Running, places: Array, form: AccessForm, mask: Array | None) -> Array:
    kept, _ = _private_places(waves, places, form, mask)
    at = kept[..., None] + np.arange(form.bytes)
    bytes_ = np.take_along_axis(waves.scratch, at, axis=2)
    return np.moveaxis(np.ascontiguousarray(bytes_).view(form.element), -1, 0)


def _private_store(
    waves: Running, places: Array, form: AccessForm, values: Array, mask: Array
) -> None:
    kept, lanes = _private_places(waves, places, form, mask)
    wave, lane = np.nonzero(lanes)
    size = np.dtype(form.element).itemsize
    bytes_ = np.ascontiguousarray(values).view(np.uint8).reshape(*values.shape, size)
    for number in range(len(values)):
        for byte in range(size):
            at = kept[wave, lane] + number * size + byte
            waves.scratch[wave, lane, at] = bytes_[number, wave, lane, byte]


def _apertures(places: Array) -> tuple[Array, Array]:
    """Which flat addresses are of shared, and which of private memory."""
    high = places >> np.uint64(32)
    shared = high == np.uint64(SHARED_APERTURE >> 32)
    return shared, high == np.uint64(PRIVATE_APERTURE >> 32)


def _flat_load(waves: Running, places: Array, form: AccessForm, mask: Array | None) -> Array:
    shared, private = _apertures(places)
    lanes = waves.full_mask() if mask is None else mask
    own = lanes & ~shared & ~private
    found = waves.memory.load(places, form.element, form.count, own, waves.site())
    low = (places & np.uint64(0xFFFFFFFF)).astype(np.int64)
    if (lanes & shared).any():
        inside = WorkgroupMemory(waves).load(low, form.element, form.count, lanes & shared)
        found = np.where(shared, inside, found)
    if (lanes & private).any():
        found = np.where(private, _private_load(waves, low, form, lanes & private), found)
    return found


def _flat_store(
    waves: Running, places: Array, form: AccessForm, values: Array, lanes: Array
) -> None:
    shared, private = _apertures(places)
    low = (places & np.uint64(0xFFFFFFFF)).astype(np.int64)
    waves.memory.store(places, values, lanes & ~shared & ~private, waves.site())
    if (lanes & shared).any():
        WorkgroupMemory(waves).store(low, values, lanes & shared)
    if (lanes & private).any():
        _private_store(waves, low, form, values, lanes & private)


def scalar_load_step(one: Instruction) -> CodeStep:
    """What executes a scalar load, of memory or of a raw buffer."""
    if one.name.startswith(_NOTHING) or "PREFETCH" in one.name:
        return CodeStep(lambda waves: None, one.place, one.place + one.size, one.__repr__,
                    frozenset(), frozenset())  # fmt: skip
    word = one.name.split("_LOAD_")[-1]
    form = access_form({"DWORD": "B32"}.get(word, word))
    if form is None or "LOAD" not in one.name or "SCRATCH" in one.name:
        raise EmulationError(f"{one.name} is not emulated")
    is_buffer = "BUFFER" in one.name
    base, target = one.get("sbase"), one.get("sdata")
    count = max(1, form.bytes // 4)
    chip = one.chip
    offset = signed(one.get("ioffset"), 24) if one.has("ioffset") else signed(one.get("offset"), 21)
    has_scalar = one.get("soffset") not in _OFF
    if chip.is_cdna:
        has_scalar = bool(one.get("soffset_en"))
        if not one.get("imm"):
            offset, has_scalar = 0, True
    reads = set(range(base, base + (4 if is_buffer else 2)))
    if has_scalar:
        reads.add(one.get("soffset"))
    more = scalar_getter(one.get("soffset"), 32, chip) if has_scalar else None
    start = scalar_getter(base, 64, chip)
    counter = "km" if chip.isa == "rdna4" else "lgkm"
    targets = list(range(target, target + count))

    def execute(waves: Running) -> None:
        places = start(waves)
        if is_buffer:
            places = places & np.uint64(0xFFFF_FFFFFFFF)
        places = places + np.uint64(offset & 0xFFFFFFFF_FFFFFFFF)
        if more is not None:
            places = places + more(waves)
        if form.bytes >= 4:
            waves.faults.add_lanes(
                MISALIGNED, "no multiple of 4 bytes", waves.site(),
                ((places & np.uint64(3)) != 0) & waves.active, places,
            )  # fmt: skip
        mask = None if waves.all_active else waves.active
        values = waves.memory.load(places, form.element, form.count, mask, waves.site())
        waves.outstanding.begin(
            MemoryOperation(
                counter, waves.active, None, targets, form.loaded(values), in_order=False
            )
        )

    end = one.place + one.size
    return CodeStep(execute, one.place, end, one.__repr__, frozenset(reads), frozenset(targets))
