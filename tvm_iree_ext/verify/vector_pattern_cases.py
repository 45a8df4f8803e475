"""The specification's counts of the patterns as cases: stages, unrolling, lowering; and cast costs.

A case is right when the ops are those that are expected and the program gives what it gave before.
"""

import re
from collections.abc import Callable, Mapping
from math import inf
from typing import Any

import numpy as np

from tvm_iree_ext.vector import article_programs, patterns
from tvm_iree_ext.vector.analysis.costs import cast_cost
from tvm_iree_ext.vector.analysis.op_counts import Counts, count
from tvm_iree_ext.vector.ir.core import Block, Value
from tvm_iree_ext.vector.ir.vector_types import numpy_type, vector
from tvm_iree_ext.vector.patterns.places import READS, access_of
from tvm_iree_ext.vector.programs.builder import program
from tvm_iree_ext.vector.programs.vector_program import VectorProgram
from tvm_iree_ext.vector.stages import Stage, stages

_MATMUL = ("(m, n, k) -> (m, k)", "(m, n, k) -> (k, n)", "(m, n, k) -> (m, n)")
_MATVEC = ("(n, k) -> (k)", "(n, k) -> (k, n)", "(n, k) -> (n)")

_EXAMPLES: Mapping[str, Callable[[], VectorProgram]] = {
    "matmul": article_programs.dot,
    "conv": article_programs.conv,
}

_LOWERINGS: Mapping[str, Callable[[VectorProgram], VectorProgram]] = {
    "outerproduct": patterns.lower_contracts,
    "outerproduct then fma": lambda p: patterns.lower_outer_products(patterns.lower_contracts(p)),
    "dot": lambda p: patterns.lower_contracts(p, "dot"),
    "one shuffle": lambda p: patterns.lower_transposes(p, "shuffle"),
    "element wise": lambda p: patterns.lower_transposes(p, "elementwise"),
    "inner reduction": lambda p: patterns.lower_reductions(p, "inner_reduction"),
    "inner parallel": lambda p: patterns.lower_reductions(p, "inner_parallel"),
}


SECTIONS = ("stage_counts", "unroll_counts", "lowering_counts", "cast_costs")


def name_of(section: str, case: Mapping[str, Any]) -> str:
    """Name of a case: ``stage/matmul/hoisted``, ``unroll/4x4x4/1x4x1``."""
    if section == "stage_counts":
        return f"stage/{case['example']}/{case['stage']}"
    if section == "unroll_counts":
        sizes = ("x".join(map(str, case[name])) for name in ("contract_mnk", "native_mnk"))
        return f"unroll/{'/'.join(sizes)}"
    if section == "cast_costs":
        shapes = ("x".join(map(str, case[name])) for name in ("from", "to"))
        return f"cast/{'/'.join(shapes)}"
    return f"lowering/{case['from']}/{case['strategy']}"


def wrong(section: str, case: Mapping[str, Any]) -> str:
    """The error in the counts, for a message; empty when they are right.

    Raises:
        VectorError: when a pattern refuses the program.
        KeyError: for a case of an unknown program, stage or strategy.
    """
    return _WRONG[section.removeprefix("vector.")](case)


def _wrong_cast(case: Mapping[str, Any]) -> str:
    cost, expected = cast_cost(case["from"], case["to"], case["native"]), float(case["cost"])
    if (cost != inf) != case["legal"]:
        return f"costs {cost:g}, and is said to be {'legal' if case['legal'] else 'no legal cast'}"
    return "" if cost == expected else f"costs {cost:g}, expected {expected:g}"


def _wrong_stage(case: Mapping[str, Any]) -> str:
    every = {one.name: one for one in stages(_EXAMPLES[case["example"]]())}
    stage = every[case["stage"]]
    counts = stage.counts
    for region in ("before", "loop", "after"):
        found, expected = counts[region], case[region]
        for spelling, number in expected.items():
            got = _count(stage, found, spelling)
            if got != number:
                return f"{region}: {spelling} is {got}, expected {number}"
        # The article's listings show all ops; what was derived names those that matter.
        more = {one for one in found if found[one] and not _is_named(one, expected)}
        if more and case["source"] == "counted in the listing":
            return f"{region}: {', '.join(sorted(more))} came, and is not expected"
    carried = stage.carried
    return "" if carried == [case["loop_carried"]] else f"carried is {carried}"


def _count(stage: Stage, found: Counts, spelling: str) -> int:
    if spelling == "accumulator access":
        return sum(map(_is_accumulator_access, _innermost(stage)))
    plain = re.sub(r" \(.*\)$", "", spelling)
    return found.of({"scalar extract": "extract ->scalar"}.get(plain, plain))


def _is_named(spelling: str, expected: Mapping[str, int]) -> bool:
    return spelling in expected or spelling.partition(" ")[0] in expected


def _innermost(stage: Stage) -> list[Any]:
    loops = stage.program.find("scf.for")
    return list(loops[-1].body.walk())


def _is_accumulator_access(op: Any) -> bool:
    """Whether an op in a loop writes, or reads what a loop carries."""
    access = access_of(op)
    if access is None or op.name not in READS:
        return access is not None
    return (
        isinstance(access.memory.owner, Block)
        and access.memory in access.memory.owner.carried
        and access.memory.owner.parent is not None
    )


def _wrong_unrolling(case: Mapping[str, Any]) -> str:
    m, n, k = case["contract_mnk"]
    before = _contract((m, k), (k, n), (m, n))
    native = tuple(case["native_mnk"])
    after = patterns.unroll(before, lambda op: native if op.name == "vector.contract" else None)
    got = len(after.find("vector.contract"))
    if got != case["contracts"]:
        return f"{got} contracts, expected {case['contracts']}"
    return _difference(before, after)


def _wrong_lowering(case: Mapping[str, Any]) -> str:
    before = _program_of(case["from"])
    after = _LOWERINGS[case["strategy"]](before)
    found = count(after.body)
    for spelling, number in case["expected"].items():
        got = found.of({"scalar extract": "extract ->scalar"}.get(spelling, spelling))
        if got != number:
            return f"{spelling} is {got}, expected {number}"
    return _difference(before, after)


def _program_of(text: str) -> VectorProgram:
    """The program of one op, such as ``contract 4x4x4 f32`` or ``transpose 4x4``."""
    name, *words = text.split()
    if name == "contract" and "," in words[0]:
        lhs, rhs, acc = (_extents(one) for one in words[0].split(","))
        return _contract(lhs, rhs, acc)
    if name == "contract":
        m, n, k = _extents(words[0])
        return _contract((m, k), (k, n), (m, n))
    with program(name) as b:
        if name == "transpose":
            b.returns(b.transpose(b.argument("v", vector(_extents(words[0]))), (1, 0)))
        else:
            kind, shape = words[0], _extents(words[1])
            dims = [int(one) for one in re.findall(r"\d+", words[3])]
            v = b.argument("v", vector(shape))
            kept = [extent for dim, extent in enumerate(shape) if dim not in dims]
            b.returns(b.multi_reduction(v, b.argument("acc", vector(kept)), dims, kind=kind))
    return b.program


def _extents(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split("x")))


def _contract(lhs: tuple[int, ...], rhs: tuple[int, ...], acc: tuple[int, ...]) -> VectorProgram:
    is_matmul = len(acc) == 2
    with program("contract") as b:
        values: list[Value] = [
            b.argument(name, vector(shape))
            for name, shape in (("lhs", lhs), ("rhs", rhs), ("acc", acc))
        ]
        made = b.contract(
            *values,
            indexing_maps=_MATMUL if is_matmul else _MATVEC,
            iterator_types=["parallel"] * (2 if is_matmul else 1) + ["reduction"],
        )
        b.returns(made)
    return b.program


def _difference(before: VectorProgram, after: VectorProgram) -> str:
    """The difference of two programs on small whole numbers, of which sums are exact."""
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-8, 9, one.shape).astype(numpy_type(one.dtype)) for one in before.inputs]
    pairs = zip(before.evaluate(*arrays).values(), after.evaluate(*arrays).values(), strict=True)
    return "" if all(np.array_equal(a, b) for a, b in pairs) else "the results are not the same"


_WRONG: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "stage_counts": _wrong_stage,
    "unroll_counts": _wrong_unrolling,
    "lowering_counts": _wrong_lowering,
    "cast_costs": _wrong_cast,
}
