"""Exceptions that keep their class on the way through TVM.

TVM carries an exception out of a callback or a kernel by the name of its class, and makes a
RuntimeError of one whose name it does not know: after Ctrl-C in a pass a build would report that
TVM had refused something, and a kernel's refusal of its operands would be no CallError.
"""

import tvm_ffi

from tvm_iree_ext.base.errors import KERNEL_ERROR, CallError

tvm_ffi.register_error("KeyboardInterrupt", KeyboardInterrupt)
# What a compiled kernel raises for values that it refuses, such as indices out of range.
tvm_ffi.register_error(KERNEL_ERROR, CallError)
# A kernel checks what can only be known when it is called: an error of this name is ours.
tvm_ffi.register_error("CallError", CallError)
