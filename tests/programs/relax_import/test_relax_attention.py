"""Attention of Relax modules by the registry's op."""

import numpy as np
import pytest
from relax_modules import module_of
from relax_programs import normal
from tvm import relax, tirx

from tvm_iree_ext.programs.program_build import build_program
from tvm_iree_ext.programs.relax_import.from_relax import from_relax


def attended(q, k, v, bias=0.0, seen=None, scale=None):
    """Of (batch, rows, heads, depth)."""
    scores = np.einsum("bmhd,bnhd->bhmn", q, k) * (scale or q.shape[-1] ** -0.5) + bias
    if seen is not None:
        scores = np.where(seen, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("bhmn,bnhd->bmhd", weights / weights.sum(-1, keepdims=True), v)


@pytest.mark.costly
@pytest.mark.parametrize(("rows", "keys"), [(9, 21), (21, 9)])
@pytest.mark.parametrize("causal", [None, "TopLeft", "BottomRight"])
def test_attention_is_the_registrys(rows, keys, causal, tmp_path):
    shapes = {"q": (2, rows, 3, 16), "k": (2, keys, 3, 16), "v": (2, keys, 3, 8)}
    mod = module_of(
        shapes, lambda q, k, v: relax.op.nn.attention(q, k, v, scale=0.3, causal_mask=causal)
    )
    imported = from_relax(mod)
    assert [op.name for op in imported.ops.values()] == ["iree_linalg_ext.attention"]
    given = [normal(*shape) for shape in shapes.values()]
    seen = None
    if causal:
        offset = abs(rows - keys) if causal == "BottomRight" else 0
        seen = np.tril(np.ones((rows, keys), bool), offset)
    got = build_program(imported, folder=tmp_path / "p")(*given)
    np.testing.assert_allclose(got, attended(*given, seen=seen, scale=0.3), 1e-4, 1e-5)


def test_a_bias_broadcasts_and_rows_may_be_known_at_the_call_only(tmp_path):
    rows = tirx.Var("rows", "int64")
    shapes = {
        "q": (1, rows, 2, 8),
        "k": (1, rows, 2, 8),
        "v": (1, rows, 2, 8),
        "b": (1, 1, 1, rows),
    }
    mod = module_of(shapes, relax.op.nn.attention)
    imported = from_relax(mod)
    assert len(imported.ops) == 1
    built = build_program(imported, folder=tmp_path / "p")
    for n in (5, 1):
        q, k, v, b = (normal(*(n if e is rows else e for e in one)) for one in shapes.values())
        np.testing.assert_allclose(built(q, k, v, b), attended(q, k, v, b), 1e-4, 1e-5)
