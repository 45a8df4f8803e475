"""What is packed for a GPU, and that the file runs where nothing of this package is."""

import json
import subprocess
import sys
import zipfile

import ml_dtypes
import numpy as np
import pytest

import tvm_iree_ext as ext
from tvm_iree_ext import ops, verify
from tvm_iree_ext.base.errors import BuildError
from tvm_iree_ext.gpu_day import PackOrder, pack
from tvm_iree_ext.gpu_day.packed_checks import PackTask, in_words
from tvm_iree_ext.gpu_day.packed_checks import packed as packed_check
from tvm_iree_ext.gpu_day.packed_plans import check_plan
from tvm_iree_ext.gpu_day.packed_programs import RecordedProgramTask, packed_program
from tvm_iree_ext.verify.kernel_checks import RandomCase

TARGET = "rocm:gfx942"


def packed(path, order):
    done = list(pack(path, order))
    assert [one.problem for one in done if one.problem and not one.unsupported] == []
    return zipfile.ZipFile(path), done


def test_a_program_is_packed_with_what_was_recorded(root, tmp_path):
    program = root / "tests" / "data" / "ir" / "cumsum.mlir"
    archive, _ = packed(tmp_path / "day.zip", PackOrder(programs=[(TARGET, program)]))
    (case,) = (name for name in archive.namelist() if name.endswith("case.json"))
    described = json.loads(archive.read(case))
    assert (described["id"], list(described["results"])) == ("program cumsum", ["out0"])


class Amd8Bits:
    """A type that only AMD's chips have."""

    id = op = "of AMD"

    def check(self, run):
        shape = ops.TensorType((4, 4), "float8_e4m3fnuz")
        ones = np.ones((4, 4), ml_dtypes.float8_e4m3fnuz)
        run(ops.matmul(shape, shape), {"lhs": ones, "rhs": ones})
        return ""


def test_a_case_without_a_kernel_is_said_and_not_packed(tmp_path):
    one = packed_check(PackTask(Amd8Bits(), "cuda:sm_80", str(tmp_path / "case")))
    assert (one.count, one.unsupported) == (0, True)
    assert "float8_e4m3fnuz is AMD's" in one.problem
    assert list(tmp_path.iterdir()) == []


def test_the_file_needs_neither_this_package_nor_tvm(tmp_path):
    path = tmp_path / "day.zip"
    packed(path, PackOrder([(TARGET, [RandomCase("iree_linalg_ext.pack", 0, 0)], False)]))
    code = f"""
import runpy, sys
for name in ("tvm", "tvm_ffi", "ml_dtypes"):
    sys.modules[name] = None
sys.argv = [{str(path)!r}, "--help"]
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
finally:
    own = [module for name, module in sys.modules.items() if name.startswith("tvm_iree_ext.")]
    print({{module.__file__.partition(".zip")[1] for module in own}})
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "--minutes" in done.stdout
    assert done.stdout.endswith("{'.zip'}\n")


def test_bits_of_types_that_numpy_lacks_keep_their_rank():
    assert in_words(np.float32(1)).shape == ()
    assert in_words(np.ones((2, 3), ml_dtypes.bfloat16)).dtype == np.uint16


def test_random_cases_are_packed_with_their_names(tmp_path):
    cases = verify.random_cases(["map_load"], 2)
    archive, _ = packed(tmp_path / "day.zip", PackOrder([(TARGET, cases, False)]))
    named = [n for n in archive.namelist() if n.endswith("case.json")]
    assert {json.loads(archive.read(name))["id"] for name in named} <= {case.id for case in cases}


WHILE = """
func.func @main(%x: tensor<8xf32>, %most: tensor<f32>) -> tensor<8xf32> {
  %c0 = arith.constant 0 : index
  %limit = tensor.extract %most[] : tensor<f32>
  %r = scf.while (%a = %x) : (tensor<8xf32>) -> tensor<8xf32> {
    %v = tensor.extract %a[%c0] : tensor<8xf32>
    %go = arith.cmpf olt, %v, %limit : f32
    scf.condition(%go) %a : tensor<8xf32>
  } do {
  ^bb0(%a: tensor<8xf32>):
    %b = arith.addf %a, %a : tensor<8xf32>
    scf.yield %b : tensor<8xf32>
  }
  return %r : tensor<8xf32>
}
"""
FOUND = """
func.func @main(%n: tensor<index>) -> tensor<?xf32> {
  %count = tensor.extract %n[] : tensor<index>
  %c = arith.constant 1.0 : f32
  %r = tensor.splat %c[%count] : tensor<?xf32>
  return %r : tensor<?xf32>
}
"""


def artifact(text, place):
    return ext.build_program(ext.mlir.import_program(text), TARGET, folder=place).folder


def test_plans_that_no_machine_follows_are_refused_by_name(tmp_path):
    loops = artifact(WHILE, tmp_path / "loops")
    check_plan(loops, "loops")  # a check follows the host's decisions
    with pytest.raises(BuildError, match="loops: what is launched hangs on numbers that kernels"):
        check_plan(loops, "loops", timed=True)
    with pytest.raises(BuildError, match="found: the extents of 1 of its results are computed"):
        check_plan(artifact(FOUND, tmp_path / "found"), "found")
    assert list(tmp_path.iterdir()) == []


def test_a_program_with_such_a_plan_is_said_and_not_packed(tmp_path):
    (tmp_path / "found.mlir").write_text(FOUND)
    np.savez(tmp_path / "found.npz", in0=np.int64(3), out0=np.ones(3, "float32"))
    folder = tmp_path / "case"
    one = packed_program(RecordedProgramTask(tmp_path / "found.mlir", TARGET, str(folder)))
    assert (one.count, folder.exists()) == (0, False)
    assert "program found: the extents of 1 of its results are computed" in one.problem
