"""Tuning spaces: the configs that a tuner may try, all of which a rule could have made by hand.

A space has one form or several, such as one for each algorithm of a rule.  A form is a config and,
for some of its fields, a finite choice of values; a point of the space is a place in each choice.
What only shows when numbers meet, such as a tile that does not fit a cache beside another, is for
``accept``, which refuses a config before anything is built.
"""

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.base.lowering_config import LoweringConfig

Value = int | str | bool | tuple[str, ...]

Decisions = tuple[int, ...]
"""A point of a space: which form, then the place of the value in each of its choices."""

_PATIENCE = 1000  # refused points after which a space counts as empty


@dataclass(frozen=True)
class Choice:
    """The values that a field of a config may have, the smallest first where they have an order.

    Attributes:
        name: the field; that of a role as in ``workgroup_tile.m``.
        values: each once.
        times: fields of the same form whose product a value is multiplied by: tiles that must be
            whole ones of smaller tiles are chosen so, and none is refused for it.
    """

    name: str
    values: tuple[Value, ...]
    times: tuple[str, ...] = ()


@dataclass(frozen=True)
class ConfigForm:
    """A config and what may be chosen in it.  :func:`form` makes one."""

    base: LoweringConfig
    choices: tuple[Choice, ...]

    @property
    def size(self) -> int:
        """How many points it has."""
        return math.prod(len(choice.values) for choice in self.choices)

    def config(self, places: Decisions) -> LoweringConfig:
        """The config at a point."""
        config = self.base
        # Those that others are multiples of come first.
        for choice, place in sorted(zip(self.choices, places, strict=True), key=_dependent):
            value = choice.values[place]
            if choice.times:
                assert isinstance(value, int)
                value *= _unit(config, choice)
            config = config.with_value(choice.name, value)
        return config

    def places(self, config: LoweringConfig) -> Decisions | None:
        """The point of a config; None where it is none of this form."""
        found = []
        for choice in self.choices:
            value = config.value(choice.name)
            if choice.times and isinstance(value, int):
                unit = _unit(config, choice)
                value = value // unit if unit and value % unit == 0 else None
            if value not in choice.values:
                return None
            found.append(choice.values.index(value))
        places = tuple(found)
        return places if self.config(places) == config else None


def form(base: LoweringConfig, *choices: Choice) -> ConfigForm:
    """A form whose choices have the values of ``base``, too; those of one value are left out."""
    found = []
    for choice in choices:
        own = base.value(choice.name)
        if choice.times and isinstance(own, int):
            unit = _unit(base, choice)
            # A base that is no whole multiple is its own unit: nothing else can be reached.
            own = own // unit if own % unit == 0 else None
        if own is None:
            continue
        values = {*choice.values, own}
        if len(values) > 1:
            ordered = all(isinstance(value, int) for value in values)
            by = sorted(values) if ordered else [own, *(v for v in choice.values if v != own)]
            found.append(replace(choice, values=tuple(by)))
    return ConfigForm(base, tuple(found))


def _dependent(one: tuple[Choice, int]) -> bool:
    return bool(one[0].times)


def _unit(config: LoweringConfig, choice: Choice) -> int:
    return math.prod(int(config.value(name)) for name in choice.times)


@dataclass(frozen=True)
class TuningSpace:
    """All configs that a tuner may try, the heuristic's among them.

    Attributes:
        forms: the first has the heuristic's config.
        accept: None, or why a config is refused: the rule's own checks and the target's limits.
    """

    forms: tuple[ConfigForm, ...]
    accept: Callable[[LoweringConfig], str | None] = lambda _: None

    @staticmethod
    def of(
        heuristic: LoweringConfig,
        forms: Sequence[ConfigForm],
        accept: Callable[[LoweringConfig], str | None] = lambda _: None,
    ) -> "TuningSpace":
        """The forms whose base is accepted; that of the heuristic's config stands first."""
        first = next((one for one in forms if one.places(heuristic) is not None), None)
        rest = [one for one in forms if one is not first and accept(one.base) is None]
        first = ConfigForm(heuristic, ()) if first is None else replace(first, base=heuristic)
        return TuningSpace((first, *rest), accept)

    @cached_property
    def size(self) -> int:
        """How many points there are, accepted or not."""
        return sum(form.size for form in self.forms)

    @property
    def heuristic(self) -> LoweringConfig:
        """The config for an op that was never tuned."""
        return self.forms[0].base

    def config(self, decisions: Decisions) -> LoweringConfig:
        """The config at a point."""
        return self.forms[decisions[0]].config(decisions[1:])

    def decisions(self, config: LoweringConfig) -> Decisions:
        """The point of a config.

        Raises:
            ScheduleError: where the space has none, as with a record of an older space.
        """
        for number, one in enumerate(self.forms):
            if (places := one.places(config)) is not None:
                return (number, *places)
        raise ScheduleError(f"the config is no point of the space: {config.to_json()}")

    def points(self) -> Iterator[Decisions]:
        """Every point that is accepted, in order."""
        for number, one in enumerate(self.forms):
            for places in product(*(range(len(choice.values)) for choice in one.choices)):
                if self.accept(one.config(places)) is None:
                    yield (number, *places)

    def sample(self, rng: random.Random) -> Decisions:
        """A point that is accepted, all forms and values being equally likely.

        Raises:
            ScheduleError: where none is found.
        """
        for _ in range(_PATIENCE):
            number = rng.randrange(len(self.forms))
            choices = self.forms[number].choices
            point = (number, *(rng.randrange(len(choice.values)) for choice in choices))
            if self.accept(self.config(point)) is None:
                return point
        raise ScheduleError(f"none of {_PATIENCE} points of a space of {self.size} is accepted")

    def neighbour(self, decisions: Decisions, rng: random.Random) -> Decisions:
        """A point that differs in one choice, more often by one place than by many."""
        number, *places = decisions
        choices = self.forms[number].choices
        if not choices:
            return decisions
        which = rng.randrange(len(choices))
        places[which] = other_place(places[which], len(choices[which].values), rng)
        return (number, *places)


def other_place(place: int, count: int, rng: random.Random) -> int:
    """Another of ``count`` places, in half of all cases the next one up or down."""
    near = [one for one in (place - 1, place + 1) if 0 <= one < count]
    if rng.random() < 0.5:
        return rng.choice(near)
    return rng.choice([one for one in range(count) if one != place])


def refusal(check: Callable[[], object]) -> str | None:
    """None, or the message of the ScheduleError that a check raises."""
    try:
        check()
    except ScheduleError as error:
        return str(error)
    return None


def powers_of_two(least: int, most: int) -> tuple[int, ...]:
    """From ``least`` to ``most``, both powers of two."""
    return tuple(1 << bit for bit in range(least.bit_length() - 1, most.bit_length()))


def around(config: LoweringConfig) -> TuningSpace:
    """The tuning space around a config: its tiles and shares in powers of two, its vectors halved.

    For rules whose numbers are free of one another.
    """
    choices = [
        Choice(f"{field}.{role}", _scaled(size))
        for field in ("workgroup_tile", "reduction_tile", "register_tile")
        for role, size in getattr(config, field).items()
    ]
    if config.vector_lanes > 1:
        choices.append(Choice("vector_lanes", (config.vector_lanes // 2,)))
    if config.splits > 1:
        choices.append(Choice("splits", (1, *_scaled(config.splits))))
    if config.streaming:
        choices.append(Choice("streaming", (False,)))
    return TuningSpace((form(config, *choices),))


def _scaled(size: int) -> tuple[int, ...]:
    return tuple(sorted({max(1, size // 4), max(1, size // 2), size, 2 * size, 4 * size}))
