"""Launches of AMD's kernels: waves are started as the hardware starts them, and run to their ends.

Some workgroups at a time, as many as memory has room for, one block after another.  Waves at the
same place run together.  Between barriers the waves of a workgroup run in two parts, one part as
far as it gets before the other: what a barrier should order and does not is in the wrong order.
``EmulatedDevice.order`` says which part comes first; see :func:`parts`.

Source: LLVM's "User Guide for AMDGPU Backend", section "Initial Kernel Execution State".
"""

import itertools
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from tvm_iree_ext.base.errors import EmulationError
from tvm_iree_ext.emulator.amd.code_object import KernelCode, loaded_image, read_code_object
from tvm_iree_ext.emulator.amd.compiled_code import CompiledCode
from tvm_iree_ext.emulator.amd.running import Running
from tvm_iree_ext.emulator.amd.wave_state import EXEC, Array
from tvm_iree_ext.emulator.driver import EmulatedDevice, EmulatedLaunch, Extents
from tvm_iree_ext.emulator.findings import BARRIER, RESOURCE, Site, Where

_BLOCK_BYTES = 48 << 20  # of registers and shared memory: what caches and patience have room for
_BLOCK_WAVES = 512
_MOST_STEPS = 3_000_000  # of a block: a kernel that does not end
_MOST_RESTS = 100_000  # of a block, at which nobody else can go on

# Bits of the descriptor's properties, with how many scalar registers each takes, in their order.
_USER_REGISTERS = ((0, 4), (1, 2), (2, 2), (3, 2), (4, 2), (5, 2), (6, 1))
_PACKET, _ARGUMENTS = 1, 3  # the bits for the addresses of the launch's packet, of the arguments
_UNUSED = (0, 2, 4, 5)  # for where scratch is, the queue, the launch's number: they stay noise


def load_code_object(image: bytes, device: EmulatedDevice) -> Mapping[str, "AmdKernel"] | None:
    """The kernels of a code object for a device; None for what is none, or for another chip."""
    kernels = read_code_object(image)
    if kernels is None or any(kernel.chip.name != device.chip for kernel in kernels.values()):
        return None
    loaded = loaded_image(image)
    base = device.memory.allocate(len(loaded.contents))
    device.memory.write(base, loaded.at(base))
    return {
        name: AmdKernel(replace(kernel, base=base + kernel.base))
        for name, kernel in kernels.items()
    }


class AmdKernel:
    """A kernel that is launched."""

    def __init__(self, kernel: KernelCode) -> None:
        self.kernel = kernel
        self._code = CompiledCode(kernel)

    @property
    def argument_sizes(self) -> Sequence[int]:
        """Bytes of each argument."""
        return self.kernel.argument_sizes

    @property
    def most_lanes(self) -> int:
        """Lanes of a workgroup for which it is made."""
        return int(self.kernel.metadata[".max_flat_workgroup_size"])

    def launch(self, launch: EmulatedLaunch) -> None:
        """Run it; what it does wrong is added to the device's findings."""
        memory, kernel = launch.device.memory, self.kernel
        self._check(launch)
        arguments = memory.allocate(max(16, -(-kernel.descriptor.argument_bytes // 16) * 16))
        memory.write(arguments, _argument_bytes(kernel, launch))
        packet = memory.allocate(_PACKET_FORM.size)
        memory.write(packet, _packet_bytes(kernel, launch, arguments))
        rng = np.random.default_rng(launch.device.seed)
        lanes = int(np.prod(launch.block))
        waves_per_group = -(-lanes // kernel.lanes)
        lds = kernel.descriptor.lds_bytes + launch.shared
        try:
            with np.errstate(all="ignore"):
                for groups in _blocks(kernel, launch.grid, waves_per_group, lds):
                    waves = Running(kernel, memory, groups, waves_per_group, lds, rng)
                    start(waves, launch.block, {_ARGUMENTS: arguments, _PACKET: packet})
                    run(waves, self._code, parts(waves, launch.device.order, rng))
            for name, count in self._code.take_counts().items():
                launch.device.executed[name] += count
        finally:
            memory.free(arguments)
            memory.free(packet)

    def _check(self, launch: EmulatedLaunch) -> None:
        """Findings for what the hardware or HIP would refuse."""
        kernel, faults = self.kernel, launch.device.memory.findings
        site = Site("the launch", lambda index: Where((0, 0, 0), 0, 0))
        lanes = int(np.prod(launch.block))
        lds, most = kernel.descriptor.lds_bytes + launch.shared, launch.device.shared_bytes
        limits = (
            ("lanes of a workgroup", lanes, kernel.metadata[".max_flat_workgroup_size"]),
            ("bytes of shared memory", lds, lds if most is None else most),
            ("vector registers", kernel.metadata[".vgpr_count"], kernel.vector_registers),
        )
        for what, came, limit in limits:
            if came > limit:
                faults.add(RESOURCE, f"{came} {what}; {limit} is most", site, (0,))


def _argument_bytes(kernel: KernelCode, launch: EmulatedLaunch) -> bytes:
    """The arguments as the kernel finds them, with those that the runtime adds."""
    found = bytearray(kernel.descriptor.argument_bytes)
    given = iter(launch.arguments)
    for one in kernel.metadata.get(".args", ()):
        offset, size, kind = one[".offset"], one[".size"], one[".value_kind"]
        if not kind.startswith("hidden"):
            found[offset : offset + size] = next(given)
            continue
        axis = "xyz".find(kind[-1])
        value = 0
        if kind.startswith("hidden_block_count"):
            value = launch.grid[axis]
        elif kind.startswith("hidden_group_size"):
            value = launch.block[axis]
        elif kind == "hidden_grid_dims":
            value = sum(extent > 1 for extent in launch.grid) or 1
        found[offset : offset + size] = value.to_bytes(size, "little")
    return bytes(found)


# hsa_kernel_dispatch_packet_t: "HSA Runtime Programmer's Reference Manual", section "Kernel
# dispatch packet".
_PACKET_FORM = struct.Struct("<HHHHHHIIIIIQQQQ")


def _packet_bytes(kernel: KernelCode, launch: EmulatedLaunch, arguments: int) -> bytes:
    """The packet of a launch, from which a kernel may read its extents."""
    lanes = [groups * size for groups, size in zip(launch.grid, launch.block, strict=True)]
    descriptor = kernel.descriptor
    memory = (descriptor.scratch_bytes, descriptor.lds_bytes + launch.shared)
    return _PACKET_FORM.pack(0, 3, *launch.block, 0, *lanes, *memory, 0, arguments, 0, 0)


def _blocks(
    kernel: KernelCode, grid: Extents, waves_per_group: int, lds_bytes: int
) -> Iterator[Sequence[Extents]]:
    """The workgroups of a launch, some at a time: x first, as the hardware starts them."""
    scratch = kernel.descriptor.scratch_bytes * kernel.lanes
    wave = kernel.vector_registers * kernel.lanes * 4 + scratch
    group = wave * waves_per_group + 2 * lds_bytes
    count = max(1, min(_BLOCK_BYTES // group, _BLOCK_WAVES // waves_per_group))
    order = itertools.product(range(grid[2]), range(grid[1]), range(grid[0]))
    groups = ((x, y, z) for z, y, x in order)
    while block := list(itertools.islice(groups, count)):
        yield block


def start(waves: Running, block: Extents, addresses: Mapping[int, int]) -> None:
    """Registers as the hardware leaves them for the first instruction.

    ``addresses`` are those that a kernel may ask for, by the bits of the descriptor's properties.
    """
    kernel = waves.kernel
    descriptor, chip = kernel.descriptor, kernel.chip
    if descriptor.resource(1, 17, 16) != 3 or descriptor.resource(1, 19, 18) != 3:
        raise EmulationError(f"{kernel.name} flushes denormal numbers, which is not emulated")
    register = 0
    for bit, count in _USER_REGISTERS:
        if not descriptor.properties >> bit & 1:
            continue
        if bit in addresses:
            waves.scalar[register] = addresses[bit] & 0xFFFFFFFF
            waves.scalar[register + 1] = addresses[bit] >> 32
        elif bit not in _UNUSED:  # a kernel with scratch is refused where it needs them
            raise EmulationError(f"{kernel.name} asks for what is not emulated: property {bit}")
        register += count
    if descriptor.preload:
        raise EmulationError(f"{kernel.name} has arguments preloaded, which is not emulated")
    register = descriptor.resource(2, 5, 1)
    numbers = np.array(waves.groups, np.uint32)[waves.group]
    if chip.has_workgroup_in_traps:
        waves.scalar[108 + 9] = numbers[:, 0]
        waves.scalar[108 + 7] = numbers[:, 1] | numbers[:, 2] << np.uint32(16)
    else:
        for axis in range(3):
            if descriptor.resource(2, 7 + axis, 7 + axis):
                waves.scalar[register] = numbers[:, axis]
                register += 1
    if descriptor.scratch_bytes and not chip.has_architected_scratch:
        raise EmulationError(f"{kernel.name} has scratch, which is not emulated on {chip.name}")
    _start_lanes(waves, block)


def _start_lanes(waves: Running, block: Extents) -> None:
    """Each lane's place in its workgroup, ten bits an axis, and the lanes that there are."""
    wave = np.arange(waves.count) % waves.waves_per_group
    lane = wave[:, None] * waves.lanes + np.arange(waves.lanes)
    x, y, z = lane % block[0], lane // block[0] % block[1], lane // (block[0] * block[1])
    waves.vector[0] = (x | y << 10 | z << 20).astype(np.uint32)
    there = lane < block[0] * block[1] * block[2]
    packed = np.packbits(there, axis=1, bitorder="little").view(np.uint32)
    waves.scalar[EXEC + 1] = 0
    for word in range(packed.shape[1]):
        waves.scalar[EXEC + word] = packed[:, word]
    waves.forget_mask()


def parts(waves: Running, order: int, rng: np.random.Generator) -> Array:
    """The part, 0 or 1, of each wave: part 0 runs first from the start, and they take turns.

    Order 0 has even waves in part 0, 1 odd ones; others are drawn.
    """
    wave = np.arange(waves.count) % waves.waves_per_group
    if order in (0, 1):
        return (wave + order) % 2
    return rng.integers(0, 2, waves.waves_per_group)[wave]


def run(waves: Running, code: CompiledCode, part: Array) -> None:
    """Execute until all waves have ended."""
    turn, steps, rests = 0, 0, 0
    while True:
        able = ~waves.ended & ~waves.waiting & ~waves.resting
        mine = able & (part == turn)
        if not mine.any():
            if not able.any():
                if waves.resting.any():
                    rests += 1
                    waves.outstanding.land()
                    waves.resting[:] = False
                elif not _released(waves):
                    return
            turn = 1 - turn
            continue
        first = int(waves.pc[mine].min())
        active = mine & (waves.pc == first)
        others = waves.pc[mine & ~active]
        limit = int(others.min()) if others.size else len(waves.kernel.text)
        waves.activate(active)
        steps += _straight(waves, code, first, limit)
        _release_full(waves)
        if steps > _MOST_STEPS or rests > _MOST_RESTS:
            raise EmulationError(f"{waves.kernel.name} does not end within {steps} steps")


def _straight(waves: Running, code: CompiledCode, place: int, limit: int) -> int:
    """Execute the active waves up to a branch, or to a place where others wait."""
    outstanding, steps = waves.outstanding, 0
    counts, active = code.counts, int(np.count_nonzero(waves.active))
    while True:
        step = code.at(place)
        counts[place] += active
        waves.step = step
        steps += 1
        unready = outstanding.unready
        if unready and not (
            unready.keys().isdisjoint(step.reads) and unready.keys().isdisjoint(step.writes)
        ):
            outstanding.check(step.reads | step.writes)
        step.run(waves)
        if step.control:
            return steps
        place = step.next
        if place >= limit:
            np.copyto(waves.pc, place, where=waves.active)
            return steps


def _release_full(waves: Running) -> None:
    """Let workgroups go on of which all waves that have not ended wait."""
    if not waves.waiting.any():
        return
    shape = (len(waves.groups), waves.waves_per_group)
    waiting, ended = waves.waiting.reshape(shape), waves.ended.reshape(shape)
    full = np.asarray((waiting | ended).all(axis=1) & waiting.any(axis=1))
    waves.waiting &= ~full[waves.group]


def _released(waves: Running) -> bool:
    """Nothing can run: true where a barrier has let waves go on; a finding where some wait."""
    if waves.ended.all():
        return False
    before = waves.waiting.copy()
    _release_full(waves)
    if (before & ~waves.waiting).any():
        return True
    message = "waves wait at a barrier that others never reach"
    waves.faults.add_lanes(BARRIER, message, waves.site(), waves.waiting)
    return False
