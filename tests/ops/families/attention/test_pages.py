"""Key and value in pages of a pool: what the op takes, refuses, and says of itself."""

import re

import numpy as np
import pytest
import tvm

from tvm_iree_ext import ops
from tvm_iree_ext.base.errors import CallError, OpError
from tvm_iree_ext.building.kernel_build import build
from tvm_iree_ext.catalog.attention import run_reference
from tvm_iree_ext.ops import TensorType

QUERY, POOL, TABLE = (2, 4, 3, 8), (5, 2, 16, 8), (2, 3)
MAPS = [
    "(b, m, n, k1, k2) -> (b, m, k1)",
    "(b, m, n, k1, k2) -> (b, k2, k1)",
    "(b, m, n, k1, k2) -> (b, k2, n)",
    "(b, m, n, k1, k2) -> ()",
    "(b, m, n, k1, k2) -> (b, m, n)",
]


def attention(pool=POOL, table=TABLE, **options):
    return ops.attention(QUERY, pool, pool, block_table=table, **options)


def test_a_key_is_of_a_page_and_a_place_in_it():
    op = attention(key_lengths=(2,))
    assert [str(one) for one in op.signature.arguments][3:] == [
        "key_lengths: int32[2]",
        "block_table: int32[2, 3]",
    ]
    assert op.count("k2") == 3 * 16
    # Where the table leaves pages in order, sequence b has pages 3 b to 3 b + 2 of the pool.
    assert op.maps["key"].axes[0] == op.dims["b"][:1] + op.dims["k2"][:1]


@pytest.mark.parametrize(
    ("layout", "pages", "pool"),
    [("bshd", None, (5, 16, 2, 8)), ("bshd", "phsd", POOL), ("bhsd", "pshd", (5, 16, 2, 8))],
)
def test_the_pool_has_a_layout_of_its_own_if_asked(layout, pages, pool):
    query = QUERY if layout == "bhsd" else (2, 3, 4, 8)
    op = ops.attention(query, pool, pool, block_table=TABLE, layout=layout, pages=pages)
    assert op.count("k2") == 48
    assert op.types["output"].shape == query


def test_pages_of_the_pool_and_of_a_sequence_may_be_known_at_call_time():
    op = attention(("?", 2, 16, 8), (2, "blocks"), causal="lower_right", mask=(4, 3, 1))
    key, value = (op.types[name].shape for name in ("key", "value"))
    assert key == value
    assert set(op.signature.symbols) == {key[0], "blocks"}


REFUSED = {
    "block_table [6] has rank 1; expected 2, the batch and the pages of a sequence": (
        lambda: attention(table=(6,))
    ),
    "block_table has dtype float32; supported are int32, int64": (
        lambda: attention(table=TensorType(TABLE, "float32"))
    ),
    "pages is 'hspd'; expected 'phsd' or 'pshd'": lambda: attention(pages="hspd"),
    "key [0, 2, 16, 8] has no page; expected 1 or more": lambda: attention((0, 2, 16, 8)),
    "key axis 2 has extent 'size'; expected the keys of a page, a number from 1 on": (
        lambda: attention((5, 2, "size", 8))
    ),
    "pages is 'phsd', and block_table, which gives them, is missing": (
        lambda: ops.attention(QUERY, POOL, POOL, pages="phsd")
    ),
    "block_table and indexing_maps came both; pages are of a layout": (
        lambda: ops.attention(
            (2, 3, 4), (2, 5, 4), (2, 5, 6), indexing_maps=MAPS, block_table=(2, 1)
        )
    ),
    "value axis 0 (d8) has extent 6; expected 5 as in key axis 0 (d8)": (
        lambda: ops.attention(QUERY, POOL, (6, 2, 16, 8), block_table=TABLE)
    ),
    "block_table axis 0 (d0) has extent 3; expected 2 as in query axis 0 (d0)": (
        lambda: attention(table=(3, 3))
    ),
    "mask [47] does not broadcast to [2, 4, 3, 48]": lambda: attention(mask=(47,)),
}


@pytest.mark.parametrize("message", REFUSED)
def test_refuses(message):
    with pytest.raises(OpError, match=re.escape(message)):
        REFUSED[message]()


def test_a_call_needs_a_page():
    kernel = build(attention(("pages", 2, 16, 8)))
    pool = np.zeros((0, 2, 16, 8), "float32")
    with pytest.raises(CallError, match="key axis 0 has extent 0; expected at least 1"):
        kernel(np.zeros(QUERY, "float32"), pool, pool, np.zeros(TABLE, "int32"))


def test_the_canonical_function_reads_through_the_table():
    rng = np.random.default_rng(0)
    op = ops.attention(
        *(TensorType(shape, "float64") for shape in (QUERY, POOL, POOL)),
        block_table=TABLE, key_lengths=(2,), causal="lower_right", window=(20, None),
    )  # fmt: skip
    query, key, value = (rng.standard_normal(shape) for shape in (QUERY, POOL, POOL))
    lengths, table = np.array([20, 48], "int32"), np.array([[3, 7, -9], [0, 4, 1]], "int32")
    operands = (query, key, value, lengths, table)
    got = tvm.runtime.tensor(np.zeros(QUERY))
    tvm.compile(op.prim_func(), target="llvm")(*map(tvm.runtime.tensor, operands), got)
    names = [one.name for one in op.signature.arguments]
    want = run_reference(op, dict(zip(names, operands, strict=True)))["output"]
    np.testing.assert_allclose(got.numpy(), want, atol=1e-12)
