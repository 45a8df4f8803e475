import itertools

import pytest

from tvm_iree_ext.base.errors import TargetError
from tvm_iree_ext.registry import ENTRIES
from tvm_iree_ext.verify.kernel_checks import check, random_cases

pytest.importorskip("tinygrad")

CHIPS = ("gfx942", "gfx1100", "gfx1201")
# Each op on one chip, by turns, with a case of its own.
TURNS = [
    (op, chip, number % 4)
    for number, (op, chip) in enumerate(zip(ENTRIES, itertools.cycle(CHIPS), strict=False))
]


@pytest.mark.parametrize(("op", "chip", "index"), TURNS, ids=lambda value: str(value))
def test_code_objects_compute_what_the_reference_says(op, chip, index):
    cases = random_cases([op], seed=1, index=index)
    (result,) = check(cases, f"rocm:{chip}", emulate=True)
    if result.status == "unsupported":
        pytest.skip(result.message)
    assert result.status == "passed", result.message


def test_a_chip_that_is_not_emulated_is_refused():
    with pytest.raises(TargetError, match="rocm:gfx1030 is not emulated; of rocm gfx90a, gfx942"):
        list(check(random_cases(["iree_linalg_ext.scan"], count=1), "rocm:gfx1030", emulate=True))
