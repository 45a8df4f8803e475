"""Right kernels made wrong, one change at a time: every one is caught.

A change that changes nothing is no mutant: those are named, with the reason.
"""

import pytest
import tvm_ffi
from tvm import ir, tirx

NOTHING = tirx.Evaluate(tirx.const(0, "int32"))


class Change:
    """Changes the ``number``-th place that ``applies`` to; counts the places."""

    def __init__(self, number, applies, change):
        self.number, self.applies, self.change, self.count = number, applies, change, 0

    def __call__(self, node):
        if not self.applies(node):
            return node
        self.count += 1
        return self.change(node) if self.count == self.number + 1 else node


def mutants(func, kind, applies, change):
    """Every function that one application of a change to a node of ``kind`` makes of ``func``."""
    number = 0
    while True:
        change_one = Change(number, applies, change)
        body = tvm_ffi.structural_map(func.body, (kind, change_one))
        if change_one.count <= number:
            return
        yield func.with_body(body)
        number += 1


def calls(*names):
    return lambda node: (
        getattr(getattr(node.value, "op", None), "name", "") in {f"tirx.{name}" for name in names}
    )


def scope(buffer):
    return str(buffer.scope())


def shifted(indices):
    return [indices[0] + 1]


def removed(func, *names):
    return mutants(func, tirx.Evaluate, calls(*names), lambda node: NOTHING)


def stores_shifted(func, where):
    return mutants(
        func,
        tirx.BufferStore,
        lambda node: scope(node.buffer) in where,
        lambda node: tirx.BufferStore(node.buffer, node.value, shifted(node.indices)),
    )


def loads_shifted(func, where):
    def shift(node):
        return tirx.BufferLoad(node.source, shifted(node.indices))

    return mutants(func, ir.TensorLoad, lambda node: scope(node.source) in where, shift)


def loops_longer(func, by):
    def longer(node):
        return tirx.For(node.loop_var, node.min, node.extent + by, node.kind, node.body)

    return mutants(func, tirx.For, lambda node: True, longer)


def guards_removed(func):
    return mutants(func, tirx.IfThenElse, lambda node: True, lambda node: node.then_case)


def waits_for_one_less(func):
    def later(node):
        groups, *rest = node.value.args
        call = ir.Call(node.value.op, [groups + 1, *rest], ret_ty=node.value.ty)
        return tirx.Evaluate(call)

    return mutants(func, tirx.Evaluate, calls("ptx.cp_async_wait_group"), later)


def barriers_of_subgroups(func):
    def narrower(node):
        call = ir.Call(node.value.op, [ir.StringImm("warp")], ret_ty=node.value.ty)
        return tirx.Evaluate(call)

    def whole(node):
        return calls("tvm_storage_sync")(node) and node.value.args[0].value != "warp"

    return mutants(func, tirx.Evaluate, whole, narrower)


def caught(case, made):
    """What shows each mutant."""
    return [case.caught(kernel) for kernel in made]


@pytest.mark.parametrize("chip", ["sm_80", "gfx942"])
def test_barriers_of_a_tiled_product(cases, lowered, chip):
    case = cases["product"]
    kernel = lowered(case.func, chip)
    assert caught(case, removed(kernel, "tvm_storage_sync")) == ["race", "race"]
    assert caught(case, barriers_of_subgroups(kernel)) == ["race", "race"]


def test_indices_and_bounds_of_a_tiled_product(cases, lowered):
    case = cases["product"]
    kernel = lowered(case.func)
    shown = caught(case, stores_shifted(kernel, ("shared", "global", "local")))
    shown += caught(case, loads_shifted(kernel, ("shared", "global", "local")))
    assert len(shown) >= 20
    assert all(shown)
    shown = caught(case, [*loops_longer(kernel, 1), *loops_longer(kernel, -1)])
    assert len(shown) == 4
    assert all(shown)


def test_barriers_of_a_reduction(cases, lowered):
    """By shuffles: the last barrier stands before the lane that wrote the result reads it."""
    case = cases["reduction"]
    kernel = lowered(case.func)
    assert caught(case, removed(kernel, "tvm_storage_sync")) == ["race", ""]


def test_barriers_of_a_reduction_in_shared_memory(cases, lowered):
    """The first barrier has nothing before it; the first of the subgroup orders what each lane
    reads before its own write, and no other lane's; the last stands as above."""
    case = cases["reduction"]
    shown = caught(case, removed(lowered(case.func, "gfx942"), "tvm_storage_sync"))
    nothing = {0, 3, len(shown) - 2, len(shown) - 1}
    assert len(shown) == 16
    assert [at for at, what in enumerate(shown) if not what] == sorted(nothing & {0, 3, 14, 15})
    assert all("race" in what for at, what in enumerate(shown) if at not in nothing)


def test_guards_of_a_reduction(cases, lowered):
    """Without the last, all lanes store what one did: the same value."""
    case = cases["reduction"]
    shown = caught(case, guards_removed(lowered(case.func)))
    assert [bool(what) for what in shown] == [True, True, True, False]


def test_a_pipeline_of_copies(cases, lowered):
    case = cases["pipeline"]
    kernel = lowered(case.func)
    for name in ("ptx.cp_async_wait_group", "tvm_storage_sync", "ptx.cp_async_cg"):
        shown = caught(case, removed(kernel, name))
        assert shown
        assert all(shown), name
    assert all(caught(case, waits_for_one_less(kernel)))
    assert all(caught(case, removed(kernel, "ptx.cp_async_commit_group")))


def test_lane_maps_and_staging_of_a_matrix_product(cases, lowered, mma_sync):
    case = cases["mma"]
    kernel = lowered(case.func)
    assert caught(case, removed(kernel, "tvm_storage_sync")) == ["race"]
    assert all(caught(case, removed(kernel, "ptx.mma", "ptx.ldmatrix")))
    assert all(caught(case, stores_shifted(kernel, ("shared", "global", "local"))))
    assert all(caught(case, loads_shifted(kernel, ("shared", "global"))))
    assert "wrong result" in case.caught(lowered(mma_sync(row_of_a=8)))  # another lane map of B


def test_the_predicate_of_a_tail(cases, lowered):
    case = cases["tail"]
    kernel = lowered(case.func)
    assert caught(case, guards_removed(kernel)) == ["out of bounds"]
    assert all(caught(case, stores_shifted(kernel, ("global",))))
    assert all(caught(case, loads_shifted(kernel, ("global",))))
