from collections import Counter
from random import Random

import numpy as np
import pytest
from random_layout import random_pair
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.codegen.gpu.device_code import compile_device
from tvm_iree_ext.codegen.gpu.gpu_pipeline import lower_device
from tvm_iree_ext.layout import Movement, NestedLayout, analyse_conversion, to_simt
from tvm_iree_ext.schedules.gpu.collectives.layout_conversion import (
    emit_conversion,
    shared_elements,
)
from tvm_iree_ext.schedules.gpu.collectives.through_shared import plan_staging
from tvm_iree_ext.schedules.gpu.emit.lane_registers import LaneRegisters, WorkgroupIds
from tvm_iree_ext.simulator import device_functions, simulate
from tvm_iree_ext.simulator.base.lane_values import element_type
from tvm_iree_ext.targets.names import make_target

SM_80, GFX942 = (make_target(name) for name in ("cuda:sm_80", "rocm:gfx942"))


def parts(layout, hardware, dtype):
    numbers = np.arange(np.prod(layout.undistributed_shape)).reshape(layout.undistributed_shape)
    held = to_simt(numbers.astype(element_type(dtype)), layout, *hardware, packed=True)
    return np.ascontiguousarray(held.reshape(*hardware, -1))


def converter(source, result, hardware, dtype, kind="cuda", **options):
    """A kernel that takes and gives each lane's registers, and the way it took."""
    num_subgroups, lanes = hardware
    before, after = (parts(layout, hardware, dtype).shape for layout in (source, result))
    size = shared_elements(source, result, *hardware, dtype, **options)
    with IRBuilder() as builder, I.prim_func(s_tir=True):
        I.func_name("convert")
        given, taken = (
            I.arg(name, I.Buffer(shape, dtype)) for name, shape in (("a", before), ("b", after))
        )
        with (
            I.launch_thread("blockIdx.x", 1),
            I.launch_thread("threadIdx.y", num_subgroups) as subgroup,
            I.launch_thread("threadIdx.x", lanes) as lane,
        ):
            have, want = (
                I.alloc_buffer((shape[-1],), dtype, scope="local") for shape in (before, after)
            )
            shared = I.alloc_buffer((size,), dtype, scope="shared") if size else None
            for register in range(before[-1]):
                I.buffer_store(have, given[subgroup, lane, register], [register])
            workgroup = WorkgroupIds(subgroup, lane, num_subgroups, lanes, kind)
            held = LaneRegisters(have), LaneRegisters(want)
            way = emit_conversion(source, result, *held, workgroup, shared, **options)
            for register in range(after[-1]):
                I.buffer_store(taken, want[register], [subgroup, lane, register])
    return builder.get(), way


def converted(source, result, hardware, dtype, target=SM_80, **options):
    func, way = converter(source, result, hardware, dtype, target.kind.name, **options)
    (kernel,) = device_functions(lower_device(func, target))
    given = parts(source, hardware, dtype)
    taken = np.zeros_like(parts(result, hardware, dtype))
    arrays = {"a": given, "b": taken}
    simulation = simulate(kernel, [arrays[parameter.name[0]] for parameter in kernel.params])
    simulation.check()
    return taken, way, simulation


def test_random_pairs_give_the_same_values_by_the_way_that_the_analysis_names():
    ways, seed = Counter(), 0
    while sum(ways.values()) < 30:
        random = Random(seed)
        seed += 1
        source, result, num_subgroups, lanes = random_pair(random)
        target = random.choice([SM_80, GFX942])
        size = 32 if target is SM_80 else 64
        if size % lanes or num_subgroups * size > 1024:
            continue
        hardware, dtype = (num_subgroups, size), random.choice(["float32", "float16", "int8"])
        taken, way, simulation = converted(source, result, hardware, dtype, target)
        np.testing.assert_array_equal(taken, parts(result, hardware, dtype))
        conversion = analyse_conversion(source, result, *hardware, packed=True)
        assert way is conversion.movement
        assert bool(simulation.counts.get("shuffle")) == (way is Movement.SHUFFLE)
        assert bool(simulation.counts.get("barrier")) == (way is Movement.SHARED)
        ways[way] += 1
    assert min(ways[way] for way in Movement) >= 3


ROWS = NestedLayout((1, 1), (1, 1), (1, 1), (8, 1), (1, 8), (0, 0), (1, 0))
PAIRS = NestedLayout((1, 1), (1, 1), (1, 1), (1, 4), (8, 2), (0, 0), (0, 1))
COLUMNS = NestedLayout((1, 1), (1, 1), (1, 1), (1, 8), (8, 1), (0, 0), (0, 1))


@pytest.mark.parametrize(("dtype", "shuffles"), [("float32", 7), ("float64", 14), ("int8", 7)])
def test_a_transposition_takes_a_shuffle_for_each_other_lane(dtype, shuffles):
    taken, _, simulation = converted(ROWS, COLUMNS, (1, 32), dtype)
    np.testing.assert_array_equal(taken, parts(COLUMNS, (1, 32), dtype))
    assert simulation.counts["shuffle"] == shuffles


@pytest.mark.costly
@pytest.mark.parametrize("through_shared_memory", [False, True])
@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "bool", "int64"])
def test_every_type_of_element_is_exchanged(dtype, through_shared_memory):
    options = {"through_shared_memory": through_shared_memory}
    taken, _, _ = converted(ROWS, PAIRS, (1, 64), dtype, GFX942, **options)
    assert taken.tobytes() == parts(PAIRS, (1, 64), dtype).tobytes()
    func, _ = converter(ROWS, PAIRS, (1, 64), dtype, "rocm", **options)
    assert compile_device(func, GFX942).resources["convert_kernel"].scratch_bytes == 0


def test_halves_travel_in_pairs():
    counts = [
        converted(ROWS, PAIRS, (1, 32), dtype)[2].counts["shuffle"]
        for dtype in ("float32", "float16")
    ]
    assert counts[0] == 2 * counts[1]


def test_shared_memory_is_taken_where_it_is_asked_for():
    taken, way, _ = converted(ROWS, COLUMNS, (1, 32), "float32", through_shared_memory=True)
    assert way is Movement.SHARED
    np.testing.assert_array_equal(taken, parts(COLUMNS, (1, 32), "float32"))


def test_what_shared_memory_does_not_hold_goes_there_in_boxes():
    boxes = Counter()
    for seed in range(25):
        random = Random(seed)
        source, result, num_subgroups, lanes = random_pair(random)
        if 32 % lanes or num_subgroups > 16:
            continue
        hardware, size = (num_subgroups, 32), np.prod(source.undistributed_shape)
        limit = {"limit_bytes": max(2, 2 * size // random.choice([1, 2, 3, 8]))}
        limit["through_shared_memory"] = True
        assert shared_elements(source, result, *hardware, "float16", **limit) * 2 <= max(
            2, 2 * size
        )
        taken, _, simulation = converted(source, result, hardware, "float16", **limit)
        np.testing.assert_array_equal(taken, parts(result, hardware, "float16"))
        boxes[simulation.counts["barrier"] // num_subgroups // 2 + 1] += 1
    assert len(boxes) > 3
    with pytest.raises(ScheduleError, match="1 bytes of shared memory; an element takes 2"):
        shared_elements(ROWS, COLUMNS, 1, 32, "float16", limit_bytes=1, through_shared_memory=True)


def test_boxes_follow_the_registers():
    """Each box is of the same registers in all lanes, where there is such a cut."""
    source, result = (
        NestedLayout((1, 4), (4, 1), (1, 1), (8, 4), (1, 4), (0, 1), (4, 1)),
        NestedLayout((4, 1), (1, 4), (1, 1), (2, 16), (4, 1), (1, 0), (16, 1)),
    )
    staging = plan_staging(source, result, (4, 32), 4, limit_bytes=5000)
    assert (staging.shape, staging.box) == ((32, 64), (16, 64))


def test_replicas_write_shared_memory_once():
    source = NestedLayout((1,), (1,), (1,), (4,), (2,), (0,), (2,))  # lanes 1, 3, ... are replicas
    taken, _, simulation = converted(source, source, (2, 32), "int32", through_shared_memory=True)
    np.testing.assert_array_equal(taken, parts(source, (2, 32), "int32"))
    stores = [a.addresses for a in simulation.accesses if a.space == "shared" and a.store]
    assert [(addresses >= 0).sum() for addresses in stores] == [4]


def test_shuffles_compile_to_lane_exchanges():
    func, _ = converter(ROWS, COLUMNS, (1, 64), "float32", "rocm")
    assembly = compile_device(func, GFX942).assembly
    assert assembly.count("ds_bpermute_b32") == 7
    assert "scratch_" not in assembly
