"""The CPU kernels of contraction: every form, its tails, and configs that do not fit."""

import ctypes
import ctypes.util
import platform
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from tvm_iree_ext import ops, registry
from tvm_iree_ext.base.dtypes import numpy_dtype
from tvm_iree_ext.base.errors import CallError, ScheduleError
from tvm_iree_ext.building.kernel_build import build
from tvm_iree_ext.runtime import tvm_runtime
from tvm_iree_ext.schedules.cpu.contraction.contraction_plan import ContractionPlan
from tvm_iree_ext.schedules.cpu.contraction.contraction_rule import CpuContraction
from tvm_iree_ext.targets.names import make_target

RNG = np.random.default_rng(12)
TARGET = make_target("llvm")


def numbers(shape, dtype="float32", largest=4):
    """Small integers: float32 sums of their products are exact."""
    return RNG.integers(-largest, largest, shape, endpoint=True).astype(numpy_dtype(dtype))


def check(op, *values, kernel=None):
    """Run a kernel of ``op``; exactly right for these operands."""
    names = [operand.name for operand in op.signature.arguments]
    want = registry.find(op.name).reference(op, dict(zip(names, values, strict=True)))["result"]
    got = (kernel or build(op))(*values)
    np.testing.assert_array_equal(got.astype(want.dtype), want)


ANY = [(0, 0), (0, 1), (1, 0), (1, 1)]
MATRICES = [(7, 5, 3), (13, 65, 300), (130, 70, 17), (6, 128, 600), (3, 272, 3000)]
VECTORS = [(1, 1, 1), (1, 90, 70), (90, 1, 70), (1, 1, 9000)]


# Around a vector and a register tile, a panel, a block of depth; and one row, one column.
@pytest.mark.costly
@pytest.mark.parametrize(
    ("shape", "transposed"),
    [(shape, ends) for at, shape in enumerate(MATRICES) for ends in ANY[at % 2 :: 2]]
    + [(shape, ends) for shape in VECTORS for ends in ANY[::3]],
)
def test_products_of_any_shape(shape, transposed):
    m, n, k = shape
    lhs = numbers((k, m) if transposed[0] else (m, k))
    rhs = numbers((n, k) if transposed[1] else (k, n))
    other = numbers((m, n))
    op = ops.matmul(
        lhs,
        rhs,
        [other],
        transpose_lhs=bool(transposed[0]),
        transpose_rhs=bool(transposed[1]),
        epilogue="arg0 - arg1",
    )
    check(op, lhs, rhs, other)


def test_several_tasks_with_edges():
    lhs, rhs, bias = numbers((3, 61, 50)), numbers((50, 1237)), numbers((1237,))
    check(ops.matmul(lhs, rhs, [bias], epilogue="max(arg0 + arg1, 0)"), lhs, rhs, bias)


def test_one_kernel_serves_every_extent():
    op = ops.matmul(
        ("b", "m", "k"), ("b", "n", "k"), [("n",)], transpose_rhs=True, epilogue="arg0 + arg1"
    )
    kernel = build(op)
    for b, m, n, k in ((1, 1, 1, 1), (2, 7, 70, 5), (1, 400, 97, 530), (3, 1, 401, 64)):
        values = numbers((b, m, k)), numbers((b, n, k)), numbers((n,))
        check(op, *values, kernel=kernel)
    with pytest.raises(CallError, match="rhs axis 2 has extent 4; expected 5"):
        kernel(numbers((1, 2, 5)), numbers((1, 3, 4)), numbers((3,)))


@pytest.mark.parametrize("transposed", [False, True])
def test_one_kernel_serves_few_rows_and_many(transposed):
    rhs = numbers((272, 300) if transposed else (300, 272))
    op = ops.matmul(("m", 300), rhs, [("m", 272)], transpose_rhs=transposed, epilogue="arg0 - arg1")
    kernel = build(op)
    for m in (1, 5, 8, 9, 40):
        check(op, numbers((m, 300)), rhs, numbers((m, 272)), kernel=kernel)


@pytest.mark.parametrize("transposed", [False, True])
def test_vector_times_matrix_of_any_extent(transposed):
    op = ops.matmul(("k",), ("n", "k") if transposed else ("k", "n"), transpose_rhs=transposed)
    kernel = build(op)
    for n, k in ((1, 1), (5, 300), (1000, 33)):
        check(op, numbers((k,)), numbers((n, k) if transposed else (k, n)), kernel=kernel)


@pytest.mark.costly
@pytest.mark.parametrize(
    ("maps", "shapes"),
    [
        (("abmk", "abnk", "abmn"), (2, 3, 5, 18, 7)),  # batches
        (("kamb", "bkna", "nbam"), (2, 3, 5, 18, 7)),  # everything strided
        (("mkal", "lakn", "man"), (3, 20, 6, 5, 4)),  # several k, of which none are fused
        (("mapk", "nkq", "maqnp"), (3, 4, 5, 6, 7, 2)),  # several m and n
        (("ma", "an", "amn"), (3, 4, 5)),  # nothing is reduced
        (("ab", "ab", "ba"), (3, 40)),  # elements
        (("ab", "ba", ""), (30, 40)),  # one number
    ],
)
def test_any_maps(maps, shapes):
    letters = sorted(set("".join(maps)))
    sizes = dict(zip(letters, shapes, strict=False)) | dict.fromkeys(letters[len(shapes) :], 2)
    listed = ", ".join(letters)
    values = [numbers([sizes[one] for one in own]) for own in maps[:2]]
    op = ops.contraction(
        *values, indexing_maps=[f"({listed}) -> ({', '.join(own)})" for own in maps]
    )
    check(op, *values)


@pytest.mark.parametrize(("rows", "tiled"), [(70, "rows"), (17, "batch")])
def test_tiles_are_of_an_open_batch_where_few_rows_are_known(rows, tiled):
    """The batch is second in the result, as in PyTorch's attention of whole batches."""
    op = ops.contraction(
        ("batch", rows, 40),
        (40, 72),
        indexing_maps=[f"(batch, rows, n, k) -> {one}" for one in (
            "(batch, rows, k)", "(k, n)", "(rows, batch, n)"
        )],
    )  # fmt: skip
    plan = ContractionPlan(op)
    assert plan.groups[plan.m] == (("batch", "rows").index(tiled),)
    kernel, right = build(op), numbers((40, 72))
    for batch in (0, 1, 3, 35):
        check(op, numbers((batch, rows, 40)), right, kernel=kernel)


@pytest.mark.costly
@pytest.mark.parametrize("dtypes", [("f16", "f16"), ("bf16", "f32"), ("f64", "f16")], ids=str)
def test_float_types(dtypes):
    for m, n, k in ((20, 37, 41), (1, 37, 41)):
        lhs, rhs = numbers((m, k), dtypes[0]), numbers((k, n), dtypes[1])
        init, other = numbers((m, n), "f16"), numbers((n,), "bf16")
        op = ops.matmul(lhs, rhs, [other], init=init, epilogue="arg0 * arg1", result_dtype="f64")
        check(op, lhs, rhs, init, other)


@pytest.mark.costly
@pytest.mark.parametrize(
    ("rows", "own"),
    [
        (1, "(g, i, n)"),
        (1, "(n, g, i)"),
        (9, "(g, i, n)"),
        (70, "(i, n, g)"),
        ("rows", "(n, g, i)"),
    ],
)
def test_a_prologue_makes_factors_of_rhs(rows, own):
    count, extents = (5, {"g": 3, "i": 20, "n": 37})
    order = own.strip("()").split(", ")
    lhs = numbers((count if rows == "rows" else rows, 3, 20), "f16")
    weight = RNG.integers(0, 16, [extents[dim] for dim in order]).astype("uint8")
    scale, zero = numbers((37, 3), "f16"), numbers((37,), "int8")
    op = ops.contraction(
        ops.TensorType((rows, 3, 20), "f16"),
        weight,
        prologue="(arg0 - arg2) * arg1",
        prologue_operands=[scale, zero],
        indexing_maps=[
            f"(m, n, g, i) -> {one}" for one in ("(m, g, i)", own, "(n, g)", "(n)", "(m, n)")
        ],
        result_dtype="f32",
    )
    check(op, lhs, weight, scale, zero)


def test_a_prologue_takes_integers_of_4_bits_whatever_their_upper_bits_are():
    lhs, scale = numbers((9, 3, 20), "f16"), numbers((3, 37), "f16")
    weight = RNG.integers(-128, 128, (3, 20, 37)).astype("int8").view(ml_dtypes.int4)
    op = ops.contraction(
        lhs,
        weight,
        prologue="(arg0 - 2) * arg1",
        prologue_operands=[scale],
        indexing_maps=[
            f"(m, n, g, i) -> {one}" for one in ("(m, g, i)", "(g, i, n)", "(g, n)", "(m, n)")
        ],
        result_dtype="f32",
    )
    check(op, lhs, weight, scale)


@pytest.mark.costly
@pytest.mark.parametrize("result_dtype", ["f32", "f16"])
def test_sums_over_several_blocks_of_depth_with_uneven_blocks_of_rows(result_dtype):
    lhs, rhs, init = numbers((50, 600), "f16", 1), numbers((600, 64), "f16", 1), numbers((50, 64))
    op = ops.matmul(lhs, rhs, init=init, epilogue="arg0 * 0.5", result_dtype=result_dtype)
    config = CpuContraction().heuristic(op, TARGET)
    for n in (64, 48):
        other = replace(config, workgroup_tile={"m": 18, "n": n})
        check(op, lhs, rhs, init, kernel=build(op, config=other))


@pytest.mark.parametrize("shape", [(9, 35, 3000), (1, 35, 3000)], ids=str)
def test_int8_is_exact_at_its_limits(shape):
    m, n, k = shape
    lhs, rhs = np.full((m, k), -128, np.int8), np.full((k, n), -128, np.int8)
    init = numbers((m, n), "i32", 1 << 20)
    check(ops.matmul(lhs, rhs, init=init), lhs, rhs, init)
    scale = numbers((n,))
    op = ops.matmul(
        lhs, rhs, [scale], epilogue=lambda s, f: s.astype("float32") * f, result_dtype="f32"
    )
    check(op, lhs, rhs, scale)


def test_special_numbers_stay_in_their_row():
    lhs, rhs = numbers((15, 40)), np.abs(numbers((40, 35))) + 1
    lhs[3, 7], lhs[5, 0], lhs[6, 39] = np.nan, np.inf, -np.inf
    got = build(ops.matmul(lhs, rhs))(lhs, rhs)
    assert np.isnan(got[3]).all()
    assert (got[5] == np.inf).all()
    assert (got[6] == -np.inf).all()
    assert np.isfinite(np.delete(got, (3, 5, 6), 0)).all()
    masked = numbers((15, 35)) > 0
    op = ops.matmul(lhs, rhs, [masked], epilogue="select(arg1, arg0, 0)")
    np.testing.assert_array_equal(build(op)(lhs, rhs, masked), np.where(masked, got, 0))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"algorithm": "columns"}, "algorithm is 'columns'; expected 'panels'"),
        ({"vector_lanes": 12}, "vector_lanes is 12; expected a power of two"),
        ({"reduction_tile": {}}, r"reduction_tile\['k'\] is None"),
        ({"workgroup_tile": {"m": 0, "n": 64}}, r"workgroup_tile\['m'\] is 0"),
        ({"promote": ("rhs", "init")}, "promote is .*; expected some of lhs and rhs"),
        ({"promote": ("lhs",)}, "promote is .*; expected rhs among them"),
        ({"workgroup_tile": {"m": 1 << 14, "n": 1 << 20}}, "blocks of 16384 x 1048576 take"),
    ],
)
def test_configs_that_do_not_fit(change, message):
    op, rule = ops.matmul((40, 30), (30, 5)), CpuContraction()
    config = replace(rule.heuristic(op, TARGET), **change)
    with pytest.raises(ScheduleError, match=f"cpu.contraction: {message}"):
        rule.lower(op, TARGET, config)


def test_other_configs_compute_the_same():
    lhs, rhs = numbers((50, 70)), numbers((70, 96))
    op = ops.matmul(lhs, rhs)
    config = CpuContraction().heuristic(op, TARGET)
    for change in (
        {"promote": (), "workgroup_tile": {"m": 50, "n": 96}},
        # The last block has other rows, of which the last tile has not all of its own.
        {"promote": ("rhs",), "workgroup_tile": {"m": 18, "n": 96}},
        {"workgroup_tile": {"m": 10, "n": 24}, "reduction_tile": {"k": 9}},
        {"vector_lanes": 4, "register_tile": {"rows": 3, "vectors": 1}, "parallel": False},
    ):
        other = replace(config, **change)
        check(op, lhs, rhs, kernel=build(op, config=other))


@pytest.mark.costly
@pytest.mark.parametrize(
    ("promote", "dtypes"), [(("lhs",), ("f32", "f16")), (("lhs", "rhs"), ("f16", "f32"))]
)
@pytest.mark.parametrize(
    ("columns", "block", "depth"),
    [(5, 5, 37), (7, 7, 10), (13, 13, 10), (13, 8, 37), (30, 8, 10), (42, 24, 37), (45, 24, 37)],
)
def test_the_last_vector_ends_with_the_row(columns, block, depth, promote, dtypes):
    dtype = dtypes[(block + depth) % 2]
    lhs, rhs, other = numbers((19, 37), dtype), numbers((37, columns), dtype), numbers((columns,))
    op = ops.matmul(lhs, rhs, [other], epilogue="arg0 - arg1", result_dtype="f32")
    config = replace(
        CpuContraction().heuristic(op, TARGET),
        workgroup_tile={"m": 12, "n": block},
        reduction_tile={"k": depth},
        register_tile={"rows": 3, "vectors": 2},
        vector_lanes=4,
        promote=promote,
    )
    guarded = np.full((21, columns), 99, np.float32)
    build(op, config=config)(lhs, rhs, other, out=guarded[1:-1])
    want = lhs.astype(np.float32) @ rhs.astype(np.float32) - other
    np.testing.assert_array_equal(guarded[1:-1], want)
    assert (guarded[[0, -1]] == 99).all()


@pytest.mark.parametrize("transposed", [False, True])
def test_rows_are_packed_where_they_are_no_runs_of_memory(transposed):
    op = ops.matmul((40, 131) if transposed else (131, 40), (40, 130), transpose_lhs=transposed)
    target = make_target({"kind": "llvm", "mcpu": "x86-64-v4", "num-cores": 2})
    packed = CpuContraction().heuristic(op, target).promote
    assert packed == (("lhs", "rhs") if transposed else ("rhs",))


@pytest.mark.parametrize(
    ("rows", "columns", "dtype", "packed", "depth"),
    [
        (128, 64, "f32", (), 128),
        (128, 60, "f32", (), 128),  # the last vector ends with the row
        (128, 13, "f32", ("rhs",), 256),  # it would begin before the row
        (128, 80, "f32", (), 86),  # two panels
        (256, 80, "f32", ("rhs",), 256),  # enough rows to pack two for
        (2048, 64, "f32", ("rhs",), 256),  # or one
        (128, 64, "f16", ("lhs", "rhs"), 256),
    ],
)
def test_few_panels_are_read_where_they_are_for_some_rows(rows, columns, dtype, packed, depth):
    op = ops.matmul((rows, 256), (256, columns), dtype=dtype)
    target = make_target({"kind": "llvm", "mcpu": "x86-64-v4", "num-cores": 2})
    config = CpuContraction().heuristic(op, target)
    assert config.promote == packed
    assert config.reduction_tile["k"] == depth


@pytest.mark.parametrize(
    ("depth", "columns", "dtype"), [(600, 3000, "f32"), (600, 3001, "f32"), (512, 1021, "f16")]
)
def test_any_number_of_rows_takes_little_scratch(depth, columns, dtype):
    op = ops.matmul((300_000, depth), (depth, columns), dtype=dtype)
    target = make_target({"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 8})
    rule = CpuContraction()
    config = rule.heuristic(op, target)
    rule.lower(op, target, config)
    sums = config.workgroup_tile["m"] * config.workgroup_tile["n"] * 4
    kept = columns == 3000 or config.reduction_tile["k"] == depth  # in the result, or nowhere
    assert kept or sums <= 2 << 20


def fill_scratch(word):
    """Let all memory that kernels of this thread take as scratch next be of one word."""
    library = ctypes.CDLL(str(tvm_runtime.find_runtime()))
    take, give = library.TVMBackendAllocWorkspace, library.TVMBackendFreeWorkspace
    take.restype, take.argtypes = (
        ctypes.c_void_p,
        [ctypes.c_int] * 2 + [ctypes.c_uint64, *[ctypes.c_int] * 2],
    )
    give.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_void_p]
    count, cpu, float_code = 1 << 18, 1, 2
    blocks = [take(cpu, 0, count * 4, float_code, 32) for _ in range(4)]
    for block in blocks:
        np.frombuffer((ctypes.c_uint32 * count).from_address(block), np.uint32)[:] = word
        give(cpu, 0, block)


def meets_denormals(call):
    """Whether a call works with numbers below the normal ones: x86 keeps a flag of it."""
    library = ctypes.CDLL(ctypes.util.find_library("m"))
    usual, found = ctypes.c_void_p(-1), (ctypes.c_uint32 * 8)()  # fenv_t, with MXCSR at its end
    library.fesetenv(usual)
    call()
    library.fegetenv(found)
    return bool(found[7] & 2)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the flag is of x86")
@pytest.mark.parametrize(
    ("shapes", "transposed"),
    [
        (((61, 67), (67, 53)), False),
        (((61, 67), (67, 5)), False),
        (((67, "m"), (67, "n")), True),
    ],
)
def test_what_scratch_had_before_is_not_multiplied_along(shapes, transposed):
    """Panels reach past the last column, tiles past the last row: denormals there took 18 times."""
    kernel = build(ops.matmul(*shapes, transpose_lhs=transposed))
    columns = shapes[1][1]
    lhs, rhs = (
        RNG.random((67, 61) if transposed else (61, 67), np.float32),
        RNG.random((67, 53 if columns == "n" else columns), np.float32),
    )
    with tvm_runtime.threads(1):
        result = kernel(lhs, rhs)
        fill_scratch(0x0001_2345)
        assert not meets_denormals(lambda: kernel(lhs, rhs, out=result))
        lhs[0, 0] = 1e-40
        assert meets_denormals(lambda: kernel(lhs, rhs, out=result))
