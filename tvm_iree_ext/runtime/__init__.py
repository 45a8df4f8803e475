"""All that a deployment imports: artifacts, calls, arrays.  Needs tvm_ffi, and no tvm."""
