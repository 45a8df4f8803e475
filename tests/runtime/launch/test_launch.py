"""Launch plans, followed by every launcher, on a driver whose launches the simulator runs."""

import re
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from torch_on_gpu import STREAM, Torch, TorchTensor, on_gpu, stored_at
from tvm import s_tir, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

import tvm_iree_ext as ext
from tvm_iree_ext import ops
from tvm_iree_ext.base.errors import ArtifactError, CallError
from tvm_iree_ext.codegen.gpu.cpp_export import export_device
from tvm_iree_ext.codegen.gpu.cuda import nvrtc_obstacle
from tvm_iree_ext.codegen.gpu.device_code import compile_device
from tvm_iree_ext.runtime.launch.driver import DriverError, Gpu
from tvm_iree_ext.runtime.launch.launcher import Kernels
from tvm_iree_ext.schedules.dispatch import choose
from tvm_iree_ext.schedules.gpu.products.matmul_shape import MatmulShape
from tvm_iree_ext.schedules.gpu.products.warpgroup_kernel import warpgroup_matmul
from tvm_iree_ext.schedules.gpu.products.warpgroup_plan import WarpgroupConfig
from tvm_iree_ext.schedules.gpu.sblocks.copies import copy_layout
from tvm_iree_ext.schedules.gpu.sblocks.layout_schedule import distribute
from tvm_iree_ext.targets.names import make_target

TARGET = make_target("rocm:gfx942")
HOPPER = make_target("cuda:sm_90a")


def reversed_rows():
    """``y[i, j] = scale * x[i, 63 - j] + 1``, by way of memory of as many rows."""
    rows = tirx.Var("rows", "int64")
    with IRBuilder() as built, I.prim_func(s_tir=True):
        I.func_name("reversed_rows")
        x = I.arg("x", I.Buffer((rows, 64), "float32", align=4))
        scale = I.arg("scale", tirx.Var("scale", "float32"))
        y = I.arg("y", I.Buffer((rows, 64), "float32", align=4))
        scaled = I.sblock_alloc_buffer((rows, 64), "float32")
        with I.grid(rows, 64) as (i, j), I.sblock("scale"):
            at = I.axis.spatial(rows, i), I.axis.spatial(64, j)
            I.buffer_store(scaled, x[at] * scale, at)
        with I.grid(rows, 64) as (i, j), I.sblock("reverse"):
            row, column = I.axis.spatial(rows, i), I.axis.spatial(64, j)
            I.buffer_store(y, scaled[row, 63 - column] + 1.0, [row, column])
    sch = s_tir.Schedule(built.get())
    layout = copy_layout((16, 64), 32, 4, 64, run=4)
    for name, vector in (("scale", 4), ("reverse", 1)):
        distribute(sch, sch.get_sblock(name), layout, 4, 64, vector=vector)
    return sch.mod["main"]


@pytest.fixture(scope="module")
def code():
    return compile_device(reversed_rows(), TARGET)


@pytest.fixture(scope="module")
def folder(code, tmp_path_factory):
    return export_device(code, tmp_path_factory.mktemp("export") / "rows", name="reversed_rows")


@pytest.fixture
def device(code, gpu):
    """A GPU that has the kernels."""
    gpu.kernels = kernels_of(code)
    return gpu


def kernels_of(code):
    return {str(name.name_hint): kernel for name, kernel in code.module.functions.items()}


def operands(rows):
    x = np.random.default_rng(0).standard_normal((rows, 64), dtype="float32")
    return x, np.float32(0.5) * x[:, ::-1] + 1


def run(*command, **how):
    return subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, **how)


def test_a_plan_has_extents_memory_and_numbers(code):
    plan = code.plan()
    assert plan["symbols"] == ["rows"]
    assert plan["parameters"][1] == {"name": "scale", "dtype": "float32"}
    kinds = [next(iter(step)) for step in plan["steps"]]
    assert kinds.count("launch") == 2
    assert kinds.count("allocate") == 1
    first, second = (step for step in plan["steps"] if "launch" in step)
    assert {"value": "scale", "dtype": "float32"} in first["arguments"]
    assert first["block"] == second["block"] == [64, 4, 1]


@pytest.mark.parametrize("rows", [1, 37, 0])
def test_python_follows_it(device, folder, rows):
    x, expected = operands(rows)
    y = np.zeros_like(x)
    Kernels(folder)(x, 0.5, y)
    np.testing.assert_array_equal(y, expected)
    assert device.calls == ["load", *["launch"] * (2 if rows else 0), "wait"]
    assert device.held == {}


def test_the_script_needs_numpy_alone(device, folder, tmp_path):
    x, expected = operands(19)
    np.save(tmp_path / "in.npy", x)
    done = run(
        sys.executable, folder / "launch.py", "in.npy", "0.5", env=device.environment, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr + str(device.calls)
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), expected)


@pytest.fixture(scope="module")
def program(folder, compiled, tmp_path_factory):
    """The launcher in C++."""
    path = tmp_path_factory.mktemp("program") / "launch"
    compiled(
        "c++", "-std=c++17", "-Wall", "-Wextra", "-Werror", folder / "launch.cpp", "-ldl",
        "-o", path,
    )  # fmt: skip
    return path


def test_cpp_follows_it(device, folder, program):
    x, expected = operands(37)
    (folder / "x.in").write_bytes(x.tobytes())
    done = run(program, "rows=37", "scale=0.5", "x=x.in", env=device.environment, cwd=folder)
    assert done.returncode == 0, done.stderr + str(device.calls)
    assert done.stdout.splitlines() == ["x: 9472 bytes", "y: 9472 bytes"]
    y = np.frombuffer((folder / "y.bin").read_bytes(), "float32").reshape(37, 64)
    np.testing.assert_array_equal(y, expected)
    assert device.held == {}
    assert "no GPU driver" in run(program, "rows=1", cwd=folder).stderr
    missing = run(program, env=device.environment, cwd=folder)
    assert "give the extent rows, as NAME=NUMBER" in missing.stderr


@pytest.mark.parametrize(
    ("attributes", "of_kernel", "message"),
    [
        ({}, {0: 128}, "256 lanes, of which the binary takes at most 128"),
        ({56: 128}, {}, "256 lanes, of which the GPU takes at most 128"),
        ({74: 512}, {1: 1024}, "1024 bytes of shared memory, of which the GPU has at most 512"),
        ({29: 1}, {}, "3 workgroups along a dim, of which the GPU takes at most 1"),
    ],
)
def test_cpp_launches_nothing_that_does_not_fit(
    device, folder, program, attributes, of_kernel, message
):
    device.attributes, device.function_attributes = attributes, of_kernel
    done = run(program, "rows=37", env=device.environment, cwd=folder)
    assert done.returncode == 1
    assert f"is launched with {message}" in done.stderr
    assert "launch" not in device.calls


def test_what_the_driver_refuses_is_named(device, folder):
    x, _ = operands(3)
    for what, name, status in (
        ("allocate", "hipMalloc", -1),
        ("launch", "hipModuleLaunchKernel", 719),
        ("load", "hipModuleLoadData", 200),
    ):
        device.refuses = {what: [status]}
        with pytest.raises(
            DriverError,
            match=f"{name} failed with status {abs(status) if what != 'allocate' else 2}",
        ):
            Kernels(folder)(x, 0.5, np.zeros_like(x))
        device.refuses = {}
    assert device.held == {}


def test_refuses_arrays_that_do_not_fit(device, folder):
    kernels, (x, _) = Kernels(folder), operands(3)
    for arguments, message in (
        ((x, 0.5), "3 arguments are taken; 2 came"),
        ((x, 0.5, x[:2].copy()), "y axis 0 has extent 2; expected 3"),
        ((x, 0.5, x[0]), "y has rank 1; expected 2"),
        ((x.astype("float64"), 0.5, x), "x is float64; expected float32, contiguous"),
        ((x.T, 0.5, x), "x is float32; expected float32, contiguous"),
    ):
        with pytest.raises(ValueError, match=message):
            kernels(*arguments)


LOADED = """
import sys, numpy as np
sys.modules["tvm"] = None
import tvm_iree_ext
kernel = tvm_iree_ext.load(sys.argv[1])
x = np.arange(19 * 8, dtype="float32").reshape(19, 8)
np.save("packed.npy", kernel(x))
"""


def pack():
    return ops.pack(("n", 8), inner_dims_pos=[0, 1], inner_tiles=[4, 2], padding_value=-1.0)


def kernels_for(op, target):
    """What the driver runs: lowered by the rule."""
    rule = choose(op, target)
    module = rule.lower(op, target, rule.heuristic(op, target))
    return kernels_of(compile_device(module, target))


def test_an_op_built_here_runs_in_a_process_without_tvm(gpu, tmp_path, monkeypatch):
    monkeypatch.setenv("TVM_IREE_EXT_CACHE", str(tmp_path / "cache"))
    op = pack()
    kernel = ext.build(op, "rocm:gfx942")
    assert kernel.resources["kernels"]["pack_kernel"]["spills"] == 0
    assert ext.build(op, "rocm:gfx942").folder == kernel.folder  # from the cache
    exported = kernel.export(tmp_path / "pack", runtime=True)
    gpu.kernels = kernels_for(op, TARGET)
    done = run(sys.executable, "-c", LOADED, exported, env=gpu.environment, cwd=tmp_path)
    assert done.returncode == 0, done.stderr + str(gpu.calls)
    x = np.arange(19 * 8, dtype="float32").reshape(19, 8)
    padded = np.full((20, 8), -1, "float32")
    padded[:19] = x
    expected = padded.reshape(5, 4, 4, 2).transpose(0, 2, 1, 3)
    np.testing.assert_array_equal(np.load(tmp_path / "packed.npy"), expected)
    result = np.zeros(expected.shape, "float32")
    assert kernel(x, out=result) is result  # and in this one
    np.testing.assert_array_equal(result, expected)
    gpu.refuses = {"launch": [1]}
    with pytest.raises(ArtifactError, match="does not run: hipModuleLaunchKernel failed"):
        kernel(x)
    with pytest.raises(CallError, match="input is float64; expected float32"):
        kernel(x.astype("float64"))


def test_arrays_on_the_gpu_are_used_where_they_are(gpu, tmp_path):
    op = pack()
    kernel = ext.build(op, TARGET, folder=tmp_path / "pack")
    gpu.kernels, device = kernels_for(op, TARGET), Gpu("rocm")
    x = np.arange(16 * 8, dtype="float32").reshape(16, 8)
    expected = x.reshape(4, 4, 4, 2).transpose(0, 2, 1, 3)
    source, _ = on_gpu(device, x)
    target, stored = on_gpu(device, np.zeros((4, 4, 4, 2), "float32"))
    before = dict(gpu.held)
    assert kernel(source, out=target) is target
    np.testing.assert_array_equal(stored, expected)
    assert gpu.held == before  # nothing was copied
    result = kernel(source)  # is where its array is
    assert result.__dlpack_device__() == source.__dlpack_device__() == (10, 0)
    assert (result.shape, str(result.dtype)) == (expected.shape, "float32")
    np.testing.assert_array_equal(stored_at(result), expected)
    assert len(gpu.held) == len(before) + 1
    del result
    assert gpu.held == before
    out = np.zeros(expected.shape, "float32")
    kernel(source, out=out)
    np.testing.assert_array_equal(out, expected)
    assert gpu.held == before
    room, gpu.room = gpu.room, sum(gpu.held.values())
    with pytest.raises(ArtifactError, match="does not run: hipMalloc failed with status 2"):
        kernel(source)
    gpu.room = room
    with pytest.raises(CallError, match="expected it contiguous there, at a multiple of 16 bytes"):
        kernel(on_gpu(device, x, skip=4)[0])
    with pytest.raises(CallError, match="result is misaligned; expected a multiple of 16 bytes"):
        kernel(source, out=on_gpu(device, expected, skip=4)[0])
    with pytest.raises(CallError, match=r"input is on rocm.*; this kernel runs on the CPU"):
        ext.build(op, "llvm", folder=tmp_path / "cpu")(source)


def test_tensors_of_pytorch_are_launched_on_its_stream_and_not_waited_for(
    gpu, tmp_path, monkeypatch
):
    """A stand-in for PyTorch: there is none with a GPU."""
    op = ops.matmul((16, 512), (512, 16))
    config = replace(choose(op, TARGET).heuristic(op, TARGET), splits=2)
    kernel = ext.build(op, TARGET, config, folder=tmp_path / "matmul")
    assert "allocate" in kernel.manifest.launch["steps"][0]
    module = choose(op, TARGET).lower(op, TARGET, config)
    gpu.kernels, torch = kernels_of(compile_device(module, TARGET)), Torch(Gpu("rocm"))
    monkeypatch.setitem(sys.modules, "torch", torch)
    rng = np.random.default_rng(0)
    lhs, rhs = (rng.integers(-3, 4, shape).astype("float32") for shape in ((16, 512), (512, 16)))
    result = kernel(TorchTensor(torch.gpu, lhs), TorchTensor(torch.gpu, rhs))
    np.testing.assert_array_equal(result.array, lhs @ rhs)
    assert [one.dtype for one in torch.made] == ["float32", "uint8"]  # the result, the workspace
    assert gpu.streams == [STREAM, STREAM]
    assert gpu.calls == ["load", "launch", "launch"]
    mixed = kernel(lhs, TorchTensor(torch.gpu, rhs))  # an array of the CPU must be waited for
    np.testing.assert_array_equal(mixed, lhs @ rhs)
    assert gpu.writes == [STREAM]  # after what the stream did with that memory, before the launches
    assert gpu.calls[3:] == ["launch", "launch", "wait"]


def test_the_page_multiplies_on_a_gpu(gpu, root, tmp_path, compiled, monkeypatch):
    """docs/deploy.md: what it builds, called from its program."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TVM_IREE_EXT_CACHE", str(tmp_path / "cache"))
    text = (root / "docs" / "deploy.md").read_text("utf-8")
    section = text.partition("## A GPU")[2]
    blocks = re.findall(
        r"^```\w+\n(?:#|//) (\w+\.\w+)(.*?)^```$", section, re.MULTILINE | re.DOTALL
    )
    for name, code in blocks:
        (tmp_path / name).write_text(f"//{code}" if name.endswith("cpp") else code)
    exec((tmp_path / "gpu.py").read_text())
    gpu.kernels = kernels_for(ops.matmul(("rows", 64), (64, 32)), TARGET)
    compiled("c++", "--version")  # or skip
    done = run("sh", "-e", "multiply.sh", env=gpu.environment, cwd=tmp_path)
    assert done.returncode == 0, done.stderr + str(gpu.calls)
    assert done.stdout.startswith("largest difference")
    assert gpu.held == {}


def test_a_kernel_for_a_gpu_says_that_there_is_none(tmp_path):
    kernel = ext.build(pack(), "rocm:gfx942", folder=tmp_path / "pack")
    with pytest.raises(ArtifactError, match="does not run: no GPU driver: looked for libamdhip64"):
        kernel(np.zeros((4, 8), "float32"))


@pytest.mark.skipif(bool(nvrtc_obstacle()), reason="no NVRTC")
def test_cuda_takes_tensor_maps_and_much_shared_memory(gpu, tmp_path, compiled):
    kind = "NV_WGMMA_F32_64x64x16_F16"
    shape = MatmulShape(136, 88, 200, "float16", "float16", "float32", (0, 1), (1, 0))
    config = WarpgroupConfig(kind, stages=3)
    code = compile_device(warpgroup_matmul(shape, HOPPER, config), HOPPER)
    steps = [next(iter(step)) for step in code.plan()["steps"]]
    assert steps == ["tensor_map", "tensor_map", "launch"]
    folder = export_device(code, tmp_path / "matmul", name="matmul")
    gpu.kernels, gpu.capability = kernels_of(code), (9, 0)
    rng = np.random.default_rng(0)
    lhs, rhs = (rng.integers(-2, 3, (rows, 200)).astype("float16") for rows in (136, 88))
    expected = lhs.astype("float32") @ rhs.T.astype("float32")
    result = np.zeros((136, 88), "float32")
    Kernels(folder)(lhs, rhs, result)
    np.testing.assert_array_equal(result, expected, str(gpu.calls))
    assert gpu.calls == ["load", "shared", "launch", "wait"]
    assert gpu.held == {}
    compiled("c++", "-std=c++17", "-w", folder / "launch.cpp", "-ldl", "-o", tmp_path / "launch")
    (folder / "lhs.in").write_bytes(lhs.tobytes())
    (folder / "rhs.in").write_bytes(rhs.tobytes())
    done = run(tmp_path / "launch", "lhs=lhs.in", "rhs=rhs.in", env=gpu.environment, cwd=folder)
    assert done.returncode == 0, done.stderr + str(gpu.calls)
    stored = np.frombuffer((folder / "result.bin").read_bytes(), "float32")
    np.testing.assert_array_equal(stored.reshape(expected.shape), expected)


def test_numbers_that_are_equal_and_not_the_same_are_launched_apart(monkeypatch):
    kernels = Kernels.__new__(Kernels)
    step = {"launch": "k", "grid": [1], "arguments": [{"value": "x", "dtype": "float32"}]}
    kernels.plan, kernels._known, kernels._arrays = {"steps": [step]}, {}, []
    kernels.gpu = SimpleNamespace(prepared=lambda _function, step: step["arguments"][0])
    monkeypatch.setattr(kernels, "_function", lambda name: name)
    monkeypatch.setattr(kernels, "_check", lambda step: None)
    found = [kernels.prepared({"x": x}).steps[0]["value"] for x in (0.0, -0.0, 0.0)]
    assert [str(x) for x in found] == ["0.0", "-0.0", "0.0"]
