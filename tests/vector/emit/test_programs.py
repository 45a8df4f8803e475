"""Whole programs compute the same compiled as they mean: loops, tensors, who shares memory."""

import numpy as np
import pytest

import tvm_iree_ext as ext
from tvm_iree_ext import vector
from tvm_iree_ext.base.dtypes import numpy_dtype
from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.vector import VectorError
from tvm_iree_ext.vector.emit.aliasing import Aliases

RNG = np.random.default_rng(0)


def floats(*shape, dtype=np.float32):
    return RNG.integers(-4, 5, shape).astype(dtype)


def double(b, tensor, out):
    return b.generic([tensor], [out], lambda one, _: one + one)[0]


def sharing(program):
    """The results that are written in place, by their ops' names."""
    return sorted(value.op.name for value in Aliases(program.body).in_place)


def test_a_loop_carries_vectors_scalars_and_tensors(agree):
    with vector.program("carry") as b:
        x = b.argument("x", vector.tensor((6, 4)))
        start, least = b.constant(0.0, vector.vector((4,))), b.constant(100.0, "f32")
        with b.loop(0, 6, carry=[start, least, x]) as loop:
            total, small, rows = loop.carried
            row = b.transfer_read(rows, [loop.index, 0], (4,), in_bounds=[True])
            small = b.elementwise("minimumf", small, b.reduction(row, kind="minimumf"))
            rows = b.transfer_write(row * 2.0, rows, [loop.index, 0])
            loop.yield_(total + row, small, rows)
        b.returns(*loop.results)
    agree([(b.program, {"x": floats(6, 4)})])


def test_what_a_loop_carries_may_change_places(agree):
    with vector.program("swap") as b:
        x, y = (b.argument(name, vector.vector((2, 4))) for name in "xy")
        with b.loop(0, 3, carry=[x, y, x[0]]) as loop:
            first, second, row = loop.carried
            loop.yield_(second, b.shape_cast(first, (2, 4)), b.extract(first, [1]))
            assert row.shape == (4,)
        b.returns(*loop.results)
    agree([(b.program, {"x": floats(2, 4), "y": floats(2, 4)})])


@pytest.mark.parametrize(("lower", "upper", "step"), [(0, 7, 2), (3, 3, 1), (5, 2, 1), (1, 8, 3)])
def test_loops_of_any_bounds(agree, lower, upper, step):
    with vector.program("bounds") as b:
        bounds = [b.argument(name, "index") for name in ("lower", "upper", "step")]
        results = []
        for given in ((lower, upper, step), bounds):
            with b.loop(*given, carry=[b.index(0)]) as loop:
                loop.yield_(loop.carried[0] * 10 + loop.index)
            results += loop.results
        b.returns(*results)
    inputs = {"lower": lower, "upper": upper, "step": step}
    agree([(b.program, inputs)])


def test_conditions(agree):
    with vector.program("conditions") as b:
        x = b.argument("x", vector.tensor((2, 4)))
        flag = b.argument("flag", "i1")
        memory = b.argument("memory", vector.buffer((4,)))
        v = b.transfer_read(x, [0, 0], (4,))
        w, k, t = b.if_(
            flag,
            lambda: [v + v, b.index(1), double(b, x, x)],
            lambda: [v, b.index(2), b.fill(7.0, x)],
        )
        b.if_(flag, lambda: b.store(v, memory, [0]))
        b.if_(flag, lambda: None, lambda: b.store(w, memory, [0]))
        b.returns(w, k, t)
    given = {"x": floats(2, 4), "memory": floats(4)}
    agree([(b.program, {**given, "flag": flag}) for flag in (True, False)])


def test_structured_ops(agree):
    pairs = []
    for dtype in ("f32", "f16", "bf16", "i8", "i32"):
        with vector.program("structured") as b:
            x, y = b.argument("x", vector.tensor((2, 3, 4), dtype)), None
            y = b.argument("y", vector.tensor((2, 4, 5), dtype))
            out = b.argument("out", vector.tensor((2, 3, 5), "i32" if dtype == "i8" else dtype))
            b.returns(b.batch_matmul(x, y, out), b.fill(3, x) if dtype[0] == "i" else x)
        kinds = [numpy_dtype(one.dtype) for one in b.program.arguments]
        arrays = zip(("x", "y", "out"), ((2, 3, 4), (2, 4, 5), (2, 3, 5)), kinds, strict=True)
        pairs.append((b.program, {n: floats(*s, dtype=k) for n, s, k in arrays}))
    for layout, image, filter, out in (
        ("nhwc_hwcf", (1, 7, 9, 2), (3, 2, 2, 3), (1, 2, 3, 3)),
        ("nchw_fchw", (1, 2, 7, 9), (3, 2, 3, 2), (1, 3, 2, 3)),
    ):
        with vector.program("conv") as b:
            values = [
                b.argument(n, vector.tensor(s))
                for n, s in (("image", image), ("filter", filter), ("out", out))
            ]
            b.returns(b.conv_2d(*values, strides=(2, 3), dilations=(2, 1), layout=layout))
        inputs = {"image": floats(*image), "filter": floats(*filter), "out": floats(*out)}
        pairs.append((b.program, inputs))
    agree(pairs)


def test_generic_with_maps_and_a_reduction(agree):
    with vector.program("row_norms") as b:
        x = b.argument("x", vector.tensor(("rows", 5)))
        bias = b.argument("bias", vector.tensor((5,)))
        out = b.fill(0.0, b.empty([b.dim(x, 0)]))
        (sums,) = b.generic(
            [x, bias], [out], lambda one, other, total: total + one * one + other,
            indexing_maps=["(i, j) -> (i, j)", "(i, j) -> (j)", "(i, j) -> (i)"],
            iterator_types=["parallel", "reduction"],
        )  # fmt: skip
        b.returns(sums)
    agree([(b.program, {"x": floats(n, 5), "bias": floats(5)}) for n in (1, 6)])


def test_padding(agree):
    with vector.program("pad") as b:
        x = b.argument("x", vector.tensor(("n", 3)))
        low = b.argument("low", "index")
        padded = b.pad(x, [low, 0], [1, 2], -1.0)
        b.returns(b.transfer_read(padded, [0, 0], (6, 5), padding=9.0))
    agree([(b.program, {"x": floats(n, 3), "low": low}) for n, low in ((3, 2), (1, 0))])


def test_tiles_of_a_dynamic_tensor_in_parallel(agree):
    with vector.program("tiles") as b:
        x = b.argument("x", vector.tensor(("rows", "?")))
        rows, columns = b.dim(x, 0), b.dim(x, 1)
        count = b.elementwise("ceildivsi", rows, b.index(4))
        with b.forall(count, outs=[b.empty([rows, columns])], mapping="thread") as tile:
            start = tile.index * 4
            size = b.elementwise("minsi", b.index(4), rows - start)
            piece = b.extract_slice(x, [start, 0], [size, columns])
            made = double(b, piece, b.empty([size, columns]))
            tile.yield_(b.insert_slice(made, tile.carried[0], [start, 0]))
        b.returns(tile.result)
    assert [o.shape for o in b.program.signature.results] == [("rows", "x_1")]
    assert sharing(b.program) == ["linalg.generic", "scf.forall", "tensor.insert_slice"]
    agree([(b.program, {"x": floats(n, 3)}) for n in (1, 4, 7)])


def test_extents_of_results_are_divided_toward_zero(agree):
    with vector.program("halves") as b:
        x = b.argument("x", vector.tensor(("n",)))
        half = b.elementwise("divsi", b.dim(x, 0) - 5, b.index(2)) + 2
        b.returns(b.fill(1.0, b.empty([half])))
    agree([(b.program, {"x": floats(n)}) for n in (1, 2, 4, 8)])


def test_a_result_that_stays_needed_is_not_overwritten(agree):
    with vector.program("kept") as b:
        x = b.argument("x", vector.tensor((4,)))
        first = b.fill(1.0, b.empty((4,)))
        second = b.fill(2.0, first)  # first is read below
        third = double(b, second, second)  # reads what it would write
        b.returns(first, double(b, first, x), third, b.fill(0.0, x))
    assert sharing(b.program) == ["linalg.fill"]
    agree([(b.program, {"x": floats(4)})])


def test_a_slice_that_is_read_later_is_not_overwritten(agree):
    with vector.program("slices") as b:
        x = b.argument("x", vector.tensor((4, 4)))
        whole = double(b, x, b.empty((4, 4)))
        part = b.extract_slice(whole, [1, 0], [1, 4])
        changed = b.insert_slice(b.fill(0.0, part), whole, [2, 0])
        again = b.insert_slice(part, changed, [3, 0])
        b.returns(again)
    agree([(b.program, {"x": floats(4, 4)})])


def test_a_tensor_from_outside_a_loop_is_the_same_in_each_iteration(agree):
    with vector.program("outside") as b:
        x = b.argument("x", vector.tensor((4,)))
        base = double(b, x, b.empty((4,)))
        with b.loop(0, 3, carry=[b.fill(0.0, b.empty((4,)))]) as loop:
            row = b.constant(1.0, vector.vector((2,)))
            changed = b.transfer_write(row, base, [loop.index])
            v = b.transfer_read(changed, [0], (4,)) + b.transfer_read(loop.carried[0], [0], (4,))
            loop.yield_(b.transfer_write(v, loop.carried[0], [0]))
        b.returns(loop.result)
    assert "vector.transfer_write" in sharing(b.program)
    agree([(b.program, {"x": floats(4)})])


def test_a_loop_that_yields_another_tensor_copies(agree):
    with vector.program("other") as b:
        x = b.argument("x", vector.tensor((4,)))
        with b.loop(0, 3, carry=[x, b.fill(1.0, b.empty((4,)))]) as loop:
            first, second = loop.carried
            loop.yield_(second, double(b, first, b.empty((4,))))
        b.returns(*loop.results)
    agree([(b.program, {"x": floats(4)})])


def test_tiles_that_copy_what_they_share_do_not_race(agree):
    with vector.program("racing") as b:
        x = b.argument("x", vector.tensor((8, 4)))
        with b.forall(8, outs=[b.fill(0.0, b.empty((8, 4)))]) as tile:
            old = tile.carried[0]
            row = b.extract_slice(x, [tile.index, 0], [1, 4])
            new = b.insert_slice(row, old, [tile.index, 0])
            zero = b.extract_slice(old, [0, 0], [1, 4])  # read after it was written
            tile.yield_(double(b, new, b.insert_slice(zero, new, [0, 0])))
        b.returns(tile.result)
    assert Aliases(b.program.body).racing
    with vector.program("sound") as c:
        with c.forall(4, outs=[c.empty((4, 4))]) as tile:
            row = c.fill(1.0, c.empty((1, 4)))
            tile.yield_(c.insert_slice(row, tile.carried[0], [tile.index, 0]))
        c.returns(tile.result)
    assert not Aliases(c.program.body).racing
    agree([(b.program, {"x": floats(8, 4)}), (c.program, {})])


def test_buffers_go_through_memory(agree):
    with vector.program("spill") as b:
        v, i = b.argument("v", vector.vector((4, 8))), b.argument("i", "index")
        place = b.alloc((4, 8))
        b.store(v, place, [0, 0])
        with b.loop(0, 4) as loop:  # rule R5: a loop over pieces runs over memory
            row = b.load(place, [loop.index, 0], (8,))
            b.store(row + row, place, [loop.index, 0])
        b.store_element(5.0, place, [0, i])
        out = b.output("out", vector.buffer((2,)))
        b.store_element(b.load_element(place, [1, i]), out, [1])
        b.store_element(0.5, out, [0])
        b.returns(b.load(place, [i, 0], (8,)))
    agree([(b.program, {"v": floats(4, 8), "i": 2})])


def test_arguments_and_results_of_every_kind(agree):
    pairs = []
    for dtype in ("i1", "i8", "i32", "i64", "f16", "bf16", "f32", "f64"):
        with vector.program("kinds") as b:
            s = b.argument("s", dtype)
            v = b.argument("v", vector.vector((3,), dtype))
            t = b.argument("t", vector.tensor((2,), dtype))
            m = b.argument("m", vector.buffer((2,), dtype))
            b.store_element(s, m, [1])
            b.returns(s, v[1], b.splat(s, (2, 2)), t, z=b.broadcast(v[2], ()))
        kind = numpy_dtype(dtype)
        inputs = {n: floats(k, dtype=kind) for n, k in (("v", 3), ("t", 2), ("m", 2))}
        pairs.append((b.program, {"s": kind.type(1), **inputs}))
    agree(pairs)


def test_build_gives_a_kernel():
    with vector.program("axpy") as b:
        x, y = (b.argument(name, vector.tensor(("n", 8))) for name in "xy")
        with b.loop(0, b.dim(x, 0), carry=[b.empty([b.dim(x, 0), 8])]) as loop:
            rows = [b.transfer_read(one, [loop.index, 0], (8,)) for one in (x, y)]
            made = b.fma(rows[0], b.constant(2.0, rows[0].type), rows[1])
            loop.yield_(b.transfer_write(made, loop.carried[0], [loop.index, 0]))
        b.returns(z=loop.result)
    kernel = ext.build(b.program)
    x, y = floats(5, 8), floats(5, 8)
    np.testing.assert_array_equal(kernel(x, y), 2 * x + y)
    assert kernel.op == "vector.axpy"
    assert str(kernel.signature.results[0]) == "z: float32[n, 8]"
    with pytest.raises(ScheduleError, match=r"cpu\.vector_program: config is"):
        ext.build(b.program, config={"algorithm": "other"})


def test_an_extent_of_a_result_must_follow_from_the_arguments():
    with vector.program("free") as b:
        n = b.argument("n", "index")
        b.returns(b.fill(0.0, b.empty([n])))
    with pytest.raises(
        VectorError, match=r"n: index.* is an extent of a result.*\[E_DYNAMIC_SHAPE"
    ):
        b.program.prim_func()


def test_a_wrong_program_is_not_compiled():
    with vector.program("wrong") as b:
        v = b.argument("v", vector.vector((4,)))
        b.returns(v + v)
    add = b.program.find("arith.addf")[0]
    add.parent.insert(add.detach(), before=None)
    with pytest.raises(VectorError, match="does not stand where its block ends"):
        b.program.prim_func()


def test_flops_are_two_for_each_product():
    with vector.program("flops") as b:
        x = b.argument("x", vector.tensor((4, 8)))
        y = b.argument("y", vector.tensor((8, 4)))
        out = b.matmul(x, y, b.empty((4, 4)))
        v = b.argument("v", vector.vector((4,)))
        with b.loop(0, 10, carry=[v]) as loop:
            loop.yield_(b.fma(v, v, loop.carried[0]))
        b.returns(out, loop.result)
    assert b.program.flops() == 2 * 4 * 4 * 8 + 10 * 2 * 4
