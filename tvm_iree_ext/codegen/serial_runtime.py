"""What a CPU's kernels do without TVM's runtime: work by one thread, workspaces of the C library.

A kernel calls TVM's runtime by pointers that are in its library, such as
``__TVMBackendParallelLaunch``.  ``libtvm_runtime``, where it is loaded before, has ``tvm_ffi`` set
them; where it is not, TVM leaves them null, and the call ends the process.  Here they begin with
functions that are enough for one thread.  The linker takes these definitions, since TVM's are weak.
"""

import functools
from collections.abc import Iterable

import tvm
from tvm.target import Target

from tvm_iree_ext.codegen.llvm_text import compile_ir

# TVM, include/tvm/runtime/c_backend_api.h: TVMBackendParallelLaunch, TVMParallelGroupEnv (a handle
# and the number of tasks), TVMBackendParallelBarrier, TVMBackendAllocWorkspace, ...FreeWorkspace.
_FUNCTIONS = {
    "ParallelLaunch": """
define internal i32 @serial_launch(ptr %task, ptr %data, i32 %tasks) {
  %env = alloca { ptr, i32 }
  store { ptr, i32 } { ptr null, i32 1 }, ptr %env
  %status = call i32 %task(i32 0, ptr %env, ptr %data)
  ret i32 %status
}
@__TVMBackendParallelLaunch = global ptr @serial_launch
""",
    "ParallelBarrier": """
define internal i32 @serial_barrier(i32 %task, ptr %env) {
  ret i32 0
}
@__TVMBackendParallelBarrier = global ptr @serial_barrier
""",
    "AllocWorkspace": """
declare ptr @aligned_alloc(i64, i64)
define internal ptr @allocate(i32 %kind, i32 %device, i64 %bytes, i32 %code, i32 %bits) {
  %more = add i64 %bytes, 64
  %whole = and i64 %more, -64
  %memory = call ptr @aligned_alloc(i64 64, i64 %whole)
  ret ptr %memory
}
@__TVMBackendAllocWorkspace = global ptr @allocate
""",
    "FreeWorkspace": """
declare void @free(ptr)
define internal i32 @release(i32 %kind, i32 %device, ptr %memory) {
  call void @free(ptr %memory)
  ret i32 0
}
@__TVMBackendFreeWorkspace = global ptr @release
""",
}


def serial_runtime(objects: Iterable[bytes], target: Target) -> bytes | None:
    """An object file with what these object files call of TVM's runtime; None for nothing.

    Raises:
        BuildError: where LLVM refuses.
    """
    codes = list(objects)
    called = [name for name in _FUNCTIONS if any(_symbol(name) in code for code in codes)]
    return _compiled(tuple(called), str(target)) if called else None


def _symbol(name: str) -> bytes:
    return f"__TVMBackend{name}\0".encode()


@functools.cache
def _compiled(called: tuple[str, ...], target: str) -> bytes:
    text = "".join(_FUNCTIONS[name] for name in called)
    return compile_ir(text, tvm.target.Target(target))[0]
