"""Each line of the launch contract, by an artifact that breaks it, on an emulated GPU."""

import json
import shutil
import struct

import numpy as np
import pytest
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.codegen.gpu.cpp_export import export_device
from tvm_iree_ext.codegen.gpu.cuda import nvrtc_obstacle
from tvm_iree_ext.codegen.gpu.device_code import compile_device
from tvm_iree_ext.codegen.gpu.rocm import as_version_5
from tvm_iree_ext.codegen.llvm_text import compile_ir
from tvm_iree_ext.emulator.driver import EmulatedDriver
from tvm_iree_ext.runtime.launch import driver
from tvm_iree_ext.runtime.launch.binary_file import AMD_MACHINES, read_binary
from tvm_iree_ext.runtime.launch.driver import DriverError, LaunchError
from tvm_iree_ext.runtime.launch.driver_answers import chip_of_gpu
from tvm_iree_ext.runtime.launch.gpu_targets import gpu_obstacle
from tvm_iree_ext.runtime.launch.launch_contract import CONTRACT, chip_obstacle, version_obstacle
from tvm_iree_ext.runtime.launch.launcher import Kernels
from tvm_iree_ext.targets.gpu import chip_names
from tvm_iree_ext.targets.names import make_target

LANES = 64
TARGETS = {"rocm": "rocm:gfx942", "cuda": "cuda:sm_80"}
needs_ptx = pytest.mark.skipif(bool(nvrtc_obstacle()), reason=nvrtc_obstacle() or "PTX is there")


def reversal():
    """``y[i] = x[63 - i] + add`` by way of shared memory."""
    with IRBuilder() as built, I.prim_func(s_tir=True):
        I.func_name("reversal")
        x = I.arg("x", I.Buffer((LANES,), "int64"))
        y = I.arg("y", I.Buffer((LANES,), "int64"))
        add = I.arg("add", I.int64())
        with I.launch_thread("blockIdx.x", 1), I.launch_thread("threadIdx.x", LANES) as lane:
            stage = I.alloc_buffer((LANES,), "int64", scope="shared")
            I.buffer_store(stage, x[lane], [lane])
            I.buffer_store(y, stage[LANES - 1 - lane] + add, [lane])
    return built.get()


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    place = tmp_path_factory.mktemp("export")
    found = {}
    for kind, target in TARGETS.items():
        if kind == "rocm" or not nvrtc_obstacle():
            code = compile_device(reversal(), make_target(target))
            found[kind] = export_device(code, place / kind, name="reversal")
            (found[kind] / "kernel.cubin").unlink(missing_ok=True)  # the emulator reads PTX
    return found


@pytest.fixture
def artifact(folders, tmp_path):
    """``artifact(kind)``: a copy to be spoilt."""

    def copied(kind):
        return shutil.copytree(folders[kind], tmp_path / kind)

    return copied


def loaders():
    from tvm_iree_ext.emulator.runs.emulated_devices import LOADERS  # needs tinygrad

    return LOADERS


def emulated(kind, chip="", driver_class=EmulatedDriver, shared=65536):
    pytest.importorskip("tinygrad")
    chip = chip or TARGETS[kind].partition(":")[2]
    return driver_class(kind, chip, loaders()[kind], shared_bytes=shared)


def call(folder, library):
    x, y = np.arange(LANES), np.zeros(LANES, "int64")
    Kernels(folder, library=library)(x, y, 5)
    np.testing.assert_array_equal(y, x[::-1] + 5)


def spoil_plan(folder, **step):
    """Change the launch of the manifest's plan."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["launch"]["steps"][0].update(step)
    path.write_text(json.dumps(manifest))


def spoil_target(folder, **target):
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["target"].update(target)
    path.write_text(json.dumps(manifest))


def spoil_number(folder, key, value, count=0):
    """Change a number of the code object's metadata, the so many-th of its name."""
    path = folder / "kernel.hsaco"
    image, at = bytearray(path.read_bytes()), -1
    for _ in range(count + 1):
        at = image.index(key.encode(), at + 1)
    at += len(key)
    forms = {0xCC: ">B", 0xCD: ">H", 0xCE: ">I"}  # of MessagePack; small numbers are a byte alone
    if image[at] < 0x80:
        image[at] = value
    else:
        struct.pack_into(forms[image[at]], image, at + 1, value)
    path.write_bytes(bytes(image))


def spoil_flags(folder, change):
    path = folder / "kernel.hsaco"
    image = bytearray(path.read_bytes())
    (flags,) = struct.unpack_from("<I", image, 48)
    struct.pack_into("<I", image, 48, change(flags))
    path.write_bytes(bytes(image))


def spoil_text(folder, before, after):
    path = folder / "kernel.ptx"
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))


def spoil_version(folder, number):
    path = folder / "kernel.hsaco"
    image = bytearray(path.read_bytes())
    image[8] = number - 2
    path.write_bytes(bytes(image))


class ManyRegisters(EmulatedDriver):
    """CUDA's driver, by which a kernel takes 255 registers a lane."""

    def _function_attribute(self, found, attribute, function):
        found._obj.value = 255 if attribute == 4 else 0
        return 0


X, Y = {"array": "x"}, {"array": "y"}
ADD = {"value": "add", "dtype": "int64"}

# By line of the contract: kind, what spoils the artifact, the driver's arguments, the message.
BREAKS = {
    "lanes, by the chip": [
        (
            "rocm",
            lambda f: spoil_plan(f, block=[64, 32, 1]),
            {},
            "2048 lanes; the chip takes at mo",
        ),
        ("cuda", lambda f: spoil_plan(f, block=[1, 1, 65]), {}, "block.z is launched with 65; the"),
    ],
    "lanes, by the binary": [
        (
            "rocm",
            lambda f: spoil_number(f, ".max_flat_workgroup_size", 32),
            {},
            "launched with 64 lanes; the binary takes at most 32",
        ),
        (
            "cuda",
            lambda f: spoil_text(f, ".maxntid 64", ".maxntid 32"),
            {},
            "launched with 64 lanes; the binary takes at most 32",
        ),
    ],
    "workgroups": [
        ("rocm", lambda f: spoil_plan(f, grid=[1, 70000, 1]), {}, "grid.y is launched with 70000;"),
        (
            "rocm",
            lambda f: spoil_plan(f, grid=[1 << 30, 1, 1]),
            {},
            "lanes along x; HIP takes at m",
        ),
        ("cuda", lambda f: spoil_plan(f, grid=[1, 1, 70000]), {}, "grid.z is launched with 70000;"),
    ],
    "workgroups of a cluster": [
        (
            "cuda",
            lambda f: spoil_plan(f, cluster=[3, 1, 1]),
            {},
            "; clusters have 3 workgroups alo",
        ),
    ],
    "shared memory declared": [
        ("rocm", None, {"shared": 256}, "declares 512 bytes of shared memory; a kernel may decl"),
    ],
    "shared memory in all": [
        (
            "rocm",
            lambda f: spoil_plan(f, shared=65500),
            {},
            "512 bytes of shared memory declared and 65500 asked for; a workgroup has at most",
        ),
        ("cuda", lambda f: spoil_plan(f, shared=167000), {}, "and 167000 asked for; a workgroup h"),
    ],
    "registers x lanes": [
        (
            "cuda",
            lambda f: spoil_plan(f, block=[512, 1, 1]),
            {"driver_class": ManyRegisters},
            "255 registers for each of 512 lanes; a workgroup has 65536",
        ),
    ],
    "number of arguments": [
        (
            "rocm",
            lambda f: spoil_plan(f, arguments=[X, Y]),
            {},
            "takes 3 arguments; the plan gives",
        ),
        (
            "cuda",
            lambda f: spoil_plan(f, arguments=[X, Y]),
            {},
            "takes 3 arguments; the plan gives",
        ),
        (
            "cuda",
            lambda f: spoil_plan(f, arguments=[X, Y, ADD, ADD]),
            {},
            "takes 3 arguments; the plan gives 4",
        ),
    ],
    "sizes of arguments": [
        (
            kind,
            lambda f: spoil_plan(f, arguments=[X, Y, {**ADD, "dtype": "int32"}]),
            {},
            "has 8 bytes in the binary; by the plan, 4",
        )
        for kind in TARGETS
    ],
    "order of arguments": [
        (
            "rocm",
            lambda f: spoil_plan(f, arguments=[X, ADD, Y]),
            {},
            "argument 1 .* is an address in the binary; by the plan, a number",
        ),
    ],
    "alignment of arguments": [
        (
            "rocm",
            lambda f: spoil_number(f, ".offset", 12, 1),
            {},
            "of 8 bytes lies at byte 12 in the binary; expected a multiple of 8 from 8 on",
        ),
        (
            "rocm",
            lambda f: spoil_number(f, ".offset", 0, 1),
            {},
            "lies at byte 0 in the binary; ex",
        ),
    ],
}
CASES = [(line, *case) for line, cases in BREAKS.items() for case in cases]


def test_every_line_is_broken():
    """But that of subgroups, which a driver does not tell: see test_launch_contract.py."""
    assert BREAKS.keys() | {"lanes of a subgroup"} == CONTRACT.keys()


@pytest.mark.parametrize("kind", ["rocm", pytest.param("cuda", marks=needs_ptx)])
def test_a_whole_artifact_runs(artifact, kind):
    call(artifact(kind), emulated(kind))


@pytest.mark.parametrize(
    ("line", "kind", "spoil", "how", "message"),
    [pytest.param(*case, marks=[needs_ptx] if case[1] == "cuda" else []) for case in CASES],
)
def test_a_broken_line_is_named(artifact, line, kind, spoil, how, message):
    folder = artifact(kind)
    if spoil is not None:
        spoil(folder)
    library = emulated(kind, **({"shared": 166912} if kind == "cuda" else {}) | how)
    name = f"reversal_kernel on {TARGETS[kind].partition(':')[2]}"
    with pytest.raises(LaunchError, match=f"{name}.*: .*{message}"):
        call(folder, library)
    assert library.launches == 0


CHIPS = [
    ("rocm", lambda f: spoil_flags(f, lambda flags: flags ^ 0x4C ^ 0x3F), "",
     "kernel.hsaco is for gfx90a; the artifact is for gfx942"),
    ("rocm", lambda f: spoil_target(f, mcpu="gfx90a"), "",
     "kernel.hsaco is for gfx942; the artifact is for gfx90a"),
    ("rocm", None, "gfx90a", r"kernel.hsaco is for gfx942; the GPU is gfx90a:sramecc\+:xnack-"),
    ("rocm", lambda f: spoil_flags(f, lambda flags: flags | 0x300), "",
     r"kernel.hsaco is for gfx942:xnack\+; the GPU is gfx942:sramecc\+:xnack-"),
    ("rocm", lambda f: spoil_flags(f, lambda flags: flags & ~0xC00 | 0x800), "",
     r"kernel.hsaco is for gfx942:sramecc-; the GPU is gfx942:sramecc\+:xnack-"),
    ("rocm", lambda f: (f / "kernel.hsaco").write_bytes(b"no code"), "",
     "kernel.hsaco is no binary for rocm; expected a code object of AMD's"),
    ("rocm", lambda f: spoil_version(f, 6), "", "code object of version 6, for HIP 6.4 and later"),
    ("rocm", lambda f: spoil_version(f, 3), "", "code object of version 3; expected 4, 5 or 6"),
    ("cuda", None, "sm_75", "kernel.ptx is for sm_80 and later; the GPU is sm_75"),
    ("cuda", lambda f: spoil_text(f, ".target sm_80", ".target sm_86"), "",
     "kernel.ptx is for sm_86; the artifact is for sm_80"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "spoil", "chip", "message"),
    [pytest.param(*case, marks=[needs_ptx] if case[0] == "cuda" else []) for case in CHIPS],
)
def test_what_is_for_another_gpu_is_named_and_not_loaded(artifact, kind, spoil, chip, message):
    folder = artifact(kind)
    if spoil is not None:
        spoil(folder)
    library = emulated("rocm", "gfx950") if chip == "gfx90a" else emulated(kind, chip)
    library.device.chip = chip or library.device.chip
    with pytest.raises(LaunchError, match=message):
        Kernels(folder, library=library)
    assert library._modules == []


def test_features_that_the_gpu_has_are_no_obstacle(artifact):
    folder = artifact("rocm")
    spoil_flags(folder, lambda flags: flags & ~0xF00 | 0xC00 | 0x200)  # sramecc+, xnack-
    assert read_binary("k", (folder / "kernel.hsaco").read_bytes()).chip == "gfx942:sramecc+:xnack-"
    call(folder, emulated("rocm"))


def test_a_kernel_that_is_not_there_is_the_drivers_to_say(artifact):
    folder = artifact("rocm")
    spoil_plan(folder, launch="another_kernel")
    with pytest.raises(DriverError, match="hipModuleGetFunction failed with status 500"):
        call(folder, emulated("rocm"))


@pytest.mark.parametrize(
    ("built", "found", "runs"),
    [
        ("gfx942", "gfx942", True),
        ("gfx942", "gfx942:sramecc+:xnack-", True),
        ("gfx942:xnack-", "gfx942:sramecc+:xnack-", True),
        ("gfx942:sramecc+:xnack-", "gfx942:sramecc+:xnack-", True),
        ("gfx942:xnack+", "gfx942:sramecc+:xnack-", False),
        ("gfx90a", "gfx942:sramecc+:xnack-", False),
        ("gfx1100", "gfx1101", False),
        ("sm_80", "sm_80", True),
        ("sm_80", "sm_86", True),
        ("sm_86", "sm_80", False),
        ("sm_80", "sm_90", False),
        ("sm_90a", "sm_90", True),
        ("sm_100a", "sm_103", False),
        ("sm_100", "sm_103", True),
        ("gfx942", "", True),
    ],
)
def test_a_chip_runs_what_its_driver_takes(built, found, runs):
    assert (chip_obstacle(built, found) == "") == runs


@pytest.mark.parametrize(
    ("built", "found", "runs"),
    [("sm_80", "sm_120", True), ("sm_90", "sm_80", False), ("sm_90a", "sm_100", False)],
)
def test_a_later_chip_runs_text_without_a_letter(built, found, runs):
    assert (chip_obstacle(built, found, is_text=True) == "") == runs


def test_hip_takes_the_versions_that_it_knows():
    assert version_obstacle(5, (5, 6)) == version_obstacle(6, (7, 0)) == ""
    assert version_obstacle(6, (0, 0)) == ""  # HIP does not say
    assert "for HIP 6.4 and later; HIP here is 6.2" in version_obstacle(6, (6, 2))


def test_code_objects_are_of_version_5(folders):
    image = (folders["rocm"] / "kernel.hsaco").read_bytes()
    assert read_binary("kernel.hsaco", image).version == 5
    generic = bytearray(image)
    generic[8] = 4
    assert as_version_5(bytes(generic)) == image
    struct.pack_into("<I", generic, 48, 0x01000051)  # gfx9-generic is of version 6 alone
    assert as_version_5(bytes(generic)) == bytes(generic)


_KERNEL = """target triple = "amdgcn-amd-amdhsa"
define amdgpu_kernel void @k(ptr addrspace(1) %x) {
  store i32 1, ptr addrspace(1) %x
  ret void
}
"""


def test_llvm_makes_the_same_bytes_of_version_5():
    target = make_target("rocm:gfx942")
    flag = '!llvm.module.flags = !{!1}\n!1 = !{i32 1, !"amdhsa_code_object_version", i32 500}\n'
    (sixth, _), (fifth, _) = compile_ir(_KERNEL, target), compile_ir(_KERNEL + flag, target)
    assert (sixth[8], fifth[8]) == (4, 3)
    assert as_version_5(sixth) == fifth


@pytest.mark.parametrize("chip", chip_names("rocm"))
def test_each_chip_is_known_by_its_number(chip):
    code, _ = compile_ir(_KERNEL, make_target(f"rocm:{chip}"))
    assert AMD_MACHINES[code[48]] == chip


def test_hip_says_its_chip(gpu):
    assert gpu_obstacle("rocm", "gfx942") == ""
    assert gpu_obstacle("rocm", "gfx90a").endswith("the GPU here is gfx942:sramecc+:xnack-")
    assert chip_of_gpu(driver.Gpu("rocm")) == "gfx942:sramecc+:xnack-"


def test_a_hip_before_6_does_not(gpu, monkeypatch):
    monkeypatch.setattr(driver.Gpu, "has", lambda self, name: False)
    assert chip_of_gpu(driver.Gpu("rocm")) == ""
    assert gpu_obstacle("rocm", "gfx90a") == ""
