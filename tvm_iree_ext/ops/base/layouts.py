"""Layouts, and the instructions that they are for, as they are given to ops."""

import json
from collections.abc import Mapping
from typing import Any

from tvm_iree_ext.base.errors import LayoutError, OpError
from tvm_iree_ext.layout import NestedLayout, parse_layout

LayoutLike = NestedLayout | str | Mapping[str, Any]


def as_layout(op: str, layout: object) -> NestedLayout:
    """A layout given in one of three ways.

    Raises:
        OpError: for anything else, and for a text or lists that are at fault.
    """
    try:
        if isinstance(layout, NestedLayout):
            return layout
        if isinstance(layout, str):
            return parse_layout(layout)
        if isinstance(layout, Mapping):
            return NestedLayout(**layout)
    except (LayoutError, TypeError) as error:
        raise OpError(f"{op}: layout: {error}") from None
    raise OpError(f"{op}: layout is {layout!r}; expected a NestedLayout, its text or its lists")


def as_mma_kind(op: str, mma_kind: object) -> Any:
    """What names a matrix instruction: a text, or plain JSON values, which rules look into.

    Raises:
        OpError: for anything else.
    """
    try:
        json.dumps(mma_kind)
    except (TypeError, ValueError):
        raise OpError(
            f"{op}: mma_kind is {mma_kind!r}; expected a text, or plain JSON values"
        ) from None
    return mma_kind
