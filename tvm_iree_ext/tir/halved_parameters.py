"""Functions whose parameters are words of 128 bits, as programs have them: two of 64 each.

No tensor of Relax has elements of 128 bits.  A kernel that is built by itself takes such words so,
too, once its buffers are halved (``codegen/wide_words.py``).
"""

from __future__ import annotations

from typing import Any

from tvm import s_tir, tirx

_WIDE, _HALF = "uint128", "uint64"


def with_halved_parameters(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """The function over parameters with a last axis of two halves, the lower first.

    What it computes with are the same wide words: views of the parameters' memory.
    """
    halves: dict[int, Any] = {}
    views: list[Any] = []
    for param in func.params:
        if str(getattr(param, "dtype", "")) != _WIDE or not hasattr(param, "shape"):
            continue
        align = min(int(param.data_alignment), 64)
        half = tirx.decl_buffer(
            [*param.shape, tirx.const(2, "int64")], _HALF, param.name, data_alignment=align
        )
        halves[hash(param)] = half
        views.append(tirx.DeclBuffer(param, data=half.data))
    if not halves:
        return func
    params = [halves.get(hash(param), param) for param in func.params]
    body = tirx.SeqStmt([*views, func.body])
    if isinstance(func.body, s_tir.SBlockRealize):  # such a body is one
        root = s_tir.SBlock([], [], [], "root", body)
        body = s_tir.SBlockRealize([], tirx.const(True, "bool"), root)
    return tirx.PrimFunc(params, body, func.ret_type, func.attrs)
