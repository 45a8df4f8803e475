"""Loops and branches of a program in its launch plan: what the host decides, by numbers of the GPU.

    a loop:     state = first values;  while (number read) { kernels of the body;  state = yields }
    a branch:   if (number read) { kernels;  result = yields } else { ... }

A region's steps stand where it is run, with memory of its own.  What a body yields is copied into
the state, since the body's kernels read the state; what every step hands on as it came is never
copied.  What loops and branches mean, and how they are described, is said in
:mod:`~tvm_iree_ext.runtime.program_control`.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from tvm_iree_ext.programs.launch_plans.planned_arrays import Count, PlannedArray, says_extents
from tvm_iree_ext.programs.launch_plans.planned_steps import PlannedSteps, Step
from tvm_iree_ext.tir.tir_expressions import known

Arrays = list[PlannedArray]


class ControlPlanner:
    """A loop or a branch as steps.

    Args:
        plan: which they are added to.
        types: of the results; an extent may be open.
        homes: where results are to lie, by their places; others may lie anywhere.
        used: the places of the results that anything uses.
    """

    def __init__(
        self,
        plan: PlannedSteps,
        types: Sequence[Any],
        homes: Mapping[int, PlannedArray],
        used: Collection[int],
    ) -> None:
        self._plan, self._types, self._homes, self._used = plan, types, homes, used

    def add(self, text: str, given: Sequence[PlannedArray]) -> Arrays:
        """Add the steps; the results.

        Args:
            text: what the virtual machine of a CPU is told of it.
            given: the tensors that it takes.
        """
        what = json.loads(text)
        kinds = {"for": self._for, "while": self._while, "branch": self._branch}
        return kinds[what["kind"]](what, given)

    def _for(self, what: Mapping[str, Any], given: Sequence[PlannedArray]) -> Arrays:
        plan, body = self._plan, what["body"]
        start, stop, step = (plan.number_of(one) for one in given[:3])
        if not isinstance(step, int) or step < 1:
            plan.require(f"{step} > 0", "the step of a loop is below 1; expected 1 or more")
        carried, captured = _split(given[3:], what["carried"])
        kept = {place for place in range(len(carried)) if body["ports"][place] == 1 + place}
        _, *types = plan.parameter_types(body["name"])
        states = self._states(carried, types, kept, self._homes)
        turn = plan.let("turn", start)
        number = plan.new("number", PlannedArray("", given[0].dtype, ()))
        steps, yielded = self._region(body, [number, *states], captured)
        with plan.into(steps):
            self._assign(yielded, states, self._homes)
            plan.steps.append({"let": turn, "value": f"{turn} + {step}"})
        write = {"write": number.name, "dtype": number.dtype, "value": turn}
        plan.steps.append({"while": f"{turn} < {stop}", "before": [], "steps": [write, *steps]})
        return self._apart(states, {one.name for one in given})

    def _while(self, what: Mapping[str, Any], given: Sequence[PlannedArray]) -> Arrays:
        plan, (before, after) = self._plan, (what["before"], what["after"])
        carried, captured = _split(given, what["carried"])
        of_before, of_after = _split(captured, before["captured"])
        passed_on = before["ports"][1:]
        kept = {
            place
            for place, port in enumerate(after["ports"])
            if port >= 0 and passed_on[port] == place
        }
        states = self._states(carried, plan.parameter_types(before["name"]), kept, {})
        homes = {1 + place: home for place, home in self._homes.items()}
        deciding, (condition, *passed) = self._region(before, states, of_before, homes)
        with plan.into(deciding):
            holds = plan.number_of(condition)
        steps, yielded = self._region(after, passed, of_after)
        with plan.into(steps):
            self._assign(yielded, states, {})
        plan.steps.append({"while": f"{holds} != 0", "before": deciding, "steps": steps})
        return self._apart(passed, {one.name for one in given})

    def _branch(self, what: Mapping[str, Any], given: Sequence[PlannedArray]) -> Arrays:
        plan, (selector, *rest) = self._plan, given
        chosen = plan.number_of(selector)
        results = [self._result(place) for place in range(len(self._types))]
        kinds = enumerate(self._types)
        ready = {place: results[place] for place, kind in kinds if says_extents(kind)}
        ways: list[list[Step]] = []
        for region in what["regions"]:
            captured, rest = _split(rest, region["captured"])
            steps, yielded = self._region(region, [], captured, ready)
            with plan.into(steps):
                for place, (value, result) in enumerate(zip(yielded, results, strict=True)):
                    if place not in ready:
                        plan.allocate(PlannedArray(result.name, value.dtype, value.shape))
                        self._rename_extents([(value, result)])
                    plan.copy(value, result)
            ways.append(steps)
        *others, chain = ways
        for case, steps in reversed(list(zip(what["cases"], others, strict=True))):
            chain = [{"if": f"{chosen} == {case}", "then": steps, "else": chain}]
        plan.steps += chain
        return results

    def _region(
        self,
        region: Mapping[str, Any],
        arguments: Arrays,
        captured: Arrays,
        homes: Mapping[int, PlannedArray] | None = None,
    ) -> tuple[list[Step], Arrays]:
        """The steps of a region, and what it yields; ``homes`` are by the places of that."""
        places: dict[int, PlannedArray] = {}
        for place, home in (homes or {}).items():
            if (port := region["ports"][place]) < 0:
                places.setdefault(-1 - port, home)
        steps, computed = self._plan.region(region["name"], [*arguments, *captured], places)
        return steps, [
            arguments[port] if port >= 0 else computed[-1 - port] for port in region["ports"]
        ]

    def _states(
        self,
        carried: Arrays,
        types: Sequence[Any],
        kept: Collection[int],
        homes: Mapping[int, PlannedArray],
    ) -> Arrays:
        """What a loop carries, with the first values; what is ``kept`` stays where it is.

        An extent that may be another in each round has a name, which each round gives its value.
        """
        states = []
        for place, (first, kind) in enumerate(zip(carried, types, strict=False)):
            if place in kept:
                states.append(first)
                continue
            numbers = map(known, kind.shape.values)
            shape = tuple(
                self._plan.let("extent", text) if number is None else number
                for number, text in zip(numbers, first.shape, strict=True)
            )
            home = homes.get(place)
            name = self._plan.fresh("state") if home is None else home.name
            states.append(PlannedArray(name, first.dtype, shape))
            if home is None:
                self._plan.allocate(states[-1])
            self._plan.copy(first, states[-1])
        return states

    def _assign(self, values: Arrays, states: Arrays, homes: Mapping[int, PlannedArray]) -> None:
        """Give states new values, all at once."""
        plan, memory = self._plan, {state.name for state in states}
        moved = []
        for place, (value, state) in enumerate(zip(values, states, strict=True)):
            if value.name == state.name:
                continue
            if value.name in memory:
                between = plan.new("between", value)
                plan.copy(value, between)
                value = between
            moved.append((place, value, state))
        for place, value, state in moved:
            if _open_axes(state) and place not in homes:
                plan.allocate(PlannedArray(state.name, value.dtype, value.shape))
            plan.copy(value, state)
        self._rename_extents([(value, state) for _, value, state in moved])

    def _rename_extents(self, pairs: Sequence[tuple[PlannedArray, PlannedArray]]) -> None:
        """Have the names of the second arrays' extents be the extents of the first."""
        found = [
            (state.shape[axis], self._plan.let("extent", value.shape[axis]))
            for value, state in pairs
            for axis in _open_axes(state)
        ]
        self._plan.steps += [{"let": name, "value": between} for name, between in found]

    def _result(self, place: int) -> PlannedArray:
        """Where a branch's result lies; its memory is taken here if its extents are known."""
        plan, kind, home = self._plan, self._types[place], self._homes.get(place)
        is_known, shape = says_extents(kind), tuple[Count, ...]()
        if is_known:
            shape = tuple(plan.number(one) for one in kind.shape.values)
        else:
            shape = tuple(plan.fresh("extent") for _ in range(kind.ndim))
        if home is not None:
            return PlannedArray(home.name, home.dtype, shape)
        result = PlannedArray(plan.fresh("result"), str(kind.dtype), shape)
        if is_known:
            plan.allocate(result)
        return result

    def _apart(self, values: Arrays, taken: set[str]) -> Arrays:
        """A loop's results: those that are used in memory that nothing else has."""
        plan, results = self._plan, []
        for place, value in enumerate(values):
            home = self._homes.get(place)
            result = value if home is None else PlannedArray(home.name, value.dtype, value.shape)
            if home is None and value.name in taken and place in self._used:
                result = plan.new("result", value)
            plan.copy(value, result)
            taken.add(result.name)
            results.append(result)
        return results


def _split(arrays: Sequence[PlannedArray], count: int) -> tuple[Arrays, Arrays]:
    return [*arrays[:count]], [*arrays[count:]]


def _open_axes(array: PlannedArray) -> list[int]:
    """The axes whose extents are names, which may get other values."""
    return [axis for axis, extent in enumerate(array.shape) if isinstance(extent, str)]
