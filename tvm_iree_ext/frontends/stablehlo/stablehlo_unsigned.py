"""StableHLO of unsigned integers, which IREE's front end takes for signed in places."""

import re

from tvm_iree_ext.base.errors import MlirError

_PRODUCT = re.compile(
    r"stablehlo\.(dot_general|dot|convolution)\b.*:"
    r" \(tensor<(?:[\d?]+x)*(ui\d+)>, tensor<(?:[\d?]+x)*ui\d+>\) -> tensor<(?:[\d?]+x)*(\w+)>"
)
_WIDENED = re.compile(
    r"(%\w+) = (?:stablehlo\.convert |\"stablehlo\.convert\"\()(%[\w#]+)\)?"  # pretty, or generic
    r" : \(tensor<((?:[\d?]+x)*)(i1|ui8|ui16|ui32)>\) -> tensor<(?:[\d?]+x)*(\w+)>"
)


def refuse_unsigned_products(text: str) -> None:
    """Refuse what IREE lowers wrongly: it widens the factors of products as if they were signed.

    Raises:
        MlirError: for a product of unsigned integers that has another element type.
    """
    for name, given, result in _PRODUCT.findall(text):
        if result != given:
            raise MlirError(
                f"stablehlo.{name} of {given} to {result}: IREE takes the factors for signed;"
                " convert them to the result's type before"
            )


def widened_by_signed(text: str) -> str:
    """The program with bools and unsigned integers converted by way of a signed type.

    IREE takes a conversion into a product that reads it, and there its operand for signed.  It
    leaves one of a type that not all values of would survive: the type in between is such.
    """

    def twice(found: re.Match[str]) -> str:
        result, given, shape, narrow, wide = found.groups()
        if wide in ("i64", "ui64"):
            between = "f64"
        else:
            between = "i64" if narrow == "ui32" or wide in ("i32", "ui32", "f64") else "i32"
        name, kind = f"%signed_{result[1:]}", f"tensor<{shape}{between}>"
        return (
            f"{name} = stablehlo.convert {given} : (tensor<{shape}{narrow}>) -> {kind}\n"
            f"{result} = stablehlo.convert {name} : ({kind}) -> tensor<{shape}{wide}>"
        )

    return _WIDENED.sub(twice, text)
