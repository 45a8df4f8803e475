"""Products of bfloat16 and int8 by instructions that add up those of neighbours in depth."""

from dataclasses import replace

import numpy as np
import pytest
import tvm

from tvm_iree_ext import ops, registry
from tvm_iree_ext.base.dtypes import numpy_dtype
from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.building.kernel_build import build
from tvm_iree_ext.codegen.cpu import cpu_pipeline
from tvm_iree_ext.runtime.machine import cpu_flags
from tvm_iree_ext.schedules.cpu.contraction.contraction_rule import CpuContraction
from tvm_iree_ext.targets.names import make_target

RNG = np.random.default_rng(21)
DTYPES = ("bfloat16", "int8")
ALL = make_target({"kind": "llvm", "mcpu": "cooperlake", "num-cores": 2})
# This machine may have the instructions where its target does not say so.
HERE = ALL if {"avx512_bf16", "avx512_vnni"} <= cpu_flags() else make_target("llvm")


def numbers(shape, dtype):
    """Any int8; of bfloat16 small integers, whose sums are exact."""
    low, high = (-128, 127) if dtype == "int8" else (-4, 4)
    return RNG.integers(low, high, shape, endpoint=True).astype(numpy_dtype(dtype))


def check(op, lhs, rhs, kernel=None):
    """Run a kernel of ``op``; exactly right."""
    want = registry.find(op.name).reference(op, {"lhs": lhs, "rhs": rhs})["result"]
    np.testing.assert_array_equal((kernel or build(op, HERE))(lhs, rhs).astype(want.dtype), want)


def result_dtype(dtype):
    return "float32" if dtype == "bfloat16" else "int32"


# Vectors of words and a bit; several blocks of depth.
@pytest.mark.costly
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("shape", "transposed"),
    [((20, 53, 67), ends) for ends in ((0, 0), (0, 1), (1, 0), (1, 1))]
    + [((33, 70, 2100), ends) for ends in ((0, 0), (1, 1))],
)
def test_products_of_any_shape(shape, dtype, transposed):
    m, n, k = shape
    lhs = numbers((k, m) if transposed[0] else (m, k), dtype)
    rhs = numbers((n, k) if transposed[1] else (k, n), dtype)
    ends = {"transpose_lhs": bool(transposed[0]), "transpose_rhs": bool(transposed[1])}
    op = ops.matmul(lhs, rhs, result_dtype=result_dtype(dtype), **ends)
    check(op, lhs, rhs)


@pytest.mark.costly
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("maps", ["m k l, l k n, m n", "k m b, n b k, n b m"])
def test_depth_of_several_dims_and_strides(dtype, maps):
    sizes = {"b": 3, "k": 5, "l": 7, "m": 40, "n": 19}
    lhs_dims, rhs_dims, dims = (own.split() for own in maps.split(", "))
    letters = sorted({*lhs_dims, *rhs_dims})
    lhs, rhs = (numbers([sizes[d] for d in own], dtype) for own in (lhs_dims, rhs_dims))
    op = ops.contraction(
        lhs,
        rhs,
        indexing_maps=[
            f"({', '.join(letters)}) -> ({', '.join(own)})" for own in (lhs_dims, rhs_dims, dims)
        ],
        result_dtype=result_dtype(dtype),
    )
    check(op, lhs, rhs)


@pytest.mark.costly
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("transposed", [False, True])
def test_one_kernel_serves_every_extent(dtype, transposed):
    op = ops.matmul(
        ("m", "k"),
        ("n", "k") if transposed else ("k", "n"),
        transpose_rhs=transposed,
        dtype=dtype,
        result_dtype=result_dtype(dtype),
    )
    kernel = build(op, HERE)
    for m, n, k in ((1, 1, 1), (30, 70, 3), (70, 33, 2050)):
        rhs = numbers((n, k) if transposed else (k, n), dtype)
        check(op, numbers((m, k), dtype), rhs, kernel)


def test_special_numbers_stay_in_their_row():
    lhs, rhs = numbers((20, 33), "bfloat16"), np.abs(numbers((33, 20), "bfloat16")) + 1
    rhs = rhs.astype(lhs.dtype)
    lhs[3, 7], lhs[5, 0], lhs[6, 32] = np.nan, np.inf, -np.inf
    got = build(ops.matmul(lhs, rhs), HERE)(lhs, rhs).astype(np.float32)
    assert np.isnan(got[3]).all()
    assert (got[5] == np.inf).all()
    assert (got[6] == -np.inf).all()
    assert np.isfinite(np.delete(got, (3, 5, 6), 0)).all()


@pytest.mark.costly
@pytest.mark.parametrize(
    ("mcpu", "found"),
    [
        ("znver4", {"bfloat16": "vdpbf16ps", "int8": "vpdpbusd"}),
        ("sapphirerapids", {"bfloat16": "tdpbf16ps", "int8": "tdpbssd"}),
        ("cascadelake", {"bfloat16": None, "int8": "vpdpbusd"}),
        ("alderlake", {"bfloat16": None, "int8": "vpdpbusd"}),
        ("skylake-avx512", {"bfloat16": None, "int8": None}),
    ],
)
def test_the_instruction_is_used_where_the_cpu_has_it(mcpu, found):
    target = make_target({"kind": "llvm", "mcpu": mcpu, "num-cores": 2})
    rule = CpuContraction()
    for dtype, instruction in found.items():
        op = ops.matmul((64, 64), (64, 64), dtype=dtype, result_dtype=result_dtype(dtype))
        config = rule.heuristic(op, target)
        form = "tiles" if str(instruction).startswith("td") else "dots"
        assert config.algorithm == (form if instruction else "panels")
        cpu_pipeline.register()
        module = rule.lower(op, target, config)
        library = tvm.compile(module, target, tir_pipeline=cpu_pipeline.CPU_PIPELINE)
        lines = library.mod.inspect_source("asm").splitlines()
        words = ("vdpbf16ps", "vpdpbusd", "tdpbf16ps", "tdpbssd")
        count = sum(word in line for line in lines for word in words)
        least = config.register_tile["rows"] if form == "dots" else 4
        assert (count >= least) == bool(instruction)
        if instruction:
            assert any(instruction in line for line in lines)
            assert not any("call" in line and "tvm_iree_ext_dot" in line for line in lines)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"reduction_tile": {"k": 6}}, r"reduction_tile\['k'\] is 6; expected a multiple of 4"),
        ({"vector_lanes": 2}, "vector_lanes is 2; expected a power of two from 4 up to 16"),
        ({"vector_lanes": 32}, "vector_lanes is 32; expected a power of two from 4 up to 16"),
        ({"promote": ("rhs",)}, "promote is .*; expected lhs among them"),
    ],
)
def test_configs_that_do_not_fit(change, message):
    op, rule = ops.matmul((40, 30), (30, 50), dtype="int8"), CpuContraction()
    config = replace(rule.heuristic(op, ALL), **change)
    with pytest.raises(ScheduleError, match=f"cpu.contraction: {message}"):
        rule.lower(op, ALL, config)


def test_a_cpu_without_the_instruction_refuses_its_config():
    op, rule = ops.matmul((40, 30), (30, 50), dtype="int8"), CpuContraction()
    config = rule.heuristic(op, ALL)
    with pytest.raises(ScheduleError, match="algorithm is 'dots'; expected 'panels'"):
        rule.lower(op, make_target({"kind": "llvm", "mcpu": "skylake-avx512"}), config)


@pytest.mark.skipif(HERE is not ALL, reason="this CPU has not both instructions")
@pytest.mark.parametrize("dtype", DTYPES)
def test_other_configs_compute_the_same(dtype):
    lhs, rhs = numbers((50, 70), dtype), numbers((70, 96), dtype)
    op = ops.matmul(lhs, rhs, result_dtype=result_dtype(dtype))
    config = CpuContraction().heuristic(op, HERE)
    assert config.algorithm == "dots"
    for change in (
        {"workgroup_tile": {"m": 10, "n": 24}, "reduction_tile": {"k": 8}},
        {"vector_lanes": 4, "register_tile": {"rows": 3, "vectors": 1}, "parallel": False},
        {"algorithm": "panels", "reduction_tile": {"k": 64}},
    ):
        check(op, lhs, rhs, build(op, HERE, config=replace(config, **change)))
