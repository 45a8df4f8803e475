"""StableHLO as JAX writes it, in forms that IREE's front end takes and computes rightly."""

import re

from tvm_iree_ext.base.errors import MlirError

_ALGORITHM = re.compile(r"(= stablehlo\.dot_general [^\n]*?), algorithm = <[^>\n]*>")
_MESH = re.compile(r"^ *sdy\.mesh [^\n]*\n", re.MULTILINE)
_PLACED = re.compile(r"= sdy\.sharding_constraint (%[\w#]+) <[^>\n]*> : (tensor<\S+>)")
_TOP_K = re.compile(
    r"(%\w+), (%\w+) = chlo\.top_k\((%[\w#]+), ([^)\n]*)\) : tensor<((?:\d+x)*)(ui\d+)>"
    r" -> \(tensor<((?:\d+x)*)ui\d+>, (tensor<[^>\n]*>)\)"
)
_RUNNING = re.compile(
    r'(%\w+) = ("stablehlo\.reduce_window")\((%[\w#]+), (%[\w#]+)\) (<\{[^\n]*padding = [^\n]*\}>)'
    r" \(\{\n(.*?)\n *\}\) : \(tensor<((?:\d+x)*)(ui8|ui16|ui32)>, tensor<ui\d+>\)"
    r" -> tensor<((?:\d+x)*)ui\d+>",
    re.DOTALL,
)
_WHOLE = re.compile(
    r'(?P<result>%\w+) = "stablehlo\.scatter"\((?P<given>%[\w#]+), %[\w#]+, (?P<update>%[\w#]+)\)'
    r" <\{[^\n]*#stablehlo\.scatter<(?:update_window_dims = \[[\d, ]*\])?>[^\n]*\}>"
    r" (?P<body>\(\{\n.*?\n *\}\)) : \((?P<type>tensor<(?P<shape>(?:\d+x)*)\S+>), tensor<0x\w+>,"
    r" (?P=type)\) -> (?P=type)",
    re.DOTALL,
)
_REVERSED = re.compile(
    r"(%\w+) = stablehlo\.reverse (%[\w#]+), (dims = \[[\d, ]*\]) : tensor<((?:[\d?]+x)*)u(i\d+)>"
)
_WIDER = {"ui8": "i32", "ui16": "i32", "ui32": "i64"}


def taken_forms(text: str) -> str:
    """The text of a module that means the same.

    Products have no algorithm: operands are multiplied as they are, and sums are those of the
    result's type or wider.  Meshes of devices are left out, since one device has all.  Unsigned
    integers are ordered in a wider type with a sign, and reversed as bits.  A scatter without
    indices is the region on whole tensors.

    Raises:
        MlirError: for unsigned integers that no wider type is for.
    """
    text = _ALGORITHM.sub(r"\1", text)
    text = _PLACED.sub(r"= stablehlo.reshape \1 : (\2) -> \2", _MESH.sub("", text))
    text = _RUNNING.sub(_running, _TOP_K.sub(_largest, text))
    return _REVERSED.sub(_reversed, _WHOLE.sub(_whole, text))


def _whole(found: re.Match[str]) -> str:
    """A scatter whose one index has no dims: the region, element by element."""
    dims = ", ".join(map(str, range(found["shape"].count("x"))))
    return (
        f'{found["result"]} = "stablehlo.map"({found["given"]}, {found["update"]})'
        f" <{{dimensions = array<i64{': ' if dims else ''}{dims}>}}> {found['body']}"
        f" : ({found['type']}, {found['type']}) -> {found['type']}"
    )


def _reversed(found: re.Match[str]) -> str:
    """IREE moves no unsigned integers so."""
    result, given, dims, shape, signed = found.groups()
    name, kind = result[1:], f"tensor<{shape}{signed}>"
    return (
        f"%bits_{name} = stablehlo.bitcast_convert {given} : (tensor<{shape}u{signed}>) -> {kind}\n"
        f"%reversed_{name} = stablehlo.reverse %bits_{name}, {dims} : {kind}\n"
        f"{result} = stablehlo.bitcast_convert %reversed_{name}"
        f" : ({kind}) -> tensor<{shape}u{signed}>"
    )


def _largest(found: re.Match[str]) -> str:
    """``top_k`` of signed integers: IREE takes any for such."""
    values, places, given, count, shape, narrow, kept, kind = found.groups()
    if (wide := _WIDER.get(narrow)) is None:
        raise MlirError(
            f"chlo.top_k of {narrow}: IREE takes it for signed; uint8, uint16 and uint32 are"
            " supported"
        )
    name = values[1:]
    return (
        f"%given_{name} = stablehlo.convert {given}"
        f" : (tensor<{shape}{narrow}>) -> tensor<{shape}{wide}>\n"
        f"%wide_{name}, {places} = chlo.top_k(%given_{name}, {count})"
        f" : tensor<{shape}{wide}> -> (tensor<{kept}{wide}>, {kind})\n"
        f"{values} = stablehlo.convert %wide_{name}"
        f" : (tensor<{kept}{wide}>) -> tensor<{kept}{narrow}>"
    )


def _running(found: re.Match[str]) -> str:
    """Running sums, products and extremes of signed integers: IREE lowers no others."""
    result, operator, given, start, settings, body, shape, narrow, kept = found.groups()
    wide, name = _WIDER[narrow], result[1:]
    body = body.replace(f"tensor<{narrow}>", f"tensor<{wide}>")
    return (
        f"%given_{name} = stablehlo.convert {given}"
        f" : (tensor<{shape}{narrow}>) -> tensor<{shape}{wide}>\n"
        f"%start_{name} = stablehlo.convert {start} : (tensor<{narrow}>) -> tensor<{wide}>\n"
        f"%wide_{name} = {operator}(%given_{name}, %start_{name}) {settings} ({{\n{body}\n}})"
        f" : (tensor<{shape}{wide}>, tensor<{wide}>) -> tensor<{kept}{wide}>\n"
        f"{result} = stablehlo.convert %wide_{name}"
        f" : (tensor<{kept}{wide}>) -> tensor<{kept}{narrow}>"
    )
