"""Recurrent layers of ONNX, step by step, where front ends take no such layer or not all of it.

Equations and the order of gates are those of ONNX's documentation of ``LSTM``, ``GRU``, ``RNN``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm_iree_ext.frontends.onnx.onnx_rewriting import (
    Attributes,
    NotRewritten,
    Values,
    Writer,
    given,
)

_MOST_STEPS = 256
_PLAIN = ("Relu", "Tanh", "Sigmoid", "Softsign", "Softplus")
_Step = Callable[["_Layer", str, list[str]], list[str]]


class _Layer:
    """A layer in one direction: its weights, and the writing of a step."""

    def __init__(
        self, node: Any, values: Values, write: Writer, direction: int, gates: int
    ) -> None:
        said = Attributes(node)
        self.write, self.gates = write, gates
        self.hidden = said("hidden_size") or values.shape(node.input[2])[-1]
        self._direction = direction
        self.clip = said("clip")
        self.weight, self.recurrent = (self._transposed(node.input[i]) for i in (1, 2))
        bias = self.of_direction(given(node, 3)) if given(node, 3) else ""
        size = gates * self.hidden
        self.bias = (
            (self._slice(bias, 0, size), self._slice(bias, size, 2 * size)) if bias else None
        )

    def of_direction(self, name: str) -> str:
        """The part of this direction of an operand whose first axis are directions."""
        write = self.write
        return write("Gather", name, write.constant(self._direction, "i8"), axis=0)

    def _transposed(self, name: str) -> str:
        return self.write("Transpose", self.of_direction(name), perm=[1, 0])

    def _slice(self, name: str, start: int, end: int) -> str:
        bounds = (self.write.constant([one], "i8") for one in (start, end, -1))
        return self.write("Slice", name, *bounds)

    def parts(self, name: str, count: int) -> list[str]:
        """The parts of an array's last axis, one a gate."""
        return [
            self._slice(name, one * self.hidden, (one + 1) * self.hidden) for one in range(count)
        ]

    def products(self, x: str, state: str) -> tuple[str, str]:
        """Of the input and of the state, with their biases."""
        write = self.write
        ours, theirs = write("MatMul", x, self.weight), write("MatMul", state, self.recurrent)
        if self.bias:
            ours, theirs = write("Add", ours, self.bias[0]), write("Add", theirs, self.bias[1])
        return ours, theirs

    def activated(self, name: str, value: str) -> str:
        """An activation of a value, which is cut off before where the layer says so."""
        write = self.write
        if self.clip:
            bounds = (
                write("CastLike", write.constant(one, "f4"), value)
                for one in (-self.clip, self.clip)
            )
            value = write("Clip", value, *bounds)
        return write(name, value)


def rewrite_lstm(node: Any, values: Values, write: Writer) -> None:
    """An LSTM, with peepholes or without."""
    said = Attributes(node)

    def make(layer: _Layer, names: list[str]) -> _Step:
        peepholes = layer.of_direction(given(node, 7)) if given(node, 7) else ""
        peeps = layer.parts(peepholes, 3) if peepholes else []
        f, g, h = names

        def step(layer: _Layer, x: str, states: list[str]) -> list[str]:
            state, cell = states
            ours, theirs = layer.products(x, state)
            i, o, forget, c = layer.parts(write("Add", ours, theirs), 4)

            def with_peep(value: str, place: int, seen: str) -> str:
                if not peeps:
                    return value
                return write("Add", value, write("Mul", peeps[place], seen))

            into = layer.activated(f, with_peep(i, 0, cell))
            if said("input_forget", 0):
                one = write("CastLike", write.constant(1, "f4"), into)
                kept = write("Sub", one, into)
            else:
                kept = layer.activated(f, with_peep(forget, 2, cell))
            new = write("Add", write("Mul", kept, cell), write("Mul", into, layer.activated(g, c)))
            out = layer.activated(f, with_peep(o, 1, new))
            return [write("Mul", out, write(h, new)), new]

        return step

    _rewrite(node, values, write, 4, ["Sigmoid", "Tanh", "Tanh"], 2, make)


def rewrite_gru(node: Any, values: Values, write: Writer) -> None:
    """A GRU."""
    before = Attributes(node)("linear_before_reset", 0)

    def make(layer: _Layer, names: list[str]) -> _Step:
        f, g = names

        def step(layer: _Layer, x: str, states: list[str]) -> list[str]:
            (state,) = states
            ours, theirs = (layer.parts(one, 3) for one in layer.products(x, state))
            update = layer.activated(f, write("Add", ours[0], theirs[0]))
            reset = layer.activated(f, write("Add", ours[1], theirs[1]))
            if before:
                seen = write("Mul", reset, theirs[2])
            else:
                seen = layer.parts(layer.products(x, write("Mul", reset, state))[1], 3)[2]
            new = layer.activated(g, write("Add", ours[2], seen))
            one = write("CastLike", write.constant(1, "f4"), update)
            rest = write("Mul", write("Sub", one, update), new)
            return [write("Add", rest, write("Mul", update, state))]

        return step

    _rewrite(node, values, write, 3, ["Sigmoid", "Tanh"], 1, make)


def rewrite_rnn(node: Any, values: Values, write: Writer) -> None:
    """A plain recurrent layer."""

    def make(_layer: _Layer, names: list[str]) -> _Step:
        def step(layer: _Layer, x: str, states: list[str]) -> list[str]:
            return [layer.activated(names[0], write("Add", *layer.products(x, states[0])))]

        return step

    _rewrite(node, values, write, 1, ["Tanh"], 1, make)


def _rewrite(
    node: Any,
    values: Values,
    write: Writer,
    gates: int,
    usual: list[str],
    states: int,
    make: Callable[[_Layer, list[str]], _Step],
) -> None:
    """All steps in all directions; states are ``initial_h`` and ``initial_c``."""
    said, x = Attributes(node), node.input[0]
    direction = said.text("direction", "forward")
    count = 2 if direction == "bidirectional" else 1
    names = [one.decode() for one in said("activations", [])] or usual * count
    if any(name not in _PLAIN for name in names):
        raise NotRewritten(f"activations {', '.join(names)}")
    batch_first = bool(said("layout", 0))
    if batch_first:
        steps, batch = values.shape(x)[1], values.shape(x)[0]
    else:
        steps, batch = values.shape(x)[:2]
    if given(node, 4) and any(values.constant(node.input[4]) != steps):
        raise NotRewritten("sequences that end early")
    if steps > _MOST_STEPS:
        raise NotRewritten(f"{steps} steps")
    lines, ends = [], []
    for number in range(count):
        layer = _Layer(node, values, write, number, gates)
        step = make(layer, names[number * len(usual) : (number + 1) * len(usual)])
        current = [
            _initial(node, write, layer, place, batch, batch_first) for place in range(states)
        ]
        found: dict[int, str] = {}
        backward = direction == "reverse" or number == 1
        for place in range(steps)[:: -1 if backward else 1]:
            now = write("Gather", x, write.constant(place, "i8"), axis=1 if batch_first else 0)
            current = step(layer, now, current)
            found[place] = current[0]
        lines.append([found[place] for place in range(steps)])
        ends.append(current)

    def stacked(several: list[str], axis: int) -> str:
        where = write.constant([axis], "i8")
        return write("Concat", *(write("Unsqueeze", one, where) for one in several), axis=axis)

    # By step, then by direction: [steps, directions, batch, hidden], or the batch first.
    by_step = [stacked(list(one), 1 if batch_first else 0) for one in zip(*lines, strict=True)]
    write.give(stacked(by_step, 1 if batch_first else 0))
    for place in range(states):
        write.give(stacked([one[place] for one in ends], 1 if batch_first else 0), place + 1)


def _initial(
    node: Any, write: Writer, layer: _Layer, place: int, batch: int, batch_first: bool
) -> str:
    import numpy as np

    if name := given(node, 5 + place):
        if batch_first:
            name = write("Transpose", name, perm=[1, 0, 2])
        return layer.of_direction(name)
    zeros = write.constant(np.zeros((batch, layer.hidden), "f4"))
    return write("CastLike", zeros, node.input[0])
