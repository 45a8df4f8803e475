"""How a transform on a GPU is divided: the lengths of passes, their radices, lines and lanes."""

from dataclasses import dataclass

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.schedules.emit import Index, known
from tvm_iree_ext.schedules.gpu.emit.launches import WorkgroupShape
from tvm_iree_ext.schedules.gpu.fft.fft_pass import Pass, SharedMemory
from tvm_iree_ext.schedules.shared.fft import fft_codelets

_SECTOR_BYTES = 32  # the least of a chip's memory that is read: of fewer, the rest would be lost
_RUN_BYTES = 64  # of neighbouring lines: a burst of HBM
_SMALL_LANES = 256


@dataclass(frozen=True)
class TransformShape:
    """Numbers of a transform's kernels.

    Attributes:
        lanes: of a workgroup, at most.
        subgroup_size: lanes of a subgroup.
        elements: of a workgroup whose lines are short.
        longest: line of one workgroup.
        radix: the largest power of two that a lane transforms in registers.
        dtype: of all arithmetic.
        cores: of the chip; lines are spread over all.
        shared: memory of a workgroup.
    """

    lanes: int
    subgroup_size: int
    elements: int
    longest: int
    radix: int
    dtype: str
    cores: int
    shared: SharedMemory

    @property
    def small(self) -> WorkgroupShape:
        """A workgroup of kernels with a lane for each element."""
        lanes = min(_SMALL_LANES, self.lanes)
        return WorkgroupShape(max(1, lanes // self.subgroup_size), self.subgroup_size)

    def radices(self, length: int, *, transposes: bool) -> list[int]:
        """Of the stages of a pass, which may load across lines and store along them.

        The largest is last, which has the most roots, unless it would leave short runs to store.
        """
        found = fft_codelets.radices(length, self.radix)
        assert found is not None, length
        odd, even = ([one for one in found if one % 2 == rest] for rest in (1, 0))
        short = transposes and length // max(found, default=1) < self._of(_RUN_BYTES)
        return [*odd, *sorted(even, reverse=short)] or [1]

    def passes(self, length: int, inner: Index) -> list[int]:
        """The lengths of passes: one for rows that a workgroup holds, and for short columns."""
        if length <= self.longest and known(inner) == 1:
            return [length]
        most = max(fft_codelets.LARGEST_PRIME, self.radix, self.longest // self._of(_SECTOR_BYTES))
        return factors(length, most, self.radix)

    def made_pass(
        self, length: int, count: Index, *, load_beside: bool, store_beside: bool
    ) -> Pass:
        """A pass over so many lines; of both sides, whether it goes across lines."""
        radices = self.radices(length, transposes=load_beside and not store_beside)
        lines = self._lines(length, count, beside=load_beside)
        if not load_beside and length > 2:
            # Neighbouring lanes move neighbours, and shared memory brings them to their lanes.
            few = self._of(_SECTOR_BYTES)
            before = [1] if length // radices[0] < few else []
            after = [1] if length // radices[-1] < few else []
            radices = [*before, *radices, *after]
        wanted = -(-lines * length // self.radix)
        subgroups = max(1, -(-min(wanted, self.lanes) // self.subgroup_size))
        return Pass(
            length, radices, lines, WorkgroupShape(subgroups, self.subgroup_size),
            load_beside, store_beside, self.dtype, self.shared,
        )  # fmt: skip

    def _of(self, size: int) -> int:
        """Elements of so many bytes."""
        return size // item_bytes(self.dtype)

    def _lines(self, length: int, count: Index, *, beside: bool) -> int:
        lines = self.elements // length
        number = known(count)
        if beside:
            # As many as make whole bursts, if there is room, but always whole sectors.
            for run, room in ((_RUN_BYTES, 2 * self.elements), (_SECTOR_BYTES, self.longest)):
                if self._of(run) * length <= room:
                    lines = max(lines, self._of(run))
                    break
        elif number is not None:
            lines = min(lines, number // self.cores)
        if number is not None:
            lines = min(lines, number)
        return 1 << (max(lines, 1).bit_length() - 1)


def factors(length: int, most: int, radix: int) -> list[int]:
    """The lengths of passes, each at most ``most``: as few as can be, and about as long."""
    found = fft_codelets.radices(length, radix)
    assert found is not None, length
    primes = [2] * sum(one.bit_length() - 1 for one in found if one % 2 == 0)
    primes += [one for one in found if one % 2]
    passes = 1
    while True:
        lengths = [1] * passes
        for prime in sorted(primes, reverse=True):
            lengths[lengths.index(min(lengths))] *= prime
        if max(lengths) <= most:
            return lengths
        passes += 1
