"""Peaks as roofs, and the picture of what stands under them."""

import xml.etree.ElementTree as ElementTree

import pytest

from tvm_iree_ext.on_gpu.day_report import report
from tvm_iree_ext.on_gpu.roofline_svg import roofline_svg
from tvm_iree_ext.on_gpu.roofs import roofs_of

TIMED = {"us": 1000.0, "mhz": 1755, "steady": True, "who": "", "config": "", "message": ""}
PEAKS = [
    {**TIMED, "id": "copy", "bytes": 3e9},  # 3 TB/s
    {**TIMED, "id": "float16", "operations": 6e11},  # 600 TFLOP/s
    {**TIMED, "id": "float16", "operations": 3e11},  # by other instructions
    {**TIMED, "id": "float32", "operations": 5e10},
    {"id": "int8", "status": "broke", "message": "refused"},
]


def row(op, dtype, operations, moved, **others):
    known = {"id": op, "op": f"x.{op}", "dtype": dtype, "status": "passed", "error": None}
    return {**TIMED, **known, "operations": operations, "bytes": moved, **others}


def test_a_kernel_has_the_roof_of_its_memory_or_of_its_type():
    roofs = roofs_of(PEAKS)
    assert roofs.operations == {"float16": pytest.approx(6e14), "float32": pytest.approx(5e13)}
    for one, least_us in (
        (row("contraction", "float16", 6e11, 1e6), 1000.0),
        (row("attention", "float16", 6e9, 3e9), 1000.0),
        (row("scan", "float16", 5e10, 1e6), 1000.0),  # by lanes
        (row("contraction", "int8", 6e11, 3e9), 1000.0),  # whose peak nobody knows
        (row("sort", "float32", 0, 3e9), 1000.0),
        (row("pack", "float32", 0, 0), None),
    ):
        assert roofs.least_us(one) == (least_us and pytest.approx(least_us))
    assert roofs_of(PEAKS[1:]).least_us(row("contraction", "float16", 6e11, 1e6)) is None


def test_the_report_says_how_near_a_kernel_is():
    rows = [
        row("contraction", "float16", 3e11, 1e6),
        row("contraction", "float16", 3e11, 1e6, us=800.0, who="cuBLAS", steady=False),
    ]
    text = report({"kind": "cuda", "name": "H100"}, [], PEAKS, rows, [])
    assert "| float16 | 600 | 1755 |" in text
    assert "| int8 | 'refused' | |" in text
    assert "![Operations a second under the roofs of the peaks](roofline.svg)" in text
    assert "| contraction | ours | 1000.0 | 300.0 | 1 | 50% | 1.00 |  |" in text
    assert "| contraction | cuBLAS | 800.0 | 375.0 | 1 | 62% | 0.80 |  |" in text
    assert "moved in each of several tries: contraction cuBLAS." in text
    assert "roofline" not in report({"kind": "cuda"}, [], [], rows, [])


def test_the_picture_has_a_point_for_each_kernel_that_computes():
    rows = [
        row("contraction", "float16", 3e11, 1e6),
        row("contraction", "float16", 3e11, 1e6, us=800.0, who="<cuBLAS>"),
        row("scan", "float32", 1e9, 2e9),
        row("sort", "float32", 0, 2e9),
        {"id": "broke", "who": "", "message": "lost"},
    ]
    roofs = roofs_of(PEAKS)
    text = roofline_svg("H100 & driver", rows, roofs)
    picture = ElementTree.fromstring(text)
    space = "{http://www.w3.org/2000/svg}"
    points = {one.find(f"{space}title").text: one for one in picture.iter(f"{space}circle")
              if one.find(f"{space}title") is not None}  # fmt: skip
    assert list(points) == [
        "contraction, ours: 300 T, 1000.0 us",
        "contraction, <cuBLAS>: 375 T, 800.0 us",
        "scan, ours: 1 T, 1000.0 us",
    ]
    ours, peer, _ = points.values()
    assert ours.get("cx") == peer.get("cx")
    assert float(peer.get("cy")) < float(ours.get("cy"))  # higher up
    assert (ours.get("fill") == "none", peer.get("fill")) == (False, "none")
    texts = [one.text for one in picture.iter(f"{space}text")]
    assert {"H100 & driver", "3.00 TB/s", "float16 600 T", "float32 50 T"} <= set(texts)
    inside = [(float(one.get("cx")), float(one.get("cy"))) for one in points.values()]
    assert all(70 <= x <= 810 and 50 <= y <= 550 for x, y in inside)
    ElementTree.fromstring(roofline_svg("nothing", [], roofs))
