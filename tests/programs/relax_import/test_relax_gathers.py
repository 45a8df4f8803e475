"""Gathers of Relax, on the CPU and on GPUs: whole slices are the registry's op."""

import ml_dtypes
import numpy as np
import pytest
from relax_modules import module_of
from relax_programs import normal
from tvm import relax, tirx

from tvm_iree_ext.programs.program_build import build_program
from tvm_iree_ext.programs.relax_import.from_relax import from_relax
from tvm_iree_ext.simulator.runs.simulated_programs import simulate_program

RNG = np.random.default_rng(0)
N = tirx.Var("n", "int64")


def taken(source, indices, axis, mode="fast", dtype="int64", kind="float32"):
    """A program of ``take``, and whether it calls the op."""
    types = {"x": relax.TensorType(source, kind), "i": relax.TensorType(indices, dtype)}
    imported = from_relax(module_of(types, lambda x, i: relax.op.take(x, i, axis=axis, mode=mode)))
    return imported, [op.name for op in imported.ops.values()] == ["iree_linalg_ext.gather"]


def arrays(source, indices, axis, dtype="int64"):
    source, indices = ([5 if e is N else e for e in shape] for shape in (source, indices))
    return normal(*source), RNG.integers(0, source[axis or 0], indices).astype(dtype)


@pytest.mark.parametrize(
    ("source", "indices", "axis", "is_op"),
    [
        ((5, 4), (3,), 0, True),
        ((5, 4), (3, 1), 0, True),  # whose last extent is no depth
        ((5, 4), (), 0, True),
        ((5,), (2, 3), None, True),
        ((1, 5, 4), (3, 2), 1, True),
        ((N, 4), (N,), 0, True),
        ((5, 4, 6), (3, 2), 1, False),
        ((7, 4), (N, 3), -1, False),
    ],
)
def test_take(source, indices, axis, is_op, tmp_path):
    imported, found = taken(source, indices, axis)
    assert found == is_op
    x, at = arrays(source, indices, axis)
    got = build_program(imported, folder=tmp_path / "p")(x, at)
    np.testing.assert_array_equal(got, np.take(x, at, axis))


@pytest.mark.parametrize("axis", [0, 1])
def test_indices_are_clipped_where_asked(axis, tmp_path):
    imported, _ = taken((5, 4), (6,), axis, "clip", "int32")
    x, at = normal(5, 4), np.array([-9, 0, 1, 3, 4, 99], "int32")
    got = build_program(imported, folder=tmp_path / "p")(x, at)
    np.testing.assert_array_equal(got, np.take(x, at, axis, mode="clip"))


def test_indices_out_of_range_read_no_memory_of_others(tmp_path):
    imported, _ = taken((5, 4), (3,), 0)
    x = normal(5, 4)
    got = build_program(imported, folder=tmp_path / "p")(x, np.array([4, -1, 1 << 40]))
    np.testing.assert_array_equal(got, [x[4], [0] * 4, [0] * 4])


def test_elements_that_the_op_does_not_take_are_for_loops(tmp_path):
    imported, found = taken((5, 4), (3,), 0, kind="float8_e4m3fn")
    assert not found
    x, at = normal(5, 4).astype(ml_dtypes.float8_e4m3fn), np.array([4, 0, 1])
    got = build_program(imported, folder=tmp_path / "p")(x, at)
    np.testing.assert_array_equal(got.view("uint8"), x[at].view("uint8"))


@pytest.mark.parametrize(("depth", "batch_dims"), [(1, 0), (2, 0), (3, 0), (2, 1)])
def test_gather_nd(depth, batch_dims, tmp_path):
    x = normal(3, 4, 5)
    at = np.stack([RNG.integers(0, 3, (3, 6)) for _ in range(depth)], -1)
    types = {"x": x.shape, "i": relax.TensorType(at.shape, "int64")}
    imported = from_relax(module_of(types, lambda x, i: relax.op.gather_nd(x, i, batch_dims)))
    assert bool(imported.ops) == (batch_dims == 0)
    got = build_program(imported, folder=tmp_path / "p")(x, at)
    if batch_dims:
        want = np.stack([one[tuple(np.moveaxis(i, -1, 0))] for one, i in zip(x, at, strict=True)])
    else:
        want = x[tuple(np.moveaxis(at, -1, 0))]
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("target", ["cuda:sm_80", "rocm:gfx942"])
def test_on_a_gpu(target):
    imported, _ = taken((5, 4), (3, 2), 0)
    x, at = arrays((5, 4), (3, 2), 0)
    (got,) = simulate_program(imported, target, [x, at]).check().results
    np.testing.assert_array_equal(got, x[at])


def test_nothing_of_tvm_is_on_the_screen(tmp_path, capfd):
    build_program(taken((5, 4, 6), (3, 2), 1)[0], folder=tmp_path / "p")
    types = {"x": (3, 2), "i": relax.TensorType((1, 2), "int64"), "u": (1, 2)}
    scatters = module_of(types, lambda x, i, u: relax.op.scatter_elements(x, i, u, axis=0))
    build_program(from_relax(scatters), folder=tmp_path / "q")
    assert capfd.readouterr() == ("", "")
