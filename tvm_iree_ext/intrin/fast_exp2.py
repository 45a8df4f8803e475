"""``2^x`` of float32 as one instruction, for kernels whose tolerance allows it.

AMD's ``v_exp_f32`` and NVIDIA's ``ex2.approx.ftz`` are within 2^-22 of the exact value, relatively,
and 0 where that is below the normal numbers.  CUDA's ``exp2f`` scales those, which takes three more
instructions for each number; all other functions of CUDA's kernels are the exact ones.
"""

from typing import Any

from tvm import tirx

EXP2_APPROX = "exp2_approx_ftz_f"
"""A function of CUDA's kernels, which :func:`with_definitions` defines."""

_DEFINITION = f"""\
static __forceinline__ __device__ float {EXP2_APPROX}(float x) {{
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}}

"""


def fast_exp2(kind: str, x: Any) -> Any:
    """The call for a target's kind, ``cuda`` or ``rocm``."""
    dtype = str(x.ty.dtype)
    if kind == "rocm":
        return tirx.call_llvm_pure_intrin(dtype, "llvm.amdgcn.exp2", x)
    return tirx.call_pure_extern(dtype, EXP2_APPROX, x)


def with_definitions(source: str) -> str:
    """CUDA source with what it calls of this module, right before the first function."""
    if EXP2_APPROX not in source:
        return source
    at = source.index('extern "C"')
    return source[:at] + _DEFINITION + source[at:]
