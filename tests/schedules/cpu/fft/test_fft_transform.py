"""The CPU kernels of whole transforms: every form on every kind, accurate, lean in memory."""

import dataclasses
import math
import re

import numpy as np
import pytest
import tvm

from tvm_iree_ext import ops
from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.building.kernel_build import build
from tvm_iree_ext.codegen.cpu import cpu_pipeline
from tvm_iree_ext.schedules.cpu.emit.compiler_barriers import CompilerBarriers
from tvm_iree_ext.schedules.cpu.fft.fft_plan import columns_of, passes
from tvm_iree_ext.schedules.cpu.fft.fft_rule import CpuFftTransform
from tvm_iree_ext.targets.cpu import cpu_features
from tvm_iree_ext.targets.host import obstacle
from tvm_iree_ext.targets.names import make_target

RULE = CpuFftTransform()
HASWELL, SKYLAKE = make_target("llvm:haswell"), make_target("llvm:skylake-avx512")
RNG = np.random.default_rng(13)
KINDS = ("forward", "inverse", "real_to_complex", "complex_to_real")


def run(op, *parts, kernel=None):
    """The result as one array of complex, or real, float64."""
    got = (kernel or build(op))(*parts)
    if op.kind == "complex_to_real":
        return got.astype(np.float64)
    return got[0].astype(np.float64) + 1j * got[1].astype(np.float64)


def numpy_transform(op, parts):
    """NumPy's, in float64."""
    signal = parts[0].astype(np.float64)
    if len(parts) == 2:
        signal = signal + 1j * parts[1].astype(np.float64)
    if op.kind == "complex_to_real":
        return np.fft.irfft(signal, op.length, axis=op.axis, norm=op.norm)
    functions = {"forward": np.fft.fft, "inverse": np.fft.ifft, "real_to_complex": np.fft.rfft}
    return functions[op.kind](signal, axis=op.axis, norm=op.norm)


def check(shape, kernel=None, config=None, **keywords):
    """Build and run a transform; its error in the 2-norm is of the order of eps sqrt(log n)."""
    op = ops.fft_transform(shape, **keywords)
    dtype = np.dtype(op.dtype)
    sizes = [extent if isinstance(extent, int) else 3 for extent in op.shape]
    parts = [RNG.standard_normal(sizes).astype(dtype) for _ in op.signature.arguments]
    got = run(op, *parts, kernel=kernel or build(op, config=config))
    want = numpy_transform(op, parts)
    error = np.linalg.norm(got - want) / np.linalg.norm(want)
    assert error <= allowed(op.length, dtype), error
    return got


def allowed(length, dtype):
    """The error of a transform in the 2-norm, to the norm of its results."""
    return (1.0 + 0.5 * math.sqrt(math.log2(length) + 1)) * np.finfo(dtype).eps


def algorithm(op):
    return RULE.heuristic(op, make_target("llvm:znver4")).algorithm


def test_forms_are_chosen_by_length_and_axis():
    assert algorithm(ops.fft_transform((8, 1024))) == "row"
    assert algorithm(ops.fft_transform((8, 125))) == "lanes"
    assert algorithm(ops.fft_transform((1024, 8), axis=0)) == "lanes"
    assert algorithm(ops.fft_transform((8, 1021))) == "bluestein"
    assert algorithm(ops.fft_transform((8, 2 * 1021), kind="real_to_complex")) == "bluestein"


@pytest.mark.costly
@pytest.mark.parametrize(("length", "most"), [(1024, 32), (1125, 32), (1155, 40)])
def test_codelets_leave_few_vectors_on_the_stack(length, most):
    op, target = ops.fft_transform((64, length)), make_target("llvm:sapphirerapids")
    cpu_pipeline.register()
    module = RULE.lower(op, target, RULE.heuristic(op, target))
    library = tvm.compile(module, target, tir_pipeline=cpu_pipeline.CPU_PIPELINE)
    text = library.mod.inspect_source("asm")
    left = re.findall(r"vmov\w+\s+%zmm\d+, -?\d*\(%rsp\)", text)
    assert len(left) <= most, len(left)
    assert re.search(r"andq\s+\$-64, %rsp", text)  # and those lie in lines


@pytest.mark.costly
@pytest.mark.parametrize("length", [1, 2, 3, 4, 11, 13, 16, 30, 60, 128, 250])
def test_short_rows(length):
    check((19, length))


@pytest.mark.costly
@pytest.mark.parametrize(
    ("length", "columns", "kind"),
    [
        (5000, 50, "forward"),
        (6144, 384, "inverse"),
        (8192, 512, "forward"),
        (9375, 375, "inverse"),
        (20480, 1024, "forward"),
    ],
)
def test_long_rows_are_written_in_order_whatever_their_columns(length, columns, kind):
    op = ops.fft_transform((3, length), kind=kind)
    config = RULE.heuristic(op, make_target("llvm"))
    config = dataclasses.replace(config, register_tile={**config.register_tile, "columns": columns})
    check((3, length), kind=kind, config=config)


@pytest.mark.costly
@pytest.mark.parametrize("length", [256, 400, 17 * 16, 1125, 2310, 3375, 4095, 4096, 20480])
def test_rows_that_split(length):
    check((2, length))


@pytest.mark.costly
@pytest.mark.parametrize("length", [17, 97, 258, 1021])
def test_lengths_with_large_primes(length):
    check((3, length))


@pytest.mark.costly
@pytest.mark.parametrize(
    ("kind", "length"),
    [
        *(("inverse", length) for length in (7, 30, 34, 1024)),
        *(("real_to_complex", length) for length in (2, 7, 30, 51, 600, 675)),
        *(("complex_to_real", length) for length in (2, 7, 34, 51, 1024, 675)),
    ],
)
def test_kinds(kind, length):
    extent = length // 2 + 1 if kind == "complex_to_real" else length
    check((5, extent), kind=kind, length=length)


@pytest.mark.costly
@pytest.mark.parametrize("kind", ["forward", "real_to_complex", "complex_to_real"])
@pytest.mark.parametrize(("shape", "axis"), [((12, 37), 0), ((3, 12, 5), 1), ((17, 2, 3), 0)])
def test_any_axis(kind, shape, axis):
    norm = "forward" if axis == 1 or kind == "forward" else "ortho"
    check(shape, kind=kind, axis=axis, norm=norm)


@pytest.mark.costly
@pytest.mark.parametrize("length", [60, 400, 97])
def test_one_kernel_serves_every_batch(length):
    op = ops.fft_transform(("b", length))
    kernel = build(op)
    for batch in (1, 2, 15, 16, 17, 40):
        parts = [RNG.standard_normal((batch, length)).astype("f4") for _ in "ri"]
        got = run(op, *parts, kernel=kernel)
        np.testing.assert_allclose(got, numpy_transform(op, parts), atol=1e-4)


@pytest.mark.costly
@pytest.mark.parametrize("length", [60, 64, 400, 97, 8192])
def test_double_precision(length):
    check((3, length), dtype="float64")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_rounded_once(dtype):
    from tvm_iree_ext.base import dtypes

    parts = [RNG.standard_normal((3, 256)).astype(dtypes.numpy_dtype(dtype)) for _ in "ri"]
    op = ops.fft_transform((3, 256), dtype=dtype)
    want = numpy_transform(op, parts)
    got = run(op, *parts)
    for a, b in ((got.real, want.real), (got.imag, want.imag)):
        np.testing.assert_allclose(a, b, rtol=0.51 * dtypes.eps(dtype), atol=1e-4)


def test_a_single_long_row_is_shared_among_threads():
    op = ops.fft_transform((1, 1 << 18))
    config = dataclasses.replace(RULE.heuristic(op, make_target("llvm")), splits=2)
    check((1, 1 << 18), config=config)
    check((2, 1 << 15), kind="real_to_complex", config=config)


def test_there_and_back():
    parts = [RNG.standard_normal((2, 1000)).astype("f4") for _ in "ri"]
    there = build(ops.fft_transform((2, 1000)))(*parts)
    back = build(ops.fft_transform((2, 1000), kind="inverse"))(*there)
    np.testing.assert_allclose(back, parts, atol=2e-6)


def test_it_is_what_all_stages_make():
    length = 64
    x = RNG.standard_normal((3, length)).astype("f4")
    order = [int(f"{i:06b}"[::-1], 2) for i in range(length)]
    parts = (np.ascontiguousarray(x[:, order]), np.zeros_like(x))
    for stage in range(1, 7):
        parts = build(ops.fft(*parts, stage=stage))(*parts)
    whole = build(ops.fft_transform(x, x))(x, np.zeros_like(x))
    difference = np.linalg.norm(np.subtract(whole, parts)) / np.linalg.norm(whole)
    assert difference <= 2 * allowed(length, "float32"), difference


def test_what_a_real_spectrum_does_not_mean_is_not_read():
    for length in (30, 31, 512):
        op = ops.fft_transform((2, length // 2 + 1), kind="complex_to_real", length=length)
        real, imag = (RNG.standard_normal(op.shape).astype("f4") for _ in "ri")
        kernel = build(op)
        plain = kernel(real, imag)
        imag[:, 0] = np.nan
        if length % 2 == 0:
            imag[:, -1] = np.nan
        np.testing.assert_array_equal(kernel(real, imag), plain)


@pytest.mark.parametrize("length", [60, 512])
def test_not_a_number_stays_in_its_row(length):
    real, imag = (RNG.standard_normal((20, length)).astype("f4") for _ in "ri")
    real[7, 3] = np.nan
    got = run(ops.fft_transform((20, length)), real, imag)
    assert np.isnan(got[7]).all()
    assert np.isfinite(np.delete(got, 7, axis=0)).all()


@pytest.mark.costly
@pytest.mark.parametrize("target", ["llvm:haswell", "llvm:nehalem"])
def test_narrower_vectors_compute_the_same(target):
    for length in (60, 96, 128, 1000, 1024):
        op = ops.fft_transform((5, length))
        check((5, length), config=RULE.heuristic(op, make_target(target)))


# LLVM ends the process where assembly has no register for a vector.
@pytest.mark.parametrize(
    ("target", "lanes", "ordered"),
    [
        ("llvm:skylake-avx512", 16, True),
        ("llvm:haswell", 8, True),
        ("llvm:haswell", 16, False),
        ("llvm:haswell", 2, False),
        ("llvm:nehalem", 4, False),
        ({"kind": "llvm", "mtriple": "aarch64-linux-gnu"}, 4, False),
        ({"kind": "llvm", "mtriple": "riscv64-unknown-linux-gnu"}, 4, False),
    ],
)
def test_code_of_vectors_in_registers_keeps_its_order(target, lanes, ordered):
    features = cpu_features(make_target(target))
    assert (CompilerBarriers.of(features, lanes, "float32") is not None) == ordered


@pytest.mark.skipif(bool(obstacle(HASWELL)), reason=obstacle(HASWELL))
def test_vectors_wider_than_registers():
    config = RULE.heuristic(ops.fft_transform((3, 256)), make_target("llvm:skylake-avx512"))
    check((3, 256), kernel=build(ops.fft_transform((3, 256)), target=HASWELL, config=config))


@pytest.mark.skipif(bool(obstacle(HASWELL)), reason=obstacle(HASWELL))
def test_twiddle_factors_in_butterflies_and_before_sums():
    op = ops.fft_transform((3, 1024))
    for radix in (8, 16):  # products go first where registers are few, which radix 8 stands for
        config = RULE.heuristic(op, HASWELL)
        config = dataclasses.replace(config, register_tile={"radix": radix, "columns": 16})
        check((3, 1024), kernel=build(op, target=HASWELL, config=config))


def test_short_rows_take_half_of_vectors_that_are_computed_in_halves():
    def lanes(length, target, dtype="float32"):
        return RULE.heuristic(ops.fft_transform((64, length), dtype=dtype), target).vector_lanes

    zen, intel = make_target("llvm:znver4"), make_target("llvm:icelake-server")
    assert [lanes(length, zen) for length in (243, 1125, 1536, 4096)] == [8, 8, 16, 16]
    assert [lanes(length, zen, "float64") for length in (243, 1024)] == [4, 8]
    assert {lanes(length, intel) for length in (243, 1125, 4096)} == {16}
    for length in (128, 243, 1000, 1125):  # columns of 8, of 15 and in lanes
        op = ops.fft_transform((19, length))
        check((19, length), config=RULE.heuristic(op, zen))


def test_scratch_grows_with_a_row_and_not_with_the_batch():
    def allocated(batch):
        op = ops.fft_transform((batch, 65536))
        target = make_target("llvm")
        module = RULE.lower(op, target, RULE.heuristic(op, target))
        return sorted(re.findall(r"alloc_buffer\(([^)]*\))", module.script()))

    assert allocated(64) == allocated(1024)


@pytest.mark.skipif(bool(obstacle(SKYLAKE)), reason=obstacle(SKYLAKE))
@pytest.mark.parametrize(("dtype", "lanes"), [("float32", 16), ("float64", 8)])
def test_columns_of_less_than_a_vector(dtype, lanes):
    for columns in range(lanes // 2, lanes):
        length = columns * (lanes + 1 + columns % 3)
        if passes(length, 16) is None:
            continue
        op = ops.fft_transform((5, length), dtype=dtype)
        tile = {"radix": 16, "columns": columns}
        config = RULE.heuristic(op, SKYLAKE)
        config = dataclasses.replace(config, algorithm="row", register_tile=tile)
        check((5, length), dtype=dtype, kernel=build(op, target=SKYLAKE, config=config))


def test_passes_and_columns_of_the_least_work():
    assert passes(1024, 16) == (16, 8, 8)
    assert passes(32, 16) == (8, 4)
    assert passes(243, 16) == (9, 9, 3)
    assert passes(1125, 16) == (15, 15, 5)
    assert passes(17, 16) is None
    assert columns_of(1024, 16, 16)[0] == 16
    assert columns_of(1125, 16, 16)[0] == 25
    assert columns_of(1125, 16, 16, least=12)[0] == 15
    assert columns_of(65536, 16, 16)[0] == 64
    assert columns_of(240, 16, 16) == columns_of(2 * 1021, 16, 16) == []


def test_passes_and_columns_of_few_registers():
    assert passes(128, 8) == (8, 4, 4)  # a codelet of 8 costs what it leaves on the stack
    assert passes(16, 8) == (4, 4)
    assert columns_of(1024, 8, 8)[0] == 8
    assert columns_of(65536, 8, 8)[0] == 128  # 512 points in lanes are nearer than 2048
    assert columns_of(1 << 18, 8, 8)[0] == 512


@pytest.mark.parametrize(
    ("length", "change", "message"),
    [
        (1024, {"algorithm": "magic"}, "algorithm is 'magic'; expected one of row, lanes"),
        (1024, {"vector_lanes": 12}, "vector_lanes is 12; expected a power of two from 2"),
        (1024, {"register_tile": {}}, r"'radix'\] is None; expected a power of two from 2"),
        (125, {"algorithm": "row"}, r"register_tile\['columns'\] is None"),
        (128, {"workgroup_tile": {}}, r"workgroup_tile\['rows'\] is None"),
        (17, {"algorithm": "lanes"}, "'lanes' needs a length of primes up to 13"),
    ],
)
def test_refuses_a_config_that_does_not_fit(length, change, message):
    op = ops.fft_transform((4, length))
    target = make_target("llvm:znver4")
    config = dataclasses.replace(RULE.heuristic(op, target), **change)
    with pytest.raises(ScheduleError, match=message):
        RULE.lower(op, target, config)


def test_refuses_rows_that_are_not_contiguous():
    op = ops.fft_transform((1024, 20), axis=0)
    target = make_target("llvm:znver4")
    config = dataclasses.replace(RULE.heuristic(op, target), algorithm="row")
    with pytest.raises(ScheduleError, match="'row' needs the axis to be the innermost"):
        RULE.lower(op, target, config)


def test_rows_that_leave_vectors_empty_go_in_lanes():
    target = make_target({"kind": "llvm", "mcpu": "x86-64-v4", "num-cores": 2})

    def form(rows, length):
        op = ops.fft_transform((rows, length), kind="forward", axis=1)
        return CpuFftTransform().heuristic(op, target).algorithm

    assert form(600, 1715) == form(600, 2401) == "lanes"  # 35 x 49, 49 x 49
    assert form(600, 1024) == form(600, 675) == form(600, 429) == "row"
    assert form(600, 1029) == "row"  # 21 x 49
    assert form(4, 441) == form("rows", 441) == "row"


def test_with_few_registers_they_go_in_lanes_sooner():
    def form(length):
        op = ops.fft_transform((600, length))
        return RULE.heuristic(op, make_target("llvm:haswell")).algorithm

    assert form(441) == form(625) == "lanes"  # 21 x 21, 25 x 25
    assert form(405) == form(1125) == form(1024) == "row"


@pytest.mark.costly
@pytest.mark.parametrize("length", [2, 7, 15])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_rows_shorter_than_a_vector(length, dtype):
    rng = np.random.default_rng(length)
    for rows in (16, 17, 40):
        op = ops.fft_transform((rows, length), kind="forward", axis=1, dtype=dtype)
        x = [rng.standard_normal((rows, length)).astype(dtype) for _ in range(2)]
        memory = np.full((2, rows + 2, length), 7, dtype)  # a row before and one behind
        build(op)(*x, out=(memory[0, 1:-1], memory[1, 1:-1]))
        want = np.fft.fft(x[0].astype(float) + 1j * x[1].astype(float))
        near = {"rtol": 0, "atol": 1e-4 if dtype == "float32" else 2e-2}
        np.testing.assert_allclose(memory[0, 1:-1], want.real, **near)
        np.testing.assert_allclose(memory[1, 1:-1], want.imag, **near)
        assert (memory[:, [0, -1]] == 7).all()
