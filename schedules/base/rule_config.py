"""Typed configs: what a rule takes from a :class:`LoweringConfig`, under the rule's own names.

A rule's typed config is a frozen dataclass whose fields say where they stand in the lowering
config, which is the form that is written and compared, and what may stand there:

>>> @dataclass(frozen=True)
... class TopkConfig(RuleConfig):
...     vectors: int = number("register_tile.vectors", 64)
...     digit_bits: int = number("register_tile.digit_bits", 16, forms=("select",))
...     fetch_ahead: bool = flag("stages", 1, 2)
>>> config = LoweringConfig("heap", register_tile={"vectors": 8})
>>> typed = TopkConfig.parse(ConfigCheck("cpu.topk", config), "heap", "select")
>>> typed
TopkConfig(algorithm='heap', vectors=8, digit_bits=0, fetch_ahead=False)
>>> typed.lowering() == config
True
"""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.schedules.base.rule import ConfigCheck
from tvm_iree_ext.schedules.base.space import Choice, Value

_USUAL = LoweringConfig()

_Typed = TypeVar("_Typed", bound="RuleConfig")


@dataclass(frozen=True)
class _Place:
    """Place of a field in a lowering config.

    Attributes:
        key: the config's field; that of a role as in ``register_tile.rows``.
        forms: the algorithms that read it; none where all do.
        read: the field's value, of a config's that is checked; the text names the place.
        write: the config's value.
    """

    key: str
    forms: tuple[str, ...]
    read: Callable[[ConfigCheck, str, Any], Any]
    write: Callable[[Any], Any]


def _placed(
    default: object,
    key: str,
    forms: tuple[str, ...],
    read: Callable[[ConfigCheck, str, Any], Any],
    write: Callable[[Any], Any] = lambda value: value,
) -> Any:
    return field(default=default, metadata={"place": _Place(key, forms, read, write)})


def number(
    key: str,
    most: int | None = None,
    *,
    least: int = 1,
    power_of_two: bool = False,
    optional: bool = False,
    forms: tuple[str, ...] = (),
) -> Any:
    """A field for a number of ``least`` to ``most``; 0 for none where optional, or where least."""

    def read(check: ConfigCheck, what: str, value: Any) -> int:
        if value is None and (optional or least == 0):
            return 0
        if power_of_two:
            return check.power_of_two(what, value, least, most)
        return check.count(what, value, most, least)

    return _placed(_USUAL.value(key) or 0, key, forms, read)


def flag(key: str, off: int | bool = False, on: int | bool = True) -> Any:
    """A field for one of two values: False is ``off`` in the config."""

    def read(check: ConfigCheck, what: str, value: Any) -> bool:
        known = type(value) is type(on) and value in (off, on)
        check.expect(known, what, value, f"{off} or {on}" if type(on) is int else "a bool")
        return bool(value == on)

    return _placed(_USUAL.value(key) == on, key, (), read, lambda value: on if value else off)


def text(key: str) -> Any:
    """A field for a text, such as the name of an instruction."""
    return _placed(_USUAL.value(key), key, (), lambda _, __, value: str(value))


def operands(*names: str) -> Any:
    """A field for those of an op's operands that are promoted."""

    def read(check: ConfigCheck, what: str, value: Any) -> tuple[str, ...]:
        check.expect(set(value) <= set(names), what, value, f"some of {' and '.join(names)}")
        return tuple(value)

    return _placed((), "promote", (), read)


@dataclass(frozen=True)
class RuleConfig:
    """The base of typed configs: which form of a rule, where it has several."""

    algorithm: str = _placed("", "algorithm", (), lambda _, __, value: value)

    @classmethod
    def parse(cls: type[_Typed], check: ConfigCheck, *algorithms: str) -> _Typed:
        """The typed form of a config whose algorithm is one of ``algorithms``.

        Fields that the algorithm does not read have their defaults.

        Raises:
            ScheduleError: for what the rule cannot use: rule, field, what came, what is taken.
        """
        config, form = check.config, check.algorithm(*algorithms)
        values = {
            name: place.read(check, _text(place.key), config.value(place.key))
            for name, place in cls._places().items()
            if not place.forms or form in place.forms
        }
        return cls(**values)

    def lowering(self) -> LoweringConfig:
        """The lowering config; without roles for numbers that are 0."""
        config = _USUAL
        for name, place in self._places().items():
            value = place.write(getattr(self, name))
            if value != 0 or "." not in place.key:
                config = config.with_value(place.key, value)
        return config

    def expect(self, check: ConfigCheck, name: str, holds: bool, expected: str) -> None:
        """``holds``, or the error about a field."""
        check.expect(holds, _text(self._places()[name].key), getattr(self, name), expected)

    def multiple(self, check: ConfigCheck, name: str, size: int, why: str) -> int:
        """How many times ``size`` a field is; an error where it is no multiple."""
        value: int = getattr(self, name)
        self.expect(check, name, value % size == 0, f"a multiple of {size} ({why})")
        return value // size

    @classmethod
    def choice(cls, name: str, values: tuple[Value, ...], times: tuple[str, ...] = ()) -> Choice:
        """Tuning choices of a field, as multiples of the product of others."""
        places = cls._places()
        place = places[name]
        units = tuple(places[unit].key for unit in times)
        return Choice(place.key, tuple(map(place.write, values)), units)

    @classmethod
    def _places(cls) -> dict[str, _Place]:
        return {one.name: one.metadata["place"] for one in fields(cls)}


def _text(key: str) -> str:
    name, _, role = key.partition(".")
    return f"{name}[{role!r}]" if role else name
