"""Give what a kernel takes names that CUDA C++ takes.

For TVM's CUDA printer alone, which writes names as they are.  A parameter called ``half`` hides the
type of that name, and one called ``min`` the function.  Dynamic shared memory is declared
``extern``, so that kernels of one source that call theirs the same must have it of one type.
"""

import re

import tvm_ffi
from tvm import ir, tirx

_TYPES = (
    "half half2 half4 half8 bfloat16 nv_bfloat16 nv_bfloat162 uint uchar ushort ulong dim3 warpSize"
    " threadIdx blockIdx blockDim gridDim condval"
)
_FUNCTIONS = (
    "min max abs fabs floor ceil trunc round rint nearbyint sqrt rsqrt cbrt exp exp2 exp10 expm1"
    " log log2 log10 log1p sin cos tan sinh cosh tanh asin acos atan atan2 asinh acosh atanh pow"
    " fmod fmin fmax fma erf erfc hypot ldexp copysign nextafter isnan isinf isfinite signbit"
    " malloc free printf memcpy memset"
)
_TAKEN = {*_TYPES.split(), *_FUNCTIONS.split(), *(f"{name}f" for name in _FUNCTIONS.split())}
_VECTOR = re.compile(r"(u?(char|short|int|long|longlong)|float|double|half|fp8_e\w+?)_?x?\d+(_t)?")


@tirx.transform.prim_func_pass(opt_level=0)
def name_apart_from_cuda(
    func: tirx.PrimFunc, _mod: ir.IRModule, _ctx: ir.transform.PassContext
) -> tirx.PrimFunc:
    """``half`` becomes ``half_``, and dynamic shared memory has the kernel's name in its own."""
    renamed = {
        one: tirx.Var(f"{one.name}_", one.ty) for one in func.params if _is_taken(str(one.name))
    }
    kernel = (func.attrs or {}).get("global_symbol", "")

    def see(node: tirx.AllocBuffer) -> None:
        if node.buffer.scope() == "shared.dyn":
            renamed[node.buffer] = tirx.Var(f"{node.buffer.name}_of_{kernel}", node.buffer.ty)

    tvm_ffi.structural_walk(func.body, (tirx.AllocBuffer, see))
    if not renamed:
        return func
    params = [renamed.get(one, one) for one in func.params]
    body = tvm_ffi.structural_map(func.body, (ir.Var, lambda one: renamed.get(one, one)))
    return tirx.PrimFunc(params, body, func.ret_type, func.attrs)


def _is_taken(name: str) -> bool:
    return name in _TAKEN or _VECTOR.fullmatch(name) is not None
