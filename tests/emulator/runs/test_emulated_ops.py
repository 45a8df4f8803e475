import itertools

import pytest

from tvm_iree_ext.base.errors import TargetError
from tvm_iree_ext.codegen.gpu import cuda
from tvm_iree_ext.registry import ENTRIES
from tvm_iree_ext.verify.kernel_checks import check, example_cases, random_cases

OBSTACLE = cuda.nvrtc_obstacle()
TARGETS = {
    "rocm": ("gfx942", "gfx1100", "gfx1201"),
    "cuda": ("sm_80", "sm_90a"),
}


def turns(kind):
    """Each op on one chip, by turns, with a case of its own."""
    chips = itertools.cycle(TARGETS[kind])
    return [
        (op, f"{kind}:{chip}", number % 4)
        for number, (op, chip) in enumerate(zip(ENTRIES, chips, strict=False))
    ]


def check_one(op, target, index):
    cases = random_cases([op], seed=1, index=index)
    (result,) = check(cases, target, emulate=True)
    if result.status == "unsupported":
        pytest.skip(result.message)
    assert result.status == "passed", result.message


@pytest.mark.costly
@pytest.mark.parametrize(("op", "target", "index"), turns("rocm"), ids=str)
def test_code_objects_compute_what_the_reference_says(op, target, index):
    pytest.importorskip("tinygrad")
    check_one(op, target, index)


@pytest.mark.costly
@pytest.mark.skipif(bool(OBSTACLE), reason=f"PTX is made by NVRTC: {OBSTACLE}")
@pytest.mark.parametrize(("op", "target", "index"), turns("cuda"), ids=str)
def test_ptx_computes_what_the_reference_says(op, target, index, monkeypatch):
    monkeypatch.setattr(cuda, "find_tool", lambda name: None)  # no cubin: it is not executed
    check_one(op, target, index)


def test_a_chip_that_is_not_emulated_is_refused():
    with pytest.raises(TargetError, match="rocm:gfx908 is not emulated; of rocm gfx90a, gfx942"):
        list(check(random_cases(["iree_linalg_ext.scan"], count=1), "rocm:gfx908", emulate=True))
    with pytest.raises(TargetError, match="llvm is not emulated; rocm and cuda are"):
        list(check(random_cases(["iree_linalg_ext.scan"], count=1), "llvm", emulate=True))


def test_an_atomic_update_takes_a_position_that_was_narrowed(root):
    """TVM makes the position of a small array int32, and the function takes int64."""
    pytest.importorskip("tinygrad")
    cases = example_cases(root / "tests/data/examples.json", ["scatter"])
    chosen = [case for case in cases if case.id == "scatter/duplicates_accumulate"]
    (result,) = check(chosen, "rocm:gfx942", emulate=True)
    assert result.status == "passed", result.message
