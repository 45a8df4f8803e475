"""Right kernels made wrong, one change at a time: every one is caught.

A change that changes nothing is no mutant: those are named, with the reason.
"""

import re
from dataclasses import replace

import numpy as np
import pytest
import tvm_ffi
from tvm import ir, tirx

from tvm_iree_ext.codegen.gpu.gpu_pipeline import lower_device
from tvm_iree_ext.schedules.gpu.products.matmul import schedule_matmul
from tvm_iree_ext.schedules.gpu.products.matmul_heuristic import matmul_config
from tvm_iree_ext.schedules.gpu.products.matmul_shape import MatmulShape
from tvm_iree_ext.simulator import device_functions, simulate
from tvm_iree_ext.simulator.base.lane_values import element_type
from tvm_iree_ext.simulator.runs.sample_mma import tile_product
from tvm_iree_ext.targets.gpu import chip_names
from tvm_iree_ext.targets.mma.mma_kinds import tvm_dtype
from tvm_iree_ext.targets.mma.mma_table import mma_kind
from tvm_iree_ext.targets.names import make_target

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


def called(node):
    """What a statement calls; barriers have other names on AMD."""
    name = getattr(getattr(node.value, "op", None), "name", "").removeprefix("tirx.")
    if name == "call_extern" and node.value.args[0].value.startswith("tvm_iree_ext_barrier"):
        return "tvm_storage_sync"
    return name


def calls(*names):
    return lambda node: called(node) in names


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
        sync = ir.Op.get("tirx.tvm_storage_sync")
        return tirx.Evaluate(ir.Call(sync, [ir.StringImm("warp")], ret_ty=node.value.ty))

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


RULE_CASES = {
    "sm_80": {"subgroups": (2, 1), "tiles": (1, 2), "k_tiles": 1},
    "gfx942": {"subgroups": (2, 1), "tiles": (1, 1), "k_tiles": 1, "stages": 2},
    "gfx1100": {"subgroups": (2, 1), "tiles": (1, 1), "k_tiles": 1},
}


@pytest.fixture(scope="module", params=RULE_CASES)
def product_by_rule(request):
    """A product of odd extents by the rule for matrix products: the kernel, and its case."""
    m, n, k = 50, 30, 72
    chip = request.param
    target = make_target(f"{'rocm' if chip.startswith('gfx') else 'cuda'}:{chip}")
    shape = MatmulShape(m, n, k, "float16", "float16", "float32", rhs_order=(1, 0))
    config = replace(matmul_config(shape, target), **RULE_CASES[chip])
    (kernel,) = device_functions(lower_device(schedule_matmul(shape, target, config), target))
    rng = np.random.default_rng(0)
    lhs, rhs = (rng.integers(-8, 8, s).astype("float16") for s in ((m, k), (n, k)))
    want = lhs.astype("float32") @ rhs.T.astype("float32")

    def shown(mutant):
        result = np.full_like(want, -99)
        done = simulate(mutant, {"lhs": lhs, "rhs": rhs, "result": result})
        kinds = dict.fromkeys(finding.kind for finding in done.findings)
        return ", ".join([*kinds, *([] if np.array_equal(result, want) else ["wrong result"])])

    assert shown(kernel) == ""
    return kernel, shown


def strides_one_more(func):
    """Each constant that multiplies an index in an address, unless nothing uses it.

    In a condition such a change need not change anything: between ``16 * y < 23`` and
    ``17 * y < 23`` lies no y.
    """
    text = func.script()
    unused = {
        name for name in re.findall(r"(\w+): T\.let", text)
        if len(re.findall(rf"\b{name}\b", text)) == 1
    }  # fmt: skip

    def drop(node):
        return tirx.Bind(node.var, tirx.const(0, "int32")) if node.var.name in unused else node

    func = func.with_body(tvm_ffi.structural_map(func.body, (tirx.Bind, drop)))
    conditions = set()

    def see(condition):
        tvm_ffi.structural_walk(condition, (tirx.Mul, lambda node: conditions.add(hash(node))))

    tvm_ffi.structural_walk(func.body, (tirx.LT, see))
    return mutants(
        func,
        tirx.Mul,
        lambda node: (
            isinstance(node.b, tirx.IntImm)
            and str(node.ty.dtype) == "int32"
            and hash(node) not in conditions
        ),
        lambda node: tirx.Mul(node.a, tirx.const(int(node.b) + 1, "int32")),
    )


def predicates_removed(func):
    """Each load that is done for those inside alone."""
    return mutants(
        func,
        ir.Call,
        lambda node: getattr(node.op, "name", "") == "prim.if_then_else",
        lambda node: node.args[1],
    )


@pytest.mark.costly
def test_barriers_of_a_product_by_rule(product_by_rule):
    kernel, shown = product_by_rule
    for made in (removed(kernel, "tvm_storage_sync"), barriers_of_subgroups(kernel)):
        assert {shown(mutant) for mutant in made} == {"race"}


@pytest.mark.costly
def test_strides_of_a_product_by_rule(product_by_rule):
    kernel, shown = product_by_rule
    made = list(strides_one_more(kernel))
    assert len(made) > 20
    tried = made[:: len(made) // 12]
    # What stands for a row beyond the product's is any row: a wrong one is not seen.
    assert sum(not shown(mutant) for mutant in tried) <= 1


@pytest.mark.costly
def test_predicates_of_a_product_by_rule(product_by_rule):
    kernel, shown = product_by_rule
    made = [*predicates_removed(kernel), *guards_removed(kernel)]
    assert len(made) > 4
    unseen = [mutant for mutant in made if not shown(mutant)]
    # Of the tile of K after the next, one copy has its bounds in two predicates, the same.
    assert len(unseen) <= 1
    assert "out of bounds" in shown(made[0]) or "race" in shown(made[0])


@pytest.mark.parametrize(
    ("name", "side", "other"),
    [
        ("WMMAR3_F32_16x16x16_F16", "acc", "WMMAR4_F32_16x16x16_F16"),
        ("WMMAR4_F32_16x16x16_F16", "acc", "WMMAR3_F32_16x16x16_F16"),
        ("MFMA_F32_16x16x32_F8E4M3FNUZ", "lhs", "VMFMA_F32_16x16x32_F8E4M3FNUZ"),
    ],
)
def test_the_lane_map_of_another_chip(monkeypatch, name, side, other):
    """What the instruction does comes from the table; the kernel loads or stores by a wrong row."""
    right = mma_kind(name)
    wrong = replace(right, name=f"{name}_WRONG", **{side: getattr(mma_kind(other), side)})
    monkeypatch.setattr("tvm_iree_ext.intrin.tensor_intrins.mma_kind", lambda _: wrong)
    chip = next(chip for chip in right.arch if chip in chip_names())
    module = lower_device(tile_product(wrong.name), make_target(f"rocm:{chip}"))
    (kernel,) = device_functions(module)
    rng = np.random.default_rng(0)
    types = {at: element_type(tvm_dtype(getattr(right, at))) for at in "abc"}
    depth = 2 * right.k
    a, b = (
        rng.integers(-3, 4, extents).astype(types[at])
        for at, extents in (("a", (right.m, depth)), ("b", (depth, right.n)))
    )
    c = np.zeros((right.m, right.n), types["c"])
    assert simulate(kernel, {"A": a, "B": b, "C": c}).findings == []
    assert not np.array_equal(c, a.astype("float32") @ b.astype("float32"))
