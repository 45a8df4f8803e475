"""Windows of im2col: which of their elements lie next to each other in memory."""

from tvm_iree_ext.ops.families.im2col import Im2col


def segment_dims(op: Im2col) -> int:
    """From which of the window's dims on its elements lie next to each other."""
    dims = op.window_dims
    dilation = dict(zip(op.m_pos, op.dilations, strict=True))
    first, last = len(dims), len(op.input.shape) - 1
    for place in reversed(range(len(dims))):
        dim = dims[place]
        joins = dim == last - (len(dims) - 1 - place) and dilation.get(dim, 1) == 1
        # A dim can only be followed by whole ones: the window must span the next ones.
        if not joins or any(d in dilation for d in dims[place + 1 :]):
            break
        first = place
    return first
