"""Words of global memory that workgroups hand one another while they run, for both vendors.

    ticket     which workgroup this is, in the order in which they ask
    publish    a word, of which not all bits are 0: it is seen whole or not at all
    seen       a word, 0 where nobody has published it yet
    awaited    the same, waited for until it is there

A word tells by itself that it is there, so that no order of other accesses is asked for: all are
relaxed.  Who waits for those with earlier tickets alone waits for workgroups that run already,
whatever the order in which the hardware starts them.
"""

from typing import Any

from tvm import tirx
from tvm.script import tirx as T

from tvm_iree_ext.intrin.atomics import PREFIX

WORDS = ("uint32", "uint64")
"""Types of published words; tickets are ``int32``."""

_LOAD = "ld.relaxed.gpu.global.u{bits} %0, [%1];"
_PAUSE_NS = 20  # a fraction of the way to L2 and back, some 200 ns on an H100


def ticket(kind: str, buffer: Any, position: Any) -> Any:
    """How many workgroups asked before, for ``I.Bind``; an ``int32``, in one lane.

    Args:
        kind: of the target, ``cuda`` or ``rocm``.
        buffer: of ``int32`` in global memory, 0 before the kernel starts.
        position: row-major, int64.
    """
    return _call(kind, "ticket", "int32", "int32", buffer, position)


def publish(kind: str, buffer: Any, position: Any, word: Any) -> Any:
    """A call that publishes a word that is not 0; for ``I.evaluate``."""
    return _call(kind, "store", str(buffer.dtype), "int32", buffer, position, word)


def seen(kind: str, buffer: Any, position: Any) -> Any:
    """A published word, for ``I.Bind``; 0 where there is none yet."""
    return _call(kind, "load", str(buffer.dtype), str(buffer.dtype), buffer, position)


def awaited(kind: str, buffer: Any, position: Any, word: Any) -> Any:
    """``word`` or, where it is 0, what is published in its place, for ``I.Bind``."""
    return _call(kind, "await", str(buffer.dtype), str(buffer.dtype), buffer, position, word)


def _call(kind: str, what: str, dtype: str, result: str, buffer: Any, *given: Any) -> Any:
    name = f"{PREFIX}{what}_{dtype}"
    if kind == "rocm":
        return tirx.call_extern(result, name, buffer.data, *given)
    bits = int(dtype.lstrip("uint"))
    source = _CUDA[what].format(
        name=name,
        load=_LOAD.format(bits=bits),
        bits=bits,
        type="unsigned int" if bits == 32 else "unsigned long long",
        register="r" if bits == 32 else "l",
        pause=_PAUSE_NS,
    )
    return T.cuda.func_call(
        name, buffer.data, *given, source_code=source,
        return_type="void" if what == "store" else result,
    )  # fmt: skip


_PLACE = '"l"(__cvta_generic_to_global(({type}*)base + position))'
_CUDA = {
    "ticket": """
__forceinline__ __device__ int {name}(void* base, long long position) {{
  {type} before;
  asm volatile("atom.relaxed.gpu.global.add.u{bits} %0, [%1], 1;"
               : "={register}"(before) : PLACE : "memory");
  return before;
}}
""",
    "store": """
__forceinline__ __device__ void {name}(void* base, long long position, {type} word) {{
  asm volatile("st.relaxed.gpu.global.u{bits} [%0], %1;"
               :: PLACE, "{register}"(word) : "memory");
}}
""",
    "load": """
__forceinline__ __device__ {type} {name}(void* base, long long position) {{
  {type} word;
  asm volatile("{load}" : "={register}"(word) : PLACE : "memory");
  return word;
}}
""",
    "await": """
__forceinline__ __device__ {type} {name}(void* base, long long position, {type} word) {{
  while (word == 0) {{
    asm volatile("nanosleep.u32 {pause};");
    asm volatile("{load}" : "={register}"(word) : PLACE : "memory");
  }}
  return word;
}}
""",
}
_CUDA = {what: text.replace("PLACE", _PLACE) for what, text in _CUDA.items()}


def handing_definitions() -> str:
    """LLVM IR of the functions that kernels for AMD call."""
    texts = [_AMD_TICKET.replace("NAME", f"{PREFIX}ticket_int32")]
    for dtype in WORDS:
        bits = int(dtype.lstrip("uint"))
        for what, text in _AMD.items():
            text = text.replace("NAME", f"{PREFIX}{what}_{dtype}").replace("LOAD", _AMD_LOAD)
            texts.append(text.replace("WORD", f"i{bits}").replace("BYTES", str(bits // 8)))
    return "\n".join(["declare void @llvm.amdgcn.s.sleep(i32)", *texts])


_AMD_TICKET = """
define linkonce_odr i32 @NAME(ptr addrspace(1) %base, i64 %position) alwaysinline {
  %place = getelementptr i32, ptr addrspace(1) %base, i64 %position
  %before = atomicrmw add ptr addrspace(1) %place, i32 1 syncscope("agent") monotonic
  ret i32 %before
}"""
_AMD_LOAD = 'load atomic WORD, ptr addrspace(1) %place syncscope("agent") monotonic, align BYTES'
_AMD = {
    "store": """
define linkonce_odr i32 @NAME(ptr addrspace(1) %base, i64 %position, WORD %word) alwaysinline {
  %place = getelementptr WORD, ptr addrspace(1) %base, i64 %position
  store atomic WORD %word, ptr addrspace(1) %place syncscope("agent") monotonic, align BYTES
  ret i32 0
}""",
    "load": """
define linkonce_odr WORD @NAME(ptr addrspace(1) %base, i64 %position) alwaysinline {
  %place = getelementptr WORD, ptr addrspace(1) %base, i64 %position
  %word = LOAD
  ret WORD %word
}""",
    "await": """
define linkonce_odr WORD @NAME(ptr addrspace(1) %base, i64 %position, WORD %first) alwaysinline {
begin:
  %place = getelementptr WORD, ptr addrspace(1) %base, i64 %position
  %lacking = icmp eq WORD %first, 0
  br i1 %lacking, label %again, label %done
again:
  call void @llvm.amdgcn.s.sleep(i32 1)
  %word = LOAD
  %still = icmp eq WORD %word, 0
  br i1 %still, label %again, label %done
done:
  %found = phi WORD [ %first, %begin ], [ %word, %again ]
  ret WORD %found
}""",
}
