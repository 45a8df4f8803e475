"""Programs for GPUs, on the simulator: beside recorded results, and beside NumPy; exported."""

import itertools

import numpy as np
import pytest
from places import DATA
from tvm import relax, tirx

from tvm_iree_ext.base.errors import CallError
from tvm_iree_ext.mlir.from_file import import_program
from tvm_iree_ext.program_checks import recorded_arrays
from tvm_iree_ext.programs.program_build import build_program
from tvm_iree_ext.programs.relax_import.from_relax import from_relax
from tvm_iree_ext.runtime.program import load
from tvm_iree_ext.simulator.runs.simulated_programs import simulate_program

FOLDER = DATA / "ir"
MLIR = DATA / "mlir"
PROGRAMS = sorted(path.stem for path in FOLDER.glob("*.mlir"))
TARGETS = ("cuda:sm_80", "rocm:gfx942")


# Each for one of the targets: the kernels' own tests have both.
@pytest.mark.costly
@pytest.mark.parametrize(("name", "target"), [*zip(PROGRAMS, itertools.cycle(TARGETS))])
def test_programs_give_what_was_recorded(name, target):
    imported = import_program(FOLDER / f"{name}.mlir")
    arrays = recorded_arrays.read_arrays(FOLDER / f"{name}.npz")
    (point,) = imported.functions
    given = recorded_arrays.arguments(point.name, point.signature, arrays)
    done = simulate_program(imported, target, given).check()
    assert not recorded_arrays.differences(point.signature, done.results, arrays)


SHAPES = (
    (7,),
    (1,),
    (300,),
    (5, 33),
    (64, 16),
    (3, 1, 40),
    (2, 70, 6),
    (4, 3, 2, 9),
    (130, 4),
    (9001,),
    (6000, 3),
)
REDUCTIONS = {"sum": np.sum, "max": np.max, "min": np.min, "prod": np.prod}


def random_module(rng):
    """A Relax module of maps and a reduction, and the same in NumPy of float64."""
    shape = SHAPES[rng.integers(len(SHAPES))]
    dtype = str(rng.choice(["float32", "float16", "int32", "float64"]))
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(shape, dtype))
    axes = sorted(rng.choice(len(shape), rng.integers(1, len(shape) + 1), replace=False).tolist())
    name = str(rng.choice(list(REDUCTIONS)))
    before, after, moved = (bool(rng.integers(2)) for _ in range(3))
    keep = bool(rng.integers(2))
    order = rng.permutation(len(shape)).tolist()
    with builder.function("main", [x]):
        with builder.dataflow():
            value = x
            if before:
                value = builder.emit(relax.op.maximum(relax.op.add(value, value), value))
            if moved:
                value = builder.emit(relax.op.permute_dims(value, order))
            value = builder.emit(getattr(relax.op, name)(value, axis=axes, keepdims=keep))
            if after:
                value = builder.emit(relax.op.subtract(value, relax.op.multiply(value, value)))
            value = builder.emit_output(value)
        builder.emit_func_output(value)

    def meaning(array):
        array = array.astype(np.float64)
        array = np.maximum(2 * array, array) if before else array
        array = array.transpose(order) if moved else array
        array = REDUCTIONS[name](array, axis=tuple(axes), keepdims=keep)
        return array - array * array if after else array

    array = rng.integers(-2, 3, shape) if "int" in dtype else rng.uniform(0.5, 1.0, shape)
    return builder.get(), array.astype(dtype), meaning


def check_random(seed, target):
    mod, array, meaning = random_module(np.random.default_rng(seed))
    if "int" not in str(array.dtype) and array.size > 40:
        array = (array * 2 - 1).astype(array.dtype) / 8  # so that products stay in range
    done = simulate_program(from_relax(mod), target, [array]).check()
    (got,) = done.results
    wanted = meaning(array)
    assert got.shape == wanted.shape
    if "int" in str(array.dtype):
        wanted = np.asarray(wanted)
        inside = np.abs(wanted) < 2**31
        np.testing.assert_array_equal(got[inside], wanted[inside].astype(got.dtype))
        return
    epsilon = float(np.finfo(array.dtype).eps)
    np.testing.assert_allclose(
        got.astype(np.float64), wanted, rtol=4 * epsilon * array.size, atol=8 * epsilon * array.size
    )


@pytest.mark.costly
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("seed", range(8))
def test_random_maps_and_reductions(seed, target):
    check_random(seed, target)


@pytest.mark.parametrize("target", TARGETS)
def test_what_one_function_keeps_between_its_nests_is_memory(target):
    """Softmax as one function: its maximum and its sum lie between kernels of their own."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((3, 600), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(relax.op.nn.softmax(x, axis=-1))
        builder.emit_func_output(out)
    array = np.random.default_rng(0).standard_normal((3, 600), np.float32)
    (got,) = simulate_program(from_relax(builder.get()), target, [array]).check().results
    powers = np.exp(array - array.max(axis=1, keepdims=True))
    np.testing.assert_allclose(got, powers / powers.sum(axis=1, keepdims=True), rtol=1e-5)


def check_relax(target, arrays, meaning, operator, shapes):
    """One operator on float32 tensors, beside NumPy."""
    builder = relax.BlockBuilder()
    given = [relax.Var(f"x{i}", relax.TensorType(s, "float32")) for i, s in enumerate(shapes)]
    with builder.function("main", given):
        with builder.dataflow():
            out = builder.emit_output(operator(*given))
        builder.emit_func_output(out)
    (got,) = simulate_program(from_relax(builder.get()), target, arrays).check().results
    np.testing.assert_allclose(got, meaning(*arrays), rtol=1e-5, atol=1e-6)


@pytest.mark.costly
@pytest.mark.parametrize("target", TARGETS)
def test_two_results_of_a_reduction_and_one_array_twice(target):
    array = np.random.default_rng(3).standard_normal((4, 33), np.float32)
    check_relax(target, [array], lambda x: x + x, lambda x: relax.op.add(x, x), [(4, 33)])
    check_relax(
        target, [array], lambda x: x.argmax(axis=1), lambda x: relax.op.argmax(x, 1), [(4, 33)]
    )
    rows = tirx.Var("rows", "int64")
    variance = [array], lambda x: x.var(axis=0), lambda x: relax.op.variance(x, axis=[0])
    check_relax(target, *variance, [(rows, 33)])


@pytest.mark.parametrize("count", [0, 7])
def test_a_maximum_of_nothing_is_what_it_begins_with(count):
    array = np.random.default_rng(4).standard_normal((3, count), np.float32)
    columns = tirx.Var("columns", "int64")
    least = float(np.finfo(np.float32).min)
    check_relax(
        "cuda:sm_80",
        [array],
        lambda x: x.max(axis=1, initial=least),
        lambda x: relax.op.max(x, axis=[1]),
        [(3, columns)],
    )


def test_a_program_is_exported_with_its_plan_and_constants(tmp_path):
    imported = import_program(FOLDER / "mha_block.mlir")
    program = build_program(imported, "rocm:gfx942", folder=tmp_path / "program")
    assert {"kernel.hsaco", "kernel.s", "launch.py", "parameters.bin"} <= {*program.manifest.files}
    plan = load(tmp_path / "program").manifest.launch["main"]
    assert [one["name"] for one in plan["parameters"]] == ["arg0", "out0"]
    assert len(plan["constants"]) == len(program.manifest.parameters) == 6
    spilt = {k: v["spills"] for k, v in program.resources["kernels"].items() if v["spills"]}
    assert not spilt
    with pytest.raises(CallError, match="arg0"):
        program(np.zeros((2, 50, 63), np.float32))


def test_extents_may_be_known_at_the_call_only():
    imported = import_program(MLIR / "dynamic.mlir")
    rng = np.random.default_rng(1)
    for rows in (1, 5, 33):
        a = rng.standard_normal((rows, 19), np.float32)
        b = rng.standard_normal((19, 21), np.float32)
        done = simulate_program(imported, "cuda:sm_80", [a, b]).check()
        assert done.results[0].shape == (rows, 21)
        np.testing.assert_allclose(done.results[0], np.tanh(a @ b), rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(done.results[1], done.results[0].reshape(-1))


CHOSEN = """
func.func @main(%x: tensor<6x16xi1>, %y: tensor<6x16xi1>, %z: tensor<6x16xi1>)
    -> (tensor<6x16xi1>, tensor<6x16xi1>) {
  %e = tensor.empty() : tensor<6x16xi1>
  %0:2 = linalg.generic {
    indexing_maps = [
      affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>,
      affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>
    ],
    iterator_types = ["parallel", "parallel"]
  } ins(%x, %y, %z : tensor<6x16xi1>, tensor<6x16xi1>, tensor<6x16xi1>)
    outs(%e, %e : tensor<6x16xi1>, tensor<6x16xi1>) {
  ^bb0(%a: i1, %b: i1, %c: i1, %d: i1, %f: i1):
    %chosen = arith.select %a, %b, %c : i1
    %both = arith.andi %b, %c : i1
    linalg.yield %chosen, %both : i1, i1
  } -> (tensor<6x16xi1>, tensor<6x16xi1>)
  return %0#0, %0#1 : tensor<6x16xi1>, tensor<6x16xi1>
}
"""


@pytest.mark.parametrize("target", TARGETS)
def test_bools_that_are_read_in_runs_are_bools(target):
    x, y, z = np.random.default_rng(0).random((3, 6, 16)) < 0.5
    done = simulate_program(import_program(CHOSEN), target, [x, y, z]).check()
    np.testing.assert_array_equal(done.results[0], np.where(x, y, z))
    np.testing.assert_array_equal(done.results[1], y & z)
