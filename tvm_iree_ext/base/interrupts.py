"""Ctrl-C while TVM calls back into Python, as its passes and virtual machine do.

TVM carries an exception out of a callback by the name of its class, and makes a RuntimeError of
one whose name it does not know; a build would then report that TVM had refused something.
"""

import tvm_ffi

tvm_ffi.register_error("KeyboardInterrupt", KeyboardInterrupt)
