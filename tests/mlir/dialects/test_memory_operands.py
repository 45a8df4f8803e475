"""Operations whose operands are memrefs give what they give on tensors, where they write it."""

import numpy as np
import pytest

from tvm_iree_ext.base.errors import MlirError
from tvm_iree_ext.simulator import simulate_program

ADD = """{
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    iree_linalg_ext.yield %s : f32
  }"""
LARGER = """{
  ^bb0(%a: f32, %b: f32):
    %s = arith.cmpf ogt, %a, %b : f32
    iree_linalg_ext.yield %s : i1
  }"""
# The operation, T0 for the type of %0 and so on; the types; the operands that it writes.
CASES = {
    "scatter": (
        "iree_linalg_ext.scatter dimension_map = [0] unique_indices(false)"
        f" ins(%0, %1 : T0, T1) outs(%2 : T2) {ADD}",
        ["3x8xf32", "3x1xi32", "16x8xf32"],
        [2],
    ),
    "gather": (
        "iree_linalg_ext.gather dimension_map = [0] ins(%0, %1 : T0, T1) outs(%2 : T2)",
        ["16x8xf32", "3xi32", "3x8xf32"],
        [2],
    ),
    "sort": (
        """iree_linalg_ext.sort dimension(1) outs(%0, %1 : T0, T1) {
  ^bb0(%a: f32, %b: f32, %c: i32, %d: i32):
    %s = arith.cmpf olt, %a, %b : f32
    iree_linalg_ext.yield %s : i1
  }""",
        ["2x8xf32", "2x8xi32"],
        [0, 1],
    ),
    "scan": (
        "iree_linalg_ext.scan dimension(0) inclusive(true)"
        f" ins(%0 : T0) outs(%1, %2 : T1, T2) {ADD}",
        ["4x3xf32", "4x3xf32", "3xf32"],
        [1, 2],
    ),
    "topk": (
        f"iree_linalg_ext.topk dimension(1) ins(%0, %1 : T0, T1) outs(%2, %3 : T2, T3) {LARGER}",
        ["2x10xf32", "2x10xi32", "2x3xf32", "2x3xi32"],
        [2, 3],
    ),
    "arg_compare": (
        f"iree_linalg_ext.arg_compare dimension(1) ins(%0 : T0) outs(%1, %2 : T1, T2) {LARGER}",
        ["2x10xf32", "2xf32", "2xi32"],
        [1, 2],
    ),
    "fft": (
        "iree_linalg_ext.fft ins(%one : index) outs(%0, %1 : T0, T1)",
        ["8xf32", "8xf32"],
        [0, 1],
    ),
    "attention": (
        """iree_linalg_ext.attention {indexing_maps = [
    affine_map<(b, m, k1, k2, n) -> (b, m, k1)>, affine_map<(b, m, k1, k2, n) -> (b, k2, k1)>,
    affine_map<(b, m, k1, k2, n) -> (b, k2, n)>, affine_map<(b, m, k1, k2, n) -> ()>,
    affine_map<(b, m, k1, k2, n) -> (b, m, n)>]}
    ins(%0, %1, %2, %half : T0, T1, T2, f32) outs(%3 : T3) {
  ^bb0(%a: f32):
    iree_linalg_ext.yield %a : f32
  }""",
        ["2x4x8xf32", "2x6x8xf32", "2x6x8xf32", "2x4x8xf32"],
        [3],
    ),
    "im2col": (
        "iree_linalg_ext.im2col strides = [1, 1] dilations = [1, 1] kernel_size = [3, 3]"
        " offsets = [0, 0, 0] output_sizes = [[1], [4, 4], [3, 3, 4]] batch_pos = [0]"
        " m_pos = [1, 2] k_pos = [3] input_k_perm = [0, 1, 2] output_perm = [0, 1, 2]"
        " ins(%0 : T0) outs(%1 : T1)",
        ["1x6x6x4xf32", "1x16x36xf32"],
        [1],
    ),
    "winograd": (
        "iree_linalg_ext.winograd.input_transform output_tile_size(6) kernel_size(3)"
        " image_dimensions([1, 2]) ins(%0 : T0) outs(%1 : T1)",
        ["1x10x10x4xf32", "8x8x1x2x2x4xf32"],
        [1],
    ),
    "map_store": (
        """iree_linalg_ext.map_store %0 into %1 {
  ^bb0(%a: index, %b: index):
    %t = arith.constant true
    iree_linalg_ext.yield %b, %a, %t : index, index, i1
  } : T0 into T1""",
        ["8x4xf32", "4x8xf32"],
        [1],
    ),
    "unpack": (
        "linalg.unpack %0 inner_dims_pos = [0, 1] inner_tiles = [8, 8] into %1 : T0 -> T1",
        ["3x5x8x8xf32", "24x40xf32"],
        [1],
    ),
    "matmul": (
        "linalg.matmul ins(%0, %1 : T0, T1) outs(%2 : T2)",
        ["4x5xf32", "5x6xf32", "4x6xf32"],
        [2],
    ),
    "softmax": (
        "linalg.softmax dimension(1) ins(%0 : T0) outs(%1 : T1)",
        ["2x16xf32", "2x16xf32"],
        [1],
    ),
    "reduce": (
        "linalg.reduce { arith.addf } ins(%0 : T0) outs(%1 : T1) dimensions = [1]",
        ["3x7xf32", "3xf32"],
        [1],
    ),
    "map": (
        "linalg.map { arith.mulf } ins(%0, %1 : T0, T1) outs(%2 : T2)",
        ["7xf32", "7xf32", "7xf32"],
        [2],
    ),
    "generic": (
        """linalg.generic {
    indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>],
    iterator_types = ["parallel", "reduction"]} ins(%0 : T0) outs(%1 : T1) {
  ^bb0(%a: f32, %b: f32):
    %m = arith.maximumf %a, %b : f32
    linalg.yield %m : f32
  }""",
        ["?x7xf32", "?xf32"],
        [1],
    ),
}


def written(name, on_memrefs):
    """A function that is the operation of a case."""
    operation, types, outs = CASES[name]
    kinds = [f"{'memref' if on_memrefs else 'tensor'}<{one}>" for one in types]
    for number, kind in enumerate(kinds):
        operation = operation.replace(f"T{number}", kind)
    results = returned = ""
    if not on_memrefs:
        own = ", ".join(kinds[number] for number in outs)
        count = f":{len(outs)}" if len(outs) > 1 else ""
        arrow = {"fft": f" : {own}", "map": "", "reduce": "", "unpack": ""}.get(name, f" -> {own}")
        operation = f"%r{count} = {operation}{arrow}"
        names = [f"%r#{n}" for n in range(len(outs))] if count else ["%r"]
        results, returned = f" -> ({own})", f" {', '.join(names)} : {own}"
    parameters = ", ".join(f"%{number}: {kind}" for number, kind in enumerate(kinds))
    return f"""func.func @{name}{"_memrefs" * on_memrefs}({parameters}){results} {{
  %half = arith.constant 0.5 : f32
  %one = arith.constant 1 : index
  {operation}
  return{returned}
}}
"""


def drawn(name):
    """Arrays for a case."""
    numbers = np.random.default_rng(len(name))
    found = []
    for kind in CASES[name][1]:
        *extents, dtype = kind.split("x")
        shape = [5 if one == "?" else int(one) for one in extents]
        is_float = dtype == "f32"
        array = numbers.standard_normal(shape) if is_float else numbers.integers(0, 3, shape)
        found.append(array.astype("f4" if is_float else "i4"))
    return found


@pytest.fixture(scope="module")
def program(built):
    return built("".join(written(name, kind) for name in CASES for kind in (False, True)))


@pytest.mark.parametrize("name", CASES)
def test_it_writes_what_it_gives_on_tensors(program, name):
    arrays = drawn(name)
    outs = CASES[name][2]
    wants = program(*arrays, function=name)
    held = [one.copy() for one in arrays]
    came = program(*held, function=f"{name}_memrefs")
    for number, want, got in zip(outs, wants, came, strict=True):
        assert got is held[number]
        np.testing.assert_array_equal(got, want)
    for number, (before, after) in enumerate(zip(arrays, held, strict=True)):
        if number not in outs:
            np.testing.assert_array_equal(before, after)


@pytest.mark.parametrize("name", ["attention", "im2col", "map", "scatter", "unpack", "winograd"])
def test_the_kernel_writes_there(program, name):
    assert program.built.resources["memory"][f"{name}_memrefs"]["planned"] == 0


@pytest.mark.parametrize("target", ["cuda:sm_80", "rocm:gfx942"])
@pytest.mark.parametrize("name", ["reduce", "scatter", "sort", "topk", "unpack"])
def test_so_it_is_on_gpus(program, imported, name, target):
    arrays = drawn(name)
    own = imported(written(name, True))
    came = simulate_program(own, target, arrays).check().results
    for want, got in zip(program(*arrays, function=name), came, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_what_takes_no_memrefs_is_refused(imported):
    with pytest.raises(MlirError, match=r"4:3: vector\.store: is not supported"):
        imported("""
func.func @f(%a: memref<8xf32>, %b: vector<4xf32>, %i: index) {
  %x = memref.load %a[%i] : memref<8xf32>
  vector.store %b, %a[%i] : memref<8xf32>, vector<4xf32>
  return
}
""")
