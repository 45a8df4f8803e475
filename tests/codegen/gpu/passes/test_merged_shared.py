"""Dynamic shared memory in one buffer: none of its parts may be in the place of another."""

import numpy as np
import pytest
from tvm.script import tirx as T

from tvm_iree_ext.base.errors import BuildError
from tvm_iree_ext.codegen.gpu.gpu_pipeline import lower_device
from tvm_iree_ext.intrin.kernel_attributes import OWN_BARRIERS
from tvm_iree_ext.simulator import device_functions
from tvm_iree_ext.simulator.runs.simulated_ops import simulate_function
from tvm_iree_ext.targets.names import make_target

TARGET = "cuda:sm_80"


@T.prim_func(s_tir=True)
def two_turned(
    x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32"), z: T.Buffer((64,), "float32")
):
    T.func_attr({"global_symbol": "main", "tirx.noalias": True, OWN_BARRIERS: True})
    with T.sblock("root"):
        first = T.sblock_alloc_buffer((64,), "float32", scope="shared.dyn")
        second = T.sblock_alloc_buffer((64,), "float16", scope="shared.dyn")
        for _ in T.thread_binding(1, "blockIdx.x"):
            for lane in T.thread_binding(64, "threadIdx.x"):
                with T.sblock("store_first"):
                    v = T.axis.opaque(64, lane)
                    first[v] = x[v]
                    T.tvm_storage_sync("shared.dyn")
                with T.sblock("load_first"):
                    v = T.axis.opaque(64, lane)
                    y[v] = first[63 - v]
                with T.sblock("store_second"):
                    v = T.axis.opaque(64, lane)
                    second[v] = T.Cast("float16", x[v])
                    T.tvm_storage_sync("shared.dyn")
                with T.sblock("load_second"):
                    v = T.axis.opaque(64, lane)
                    z[v] = T.Cast("float32", second[63 - v])


def test_what_is_stored_next_is_not_in_the_place_of_what_other_lanes_still_load():
    x = np.arange(64, dtype="float32")
    y, z = np.zeros_like(x), np.zeros_like(x)
    for done in simulate_function(two_turned, TARGET, {"x": x, "y": y, "z": z}):
        done.check()
    assert (y == x[::-1]).all()
    assert (z == x[::-1]).all()


def test_one_buffer_has_room_for_all_and_their_alignment():
    (kernel,) = device_functions(lower_device(two_turned, make_target(TARGET)))
    assert str(kernel).count("alloc_buffer") == 1
    assert 'T.alloc_buffer((384,), "uint8", scope="shared.dyn")' in str(kernel)


@T.prim_func(s_tir=True)
def given_away(x: T.Buffer((64,), "float32")):
    T.func_attr({"global_symbol": "main", "tirx.noalias": True})
    with T.sblock("root"):
        before = T.sblock_alloc_buffer((64,), "float32", scope="shared.dyn")
        given = T.sblock_alloc_buffer((64,), "float32", scope="shared.dyn")
        for _ in T.thread_binding(1, "blockIdx.x"):
            for lane in T.thread_binding(64, "threadIdx.x"):
                with T.sblock("give"):
                    v = T.axis.opaque(64, lane)
                    T.reads(x[v], before[v], given[v])
                    T.writes(x[v], before[v], given[v])
                    before[v] = x[v]
                    given[v] = x[v]
                    T.evaluate(T.call_extern("int32", "somewhere", given.data))
                    x[v] = before[v] + given[v]


def test_a_buffer_whose_address_goes_somewhere_is_refused():
    with pytest.raises(BuildError, match="the address of given in shared memory goes somewhere"):
        lower_device(given_away, make_target(TARGET))
