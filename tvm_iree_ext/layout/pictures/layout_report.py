"""All about a layout, and about a conversion to another: as text, and as plain data for JSON."""

from math import lcm
from typing import Any

from tvm_iree_ext.layout.conversion import Conversion, Movement, analyse_conversion
from tvm_iree_ext.layout.nested import FIELDS, Ints, NestedLayout
from tvm_iree_ext.layout.ownership import lane_parts, replication, subgroup_parts
from tvm_iree_ext.layout.pictures.picture_text import text_picture

_SHAPES = (
    "undistributed_shape",
    "undistributed_packed_shape",
    "distributed_unpacked_shape",
    "distributed_shape",
)
_MASKS_SHOWN = 8


def fewest_hardware(*layouts: NestedLayout) -> tuple[int, int]:
    """The fewest subgroups, and lanes in each, over which all the layouts can be spread.

    Raises:
        LayoutError: when a layout is not well-formed.
    """
    for layout in layouts:
        layout.verify()
    return (
        lcm(*(layout.subgroup_period for layout in layouts)),
        lcm(*(layout.lane_period for layout in layouts)),
    )


def report_data(
    layout: NestedLayout,
    num_subgroups: int,
    subgroup_size: int,
    result: NestedLayout | None = None,
) -> dict[str, Any]:
    """Fields, shapes, replication and virtual ids, in lists, numbers, strings and None.

    With ``result`` also, under ``to``, the same of that layout, and under ``conversion`` the
    verdict with its tables ``[subgroups][lanes][registers]``.

    Raises:
        LayoutError: when the layouts do not fit the hardware, or each other.
    """
    subgroups_per_element, lanes_per_element = replication(layout, num_subgroups, subgroup_size)
    data = {
        "attribute": str(layout),
        "layout": {name: list(getattr(layout, name)) for name in FIELDS},
        **{name: list(getattr(layout, name)) for name in _SHAPES},
        "num_subgroups": num_subgroups,
        "subgroup_size": subgroup_size,
        "subgroups_per_element": subgroups_per_element,
        "lanes_per_element": lanes_per_element,
        "virtual_subgroups": subgroup_parts(layout, num_subgroups).tolist(),
        "virtual_lanes": lane_parts(layout, subgroup_size).tolist(),
    }
    if result is not None:
        conversion = analyse_conversion(layout, result, num_subgroups, subgroup_size)
        data["to"] = report_data(result, num_subgroups, subgroup_size)
        data["conversion"] = _conversion_data(conversion)
    return data


def report_text(
    layout: NestedLayout,
    num_subgroups: int,
    subgroup_size: int,
    result: NestedLayout | None = None,
    *,
    color: bool = True,
    width: int = 100,
) -> str:
    """Attribute, shapes, ids and the picture; with ``result`` also what converting to it takes.

    Raises:
        LayoutError: when the layouts do not fit the hardware, or each other.
    """
    picture = text_picture(layout, num_subgroups, subgroup_size, color=color, width=width)
    subgroup, lane = layout.subgroup_strides, layout.thread_strides
    lines = [
        str(layout),
        "",
        *(f"{name.replace('_', ' '):28}{list(getattr(layout, name))}" for name in _SHAPES),
        f"virtual id of subgroup g    {_virtual_text('g', layout.subgroup_tile, subgroup)}",
        f"virtual id of lane t        {_virtual_text('t', layout.thread_tile, lane)}",
        f"subgroup of virtual id v    {_canonical_text(subgroup)}",
        f"lane of virtual id v        {_canonical_text(lane)}",
        "",
        picture,
    ]
    if result is not None:
        conversion = analyse_conversion(layout, result, num_subgroups, subgroup_size)
        lines += ["", f"to {result}:", *_conversion_lines(conversion)]
    return "\n".join(lines)


def _conversion_data(conversion: Conversion) -> dict[str, Any]:
    masks, registers = conversion.xor_masks, conversion.xor_registers
    return {
        "movement": conversion.movement.value,
        "reason": conversion.reason,
        "xor_masks": None if masks is None else list(masks),
        "xor_registers": None if registers is None else registers.tolist(),
        "source_subgroup": conversion.source_subgroup.tolist(),
        "source_lane": conversion.source_lane.tolist(),
        "source_register": conversion.source_register.tolist(),
    }


def _conversion_lines(conversion: Conversion) -> list[str]:
    verdict = f"{conversion.movement.value}: {conversion.reason}"
    if conversion.movement is not Movement.SHUFFLE:
        return [verdict]
    if conversion.xor_masks is None:
        return [verdict, "no butterfly: a distance serves some lanes more often than others"]
    moving = [mask for mask in conversion.xor_masks if mask]
    counts = [f"{moving.count(mask)} x lane ^ {mask}" for mask in sorted(set(moving))]
    more = ["..."] if len(counts) > _MASKS_SHOWN else []
    values = ", ".join(counts[:_MASKS_SHOWN] + more)
    return [verdict, f"values that each lane takes from another: {values}"]


def _virtual_text(hardware_id: str, tiles: Ints, strides: Ints) -> str:
    terms = []
    for tile, stride in zip(tiles, strides, strict=True):
        divided = hardware_id if stride == 1 else f"{hardware_id} div {stride}"
        terms.append(f"{divided} mod {tile}" if stride else "0")
    return f"({', '.join(terms)})"


def _canonical_text(strides: Ints) -> str:
    terms = [
        f"v{dim}" if stride == 1 else f"{stride}*v{dim}"
        for dim, stride in enumerate(strides)
        if stride
    ]
    return " + ".join(terms) or "0"
