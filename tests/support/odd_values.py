"""JSON with one value made another, as in a file that somebody has edited, or that is hostile."""

import copy
import json
from collections.abc import Iterator
from typing import Any

_DEEP = json.loads("[" * 60 + "]" * 60)
ODD = (None, True, -1, 0, 1 << 62, 0.5, "", "x" * 1000, "\ud800\0", [], [[]], {}, {"": None}, _DEEP)
"""Values that some field or other does not take."""


def mutations(value: Any) -> Iterator[tuple[str, Any]]:
    """Every value of a JSON object in turn as each of ``ODD``, and left out; with what was done."""
    for path in _paths(value):
        for odd in ODD:
            made = copy.deepcopy(value)
            _parent(made, path)[path[-1]] = odd
            yield f"{path} = {str(odd)[:20]!r}", made
        made = copy.deepcopy(value)
        del _parent(made, path)[path[-1]]
        yield f"without {path}", made


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value)
    for name, one in inside:
        yield (*path, name)
        if isinstance(one, dict | list):
            yield from _paths(one, (*path, name))


def _parent(value: Any, path: tuple[Any, ...]) -> Any:
    for name in path[:-1]:
        value = value[name]
    return value
