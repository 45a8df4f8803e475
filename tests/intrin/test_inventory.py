"""Every kind with fragments becomes its instruction, in registers alone."""

import re
from collections import defaultdict

import pytest
from tvm import ir

from tvm_iree_ext.codegen.gpu.cuda import find_tool, nvrtc_obstacle
from tvm_iree_ext.codegen.gpu.device_code import compile_device
from tvm_iree_ext.intrin.tensor_intrins import intrins_obstacle
from tvm_iree_ext.simulator.runs.sample_mma import tile_product
from tvm_iree_ext.targets.gpu import chip_names
from tvm_iree_ext.targets.mma.mma_kinds import FROM_SHARED
from tvm_iree_ext.targets.mma.mma_table import mma_kind, mma_table
from tvm_iree_ext.targets.names import make_target

ROWS = [row for row in mma_table().values() if intrins_obstacle(row) is None]
AMD = [row for row in ROWS if row.vendor == "amd"]
NVIDIA = [row for row in ROWS if row.vendor == "nvidia"]


def chip_of(row):
    return next(name for name in row.arch if name in chip_names())


def names_of(row):
    """What the chip's assembler calls the instruction."""
    if row.kind == "virtual_sparse":
        return (row.composed_of["base"],)
    return (mma_kind(row.composed_of["base"]) if row.composed_of else row).isa


def test_only_undocumented_registers_are_left_out():
    """Those that read shared memory are in test_wgmma and test_tcgen05, others in products."""
    left = [row for row in mma_table().values() if row not in ROWS]
    left = [row for row in left if row.kind not in (*FROM_SHARED, "scaled")]
    assert [row.name for row in left] == ["NV_WMMA_F32_16x16x16_F16", "NV_WMMA_F16_16x16x16_F16"]
    assert all(row.operands() == {} for row in left)


def amd_code(row, **how):
    wave = "@wave64" if row.subgroup_size == 64 and row.name.startswith("WMMA") else ""
    return compile_device(tile_product(row.name, **how), make_target(f"rocm:{chip_of(row)}{wave}"))


def amd_calls(row, assembly):
    names = "|".join(re.escape(name.split()[0]) for name in names_of(row))
    return len(re.findall(rf"^\s+(?:{names})\b", assembly, re.MULTILINE))


def check_registers(resources):
    assert resources.scratch_bytes == 0
    assert resources.spills == 0


@pytest.mark.costly
@pytest.mark.parametrize("row", AMD, ids=lambda row: row.name)
def test_amd(row):
    code = amd_code(row)
    calls = row.composed_of["count"] if row.composed_of else 1
    assert amd_calls(row, code.assembly) in (calls, 2 * calls)  # two steps, in a loop or unrolled
    if row.kind == "scaled":
        assert "cbsz:4 blgp:4" in code.assembly
    assert code.binary[:4] == b"\x7fELF"
    check_registers(*code.resources.values())


COLUMN_MAJOR = ("MFMA_F32_32x32x8_F16", "VMFMA_F32_16x16x32_F16", "WMMAR4_F32_16x16x16_F16")


@pytest.mark.parametrize("name", COLUMN_MAJOR)
@pytest.mark.parametrize("transposed", [(), ("lhs", "rhs")])
def test_amd_from_shared_memory_column_major(name, transposed):
    row = mma_kind(name)
    code = amd_code(row, shared=True, transposed=transposed, column_major=True)
    assert amd_calls(row, code.assembly)
    assert "ds_read" in code.assembly or "ds_load" in code.assembly
    (resources,) = code.resources.values()
    check_registers(resources)
    bytes_ = 2 * (row.m + row.n) * row.k
    assert resources.shared_memory_bytes in (bytes_, bytes_ // 2)  # one after the other, or both


@pytest.mark.parametrize("row", NVIDIA, ids=lambda row: row.name)
def test_cuda_source(row, monkeypatch):
    monkeypatch.setattr("tvm_iree_ext.codegen.gpu.cuda.nvrtc_obstacle", lambda: "no NVRTC here")
    target = make_target(f"cuda:{chip_of(row)}")
    code = compile_device(tile_product(row.name), target)
    assert row.ptx in code.source
    assert (code.ptx, code.missing) == (None, "PTX and cubin: no NVRTC here")


WIDTH = {"f16": "HMMA", "bf16": "HMMA", "tf32": "HMMA", "f64": "DMMA", "i8": "IMMA", "i4": "IMMA"}


@pytest.fixture(scope="module")
def cuda_codes():
    """Chip -> a product of each kind, in one module: NVRTC takes longest over its headers."""
    products = defaultdict(dict)
    for row in NVIDIA:
        product = tile_product(row.name).with_attr("global_symbol", row.name)
        products[chip_of(row)][row.name] = product
    return {
        chip: compile_device(ir.IRModule(functions), make_target(f"cuda:{chip}"))
        for chip, functions in products.items()
    }


def part_of(text, start, name):
    """From the line of a text that begins a kernel up to the next such line."""
    parts = re.split(rf"^(?=.*{start})", text, flags=re.MULTILINE)
    (part,) = (part for part in parts if f"{name}_kernel" in part.partition("\n")[0])
    return part


@pytest.mark.costly
@pytest.mark.skipif(bool(nvrtc_obstacle()), reason=f"PTX: {nvrtc_obstacle()}")
@pytest.mark.skipif(not (find_tool("ptxas") and find_tool("nvdisasm")), reason="no ptxas, nvdisasm")
@pytest.mark.parametrize("row", NVIDIA, ids=lambda row: row.name)
def test_cuda_assembly(row, cuda_codes):
    code = cuda_codes[chip_of(row)]
    assert row.ptx in part_of(code.ptx, r"\.entry ", row.name)
    assembly = part_of(code.assembly, r"\.section\s+\.text\.", row.name)
    assert WIDTH.get(row.a, "QMMA") in assembly
    check_registers(code.resources[f"{row.name}_kernel"])


@pytest.mark.skipif(bool(nvrtc_obstacle()), reason=f"PTX: {nvrtc_obstacle()}")
@pytest.mark.skipif(not (find_tool("ptxas") and find_tool("nvdisasm")), reason="no ptxas, nvdisasm")
@pytest.mark.parametrize(("transposed", "load"), [((), "LDSM.16.MT88"), (("rhs",), "LDSM.16.M88")])
def test_ldmatrix_is_emitted(transposed, load):
    func = tile_product(
        "NV_MMA_SYNC_F32_16x8x16_BF16", shared=True, ldmatrix=True, transposed=transposed
    )
    code = compile_device(func, make_target("cuda:sm_80"))
    assert "LDSM.16.M88.4" in code.assembly
    assert f"{load}.2" in code.assembly
    check_registers(*code.resources.values())
