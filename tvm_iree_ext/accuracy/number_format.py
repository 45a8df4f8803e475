"""Float formats as accuracy is measured in: units in the last place, and the largest number."""

from dataclasses import dataclass

import ml_dtypes
import numpy as np

from tvm_iree_ext.base.dtypes import numpy_dtype


@dataclass(frozen=True)
class NumberFormat:
    """A float format of base 2.

    Attributes:
        name: the type's.
        mantissa: bits behind the point.
        least_exponent: of normal numbers; the unit of subnormal numbers is theirs.
        largest: the largest finite number.
    """

    name: str
    mantissa: int
    least_exponent: int
    largest: float

    def units(self, values: np.ndarray) -> np.ndarray:
        """The unit in the last place at each of finite float64 values."""
        exponents = np.where(values == 0, self.least_exponent, np.frexp(values)[1] - 1)
        exponents = np.maximum(exponents, self.least_exponent)
        exponents = np.minimum(exponents, int(np.frexp(self.largest)[1]) - 1)
        return np.ldexp(1.0, exponents - self.mantissa)

    def overflows(self, values: np.ndarray) -> np.ndarray:
        """Which float64 values are infinite when they are rounded to this format."""
        half = self.units(np.array(self.largest)) / 2
        # Beyond float64's own largest number nothing is but infinity.
        with np.errstate(invalid="ignore"):  # of NaN that signal
            return np.isinf(values) | ((np.abs(values) - self.largest) >= half)


def number_format(dtype: str) -> NumberFormat:
    """The format of a type by its canonical name."""
    info = ml_dtypes.finfo(numpy_dtype(dtype))
    return NumberFormat(dtype, int(info.nmant), int(info.minexp), float(info.max))
