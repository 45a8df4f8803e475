"""Loops of emitted kernels: serial ones, vectors, and runs cut into vectors."""

from collections.abc import Callable
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.tir.tir_expressions import Index, i64, known

_UNROLLED_PIECES = 16


def serial(stop: Index, start: Index = 0) -> Any:
    """A loop over int64 indices."""
    return I.serial(i64(start), i64(stop))


def vector_loop(lanes: int) -> Any:
    """A loop that becomes vector instructions; its body is written for one lane."""
    return I.vectorized(i64(0), i64(lanes))


def in_vectors(length: Index, lanes: int, piece: Callable[[Index, int], None]) -> None:
    """``piece(place, lanes)`` for all of a run: in vectors, then in what is left over.

    What is left of a length that is known goes in vectors of half the lanes and so on.
    """
    exact = known(length)
    blocks = i64(exact // lanes) if exact is not None else tirx.floordiv(length, i64(lanes))
    unrolled = exact is not None and exact // lanes <= _UNROLLED_PIECES
    with (I.unroll if unrolled else I.serial)(i64(0), blocks) as block:
        piece(block * lanes, lanes)
    if exact is None:
        with serial(length, blocks * lanes) as place:
            piece(place, 1)
        return
    at, lanes = exact // lanes * lanes, lanes // 2
    while at < exact:
        if exact - at >= lanes:
            piece(at, lanes)
            at += lanes
        else:
            lanes //= 2


def copied(length: Index, lanes: int, piece: Callable[[Index, int], None]) -> None:
    """``piece(place, lanes)`` for all of a run, of which vectors may overlap."""
    if known(length) is not None:
        in_vectors(length, lanes, piece)
        return
    whole = I.Bind(tirx.truncdiv(i64(length) + (lanes - 1), i64(lanes)))
    with I.If(i64(length) >= lanes):
        with I.Then(), serial(whole) as index:
            piece(I.Bind(tirx.min(index * lanes, i64(length) - lanes)), lanes)
        with I.Else(), serial(length) as place:
            piece(place, 1)
