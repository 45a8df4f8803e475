"""What compilers say beside figures is told of the kernel that it is about."""

import ctypes
import re

import pytest

from tvm_iree_ext import ops
from tvm_iree_ext.codegen.gpu import compiler_advice, cuda
from tvm_iree_ext.codegen.gpu.cpp_log import logged
from tvm_iree_ext.codegen.gpu.cuda import find_tool, nvrtc_obstacle
from tvm_iree_ext.codegen.gpu.device_code import compile_device
from tvm_iree_ext.schedules.dispatch import choose
from tvm_iree_ext.schedules.gpu.products.matmul_shape import MatmulShape
from tvm_iree_ext.schedules.gpu.products.warpgroup_kernel import warpgroup_matmul
from tvm_iree_ext.schedules.gpu.products.warpgroup_plan import WarpgroupConfig
from tvm_iree_ext.targets.names import make_target

AMD, HOPPER = "rocm:gfx942", make_target("cuda:sm_90a")
NO_TOOLS = nvrtc_obstacle() or ("" if find_tool("ptxas") else "no ptxas")
SAID = """ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are \
serialized due to insufficient register resources for the function 'first'
ptxas warning : Value of threads per SM for entry second is out of range
ptxas info    : 730 bytes gmem
ptxas info    : Compiling entry function 'first' for 'sm_90a'
ptxas info    : Function properties for first
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 168 registers, used 1 barriers
ptxas info    : Compile time = 138.681 ms
"""


def test_figures_are_no_advice_and_all_else_is():
    advice = compiler_advice.of_ptxas(SAID)
    assert [one.partition(":")[0] for one in advice] == [
        "(C7510) Potential Performance Loss",
        "Value of threads per SM for entry second is out of range",
    ]
    told = compiler_advice.by_kernel(advice, ["first", "second"])
    assert [len(lines) for lines in told.values()] == [2, 1]


def test_warnings_of_nvrtc_are_advice():
    log = """kernel.cu(12): warning #186-D: pointless comparison of unsigned integer with zero
    if (v >= 0u) {
        ^

kernel.cu(14): warning #186-D: pointless comparison of unsigned integer with zero
    if (w >= 0u) {
        ^

Remark: The warnings can be suppressed with "-diag-suppress <warning-number>"
"""
    assert compiler_advice.of_nvrtc(log) == (log.partition("\n")[0],)


def test_a_warning_of_nvrtcs_is_told():
    if NO_TOOLS:
        pytest.skip(NO_TOOLS)
    source = 'extern "C" __global__ void k(unsigned* x) { if (x[0] >= 0u) x[1] = 1; int unused; }'
    (line,) = cuda.compile_ptx(source, "sm_80").advice
    assert "pointless comparison" in line


@pytest.fixture(scope="module")
def warpgroups():
    """PTX of a product by warpgroups."""
    kind = "NV_WGMMA_F32_64x128x16_F16"
    shape = MatmulShape(136, 128, 200, "float16", "float16", "float32", (0, 1), (1, 0))
    code = compile_device(warpgroup_matmul(shape, HOPPER, WarpgroupConfig(kind, stages=3)), HOPPER)
    assert all(one.advice == () for one in code.resources.values())
    return code.ptx


@pytest.mark.costly
@pytest.mark.skipif(bool(NO_TOOLS), reason=NO_TOOLS)
@pytest.mark.parametrize(
    ("pattern", "number"),
    [
        (r"wgmma\.fence\.sync\.aligned;", "C7519"),
        (r"wgmma\.wait_group\S* \d+;", "C7517"),
        (r"\.maxntid.*", "C7508"),
    ],
)
def test_what_ptxas_says_of_warpgroups_is_advice(warpgroups, pattern, number):
    assert cuda.assemble(warpgroups, "sm_90a").advice == ()
    spoilt = re.sub(pattern, "", warpgroups)
    assert spoilt != warpgroups
    advice = cuda.assemble(spoilt, "sm_90a").advice
    assert any(one.startswith(f"({number})") for one in advice), advice


def test_what_tvm_logs_is_kept_from_the_screen_and_seen_again_afterwards(capfd):
    library = ctypes.CDLL("libstdc++.so.6")
    write = library._ZStlsISt11char_traitsIcEERSt13basic_ostreamIcT_ES5_PKc
    stream = ctypes.byref(ctypes.c_char.in_dll(library, "_ZSt4cerr"))
    said = []

    def fail():
        with logged(said):
            write(stream, b"first\n")
            write(stream, b"second\n")
            raise ValueError("whatever it is")

    with pytest.raises(ValueError, match="whatever it is"):
        fail()
    assert said == ["first\nsecond\n"]
    assert capfd.readouterr().err == ""
    write(stream, b"third\n")
    assert capfd.readouterr().err == "third\n"


def compiled_for_amd():
    op, target = ops.pack((16, 8), inner_dims_pos=[0, 1], inner_tiles=[4, 2]), make_target(AMD)
    rule = choose(op, target)
    return compile_device(rule.lower(op, target, rule.heuristic(op, target)), target)


def test_what_is_answered_is_not_said(capfd):
    code = compiled_for_amd()
    assert [one.advice for one in code.resources.values()] == [()]
    assert "Cannot get maximum number of threads" not in capfd.readouterr().err
    (name,) = code.reports
    assert code.reports[name].lanes >= code.launches[name].lanes  # which is the answer


def test_what_is_not_is_advice_and_is_seen(capfd, monkeypatch):
    monkeypatch.setattr(compiler_advice, "ANSWERED", {})
    line = "Warning: Cannot get maximum number of threads for AMD codegen"
    assert [one.advice for one in compiled_for_amd().resources.values()] == [(line,)]
    assert line in capfd.readouterr().err


@pytest.mark.skipif(bool(NO_TOOLS), reason=NO_TOOLS)
@pytest.mark.parametrize(("depth", "tiles"), [(64, 2), (512, 1)])
def test_small_products_hand_no_registers_over_and_wait_for_no_zeros(depth, tiles):
    """Where ``ptxas`` would not, and would put a fence between, and would say so."""
    shape = MatmulShape(512, 512, depth, "float16", "float16", "float32", (0, 1), (1, 0))
    config = WarpgroupConfig("NV_WGMMA_F32_64x96x16_F16", consumers=2, tiles=tiles)
    code = compile_device(warpgroup_matmul(shape, HOPPER, config), HOPPER)
    assert [one.advice for one in code.resources.values()] == [()]
