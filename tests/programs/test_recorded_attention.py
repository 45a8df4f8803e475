"""Attention as PyTorch programs contain it: our results against those that PyTorch recorded."""

import json

import numpy as np
import pytest
from places import DATA

import tvm_iree_ext as ext

FOLDER = DATA / "ir"
DATA = json.loads((FOLDER / "programs.json").read_text())
PROGRAMS = {program["name"]: program for program in DATA["programs"]}

# PyTorch's own result in half precision is that far from the truth; of the others the registry
# says how far a kernel may be.
F16_TOLERANCE = 1e-3


def operands_of(program: dict) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """The operands by name, and the recorded result."""
    with np.load(FOLDER / f"{program['name']}.npz") as data:
        operands = {name: data[f"in{i}"] for i, name in enumerate(program["operands"])}
        return operands, data["out0"]


def assert_close(op, operands, got, recorded):
    assert got.dtype == recorded.dtype
    if got.dtype == np.float16:
        allowed = F16_TOLERANCE
    else:
        entry = ext.registry.find(op.name)
        tolerance = entry.tolerance(op, operands, {"output": recorded})["output"]
        allowed = tolerance.absolute + tolerance.relative * np.abs(recorded)
        assert np.max(allowed) < 1e-3
    error = np.abs(got.astype(np.float64) - recorded.astype(np.float64))
    assert np.all(error <= allowed), f"off by {np.max(error):.3g}, allowed {np.max(allowed):.3g}"


@pytest.mark.costly
@pytest.mark.parametrize("name", PROGRAMS)
def test_as_it_is_written_in_pytorch(name):
    program = PROGRAMS[name]
    operands, recorded = operands_of(program)
    query, key, value = (operands[n] for n in ("query", "key", "value"))
    op = ext.ops.attention(query, key, value, mask=operands.get("mask"), **program["attributes"])
    assert op.scale == pytest.approx(program["scale"], rel=1e-7)
    assert_close(op, operands, ext.build(op)(*operands.values()), recorded)


@pytest.mark.costly
@pytest.mark.parametrize("name", PROGRAMS)
def test_as_it_is_lowered_to_iree(name):
    """Batch and heads collapsed; the causal program has a float mask of 0 and -inf."""
    program = PROGRAMS[name]
    operands, recorded = operands_of(program)
    if program["attributes"].get("causal"):
        *points, rows, _ = operands["query"].shape
        hidden = np.triu(np.full((rows, operands["key"].shape[2]), -np.inf, np.float32), 1)
        operands["mask"] = np.broadcast_to(hidden, (*points, *hidden.shape))
    collapsed = {
        name: np.ascontiguousarray(array).reshape(-1, *array.shape[2:])
        for name, array in operands.items()
    }
    names = ("query", "key", "value", "scale", *(["mask"] if "mask" in operands else []), "output")
    op = ext.ops.attention(
        *(collapsed[n] for n in ("query", "key", "value")),
        mask=collapsed.get("mask"),
        scale=program["scale"],
        indexing_maps=[DATA["indexing_maps"][n] for n in names],
    )
    got = ext.build(op)(*collapsed.values()).reshape(recorded.shape)
    assert_close(op, collapsed, got, recorded)


def test_every_recorded_attention_is_run():
    assert sorted(PROGRAMS) == sorted(path.stem for path in FOLDER.glob("sdpa*.npz"))
