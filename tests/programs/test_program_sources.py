"""What ``build`` takes for a program, and what it says of anything else."""

import numpy as np
import pytest
import tvm
from tvm import te

import tvm_iree_ext as ext
from tvm_iree_ext.base.errors import BuildError
from tvm_iree_ext.programs.program_build import build_program
from tvm_iree_ext.programs.program_sources import program_of


@pytest.fixture(scope="module")
def tensors():
    x = te.placeholder((3, 4), name="x")
    return [x, te.compute((3, 4), lambda i, j: x[i, j] * 2, name="y")]


def test_a_function_its_module_and_its_tensors_are_one_program(tensors, tmp_path):
    function = te.create_prim_func(tensors)
    x = np.arange(12, dtype="float32").reshape(3, 4)
    for place, source in enumerate(
        (tensors, tuple(tensors), function, tvm.IRModule({"f": function}))
    ):
        np.testing.assert_array_equal(ext.build(source, folder=tmp_path / str(place))(x), 2 * x)


def test_what_builds_programs_takes_functions_too(tensors, tmp_path):
    program = build_program(te.create_prim_func(tensors), folder=tmp_path / "p")
    np.testing.assert_array_equal(program(np.ones((3, 4), "float32")), np.full((3, 4), 2))


def test_functions_of_a_module_are_called_by_their_names(tensors):
    once = te.create_prim_func(tensors)
    names = ["one", "one_loops", "two"]
    module = tvm.IRModule({name: once.with_attr("global_symbol", name) for name in names})
    assert [point.name for point in program_of(module).functions] == names


def test_what_is_explained_is_what_is_built(tensors):
    (kernel,) = ext.explain_program(te.create_prim_func(tensors)).kernels
    assert kernel.computes == "plain loops"


@pytest.mark.parametrize(
    ("source", "says"),
    [(3, "int came"), ([], "list came"), ([3], "a list holds int"), ("model.mlir", "str came")],
)
def test_says_what_came(source, says):
    with pytest.raises(BuildError, match=says):
        program_of(source)


def test_lower_takes_ops_alone(tensors):
    with pytest.raises(BuildError, match="PrimFunc came, which build may take"):
        ext.lower(te.create_prim_func(tensors))
