"""Random ops, shapes, dtypes and attributes against the references: the property test of each op.

Arrays lie beside pages that cannot be touched: an access outside of one ends the process.

A failure names the command that runs the case again.
"""

import pytest

from tvm_iree_ext.registry import ENTRIES
from tvm_iree_ext.verify import kernel_checks

# Cases per op; the more ways there are to ask for an op, the more of them.  For all of one op's
# options in all pairs: ``tvm-iree-ext verify --op attention --cases 500``.
COUNT = dict.fromkeys(ENTRIES, 9) | {
    "iree_linalg_ext.attention": 24,
    "iree_linalg_ext.online_attention": 18,
}
CHUNKS = 3


@pytest.mark.costly
@pytest.mark.parametrize("chunk", range(CHUNKS))
@pytest.mark.parametrize("name", ENTRIES)
def test_random_cases_agree_with_the_reference(name, chunk):
    cases = [
        case
        for index in range(chunk, COUNT[name], CHUNKS)
        for case in kernel_checks.random_cases([name], seed=1, index=index)
    ]
    wrong = [
        f"{result.id}: {result.message}"
        for result in kernel_checks.check(cases, guard=True)
        if result.status != "passed"
    ]
    assert cases
    assert wrong == []
