"""Kernels timed beside what else there is, on a machine whose limits are measured first.

>>> from tvm_iree_ext import bench                          # doctest: +SKIP
>>> report = bench.run(bench.select_cases("attention", "f32"), threads=(1, 2))
>>> print(report.markdown())
"""

from tvm_iree_ext.bench.case import Case, Library, Peer
from tvm_iree_ext.bench.compare import Outcome, Row
from tvm_iree_ext.bench.growth import (
    GROWTH_HEADER,
    SUBJECTS,
    Growth,
    Subject,
    growth_markdown,
    growth_row,
    measure_growth,
)
from tvm_iree_ext.bench.peaks import Peaks, measure_peaks
from tvm_iree_ext.bench.report import Machine, Report, row_cells, write_whole
from tvm_iree_ext.bench.suites import SUITES, run, select_cases
from tvm_iree_ext.bench.turns import Contender, Spread, take_turns

__all__ = [
    "GROWTH_HEADER",
    "SUBJECTS",
    "SUITES",
    "Case",
    "Contender",
    "Growth",
    "Library",
    "Machine",
    "Outcome",
    "Peaks",
    "Peer",
    "Report",
    "Row",
    "Spread",
    "Subject",
    "growth_markdown",
    "growth_row",
    "measure_growth",
    "measure_peaks",
    "row_cells",
    "run",
    "select_cases",
    "take_turns",
    "write_whole",
]
