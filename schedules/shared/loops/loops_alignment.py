"""How a function's buffers lie: TVM's fusion forgets it, and asks for more than callers promise."""

import tvm_ffi
from tvm import ir, tirx

from tvm_iree_ext.base.dtypes import item_bytes


def with_own_alignment(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """The function with parameters that need no more alignment than an item."""
    declared: dict[ir.Var, ir.Var] = {}
    for parameter in function.params:
        if isinstance(parameter.ty, tirx.BufferType):
            dtype = str(parameter.ty.dtype)
            declared[parameter] = tirx.decl_buffer(
                parameter.ty.shape, dtype, parameter.name, data_alignment=item_bytes(dtype)
            )
    body = tvm_ffi.structural_map(function.body, (ir.Var, lambda var: declared.get(var, var)))
    parameters = [declared.get(parameter, parameter) for parameter in function.params]
    return tirx.PrimFunc(parameters, body, function.ret_type, function.attrs)
