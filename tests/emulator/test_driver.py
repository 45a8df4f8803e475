import ctypes

import numpy as np
import pytest

from tvm_iree_ext.base.errors import EmulationError
from tvm_iree_ext.emulator.driver import EmulatedDriver
from tvm_iree_ext.emulator.findings import BOUNDS, READ_ONLY, Site, Where
from tvm_iree_ext.emulator.tensor_maps import decode
from tvm_iree_ext.runtime.launch.driver import DriverError, EncodedTensorMap, Gpu, LaunchFrame
from tvm_iree_ext.runtime.launch_graph import LaunchGraph

SITE = Site("store", lambda index: Where((0, 0, 0), 0, index[-1]))


class Doubling:
    """Doubles ``count`` numbers."""

    argument_sizes = (8, 4)
    most_lanes = 256

    def launch(self, launch):
        address, count = (int.from_bytes(one, "little") for one in launch.arguments)
        lanes = np.uint64(address) + 4 * np.arange(count, dtype=np.uint64)
        memory = launch.device.memory
        values = memory.load(lanes, np.uint32, 1, None, SITE)
        memory.store(lanes, 2 * values, None, SITE)


def load(image, device):
    return {"double": Doubling()} if image.startswith(b"code") else None


@pytest.fixture(params=["rocm", "cuda"])
def gpu(request):
    return Gpu(request.param, library=EmulatedDriver(request.param, "sm_90a", load))


def launch(gpu, address, count):
    module = gpu.load([b"for another chip", b"code"])
    arguments = [{"array": "x"}, {"value": count, "dtype": "int32"}]
    step = {"launch": "double", "grid": [1, 1, 1], "block": [32, 1, 1], "shared": 0}
    prepared = gpu.prepared(gpu.function(module, "double"), {**step, "arguments": arguments})
    with gpu.current():
        LaunchFrame(gpu, [prepared], ["x"], {})([address], 0)
        gpu.wait()


def test_a_launch_is_executed_on_the_memory_that_was_written(gpu):
    data = np.arange(4, dtype=np.uint32)
    address = gpu.allocate(data.nbytes)
    gpu.write(address, data.ctypes.data, data.nbytes)
    launch(gpu, address, 4)
    found = np.empty_like(data)
    gpu.read(found.ctypes.data, address, found.nbytes)
    gpu.free(address)
    assert found.tolist() == [0, 2, 4, 6]


def test_what_a_launch_does_wrong_is_raised_after_it(gpu):
    with pytest.raises(EmulationError, match=f"double: {BOUNDS}: 4 bytes at byte 16 of allocation"):
        launch(gpu, gpu.allocate(16), 5)


def test_inputs_that_a_kernel_writes_are_found_where_they_are_to_stay():
    data = np.arange(4, dtype=np.uint32)
    gpu = Gpu("rocm", library=EmulatedDriver("rocm", "gfx942", load, inputs_stay=True))
    address = gpu.allocate(data.nbytes)
    launch(gpu, address, 4)  # a result: the host has not filled it
    gpu.write(address, data.ctypes.data, data.nbytes)
    with pytest.raises(EmulationError, match=f"double: {READ_ONLY}: written at byte 0"):
        launch(gpu, address, 4)


def test_what_the_driver_would_refuse_is_refused(gpu):
    with pytest.raises(DriverError, match="status 209"):
        gpu.load([b"for another chip"])
    with pytest.raises(DriverError, match="status 500"):
        gpu.function(gpu.load([b"code"]), "treble")
    with pytest.raises(DriverError, match="status 1"):
        gpu.free(8)
    with pytest.raises(DriverError, match="status 1"):
        gpu.write(gpu.allocate(4), ctypes.addressof(ctypes.c_uint64()), 8)


def test_cuda_says_which_chip_it_is():
    assert Gpu("cuda", library=EmulatedDriver("cuda", "sm_90a", load)).capability() == (9, 0)
    assert Gpu("cuda", library=EmulatedDriver("cuda", "sm_120", load)).capability() == (12, 0)


def test_cuda_gives_more_shared_memory_where_it_is_told():
    gpu = Gpu("cuda", library=EmulatedDriver("cuda", "sm_90a", load))
    function = gpu.function(gpu.load([b"code"]), "double")
    arguments = [{"array": "x"}, {"value": 0, "dtype": "int32"}]
    step = {"launch": "double", "grid": [1, 1, 1], "block": [32, 1, 1], "arguments": arguments}
    large = gpu.prepared(function, {**step, "shared": 100 << 10})  # which asks for it
    LaunchFrame(gpu, [large], ["x"], {})([gpu.allocate(4)], 0)
    gpu = Gpu("cuda", library=EmulatedDriver("cuda", "sm_90a", load))
    function = gpu.function(gpu.load([b"code"]), "double")
    small = gpu.prepared(function, {**step, "shared": 0})
    small.extents = (*small.extents[:6], 100 << 10)
    with pytest.raises(DriverError, match="status 1"):
        LaunchFrame(gpu, [small], ["x"], {})([gpu.allocate(4)], 0)


def test_a_tensor_map_is_what_the_plan_says():
    gpu = Gpu("cuda", library=EmulatedDriver("cuda", "sm_90a", load))
    step = {
        "extents": [64, 30], "strides": [128], "box": [64, 8], "steps": [1, 1],
        "dtype": "float16", "interleave": 0, "swizzle": 3, "l2_promotion": 2, "fill": 0,
    }  # fmt: skip
    made = EncodedTensorMap(gpu, step)
    made.lie_at(4096)
    found = decode(bytes(made.words))
    assert (found.address, found.extents, found.box) == (4096, (64, 30), (64, 8))
    with pytest.raises(DriverError, match="status 1"):
        made.lie_at(4097)


def test_launches_may_be_a_graph():
    gpu = Gpu("cuda", library=EmulatedDriver("cuda", "sm_90a", load))
    data = np.arange(4, dtype=np.uint32)
    first, second = gpu.allocate(data.nbytes), gpu.allocate(data.nbytes)
    for address in (first, second):
        gpu.write(address, data.ctypes.data, data.nbytes)
    function = gpu.function(gpu.load([b"code"]), "double")
    arguments = [{"array": "x"}, {"value": 4, "dtype": "int32"}]
    step = {"launch": "double", "grid": [1, 1, 1], "block": [32, 1, 1], "shared": 0}
    twice = [gpu.prepared(function, {**step, "arguments": arguments})] * 2
    graph = LaunchGraph(gpu, LaunchFrame(gpu, twice, ["x"], {}), [first])
    graph([first], 0)
    graph([second], 0)
    graph([second], 0)
    found = np.empty_like(data)
    for address, factor in ((first, 4), (second, 16)):
        gpu.read(found.ctypes.data, address, found.nbytes)
        assert found.tolist() == (factor * data).tolist()
    graph.close()
