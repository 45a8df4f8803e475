"""Times of GPU kernels without a GPU: AMD's, whose compiler comes with TVM, and NVIDIA's."""

import dataclasses

import pytest

from tvm_iree_ext import ops
from tvm_iree_ext.base.errors import BuildError, TargetError, TuningError
from tvm_iree_ext.codegen.gpu.device_code import device_tools
from tvm_iree_ext.codegen.linker import find_lld
from tvm_iree_ext.inspection.inspected_kernel import inspect_op
from tvm_iree_ext.schedules.dispatch import choose
from tvm_iree_ext.targets.gpu import gpu_chip
from tvm_iree_ext.targets.names import make_target
from tvm_iree_ext.tuning.static.loop_counts import loop_counts
from tvm_iree_ext.tuning.static.static_cost import static_cost
from tvm_iree_ext.tuning.static.static_measurer import StaticMeasurer

TARGET = make_target("rocm:gfx942")
MAPS = ["(d0, d1, d2) -> (d0, d2)", "(d0, d1, d2) -> (d2, d1)", "(d0, d1, d2) -> (d0, d1)"]


@pytest.fixture(scope="module", autouse=True)
def linker():
    try:
        find_lld()
    except BuildError as error:
        pytest.skip(str(error))


def matmul(m, n, k):
    operands = (ops.TensorType(shape, "float16") for shape in ((m, k), (k, n)))
    return ops.contraction(*operands, indexing_maps=MAPS)


def heuristic(op):
    return choose(op, TARGET).heuristic(op, TARGET)


@pytest.mark.parametrize("target", ["rocm:gfx942", "rocm:gfx1100"])
def test_loops_and_assembly_together_count_every_operation(target):
    op = matmul(256, 256, 512)
    code = inspect_op(op, target)
    ((name, launch),) = code.launches.items()
    loops = loop_counts(next(iter(code.module.functions.values())), launch.extents)
    hot = code.instructions(name).hot_loop
    lanes = int(code.target.attrs["thread_warp_size"])
    subgroups = launch.lanes // lanes
    for tag, extent in launch.extents.items():
        subgroups *= extent if tag.startswith("block") else 1
    assert loops.mma * hot.flops / hot.mma * subgroups == op.flops()


def test_the_middle_of_what_an_extent_can_be_counts():
    shape = (1, 1, 128, 64)
    counts = {}
    for causal in (False, True):
        op = ops.attention(shape, shape, shape, dtype="float16", causal=causal)
        code = inspect_op(op, TARGET)
        name = next(iter(code.launches))
        kernel = next(f for v, f in code.module.functions.items() if v.name_hint == name)
        counts[causal] = loop_counts(kernel, code.launches[name].extents).mma
    assert 0 < counts[True] <= counts[False]


def test_what_is_slower_costs_more():
    op = matmul(1024, 1024, 1024)
    usual = static_cost(op, TARGET)
    assert usual.time_us > usual.memory_us > 0
    config = heuristic(op)
    longer = static_cost(matmul(1024, 1024, 4096), TARGET, config)
    assert longer.time_us > 2 * usual.time_us
    small = dataclasses.replace(
        config,
        workgroup_tile={"m": 32, "n": 32},
        subgroups={"m": 1, "n": 1},
        splits=1,
        workgroups=0,
    )
    many = matmul(8192, 8192, 1024)  # work for every core
    usual, worse = static_cost(many, TARGET, config), static_cost(many, TARGET, small)
    assert worse.kernels[0].parts["cache"] > usual.kernels[0].parts["cache"]
    parts = usual.kernels[0].parts
    assert parts["loop"] > parts["mma"]  # which has no waits
    assert "latency" not in parts
    assert worse.time_us > usual.time_us


def test_no_share_of_the_tiles_takes_less_than_the_peak():
    op = matmul(2048, 2048, 2048)
    shares = dataclasses.replace(heuristic(op), splits=1, workgroups=304)
    peak = gpu_chip(TARGET).parts[0].peak_tflops["float16"]
    assert static_cost(op, TARGET, shares).kernels[0].parts["mma"] >= op.flops() / (peak * 1e6)


def test_a_kernel_without_matrix_instructions_has_a_time():
    small, large = (static_cost(ops.scan((rows, 4096), dimension=1), TARGET) for rows in (64, 8192))
    assert large.time_us > large.memory_us
    assert large.time_us > small.time_us


def test_candidates_are_ranked_without_a_device():
    op = matmul(256, 256, 256)
    config = heuristic(op)
    with StaticMeasurer("rocm:gfx942", workers=1) as measurer:
        measurer.submit("usual", op, config)
        measurer.submit("wrong", op, dataclasses.replace(config, mma_kind="none such"))
        found = {one.candidate_id: one for one in measurer.results()}
    assert found["usual"].times_us == (static_cost(op, TARGET, config).time_us,)
    assert found["wrong"].status == "build_failed"
    assert "none such" in found["wrong"].message


def test_refuses_what_it_cannot_count():
    with pytest.raises(TargetError, match="llvm is not a GPU target"):
        StaticMeasurer("llvm")
    with pytest.raises(TuningError, match="rows are known when the kernel is called"):
        static_cost(matmul("rows", 64, 64), TARGET)
    with pytest.raises(TuningError, match="gfx1102: no part's peaks are recorded"):
        static_cost(matmul(64, 64, 64), "rocm:gfx1102")


@pytest.mark.costly
@pytest.mark.parametrize("target", ["cuda:sm_80", "cuda:sm_90a"])
def test_loops_of_nvidia_have_a_time_of_the_model(target):
    """Of a product that a warpgroup multiplies, of those that multiply: another only copies."""
    if "nvdisasm" not in device_tools(make_target(target)):
        pytest.skip("no nvdisasm")
    (kernel,) = static_cost(matmul(2048, 2048, 2048), target).kernels
    assert 1 < kernel.parts["loop"] / kernel.parts["mma"] < 2
    assert "latency" not in kernel.parts
