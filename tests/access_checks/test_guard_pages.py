"""Guarded calls: what is accessed outside of an array ends the process, and is named."""

import faulthandler
import functools
import mmap
import os

import numpy as np
import outside
import pytest
import tvm
from tvm.target import Target

from tvm_iree_ext.access_checks import guard_pages
from tvm_iree_ext.access_checks.guarded_calls import Guard, culprit, guarded_results
from tvm_iree_ext.base.errors import ExtError, TargetError
from tvm_iree_ext.codegen.linker import compile_library
from tvm_iree_ext.runtime.artifact import LIBRARY, write
from tvm_iree_ext.runtime.kernel import load
from tvm_iree_ext.runtime.manifest import Manifest
from tvm_iree_ext.verify import kernel_checks


def call(folder, guard):
    """The results of guarded calls of the kernel of a folder."""
    x = np.arange(outside.COUNT, dtype="float32")
    return [results for _, results in guarded_results(load(folder), {"x": x}, guard)]


def ends(folder, guard):
    """Whether a process ends that does so."""
    if child := os.fork():
        return os.WIFSIGNALED(os.waitpid(child, 0)[1])
    try:
        faulthandler.disable()
        call(folder, guard)
    finally:
        os._exit(0)


@pytest.fixture
def built(tmp_path):
    """``built(load=1)``: the folder of a kernel with an index so far off."""

    def build(**off):
        kind = {"kind": "llvm"}
        manifest = Manifest("toy.twice", "main", outside.SIGNATURE, {}, kind, {}, "given")
        mod = tvm.IRModule({"main": outside.moved(**off)})
        write(tmp_path / "k", manifest, lambda p: compile_library(mod, Target(kind), p / LIBRARY))
        return tmp_path / "k"

    return build


@pytest.mark.parametrize("side", ["end", "beginning"])
@pytest.mark.parametrize("dtype", ["int8", "float32", "complex128"])
def test_an_array_begins_or_ends_at_a_page(side, dtype):
    array = guard_pages.empty((3, 7), np.dtype(dtype), side)
    start, end = array.ctypes.data, array.ctypes.data + array.nbytes
    assert (start if side == "beginning" else end) % mmap.PAGESIZE == 0
    assert set(array.tobytes()) == {0xFF}
    copy = guard_pages.copy(np.ones((3, 7), dtype), side)
    assert copy.tolist() == np.ones((3, 7), dtype).tolist()


def test_a_kernel_that_stays_within_gives_its_results_at_each_place(built):
    results = call(built(), Guard())
    assert len(results) == 4, "arrays and workspaces, at the end and at the beginning of a page"
    for (y,) in results:
        np.testing.assert_array_equal(y, 2 * np.arange(outside.COUNT))


@pytest.mark.costly
@pytest.mark.parametrize(
    ("off", "said"),
    [
        ({"load": 1}, "reads behind the end of x"),
        ({"load": -1}, "reads before the beginning of x"),
        ({"store": 1}, "writes behind the end of y"),
        ({"store": -40}, "writes before the beginning of y"),
        ({"scratch": 40}, "writes behind the end of its workspace"),
        ({"scratch": -1}, "writes before the beginning of its workspace"),
    ],
)
def test_an_access_outside_is_named(built, off, said):
    folder = built(**off)
    assert ends(folder, Guard())
    assert culprit(outside.SIGNATURE, functools.partial(ends, folder)) == said


def test_what_alignment_leaves_behind_a_workspace_is_looked_at(built):
    message = "a workspace of 4000 bytes is written behind its end"
    with pytest.raises(ExtError, match=message):
        call(built(scratch=1), Guard("its workspace", ("end",)))


def test_a_workspace_holds_noise_at_first(built):
    folder = built(written=outside.COUNT - 1)
    _, at_the_end, _, at_the_beginning = call(folder, Guard())
    assert [np.isnan(y[-1]) for (y,) in (at_the_end, at_the_beginning)] == [True, True]


def test_verify_names_the_case_and_the_operand():
    cases = [outside.Planted("iree_linalg_ext.scan", 0, 1)]
    (result,) = kernel_checks.check(cases, guard=True, jobs=1)
    assert (result.id, result.status) == ("iree_linalg_ext.scan --seed 0 --case 1", "failed")
    assert result.message == "ended the process by SIGSEGV: reads behind the end of input"


def test_kernels_of_a_gpu_are_not_guarded():
    with pytest.raises(TargetError, match="cuda is no CPU target, whose kernels alone are guar"):
        kernel_checks.check([], "cuda:sm_80", simulate=True, guard=True)
