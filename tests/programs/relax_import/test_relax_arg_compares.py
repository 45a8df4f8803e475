"""Relax's argmax and argmin are the registry's op, and select as NumPy does, NaN too."""

import numpy as np
import pytest
from tvm import relax, tirx

import tvm_iree_ext as ext
from tvm_iree_ext.base.dtypes import numpy_dtype


def built(dtype, axis, keepdims, folder):
    builder = relax.BlockBuilder()
    rows = tirx.Var("rows", "int64")
    x = relax.Var("x", relax.TensorType((rows, 9, 3), dtype))
    with builder.function("main", [x], attrs={"global_symbol": "main"}):
        with builder.dataflow():
            both = [
                builder.emit(select(x, axis, keepdims))
                for select in (relax.op.argmax, relax.op.argmin)
            ]
            given = builder.emit_output(relax.Tuple(both))
        builder.emit_func_output(given)
    return ext.build(builder.get(), folder=folder)


@pytest.mark.costly
@pytest.mark.parametrize(
    ("dtype", "axis", "keepdims"),
    [
        ("float32", 1, False),
        ("float32", -1, True),
        ("bfloat16", 0, False),
        ("float64", None, False),
        ("int8", None, True),
        ("uint16", 1, True),
    ],
)
def test_places_are_those_of_numpy(dtype, axis, keepdims, tmp_path):
    program = built(dtype, axis, keepdims, tmp_path / "p")
    computed = [kernel.computes for kernel in program.manifest.kernels]
    assert computed.count("iree_linalg_ext.arg_compare") == 2
    x = np.random.default_rng(0).integers(0, 6, (5, 9, 3)).astype(numpy_dtype(dtype))
    if "float" in dtype:
        x[0, 4:6, 1] = np.nan
        x[1], x[2] = np.inf, -np.inf
        x[3, :, 0] = np.nan
    for result, select in zip(program(x), (np.argmax, np.argmin), strict=True):
        wanted = select(x.astype("float64"), axis, keepdims=keepdims)
        np.testing.assert_array_equal(result, wanted)
        assert result.shape == np.shape(wanted)
