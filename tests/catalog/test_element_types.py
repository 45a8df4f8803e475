"""The table of element types, cell by cell."""

import subprocess
import sys

import numpy as np
import pytest

from tvm_iree_ext import verify
from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.errors import OpError, ScheduleError
from tvm_iree_ext.registry import ENTRIES, element_types

CELLS = [(op, dtype) for op in ENTRIES for dtype in dtypes.ELEMENTS]
TAKEN = [(op, dtype) for op, dtype in CELLS if dtype in element_types(op).taken]
# Of each way in which a type differs from others one, at ops that treat elements differently.
QUICK = [
    ("iree_linalg_ext.gather", "complex128"),
    ("iree_linalg_ext.pack", "complex64"),
    ("iree_linalg_ext.pack", "int4"),
    ("iree_linalg_ext.map_load", "float8_e5m2fnuz"),
    ("iree_linalg_ext.scatter", "complex128"),
    ("iree_linalg_ext.scatter", "float8_e4m3fn"),
    ("iree_linalg_ext.scan", "complex64"),
    ("iree_linalg_ext.scan", "uint4"),
    ("iree_linalg_ext.sort", "int4"),
    ("iree_linalg_ext.sort", "complex128"),
    ("iree_linalg_ext.topk", "float8_e4m3fnuz"),
    ("iree_linalg_ext.arg_compare", "float8_e5m2"),
    ("iree_linalg_ext.attention", "float8_e4m3fn"),
    ("iree_vector_ext.transfer_gather", "bool"),
    ("tvm_iree_ext.contraction", "int4"),
    ("tvm_iree_ext.grouped_matmul", "uint4"),
    ("tvm_iree_ext.conv_2d", "int4"),
    ("iree_vector_ext.to_simt", "complex128"),
]
SIMULATED = [
    ("iree_linalg_ext.map_store", "complex128"),
    ("iree_linalg_ext.sort", "float8_e5m2"),
    ("iree_linalg_ext.scatter", "int4"),
    ("tvm_iree_ext.contraction", "uint4"),
    ("tvm_iree_ext.conv_2d", "uint4"),
    ("tvm_iree_ext.grouped_matmul", "int4"),
]


def id_of(cell):
    op, dtype = cell
    return f"{op.rpartition('.')[2]}-{dtype}"


def check(op, dtype, target):
    kinds = element_types(op)
    made, operands = kinds.case(dtype, np.random.default_rng(7))
    if dtype in kinds.foreign.get(target.partition(":")[0], {}):
        with pytest.raises(ScheduleError):
            verify.check_op(made, operands, target, simulate=True)
        return
    result = verify.check_op(made, operands, target, simulate=target != "llvm")
    assert result.status == "passed", result.message


def test_every_op_has_its_types_and_a_reason_for_the_others():
    for op in ENTRIES:
        kinds = element_types(op)
        assert kinds.taken
        reasons = [kinds.refused, kinds.in_text, *kinds.foreign.values()]
        assert all(reason for group in reasons for reason in group.values())
        assert {one for group in reasons for one in group} <= {*dtypes.ELEMENTS, "index"}


def test_what_is_not_taken_is_refused():
    for op, dtype in set(CELLS) - set(TAKEN):
        with pytest.raises(OpError):
            element_types(op).make(dtype)


@pytest.mark.parametrize("cell", QUICK, ids=id_of)
def test_a_type_runs_beside_the_reference(cell):
    check(*cell, "llvm")


@pytest.mark.costly
@pytest.mark.parametrize("op", ENTRIES)
def test_every_type_runs_beside_the_reference(op):
    for dtype in element_types(op).taken:
        check(op, dtype, "llvm")


@pytest.mark.parametrize("target", ["cuda:sm_80", "rocm:gfx942"])
@pytest.mark.parametrize("cell", SIMULATED, ids=id_of)
def test_a_type_runs_on_simulated_gpus(cell, target):
    check(*cell, target)


@pytest.mark.costly
@pytest.mark.long
@pytest.mark.parametrize("target", ["cuda:sm_80", "rocm:gfx942"])
@pytest.mark.parametrize("op", ENTRIES)
def test_every_type_runs_on_simulated_gpus(op, target):
    for dtype in element_types(op).taken:
        check(op, dtype, target)


def test_the_page_has_the_tables_as_they_are(root):
    script = root / "scripts" / "element_types.py"
    code = (
        f"import runpy; m = runpy.run_path({str(script)!r}, run_name='tables');"
        "page = m['PAGE'].read_text('utf-8'); assert page == m['with_tables'](page)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
