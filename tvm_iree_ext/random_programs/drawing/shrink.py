"""A program that fails, made as small as it still fails: operations, results, extents, types."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tvm_iree_ext.random_programs.drawing.values import BoundedArray, Unsuited
from tvm_iree_ext.random_programs.drawing.vocabulary import meaning
from tvm_iree_ext.random_programs.drawing.web import Input, Node, Type, Web, pruned

_SHAPES = ("shape", "limit", "sizes")  # attributes that are extents
_NEUTRAL = {"low": 0, "high": 0, "interior": 0, "stride": 1, "start": 0, "size": 1}


def shrunk(web: Web, fails: Callable[[Web], bool], most: int = 150) -> Web:
    """The smallest web that is found by ``most`` trials, and fails as this one does."""
    tried = {web.to_json()}
    while True:
        for candidate in _candidates(web):
            if (text := candidate.to_json()) in tried:
                continue
            if len(tried) > most:
                return web
            tried.add(text)
            if fails(candidate):
                web = candidate
                break
        else:
            return web


def _candidates(web: Web) -> Iterator[Web]:
    """Smaller webs, the most smaller ones first; only those that mean something."""
    makers = (_parts, _cuts, _bypasses, _extents, _elements, _attributes, _fills)
    for make in makers:
        for candidate in make(web):
            try:
                yield _typed(candidate)
            except Unsuited:
                continue


def _typed(web: Web) -> Web:
    """The web with the types that its operations give."""
    values = meaning(web)[len(web.inputs) :]
    nodes = (replace(n, type=v.type) for n, v in zip(web.nodes, values, strict=True))
    return replace(web, nodes=tuple(nodes))


def _parts(web: Web) -> Iterator[Web]:
    """One result, or what one of the operations gives: the first of these first."""
    count = len(web.inputs)
    if len(web.results) > 1:
        for one in web.results:
            yield pruned(web, [one])
        for one in web.results:
            yield pruned(web, [other for other in web.results if other != one])
    if len(web.results) == 1 and len(web.nodes) > 1:
        for number in range(count, web.results[0]):
            yield pruned(web, [number])


def _cuts(web: Web) -> Iterator[Web]:
    """An input in place of what an operation gives: rather of one of the last."""
    count = len(web.inputs)
    try:
        values = meaning(web)
    except Unsuited:
        return
    for number in reversed(range(count, len(web.types))):
        if number in web.results and len(web.nodes) > 1 and len(web.results) == 1:
            continue
        if number not in web.results:
            yield _with_input(web, number, _like(values[number], number))


def _like(value: BoundedArray, seed: int) -> Input:
    """An input that has the range of a value."""
    low, high = (-2.0, 2.0)
    if value.data.size and value.dtype != "bool":
        low, high = float(np.min(value.data)), float(np.max(value.data))
    if not value.is_float:
        return Input(value.type, "whole", int(low), int(high), seed)
    return Input(value.type, "grid", float(np.floor(low)), float(np.ceil(high)), seed)


def _with_input(web: Web, number: int, new: Input) -> Web:
    count = len(web.inputs)
    place = {n: n if n < count else n + 1 for n in range(len(web.types))}
    place[number] = count
    nodes = tuple(
        replace(node, operands=tuple(place[one] for one in node.operands)) for node in web.nodes
    )
    grown = replace(
        web,
        inputs=(*web.inputs, new),
        nodes=nodes,
        results=tuple(place[one] for one in web.results),
    )
    return pruned(grown, grown.results)


def _bypasses(web: Web) -> Iterator[Web]:
    """An operand in place of what an operation gives."""
    count, types = len(web.inputs), web.types
    for number in reversed(range(count, len(types))):
        for operand in web.nodes[number - count].operands:
            if types[operand] == types[number] and number not in web.results:
                nodes = tuple(
                    replace(
                        node,
                        operands=tuple(operand if one == number else one for one in node.operands),
                    )
                    for node in web.nodes
                )
                yield pruned(replace(web, nodes=nodes), web.results)


def _extents(web: Web) -> Iterator[Web]:
    """A smaller extent in place of another, wherever it stands."""
    extents = sorted({n for type in web.types for n in type.shape if n > 1}, reverse=True)
    for extent in extents:
        for smaller in sorted({1, 2, 3, extent // 2, extent - 1}):
            if smaller < extent:
                yield _with_extent(web, extent, smaller)


def _with_extent(web: Web, old: int, new: int) -> Web:
    def shape(type: Type) -> Type:
        return replace(type, shape=tuple(new if n == old else n for n in type.shape))

    def attribute(name: str, value: Any) -> Any:
        if isinstance(value, list) and name in _SHAPES:
            return [new if n == old else n for n in value]
        return value

    def place(one: Input) -> Input:  # a place within the old extent becomes one within the new
        is_place = (one.low, one.high) == (0, old - 1)
        return replace(one, type=shape(one.type), high=new - 1 if is_place else one.high)

    inputs = tuple(map(place, web.inputs))
    nodes = tuple(
        replace(node, attributes={k: attribute(k, v) for k, v in node.attributes.items()})
        for node in web.nodes
    )
    return replace(web, inputs=inputs, nodes=nodes)


def _elements(web: Web) -> Iterator[Web]:
    """Everything in float32 or int32 in place of a rarer type."""
    dtypes = sorted({type.dtype for type in web.types} - {"float32", "int32", "bool"})
    for old in dtypes:
        new = "float32" if "float" in old else "int32"
        inputs = tuple(
            replace(one, type=replace(one.type, dtype=new)) if one.type.dtype == old else one
            for one in web.inputs
        )
        nodes = tuple(
            replace(
                node,
                attributes={k: new if v == old else v for k, v in node.attributes.items()},
            )
            for node in web.nodes
        )
        yield replace(web, inputs=inputs, nodes=nodes)


def _attributes(web: Web) -> Iterator[Web]:
    """Numbers of attributes that do less, one at a time."""
    for place, node in enumerate(web.nodes):
        for name, value in node.attributes.items():
            for simpler in _simpler(name, value):
                yield _with_attribute(web, place, node, {**node.attributes, name: simpler})


def _simpler(name: str, value: Any) -> Iterator[Any]:
    if isinstance(value, list) and name in _NEUTRAL:
        for index, number in enumerate(value):
            if number != _NEUTRAL[name]:
                yield [*value[:index], _NEUTRAL[name], *value[index + 1 :]]
    if isinstance(value, Sequence) and name == "axes" and len(value) > 1:
        for index in range(len(value)):
            yield [*value[:index], *value[index + 1 :]]
    if name in ("reverse", "descending") and value:
        yield False
    if name == "count" and value > 1:
        yield 1


def _with_attribute(web: Web, place: int, node: Node, attributes: Mapping[str, Any]) -> Web:
    nodes = list(web.nodes)
    nodes[place] = replace(node, attributes=attributes)
    return replace(web, nodes=tuple(nodes))


def _fills(web: Web) -> Iterator[Web]:
    """Numbers whose sums are exact."""
    for place, one in enumerate(web.inputs):
        if one.fill == "uniform":
            inputs = list(web.inputs)
            inputs[place] = replace(one, fill="grid")
            yield replace(web, inputs=tuple(inputs))
