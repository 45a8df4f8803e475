"""Kernels timed beside what else there is, on a machine whose limits are measured first.

>>> from tvm_iree_ext import bench                          # doctest: +SKIP
>>> report = bench.run(bench.select_cases("attention", "f32"), threads=(1, 2))
>>> print(report.markdown())
"""

from tvm_iree_ext.bench.base.bench_case import Case, Library, Peer
from tvm_iree_ext.bench.measure.compare import ContenderOutcome, OtherLoad, Row
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
from tvm_iree_ext.bench.programs.contenders import PEERS as PROGRAM_PEERS
from tvm_iree_ext.bench.programs.listed_programs import MODELS, PROGRAMS, select_programs
from tvm_iree_ext.bench.programs.program_case import ProgramCase
from tvm_iree_ext.bench.programs.program_picture import save_bars
from tvm_iree_ext.bench.programs.program_rows import ProgramRow
from tvm_iree_ext.bench.programs.program_runs import PROGRAM_LIMIT_S, run_programs
from tvm_iree_ext.bench.programs.program_tables import (
    program_complaints,
    program_markdown,
    program_summary,
    program_text,
)
from tvm_iree_ext.bench.results.result_tables import Machine, Report, row_text, write_whole
from tvm_iree_ext.bench.results.roofline import check_picture, save_roofline
from tvm_iree_ext.bench.results.summary import Summary, summaries, summary_lines
from tvm_iree_ext.bench.suites import OTHER_SUITES, PEERS, SUITES, run, run_odd, select_cases

__all__ = [
    "GROWTH_HEADER",
    "MODELS",
    "ODD_HEADER",
    "OTHER_SUITES",
    "PEERS",
    "PROGRAMS",
    "PROGRAM_LIMIT_S",
    "PROGRAM_PEERS",
    "SUBJECTS",
    "SUITES",
    "Case",
    "Contender",
    "ContenderOutcome",
    "Growth",
    "Library",
    "Machine",
    "Odd",
    "OtherLoad",
    "Peaks",
    "Peer",
    "ProgramCase",
    "ProgramRow",
    "Report",
    "Row",
    "Spread",
    "Subject",
    "Summary",
    "check_picture",
    "growth_markdown",
    "growth_row",
    "measure_growth",
    "measure_odd",
    "measure_peaks",
    "odd_markdown",
    "odd_row",
    "program_complaints",
    "program_markdown",
    "program_summary",
    "program_text",
    "row_text",
    "run",
    "run_odd",
    "run_programs",
    "save_bars",
    "save_roofline",
    "select_cases",
    "select_programs",
    "summaries",
    "summary_lines",
    "take_turns",
    "write_whole",
]
