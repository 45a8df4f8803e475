"""Binary, launch plan and chip agree on every kernel."""

from copy import deepcopy
from dataclasses import replace

import pytest
from tvm import ir, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.errors import BuildError
from tvm_iree_ext.codegen.gpu.cuda import find_tool, kernel_reports, nvrtc_obstacle
from tvm_iree_ext.codegen.gpu.device_code import compile_device
from tvm_iree_ext.codegen.gpu.launch_contract import Argument, check_launches
from tvm_iree_ext.codegen.gpu.passes.amd_lanes import whole_waves, with_lanes
from tvm_iree_ext.schedules.shared.loops.loops_nests import substitute
from tvm_iree_ext.targets.gpu import gpu_chip
from tvm_iree_ext.targets.names import make_target

TARGET = make_target("rocm:gfx942")


def reversal(lanes, scope="shared"):
    """``y[i] = scale * x[lanes - 1 - i]`` by one workgroup, by way of shared memory."""
    with IRBuilder() as built, I.prim_func(s_tir=True):
        I.func_name("main")
        x = I.arg("x", I.Buffer((lanes,), "float32"))
        y = I.arg("y", I.Buffer((lanes,), "float32"))
        with I.launch_thread("blockIdx.x", 1), I.launch_thread("threadIdx.x", lanes) as lane:
            stage = I.alloc_buffer((lanes,), "float32", scope=scope)
            I.buffer_store(stage, x[lane], [lane])
            I.buffer_store(y, stage[lanes - 1 - lane] * 2.0, [lane])
    return built.get()


@pytest.mark.costly
@pytest.mark.parametrize("lanes", [64, 256, 512, 1024])
@pytest.mark.parametrize("target", ["rocm:gfx942", "rocm:gfx1201"])
def test_an_amd_kernel_may_have_the_lanes_that_it_is_launched_with(target, lanes):
    code = compile_device(reversal(lanes), make_target(target))
    assert code.reports["main_kernel"].lanes == max(lanes, 256)
    assert f".max_flat_workgroup_size: {max(lanes, 256)}\n" in code.assembly
    assert code.binary[:4] == b"\x7fELF"
    assert code.plan()["steps"][0]["block"] == [lanes, 1, 1]


def test_only_the_larger_kernel_of_a_module_is_changed():
    text = """define amdgpu_kernel void @small(ptr %x) #0 {
define amdgpu_kernel void @large(ptr %x) local_unnamed_addr #0 {
attributes #0 = { nounwind "amdgpu-flat-work-group-size"="1,256" }
attributes #1 = { nounwind }
"""
    changed = with_lanes(text, {"small": 64, "large": 1024}, {"large": 8})
    assert "@small(ptr %x) #0 {" in changed
    assert "@large(ptr %x) local_unnamed_addr #3 {" in changed
    assert 'attributes #0 = { nounwind "amdgpu-flat-work-group-size"="1,256" }' in changed
    said = '"amdgpu-flat-work-group-size"="1,1024" "amdgpu-waves-per-eu"="8,8"'
    assert f"attributes #3 = {{ nounwind {said} }}" in changed
    with pytest.raises(BuildError, match="other: the IR does not say how many lanes"):
        with_lanes(text, {"other": 512}, {})


def test_registers_are_not_saved_for_a_part_of_a_workgroup():
    """16 subgroups are 4 on a SIMD, and the registers of 6 and of 7 are for 4, too."""
    target, lanes = make_target("rocm:gfx1201"), {"main": 512, "small": 256}
    usage = {"vector_registers": 214, "shared_memory_bytes": 65536}
    assert whole_waves({"main": usage, "small": usage}, lanes, target) == {"main": 4}
    usage = {"vector_registers": 96, "shared_memory_bytes": 32768}
    assert whole_waves({"main": usage}, lanes, target) == {}


@pytest.fixture(scope="module")
def code():
    return compile_device(reversal(512), TARGET)


def check(code, *, step=(), report=(), chip=()):
    """The contract with one side changed."""
    plan = deepcopy(code.plan())
    plan["steps"][0].update(step)
    reports = {name: replace(one, **dict(report)) for name, one in code.reports.items()}
    check_launches(plan, code.module, reports, replace(gpu_chip("gfx942"), **dict(chip)), 64)


def test_what_is_compiled_agrees(code):
    check(code)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"report": {"lanes": 256}}, "launched with 512 lanes; the binary takes at most 256"),
        (
            {"step": {"block": [1024, 2, 1]}},
            "launched with 2048 lanes; the chip takes at most 1024",
        ),
        ({"step": {"block": [1, 1, 4096]}}, r"block\.z is launched with 4096; the chip takes at"),
        ({"step": {"grid": [1, 1 << 33, 1]}}, r"grid\.y is launched with 8589934592; the chip"),
        ({"report": {"subgroup_size": 32}}, "have 32 lanes in the binary; by the target, 64"),
        ({"report": {"shared_memory_bytes": 65540}}, "declares 65540 bytes of shared memory;"),
        ({"step": {"shared": 65536}}, "2048 bytes of shared memory declared and 65536 asked for"),
        ({"report": {"registers": 400}}, "400 registers for each of 512 lanes"),
        ({"report": {"arguments": (Argument(8),)}}, "takes 1 arguments; the plan gives 2"),
        ({"step": {"arguments": [{"array": "x"}]}}, "takes 2 arguments; the plan gives 1"),
        (
            {"report": {"arguments": (Argument(8, "y"), Argument(8, "x"))}},
            r"argument 0 \(x\) is y in the binary",
        ),
        (
            {"report": {"arguments": (Argument(8, "x"), Argument(4, "y"))}},
            r"argument 1 \(y\) has 4 bytes in the binary; by the plan, 8",
        ),
        (
            {"report": {"arguments": (Argument(8, "x", 0), Argument(8, "y", 12))}},
            r"argument 1 \(y\) of 8 bytes lies at byte 12 .* expected a multiple of 8 from 8 on",
        ),
        (
            {"report": {"arguments": (Argument(8, "x", 0, True), Argument(8, "y", 8, False))}},
            r"argument 1 \(y\) is a number in the binary; by the plan, an address",
        ),
        ({"step": {"grid": [1 << 30, 1, 1]}}, "lanes along x; HIP takes at most 4294967295"),
        (
            {"step": {"grid": [1, 65536, 1]}},
            r"grid\.y is launched with 65536; the chip takes at mo",
        ),
        (
            {"step": {"arguments": [{"array": "x"}, {"value": 2, "dtype": "int32"}]}},
            r"argument 1 \(y\) has 8 bytes in the binary; by the plan, 4",
        ),
    ],
)
def test_a_disagreement_is_named(code, change, message):
    with pytest.raises(BuildError, match=f"main_kernel on gfx942: .*{message}"):
        check(code, **change)


def test_a_kernel_that_is_not_in_the_binary_is_named(code):
    with pytest.raises(BuildError, match="main_kernel is launched and is not in the binary"):
        check_launches(code.plan(), code.module, {}, gpu_chip("gfx942"), 64)


def test_a_launch_asks_for_the_dynamic_shared_memory_that_the_kernel_uses():
    code = compile_device(reversal(128, "shared.dyn"), TARGET)
    assert code.plan()["steps"][0]["shared"] == 512
    with pytest.raises(BuildError, match=r"launched with 508 bytes .* the kernel uses 512"):
        check(code, step={"shared": 508})


def test_launches_in_branches_and_loops_are_checked(code):
    (launch,) = code.plan()["steps"]
    wrong = {**launch, "block": [2048, 1, 1]}
    for steps in (
        [{"if": "n > 1", "then": [launch], "else": [wrong]}],
        [{"for": "i", "from": 0, "count": "n", "steps": [wrong]}],
    ):
        with pytest.raises(BuildError, match="launched with 2048"):
            check_launches({"steps": steps}, code.module, code.reports, gpu_chip("gfx942"), 64)


def test_the_contract_is_checked_where_a_plan_is_made(code):
    small = {name: replace(one, lanes=256) for name, one in code.reports.items()}
    with pytest.raises(BuildError, match="the binary takes at most 256"):
        replace(code, reports=small).plan()


def test_a_binary_for_another_chip_is_named(code):
    other = bytearray(code.binary)
    other[48] = 0x3F  # gfx90a
    with pytest.raises(BuildError, match="the binary is for gfx90a; the artifact is for gfx942"):
        replace(code, binary=bytes(other)).plan()


@pytest.mark.skipif(bool(nvrtc_obstacle()) or not find_tool("ptxas"), reason="no NVRTC or ptxas")
@pytest.mark.parametrize("chip", ["sm_90a", "sm_120"])
def test_a_cubin_for_another_chip_is_named(chip):
    code = compile_device(reversal(64), make_target(f"cuda:{chip}"))
    assert code.plan()["steps"][0]["block"] == [64, 1, 1]
    other = bytearray(code.binary)
    assert other[49] == int(chip.strip("sm_a"))
    other[49] = 86
    with pytest.raises(BuildError, match=f"the binary is for sm_86; the artifact is for {chip}"):
        replace(code, binary=bytes(other)).plan()


def test_ptx_says_lanes_and_arguments():
    ptx = """
.visible .entry first(
	.param .align 64 .b8 first_param_0[128],
	.param .u64 .ptr .global .align 4 first_param_1,
	.param .f32 first_param_2,
	.param .u8 first_param_3
)
.maxntid 32, 4, 1
.minnctapersm 1
{
}
.visible .entry second(

)
{
}
"""
    usage = {name: {"registers": 40, "shared_memory_bytes": 16} for name in ("first", "second")}
    reports = kernel_reports(ptx, usage)
    assert [one.size for one in reports["first"].arguments] == [128, 8, 4, 1]
    assert [one.place for one in reports["first"].arguments] == [0, 128, 136, 140]
    assert (reports["first"].lanes, reports["first"].registers) == (128, 40)
    assert (reports["second"].lanes, reports["second"].arguments) == (0, ())


def test_a_name_that_llvm_made_up_is_no_disagreement(code):
    check(code, report={"arguments": (Argument(8, "v22"), Argument(8, "y6"))})


def test_arguments_that_a_binary_does_not_name_are_told_by_their_place(code):
    """CUDA's have no names, as a workspace has none in the TIR."""
    ((name, kernel),) = code.module.functions.items()
    first = tirx.Var("_ptr", kernel.params[0].ty)
    body = substitute(kernel.body, {kernel.params[0]: first})
    nameless = tirx.PrimFunc([first, *kernel.params[1:]], body, attrs=kernel.attrs)
    reports = {key: replace(one, arguments=(Argument(8),) * 2) for key, one in code.reports.items()}
    check_launches(code.plan(), ir.IRModule({name: nameless}), reports, gpu_chip(TARGET), 64)
