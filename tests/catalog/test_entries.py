"""Each entry of the catalog has what commands, tests, docs and the tuner take from it."""

import numpy as np
import pytest

from tvm_iree_ext import ops
from tvm_iree_ext.base.signature import Signature
from tvm_iree_ext.registry import ENTRIES

entries = pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES)


@entries
def test_is_made_by_a_public_function_of_the_dialects_name(entry):
    dialect, _, name = entry.name.partition(".")
    module = ops.vector_ext if dialect == "iree_vector_ext" else ops
    assert getattr(module, name.replace(".", "_")) is entry.make
    assert name.replace(".", "_") in module.__all__
    assert entry.summary


@pytest.mark.costly
@entries
def test_random_cases_fit_the_op_and_the_reference(entry):
    for seed in range(5):
        op, operands = entry.random_case(np.random.default_rng(seed))
        assert op.name == entry.name
        assert Signature.from_json(op.signature.to_json()) == op.signature
        assert operands.keys() == {operand.name for operand in op.signature.arguments}
        arrays = [operands[o.name] for o in op.signature.arguments]
        shapes = [
            None if isinstance(array, int | float | complex) else array.shape for array in arrays
        ]
        results = op.signature.result_shapes(op.signature.bind(op.name, shapes))
        want = entry.reference(op, operands)
        assert [array.shape for array in want.values()] == results
        assert entry.tolerance(op, operands, want).keys() == want.keys()


@entries
def test_random_cases_are_those_of_the_generator(entry):
    op, operands = entry.random_case(np.random.default_rng(3))
    again, same = entry.random_case(np.random.default_rng(3))
    assert again.describe() == op.describe()
    for name, value in operands.items():
        assert np.asarray(value).tobytes() == np.asarray(same[name]).tobytes()
