"""Where the time of a program goes, from its artifact alone."""

import dataclasses
import json
import subprocess
import sys

import numpy as np
import pytest

from tvm_iree_ext.base.errors import ArtifactError, CallError
from tvm_iree_ext.mlir.from_file import import_program
from tvm_iree_ext.programs.program_build import build_program
from tvm_iree_ext.runtime.manifest import ProgramKernel
from tvm_iree_ext.runtime.program import Program
from tvm_iree_ext.runtime.program_profile import KernelCall, KernelTotal, Profile

LAYER = """func.func @main(%x: tensor<?x32xf32>, %w: tensor<32x8xf32>) -> tensor<?x8xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %n = tensor.dim %x, %c0 : tensor<?x32xf32>
  %0 = tensor.empty(%n) : tensor<?x8xf32>
  %1 = linalg.fill ins(%zero : f32) outs(%0 : tensor<?x8xf32>) -> tensor<?x8xf32>
  %2 = linalg.matmul ins(%x, %w : tensor<?x32xf32>, tensor<32x8xf32>) outs(%1 : tensor<?x8xf32>)
    -> tensor<?x8xf32>
  %3 = math.tanh %x : tensor<?x32xf32>
  %4 = linalg.matmul ins(%3, %w : tensor<?x32xf32>, tensor<32x8xf32>) outs(%1 : tensor<?x8xf32>)
    -> tensor<?x8xf32>
  %5 = arith.mulf %4, %2 : tensor<?x8xf32>
  return %5 : tensor<?x8xf32>
}
"""
STATIC = LAYER.replace("?", "16").replace("empty(%n)", "empty()")
LOOP = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %last = arith.constant 5 : index
  %r = scf.for %i = %zero to %last step %one iter_args(%s = %x) -> (tensor<4xf32>) {
    %t = arith.addf %s, %x : tensor<4xf32>
    scf.yield %t : tensor<4xf32>
  }
  return %r : tensor<4xf32>
}
"""
X, W = np.float32(np.eye(16, 32)), np.ones((32, 8), np.float32)


@pytest.fixture(scope="module")
def layer(tmp_path_factory):
    return build_program(import_program(STATIC), folder=tmp_path_factory.mktemp("layer") / "made")


def by_computes(profile):
    return {one.kernel.computes: one for one in profile.kernels}


def test_kernels_have_their_calls_counts_and_lines(layer):
    profile = layer.profile(X, W, runs=2)
    totals = [one for one in profile.kernels if one.kernel.computes == "tvm_iree_ext.contraction"]
    assert sum(one.calls for one in totals) == 2
    lines = {source for one in totals for source in one.kernel.sources}
    assert lines == {"linalg.matmul at 7:8", "linalg.matmul at 10:8", "arith.mulf at 12:8"}
    for one in totals:
        assert one.kernel.flops == 2 * 16 * 32 * 8
        assert one.gflops == pytest.approx(one.kernel.flops * one.calls / one.seconds / 1e9)
    loops = by_computes(profile)["plain loops"]
    assert loops.kernel.sources == ("math.tanh at 9:8",)
    assert (loops.bytes, loops.gflops, loops.calls) == (2 * 16 * 32 * 4, None, 1)
    assert [one.seconds for one in profile.kernels] == sorted(
        (one.seconds for one in profile.kernels), reverse=True
    )


def test_a_call_after_a_profile_is_as_before_it(layer):
    before = layer(X, W)
    profile = layer.profile(X, W, runs=1)
    assert len(profile.calls) == 3
    np.testing.assert_array_equal(layer(X, W), before)
    assert len(profile.calls) == 3


def test_bytes_of_extents_that_a_call_knows_are_those_of_the_call():
    program = build_program(import_program(LAYER))
    for rows in (3, 5):
        profile = program.profile(np.ones((rows, 32), np.float32), W, runs=1)
        found = by_computes(profile)
        assert found["plain loops"].bytes == 2 * rows * 32 * 4
        assert found["tvm_iree_ext.contraction"].kernel.flops is None


def test_a_compiled_loop_is_one_kernel_with_the_lines_of_its_steps():
    profile = build_program(import_program(LOOP)).profile(np.ones(4, np.float32), runs=1)
    loop = by_computes(profile)["compiled loop"]
    assert loop.calls == 1
    assert loop.kernel.sources == ("scf.for at 5:8", "arith.addf at 6:10")


def test_steps_that_python_runs_are_told_apart():
    text = LOOP.replace("f32", "bf16")
    ones = np.ones(4, build_program(import_program(text)).main.signature.arguments[0].dtype)
    profile = build_program(import_program(text)).profile(ones, runs=1)
    assert max(one.calls for one in profile.kernels) == 5


def test_a_loaded_artifact_is_profiled_without_tvm(layer, tmp_path):
    code = (
        "import sys, numpy as np; from tvm_iree_ext.runtime.program import load;"
        "p = load(sys.argv[1]); x = np.ones((16, 32), 'float32');"
        "print(p.profile(x, np.ones((32, 8), 'float32'), runs=1)); assert 'tvm' not in sys.modules"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, layer.folder], capture_output=True, text=True, check=True
    )
    assert "plain loops: math.tanh at 9:8" in done.stdout


def test_a_trace_has_each_call_in_microseconds(layer, tmp_path):
    profile = layer.profile(X, W, runs=2)
    profile.write_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert [one["name"] for one in events] == [one.kernel.name for one in profile.calls]
    assert all(one["ph"] == "X" and one["dur"] > 0 for one in events)
    starts = [one["ts"] for one in events]
    assert starts == sorted(starts)


def test_what_a_kernel_computes_is_read_as_it_was_written_and_nothing_else_is():
    kernel = ProgramKernel("k", "plain loops", ("math.exp at 1:2",), "float16", 3, None)
    written = kernel.to_json()
    assert ProgramKernel.from_json(json.loads(json.dumps(written))) == kernel
    for wrong in (
        {"sources": [3]},
        {"dtype": "float3"},
        {"flops": -1},
        {"bytes": True},
        {"bytes": 2.0},
        {"computes": None},
    ):
        with pytest.raises(ValueError, match="no kernel: "):
            ProgramKernel.from_json({**written, **wrong})


class Peaks:
    def multiply_adds(self, dtype):
        return {"float32": 100.0}[dtype]

    def gbps(self, footprint):
        return 20.0 if footprint < 1000 else 10.0


@pytest.mark.parametrize(
    ("flops", "calls", "count", "share"),
    [(50_000, 1, 10, 0.5), (50_000, 1, 9_000, 0.9), (None, 1, 2_000, 0.2), (None, 4, 2_000, 0.1)],
    ids=["compute", "memory", "loops", "small"],
)
def test_the_share_of_the_peak_is_that_of_the_nearer_limit(flops, calls, count, share):
    kernel = ProgramKernel("k", "an op", (), flops=flops)
    assert KernelTotal(kernel, calls, 1e-6, count).share_of_peak(Peaks()) == pytest.approx(share)


def test_the_table_cuts_what_is_long_and_says_what_is_left():
    kernel = ProgramKernel("f" * 50, "plain loops", ("a", "b", "c", "d", "e"))
    total = KernelTotal(kernel, 2, 1e-6, 1000)
    text = Profile("main", 2, 4e-6, (total,), (KernelCall(kernel, 0.0, 1e-6, 500),)).table(Peaks())
    first, header, _, row = text.splitlines()
    assert first == (
        "main: 4.0 us a call with 2 threads; 2 calls of 1 kernel, and 3.0 us outside of them"
    )
    assert header.split() == [
        *("kernel", "calls", "us", "share", "GFLOP/s", "GB/s", "of", "peak", "computes")
    ]
    assert row.split() == [
        *("f" * 29 + "...", "2", "1.0", "25.0%", "1.0", "5%"),
        *("plain", "loops:", "a;", "b;", "c;", "2", "more"),
    ]


def test_the_table_fits_a_terminal_of_80_columns():
    kernel = ProgramKernel("f" * 50, "plain loops", ("layer.mlir:1", "layer.mlir:2") * 3)
    total = KernelTotal(kernel, 2, 1e-6, 1000)
    profile = Profile("main", 2, 4e-6, (total,), (KernelCall(kernel, 0.0, 1e-6, 500),))
    _, *rows = profile.table(Peaks(), 80).splitlines()
    assert max(map(len, rows)) <= 80
    assert "share 25.0%" in " ".join(rows)
    assert "computes plain loops: layer.mlir:1; layer.mlir:2" in " ".join(rows)


def test_refuses_what_it_cannot_time(layer, tmp_path):
    with pytest.raises(CallError, match="runs is 0; expected 1 or more"):
        layer.profile(X, W, runs=0)
    with pytest.raises(CallError, match="arg0 axis 0 has extent 3; expected 16"):
        layer.profile(np.ones((3, 32), np.float32), W)
    gpu = build_program(import_program(STATIC), "rocm:gfx942", folder=tmp_path / "gpu")
    assert {one.computes for one in gpu.manifest.kernels} >= {"tvm_iree_ext.contraction"}
    with pytest.raises(CallError, match="profile takes programs for a CPU; this one is for rocm"):
        gpu.profile(X, W)


def test_refuses_an_artifact_that_does_not_say_what_its_kernels_are(layer):
    bare = Program(layer.folder, dataclasses.replace(layer.manifest, kernels=()))
    with pytest.raises(ArtifactError, match="does not say what its kernels are; build it anew"):
        bare.profile(X, W)
