"""Results stored non-temporally: the same bits, wherever a result lies, and nothing beside it."""

import platform
from dataclasses import replace

import numpy as np
import pytest
import tvm

from tvm_iree_ext import ops
from tvm_iree_ext.base.dtypes import numpy_dtype
from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.building.kernel_build import build
from tvm_iree_ext.codegen.cpu import cpu_pipeline
from tvm_iree_ext.schedules.dispatch import choose
from tvm_iree_ext.targets.names import make_target

HOST = make_target("llvm")
RNG = np.random.default_rng(5)


def placed(shape, dtype, offset):
    """A result that lies so many bytes behind a line of the cache, with what surrounds it."""
    size = int(np.prod(shape)) * dtype.itemsize
    memory = np.full(size + 192, 0x5A, np.uint8)
    first = -memory.ctypes.data % 64 + 64 + offset
    return memory[first : first + size].view(dtype).reshape(shape), memory


def check_streams(op, *arguments, stages=1, **changed):
    """Of a kernel that streams the results are those of one that does not, at any address."""
    usual = replace(choose(op, HOST).heuristic(op, HOST), **changed)
    plain = build(op, config=usual)(*arguments)
    want = plain if isinstance(plain, tuple) else (plain,)
    kernel = build(op, config=replace(usual, streaming=True, stages=stages))
    for offset in (0, 16, 48, want[0].dtype.itemsize):
        placed_ones = [placed(one.shape, one.dtype, offset) for one in want]
        outs = tuple(one for one, _ in placed_ones)
        kernel(*arguments, out=outs if isinstance(plain, tuple) else outs[0])
        for one, (got, memory) in zip(want, placed_ones, strict=True):
            np.testing.assert_array_equal(got.view(np.uint8), one.view(np.uint8))
            surroundings = np.count_nonzero(memory == 0x5A) - np.count_nonzero(
                one.view(np.uint8) == 0x5A
            )
            assert surroundings == 192


@pytest.mark.costly
@pytest.mark.parametrize(
    ("dtype", "shape"),
    [
        ("float32", (40, 133)),
        ("float32", (9, 100)),  # rows begin at parts
        ("float64", (5, 112)),  # and at lines
        ("int8", (7, 208)),
        ("float16", (7, 70)),
        ("int8", (7, 203)),
    ],
)
@pytest.mark.parametrize(("inclusive", "stages"), [(True, 1), (False, 2)])
def test_scans_of_columns(dtype, shape, inclusive, stages):
    kind = numpy_dtype(dtype)
    op = ops.scan(shape, dimension=0, inclusive=inclusive, dtype=dtype)
    x, init = (RNG.integers(0, 2, s).astype(kind) for s in (shape, shape[1:]))
    check_streams(op, x, init, workgroup_tile={"columns": 48}, stages=stages)


@pytest.mark.parametrize("columns", [6, 12, 20])
def test_scans_of_columns_whose_tiles_are_no_lines(columns):
    op = ops.scan((5, 60), dimension=0, dtype="float32")
    x, init = (RNG.integers(0, 9, s).astype("float32") for s in ((5, 60), (60,)))
    check_streams(op, x, init, workgroup_tile={"columns": columns}, vector_lanes=2, stages=2)


@pytest.mark.costly
@pytest.mark.parametrize(
    ("dtype", "length"), [("float32", 1000), ("float32", 15), ("float16", 500), ("uint8", 1300)]
)
@pytest.mark.parametrize(("inclusive", "splits"), [(True, 3), (False, 1)])
def test_scans_of_lines(dtype, length, inclusive, splits):
    op = ops.scan((2, length), dimension=1, inclusive=inclusive, reassociate=True, dtype=dtype)
    kind = numpy_dtype(dtype)
    x, init = (RNG.integers(0, 2, s).astype(kind) for s in ((2, length), (2,)))
    how = {"algorithm": "prefix", "register_tile": {"vectors": 4}}
    check_streams(op, x, init, workgroup_tile={"length": 128}, splits=splits, **how)


@pytest.mark.costly
@pytest.mark.parametrize(
    ("dtype", "length"),
    [("float32", 1), ("float32", 2500), ("float16", 90)],
)
@pytest.mark.parametrize(("inclusive", "stages"), [(True, 1), (False, 2)])
def test_scans_of_lines_in_lanes(dtype, length, inclusive, stages):
    op = ops.scan((19, length), dimension=1, inclusive=inclusive, dtype=dtype)
    x, init = (RNG.integers(0, 2, s).astype(numpy_dtype(dtype)) for s in ((19, length), (19,)))
    check_streams(op, x, init, algorithm="lanes", stages=stages)


@pytest.mark.parametrize(
    ("shape", "output", "offsets"),
    [
        ((2, 5, 6, 43), None, {}),
        ((1, 9, 9, 3), (1, 50, 29), {"m_offset": (3,), "k_offset": (5,)}),  # some lies outside
    ],
)
def test_im2col(shape, output, offsets):
    places = {"batch_pos": [0], "m_pos": [1, 2], "k_pos": [3], "kernel_size": [3, 3]}
    op = ops.im2col(shape, output, **places, **offsets)
    check_streams(op, RNG.standard_normal(shape).astype("float32"))


@pytest.mark.costly
@pytest.mark.parametrize(
    ("dtype", "shape", "tiles"),
    [
        ("float32", (64, 96), (8, 32)),
        ("float32", (61, 2093), (4, 6)),
        ("int8", (64, 96), (4, 6)),
        ("int8", (61, 2093), (8, 32)),
    ],
)
def test_pack_and_unpack_in_rows(dtype, shape, tiles):
    kind = numpy_dtype(dtype)
    x = RNG.integers(-9, 9, shape).astype(kind)
    where = {"inner_dims_pos": [0, 1], "inner_tiles": list(tiles)}
    packed = tuple(-(-extent // tile) for extent, tile in zip(shape, tiles, strict=True)) + tiles
    padding = {"padding_value": 3} if any(e % t for e, t in zip(shape, tiles, strict=True)) else {}
    check_streams(ops.pack(shape, dtype=dtype, **where, **padding), x)
    y = RNG.integers(-9, 9, packed).astype(kind)
    for stages in (1, 2):
        check_streams(ops.unpack(packed, shape, dtype=dtype, **where), y, stages=stages)


@pytest.mark.costly
@pytest.mark.parametrize("stages", [1, 2])
@pytest.mark.parametrize("shape", [(5, 9000), (12, 8)])
def test_unpack_of_more_tiles_than_the_result_has(shape, stages):
    y = RNG.standard_normal((3, 2000, 4, 8)).astype("float32")
    op = ops.unpack(y.shape, shape, inner_dims_pos=[0, 1], inner_tiles=[4, 8])
    check_streams(op, y, algorithm="rows", vector_lanes=8, stages=stages)


def test_pack_and_unpack_without_tiles():
    """What is a permutation of rows."""
    for shape in ((3, 4, 70), (3, 4, 5000)):
        where = {"inner_dims_pos": [0], "inner_tiles": [1], "outer_dims_perm": [1, 0, 2]}
        x = RNG.standard_normal(shape).astype("float32")
        check_streams(ops.pack(shape, **where), x)
        packed = (4, 3, shape[2], 1)
        check_streams(ops.unpack(packed, shape, **where), x.reshape(packed))


def test_large_results_are_streamed_and_others_are_not():
    def streams(op):
        return choose(op, HOST).heuristic(op, HOST).streaming

    x86 = platform.machine() in ("x86_64", "AMD64")
    tiles = {"inner_dims_pos": [0, 1], "inner_tiles": [8, 32]}
    windows = {"batch_pos": [0], "m_pos": [1, 2], "k_pos": [3], "kernel_size": [3, 3]}
    assert streams(ops.scan((4096, 4096), dimension=0)) == x86
    assert streams(ops.scan((4093, 4091), dimension=0)) == x86
    assert streams(ops.scan((4093, 4091), dimension=1)) == x86
    assert streams(ops.pack((4093, 4091), padding_value=0, **tiles)) == x86
    assert streams(ops.unpack((512, 128, 8, 32), (4093, 4091), **tiles)) == x86
    assert streams(ops.im2col((2, 60, 60, 640), **windows)) == x86
    assert not streams(ops.im2col((512, 60, 60, 8), **windows))  # of runs of 96 bytes
    assert not streams(ops.scan((1 << 20, 16), dimension=0))
    assert not streams(ops.scan((512, 512), dimension=0))
    assert not streams(ops.scan(("n", 4096), dimension=0))


def test_results_are_streamed_that_the_last_cache_cannot_hold():
    """Zen 3 and 4: 32 MiB; of an Ice Lake 16 count; of others it is not known, and 64 count."""

    def streams(mcpu, rows):
        target = make_target({"kind": "llvm", "mcpu": mcpu, "num-cores": 2})
        op = ops.scan((rows, 4096), dimension=0)
        return choose(op, target).heuristic(op, target).streaming

    for mcpu in ("znver3", "znver4"):
        assert [streams(mcpu, rows) for rows in (1000, 1024, 2048)] == [False, True, True]
    assert [streams("icelake-server", rows) for rows in (500, 512)] == [False, True]
    for mcpu in ("haswell", "graniterapids"):
        assert [streams(mcpu, rows) for rows in (1024, 2040, 2048)] == [False, False, True]


def test_what_is_streamed_in_two_stages():
    """Where the next tiles lie behind these, and scans in order; rows not by AVX-512 of Intel."""

    def stages(op, mcpu="znver3"):
        target = make_target({"kind": "llvm", "mcpu": mcpu, "num-cores": 2})
        return choose(op, target).heuristic(op, target).stages

    tiles = {"inner_dims_pos": [0, 1], "inner_tiles": [8, 32]}
    unpack = ops.unpack((512, 128, 8, 32), (4093, 4091), **tiles)
    cpus = ("znver3", "znver4", "graniterapids")
    assert [stages(unpack, mcpu) for mcpu in cpus] == [2, 2, 2]
    assert stages(ops.unpack((128, 512, 8, 32), (4093, 4091), outer_dims_perm=[1, 0], **tiles)) == 1
    assert stages(ops.pack((4093, 4091), padding_value=0, **tiles)) == 1
    target = make_target({"kind": "llvm", "mcpu": "znver4", "num-cores": 2})
    assert choose(unpack, target).heuristic(unpack, target).vector_lanes == 4  # of 16 bytes
    for dimension, expected in ((0, [2, 2, 2]), (1, [2, 2, 1])):
        scan = ops.scan((4096, 4096), dimension=dimension)
        assert [stages(scan, mcpu) for mcpu in cpus] == expected
    # Elements that are converted are few at the ends of tiles where rows begin alike.
    halves = [ops.scan((8192, columns), dimension=0, dtype="float16") for columns in (4096, 4097)]
    assert [stages(scan) for scan in halves] == [2, 1]
    assert stages(ops.scan((4096, 4096), dimension=1, reassociate=True)) == 1
    for op, message in (
        (
            ops.scan((64, 64), dimension=0),
            "two stages are for columns or lanes stored non-temporally",
        ),
        (ops.pack((64, 64), **tiles), "two stages are for unpacked rows stored non-temporally"),
    ):
        usual = choose(op, HOST).heuristic(op, HOST)
        with pytest.raises(ScheduleError, match=message):
            build(op, config=replace(usual, stages=2))


def test_what_is_not_streamed():
    transposed = ops.pack((64, 64), inner_dims_pos=[1, 0], inner_tiles=[8, 8])
    usual = choose(transposed, HOST).heuristic(transposed, HOST)
    with pytest.raises(ScheduleError, match="squares are not stored non-temporally"):
        build(transposed, config=replace(usual, streaming=True))
    dynamic = ops.unpack(("a", 8, 4, "t"), ("m", "n"), inner_dims_pos=[0, 1], inner_tiles=[4, "t"])
    usual = choose(dynamic, HOST).heuristic(dynamic, HOST)
    with pytest.raises(ScheduleError, match="tiles of t, known when it is called"):
        build(dynamic, config=replace(usual, streaming=True))
    for scan, message in (
        (ops.scan((2, 64), dimension=1), "'rows' does not store non-temporally"),
        (ops.scan((64, 64), dimension=0, dtype="bfloat16"), "bfloat16 is not stored non-temp"),
    ):
        usual = choose(scan, HOST).heuristic(scan, HOST)
        with pytest.raises(ScheduleError, match=message):
            build(scan, config=replace(usual, streaming=True))


def test_two_kernels_of_a_library_stream():
    """Each brings the functions that it calls; the stores are in the machine's code."""
    found = []
    for name, length in (("first", 96), ("second", 112)):
        op = ops.scan((4, length), dimension=0)
        rule = choose(op, HOST)
        config = replace(rule.heuristic(op, HOST), streaming=True)
        (function,) = rule.lower(op, HOST, config).functions.values()
        found.append((name, function.with_attr("global_symbol", name)))
    cpu_pipeline.register()
    library = tvm.compile(tvm.IRModule(dict(found)), HOST, tir_pipeline=cpu_pipeline.CPU_PIPELINE)
    for name, length in (("first", 96), ("second", 112)):
        x = RNG.standard_normal((4, length), dtype=np.float32)
        results = np.zeros_like(x), np.zeros(length, np.float32)
        tensors = [tvm.runtime.tensor(one) for one in (x, np.zeros_like(results[1]), *results)]
        library[name](*tensors)
        want = build(ops.scan((4, length), dimension=0))(x, results[1])[0]
        np.testing.assert_array_equal(tensors[2].numpy(), want)
    assert "vmovnt" in library.mod.inspect_source("asm") or "avx" not in str(HOST)
