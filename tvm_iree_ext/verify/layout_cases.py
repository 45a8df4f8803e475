"""The specification's cases of nested layouts: attributes in, named results out.

A case is a dictionary ``{"attrs": {...}, "expected": {...}}`` in the form of the specification's
JSON examples; ``attrs`` says which question is asked.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from tvm_iree_ext.base.errors import LayoutError
from tvm_iree_ext.layout.distribute import coordinates
from tvm_iree_ext.layout.nested import NestedLayout
from tvm_iree_ext.layout.ownership import subgroup_parts
from tvm_iree_ext.layout.reshaping import reshape
from tvm_iree_ext.layout.transform import apply, permute, project

Result = np.ndarray | NestedLayout | None


def run_case(case: Mapping[str, Any]) -> dict[str, Result]:
    """Answers of this package, under the names of the case's ``expected``.

    Returns:
        int32 arrays, or a layout; None for "no layout".

    Raises:
        LayoutError: for attributes that ask nothing known here, or a layout that is at fault.
    """
    attrs = case["attrs"]
    layout = NestedLayout(**attrs["layout"])
    if "transform" in attrs:
        return {"layout": _transformed(layout, attrs)}
    if "subgroup_thread_pairs" in attrs:
        return {"coordinates": _first_and_last(layout, attrs["subgroup_thread_pairs"])}
    if "virtual_thread_id" in attrs:
        return _canonical_and_back(layout, attrs["virtual_thread_id"])
    if "virtual_ids" in attrs:
        return _subgroups_in_order(layout)
    return {
        "undistributed_shape": _array(layout.undistributed_shape),
        "distributed_shape": _array(layout.distributed_shape),
        "distributed_unpacked_shape": _array(layout.distributed_unpacked_shape),
    }


def _transformed(layout: NestedLayout, attrs: Mapping[str, Any]) -> NestedLayout | None:
    if attrs["transform"] == "permute":
        return permute(layout, attrs["permutation"])
    if attrs["transform"] == "project":
        return project(layout, attrs["dropped"])
    if attrs["transform"] == "apply":
        return apply(layout, _map_results(attrs["map"]))
    if attrs["transform"] == "reshape":
        return reshape(layout, attrs["new_shape"])
    raise LayoutError(f"nested_layout case: transform {attrs['transform']!r} is unknown")


def _map_results(text: str) -> list[int | None]:
    """The results of ``(d0, d1) -> (d1, 0, d0)``: dimension numbers, None for other expressions."""
    dims, results = (
        [expression.strip() for expression in side.strip().strip("()").split(",")]
        for side in text.split("->")
    )
    return [dims.index(result) if result in dims else None for result in results]


def _first_and_last(layout: NestedLayout, pairs: list[list[int]]) -> np.ndarray:
    """Per (subgroup, lane): the coordinates of its first and its last element, side by side."""
    num_subgroups = _fitting(max(subgroup for subgroup, _ in pairs), layout.subgroup_period)
    subgroup_size = _fitting(max(lane for _, lane in pairs), layout.lane_period)
    held = coordinates(layout, num_subgroups, subgroup_size)
    held = held.reshape(num_subgroups, subgroup_size, -1, layout.rank)
    return _array([[*held[g, t, 0], *held[g, t, -1]] for g, t in pairs])


def _canonical_and_back(layout: NestedLayout, virtual: list[int]) -> dict[str, Result]:
    canonical = layout.lane_id(virtual)
    wrapped = canonical % int(np.prod(layout.thread_tile))
    return {
        "canonical_thread_id": _array(canonical),
        f"virtual_of_{canonical}": _array(layout.virtual_lane(canonical)),
        f"virtual_of_{wrapped}": _array(layout.virtual_lane(wrapped)),
    }


def _subgroups_in_order(layout: NestedLayout) -> dict[str, Result]:
    """Canonical subgroups of all virtual ids in lexicographic order, and their owners among 4."""
    subgroups = [layout.subgroup_id(virtual) for virtual in np.ndindex(layout.subgroup_tile)]
    owner = {
        tuple(virtual): subgroup
        for subgroup, parts in enumerate(subgroup_parts(layout, 4).tolist())
        for virtual in parts
    }
    return {
        "subgroup_id": _array(subgroups),
        "owner_mod_4": _array([owner[virtual] for virtual in np.ndindex(layout.subgroup_tile)]),
    }


def _fitting(largest_id: int, period: int) -> int:
    """The smallest multiple of the period that has ``largest_id``."""
    return -(-(largest_id + 1) // period) * period


def _array(values: Any) -> np.ndarray:  # nested sequences of integers, or one integer
    return np.array(values, np.int32)
