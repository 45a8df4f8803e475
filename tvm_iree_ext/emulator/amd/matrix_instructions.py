"""Matrix instructions: MFMA and SMFMAC of CDNA, WMMA and SWMMAC of RDNA.

Which lane and register holds which element follows the manuals, and not the package's own table:

CDNA ("CDNA3 Instruction Set Architecture", chapter "Matrix Arithmetic Instructions").  An M x K
tile of A, of B blocks, has row ``i`` of block ``b`` in the lanes ``i + M (b + B g)``, each of which
holds the ``K / (64 / (M B))`` values of ``k`` of its group ``g``, one behind another; B is the same
with columns.  Of C and D, row ``i`` and column ``j``:

    32 x 32    lane j + 32 (i / 4 % 2)    register 16 b + 4 (i / 8) + i % 4
    16 x 16    lane j + 16 (i / 4)        register  4 b + i % 4
     4 x 4     lane j + 4 b               register  i
    float64    lane j + 16 (i % 4)        pair i / 4;  of 4 x 4: lane j + 4 b + 16 i

RDNA 3 ("RDNA3 Instruction Set Architecture", section "WMMA"): lane ``l`` holds all of row
``l % 16`` of A, or column of B, so that each is held twice, or four times; C and D have column
``l % 16`` and row ``2 r + l / 16`` in register ``r`` (of 64 lanes ``4 r + l / 16``), in one half of
the register for 16 bits.

RDNA 4 ("RDNA4 Instruction Set Architecture", section "WMMA"): lane ``l`` holds half ``l / 16`` of
row ``l % 16`` of A, or column of B; C and D have row ``r + 8 (l / 16)``, packed for 16 bits.

Sparse: of 4 values of ``k`` that follow one another A holds 2, whose places are 2 bits each in the
index register, of which a part is chosen by ABID or OPSEL.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from tvm_iree_ext.base.errors import EmulationError
from tvm_iree_ext.emulator.amd.decoding import Instruction
from tvm_iree_ext.emulator.amd.operands import constant, scalar_getter
from tvm_iree_ext.emulator.amd.pseudocode import functions as fn
from tvm_iree_ext.emulator.amd.wave_state import FIRST_VECTOR, Array, CodeStep, Waves

_NAME = re.compile(
    r"V_(?P<how>MFMA|SMFMAC|WMMA|SWMMAC)_(?P<result>F64|F32|F16|BF16|I32)"
    r"_(?P<m>\d+)X(?P<n>\d+)X(?P<k>\d+)(?:_(?P<blocks>\d+)B)?_(?P<a>[A-Z0-9]+)(?:_(?P<b>[A-Z0-9]+))?$"
)
_BITS = {"F64": 64, "F32": 32, "XF32": 32, "I32": 32, "F16": 16, "BF16": 16, "I8": 8, "IU8": 8,
         "FP8": 8, "BF8": 8, "IU4": 4}  # fmt: skip

_IMPLAUSIBLE = 12345


@dataclass(frozen=True)
class MatrixForm:
    """A matrix instruction's shape and types, by its name."""

    how: str
    m: int
    n: int
    k: int
    blocks: int
    result: str
    a: str
    b: str

    @property
    def is_sparse(self) -> bool:
        """Whether half of A is zero, and not held."""
        return self.how in ("SMFMAC", "SWMMAC")


def matrix_form(name: str) -> MatrixForm | None:
    """The form of an instruction; None for one of another kind.

    >>> matrix_form("V_MFMA_F32_16X16X16_F16")
    MatrixForm(how='MFMA', m=16, n=16, k=16, blocks=1, result='F32', a='F16', b='F16')
    """
    match = _NAME.match(name)
    if match is None:
        return None
    m, n, k = (int(match[letter]) for letter in "mnk")
    a = match["a"]
    return MatrixForm(
        match["how"], m, n, k, int(match["blocks"] or 1), match["result"], a, match["b"] or a
    )


def matrix_step(one: Instruction, first_accumulator: int) -> CodeStep | None:
    """What executes it; None for an instruction of another kind.

    Raises:
        EmulationError: for a matrix instruction that is not emulated.
    """
    form = matrix_form(one.plain_name)
    if form is None:
        if "MFMA" in one.name or "WMMA" in one.name:
            raise EmulationError(f"{one.name} is not emulated")
        return None
    if one.chip.is_cdna:
        return CdnaProduct(one, form, first_accumulator).step()
    return _RdnaProduct(one, form).step()


class _Product:
    """Compiles a matrix instruction: loads tiles, multiplies them, stores the sum."""

    def __init__(self, one: Instruction, form: MatrixForm, first_accumulator: int = 0) -> None:
        self.one, self.form = one, form
        self._first_accumulator = first_accumulator
        self.reads: set[int] = set()
        self.writes: set[int] = set()

    def step(self) -> CodeStep:
        a, b = self.tile("src0", self.form.a), self.tile("src1", self.form.b)
        c, put = self.sum(), self.result()

        def execute(waves: Waves) -> None:
            with np.errstate(all="ignore"):
                left, right = a(waves), b(waves)
                put(waves, self.multiplied(waves, left, right) + c(waves))

        one = self.one
        reads, writes = frozenset(self.reads), frozenset(self.writes)
        return CodeStep(execute, one.place, one.place + one.size, one.__repr__, reads, writes)

    def tile(self, field: str, kind: str) -> Callable[[Waves], Array]:
        raise NotImplementedError

    def sum(self) -> Callable[[Waves], Array]:
        raise NotImplementedError

    def result(self) -> Callable[[Waves, Array], None]:
        raise NotImplementedError

    def multiplied(self, waves: Waves, left: Array, right: Array) -> Array:
        """[wave, block, i, j] of [wave, block, i, k] and [wave, block, j, k]."""
        return left @ np.swapaxes(right, -1, -2)

    def rows(self, field: str, count: int, accumulator: bool, into: set[int]) -> list[int]:
        """The rows of vector registers of a field."""
        first = self.one.get(field) - FIRST_VECTOR
        first += self._first_accumulator if accumulator else 0
        rows = list(range(first, first + count))
        into.update(FIRST_VECTOR + row for row in rows)
        return rows

    def numbers(self, words: Array, kind: str, is_signed: bool = True) -> Array:
        """[wave, lane, item] numbers of [wave, lane, word] registers, in a type to multiply in."""
        if kind == "IU4":
            low = (words[..., None] >> np.arange(0, 32, 4, dtype=np.uint32)) & np.uint32(15)
            found = low.reshape(*words.shape[:-1], -1).astype(np.float64)
            return np.where(found >= 8, found - 16, found) if is_signed else found
        types: dict[str, Any] = {
            "F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": ml_dtypes.bfloat16,
            "I8": np.int8, "IU8": np.int8 if is_signed else np.uint8,
        }  # fmt: skip
        if kind == "XF32":  # the low 13 bits of float32 are not looked at
            return (words & np.uint32(0xFFFFE000)).view(np.float32)
        if kind in ("FP8", "BF8"):
            bytes_ = np.ascontiguousarray(words).view(np.uint8)
            return fn.from_float8(bytes_, kind == "BF8", self.one.chip.has_ocp_floats)
        found = np.ascontiguousarray(words).view(types[kind])
        wide: Any = np.float64 if kind in ("F64", "I8", "IU8") else np.float32
        return found.astype(wide)

    def words(self, waves: Waves, rows: list[int]) -> Array:
        """[wave, lane, word] registers."""
        return np.moveaxis(waves.vector[rows[0] : rows[-1] + 1], 0, -1)

    def as_words(self, values: Array) -> Array:
        """The bits of results of 32 or 64 bits: integers wrap."""
        if self.form.result == "I32":
            return values.astype(np.int64).astype(np.uint64).astype(np.uint32)
        kind: Any = np.float64 if self.form.result == "F64" else np.float32
        return fn.raw(values.astype(kind))

    def constant_sum(self, shape: tuple[int, ...]) -> Callable[[Waves], Array] | None:
        """C where it is a constant; None where it is in registers."""
        number = self.one.get("src2")
        if number >= FIRST_VECTOR:
            return None
        kind = self.form.result
        bits, is_float = _BITS[kind], kind != "I32"
        if number < 128:
            scalar = scalar_getter(number, 32, self.one.chip)
            self.reads.add(number)
            return lambda waves: self.sums(scalar(waves)[:, None])[:, :, None, None]
        value = constant(number, bits, is_float and kind != "BF16", None, False)
        whole = self.sums(np.array([[value]], np.uint64 if bits == 64 else np.uint32))
        return lambda waves: np.broadcast_to(whole[..., None, None], (waves.count, *shape))

    def sums(self, words: Array) -> Array:
        """Numbers of C of their bits, in the type in which sums are taken."""
        kind = self.form.result
        if kind == "I32":
            return words.view(np.int32).astype(np.float64)
        if kind == "F16":
            return words.astype(np.uint16).view(np.float16).astype(np.float32)
        if kind == "BF16":
            return fn.from_bfloat(words)
        return words.view(np.float64 if kind == "F64" else np.float32)


class CdnaProduct(_Product):
    """MFMA and SMFMAC."""

    def step(self) -> CodeStep:
        """What executes it."""
        self.check()
        return super().step()

    def check(self) -> None:
        """Refuse what is not emulated of this kind of instructions.

        Raises:
            EmulationError: naming it.
        """
        one = self.one
        if one.get("cbsz") and not self.form.is_sparse:
            raise EmulationError(f"{one.name} broadcasts blocks, which is not emulated")
        if one.get("blgp"):
            raise EmulationError(f"{one.name} permutes or negates, which is not emulated")

    def tile(self, field: str, kind: str) -> Callable[[Waves], Array]:
        """What gives A or B, ``[wave, block, line, k]``."""
        form, is_a = self.form, field == "src0"
        rows_of_tile = form.m if is_a else form.n
        held = form.k // 2 if is_a and form.is_sparse else form.k
        groups = 64 // (rows_of_tile * form.blocks)
        items = held // groups
        accumulator = bool(self.one.get("acc") >> (0 if is_a else 1) & 1)
        rows = self.rows(field, items * _BITS[kind] // 32, accumulator, self.reads)
        expand = self._expanded(groups, items) if is_a and form.is_sparse else None

        def get(waves: Waves) -> Array:
            numbers = self.numbers(self.words(waves, rows), kind)
            if expand is not None:
                numbers = expand(waves, numbers)
            shape = (waves.count, groups, form.blocks, rows_of_tile, numbers.shape[-1])
            tiles = numbers.reshape(shape).transpose(0, 2, 3, 1, 4)
            return tiles.reshape(waves.count, form.blocks, rows_of_tile, -1)

        return get

    def _expanded(self, groups: int, items: int) -> Callable[[Waves, Array], Array]:
        """A lane's values at the places that the index register says, zeros elsewhere."""
        one = self.one
        row = one.get("src2") - FIRST_VECTOR
        self.reads.add(FIRST_VECTOR + row)
        bits = 2 * items
        part = one.get("abid") if not one.get("cbsz") and bits < 32 else 0
        return lambda waves, numbers: expanded(numbers, waves.vector[row] >> np.uint32(part * bits))

    def _places(self) -> tuple[Array, Array]:
        """Lane and register of [block, i, j]."""
        form = self.form
        b, i, j = np.ogrid[: form.blocks, : form.m, : form.n]
        if form.result == "F64":
            if form.m == 4:
                return np.broadcast_arrays(j + 4 * b + 16 * i, b * 0)[:2]  # type: ignore[return-value]
            lane, register = j + 16 * (i % 4), i // 4 + b
        elif form.m == 32:
            lane, register = j + 32 * (i // 4 % 2), 16 * b + 4 * (i // 8) + i % 4
        elif form.m == 16:
            lane, register = j + 16 * (i // 4) + 0 * b, 4 * b + i % 4
        else:
            lane, register = j + 4 * b, i + 0 * b
        whole = np.broadcast_shapes(lane.shape, register.shape, (form.blocks, form.m, form.n))
        return np.broadcast_to(lane, whole), np.broadcast_to(register, whole)

    def _count(self) -> int:
        """Registers of C and D, pairs counted once."""
        return self.form.m * self.form.n * self.form.blocks // 64

    def sum(self) -> Callable[[Waves], Array]:
        """What gives C, ``[wave, block, i, j]``."""
        form = self.form
        field = "vdst" if form.is_sparse else "src2"
        if not form.is_sparse:
            known = self.constant_sum((form.blocks, form.m, form.n))
            if known is not None:
                return known
        wide = 2 if form.result == "F64" else 1
        rows = self.rows(field, wide * self._count(), bool(self.one.get("acc_cd")), self.reads)
        lane, register = self._places()

        def get(waves: Waves) -> Array:
            words = waves.vector[rows[0] : rows[-1] + 1]
            if wide == 2:
                pairs = np.ascontiguousarray(np.moveaxis(words, 0, -1)).view(np.uint64)
                return self.sums(pairs)[:, lane, register]
            return self.sums(np.moveaxis(words[register, :, lane], -1, 0))

        return get

    def result(self) -> Callable[[Waves, Array], None]:
        """What takes D, ``[wave, block, i, j]``."""
        wide = 2 if self.form.result == "F64" else 1
        count = self._count()
        rows = self.rows("vdst", wide * count, bool(self.one.get("acc_cd")), self.writes)
        lane, register = self._places()

        def put(waves: Waves, values: Array) -> None:
            words = self.as_words(values)
            whole = np.empty((waves.count, waves.lanes, count), words.dtype)
            whole[:, lane, register] = words
            split = whole.view(np.uint32)
            for number, row in enumerate(rows):
                write_all(waves, row, split[..., number])

        return put


class _RdnaProduct(_Product):
    """WMMA and SWMMAC."""

    def step(self) -> CodeStep:
        one = self.one
        self._integer = self.form.result == "I32"
        if not self._integer and (one.get("neg") & 3 or one.get("neg_hi")):
            raise EmulationError(f"{one.name} negates, which is not emulated")
        return super().step()

    @property
    def _is_new(self) -> bool:
        return self.one.chip.isa == "rdna4"

    def tile(self, field: str, kind: str) -> Callable[[Waves], Array]:
        form, is_a = self.form, field == "src0"
        held = form.k // 2 if is_a and form.is_sparse else form.k
        items = held // 2 if self._is_new else held
        rows = self.rows(field, max(1, items * _BITS[kind] // 32), False, self.reads)
        is_signed = bool(self.one.get("neg") >> (0 if is_a else 1) & 1)
        expand = self._expanded(items) if is_a and form.is_sparse else None

        def get(waves: Waves) -> Array:
            if self._is_new and waves.lanes != 32:
                raise EmulationError(f"{self.one.name} of 64 lanes is not emulated")
            words = self.words(waves, rows)
            if not self._is_new:
                found = self.numbers(words[:, :16], kind, is_signed)
                # What the hardware makes of lanes that do not agree is no plausible value.
                unlike = self._unlike_copies(waves, words)
                if unlike.any():
                    found[unlike] = _IMPLAUSIBLE if self._integer else np.nan
                return found[:, None]
            numbers = self.numbers(words, kind, is_signed)
            if expand is not None:
                numbers = expand(waves, numbers)
            halves = numbers.reshape(waves.count, 2, 16, -1).transpose(0, 2, 1, 3)
            return halves.reshape(waves.count, 1, 16, -1)

        return get

    def _expanded(self, items: int) -> Callable[[Waves, Array], Array]:
        one = self.one
        row = one.get("src2") - FIRST_VECTOR
        self.reads.add(FIRST_VECTOR + row)
        bits = 2 * items
        part = one.get("opsel") & (32 // bits - 1) if bits < 32 else 0
        return lambda waves, numbers: expanded(numbers, waves.vector[row] >> np.uint32(part * bits))

    def _unlike_copies(self, waves: Waves, words: Array) -> Array:
        """Rows [wave, row] of A or B that differ between the lanes that hold them."""
        copies = words.reshape(waves.count, -1, 16, words.shape[-1])
        return np.asarray((copies != copies[:, :1]).any(axis=(1, 3)))

    def _row_of(self, lanes: int) -> Array:
        """[lane, item] rows of C and D."""
        lane, item = np.ogrid[:lanes, : 256 // lanes]
        if self._is_new:
            return item + 8 * (lane // 16)
        return item * (lanes // 16) + lane // 16

    def _is_half(self) -> bool:
        return self.form.result in ("F16", "BF16")

    def _high(self) -> bool:
        """RDNA 3 holds 16 bits in one half of each register."""
        return bool(self.one.get("opsel") & 4)

    def _rows(self, field: str, into: set[int], lanes: int) -> list[int]:
        items = 256 // lanes
        packed = self._is_half() and self._is_new
        return self.rows(field, items // 2 if packed else items, False, into)

    def _lanes(self) -> int:
        """Lanes of a wave, by the registers of D that the tables have for 32 lanes."""
        return 32

    def sum(self) -> Callable[[Waves], Array]:
        known = None if self.form.is_sparse else self.constant_sum((1, 16, 16))
        if known is not None:
            return known
        field = "vdst" if self.form.is_sparse else "src2"
        self._rows(field, self.reads, self._lanes())
        scratch: set[int] = set()

        def get(waves: Waves) -> Array:
            words = self.words(waves, self._rows(field, scratch, waves.lanes))
            if self._is_half() and self._is_new:
                words = np.ascontiguousarray(words).view(np.uint16).astype(np.uint32)
            elif self._is_half():
                words = (words >> np.uint32(16 if self._high() else 0)) & np.uint32(0xFFFF)
            found = np.empty((waves.count, 16, 16), words.dtype)
            column = np.arange(waves.lanes)[:, None] % 16
            found[:, self._row_of(waves.lanes), column] = words
            return self.sums(found)[:, None]

        return get

    def result(self) -> Callable[[Waves, Array], None]:
        self._rows("vdst", self.writes, self._lanes())
        scratch: set[int] = set()

        def put(waves: Waves, values: Array) -> None:
            rows = self._rows("vdst", scratch, waves.lanes)
            column = np.arange(waves.lanes)[:, None] % 16
            own = values[:, 0][:, self._row_of(waves.lanes), column]  # [wave, lane, item]
            if not self._is_half():
                words = self.as_words(own)
            else:
                words = self._half_words(waves, own, rows)
            for number, row in enumerate(rows):
                write_all(waves, row, words[..., number])

        return put

    def _half_words(self, waves: Waves, values: Array, rows: list[int]) -> Array:
        narrow = values.astype(np.float32)
        if self.form.result == "F16":
            bits = fn.raw(narrow.astype(np.float16))
        else:
            bits = fn.to_bfloat(narrow)
        if self._is_new:
            return np.ascontiguousarray(bits).view(np.uint32)
        old = self.words(waves, rows)
        if self._high():
            return (old & np.uint32(0xFFFF)) | (bits.astype(np.uint32) << np.uint32(16))
        return (old & np.uint32(0xFFFF0000)) | bits


def expanded(numbers: Array, index: Array) -> Array:
    """[wave, lane, 2 item] values with zeros between, by two bits of ``index`` for each."""
    count = numbers.shape[-1]
    places = (index[..., None] >> np.arange(0, 2 * count, 2, dtype=np.uint32)) & np.uint32(3)
    targets = places.astype(np.int64) + 4 * (np.arange(count) // 2)
    found = np.zeros((*numbers.shape[:-1], 2 * count), numbers.dtype)
    for item in range(count):  # of two that meet the last is taken
        place = targets[..., item : item + 1]
        np.put_along_axis(found, place, numbers[..., item : item + 1], axis=-1)
    return found


def write_all(waves: Waves, row: int, values: Array) -> None:
    """Write a vector register of the active waves, whatever EXEC is: matrices take all lanes."""
    if waves.all_active:
        waves.vector[row] = values
    else:
        np.copyto(waves.vector[row], values, where=waves.active[:, None])
