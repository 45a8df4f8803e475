"""Kernels of PTX launched: what an emulated driver loads and calls.

Workgroups are executed many at a time, as many as fill arrays well, and those one after another.
"""

import functools
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tvm_iree_ext.emulator.driver import EmulatedDevice, EmulatedFunction, EmulatedLaunch
from tvm_iree_ext.emulator.findings import RESOURCE, Site, Where
from tvm_iree_ext.emulator.ptx.machine.address_windows import LOCAL_WINDOW, PARAMETER_WINDOW
from tvm_iree_ext.emulator.ptx.machine.group_state import Endless, GroupState
from tvm_iree_ext.emulator.ptx.machine.lanes import WARP
from tvm_iree_ext.emulator.ptx.machine.memory_spaces import MemorySpaces
from tvm_iree_ext.emulator.ptx.machine.private_memory import PrivateMemory
from tvm_iree_ext.emulator.ptx.reading.reader import read
from tvm_iree_ext.emulator.ptx.reading.scalar_types import Value, numpy_of, storage_of
from tvm_iree_ext.emulator.ptx.reading.syntax import PtxModule, PtxVariable
from tvm_iree_ext.emulator.ptx.running.blocks import program_of
from tvm_iree_ext.emulator.ptx.running.program import Preload, PtxProgram
from tvm_iree_ext.emulator.ptx.running.strand import Strand
from tvm_iree_ext.emulator.ptx.running.workgroups import run_strands

_ROWS = 512  # warps at a time: arrays of 64 KiB, which caches hold
_ROWS_ALONE = 24  # warps that are enough for arrays of their own
_MOST_STRANDS = 4
_MOST_BYTES = 256 << 20  # of shared and of local memory at a time
_RESERVED = 1024  # bytes of shared memory before a kernel's own, from sm_80 on


def load_ptx(image: bytes, device: EmulatedDevice) -> Mapping[str, EmulatedFunction] | None:
    """The kernels of a PTX text, as :class:`~tvm_iree_ext.emulator.driver.EmulatedDriver` asks.

    None for what is no PTX, or is for a later chip than the device is, or for another alone.
    """
    text = image.rstrip(b"\0")
    if not text.lstrip().startswith((b"//", b".version")):
        return None
    module = _module(text.decode())
    is_own = module.target.endswith("a")  # PTX ISA, *.target*: such features are one chip's alone
    if _number(module.target) > _number(device.chip) or (is_own and module.target != device.chip):
        return None
    addresses = _place_variables(module, device)
    return {
        name: _Kernel(module, name, addresses)
        for name, function in module.functions.items()
        if function.is_entry
    }


_module = functools.lru_cache(maxsize=32)(read)


def _number(chip: str) -> int:
    found = re.search(r"\d+", chip)
    return int(found[0]) if found else 0


def _place_variables(module: PtxModule, device: EmulatedDevice) -> dict[str, int]:
    """Addresses of the module's variables in global and constant memory that functions use."""
    used = {
        word
        for function in module.functions.values()
        for one in function.body
        for word in re.findall(r"[\w$]+", getattr(one, "text", ""))
    }
    addresses = {}
    for variable in module.variables.values():
        if variable.space in ("global", "const") and variable.name in used:
            addresses[variable.name] = device.memory.allocate(variable.nbytes)
            data = variable.data + bytes(variable.nbytes - len(variable.data))
            device.memory.write(addresses[variable.name], data)
    return addresses


class _Kernel:
    """A kernel of a module."""

    def __init__(self, module: PtxModule, name: str, addresses: Mapping[str, int]) -> None:
        self._module, self._name, self._addresses = module, name, addresses
        self._function = module.functions[name]

    @property
    def argument_sizes(self) -> Sequence[int]:
        """Bytes of each parameter."""
        return [one.nbytes for one in self._function.parameters]

    @property
    def most_lanes(self) -> int:
        """Lanes of a workgroup for which it is made; 0 where it does not say."""
        return int(np.prod(self._function.lanes)) if self._function.lanes else 0

    def launch(self, launch: EmulatedLaunch) -> None:
        """Execute all workgroups."""
        program = _program(self._module, self._name)
        lanes = launch.block[0] * launch.block[1] * launch.block[2]
        limit = self.most_lanes or 1024
        if lanes > limit:
            self._refuse(launch, f"{lanes} lanes; it is made for {limit}")
            return
        layout = _SharedLayout(self._module, self._name, launch.shared)
        shared, most = layout.nbytes - _RESERVED, launch.device.shared_bytes
        if most is not None and shared > most:
            self._refuse(launch, f"{shared} bytes of shared memory; {most} are the most")
            return
        parameters, offsets = _parameters(self._function.parameters, launch.arguments)
        each = -(-lanes // WARP)
        count = max(1, _ROWS // each)
        room = layout.nbytes + 128 + each * WARP * (program.local_bytes + 256)
        count = max(1, min(count, _MOST_BYTES // room))
        rng = np.random.default_rng((launch.device.seed, 7))
        batch = _Batch(self, launch, program, layout, parameters, offsets, rng)
        try:
            with np.errstate(all="ignore"):
                for places in _batches(launch.grid, count, launch.device.order):
                    batch.run(places)
        except Endless as error:
            self._refuse(launch, str(error))

    def _refuse(self, launch: EmulatedLaunch, message: str) -> None:
        site = Site(self._name, lambda _index: Where((0, 0, 0), 0, 0))
        launch.device.memory.findings.add(RESOURCE, message, site, (0, 0))

    @property
    def addresses(self) -> Mapping[str, int]:
        """Where the module's variables lie."""
        return self._addresses


_program = functools.lru_cache(maxsize=128)(program_of)


def _batches(
    grid: tuple[int, int, int], count: int, order: int
) -> Iterator[list[tuple[int, int, int]]]:
    """Workgroups, so many at a time; in odd orders the last ones first."""
    every = [(x, y, z) for z, y, x in itertools.product(*map(range, reversed(grid)))]
    if order % 2:
        every.reverse()
    for start in range(0, len(every), count):
        yield every[start : start + count]


def _parameters(
    declared: Sequence[PtxVariable], arguments: Sequence[bytes]
) -> tuple[bytes, dict[str, int]]:
    """The parameters' memory, and where each lies."""
    whole = b""
    offsets = {}
    for variable, data in zip(declared, arguments, strict=True):
        whole += bytes(-len(whole) % max(variable.alignment, 1))
        offsets[variable.name] = len(whole)
        whole += data
    return whole, offsets


class _SharedLayout:
    """Where a kernel's variables lie in shared memory: declared ones, then what the launch
    gives."""

    def __init__(self, module: PtxModule, name: str, dynamic: int) -> None:
        kernel = module.functions[name]
        variables = [one for one in kernel.variables.values() if one.space == "shared"]
        for function in module.functions.values():
            if not function.is_entry:
                variables += [v for v in function.variables.values() if v.space == "shared"]
        variables += [one for one in module.variables.values() if one.space == "shared"]
        self.offsets: dict[str, int] = {}
        end = _RESERVED
        for one in sorted(variables, key=lambda one: one.nbytes == 0):
            end = -(-end // one.alignment) * one.alignment
            self.offsets[one.name] = end
            end += one.nbytes
        self.nbytes = end + dynamic
        self.dynamic = dynamic


class _Batch:
    """Workgroups that are executed together."""

    def __init__(
        self,
        kernel: _Kernel,
        launch: EmulatedLaunch,
        program: PtxProgram,
        layout: _SharedLayout,
        parameters: bytes,
        offsets: Mapping[str, int],
        rng: np.random.Generator,
    ) -> None:
        self._kernel, self._launch, self._program = kernel, launch, program
        self._layout, self._parameters, self._offsets = layout, parameters, offsets
        self._rng = rng
        self._noise: list[Value] | None = None

    def run(self, places: list[tuple[int, int, int]]) -> None:
        """Execute them."""
        launch, memory = self._launch, self._launch.device.memory
        lanes = launch.block[0] * launch.block[1] * launch.block[2]
        state = GroupState(len(places), lanes, early=bool(launch.device.order % 2))
        shared = PrivateMemory("shared", len(places), self._layout.nbytes, self._rng)
        if self._program.has_warpgroups:
            shared.follow_proxies()
        strands = []
        for numbers in self._warps(state.warps, len(places)):
            owners = len(places) * len(numbers) * WARP
            local = PrivateMemory("local", owners, self._program.local_bytes, self._rng)
            spaces = MemorySpaces(memory, shared, local, self._parameters)
            strand = Strand(self._program, places, numbers, memory.findings, state, spaces)
            strand.values = self._values(strand, places)
            strands.append(strand)
        run_strands(strands, state)

    def _warps(self, count: int, groups: int) -> list[np.ndarray]:
        """Warps by strand, in the order in which these run.

        There are two, or four where there are many workgroups: arrays are long enough then.  Warps
        of a strand are neighbours, or the others, by the order.  Warps that multiply together
        (``wgmma``) are four in a row.
        """
        unit = 4 if self._program.has_warpgroups and count > 1 else 1
        units = -(-count // unit)
        number = np.arange(count) // unit
        order = self._launch.device.order
        parts = min(units, _MOST_STRANDS if groups * unit >= _ROWS_ALONE else 2)
        if order % 2:
            part = number % parts
        elif order % 4:
            part = number // 2 % parts
        else:
            part = number * parts // units
        found = [np.flatnonzero(part == one) for one in range(parts)]
        found = [numbers for numbers in found if len(numbers)]
        return found[::-1] if order % 2 else found

    def _values(self, strand: Strand, places: list[tuple[int, int, int]]) -> list[Value]:
        """The register file as a kernel begins: constants, what the launch tells, and noise."""
        program = self._program
        if self._noise is None:
            noise = self._rng.integers(0, 1 << 64, len(program.storage), np.uint64)
            self._noise = [
                np.bool_(noise[slot] & 1)
                if kind.kind == "b"
                else noise[slot : slot + 1].view(kind)[0]
                for slot, kind in enumerate(program.storage)
            ]
        values = self._noise.copy()
        for slot, value in program.initial.items():
            values[slot] = value
        for preload in program.preloads:
            values[preload.slot] = self._preloaded(preload, strand, places)
        return values

    def _preloaded(
        self, preload: Preload, strand: Strand, places: list[tuple[int, int, int]]
    ) -> Value:
        if preload.kind == "special":
            return self._special(preload.name, strand, places)
        if preload.kind == "parameter":
            start = self._offsets[preload.name] + preload.offset
            size = numpy_of(preload.type).itemsize
            data = self._parameters[start : start + size]
            return np.frombuffer(data, storage_of(preload.type))[0]
        return np.uint64(self._address(preload.name))

    def _address(self, name: str) -> int:
        if name in self._layout.offsets:
            return self._layout.offsets[name]
        if name in self._program.local_places:
            return LOCAL_WINDOW + self._program.local_places[name]
        if name in self._offsets:
            return PARAMETER_WINDOW + self._offsets[name]
        return self._kernel.addresses[name]

    def _special(self, name: str, strand: Strand, places: list[tuple[int, int, int]]) -> Value:
        """A special register (PTX ISA, *Special Registers*)."""
        launch = self._launch
        base, _, axis = name.partition(".")
        number = "xyz".find(axis) if axis else 0
        lane = np.arange(WARP, dtype=np.uint32)
        if base == "tid":
            flat = strand.numbers[:, None] * WARP + lane.astype(np.int64)
            x, y, _ = launch.block
            parts = (flat % x, flat // x % y, flat // (x * y))
            return parts[number].astype(np.uint32)
        if base in ("ctaid", "clusterid"):
            own = np.array(places)[strand.groups]
            return own[:, number].astype(np.uint32)[:, None]
        if base in ("ntid", "nctaid", "nclusterid"):
            extents = launch.block if base == "ntid" else launch.grid
            return np.uint32(extents[number])
        if base == "warpid":
            return strand.numbers.astype(np.uint32)[:, None]
        if base.startswith("lanemask"):
            return _lane_masks(base.removeprefix("lanemask_"))
        simple: dict[str, Any] = {
            "laneid": lane[None], "nwarpid": np.uint32(64), "smid": np.uint32(0),
            "dynamic_smem_size": np.uint32(self._layout.dynamic),
            "total_smem_size": np.uint32(self._layout.nbytes),
            "cluster_ctarank": np.uint32(0), "cluster_nctarank": np.uint32(1),
            "cluster_ctaid": np.uint32(0), "cluster_nctaid": np.uint32(1),
            "is_explicit_cluster": np.uint32(0), "clock": np.uint32(0), "clock64": np.uint64(0),
        }  # fmt: skip
        return simple[base]


def _lane_masks(which: str) -> Value:
    bit = np.uint64(1) << np.arange(WARP, dtype=np.uint64)
    found = {
        "eq": bit, "lt": bit - 1, "le": 2 * bit - 1, "gt": ~(2 * bit - 1), "ge": ~(bit - 1),
    }[which]  # fmt: skip
    return found.astype(np.uint32)[None]
