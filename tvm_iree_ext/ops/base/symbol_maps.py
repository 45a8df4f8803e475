"""Indexing maps with symbols, ``(d0, d1)[s0] -> (s0, d1)``: their results are plain names."""

import re
from dataclasses import dataclass

from tvm_iree_ext.base.errors import OpError

_TEXT = re.compile(
    r"\s*(?:affine_map<)?\s*\(([^()]*)\)\s*(?:\[([^\[\]]*)\])?\s*->\s*\(([^()]*)\)\s*>?\s*"
)


@dataclass(frozen=True)
class SymbolMap:
    """A map whose results are each a dim (``d0``), a symbol (``s0``) or, where allowed, ``0``.

    >>> SymbolMap.parse("op", "(i, j)[s] -> (i, s)").results
    ('d0', 's0')
    """

    num_dims: int
    num_symbols: int
    results: tuple[str, ...]

    def __str__(self) -> str:
        dims, symbols = (
            ", ".join(f"{kind}{i}" for i in range(count))
            for kind, count in (("d", self.num_dims), ("s", self.num_symbols))
        )
        return (
            f"({dims})" + (f"[{symbols}]" if symbols else "") + f" -> ({', '.join(self.results)})"
        )

    @property
    def dims(self) -> tuple[int, ...]:
        """The dims among the results."""
        return tuple(int(one[1:]) for one in self.results if one[0] == "d")

    @staticmethod
    def parse(op: str, text: object, *, zero: bool = False) -> "SymbolMap":
        """Read MLIR's spelling; ``zero`` allows the constant 0 among the results.

        Raises:
            OpError: for another form, or another result.
        """
        match = _TEXT.fullmatch(text) if isinstance(text, str) else None
        if match is None:
            raise OpError(f"{op}: indexing map {text!r}: expected the form (d0)[s0] -> (d0, s0)")
        dims, symbols, results = (
            [item.strip() for item in (part or "").split(",") if item.strip()]
            for part in match.groups()
        )
        names = {name: f"d{i}" for i, name in enumerate(dims)}
        names |= {name: f"s{i}" for i, name in enumerate(symbols)}
        if len(names) != len(dims) + len(symbols):
            raise OpError(f"{op}: indexing map {text!r}: a name is declared twice")
        if zero:
            names["0"] = "0"
        for result in results:
            if result not in names:
                constant = ", nor 0" if zero else ""
                raise OpError(
                    f"{op}: indexing map {text!r}: {result!r} is not a plain dim or symbol"
                    f"{constant}"
                )
        return SymbolMap(len(dims), len(symbols), tuple(names[result] for result in results))
