"""Checks of a lowering config, whose refusals name the rule and the number."""

from dataclasses import dataclass

from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.base.lowering_config import LoweringConfig


@dataclass(frozen=True)
class ConfigCheck:
    """Checks of a config for a rule; each raises ScheduleError that says what came."""

    rule: str
    config: LoweringConfig

    def expect(self, holds: bool, what: str, actual: object, expected: str) -> None:
        """``holds``, or the error about ``what``."""
        if not holds:
            raise ScheduleError(f"{self.rule}: {what} is {actual!r}; expected {expected}")

    def need(self, holds: bool, message: str) -> None:
        """``holds``, or an error of one's own words."""
        if not holds:
            raise ScheduleError(f"{self.rule}: {message}")

    def algorithm(self, *forms: str) -> str:
        """The algorithm, one of ``forms``."""
        form = self.config.algorithm
        expected = repr(forms[0]) if len(forms) == 1 else f"one of {', '.join(forms)}"
        self.expect(form in forms, "algorithm", form, expected)
        return form

    def tile(self, field: str, role: str, most: int | None = None) -> int:
        """The number of ``role`` in ``field``."""
        value = getattr(self.config, field).get(role)
        return self.count(f"{field}[{role!r}]", value, most)

    def parts(self, field: str, role: str, size: int) -> int:
        """How many parts of ``size`` the number of ``role`` in ``field`` is."""
        value = self.tile(field, role)
        self.expect(value % size == 0, f"{field}[{role!r}]", value, f"a multiple of {size}")
        return value // size

    def count(self, what: str, value: object, most: int | None = None, least: int = 1) -> int:
        """``value``, a number from ``least`` to ``most``."""
        expected = f"a number from {least}" if most is None else f"{least} to {most}"
        number = value if isinstance(value, int) and not isinstance(value, bool) else least - 1
        self.expect(least <= number <= (most or number), what, value, expected)
        return number

    def lanes(self, least: int = 1, most: int | None = None) -> int:
        """The lanes of a vector: a power of two."""
        return self.power_of_two("vector_lanes", self.config.vector_lanes, least, most)

    def power_of_two(
        self, what: str, value: object, least: int = 1, most: int | None = None
    ) -> int:
        """``value``, which is one of ``least`` to ``most``."""
        range_text = (f" from {least}" if least > 1 else "") + (f" up to {most}" if most else "")
        number = value if isinstance(value, int) and not isinstance(value, bool) else 0
        fits = least <= number <= (most or number) and number & (number - 1) == 0
        self.expect(fits, what, value, f"a power of two{range_text}")
        return number
