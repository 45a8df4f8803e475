"""Kernels timed beside what else there is, on a machine whose limits are measured first.

>>> from tvm_iree_ext import bench                          # doctest: +SKIP
>>> report = bench.run(bench.select_cases("attention", "f32"), threads=(1, 2))
>>> print(report.markdown())
"""

from tvm_iree_ext.bench.base.bench_case import Case, Library, Peer
from tvm_iree_ext.bench.measure.compare import ContenderOutcome, Row
from tvm_iree_ext.bench.measure.growth import (
    GROWTH_HEADER,
    SUBJECTS,
    Growth,
    Subject,
    growth_markdown,
    growth_row,
    measure_growth,
)
from tvm_iree_ext.bench.measure.peaks import Peaks, measure_peaks
from tvm_iree_ext.bench.measure.turns import Contender, Spread, take_turns
from tvm_iree_ext.bench.odd import ODD_HEADER, Odd, measure_odd, odd_markdown, odd_row
from tvm_iree_ext.bench.results.result_tables import Machine, Report, row_text, write_whole
from tvm_iree_ext.bench.results.roofline import check_roofline, save_roofline
from tvm_iree_ext.bench.results.summary import Summary, summaries, summary_lines
from tvm_iree_ext.bench.suites import PEERS, SUITES, run, run_odd, select_cases

__all__ = [
    "GROWTH_HEADER",
    "ODD_HEADER",
    "PEERS",
    "SUBJECTS",
    "SUITES",
    "Case",
    "Contender",
    "ContenderOutcome",
    "Growth",
    "Library",
    "Machine",
    "Odd",
    "Peaks",
    "Peer",
    "Report",
    "Row",
    "Spread",
    "Subject",
    "Summary",
    "check_roofline",
    "growth_markdown",
    "growth_row",
    "measure_growth",
    "measure_odd",
    "measure_peaks",
    "odd_markdown",
    "odd_row",
    "row_text",
    "run",
    "run_odd",
    "save_roofline",
    "select_cases",
    "summaries",
    "summary_lines",
    "take_turns",
    "write_whole",
]
