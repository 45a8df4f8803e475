"""Words that CUDA's compiler computes where it is told to, and not again from their parts later.

Two numbers in one word take one register only where the compiler does not see that it could keep
both instead.
"""

from typing import Any

from tvm.script import tirx as T

_NAME = "tvm_iree_ext_settled_int32"
_SOURCE = f"""
__forceinline__ __device__ int {_NAME}(int word) {{
  asm volatile("mov.b32 %0, %1;" : "=r"(word) : "r"(word));
  return word;
}}
"""


def settled(kind: str, word: Any) -> Any:
    """An ``int32``, computed here; for ``I.buffer_store``. LLVM for AMD needs no telling."""
    if kind != "cuda":
        return word
    return T.cuda.func_call(_NAME, word, source_code=_SOURCE, return_type="int32")
