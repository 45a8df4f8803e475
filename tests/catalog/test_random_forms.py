"""Random cases have the forms in which ops can be given."""

import numpy as np
import pytest

from tvm_iree_ext.base import dtypes
from tvm_iree_ext.registry import ENTRIES


def has_numbers(op, operands):
    return bool(op.region_scalars)


def has_no_elements(op, operands):
    return any(np.size(one) == 0 for one in operands.values())


def raises(op, operands):
    return op.out_of_range == "error"


def has_words(op, operands):
    return any(one.dtype in dtypes.WORDS for one in op.outputs)


def has_layouts(op, operands):
    return op.layouts is not None


def has_nibbles(op, operands):
    return any(one.dtype in dtypes.INTEGERS4 for one in op.signature.arguments)


def has_tiles_of_a_call(op, operands):
    return any(isinstance(tile, str) for tile in op.inner_tiles)


def has_more_tiles(op, operands):
    return any(isinstance(one, str) for one in op.signature.results[0].least)


FORMS = {
    "iree_linalg_ext.attention": [has_numbers, has_no_elements],
    "iree_linalg_ext.online_attention": [has_numbers],
    "iree_linalg_ext.exp_reduction": [has_numbers, has_no_elements],
    "iree_linalg_ext.custom_op": [has_words, has_no_elements],
    "iree_linalg_ext.map_load": [has_numbers, has_no_elements],
    "iree_linalg_ext.map_store": [has_numbers, has_no_elements],
    "iree_linalg_ext.pack": [has_no_elements, has_tiles_of_a_call, has_more_tiles],
    "iree_linalg_ext.unpack": [has_no_elements, has_tiles_of_a_call],
    "iree_linalg_ext.scatter": [raises, has_numbers],
    "iree_linalg_ext.gather": [raises],
    "iree_linalg_ext.fft": [has_no_elements],
    "iree_linalg_ext.im2col": [has_no_elements],
    "tvm_iree_ext.contraction": [has_layouts, has_nibbles, has_no_elements],
    "tvm_iree_ext.conv_2d": [has_nibbles, has_no_elements],
    "tvm_iree_ext.grouped_matmul": [has_nibbles, has_no_elements],
}


@pytest.mark.parametrize("op", FORMS)
def test_forms_are_drawn(op):
    lacking = list(FORMS[op])
    for seed in range(200):
        made, operands = ENTRIES[op].random_case(np.random.default_rng([1, seed]))
        lacking = [form for form in lacking if not form(made, operands)]
        if not lacking:
            return
    assert not lacking
