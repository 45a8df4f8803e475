"""Random webs: the same everywhere, and of what they say."""

import subprocess
import sys

import numpy as np
import pytest

from tvm_iree_ext.base.dtypes import numpy_dtype
from tvm_iree_ext.random_programs.doors.linalg import LINALG
from tvm_iree_ext.random_programs.drawing.generate import TYPES, random_web
from tvm_iree_ext.random_programs.drawing.values import GREATEST
from tvm_iree_ext.random_programs.drawing.vocabulary import TABLE, meaning
from tvm_iree_ext.random_programs.drawing.web import from_json, pruned

SEEDS = range(12)


@pytest.fixture(scope="module", params=TYPES)
def webs(request):
    return [random_web(seed, request.param, ops=TABLE) for seed in SEEDS]


def test_a_seed_is_one_program_in_every_process():
    code = (
        "import zlib\n"
        "from tvm_iree_ext.random_programs.drawing.generate import random_web\n"
        "from tvm_iree_ext.random_programs.drawing.vocabulary import TABLE\n"
        "web = random_web(7, 'mixed', ops=TABLE)\n"
        "print(zlib.crc32(web.to_json().encode()), *(zlib.crc32(a.tobytes()) for a in"
        " web.arrays()))"
    )
    command = [sys.executable, "-c", code]
    runs = {subprocess.run(command, capture_output=True, check=True).stdout for _ in range(2)}
    assert len(runs) == 1
    assert runs != {b""}


def test_webs_have_as_many_operations_as_asked(webs):
    assert all(web.nodes for web in webs)
    assert max(len(web.nodes) for web in webs) > 10
    assert all(len(web.nodes) <= 30 for web in webs)
    assert len(random_web(3, "int32", ops=TABLE, most=6).nodes) <= 6


def test_each_array_has_the_type_that_its_operation_says(webs):
    for web in webs:
        values = meaning(web)
        assert [value.type for value in values] == web.types
        for one, array in zip(web.inputs, web.arrays(), strict=True):
            assert (array.shape, array.dtype) == (one.type.shape, numpy_dtype(one.type.dtype))


def test_every_number_is_within_its_bounds(webs):
    for web in webs:
        for value in meaning(web):
            assert np.all(np.isfinite(value.error))
            if value.is_float:
                assert np.all(np.abs(value.data) <= GREATEST[value.dtype])


def test_every_operation_is_drawn():
    drawn = {op for dtype in TYPES for seed in range(60) for op in _ops(seed, dtype)}
    assert drawn == set(TABLE)


def _ops(seed, dtype):
    return random_web(seed, dtype, ops=TABLE).ops()


def test_a_web_is_its_json(webs):
    assert [from_json(web.to_json()) for web in webs] == webs


def test_a_pruned_web_means_the_same(webs):
    for web in webs:
        last = web.results[-1]
        alone = pruned(web, [last])
        assert len(alone.nodes) <= len(web.nodes)
        np.testing.assert_array_equal(
            meaning(alone)[alone.results[0]].data, meaning(web)[last].data
        )


def test_an_array_without_elements_stands_for_one_of_another_rank():
    random_web(209, "float32", ops={op: TABLE[op] for op in TABLE if op in LINALG.ops})
