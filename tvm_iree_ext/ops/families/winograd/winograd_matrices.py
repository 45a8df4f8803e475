"""The constant matrices of the Winograd transforms, for kernels of 3 x 3."""

from fractions import Fraction
from typing import Literal

Kind = Literal["input", "filter", "output"]
Matrix = tuple[tuple[Fraction, ...], ...]

_TEXT: dict[int, dict[Kind, str]] = {
    2: {
        "input": "1 0 -1 0, 0 1 1 0, 0 -1 1 0, 0 1 0 -1",
        "filter": "1 0 0, 1/2 1/2 1/2, 1/2 -1/2 1/2, 0 0 1",
        "output": "1 1 1 0, 0 1 -1 -1",
    },
    4: {
        "input": "4 0 -5 0 1 0, 0 -4 -4 1 1 0, 0 4 -4 -1 1 0, 0 -2 -1 2 1 0, 0 2 -1 -2 1 0,"
        " 0 4 0 -5 0 1",
        "filter": "1/4 0 0, -1/6 -1/6 -1/6, -1/6 1/6 -1/6, 1/24 1/12 1/6, 1/24 -1/12 1/6, 0 0 1",
        "output": "1 1 1 1 1 0, 0 1 -1 2 -2 0, 0 1 1 4 4 0, 0 1 -1 8 -8 1",
    },
    6: {
        "input": "1 0 -21/4 0 21/4 0 -1 0, 0 1 1 -17/4 -17/4 1 1 0, 0 -1 1 17/4 -17/4 -1 1 0,"
        " 0 1/2 1/4 -5/2 -5/4 2 1 0, 0 -1/2 1/4 5/2 -5/4 -2 1 0, 0 2 4 -5/2 -5 1/2 1 0,"
        " 0 -2 4 5/2 -5 -1/2 1 0, 0 -1 0 21/4 0 -21/4 0 1",
        "filter": "1 0 0, -2/9 -2/9 -2/9, -2/9 2/9 -2/9, 1/90 1/45 2/45, 1/90 -1/45 2/45,"
        " 32/45 16/45 8/45, 32/45 -16/45 8/45, 0 0 1",
        "output": "1 1 1 1 1 1 1 0, 0 1 -1 2 -2 1/2 -1/2 0, 0 1 1 4 4 1/4 1/4 0,"
        " 0 1 -1 8 -8 1/8 -1/8 0, 0 1 1 16 16 1/16 1/16 0, 0 1 -1 32 -32 1/32 -1/32 1",
    },
}

MATRICES: dict[int, dict[Kind, Matrix]] = {
    r: {
        kind: tuple(tuple(map(Fraction, row.split())) for row in text.split(","))
        for kind, text in by_kind.items()
    }
    for r, by_kind in _TEXT.items()
}
"""By r: B^T, G and A^T, what a tile is multiplied with from the left."""
