"""Random pools of pages for attention: tables with noise, sequences that share pages."""

from typing import Any

import numpy as np

from tvm_iree_ext.base.signature import Extent
from tvm_iree_ext.catalog.base.random_arrays import pick
from tvm_iree_ext.ops.families.attention.attention import Attention

Generator = np.random.Generator

_PAGE_KEYS = (1, 4, 7, 16, 32)
_MOST_KEYS = 130  # of a sequence, more or less
_NOISE = (-1, 10**6, -(2**31), 2**31 - 1)


def random_pool(rng: Generator) -> tuple[Extent, Extent, int]:
    """Pages of a pool, pages of a sequence, and keys of a page."""
    size = int(pick(rng, _PAGE_KEYS))
    pages: Extent = int(rng.integers(1, 12))
    width: Extent = int(rng.integers(1, _MOST_KEYS // size + 2))
    if rng.random() < 0.5:
        pages, width = "pages", "blocks" if rng.random() < 0.7 else width
    return pages, width, size


def random_table(
    rng: Generator, op: Attention, shape: tuple[int, ...], operands: dict[str, Any]
) -> np.ndarray:
    """Pages of sequences; some are outside of the pool, and behind a length is noise."""
    table = rng.integers(0, len(operands["key"]), shape)
    noise = rng.choice(_NOISE, shape)
    noisy = rng.random(shape) < 0.03
    if "key_lengths" in operands:
        size = op.extents[op.dims["k2"][-1]]
        noisy |= np.arange(shape[1]) * size >= operands["key_lengths"][:, None]
    return np.where(noisy, noise, table).astype(op.types["block_table"].dtype)


def forget_pages(op: Attention, operands: dict[str, Any]) -> None:
    """Make all of a pool not a number that is no key of any sequence: nobody may look there."""
    table, count = operands["block_table"], len(operands["key"])
    size = int(op.extents[op.dims["k2"][-1]])
    lengths = operands.get("key_lengths", np.full(len(table), table.shape[1] * size))
    used = np.zeros((count, size), bool)
    for sequence, length in zip(table.clip(0, count - 1), lengths, strict=True):
        for key in range(min(int(length), table.shape[1] * size)):
            used[sequence[key // size], key % size] = True
    for name in ("key", "value"):
        place = op.maps[name].axes.index(op.dims["k2"][-1:])
        np.moveaxis(operands[name], place, 1)[~used] = np.nan
