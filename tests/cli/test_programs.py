"""import, build, run, run-checks and check-programs, as a user types them."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from places import DATA

SCALE = """
module @scale {
  func.func @main(%x: tensor<?x4xf32>, %factor: tensor<4xbf16>)
      -> (tensor<?x4xf32>, tensor<4xi32>) {
    %0 = linalg.generic {
      indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>,
                       affine_map<(d0, d1) -> (d0, d1)>],
      iterator_types = ["parallel", "parallel"]
    } ins(%x, %factor : tensor<?x4xf32>, tensor<4xbf16>) outs(%x : tensor<?x4xf32>) {
    ^bb0(%a: f32, %b: bf16, %c: f32):
      %wide = arith.extf %b : bf16 to f32
      %product = arith.mulf %a, %wide : f32
      linalg.yield %product : f32
    } -> tensor<?x4xf32>
    %1 = arith.constant dense<[1, 2, 3, 4]> : tensor<4xi32>
    return %0, %1 : tensor<?x4xf32>, tensor<4xi32>
  }
  func.func @other() -> tensor<2xf32> {
    %0 = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
    return %0 : tensor<2xf32>
  }
}
"""
X = np.arange(12, dtype=np.float32).reshape(3, 4)
FACTOR = np.float32([1, 2, -0.5, 0])
RIGHT = {"in0": X, "in1": FACTOR, "out0": X * FACTOR, "out1": np.array([1, 2, 3, 4])}


@pytest.fixture
def scale(tmp_path):
    """A program and the arrays of a run of it."""
    path = tmp_path / "scale.mlir"
    path.write_text(SCALE)
    np.savez(tmp_path / "scale.npz", **RIGHT)
    return path


def test_import_lists_the_functions_or_prints_the_module(command, scale):
    done = command("import", scale)
    assert done.lines == [
        "main(arg0: float32[arg0_0, 4], arg1: bfloat16[4]) -> (float32[arg0_0, 4], int32[4])",
        "other() -> float32[2]",
    ]
    done = command("import", scale, "--print")
    assert "def main(arg0: R.Tensor((arg0_0, 4)" in done.out
    assert "T.prim_func" in done.out


def test_import_explains_what_becomes_of_operations(command, scale):
    done = command("import", scale, "--explain")
    assert done.lines[:2] == ["kernel linalg_generic: plain loops", "  linalg.generic at 5:10"]
    # What main takes depends on the extents of a call.
    memory = [line.split(":")[0] for line in done.lines if line.startswith("memory")]
    assert memory == ["memory of other"]
    assert command("import", scale, "--explain", "--print").status == 2


def test_import_says_where_the_text_is_wrong(command, tmp_path):
    path = tmp_path / "bad.mlir"
    path.write_text("module {\n  func.func @f() { oops }\n}")
    done = command("import", path)
    assert done.status == 1
    assert f"{path}:2:20: custom op 'oops' is unknown" in done.err


def test_import_lists_all_that_is_not_supported(command, tmp_path):
    path = tmp_path / "bad.mlir"
    path.write_text("""
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = tosa.abs %x : (tensor<4xf32>) -> tensor<4xf32>
  %1 = tosa.exp %0 : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
""")
    done = command("import", path)
    assert done.status == 1
    assert "3:8: tosa.abs: is not supported" in done.err
    assert "4:8: tosa.exp: is not supported" in done.err


def test_build_writes_an_artifact_that_a_fresh_process_runs(command, scale, tmp_path):
    folder = tmp_path / "artifact"
    done = command("build", scale, "-o", folder)
    assert done.status == 0, done.err
    assert f"artifact    {folder}" in done.lines
    manifest = json.loads((folder / "manifest.json").read_text())
    assert [function["name"] for function in manifest["functions"]] == ["main", "other"]
    arguments = ["run", folder, "--inputs", scale.with_suffix(".npz"), "--check"]
    fresh = subprocess.run(
        [sys.executable, "-m", "tvm_iree_ext.cli.main", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "TVM_IREE_EXT_CACHE": str(tmp_path / "none")},
    )
    assert fresh.returncode == 0, fresh.stderr
    assert fresh.stdout.splitlines() == [
        "out0: float32[3, 4]",
        "out1: int32[4]",
        "all results are as recorded",
    ]


def test_build_says_what_came_as_json(command, scale):
    data = json.loads(command("build", scale, "--json").out)
    assert data["program"] == "scale"
    assert data["functions"]["other"] == "() -> float32[2]"
    assert data["target"]["kind"] == "llvm"


def test_build_refuses_what_is_for_ops(command, scale):
    done = command("build", scale, "--set", "a=1")
    assert done.status == 1
    assert "is a program, which has no operands, attributes or config" in done.err


def test_run_a_file_and_write_the_results(command, scale, tmp_path):
    out = tmp_path / "out.npz"
    done = command("run", scale, "--inputs", scale.with_suffix(".npz"), "-o", out)
    assert done.lines == ["out0: float32[3, 4]", "out1: int32[4]"]
    with np.load(out) as written:
        np.testing.assert_array_equal(written["out0"], X * FACTOR)
    done = command("run", scale, "--function", "other")
    assert done.lines == ["out0: float32[2]"]


def test_run_check_names_output_position_and_error(command, scale):
    wrong = {**RIGHT, "out0": RIGHT["out0"] + np.float32([[0, 0, 0.5, 0]] * 3)}
    np.savez(scale.with_suffix(".npz"), **wrong)
    done = command("run", scale, "--inputs", scale.with_suffix(".npz"), "--check")
    assert done.status == 1
    assert done.lines[2:] == [
        "out0[0, 2] is -1, expected -0.5 within 6e-05, off by 0.5; 3 of 12 elements are wrong"
    ]


def test_run_says_what_does_not_fit(command, scale, tmp_path):
    path = scale.with_suffix(".npz")
    np.savez(path, **{**RIGHT, "in1": np.float32([1, 2, 3, 1.001])})
    done = command("run", scale, "--inputs", path)
    assert done.status == 1
    assert "in1[3] is 1.001, a float32, which bfloat16 does not hold" in done.err
    assert "expected in0, in1 or arg0, arg1" in command("run", scale).err
    assert "no function 'none'" in command("run", scale, "--function", "none").err
    assert "name one" in command("run", scale, "--check").err
    assert "no artifact at" in command("run", tmp_path / "none").err


def test_runs_the_artifact_of_a_kernel(command, tmp_path):
    folder, path = tmp_path / "kernel", tmp_path / "a.npz"
    command("build", "scan", "4x8xf32", "--set", "region=add", "--set", "dimension=1", "-o", folder)
    x = np.ones((4, 8), np.float32)
    arrays = {"in0": x, "in1": np.zeros(4, np.float32)}
    np.savez(path, **arrays, out0=x.cumsum(1), out1=x.sum(1))
    done = command("run", folder, "--inputs", path, "--check")
    assert done.status == 0, done.err + done.out
    assert "has no function 'main'" in command("run", folder, "--function", "main").err


CHECKS = """
func.func @right() {
  %a = util.unfoldable_constant dense<[1.0, 2.0]> : tensor<2xf32>
  %b = arith.addf %a, %a : tensor<2xf32>
  check.expect_almost_eq_const(%b, dense<[2.0, 4.0]> : tensor<2xf32>) : tensor<2xf32>
  check.expect_eq(%b, %b) : tensor<2xf32>
  return
}
func.func @wrong() {
  %a = util.unfoldable_constant dense<[1, 2, 3]> : tensor<3xi32>
  check.expect_eq_const(%a, dense<[1, 2, 4]> : tensor<3xi32>) : tensor<3xi32>
  return
}
func.func @unsupported() {
  %a = util.unfoldable_constant dense<1.0> : tensor<3xf32>
  %b = tosa.abs %a : (tensor<3xf32>) -> tensor<3xf32>
  check.expect_eq(%a, %b) : tensor<3xf32>
  return
}
func.func private @helper() { return }
func.func @no_test(%a: tensor<2xf32>) -> tensor<2xf32> { return %a : tensor<2xf32> }
"""


def test_run_checks_does_so_function_by_function(command, tmp_path):
    path = tmp_path / "checks.mlir"
    path.write_text(CHECKS)
    done = command("run-checks", path)
    assert done.status == 1
    assert done.lines[0] == "ok right"
    assert done.lines[1] == (
        "FAILED wrong: check.expect_eq at 11:3: got[2] is 3, expected 4; 1 of 3 elements are wrong"
    )
    assert done.lines[2].startswith("FAILED unsupported: ")
    assert "tosa.abs" in done.lines[2]
    assert done.lines[3:] == ["1 passed, 2 failed"]


def test_run_checks_wants_a_test(command, tmp_path):
    path = tmp_path / "none.mlir"
    path.write_text(
        "func.func @f(%a: tensor<2xf32>) -> tensor<2xf32> { return %a : tensor<2xf32> }"
    )
    done = command("run-checks", path)
    assert done.status == 1
    assert "no public function without arguments" in done.err


def test_check_programs(command, scale, tmp_path):
    for name in ("skipped", "wrong", "alone", "broken"):
        (tmp_path / f"{name}.mlir").write_text(SCALE if name != "broken" else "module {")
    wrong = {**RIGHT, "out1": np.array([1, 2, 3, 5])}
    for name in ("skipped", "wrong", "broken"):
        np.savez(tmp_path / f"{name}.npz", **wrong)
    (tmp_path / "skipped.json").write_text('{"out1": {"skip": true}, "rtol": 1e-5}')
    done = command("check-programs", tmp_path, "-j", "2")
    assert done.status == 1
    alone, broken, *rest = done.lines
    assert alone == f"FAILED alone: cannot read {tmp_path / 'alone.npz'}: No such file or directory"
    assert broken.startswith(f"FAILED broken: {tmp_path / 'broken.mlir'}:1:7: ")
    assert rest == [
        "ok scale",
        "ok skipped",
        "FAILED wrong: out1[3] is 4, expected 5; 1 of 4 elements are wrong",
        "2 passed, 3 failed",
    ]


def test_check_programs_ends_what_takes_too_long(command, scale):
    done = command("check-programs", scale.parent, "--limit", "1")
    assert done.lines == ["FAILED scale: took more than 1 s", "0 passed, 1 failed"]


def test_check_programs_wants_programs(command, tmp_path):
    assert "has no .mlir file" in command("check-programs", tmp_path).err
    assert "cannot read" in command("check-programs", tmp_path / "none").err


def test_programs_of_a_front_ends_dialect(command, tmp_path):
    """The article's product in mhlo: imported, built, run; and refused where it is not said."""
    path = DATA / "older" / "dot_mhlo.mlir"
    signature = "main(arg0: float32[64, 96], arg1: float32[96, 40], arg2: float32[64, 40])"
    done = command("import", path, "--input", "stablehlo")
    assert done.lines == [f"{signature} -> float32[64, 40]"]
    a, b, c = (np.full(shape, 0.5, np.float32) for shape in ((64, 96), (96, 40), (64, 40)))
    np.savez(tmp_path / "in.npz", in0=a, in1=b, in2=c, out0=a @ b - c)
    done = command("run", path, "--input", "stablehlo", "--inputs", tmp_path / "in.npz", "--check")
    assert done.lines == ["out0: float32[64, 40]", "all results are as recorded"]
    folder = tmp_path / "dot"
    assert command("build", path, "--input", "stablehlo", "-o", folder).status == 0
    done = command("run", folder, "--inputs", tmp_path / "in.npz", "--check")
    assert done.lines[-1] == "all results are as recorded"
    done = command("import", path)
    assert done.status == 1
    assert f"{path}:3:8: mhlo.dot: mhlo is today's stablehlo" in done.err
    assert "--input stablehlo" in done.err
    done = command("run", folder, "--input", "stablehlo", "--inputs", tmp_path / "in.npz")
    assert "--input says in which dialect a FILE.mlir is" in done.err
    done = command("build", "sort", "4xf32", "--input", "stablehlo")
    assert "--input says in which dialect a FILE.mlir is; ops have none" in done.err


def test_stablehlo_names_the_option_that_takes_it(command, tmp_path):
    path = tmp_path / "add.mlir"
    path.write_text(
        "func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
        "  %0 = stablehlo.add %x, %x : tensor<4xf32>\n  return %0 : tensor<4xf32>\n}"
    )
    done = command("import", path)
    assert "2:8: stablehlo.add: is not supported" in done.err
    assert "--input stablehlo" in done.err
    done = command("import", path, "--input", "stablehlo")
    assert done.lines == ["f(arg0: float32[4]) -> float32[4]"]


def test_a_model_of_onnx_is_imported_and_run(command, tmp_path):
    onnx = pytest.importorskip("onnx")
    path = tmp_path / "twice.onnx"
    text = '<ir_version: 10, opset_import: ["" : 21]>'
    text += "g (float[n, 3] x) => (float[n, 3] y) { y = Add(x, x) }"
    onnx.save(onnx.parser.parse_model(text), path)
    x = np.ones((2, 3), "float32")
    np.savez(tmp_path / "twice.npz", in0=x, out0=x + x)
    done = command("import", path)
    assert done.lines == ["main(arg0: float32[arg0_0, 3]) -> float32[arg0_0, 3]"]
    done = command("run", path, "--inputs", tmp_path / "twice.npz", "--check")
    assert done.lines[-1] == "all results are as recorded"
    done = command("import", path, "--input", "torch")
    assert done.status == 2
    assert "twice.onnx is none" in done.err
