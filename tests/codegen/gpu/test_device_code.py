"""What compilers make of GPU kernels, and what they say."""

import re

import numpy as np
import pytest
from tvm import tirx
from tvm.script import tirx as T
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext import ops
from tvm_iree_ext.base.errors import BuildError, TargetError
from tvm_iree_ext.codegen.gpu import cuda, rocm
from tvm_iree_ext.codegen.gpu.cuda import find_tool, nvrtc_obstacle
from tvm_iree_ext.codegen.gpu.device_code import compile_device
from tvm_iree_ext.inspection.inspected_kernel import inspect_op
from tvm_iree_ext.simulator.runs.sample_mma import tile_product
from tvm_iree_ext.targets.names import make_target

NARROW = ("bfloat16", "float8_e4m3fn", "float8_e5m2")


def staged(dtype, scope="shared"):
    """Copies through a buffer of a narrow type, and computes in float32."""
    with IRBuilder() as builder, I.prim_func(s_tir=True):
        I.func_name("main")
        a = I.arg("A", I.Buffer((64, 8), dtype))
        b = I.arg("B", I.Buffer((64, 8), "float32"))
        with I.launch_thread("blockIdx.x", 1), I.launch_thread("threadIdx.x", 64) as lane:
            stage = I.alloc_buffer((64, 8), dtype, scope=scope)
            with I.serial(0, 8) as e:
                I.buffer_store(stage, a[lane, e], [lane, e])
            with I.serial(0, 8) as e:
                I.buffer_store(b, stage[63 - lane, e].astype("float32") + 1.0, [lane, e])
    return builder.get()


@pytest.mark.parametrize("dtype", NARROW[:1])
def test_narrow_types_keep_their_size_in_shared_memory(dtype):
    """TVM's legalization would make the staged buffer one of float32."""
    code = compile_device(staged(dtype), make_target("rocm:gfx942"))
    (resources,) = code.resources.values()
    assert resources.shared_memory_bytes == 64 * 8 * (2 if dtype == "bfloat16" else 1)


def test_a_code_object_and_its_report():
    code = compile_device(
        tile_product("MFMA_F32_16x16x16_F16", shared=True), make_target("rocm:gfx90a")
    )
    assert code.binary[:4] == b"\x7fELF"
    assert code.launches["main_kernel"].extents == {"blockIdx.x": 1, "threadIdx.x": 64}
    resources = code.resources["main_kernel"]
    assert 0 < resources.registers < 64
    assert resources.scalar_registers > 0
    assert resources.limited_by in ("workgroups", "subgroups")
    assert (code.source, code.ptx, code.missing) == (None, None, "")


def test_without_a_linker_there_is_a_reason(monkeypatch):
    monkeypatch.setattr("tvm_iree_ext.codegen.linker._lld", lambda: [])
    with pytest.raises(BuildError, match=r"no ld\.lld; install one: pip install ziglang"):
        compile_device(tile_product("MFMA_F32_16x16x16_F16"), make_target("rocm:gfx90a"))


def test_an_instruction_that_the_chip_lacks_is_refused():
    """LLVM would end the process."""
    with pytest.raises(
        TargetError, match="MFMA_F32_16x16x32_F16 is not on gfx90a; it is on gfx950"
    ):
        compile_device(tile_product("MFMA_F32_16x16x32_F16"), make_target("rocm:gfx90a"))


def test_a_cpu_is_no_gpu():
    with pytest.raises(TargetError, match="llvm is not a GPU target"):
        compile_device(tile_product("MFMA_F32_16x16x16_F16"), make_target("llvm"))


def test_cuda_without_tools_gives_the_source(monkeypatch):
    monkeypatch.setattr("tvm_iree_ext.codegen.gpu.cuda._nvrtc", lambda: None)
    code = compile_device(tile_product("NV_MMA_SYNC_F32_16x8x16_F16"), make_target("cuda:sm_80"))
    assert "__global__" in code.source
    assert code.missing.startswith("PTX and cubin: no NVRTC")
    assert (code.ptx, code.assembly, code.binary, code.resources) == (None, None, None, {})


@pytest.mark.skipif(bool(nvrtc_obstacle()), reason=f"PTX: {nvrtc_obstacle()}")
@pytest.mark.skipif(not find_tool("ptxas"), reason="no ptxas")
def test_cuda_with_tools_gives_all(monkeypatch):
    code = compile_device(tile_product("NV_MMA_SYNC_F32_16x8x16_F16"), make_target("cuda:sm_80"))
    assert ".target sm_80" in code.ptx
    assert code.binary[:4] == b"\x7fELF"
    assert 16 <= code.resources["main_kernel"].registers <= 64


@pytest.mark.skipif(bool(nvrtc_obstacle()), reason=f"PTX: {nvrtc_obstacle()}")
def test_nvrtcs_refusal_is_told():
    with pytest.raises(BuildError, match=r"NVRTC refused the kernel for sm_80.*error"):
        cuda.compile_ptx("this is no C++", "sm_80")


def test_the_report_of_ptxas_is_read():
    said = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'main_kernel' for 'sm_80'
ptxas info    : Function properties for main_kernel
    64 bytes stack frame, 32 bytes spill stores, 48 bytes spill loads
ptxas info    : Used 59 registers, used 1 barriers, 768 bytes smem, 376 bytes cmem[0]
"""
    assert cuda._usage(said) == {
        "main_kernel": {
            "registers": 59, "shared_memory_bytes": 768, "stack_bytes": 64, "spill_stores": 32,
            "spill_loads": 48,
        }
    }  # fmt: skip


def test_metadata_of_several_kernels_is_read():
    entry = """  - .args:
      - .name:           A_ptr
        .size:           8
    .group_segment_fixed_size: 1024
    .name:           {name}
    .private_segment_fixed_size: 0
    .sgpr_count:     14
    .vgpr_count:     {registers}
    .vgpr_spill_count: 2
"""
    text = "amdhsa.kernels:\n" + entry.format(name="first", registers=16)
    text += entry.format(name="second", registers=32) + "amdhsa.target:   amdgcn\n"
    usage = rocm._usage(text)
    assert {name: figures["vector_registers"] for name, figures in usage.items()} == {
        "first": 16,
        "second": 32,
    }
    assert usage["first"]["shared_memory_bytes"] == 1024
    assert usage["first"]["vector_spills"] == 2


def test_functions_of_a_device_library_are_refused():
    """LLVM would end the process."""
    op = ops.matmul(
        (4, 8),
        (8, 4),
        dtype="float64",
        epilogue=lambda x: tirx.call_llvm_pure_intrin("float64", "llvm.exp10", x),
    )
    with pytest.raises(BuildError, match="LLVM has no exp10 of float64 for gfx942"):
        inspect_op(op, "rocm:gfx942")


def test_floats_given_as_bits_are_written_for_cuda():
    with IRBuilder() as built, I.prim_func(s_tir=True):
        I.func_name("bits")
        y = I.arg("y", I.buffer((64,), "float32"))
        with I.launch_thread("blockIdx.x", 1), I.launch_thread("threadIdx.x", 64) as lane:
            I.buffer_store(y, tirx.reinterpret("float32", tirx.const(0xFF800000, "uint32")), [lane])
    source = compile_device(built.get(), make_target("cuda:sm_80")).source
    assert "__int_as_float(-8388608)" in source


@pytest.mark.costly
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_constants_keep_all_digits(dtype):
    values = [1 / 301, 1e-20, 1e-40, 0.1, -(2.0**-30), 1e300 if dtype == "float64" else 1e30, 0.5]
    with IRBuilder() as built, I.prim_func(s_tir=True):
        I.func_name("constants")
        y = I.arg("y", I.buffer((len(values), 64), dtype))
        with I.launch_thread("blockIdx.x", 1), I.launch_thread("threadIdx.x", 64) as lane:
            for place, value in enumerate(values):
                I.buffer_store(y, tirx.FloatImm(dtype, value), [place, lane])
    source = compile_device(built.get(), make_target("cuda:sm_80")).source
    written = re.findall(r"^ *y_ptr\[.*\] = (.*?)f?(?:/\*.*)?;$", source, re.MULTILINE)
    assert [_as_cuda_reads(text, dtype) for text in written] == [
        np.dtype(dtype).type(v) for v in values
    ]


def _as_cuda_reads(text, dtype):
    if bits := re.fullmatch(r"__\w+_as_\w+\((?:\(\w+\))?(-?\d+)\)", text):
        return np.array(int(bits[1]), f"int{np.dtype(dtype).itemsize * 8}").view(dtype)[()]
    return np.dtype(dtype).type(float.fromhex(text) if "0x" in text else float(text))


@pytest.mark.parametrize("function", ["erf", "tanh", "log"])
def test_functions_of_doubles_compile(function):
    op = ops.matmul((4, 8), (8, 4), dtype="float64", epilogue=f"{function}(arg0)")
    (kernel,) = inspect_op(op, "rocm:gfx942").resources.values()
    assert kernel.scratch_bytes == 0


@pytest.mark.parametrize("chip", ["gfx942", "gfx1100"])
def test_a_view_of_shared_memory_that_is_taken_for_global_memory_is_refused(chip):
    """TVM's code for AMD's GPUs does so where a view has another type; simulation does not."""

    @T.prim_func
    def kernel(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "uint32")):
        T.launch_thread("blockIdx.x", 1)
        lane = T.launch_thread("threadIdx.x", 64)
        tile = T.alloc_buffer((64,), "float32", scope="shared")
        words = T.decl_buffer((64,), "uint32", data=tile.data, scope="shared")
        tile[lane] = x[lane]
        y[lane] = words[63 - lane]

    function = kernel.with_attr("global_symbol", "kernel")
    with pytest.raises(
        BuildError, match=r"an address in shared memory; .* casts it to address space"
    ):
        compile_device(function, make_target(f"rocm:{chip}"))


@pytest.mark.parametrize(
    ("cast", "refused"),
    [
        ("addrspacecast (ptr addrspace(3) @a to ptr addrspace(1))", "@a .* shared .* space 1,"),
        ("addrspacecast (ptr addrspace(3) @a to ptr)", "@a .* shared .* space 0,"),
        ("%p = addrspacecast ptr addrspace(5) %b to ptr addrspace(1)", "%b .* private .* space 1,"),
        ("%p = addrspacecast ptr addrspace(1) %b to ptr", None),
    ],
)
def test_casts_of_addresses_are_found_in_llvms_text(cast, refused):
    if refused is None:
        rocm.check_addresses(cast)
        return
    with pytest.raises(BuildError, match=refused):
        rocm.check_addresses(cast)


@pytest.mark.parametrize("keys", [16, 64])
def test_attention_with_one_step_of_keys_reads_what_it_wrote(keys):
    op = ops.attention((1, 1, 16, 16), (1, 1, keys, 16), (1, 1, keys, 16), dtype="float16")
    assert inspect_op(op, "rocm:gfx942").binary


def test_what_nvrtc_writes_to_is_no_bytes():
    # Bytes of one character are the interpreter's own, each literal the same object.
    def nothing(_program, data):
        data[0] = 0  # the end of a text in C

    assert cuda._text(lambda _program: (None, 1), nothing, None) == ""
