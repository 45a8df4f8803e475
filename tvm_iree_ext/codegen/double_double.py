"""Numbers as sums of two float64, the second what the first was rounded by: double-double.

LLVM makes one rounding of a product and a sum where a processor can (a fused multiply-add). What is
derived from a product and its rounding must not see another product than that, so that a fence
stands behind each.  The methods are those of Dekker, Knuth and Ogita, Rump and Oishi.
"""

from dataclasses import dataclass

from tvm import tirx

from tvm_iree_ext.codegen.float_words import like
from tvm_iree_ext.codegen.math_calls import Share
from tvm_iree_ext.codegen.polynomials import Expr

_SPLITTER = 2.0**27 + 1
"""A product with it splits the 53 digits of a float64 into 26 and 26, signs taken (Veltkamp)."""


@dataclass(frozen=True)
class DoubleDouble:
    """``high + low``, where ``low`` is far below the last digits of ``high``, or near to them."""

    high: Expr
    low: Expr


@dataclass(frozen=True)
class DoubleDoubles:
    """Arithmetic of double-double numbers.

    Attributes:
        share: what makes values cheap to repeat.
        has_fma: whether a fused multiply-add is one instruction.
    """

    share: Share
    has_fma: bool = True

    def of(self, x: Expr) -> DoubleDouble:
        """A float64."""
        return DoubleDouble(x, like(0.0, x))

    def constant(self, high: float, low: float, x: Expr) -> DoubleDouble:
        """A constant of two parts, as many as another expression's lanes."""
        return DoubleDouble(like(high, x), like(low, x))

    def product(self, a: Expr, b: Expr) -> DoubleDouble:
        """``a * b``, exactly."""
        high = self._fenced(a * b)
        return DoubleDouble(high, self.share(self._product_less(a, b, high)))

    def sum(self, a: Expr, b: Expr) -> DoubleDouble:
        """``a + b``, exactly (Knuth)."""
        high = self.share(a + b)
        taken = self.share(high - a)
        return DoubleDouble(high, self.share((a - (high - taken)) + (b - taken)))

    def ordered_sum(self, a: Expr, b: Expr) -> DoubleDouble:
        """``a + b``, exactly where ``a`` is the larger one or 0 (Dekker)."""
        high = self.share(a + b)
        return DoubleDouble(high, self.share(b - (high - a)))

    def negated(self, a: DoubleDouble) -> DoubleDouble:
        """``-a``."""
        zero = like(0.0, a.high)
        return DoubleDouble(self.share(zero - a.high), self.share(zero - a.low))

    def add(self, a: DoubleDouble, b: DoubleDouble) -> DoubleDouble:
        """``a + b``, but for what the larger one's ``low`` is rounded by."""
        total = self.sum(a.high, b.high)
        return self.ordered_sum(total.high, self.share(total.low + (a.low + b.low)))

    def multiply(self, a: DoubleDouble, b: DoubleDouble) -> DoubleDouble:
        """``a * b``."""
        exact = self.product(a.high, b.high)
        return DoubleDouble(exact.high, self.share(exact.low + (a.high * b.low + a.low * b.high)))

    def quotient(self, a: DoubleDouble, b: DoubleDouble) -> DoubleDouble:
        """``a / b``."""
        inverse = self.share(like(1.0, b.high) / b.high)
        high = self._fenced(a.high * inverse)
        rest = like(0.0, high) - self._product_less(high, b.high, a.high)
        return DoubleDouble(high, self.share((rest + (a.low - high * b.low)) * inverse))

    def root(self, a: DoubleDouble) -> DoubleDouble:
        """The square root of what is not negative."""
        high = self.share(tirx.sqrt(a.high))
        rest = like(0.0, high) - self._product_less(high, high, a.high)
        zero = like(0.0, high)
        low = (rest + a.low) / (high + high)
        return DoubleDouble(high, self.share(tirx.Select(high > zero, low, zero)))

    def choice(self, condition: Expr, a: DoubleDouble, b: DoubleDouble) -> DoubleDouble:
        """One of two."""
        return DoubleDouble(
            self.share(tirx.Select(condition, a.high, b.high)),
            self.share(tirx.Select(condition, a.low, b.low)),
        )

    def scaled(self, a: DoubleDouble, power: Expr) -> DoubleDouble:
        """``a`` times a power of 2."""
        return DoubleDouble(self._fenced(a.high * power), self._fenced(a.low * power))

    def _product_less(self, a: Expr, b: Expr, c: Expr) -> Expr:
        """``a * b - c``, exactly where it is a float64."""
        if self.has_fma:
            minus = like(0.0, c) - c
            return tirx.call_llvm_pure_intrin(str(a.ty.dtype), "llvm.fma", a, b, minus)
        (a_high, a_low), (b_high, b_low) = self._halves(a), self._halves(b)
        high_part = self.share(a_high * b_high - c)
        return ((high_part + a_high * b_low) + a_low * b_high) + a_low * b_low

    def _halves(self, a: Expr) -> tuple[Expr, Expr]:
        lifted = self._fenced(a * like(_SPLITTER, a))
        high = self.share(lifted - (lifted - a))
        return high, self.share(a - high)

    def _fenced(self, x: Expr) -> Expr:
        """A value that LLVM does not take for the expression that it is computed by."""
        return self.share(tirx.call_llvm_pure_intrin(str(x.ty.dtype), "llvm.arithmetic.fence", x))
