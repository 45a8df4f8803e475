"""docs/vector.md names every op, rule and code; its snippets run in tests/docs."""

import re

from tvm_iree_ext.vector.ir.definition import DEFINITIONS
from tvm_iree_ext.vector.ir.vector_errors import REMEDIES


def test_the_page_names_every_op_and_every_code(root):
    page = (root / "docs" / "vector.md").read_text("utf-8")
    named = set(re.findall(r"`((?:vector|arith|math|memref|tensor|linalg|scf|func)\.\w+)`", page))
    assert named == set(DEFINITIONS)
    assert set(re.findall(r"E_\w+", page)) == set(REMEDIES)
