"""Results in place of arguments: written there, once nothing reads what the memory held."""

import numpy as np
import pytest

import tvm_iree_ext as ext
from tvm_iree_ext.base.errors import MlirError
from tvm_iree_ext.mlir.from_file import import_program

CACHE = "tensor<8x4xf32>"
ROW = "tensor<1x4xf32>"


def built(body, tmp_path, more="", results=f"{CACHE}", home=0):
    """A program that puts a row into a cache, its second argument, and what it calls."""
    text = f"""
func.func @f(%row: {ROW}, %cache: {CACHE} {{iree.abi.output = {home} : index}}, %at: index{more})
    -> ({results}) {{
  {body}
}}
"""
    program = ext.build_program(import_program(text), folder=tmp_path / "p")
    return program, [kernel.name for kernel in program.manifest.kernels]


INSERT = f"""
  %c0 = arith.constant 0 : index
  %c7 = arith.constant 7 : index
  %low = arith.maxsi %at, %c0 : index
  %place = arith.minsi %low, %c7 : index
  %new = tensor.insert_slice %row into %cache[%place, 0] [1, 4] [1, 1] : {ROW} into {CACHE}
"""


def given(seed=0):
    rng = np.random.default_rng(seed)
    return rng.random((1, 4), "float32"), rng.random((8, 4), "float32")


def inserted(row, cache, at):
    cache = cache.copy()
    cache[min(max(at, 0), 7)] = row[0]
    return cache


@pytest.mark.parametrize("at", [-2, 0, 3, 7, 9])
def test_a_row_is_written_and_nothing_else(at, tmp_path):
    program, kernels = built(f"{INSERT} return %new : {CACHE}", tmp_path)
    assert [name for name in kernels if "in_place" in name] == kernels
    row, cache = given()
    want = inserted(row, cache, at)
    assert program(row, cache, np.array(at)) is cache
    np.testing.assert_array_equal(cache, want)


def test_readers_of_the_old_rows_come_first(tmp_path):
    """In the text they come last."""
    body = f"""{INSERT}
  %old = tensor.extract_slice %cache[0, 0] [1, 4] [1, 1] : {CACHE} to {ROW}
  return %new, %old : {CACHE}, {ROW}"""
    program, kernels = built(body, tmp_path, results=f"{CACHE}, {ROW}")
    assert "copy_into" not in kernels
    row, cache = given()
    before = cache.copy()
    new, old = program(row, cache, np.array(0))
    assert new is cache
    np.testing.assert_array_equal(old, before[:1])
    np.testing.assert_array_equal(cache, inserted(row, before, 0))


def test_what_is_returned_as_it_was_is_copied_before(tmp_path):
    body = f"{INSERT} return %new, %cache : {CACHE}, {CACHE}"
    program, _ = built(body, tmp_path, results=f"{CACHE}, {CACHE}")
    row, cache = given()
    before = cache.copy()
    new, old = program(row, cache, np.array(2))
    assert new is cache
    assert not np.shares_memory(old, cache)
    np.testing.assert_array_equal(old, before)
    np.testing.assert_array_equal(new, inserted(row, before, 2))


def test_what_must_read_both_is_computed_elsewhere_and_copied(tmp_path):
    """Each element takes one from another place of the old cache."""
    body = f"""
  %r = linalg.generic {{
    indexing_maps = [affine_map<(i, j) -> (7 - i, j)>, affine_map<(i, j) -> (i, j)>],
    iterator_types = ["parallel", "parallel"]
  }} ins(%cache : {CACHE}) outs(%cache : {CACHE}) {{
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  }} -> {CACHE}
  return %r : {CACHE}"""
    program, kernels = built(body, tmp_path)
    assert "copy_into" in kernels
    row, cache = given()
    want = cache[::-1] + cache
    assert program(row, cache, np.array(2)) is cache
    np.testing.assert_array_equal(cache, want)


def test_an_update_by_rows_of_the_old_cache_reads_them_before(tmp_path):
    """The row that is put in is computed of the cache itself."""
    body = f"""
  %c0 = arith.constant 0 : index
  %c6 = arith.constant 6 : index
  %low = arith.maxsi %at, %c0 : index
  %place = arith.minsi %low, %c6 : index
  %two = tensor.extract_slice %cache[0, 0] [2, 4] [1, 1] : {CACHE} to tensor<2x4xf32>
  %new = tensor.insert_slice %two into %cache[%place, 0] [2, 4] [1, 1]
    : tensor<2x4xf32> into {CACHE}
  return %new : {CACHE}"""
    program, _ = built(body, tmp_path)
    for at in (0, 1, 6):
        row, cache = given()
        want = cache.copy()
        want[at : at + 2] = cache[:2]
        program(row, cache, np.array(at))
        np.testing.assert_array_equal(cache, want)


SUMS = f"""
  %zero = arith.constant dense<0.0> : {ROW}
  %sums = linalg.generic {{
    indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (0, j)>],
    iterator_types = ["reduction", "parallel"]
  }} ins(%new : {CACHE}) outs(%zero : {ROW}) {{
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  }} -> {ROW}
"""


def test_several_updates_one_after_another(tmp_path):
    """Each is read before the next, as by the layers of a model."""
    body = f"""{INSERT} {SUMS}
  %last = tensor.insert_slice %sums into %new[1, 0] [1, 4] [1, 1] : {ROW} into {CACHE}
  return %last : {CACHE}"""
    program, kernels = built(body, tmp_path)
    assert "copy_into" not in kernels
    for at in (0, 1, 5):
        row, cache = given()
        want = inserted(row, cache, at)
        want[1] = want.sum(0)
        program(row, cache, np.array(at))
        np.testing.assert_allclose(cache, want, rtol=1e-5)


def test_an_update_fused_with_one_that_reads_elsewhere_is_computed_elsewhere(tmp_path):
    body = f"""{INSERT}
  %seen = tensor.extract_slice %new[0, 0] [1, 4] [1, 1] : {CACHE} to {ROW}
  %twice = arith.addf %seen, %seen : {ROW}
  %last = tensor.insert_slice %twice into %new[1, 0] [1, 4] [1, 1] : {ROW} into {CACHE}
  return %last : {CACHE}"""
    program, _ = built(body, tmp_path)
    for at in (0, 1, 5):
        row, cache = given()
        want = inserted(row, cache, at)
        want[1] = want[0] + want[0]
        program(row, cache, np.array(at))
        np.testing.assert_array_equal(cache, want)


def test_elementwise_functions_of_the_whole(tmp_path):
    """As of weights, by a step of training."""
    body = f"""
  %m = tensor.empty() : {CACHE}
  %new = linalg.generic {{
    indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (0, j)>,
      affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]
  }} ins(%cache, %row : {CACHE}, {ROW}) outs(%m : {CACHE}) {{
  ^bb0(%a: f32, %b: f32, %c: f32):
    %s = arith.subf %a, %b : f32
    linalg.yield %s : f32
  }} -> {CACHE}
  return %new : {CACHE}"""
    program, kernels = built(body, tmp_path)
    (kernel,) = kernels
    assert "in_place" in kernel
    row, cache = given()
    want = cache - row
    assert program(row, cache, np.array(0)) is cache
    np.testing.assert_array_equal(cache, want)


@pytest.mark.parametrize("unique", ["true", "false"])
def test_a_scatter(unique, tmp_path):
    body = f"""
  %at32 = arith.index_cast %at : index to i32
  %i = tensor.from_elements %at32 : tensor<1x1xi32>
  %new = iree_linalg_ext.scatter dimension_map = [0] unique_indices({unique})
    ins(%row, %i : {ROW}, tensor<1x1xi32>) outs(%cache : {CACHE}) {{
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    iree_linalg_ext.yield %s : f32
  }} -> {CACHE}
  return %new : {CACHE}"""
    program, kernels = built(body, tmp_path)
    assert "copy_into" not in kernels
    row, cache = given()
    want = cache.copy()
    want[5] += row[0]
    assert program(row, cache, np.array(5)) is cache
    np.testing.assert_array_equal(cache, want)


def test_two_arguments_may_change_places(tmp_path):
    text = f"""
func.func @f(%a: {CACHE} {{iree.abi.output = 0 : index}},
    %b: {CACHE} {{tf.aliasing_output = 1 : i32}}) -> ({CACHE}, {CACHE}) {{
  return %b, %a : {CACHE}, {CACHE}
}}
"""
    program = ext.build_program(import_program(text), folder=tmp_path / "p")
    a, b = np.zeros((8, 4), "float32"), np.ones((8, 4), "float32")
    assert [one is other for one, other in zip(program(a, b), (a, b), strict=True)] == [True] * 2
    assert a.all()
    assert not b.any()


def test_an_argument_as_it_is(tmp_path):
    program, kernels = built(f"return %cache : {CACHE}", tmp_path)
    assert not kernels
    row, cache = given()
    before = cache.copy()
    assert program(row, cache, np.array(0)) is cache
    np.testing.assert_array_equal(cache, before)


def test_extents_that_a_call_tells(tmp_path):
    """Their results are copied into the argument."""
    kind = "tensor<?x4xf32>"
    text = f"""
func.func @f(%row: {ROW}, %cache: {kind} {{iree.abi.output = 0 : index}}, %at: index) -> {kind} {{
  %new = tensor.insert_slice %row into %cache[%at, 0] [1, 4] [1, 1] : {ROW} into {kind}
  return %new : {kind}
}}
"""
    program = ext.build_program(import_program(text), folder=tmp_path / "p")
    row, cache = given()
    want = inserted(row, cache, 3)
    assert program(row, cache, np.array(3)) is cache
    np.testing.assert_array_equal(cache, want)


def test_a_loop_reads_the_cache_before(tmp_path):
    """What a loop is given may come out of it without a copy."""
    body = f"""
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %kept = scf.for %i = %c0 to %at step %c1 iter_args(%x = %cache) -> ({CACHE}) {{
    %y = arith.addf %x, %x : {CACHE}
    scf.yield %y : {CACHE}
  }}
  %new = tensor.insert_slice %row into %cache[0, 0] [1, 4] [1, 1] : {ROW} into {CACHE}
  return %new, %kept : {CACHE}, {CACHE}"""
    program, _ = built(body, tmp_path, results=f"{CACHE}, {CACHE}")
    for steps in (0, 2):
        row, cache = given()
        before = cache.copy()
        new, kept = program(row, cache, np.array(steps))
        assert new is cache
        np.testing.assert_array_equal(kept, before * 2**steps)
        np.testing.assert_array_equal(cache, inserted(row, before, 0))


def test_an_artifact_updates_too(tmp_path):
    program, _ = built(f"{INSERT} return %new : {CACHE}", tmp_path)
    loaded = ext.load(program.export(tmp_path / "exported"))
    row, cache = given()
    want = inserted(row, cache, 4)
    assert loaded(row, cache, np.array(4)) is cache
    np.testing.assert_array_equal(cache, want)


def test_a_gpu_s_kernels_write_the_argument(tmp_path):
    text = f"""
func.func @f(%row: {ROW}, %cache: {CACHE} {{iree.abi.output = 0 : index}}) -> {CACHE} {{
  %new = tensor.insert_slice %row into %cache[2, 0] [1, 4] [1, 1] : {ROW} into {CACHE}
  return %new : {CACHE}
}}
"""
    program = ext.build_program(import_program(text), "rocm:gfx942", folder=tmp_path / "p")
    plan = program.manifest.launch["f"]
    assert [one["name"] for one in plan["parameters"]] == ["arg0", "arg1"]
    (step,) = plan["steps"]
    assert [one["array"] for one in step["arguments"]] == ["arg0", "arg1"]


@pytest.mark.parametrize(
    ("number", "said"),
    [(1, "result 1 in place of arg0, of another type"), (2, "result 2 in place of arg0, of anoth")],
)
def test_results_are_of_the_argument_s_type(number, said):
    text = f"""
func.func @f(%a: {CACHE} {{iree.abi.output = {number} : index}}) -> ({CACHE}, {ROW}) {{
  %r = tensor.extract_slice %a[0, 0] [1, 4] [1, 1] : {CACHE} to {ROW}
  return %a, %r : {CACHE}, {ROW}
}}
"""
    with pytest.raises(MlirError, match=said):
        import_program(text)
