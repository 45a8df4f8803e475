import pytest
from tvm.target import Target

from tvm_iree_ext.base.errors import TargetError
from tvm_iree_ext.targets.names import make_target
from tvm_iree_ext.targets.vector_units import UNITS, vector_unit


@pytest.mark.parametrize(
    ("target", "name", "lanes", "registers"),
    [
        ("llvm:x86-64", "SSE", 4, 16),
        ("llvm:haswell", "AVX2", 8, 16),
        ("llvm:skylake-avx512", "AVX-512", 16, 32),
        ("llvm:neoverse-n1@aarch64-linux-gnu", "NEON", 4, 32),
    ],
)
def test_cpus_by_llvms_word(target, name, lanes, registers):
    unit = vector_unit(make_target(target))
    assert (unit.name, unit.lanes("float32"), unit.registers) == (name, lanes, registers)
    assert unit.memory_lanes("float32") == lanes


def test_gpu_threads_compute_scalars_and_move_128_bits():
    cuda, rocm = (vector_unit(Target({"kind": kind, **more})) for kind, more in (
        ("cuda", {"arch": "sm_80"}), ("rocm", {"mcpu": "gfx942"})
    ))  # fmt: skip
    assert [one.lanes("float32") for one in (cuda, rocm)] == [1, 2]
    assert [one.memory_lanes("float16") for one in (cuda, rocm)] == [8, 8]
    assert [one.memory_lanes("int8") for one in (cuda, rocm)] == [16, 16]
    assert (16, 16) in cuda.matrices
    assert (32, 32) in rocm.matrices


def test_a_type_without_arithmetic_has_no_lanes():
    assert UNITS["AVX2"].lanes("bfloat16") == 0
    assert UNITS["AVX2"].lanes("float16") == 0
    assert UNITS["NEON"].lanes("float16") == 8


def test_other_kinds_are_refused():
    with pytest.raises(TargetError, match="opencl: no table of vectors; there is one for llvm"):
        vector_unit(Target({"kind": "opencl"}))
