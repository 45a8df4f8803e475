import numpy as np
import pytest

from tvm_iree_ext.base.errors import EmulationError
from tvm_iree_ext.emulator.findings import BOUNDS, MISALIGNED, READ_ONLY, Site, Where
from tvm_iree_ext.emulator.memory import WINDOW, GlobalMemory

SITE = Site("load", lambda index: Where((0, 0, 0), 0, index[-1]))


def places(address, *offsets):
    return np.array([address + offset for offset in offsets], np.uint64)


def test_the_hosts_copies_come_back():
    memory = GlobalMemory()
    first, second = memory.allocate(10), memory.allocate(10)
    memory.write(first, bytes(range(10)))
    memory.write(second, bytes(10))
    assert memory.read(first, 10) == bytes(range(10))
    assert abs(second - first) >= WINDOW


def test_fresh_memory_is_noise_of_the_seed():
    memories = GlobalMemory(1), GlobalMemory(1), GlobalMemory(2)
    one, same, other = (memory.read(memory.allocate(64), 64) for memory in memories)
    assert one == same != other
    assert any(one)


@pytest.mark.parametrize("kind", ["uint8", "uint16", "uint32", "uint64"])
@pytest.mark.parametrize("shift", [0, 1])
def test_lanes_load_what_lanes_stored(kind, shift):
    memory, size = GlobalMemory(), np.dtype(kind).itemsize
    addresses = places(memory.allocate(100), 48 + shift, 0 + shift)
    values = np.arange(6, dtype=kind).reshape(3, 2) + 1
    memory.store(addresses, values, None, SITE)
    np.testing.assert_array_equal(memory.load(addresses, kind, 3, None, SITE), values)
    one = addresses[:1] + np.uint64(size)
    assert memory.load(one, kind, 1, None, SITE).tolist() == [[3]]
    assert not memory.findings.all()


def test_lanes_of_several_allocations_are_served_in_one_load():
    memory = GlobalMemory()
    starts = [memory.allocate(8) for _ in range(2)]
    for number, start in enumerate(starts):
        memory.write(start, np.array([number, number + 10], np.uint32))
    addresses = places(0, starts[1], starts[0] + 4, starts[1] + 4)
    assert memory.load(addresses, np.uint32, 1, None, SITE).tolist() == [[1, 10, 11]]


def test_lanes_that_take_no_part_are_neither_read_nor_written():
    memory = GlobalMemory()
    start = memory.allocate(8)
    memory.write(start, bytes(8))
    mask = np.array([True, False])
    addresses = places(start, 0, 1 << 40)
    memory.store(addresses, np.array([[7, 8]], np.uint32), mask, SITE)
    assert memory.load(addresses, np.uint32, 1, mask, SITE)[0, 0] == 7
    assert memory.read(start, 8) == b"\7" + bytes(7)
    assert not memory.findings.all()


@pytest.mark.parametrize(
    ("offset", "said"),
    [
        (6, "4 bytes at byte 6 of allocation 0, which has 8"),
        (-4, "4 bytes at byte -4 of allocation 0, which has 8"),
        (WINDOW, "4 bytes where nothing was allocated"),
    ],
)
def test_an_access_outside_is_found_with_its_lane(offset, said):
    memory = GlobalMemory()
    start = memory.allocate(8)
    memory.write(start, bytes(8))
    addresses = places(start, 0, offset)
    found = memory.load(addresses, np.uint32, 1, None, SITE)
    assert found.tolist() == [[0, 0xA5A5A5A5]]
    memory.store(addresses, np.ones((1, 2), np.uint32), None, SITE)
    (finding,) = memory.findings.all()
    assert (finding.kind, finding.message, finding.where.lane) == (BOUNDS, said, 1)
    assert (finding.address, finding.count) == (start + offset, 2)
    assert memory.read(start, 8) == b"\1" + bytes(7)
    with pytest.raises(EmulationError, match="kernel: out of bounds: 4 bytes"):
        memory.findings.check("kernel")


def test_freed_memory_is_nobodys():
    memory = GlobalMemory()
    start = memory.allocate(8)
    memory.free(start)
    assert memory.allocate(8) != start
    memory.load(places(start, 0), np.uint32, 1, None, SITE)
    assert "which was freed" in memory.findings.all()[0].message
    with pytest.raises(KeyError):
        memory.free(start)


def test_atomics_that_meet_come_one_after_another():
    memory = GlobalMemory()
    start = memory.allocate(8)
    memory.write(start, np.array([10, 20], np.uint32))
    addresses = places(start, 0, 4, 0, 0)
    old = memory.update(addresses, np.add, np.array([1, 2, 3, 4], np.uint32), None, SITE)
    assert old.tolist() == [10, 20, 11, 14]
    assert np.frombuffer(memory.read(start, 8), np.uint32).tolist() == [18, 22]


def test_misalignment_is_found():
    memory = GlobalMemory()
    memory.misaligned(places(memory.allocate(64), 0, 8, 16, 24), 16, None, SITE)
    (finding,) = memory.findings.all()
    assert (finding.kind, finding.count, finding.where.lane) == (MISALIGNED, 2, 1)


def test_what_is_stored_to_protected_memory_is_found():
    memory = GlobalMemory()
    free, kept = memory.allocate(8), memory.allocate(8)
    memory.protect(kept)
    addresses, mask = np.array([free, kept], np.uint64), np.array([True, False])
    values = np.ones((1, 2), np.uint32)
    memory.store(addresses, values, mask, SITE)
    memory.load(addresses, np.uint32, 1, None, SITE)
    assert not memory.findings.all()
    memory.store(addresses, values, None, SITE)
    memory.update(addresses, np.add, values[0], None, SITE)
    assert [(found.kind, found.where.lane) for found in memory.findings.all()] == [(READ_ONLY, 1)]
    assert "written at byte 0 of allocation 1" in memory.findings.all()[0].message
