"""Who is ahead and by how much, in words and as a roofline."""

import dataclasses

import pytest

from tvm_iree_ext import bench
from tvm_iree_ext.bench import suites
from tvm_iree_ext.bench.measure.compare import ContenderOutcome, Row
from tvm_iree_ext.bench.measure.turns import Spread


def row_of(case, threads, share, *ratios, op="x.matmul", limited_by="compute", status="timed"):
    """A row of ours at a share of its limit, of 1 s, and of peers A, B at ratios to ours."""
    seconds = Spread(1 / share, 1 / share, 1 / share)
    ours = ContenderOutcome("ours", status, seconds=seconds if status == "timed" else None)
    peers = [
        ContenderOutcome(name, "timed", seconds=Spread(r / share, 0, 0), speedup=Spread(r, r, r))
        for name, r in zip("AB", ratios, strict=False)
    ]
    return Row(case, op, threads, 10**9, 10**8, limited_by, 1.0, ours, peers=peers)


def test_the_fastest_peer_is_the_one_nearest_to_us_or_ahead():
    assert row_of("x", 1, 0.5, 3.0, 2.0).fastest.name == "B"
    assert row_of("x", 1, 0.5).fastest is None


def test_a_summary_has_the_mean_of_ratios_and_who_is_behind_or_below():
    rows = [
        row_of("a", 1, 0.9, 4.0, 8.0, op="tvm_iree_ext.contraction"),
        row_of("b", 1, 0.84, 0.25, 8.0, op="tvm_iree_ext.contraction"),
        row_of("c", 1, 0.79, op="iree_linalg_ext.scan", limited_by="memory"),
        row_of("d", 1, 0.1, 8.0, op="iree_linalg_ext.sort", limited_by="memory"),
        row_of("e", 1, 0.1, op="tvm_iree_ext.fft_transform"),
        row_of("f", 2, 1.0, 2.0, status="wrong"),
    ]
    one, two = bench.summaries(rows)
    assert one.cases == 3
    assert one.geometric_mean == pytest.approx(2.0)  # of 4, 1/4 and 8
    assert [row.case for row in one.behind] == ["b"]
    assert [row.case for row in one.below] == ["b", "c"]
    assert (two.threads, two.untimed) == (2, ("f",))
    text = "\n".join(bench.summary_lines([one]))
    assert "2.00 times as long as ours, the geometric mean of 3 cases; it is ahead in 1" in text
    assert "b 0.25x A" in text
    assert "b 84% of compute (bar 85%), c 79% of memory (bar 80%)" in text


@pytest.mark.costly
@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_a_roofline_is_drawn_with_and_without_cases_that_compute(known_peaks, tmp_path, suffix):
    pytest.importorskip("matplotlib", reason="draws the picture: scripts/setup dev bench")
    moving = dataclasses.replace(row_of("moved", 1, 0.5, 0.5), flops=0)
    machine = bench.Machine("a machine", 2, "", "", {})
    for rows in ([row_of("ours_ahead", 1, 0.5, 2.0), moving], [moving]):
        report = bench.Report("x", False, machine, suites.measure_peaks([1]), rows)
        path = tmp_path / f"roofline.{suffix}"
        bench.save_roofline(report, path)
        start = path.read_bytes()[:400]
        assert start.startswith(b"\x89PNG") if suffix == "png" else b"<svg" in start
    with pytest.raises(ValueError, match="'doc' is none of"):
        bench.check_picture(tmp_path / "roofline.doc")
