"""The steps of a launch plan, and its arithmetic.

An artifact's ``launch.py`` holds this module, too.
"""

import ast
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tvm_iree_ext.runtime.launch.launch_contract import Step

_ARITHMETIC = (
    ast.Expression, ast.Constant, ast.Name, ast.Load, ast.BinOp, ast.operator, ast.UnaryOp,
    ast.unaryop, ast.BoolOp, ast.boolop, ast.Compare, ast.cmpop, ast.IfExp, ast.Call,
)  # fmt: skip
_FUNCTIONS: dict[str, Callable[..., Any]] = {"min": min, "max": max, "int": int, "float": float}


@functools.cache
def _compiled(text: str) -> Any:
    tree = ast.parse(text, mode="eval")
    for node in ast.walk(tree):
        known = isinstance(node, _ARITHMETIC)
        if isinstance(node, ast.Call):
            known = isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS
        if not known:
            raise ValueError(f"the launch plan has {text!r}: {ast.unparse(node)} is no arithmetic")
    return compile(tree, "<launch plan>", "eval")


def number(value: int | str, names: Mapping[str, Any]) -> Any:
    """Evaluate a number of a plan, given the values of names."""
    if not isinstance(value, str):
        return value
    return eval(_compiled(value), {"__builtins__": {}, **_FUNCTIONS}, names)


def bind(
    plan: Mapping[str, Any], shapes: Mapping[str, Sequence[int]], numbers: Mapping[str, Any]
) -> dict[str, int]:
    """The extents that the arrays' shapes give, all of which must fit; some may be ``numbers``."""
    names: dict[str, int] = {}
    arrays = [one for one in plan["parameters"] if "shape" in one]
    for one in arrays:
        name, shape = one["name"], shapes[one["name"]]
        if len(shape) != len(one["shape"]):
            raise ValueError(f"{name} has rank {len(shape)}; expected {len(one['shape'])}")
        for extent, came in zip(one["shape"], shape, strict=True):
            if extent in plan["symbols"]:
                names.setdefault(extent, came)
    for one in arrays:
        for axis, (extent, came) in enumerate(zip(one["shape"], shapes[one["name"]], strict=True)):
            if came != (wanted := number(extent, {**numbers, **names})):
                raise ValueError(f"{one['name']} axis {axis} has extent {came}; expected {wanted}")
    return names


def follow(steps: Sequence[Step], names: dict[str, Any], do: Callable[[Step], Any]) -> None:
    """Do what a plan says: the steps that are no arithmetic, with numbers for their texts.

    ``do`` gives the number of a step that reads one.

    Raises:
        Unmet: where what the plan requires does not hold.
    """
    for step in steps:
        if "let" in step:
            names[step["let"]] = number(step["value"], names)
        elif "if" in step:
            follow(step["then"] if number(step["if"], names) else step["else"], names, do)
        elif "for" in step:
            start = number(step["from"], names)
            for count in range(number(step["count"], names)):
                names[step["for"]] = start + count
                follow(step["steps"], names, do)
        elif "while" in step:
            follow(step["before"], names, do)
            while number(step["while"], names):
                follow(step["steps"], names, do)
                follow(step["before"], names, do)
        elif "require" in step:
            if not number(step["require"], names):
                raise Unmet(step["message"])
        else:
            came = do({key: _settled(key, value, names) for key, value in step.items()})
            if "read" in step:
                names[step["read"]] = came


def _settled(key: str, value: Any, names: Mapping[str, Any]) -> Any:
    if key == "arguments":
        return [
            {**one, "value": number(one["value"], names)} if "value" in one else one
            for one in value
        ]
    if key in _NAMES:
        return value
    return (
        [number(one, names) for one in value] if isinstance(value, list) else number(value, names)
    )


# What is no number in a step.
_NAMES = ("allocate", "launch", "tensor_map", "array", "dtype", "read", "write", "copy")


class Unmet(ValueError):
    """What a plan requires does not hold for what a call computes."""


_BLOCKS = ("then", "else", "before", "steps")  # what has steps inside


def blocks_of(step: Step) -> Iterator[Sequence[Step]]:
    """The lists of steps inside a step."""
    if "tensor_map" not in step:  # whose steps are strides
        yield from (step[key] for key in _BLOCKS if key in step)


def is_prepared(steps: Sequence[Step]) -> bool:
    """Whether numbers alone say what is launched, so that it may be prepared before a call."""
    for step in steps:
        if any(kind in step for kind in ("while", "read", "write", "copy")):
            return False
        if not all(is_prepared(block) for block in blocks_of(step)):
            return False
    return True


def allocations(steps: Sequence[Step]) -> Iterator[str]:
    """The arrays that steps allocate, each as often as there is a step that does."""
    for step in steps:
        if "allocate" in step:
            yield step["allocate"]
        for block in blocks_of(step):
            yield from allocations(block)


def arrays_of(steps: Sequence[Step]) -> dict[str, None]:
    """The arrays that launches and tensor maps take, in order; not those that steps allocate."""
    found: dict[str, None] = {}
    for step in steps:
        for one in (step, *step.get("arguments", ())):
            if "array" in one:
                found.setdefault(one["array"])
        for block in blocks_of(step):
            found |= arrays_of(block)
    allocated = {*allocations(steps)}
    return {name: None for name in found if name not in allocated}


def free_names(steps: Sequence[Step]) -> set[str]:
    """The names whose values steps take from those before."""
    known: set[str] = set()
    free: set[str] = set()
    for step in steps:
        inside = {step["for"]} if "for" in step else set()
        for key, value in step.items():
            if key in _BLOCKS and "tensor_map" not in step:
                free |= free_names(value) - known - inside
            else:
                free |= _names_in(key, value) - known
        if "let" in step:
            known.add(step["let"])
    return free


def _names_in(key: str, value: Any) -> set[str]:
    if key in (*_NAMES, "let", "for", "message"):
        return set()
    if isinstance(value, str):
        return {*_compiled(value).co_names} - {*_FUNCTIONS}
    if isinstance(value, list):
        given = [one["value"] if isinstance(one, dict) and "value" in one else one for one in value]
        texts = [one for one in given if isinstance(one, str)]
        return set().union(*(_names_in("", text) for text in texts))
    return set()


def names_given(steps: Sequence[Step]) -> set[str]:
    """The names that steps give numbers to."""
    found = {step["let"] for step in steps if "let" in step}
    return found.union(*(names_given(block) for step in steps for block in blocks_of(step)))
