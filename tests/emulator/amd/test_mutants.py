"""Code objects with one fault each: all must be found, by a finding or by a wrong result."""

import struct
from dataclasses import replace

import numpy as np
import pytest

import tvm_iree_ext as ext
from tvm_iree_ext.base.errors import EmulationError
from tvm_iree_ext.building.kernel_build import build
from tvm_iree_ext.emulator.amd.code_object import read_code_object
from tvm_iree_ext.emulator.amd.decoding import decode
from tvm_iree_ext.emulator.amd.execution import AmdKernel
from tvm_iree_ext.emulator.driver import EmulatedDriver
from tvm_iree_ext.runtime.launch.launcher import Kernels

pytest.importorskip("tinygrad")

TARGET, CHIP = "rocm:gfx942", "gfx942"
NO_WAIT = 0xCF7F  # of S_WAITCNT: as many of each counter as there can be


@pytest.fixture(scope="module")
def product(tmp_path_factory):
    """A product through shared memory, with its operands and its result."""
    folder = tmp_path_factory.mktemp("product") / "kernel"
    maps = ["(m, n, k) -> (m, k)", "(m, n, k) -> (k, n)", "(m, n, k) -> (m, n)"]
    op = ext.ops.contraction(
        (70, 96), (96, 80), indexing_maps=maps, dtype="float16", result_dtype="float32"
    )
    build(op, TARGET, folder=folder)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, shape).astype("float16") for shape in ((70, 96), (96, 80)))
    return folder, a, b, a.astype("float32") @ b.astype("float32")


def outcome(product, change=lambda kernel: kernel, order=0):
    """What is wrong with a code object whose kernels are changed; empty where nothing is."""
    folder, a, b, want = product

    def load(image, device):
        kernels = read_code_object(image)
        return {name: AmdKernel(change(kernel)) for name, kernel in kernels.items()}

    got = np.zeros_like(want)
    try:
        Kernels(folder, library=EmulatedDriver("rocm", CHIP, load, order=order))(a, b, got)
    except EmulationError as error:
        return str(error)
    return "" if np.array_equal(got, want) else "wrong result"


def instructions(kernel):
    place = kernel.start
    while place < len(kernel.text):
        one = decode(kernel.text, place, kernel.chip)
        yield one
        if one.name == "S_ENDPGM":
            return
        place += one.size


def patched(kernel, place, data):
    text = kernel.text[:place] + data + kernel.text[place + len(data) :]
    return replace(kernel, text=text)


def words(one):
    return struct.unpack_from("<I", one.decoded.to_bytes())[0]


@pytest.mark.parametrize("order", [0, 1])
def test_the_code_as_it_is_has_no_fault(product, order):
    assert outcome(product, order=order) == ""


def test_each_wait_that_is_dropped_is_found(product):
    (kernel,) = read_code_object((product[0] / "kernel.hsaco").read_bytes()).values()
    waits = [one for one in instructions(kernel) if one.name == "S_WAITCNT"]
    assert len(waits) > 5
    for wait in waits:
        word = struct.pack("<I", words(wait) & 0xFFFF0000 | NO_WAIT)
        assert outcome(product, lambda k, at=wait.place, word=word: patched(k, at, word)), wait


def test_each_barrier_that_is_dropped_is_found(product):
    (kernel,) = read_code_object((product[0] / "kernel.hsaco").read_bytes()).values()
    barriers = [one for one in instructions(kernel) if one.name == "S_BARRIER"]
    assert barriers
    nop = struct.pack("<I", 0xBF800000)
    for barrier in barriers:
        assert outcome(product, lambda k, at=barrier.place: patched(k, at, nop)), barrier


@pytest.mark.parametrize("name", ["GLOBAL_STORE", "DS_READ", "DS_WRITE", "V_MFMA"])
def test_a_wrong_register_or_offset_is_found(product, name):
    (kernel,) = read_code_object((product[0] / "kernel.hsaco").read_bytes()).values()
    one = next(one for one in instructions(kernel) if one.name.startswith(name))
    first, second = struct.unpack("<II", one.decoded.to_bytes())
    if name == "V_MFMA":
        second ^= 1  # another register of A
    elif name == "GLOBAL_STORE":
        first ^= 0x40  # 64 bytes further on
    else:
        first ^= 0x10
    data = struct.pack("<II", first, second)
    assert outcome(product, lambda k: patched(k, one.place, data))


def test_shared_memory_that_the_descriptor_does_not_declare_is_found(product):
    def smaller(kernel):
        size = kernel.descriptor.lds_bytes // 2
        return replace(kernel, descriptor=replace(kernel.descriptor, lds_bytes=size))

    assert "of shared memory, of which" in outcome(product, smaller)


def test_lanes_that_should_not_write_are_found(product):
    (kernel,) = read_code_object((product[0] / "kernel.hsaco").read_bytes()).values()
    saves = [one for one in instructions(kernel) if "SAVEEXEC" in one.name]
    assert saves

    def all_lanes(k):
        for one in saves:  # the mask of those that are inside becomes that of all
            k = patched(k, one.place, struct.pack("<I", words(one) & ~0xFF | 0xC1))
        return k

    assert outcome(product, all_lanes)
