"""Spaces as MetaSchedule knows them: points as schedules, decisions as traces.

What a rule makes of a config is no sequence of schedule primitives, so a schedule of MetaSchedule's
cannot be the kernel.  It carries the decisions instead: a module of one block, which stands for the
op, samples a place for each choice and is annotated with them.  So every candidate is an ordinary
trace, which goes through JSON and databases as any other, and gives one config.
"""

import json
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from tvm import IRModule, tirx
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import Trace
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.schedules.base.space import ConfigForm, Decisions, TuningSpace

BLOCK = "choices"
"""The block that stands for the op."""

_FORM = "form"  # the annotation that says which form the schedule is of


def carrier_module(described: Mapping[str, Any]) -> IRModule:
    """A module of one block, in a loop that a block under the root must have.

    ``described``: what it stands for, so that two are told apart.
    """
    with IRBuilder() as builder, I.prim_func(s_tir=True):
        I.func_name("main")
        at = I.arg("at", I.Buffer((1,), "int32", align=4))
        with I.sblock("root"), I.serial(0, 1) as i, I.sblock(BLOCK):
            place = I.axis.spatial(1, i)
            I.reads()
            I.writes(at[place])
            I.buffer_store(at, tirx.const(0, "int32"), [place])
    name = json.dumps(described, sort_keys=True)
    return IRModule({"main": builder.get().with_attr("task", name)})


class Carrier:
    """A space and the module whose schedules stand for its points."""

    def __init__(self, space: TuningSpace, described: Mapping[str, Any]) -> None:
        """``described``: what the space is for, so that two carriers are told apart."""
        self.space, self._described = space, described

    @cached_property
    def module(self) -> IRModule:
        """The module to schedule."""
        return carrier_module(self._described)

    def designs(self, schedule: Schedule) -> list[Schedule]:
        """A schedule for each form, with its decisions sampled: the function of a ScheduleFn."""
        return [
            self._sample(schedule.copy(), number, form)
            for number, form in enumerate(self.space.forms)
        ]

    def point(self, schedule: Schedule) -> Decisions:
        """The point that a schedule stands for."""
        found = schedule.get(schedule.get_sblock(BLOCK)).annotations
        number = int(found[_FORM])
        choices = self.space.forms[number].choices
        return (number, *(int(found[choice.name]) for choice in choices))

    def schedule(self, point: Decisions) -> Schedule:
        """The schedule that stands for a point."""
        number, *places = point
        return self._sample(Schedule(self.module), number, self.space.forms[number], places)

    def from_json(self, trace: Any) -> Schedule:
        """The schedule of a trace, from what ``trace.as_json()`` gave."""
        schedule = Schedule(self.module)
        Trace.apply_json_to_schedule(trace, schedule)
        return schedule

    @staticmethod
    def _sample(
        schedule: Schedule, number: int, form: ConfigForm, places: list[int] | None = None
    ) -> Schedule:
        block = schedule.get_sblock(BLOCK)
        schedule.annotate(block, _FORM, number)
        for index, choice in enumerate(form.choices):
            count = len(choice.values)
            decision = None if places is None else places[index]
            place = schedule.sample_categorical(
                list(range(count)), [1.0 / count] * count, decision=decision
            )
            schedule.annotate(block, choice.name, place)
        return schedule
