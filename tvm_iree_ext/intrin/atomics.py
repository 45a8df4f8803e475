"""Atomic updates of memory whose old value nobody asks for, for both vendors.

A call names a function over base, position and value, which is a line of PTX on NVIDIA and of LLVM
IR on AMD.  The order of the updates of one element is left open.
"""

from typing import Any

from tvm import ir, tirx
from tvm.script import tirx as T

PREFIX = "tvm_iree_ext_atomic_"
"""How the names of functions over a base and a position of global memory begin."""

_SHARED_ADD = "tvm_iree_ext_shared_add_int32"
_CUDA_SHARED_ADD = """
__forceinline__ __device__ void NAME(int* base, int position, int value) {
  asm volatile("red.relaxed.cta.shared.add.u32 [%0], %1;"
               :: "l"(__cvta_generic_to_shared(base + position)), "r"(value) : "memory");
}
"""
_WHOLE = {"int32": "s32", "uint32": "u32", "int64": "s64", "uint64": "u64"}
_FLOATS = {"float16": "f16", "float32": "f32", "float64": "f64"}
_BITWISE = ("and", "or", "xor")
_REGISTERS = {"float16": "h", "float32": "f", "float64": "d"}
_LLVM_TYPES = {"float16": "half", "float32": "float", "float64": "double"}


def has_atomic(combine: str, dtype: str) -> bool:
    """Whether all GPUs here update elements of a type so: ``add``, ``min``, ``and`` and so on."""
    if combine == "add":
        return dtype in _WHOLE or dtype in _FLOATS
    return combine in ("min", "max", *_BITWISE) and dtype in _WHOLE


def atomic_update(kind: str, combine: str, buffer: Any, position: Any, value: Any) -> Any:
    """A call that combines ``value`` into an element of a flat position; for ``I.evaluate``.

    Args:
        kind: of the target, ``cuda`` or ``rocm``.
        combine: what :func:`has_atomic` knows of the buffer's type.
        buffer: in global memory.
        position: row-major, int64.
        value: of the buffer's type.
    """
    dtype = str(buffer.dtype)
    name = f"{PREFIX}{combine}_{dtype}"
    if kind == "rocm":
        return tirx.call_extern("int32", name, buffer.data, position, value)
    source = _cuda_function(name, combine, dtype)
    return T.cuda.func_call(name, buffer.data, position, value, source_code=source)


def shared_add(kind: str, buffer: Any, position: Any, value: Any) -> Any:
    """A call that adds to an ``int32`` of shared memory at an ``int32`` position."""
    if kind == "rocm":
        return tirx.call_extern("int32", _SHARED_ADD, buffer.data, position, value)
    source = _CUDA_SHARED_ADD.replace("NAME", _SHARED_ADD)
    return T.cuda.func_call(_SHARED_ADD, buffer.data, position, value, source_code=source)


def with_wide_position(call: Any) -> Any:
    """A call of an AMD's atomic function with a position of 64 bits, as the function takes it.

    TVM narrows a position that small arrays bound to 32 bits; the registers of value and position
    would then not be those that the function reads.
    """
    name = call.args[0].value if call.args and isinstance(call.args[0], ir.StringImm) else ""
    if not name.startswith(PREFIX) or str(call.args[2].ty.dtype) == "int64":
        return call
    _, base, position, *rest = call.args
    dtype = str(call.ty.dtype)
    return tirx.call_extern(dtype, name, base, tirx.Cast("int64", position), *rest)


def _cuda_function(name: str, combine: str, dtype: str) -> str:
    bits = dtype.lstrip("uintfloa")
    if combine in _BITWISE:
        form = f"{combine}.b{bits}"
    elif combine == "add" and dtype in _WHOLE:
        form = f"add.u{bits}"
    else:
        form = f"{combine}.{_WHOLE.get(dtype) or _FLOATS[dtype]}"
    form = form.replace("add.f16", "add.noftz.f16")
    register = _REGISTERS.get(dtype, "r" if bits == "32" else "l")
    given = "__half_as_ushort(value)" if dtype == "float16" else "value"
    return f"""
template <typename Element>
__forceinline__ __device__ void {name}(Element* base, long long position, Element value) {{
  asm volatile("red.relaxed.gpu.global.{form} [%0], %1;"
               :: "l"(__cvta_generic_to_global(base + position)), "{register}"({given}) : "memory");
}}
"""


def atomic_definitions() -> str:
    """LLVM IR of the functions that kernels for AMD call."""
    # Memory of the device alone, without which LLVM tries again and again instead.
    lines = ["!1 = !{}"]
    for dtype in (*_WHOLE, *_FLOATS):
        kind = _LLVM_TYPES.get(dtype) or f"i{dtype.lstrip('uint')}"
        for combine in ("add", "min", "max", *_BITWISE):
            if has_atomic(combine, dtype):
                lines += _amd_function(f"{PREFIX}{combine}_{dtype}", combine, dtype, kind)
    lines += [
        f"define linkonce_odr i32 @{_SHARED_ADD}"
        "(ptr addrspace(3) %base, i32 %position, i32 %value) alwaysinline {",
        "  %place = getelementptr i32, ptr addrspace(3) %base, i32 %position",
        "  %old = atomicrmw add ptr addrspace(3) %place, i32 %value"
        ' syncscope("workgroup") monotonic',
        "  ret i32 0",
        "}",
    ]
    return "\n".join(lines)


def _amd_function(name: str, combine: str, dtype: str, kind: str) -> list[str]:
    if dtype in _FLOATS:
        combine = f"f{combine}"
    elif dtype.startswith("u") and combine in ("min", "max"):
        combine = f"u{combine}"
    return [
        f"define linkonce_odr i32 @{name}(ptr addrspace(1) %base, i64 %position, {kind} %value)"
        " alwaysinline {",
        f"  %place = getelementptr {kind}, ptr addrspace(1) %base, i64 %position",
        f'  %old = atomicrmw {combine} ptr addrspace(1) %place, {kind} %value syncscope("agent")'
        " monotonic, !amdgpu.no.fine.grained.memory !1, !amdgpu.ignore.denormal.mode !1",
        "  ret i32 0",
        "}",
    ]
