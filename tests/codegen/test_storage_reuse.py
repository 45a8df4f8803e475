"""Which buffers share memory, on small functions in the form that pipelines have them in."""

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import tirx
from tvm.script import tirx as T

from tvm_iree_ext.codegen.storage_reuse import reuse_storage
from tvm_iree_ext.intrin.kernel_attributes import OWN_BARRIERS


def rewritten(func):
    return reuse_storage(tvm.IRModule({"main": func.with_attr("global_symbol", "main")}))["main"]


def allocated(func):
    """What is allocated once buffers share: scopes, types and extents."""
    found = []
    tvm_ffi.structural_walk(rewritten(func).body, (tirx.AllocBuffer, found.append))
    buffers = [alloc.buffer for alloc in found]
    return [(b.scope(), str(b.dtype), *map(int, b.shape)) for b in buffers]


def run(func, *arrays):
    """Compile what the pass makes, and call it."""
    library = tvm.compile(tvm.IRModule({"main": rewritten(func)}), target="llvm")
    tensors = [tvm.runtime.tensor(array) for array in arrays]
    library["main"](*tensors)
    return tensors[-1].numpy()


F32 = ("global", "float32", 64)


def test_disjoint_lifetimes_share_and_the_result_is_right():
    @T.prim_func
    def func(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")):
        a = T.alloc_buffer((64,), "float32")
        b = T.alloc_buffer((64,), "float32")
        c = T.alloc_buffer((64,), "float32")
        for i in range(64):
            a[i] = x[i] + 1.0
        for i in range(64):
            b[i] = a[63 - i] * 2.0
        for i in range(64):
            c[i] = b[63 - i] + 3.0
        for i in range(64):
            y[i] = c[63 - i]

    assert allocated(func) == [F32, F32]
    x = np.arange(64, dtype="float32")
    got = run(func, x, np.zeros(64, "float32"))
    np.testing.assert_array_equal(got, ((x + 1) * 2 + 3)[::-1])


def test_nothing_is_computed_in_place():
    @T.prim_func
    def func(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")):
        a = T.alloc_buffer((64,), "float32")
        b = T.alloc_buffer((64,), "float32")
        for i in range(64):
            a[i] = x[i]
        for v in range(5):  # the last vector overlaps the one before
            b[T.Ramp(T.min(v * 14, 48), 1, 16)] = T.rsqrt(a[T.Ramp(T.min(v * 14, 48), 1, 16)])
        for i in range(64):
            y[i] = b[i]

    assert allocated(func) == [F32, F32]


def test_the_larger_extent_and_alignment_serve_all():
    @T.prim_func
    def func(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")):
        a = T.alloc_buffer((16,), "float32", align=128)
        b = T.alloc_buffer((64,), "float32")
        for i in range(16):
            a[i] = x[i]
        y[0] = a[3]
        for i in range(64):
            b[i] = x[i]
        for i in range(64):
            y[i] = b[i]

    assert allocated(func) == [F32]
    found = []
    tvm_ffi.structural_walk(rewritten(func).body, (tirx.AllocBuffer, found.append))
    assert int(found[0].buffer.data_alignment) == 128


def test_a_small_array_is_not_put_into_a_much_larger_one():
    @T.prim_func
    def func(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")):
        a = T.alloc_buffer((4,), "float32")
        b = T.alloc_buffer((128,), "float32")
        for i in range(4):
            a[i] = x[i]
        y[0] = a[3]
        for i in range(64):
            b[i] = x[i]
        for i in range(64):
            y[i] = b[i]

    assert sorted(allocated(func)) == [("global", "float32", 4), ("global", "float32", 128)]


@pytest.mark.parametrize(
    ("dtype", "scope"), [("int32", "global"), ("float32", "shared"), ("float32x2", "global")]
)
def test_other_types_and_scopes_do_not_share(dtype, scope):
    @T.prim_func
    def func(
        x: T.Buffer((64,), "float32"),
        z: T.Buffer((64,), dtype),
        y: T.Buffer((64,), "float32"),
        w: T.Buffer((64,), dtype),
    ):
        a = T.alloc_buffer((64,), "float32")
        b = T.alloc_buffer((64,), dtype, scope=scope)
        for i in range(64):
            a[i] = x[i]
        for i in range(64):
            y[i] = a[63 - i]
        for i in range(64):
            b[i] = z[i]
        for i in range(64):
            w[i] = b[63 - i]

    assert allocated(func) == [F32, (scope, dtype, 64)]


def test_private_memory_is_left_to_compilers():
    @T.prim_func
    def func(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")):
        a = T.alloc_buffer((4,), "float32", scope="local")
        b = T.alloc_buffer((4,), "float32", scope="local")
        a[0] = x[0]
        y[0] = a[0]
        b[0] = x[1]
        y[1] = b[0]

    assert allocated(func) == [("local", "float32", 4)] * 2


def test_what_a_turn_leaves_for_another_lives_through_the_loop():
    @T.prim_func
    def func(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")):
        a = T.alloc_buffer((64,), "float32")
        b = T.alloc_buffer((64,), "float32")
        for i in range(64):
            a[i] = 0.0
        for _ in range(8):
            for i in range(64):
                a[i] = a[i] + x[i]
            for i in range(64):
                b[i] = x[i] * 2.0
            for i in range(64):
                y[i] = b[63 - i]
        y[0] = x[0]

    assert allocated(func) == [F32, F32]
    got = run(func, np.arange(64, dtype="float32"), np.zeros(64, "float32"))
    assert got[1:].tolist() == [2.0 * (63 - i) for i in range(1, 64)]


def test_so_does_what_is_allocated_inside():
    """Where a loop's turns use what others left, it is only allocated there by its uses."""

    @T.prim_func
    def func(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")):
        for k in range(8):
            a = T.alloc_buffer((64,), "float32")
            b = T.alloc_buffer((64,), "float32")
            if k == 0:
                for i in range(64):
                    a[i] = x[i]
            for i in range(64):
                b[i] = a[63 - i]
            for i in range(64):
                y[i] = b[i]

    assert allocated(func) == [F32, F32]


def test_while_is_a_loop_and_reads_in_its_condition():
    @T.prim_func
    def func(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")):
        a = T.alloc_buffer((64,), "float32")
        b = T.alloc_buffer((64,), "float32")
        a[0] = x[0]
        while a[0] < 3.0:
            b[0] = x[1]
            a[0] = a[0] + 1.0
            y[0] = b[0]

    assert allocated(func) == [F32, F32]


def test_a_view_is_its_buffer():
    @T.prim_func
    def func(
        x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32"), w: T.Buffer((64,), "uint32")
    ):
        a = T.alloc_buffer((64,), "float32")
        b = T.alloc_buffer((64,), "float32")
        words = T.decl_buffer((64,), "uint32", data=a.data)
        again = T.decl_buffer((64,), "uint32", data=words.data)
        for i in range(64):
            a[i] = x[i]
        for i in range(64):
            b[i] = x[i] + 1.0
        for i in range(64):
            y[i] = b[i]
        for i in range(64):
            w[i] = again[i]

    assert allocated(func) == [F32, F32]
    x = np.arange(64, dtype="float32")
    got = run(func, x, np.zeros(64, "float32"), np.zeros(64, "uint32"))
    np.testing.assert_array_equal(got, x.view("uint32"))


def test_a_view_goes_with_its_buffer():
    @T.prim_func
    def func(
        x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32"), w: T.Buffer((64,), "uint32")
    ):
        a = T.alloc_buffer((64,), "float32")
        b = T.alloc_buffer((64,), "float32")
        words = T.decl_buffer((64,), "uint32", data=b.data)
        for i in range(64):
            a[i] = x[i]
        for i in range(64):
            y[i] = a[i]
        for i in range(64):
            b[i] = x[i] + 1.0
        for i in range(64):
            w[i] = words[63 - i]

    assert allocated(func) == [F32]
    x = np.arange(64, dtype="float32")
    got = run(func, x, np.zeros(64, "float32"), np.zeros(64, "uint32"))
    np.testing.assert_array_equal(got, (x + 1)[::-1].view("uint32"))


def test_a_buffer_whose_address_is_taken_shares_with_none():
    @T.prim_func
    def func(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")):
        a = T.alloc_buffer((64,), "float32")
        b = T.alloc_buffer((64,), "float32")
        p: T.let[T.handle("float32")] = T.address_of(a[0])
        a[0] = x[0]
        b[0] = x[0]
        y[0] = b[0]
        T.evaluate(T.call_extern("int32", "use", p))

    assert allocated(func) == [F32, F32]

    @T.prim_func
    def by_data(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")):
        a = T.alloc_buffer((64,), "float32")
        b = T.alloc_buffer((64,), "float32")
        T.evaluate(T.call_extern("int32", "use", a.data))
        b[0] = x[0]
        y[0] = b[0]

    assert allocated(by_data) == [F32, F32]


def test_branches_share_where_one_thread_takes_one():
    @T.prim_func
    def func(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")):
        a = T.alloc_buffer((64,), "float32")
        b = T.alloc_buffer((64,), "float32")
        if x[0] > 0.0:
            a[0] = x[1]
            y[0] = a[0]
        else:
            b[0] = x[2]
            y[0] = b[0]

    assert allocated(func) == [F32]


def test_memory_of_a_parallel_loop_is_of_its_turn():
    @T.prim_func
    def func(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")):
        for task in T.parallel(64):
            a = T.alloc_buffer((64,), "float32")
            b = T.alloc_buffer((64,), "float32")
            for i in range(64):
                a[i] = x[task]
            y[task] = a[task]
            for i in range(64):
                b[i] = x[task] + 1.0
            y[task] = y[task] + b[63 - task]

    assert allocated(func) == [F32]
    loops = []
    tvm_ffi.structural_walk(rewritten(func).body, (tirx.For, loops.append))
    (parallel,) = [loop for loop in loops if loop.kind == tirx.ForKind.PARALLEL]
    inside = []
    tvm_ffi.structural_walk(parallel.body, (tirx.AllocBuffer, inside.append))
    assert len(inside) == 1
    x = np.arange(64, dtype="float32")
    np.testing.assert_array_equal(run(func, x, np.zeros(64, "float32")), 2 * x + 1)


def test_memory_around_a_parallel_loop_lives_through_it():
    @T.prim_func
    def func(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")):
        a = T.alloc_buffer((64,), "float32")
        b = T.alloc_buffer((64,), "float32")
        for task in T.parallel(64):
            a[task] = x[task]
            y[task] = a[task]
            b[task] = x[task]
            y[task] = b[task]

    assert allocated(func) == [F32, F32]


SHARED = ("shared", "float32", 64)


def kernel(own_barriers=False):
    @T.prim_func
    def func(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")):
        T.launch_thread("blockIdx.x", 1)
        lane = T.launch_thread("threadIdx.x", 64)
        a = T.alloc_buffer((64,), "float32", scope="shared")
        b = T.alloc_buffer((64,), "float32", scope="shared")
        a[lane] = x[lane]
        y[lane] = a[63 - lane]
        b[lane] = x[lane]
        y[lane] = b[63 - lane]

    return func.with_attr(OWN_BARRIERS, 1) if own_barriers else func


def test_shared_memory_is_shared_where_tvm_places_the_barriers():
    assert allocated(kernel()) == [SHARED]
    assert allocated(kernel(own_barriers=True)) == [SHARED, SHARED]


def test_lanes_take_both_branches_at_a_time():
    @T.prim_func
    def func(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")):
        T.launch_thread("blockIdx.x", 1)
        lane = T.launch_thread("threadIdx.x", 64)
        a = T.alloc_buffer((64,), "float32", scope="shared")
        b = T.alloc_buffer((64,), "float32", scope="shared")
        if lane < 32:
            a[lane] = x[lane]
            y[lane] = a[lane]
        else:
            b[lane] = x[lane]
            y[lane] = b[lane]

    assert allocated(func) == [SHARED, SHARED]


def test_kernels_do_not_share_their_memory():
    @T.prim_func
    def func(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")):
        with T.launch_thread("blockIdx.x", 1):
            lane = T.launch_thread("threadIdx.x", 64)
            a = T.alloc_buffer((64,), "float32", scope="shared")
            a[lane] = x[lane]
            y[lane] = a[63 - lane]
        with T.launch_thread("blockIdx.x", 1):
            lane = T.launch_thread("threadIdx.x", 64)
            b = T.alloc_buffer((64,), "float32", scope="shared")
            b[lane] = x[lane]
            y[lane] = b[63 - lane]

    assert allocated(func) == [SHARED, SHARED]


def test_what_is_copied_asynchronously_shares_with_none():
    @T.prim_func
    def func(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")):
        T.launch_thread("blockIdx.x", 1)
        lane = T.launch_thread("threadIdx.x", 64)
        a = T.alloc_buffer((64,), "float32", scope="shared")
        b = T.alloc_buffer((64,), "float32", scope="shared")
        with T.attr(0, "async_scope", 1):
            a[lane] = x[lane]
        y[lane] = a[63 - lane]
        b[lane] = x[lane]
        y[lane] = b[63 - lane]

    assert allocated(func) == [SHARED, SHARED]


def test_an_allocation_whose_extent_is_known_in_a_loop_only_stays_there():
    @T.prim_func
    def func(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")):
        for k in range(1, 8):
            a = T.alloc_buffer((k,), "float32")
            a[0] = x[k]
            y[k] = a[0]

    (loop,) = [rewritten(func).body]
    assert isinstance(loop, tirx.For)
    x = np.arange(64, dtype="float32")
    assert run(func, x, np.zeros(64, "float32"))[:8].tolist() == [0, *range(1, 8)]


def test_extents_of_the_arguments_share_where_they_are_one():
    @T.prim_func
    def func(x: T.handle, y: T.handle):
        n, m = T.int64(), T.int64()
        source = T.match_buffer(x, (n,), "float32")
        target = T.match_buffer(y, (m,), "float32")
        a = T.alloc_buffer((n,), "float32")
        b = T.alloc_buffer((m,), "float32")
        c = T.alloc_buffer((n,), "float32")
        for i in range(n):
            a[i] = source[i]
        target[0] = a[1]
        for i in range(m):
            b[i] = T.float32(1)
        target[1] = b[1]
        for i in range(n):
            c[i] = source[i]
        target[2] = c[1]

    found = []
    tvm_ffi.structural_walk(rewritten(func).body, (tirx.AllocBuffer, found.append))
    assert sorted(str(alloc.buffer.shape[0]) for alloc in found) == ["m", "n"]


def test_copies_of_a_statement_keep_their_allocation():
    @T.prim_func
    def func(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")):
        a = T.alloc_buffer((64,), "float32")
        for i in range(64):
            a[i] = x[i]
        for i in range(64):
            y[i] = a[63 - i]

    twice = func.with_body(
        tirx.SeqStmt(
            [
                tirx.IfThenElse(tirx.const(True, "bool"), func.body, None),
                tirx.IfThenElse(tirx.const(True, "bool"), func.body, None),
            ]
        )
    )
    assert allocated(twice) == [F32, F32]
