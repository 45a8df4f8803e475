"""Windows of im2col: which of their elements lie next to each other in memory."""

from tvm_iree_ext.ops.families.im2col.im2col import Im2col, Im2colLine


def innermost_line(op: Im2col) -> int:
    """The line that the result's last axis is of; its stride there is 1."""
    last = len(op.output.shape) - 1
    return next(number for number, line in enumerate(op.lines) if last in line.axes)


def segment_dims(op: Im2col) -> int:
    """From which coordinate of the innermost line on elements lie next to each other.

    Of the outermost such coordinate only a part may be there; of those after it all is.
    """
    line = op.lines[innermost_line(op)]
    rank, count = len(op.input.shape), len(line.dims)
    first = count
    for place in reversed(range(count)):
        is_next = line.dims[place] == rank - (count - place) and line.steps[place] == 1
        if not is_next or not all(_is_whole(op, line, one) for one in range(place + 1, count)):
            break
        first = place
    return first


def _is_whole(op: Im2col, line: Im2colLine, place: int) -> bool:
    """Whether a coordinate goes over all of its dim, which no other moves along."""
    dim = line.dims[place]
    pads = [side[dim] for side in op.input_pads]
    return dim not in op.m_pos and line.sizes[place] == op.input.shape[dim] and pads == [0, 0]
