"""Programs as they are called, exported, cached and loaded; whose memory results are."""

import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from relax_programs import Maker, normal, program
from tvm import relax, tirx

from tvm_iree_ext.base.errors import ArtifactError, BuildError, CallError
from tvm_iree_ext.base.signature import Operand, Signature
from tvm_iree_ext.mlir.importing.imported import EntryPoint
from tvm_iree_ext.programs.program_build import build_program
from tvm_iree_ext.runtime.program import load


def scaled(tmp_path):
    m = Maker(x=(("n",), "float32"), factor=((), "float32"))

    def make(emit):
        x, factor = m.vars
        return [emit(m.nest([x, factor], ("n",), "float32", lambda r, i: r[0](i) * r[1]()))]

    imported = program(m, make, [(("n",), "float32")])
    (entry,) = imported.functions
    operands = (entry.signature.operands[0], Operand("factor", (), "float32", "scalar"))
    signature = Signature((*operands, *entry.signature.results))
    imported = replace(imported, functions=(EntryPoint("main", signature),))
    return build_program(imported, folder=tmp_path / "scaled")


def test_calls_are_checked_as_those_of_kernels(tmp_path):
    built = scaled(tmp_path)
    x = normal(5)
    np.testing.assert_array_equal(built(x, 2), x * 2)
    np.testing.assert_array_equal(built(factor=3.0, x=x[::2]), x[::2] * 3)
    out = np.empty(5, "float32")
    assert built(x, 2.0, out=out) is out
    np.testing.assert_array_equal(out, x * 2)
    for arguments, message in [
        ((x,), "factor missing"),
        ((x.astype("float64"), 1.0), "x is float64; expected float32"),
        ((x[None], 1.0), "x has rank 2; expected 1"),
        ((x, "a"), "expected a number for float32"),
    ]:
        with pytest.raises(CallError, match=message):
            built(*arguments)
    with pytest.raises(CallError, match=r"out0 has shape \[4\]; expected \[5\]"):
        built(x, 1.0, out=np.empty(4, "float32"))
    with pytest.raises(CallError, match="shares memory with x"):
        built(x, 1.0, out=x)


def test_results_have_memory_of_their_own(tmp_path):
    m = Maker(x=((4, 6), "float32"))
    weights = m.parameter("weights", normal(2, 3))

    def reshaped(r, i):
        return r[0](tirx.floordiv(i, 6), tirx.floormod(i, 6))

    def make(emit):
        (x,) = m.vars
        flat = emit(
            m.nest(
                [x], (24,), "float32", lambda r, i: r[0](tirx.floordiv(i, 6), tirx.floormod(i, 6))
            )
        )
        constant = relax.const(np.arange(3, dtype="int32"))
        return [x, flat, weights, constant, x]

    results = [
        ((4, 6), "float32"),
        ((24,), "float32"),
        ((2, 3), "float32"),
        ((3,), "int32"),
        ((4, 6), "float32"),
    ]
    built = build_program(program(m, make, results), folder=tmp_path / "p")
    x = normal(4, 6)
    got = built(x)
    for one in got:
        one[...] = 0
    again = built(x)
    assert x.any()
    for one, other in zip(
        again, [x, x.ravel(), m.parameters["weights"], np.arange(3), x], strict=True
    ):
        np.testing.assert_array_equal(one, other)


def test_constants_of_any_rank_and_type(tmp_path):
    m = Maker(x=((4,), "float32"))
    values = [np.array(2.5, "float32"), np.zeros((0, 3), "int8"), np.array([True, False])]
    values += [np.ones((2, 3), ml_dtypes.bfloat16), np.asfortranarray(normal(3, 5))]
    named = [m.parameter(f"constant_{place}", value) for place, value in enumerate(values)]

    def make(emit):
        (x,) = m.vars
        zero = relax.const(np.array(7), "int64")
        scaled = emit(m.nest([x, named[0]], (4,), "float32", lambda r, i: r[0](i) * r[1]()))
        return [scaled, *named, zero]

    x = normal(4)
    expected = [x * np.float32(2.5), *values, np.array(7)]
    results = [(one.shape, str(one.dtype)) for one in expected]
    got = build_program(program(m, make, results), folder=tmp_path / "p")(x)
    for one, other in zip(got, expected, strict=True):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        np.testing.assert_array_equal(one.astype("float64"), other.astype("float64"))


def test_a_lazy_program_refuses_a_folder_that_was_replaced(tmp_path):
    folder = scaled(tmp_path).folder
    lazy, again = load(folder, lazy=True), load(folder, lazy=True)
    x = normal(3)
    np.testing.assert_array_equal(again(x, 2.0), x * 2)
    m = Maker(x=(("n",), "float32"))

    def make(emit):
        return [emit(m.nest(m.vars, ("n",), "float32", lambda r, i: r[0](i) + 1.0))]

    build_program(program(m, make, [(("n",), "float32")]), folder=folder)
    for use in (lambda: lazy(x, 2.0), lambda: again.export(tmp_path / "other")):
        with pytest.raises(ArtifactError, match="scaled was replaced since it was loaded"):
            use()


def test_python_threads_call_one_program(tmp_path):
    built = scaled(tmp_path)
    x = normal(200_000)

    def call(factor):
        return all(
            np.array_equal(built(x, float(factor)), x * np.float32(factor)) for _ in range(5)
        )

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(call, range(8)))


def test_torch_in_torch_out(tmp_path):
    torch = pytest.importorskip("torch")
    built = scaled(tmp_path)
    got = built(torch.arange(4.0), 2.0)
    assert isinstance(got, torch.Tensor)
    assert got.tolist() == [0, 2, 4, 6]


def test_an_exported_program_runs_where_there_is_no_tvm(tmp_path):
    scaled(tmp_path).export(tmp_path / "deployed")
    script = """
import sys
import numpy as np
import tvm_iree_ext as ext
program = ext.load(sys.argv[1])
print(program(np.arange(3, dtype="float32"), 2.0).tolist(), "tvm" in sys.modules)
"""
    command = [sys.executable, "-c", script, str(tmp_path / "deployed")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[0] == "[0.0, 2.0, 4.0] False"


def test_programs_are_cached_and_pickled(tmp_path, monkeypatch):
    monkeypatch.setenv("TVM_IREE_EXT_CACHE", str(tmp_path / "cache"))
    m = [Maker(x=((4,), "float32")) for _ in range(2)]
    one, other = (
        build_program(
            program(
                n,
                lambda emit, n=n: [
                    emit(n.nest([n["x"]], (4,), "float32", lambda r, i: r[0](i) + 1.0))
                ],
                [((4,), "float32")],
            )
        )
        for n in m
    )
    assert one.folder == other.folder
    assert pickle.loads(pickle.dumps(one))(np.zeros(4, "float32")).tolist() == [1] * 4
    assert repr(one).startswith("<Program test: main for llvm")


@pytest.mark.parametrize("shape", [(1 << 42,), (1 << 31, 1 << 31, 4)])
def test_absurd_extents_are_errors(shape, tmp_path):
    m = Maker(x=((1,), "float32"))

    def make(emit):
        return [emit(m.nest(m.vars, shape, "float32", lambda r, *i: r[0](0)))]

    imported = program(m, make, [(shape, "float32")])
    with pytest.raises((BuildError, CallError)):
        build_program(imported, folder=tmp_path / "p")(normal(1))


def test_a_damaged_program_is_refused(tmp_path):
    built = scaled(tmp_path)
    (built.folder / "program.vm").write_bytes(b"")
    with pytest.raises(ArtifactError, match=r"program\.vm has 0 bytes; the manifest says"):
        load(built.folder)
